//! The daemon dies before each call to Podman: each question is answered once, and no container stays.

use serde_json::Value;

use super::house::House;
use crate::host::wait_for;

const ECHO: &str = "provider = \"echo\"";

/// The same with a secret.
const SECRET: &str = "provider = \"echo\"\nenv = { KEY = \"env:BOT_TOKEN\" }";

/// A host whose daemon dies at a point of its work.
fn dying(point: &str) -> Option<House> {
    let mut house = House::new(if point.starts_with("secrets") { SECRET } else { ECHO })?;
    house.host.env.push(("HEARTH_TEST_CRASH_AT".to_owned(), point.to_owned()));
    house.host.start();
    house.host.env.pop();
    Some(house)
}

/// Checks that the daemon died, and starts the next one.
fn again(house: &mut House, point: &str) {
    let ended = house.host.ended();
    assert_eq!(ended.signal, Some(9), "{point}: {ended:#?}");
    house.host.check();
    house.host.start();
}

/// Whether Podman shows the profile from which the system call filter is made.
fn filters(house: &House) -> bool {
    !house.host.run(&["doctor"], b"").stdout.contains("agents can make user namespaces")
}

#[test]
fn before_an_agent_runs() {
    for point in ["filter-write", "filter-rename", "secrets-pipe", "container-make", "container-start", "secrets-write"]
    {
        let Some(mut house) = dying(point) else { return };
        if point.starts_with("filter") && !filters(&house) {
            eprintln!("SKIPPED: Podman shows no seccomp profile to make stricter");
            continue;
        }
        house.types(1, "hello");
        wait_for(point, || house.host.daemon()?.try_end());
        again(&mut house, point);
        assert_eq!(house.wait_shown("echo: hello"), ["echo: hello"], "{point}");
        house.types(2, "more");
        assert_eq!(house.wait_shown("echo: more"), ["echo: hello", "echo: more"], "{point}");
        house.settle();
        house.stop();
        let unfinished = house.host.data().join("run/seccomp.new");
        assert!(!unfinished.exists(), "{point}: half a filter stays");
        let pipes = std::fs::read_dir(house.host.data().join("run/secrets"));
        assert_eq!(pipes.map_or(0, Iterator::count), 0, "{point}: a pipe stays");
    }
}

#[test]
fn before_an_agent_is_ended() {
    for point in ["container-stop", "container-remove"] {
        let Some(mut house) = dying(point) else { return };
        house.types(1, "hello");
        house.wait_shown("echo: hello");
        house.settle();
        // A restarted agent is stopped and its container removed, and so is every agent when the daemon stops.
        house.host.run(&["agents", "restart", "main"], b"");
        wait_for(point, || house.host.daemon()?.try_end());
        again(&mut house, point);
        house.types(2, "more");
        assert_eq!(house.wait_shown("echo: more"), ["echo: hello", "echo: more"], "{point}");
        house.settle();
        house.stop();
    }
}

#[test]
fn before_an_image_is_built() {
    let Some(mut house) = House::new(ECHO) else { return };
    // Other tests build images of their own at the same time.
    let listed = |house: &House| -> Vec<Value> {
        let all: Value = serde_json::from_str(&house.host.done(&["image", "list", "--json"], b"")).unwrap();
        let images = all["images"].as_array().unwrap().iter();
        images.filter(|image| image["state"] == "current").cloned().collect()
    };
    let before = listed(&house);
    house.host.env.push(("HEARTH_TEST_CRASH_AT".to_owned(), "image-build".to_owned()));
    let ended = house.host.run(&["image", "build", "--fresh", "--base", "localhost/hearth-base"], b"");
    assert_eq!(ended.signal, Some(9), "{ended:#?}");
    house.host.env.pop();
    assert_eq!(listed(&house), before);
}
