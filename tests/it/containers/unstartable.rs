//! Missing and broken images: people and the operator are notified, and agents start once the image exists.

use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use super::house::{House, podman};

/// Podman reads the names of an image, changes them and writes them back. Of two concurrent changes to one image, one
/// is lost.
static NAMES: Mutex<()> = Mutex::new(());

fn rename(house: &House, arguments: &[&str]) {
    let _alone = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    house.podman(arguments);
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
    fn put(self, house: &House, name: &str) {
        rename(house, &["untag", name, name]);
        if self == Self::Missing {
            return;
        }
        let root = house.host.path("root");
        let bin = root.join("usr/local/bin");
        std::fs::create_dir_all(&bin).unwrap();
        if self == Self::WithForeignRunner {
            let runner = bin.join("hearth-runner");
            std::fs::write(&runner, b"\x7fELF of another kind").unwrap();
            std::fs::set_permissions(&runner, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        }
        let tar = house.host.path("image.tar");
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
        house.podman(&["import", "--quiet", tar.to_str().unwrap(), name]);
    }

    fn words(self) -> &'static str {
        match self {
            Self::Missing => "run `hearth image build`",
            Self::WithoutRunner | Self::WithForeignRunner => "no working program at /usr/local/bin/hearth-runner",
        }
    }
}

fn case(image: Image) {
    let (Some(mut house), Some((_, whole))) = (House::new("provider = \"echo\""), podman()) else { return };
    let name = format!("localhost/hearth-test-{}:1", format!("{image:?}").to_lowercase());
    rename(&house, &["tag", &whole, &name]);
    house.host.apply(&format!("schema = 1\nimage = \"{name}\"\n"));
    house.host.start();
    image.put(&house, &name);
    house.types(1, "hello");
    let told = house.wait_shown("The agent is not available").remove(0);
    assert!(told.contains("Your message waits") && !told.contains(image.words()), "{told}");
    let doctor: Value = serde_json::from_str(&house.host.run(&["doctor", "--json"], b"").stdout).unwrap();
    let found = doctor["checks"].to_string();
    let session = || house.host.done(&["sessions", "show", "se1"], b"");
    assert!(found.contains("agent main failed to start") && found.contains(image.words()), "{found}\n{}", session());
    rename(&house, &["untag", &name, &name]);
    rename(&house, &["tag", &whole, &name]);
    house.wait_shown("echo: hello");
    house.types(2, "are you there?");
    let shown = house.wait_shown("echo: are you there?");
    assert_eq!(shown, [told.as_str(), "echo: hello", "echo: are you there?"], "told once, and by itself");
    house.settle();
    assert_eq!(house.host.rows("messages").iter().filter(|row| row["value"]["tries"] != 0).count(), 0);
    house.stop();
    rename(&house, &["untag", &name, &name]);
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
