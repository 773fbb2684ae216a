//! The image that agents run in, built by the real Podman and started: what is in it, and how builds fail.

mod known;

use std::path::PathBuf;
use std::process::{Command, Output};

use rustix::process::Signal;
use serde_json::Value;

use crate::host::{Ended, Host, Running, skipped, wait_for};

/// Certificates of the machine, which may include those of a proxy that intercepts TLS.
const TRUST: &str = "/etc/ssl/certs/ca-certificates.crt";

/// A host with the tests' Podman; none if there is no Podman.
fn with_podman() -> Option<(Host, Podman)> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let (Some(socket), Some(image)) = (variable("HEARTH_TEST_PODMAN"), variable("HEARTH_TEST_IMAGE")) else {
        skipped("there is no Podman for tests; `.ci/podman.sh cargo test` makes one");
        return None;
    };
    let podman = Podman { url: format!("unix://{socket}"), image };
    let mut host = Host::new();
    host.env.push(("CONTAINER_HOST".to_owned(), podman.url.clone()));
    Some((host, podman))
}

struct Podman {
    url: String,
    image: String,
}

impl Podman {
    fn command(&self, arguments: &[&str]) -> Output {
        Command::new("podman").args(["--url", &self.url]).args(arguments).output().unwrap()
    }

    /// Output of a shell in a container with Hearth's settings.
    fn shell(&self, image: &str, script: &str) -> String {
        let fixed = ["run", "--rm", "--read-only", "--network=none", "--cap-drop=all", "--entrypoint=/bin/sh"];
        let output = self.command(&[&fixed[..], &[image, "-c", script]].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

fn parsed(ended: &Ended) -> Value {
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    serde_json::from_str(&ended.stdout).unwrap()
}

/// Images of Hearth by name: agent, id and state.
fn listed(host: &Host) -> Vec<(String, Option<String>, Option<String>, String)> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let all = parsed(&host.run(&["image", "list", "--json"], b""));
    let images = all["images"].as_array().unwrap().iter();
    images
        .map(|one| (text(&one["image"]).unwrap(), text(&one["agent"]), text(&one["id"]), text(&one["state"]).unwrap()))
        .collect()
}

fn of_agent(host: &Host, folder: &str, state: &str) -> Vec<(String, Option<String>)> {
    let all = listed(host).into_iter().filter(|(_, agent, _, is)| agent.as_deref() == Some(folder) && is == state);
    all.map(|(name, _, id, _)| (name, id)).collect()
}

/// Whether the first step of a base still runs in the tests' Podman, detected by where the roots of its containers are.
fn upgrades(podman: &Podman) -> bool {
    let socket = PathBuf::from(podman.url.trim_start_matches("unix://"));
    let place = socket.parent().unwrap().to_str().unwrap().to_owned();
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok).map(|entry| entry.path());
    let read = |path: PathBuf| {
        std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    };
    processes.into_iter().any(|process| {
        let command = read(process.join("cmdline")).replace('\0', " ");
        command.contains("apt-get upgrade") && read(process.join("mountinfo")).contains(&place)
    })
}

/// Options with which packages of npm can be fetched here.
fn fetching() -> Vec<String> {
    let registry = Command::new("npm").args(["config", "get", "registry"]).output().unwrap();
    let registry = String::from_utf8(registry.stdout).unwrap().trim().to_owned();
    let trust = if std::path::Path::new(TRUST).exists() { vec!["--trust", TRUST] } else { Vec::new() };
    ["--registry", &registry].into_iter().chain(trust).map(str::to_owned).collect()
}

fn agent(packages: &str) -> String {
    format!("schema = 1\n[[agents]]\nfolder = \"Ann_B\"\npackages = {packages}\n")
}

#[test]
fn without_podman_it_is_said_what_to_do() {
    let mut host = Host::new();
    host.apply(&agent("{ apt = [\"tree\"] }"));
    let nowhere = host.path("no.sock");
    host.env.push(("CONTAINER_HOST".to_owned(), format!("unix://{}", nowhere.display())));
    for arguments in [&["image", "build"][..], &["image", "build", "Ann_B"], &["image", "list"]] {
        let ended = host.run(arguments, b"");
        assert_eq!(ended.code, Some(1), "{ended:#?}");
        assert!(
            ended.stderr.contains("Podman does not answer at") && ended.stderr.contains("install it"),
            "{ended:#?}"
        );
        assert!(ended.stderr.contains(&nowhere.display().to_string()), "{ended:#?}");
    }
    for (arguments, told) in
        [(["image", "build", "nobody"], "agent nobody not found"), (["image", "build", "--json=1"], "unexpected value")]
    {
        let ended = host.run(&arguments, b"");
        assert!(ended.code != Some(0) && ended.stderr.contains(told), "{ended:#?}");
    }
    let doctor = host.run(&["doctor"], b"").stdout;
    assert!(doctor.contains("agents cannot run in containers"), "{doctor}");
    assert!(!doctor.contains("mounts  "), "{doctor}");

    host.env.push(("CONTAINER_HOST".to_owned(), "ssh://root@elsewhere/run/podman.sock".to_owned()));
    let ended = host.run(&["image", "list"], b"");
    assert!(ended.code == Some(1) && ended.stderr.contains("only a Unix socket can be used"), "{ended:#?}");
}

#[test]
fn the_image_has_what_agents_need_and_nothing_that_raises_rights() {
    let Some((host, podman)) = with_podman() else { return };
    let found = podman.shell(
        &podman.image,
        "id -u; id -un; pwd; echo $HOME; claude --version; git --version; rg --version | head -1; npm --version; \
         stat -c '%a %U' /tmp /home/node /workspace/session /usr/local/bin /usr/local/bin/hearth-runner; \
         find / -xdev -type f -perm /6000; touch /x 2>/dev/null || echo fixed; find / -xdev -name ca.pem; \
         curl --version | grep -o ^curl; ls /usr/local/bin",
    );
    let lines: Vec<&str> = found.lines().collect();
    assert_eq!(lines[..5], ["1000", "node", "/workspace/group", "/home/node", "2.1.329 (Claude Code)"], "{found}");
    assert!(lines[5].starts_with("git version") && lines[6].starts_with("ripgrep"), "{found}");
    assert_eq!(lines[7], "10.9.9");
    assert_eq!(lines[8..13], ["1777 root", "700 node", "755 node", "755 root", "755 root"], "{found}");
    assert_eq!(lines[13..], ["fixed", "curl", "claude", "hearth-runner", "npm", "npx"], "{found}");

    let output = podman.command(&["run", "--rm", "--read-only", "--network=none", &podman.image]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && told.contains("HEARTH_INCARNATION is not set"), "{output:?}");

    let base = listed(&host).into_iter().find(|(name, ..)| *name == podman.image).unwrap();
    assert_eq!((base.1, base.3.as_str()), (None, "current"));
    let doctor = host.run(&["doctor", "--json"], b"");
    let doctor: Value = serde_json::from_str(&doctor.stdout).unwrap();
    let result = |name: &str| {
        let checks = doctor["checks"].as_array().unwrap();
        checks.iter().find(|check| check["check"] == name).unwrap_or_else(|| panic!("{doctor}"))["result"].clone()
    };
    assert_eq!(
        ["podman", "image", "mounts", "container user", "limits", "system calls"].map(result),
        ["ok"; 6],
        "{doctor}"
    );
}

#[test]
fn packages_get_an_image_of_their_own_and_a_build_that_fails_changes_nothing() {
    let Some((host, podman)) = with_podman() else { return };
    let fetch = fetching();
    let fetch: Vec<&str> = fetch.iter().map(String::as_str).collect();
    let build = |more: &[&str]| host.run(&[&["image", "build"], &fetch[..], more].concat(), b"");

    host.apply(&agent("{}"));
    let needless = build(&["Ann_B"]);
    assert!(needless.code == Some(1) && needless.stderr.contains("has no packages"), "{needless:#?}");

    host.apply(&agent("{ apt = [\"tree\"], npm = [\"is-odd\"] }"));
    let [(name, None)] = &of_agent(&host, "Ann_B", "missing")[..] else { panic!("{:?}", listed(&host)) };
    assert!(name.starts_with("localhost/hearth-agent-") && name.contains("-ann-b:"), "{name}");
    let built = build(&["Ann_B", "--json"]);
    let json = parsed(&built);
    assert_eq!(
        (json["images"].as_array().unwrap().len(), &json["images"][0]["image"]),
        (1, &Value::from(name.as_str()))
    );
    assert!(json["images"][0]["bytes"].as_u64().unwrap() > 100_000_000, "{json}");
    assert!(built.stderr.contains("STEP ") && !built.stderr.contains('\u{1b}'), "plain lines: {}", built.stderr);
    let found = podman
        .shell(name, "tree --version | grep -o ^tree; id -u; ls /usr/local/lib/node_modules; find / -xdev -type f -perm /6000 2>/dev/null; true");
    assert_eq!(found, "tree\n1000\nis-odd\nnpm\n");
    let [(_, Some(id))] = &of_agent(&host, "Ann_B", "current")[..] else { panic!("{:?}", listed(&host)) };

    host.apply(&agent("{ apt = [\"no-such-package-of-debian\"] }"));
    let failed = build(&["Ann_B"]);
    assert_eq!(failed.code, Some(1), "{failed:#?}");
    assert!(failed.stderr.contains("Unable to locate package no-such-package-of-debian"), "{failed:#?}");
    assert!(of_agent(&host, "Ann_B", "current").is_empty(), "nothing was built");
    assert_eq!(of_agent(&host, "Ann_B", "unused"), [(name.clone(), Some(id.clone()))], "what was there is there");

    let removed = podman.command(&["rmi", "--force", name]);
    assert!(removed.status.success(), "{removed:?}");
}

#[test]
fn a_build_that_is_interrupted_or_cannot_begin_leaves_the_image() {
    let Some((host, podman)) = with_podman() else { return };
    let before = listed(&host);
    let hearth = PathBuf::from(env!("CARGO_BIN_EXE_hearth"));
    let missing = host.path("nothing");
    for (option, value, told) in [
        ("--runner", hearth.as_path(), "is linked dynamically"),
        ("--runner", &missing, "cannot be the runner of an image"),
        ("--cli", &missing, "cannot read"),
        ("--trust", &missing, "cannot read"),
        ("--base", "no such\nRUN image".as_ref(), "is not the name of an image"),
        ("--base", "localhost/no-such-image".as_ref(), "no-such-image"),
        ("--registry", "$(reboot)".as_ref(), "is not the address of a registry"),
    ] {
        let ended = host.run(&["image", "build", option, value.to_str().unwrap()], b"");
        assert!(ended.code == Some(1) && ended.stderr.contains(told), "{option}: {ended:#?}");
    }

    let fresh = host.command(&["image", "build", "--fresh", "--base", "localhost/hearth-base"]);
    let running = Running::start(fresh, b"");
    wait_for("the first step", || running.stderr().contains("STEP 2/").then_some(()));
    // Not the signal of Ctrl-C, which is ignored when tests run in the background.
    let ended = running.signal(Signal::TERM).end();
    assert_eq!(ended.signal, Some(15), "{ended:#?}");
    wait_for("Podman to stop as well", || (!upgrades(&podman)).then_some(()));
    assert_eq!(listed(&host), before);
}
