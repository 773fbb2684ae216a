//! The daemon of an unprivileged user with their own Podman. A message is answered in a container although the
//! container and the daemon die, and every attack of the list that needs no control groups is tried.
//!
//! `.ci/rootless.sh` runs it as such a user. It needs a `hearth-runner` built by `cargo runner`.

use std::path::{Path, PathBuf};
use std::process::Command;

use hearth::model::configure::RuntimeKind;

use super::self_test::{all_that_is_promised, tested};
use crate::host::{Host, wait_for};

const KEY: &str = "marked-key-without-root-8c41";
const IMAGE: &str = "localhost/hearth-rootless:test";

/// The runner for containers.
fn runner() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("target");
    let entries = std::fs::read_dir(target).ok()?.flatten();
    entries.map(|entry| entry.path().join("release/hearth-runner")).find(|path| {
        path.is_file() && path.components().any(|part| part.as_os_str().to_string_lossy().contains("-linux-"))
    })
}

fn podman(arguments: &[&str]) -> String {
    let output = Command::new("podman").arg("--remote").args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Copies this machine's curl with its libraries: the hostile agent sends requests with it.
fn place_curl(root: &Path) {
    let path = String::from_utf8(Command::new("sh").args(["-c", "command -v curl"]).output().unwrap().stdout).unwrap();
    let listed = Command::new("ldd").arg(path.trim()).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let libraries = listed.split_whitespace().filter(|word| word.starts_with('/'));
    // The image's search path has no `/usr/bin`.
    for (file, at) in libraries.map(|file| (file, file)).chain([(path.trim(), "/usr/local/bin/curl")]) {
        let copy = root.join(at.trim_start_matches('/'));
        std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
        std::fs::copy(file, copy).unwrap();
    }
    // Where Hearth mounts the certificates that agents trust.
    std::fs::create_dir_all(root.join("etc/ssl/certs")).unwrap();
    std::fs::write(root.join("etc/ssl/certs/ca-certificates.crt"), "").unwrap();
}

/// The small image for tests, with the real runner and curl in it.
fn image(host: &Host, runner: &Path) {
    let context = host.path("context");
    std::fs::create_dir(&context).unwrap();
    std::fs::copy(runner, context.join("hearth-runner")).unwrap();
    let base = std::env::var("HEARTH_TEST_IMAGE").unwrap();
    let root = context.join("root");
    place_curl(&root);
    let recipe = format!("FROM {base}\nCOPY hearth-runner /usr/local/bin/hearth-runner\nCOPY root/ /\n");
    std::fs::write(context.join("Containerfile"), recipe).unwrap();
    podman(&["build", "--quiet", "--tag", IMAGE, context.to_str().unwrap()]);
}

/// A host whose agents run in rootless containers; none if this machine has no rootless Podman.
fn setup() -> Option<Host> {
    let skip = |why: &str| {
        eprintln!("SKIPPED: {why}; `.ci/rootless.sh` makes what is needed");
        None
    };
    let rootless = !rustix::process::geteuid().is_root();
    let Some(socket) = std::env::var("HEARTH_TEST_SERVICE").and_then(|_| std::env::var("HEARTH_TEST_PODMAN")).ok()
    else {
        return skip("there is no Podman of its own");
    };
    if !rootless {
        return skip("this is root");
    }
    let Some(runner) = runner() else { return skip("there is no hearth-runner for containers") };
    let mut host = Host::new();
    host.runtime = "podman";
    host.env.push(("CONTAINER_HOST".to_owned(), format!("unix://{socket}")));
    host.env.push(("MARKED".to_owned(), KEY.to_owned()));
    image(&host, &runner);
    let chat = crate::host::CHAT;
    host.apply(&format!(
        "schema = 1\nimage = \"{IMAGE}\"\n[[agents]]\nfolder = \"main\"\nprovider = \"echo\"\nnetwork = \"none\"\n\
         env = {{ KEY = \"env:MARKED\" }}\n{chat}"
    ));
    Some(host)
}

/// The container of the only session.
fn container(host: &Host) -> String {
    let install = host.rows("meta")[0]["value"]["install"].as_u64().unwrap();
    let filter = format!("label=hearth.install={install:016x}");
    wait_for("a container", || {
        let listed = podman(&["ps", "--quiet", "--filter", &filter]);
        listed.lines().next().map(str::to_owned)
    })
}

#[test]
fn a_daemon_without_rights_answers_from_containers() {
    let Some(mut host) = setup() else { return };
    host.start();
    host.inject("m1", "hello");
    assert_eq!(host.wait_said(1), ["echo: hello"]);
    let status = host.status().to_string();
    assert!(status.contains("rootless"), "{status}");
    let first = container(&host);
    let user =
        podman(&["inspect", "--format", "{{.Config.User}} {{.HostConfig.SecurityOpt}} {{.EffectiveCaps}}", &first]);
    assert!(user.starts_with("1000:1000") && user.contains("no-new-privileges") && user.ends_with("[]"), "{user}");
    let environments = ["exec", &first, "sh", "-c", "cat /proc/[0-9]*/environ 2>/dev/null; true"];
    assert!(podman(&environments).contains(KEY), "the agent has its secret");
    assert!(!podman(&["inspect", &first]).contains(KEY), "and Podman has not");
    let places = podman(&["info", "--format", "{{.Store.GraphRoot}}\n{{.Store.RunRoot}}"]);
    let mut grep = Command::new("grep");
    let stored = grep.args(["-rlaF", "--devices=skip", "-e", KEY]).args(places.lines()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&stored.stdout), "");
    // On the host, everything the agent writes belongs to the user.
    let written = host.data().join("sessions/se1/agent/heartbeat");
    let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(written).unwrap());
    assert_eq!(owner, rustix::process::geteuid().as_raw());
    podman(&["kill", &first]);
    host.inject("m2", "again");
    assert_eq!(host.wait_said(2), ["echo: hello", "echo: again"]);
    let second = container(&host);
    host.kill();
    host.start();
    host.inject("m3", "and again");
    host.wait_said(3);
    assert_eq!(container(&host), second, "the next daemon goes on with it");
    host.wait_settled();
    host.check();
    assert_eq!(host.stop().code, Some(0));
}

#[test]
fn the_list_of_attacks_holds_without_root() {
    let Some(host) = setup() else { return };
    let answer = tested(&host);
    assert!(answer["self_test"]["runtime"].as_str().unwrap().contains("rootless"), "{answer:#}");
    all_that_is_promised(&answer, RuntimeKind::Podman);
}
