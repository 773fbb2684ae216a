//! The daemon dies before each call to Podman: each question is answered once, and no container stays.

use serde_json::Value;

use super::setup::Setup;
use crate::host::wait_for;

const ECHO: &str = "provider = \"echo\"";

/// The same with a secret.
const SECRET: &str = "provider = \"echo\"\nenv = { KEY = \"env:BOT_TOKEN\" }";

/// A host whose daemon dies at a point of its work.
fn dying(point: &str) -> Option<Setup> {
    let mut setup = Setup::new(if point.starts_with("secrets") { SECRET } else { ECHO })?;
    setup.host.env.push(("HEARTH_TEST_CRASH_AT".to_owned(), point.to_owned()));
    setup.host.start();
    setup.host.env.pop();
    Some(setup)
}

/// Checks that the daemon died, and starts the next one.
fn again(setup: &mut Setup, point: &str) {
    let ended = setup.host.ended();
    assert_eq!(ended.signal, Some(9), "{point}: {ended:#?}");
    setup.host.check();
    setup.host.start();
}

/// Whether Podman shows the profile from which the system call filter is made.
fn filters(setup: &Setup) -> bool {
    !setup.host.run(&["doctor"], b"").stdout.contains("agents can make user namespaces")
}

#[test]
fn before_an_agent_runs() {
    for point in ["filter-write", "filter-rename", "secrets-pipe", "container-make", "container-start", "secrets-write"]
    {
        let Some(mut setup) = dying(point) else { return };
        if point.starts_with("filter") && !filters(&setup) {
            eprintln!("SKIPPED: Podman shows no seccomp profile to make stricter");
            continue;
        }
        setup.types(1, "hello");
        wait_for(point, || setup.host.daemon()?.try_end());
        again(&mut setup, point);
        assert_eq!(setup.wait_shown("echo: hello"), ["echo: hello"], "{point}");
        setup.types(2, "more");
        assert_eq!(setup.wait_shown("echo: more"), ["echo: hello", "echo: more"], "{point}");
        setup.settle();
        setup.stop();
        let unfinished = setup.host.data().join("run/seccomp.new");
        assert!(!unfinished.exists(), "{point}: half a filter stays");
        let pipes = std::fs::read_dir(setup.host.data().join("run/secrets"));
        assert_eq!(pipes.map_or(0, Iterator::count), 0, "{point}: a pipe stays");
    }
}

#[test]
fn before_an_agent_is_ended() {
    for point in ["container-stop", "container-remove"] {
        let Some(mut setup) = dying(point) else { return };
        setup.types(1, "hello");
        setup.wait_shown("echo: hello");
        setup.settle();
        // A restarted agent is stopped and its container removed, and so is every agent when the daemon stops.
        setup.host.run(&["agents", "restart", "main"], b"");
        wait_for(point, || setup.host.daemon()?.try_end());
        again(&mut setup, point);
        setup.types(2, "more");
        assert_eq!(setup.wait_shown("echo: more"), ["echo: hello", "echo: more"], "{point}");
        setup.settle();
        setup.stop();
    }
}

#[test]
fn before_an_image_is_built() {
    let Some(mut setup) = Setup::new(ECHO) else { return };
    // Other tests build images of their own at the same time.
    let listed = |setup: &Setup| -> Vec<Value> {
        let all: Value = serde_json::from_str(&setup.host.done(&["image", "list", "--json"], b"")).unwrap();
        let images = all["images"].as_array().unwrap().iter();
        images.filter(|image| image["state"] == "current").cloned().collect()
    };
    let before = listed(&setup);
    setup.host.env.push(("HEARTH_TEST_CRASH_AT".to_owned(), "image-build".to_owned()));
    let ended = setup.host.run(&["image", "build", "--fresh", "--base", "localhost/hearth-base"], b"");
    assert_eq!(ended.signal, Some(9), "{ended:#?}");
    setup.host.env.pop();
    assert_eq!(listed(&setup), before);
}
