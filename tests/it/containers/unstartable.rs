//! Missing and broken images: people and the operator are notified, and agents start once the image exists.

use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use super::setup::{Setup, podman};

/// Podman reads the names of an image, changes them and writes them back. Of two concurrent changes to one image, one
/// is lost.
static NAMES: Mutex<()> = Mutex::new(());

fn rename(setup: &Setup, arguments: &[&str]) {
    let _alone = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    setup.podman(arguments);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Image {
    Missing,
    WithoutRunner,
    /// An image for a different processor architecture.
    WithForeignRunner,
}

impl Image {
    /// Replaces the image with this one.
    fn put(self, setup: &Setup, name: &str) {
        rename(setup, &["untag", name, name]);
        if self == Self::Missing {
            return;
        }
        let root = setup.host.path("root");
        let bin = root.join("usr/local/bin");
        std::fs::create_dir_all(&bin).unwrap();
        if self == Self::WithForeignRunner {
            let runner = bin.join("hearth-runner");
            std::fs::write(&runner, b"\x7fELF of another kind").unwrap();
            std::fs::set_permissions(&runner, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        }
        let tar = setup.host.path("image.tar");
        assert!(
            Command::new("tar")
                .arg("-C")
                .arg(&root)
                .arg("-cf")
                .args([Path::new(&tar), Path::new(".")])
                .status()
                .unwrap()
                .success()
        );
        setup.podman(&["import", "--quiet", tar.to_str().unwrap(), name]);
    }

    fn words(self) -> &'static str {
        match self {
            Self::Missing => "run `hearth image build`",
            Self::WithoutRunner | Self::WithForeignRunner => "no working program at /usr/local/bin/hearth-runner",
        }
    }
}

fn case(image: Image) {
    let (Some(mut setup), Some((_, whole))) = (Setup::new("provider = \"echo\""), podman()) else { return };
    let name = format!("localhost/hearth-test-{}:1", format!("{image:?}").to_lowercase());
    rename(&setup, &["tag", &whole, &name]);
    setup.host.apply(&format!("schema = 1\nimage = \"{name}\"\n"));
    setup.host.start();
    image.put(&setup, &name);
    setup.types(1, "hello");
    let told = setup.wait_shown("The agent is not available").remove(0);
    assert!(told.contains("Your message waits") && !told.contains(image.words()), "{told}");
    let doctor: Value = serde_json::from_str(&setup.host.run(&["doctor", "--json"], b"").stdout).unwrap();
    let found = doctor["checks"].to_string();
    let session = || setup.host.done(&["sessions", "show", "se1"], b"");
    assert!(found.contains("agent main failed to start") && found.contains(image.words()), "{found}\n{}", session());
    rename(&setup, &["untag", &name, &name]);
    rename(&setup, &["tag", &whole, &name]);
    setup.wait_shown("echo: hello");
    setup.types(2, "are you there?");
    let shown = setup.wait_shown("echo: are you there?");
    assert_eq!(shown, [told.as_str(), "echo: hello", "echo: are you there?"], "told once, and by itself");
    setup.settle();
    assert_eq!(setup.host.rows("messages").iter().filter(|row| row["value"]["tries"] != 0).count(), 0);
    setup.stop();
    rename(&setup, &["untag", &name, &name]);
}

#[test]
fn a_missing_image() {
    case(Image::Missing);
}

#[test]
fn an_image_without_the_runner() {
    case(Image::WithoutRunner);
}

#[test]
fn an_image_of_another_kind_of_processor() {
    case(Image::WithForeignRunner);
}
