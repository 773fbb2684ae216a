//! Who starts a new installation is its owner, whatever command comes first.

use serde_json::Value;

use crate::host::installed::System;
use crate::host::{Host, TERMINAL};

const ANOTHER: &str = "schema = 1\n[[users]]\nid = \"telegram:7\"\nroles = [\"admin\"]\n";

/// The person at this terminal, as a user.
fn me() -> String {
    format!("terminal:{}", rustix::process::getuid().as_raw())
}

/// Users who are owners, with their origin.
fn owners(host: &Host) -> Vec<(String, String)> {
    let users: Value = serde_json::from_str(&host.done(&["users", "list", "--json"], b"")).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let all = users["users"].as_array().unwrap().iter();
    let owners = all.filter(|user| user["roles"].to_string().contains("owner"));
    owners.map(|user| (text(&user["id"]), text(&user["origin"]))).collect()
}

fn assert_owned(host: &Host) {
    assert_eq!(owners(host), [(me(), "runtime".to_owned())]);
    host.check();
}

#[test]
fn the_first_run_makes_the_local_user_owner() {
    let mut host = Host::before_the_first_start();
    host.start();
    assert_owned(&host);
    let told = host.stop().stderr;
    assert!(told.contains(&format!("you are the owner: {}", me())), "{told}");
    host.start();
    assert!(!host.stop().stderr.contains("you are the owner"), "only once");
}

#[test]
fn users_that_exist_stay_as_they_are() {
    let mut host = Host::new();
    host.apply(ANOTHER);
    host.apply(TERMINAL);
    host.start();
    host.stop();
    assert_eq!(owners(&host), []);
}

#[test]
fn installing_the_service_makes_the_local_user_owner_of_an_empty_store_only() {
    for (file, expected) in [(None, vec![(me(), "runtime".to_owned())]), (Some(ANOTHER), Vec::new())] {
        let system = System::new();
        if let Some(file) = file {
            system.host.apply(file);
        }
        system.json(&["install", "--as-root"]);
        assert_eq!(owners(&system.host), expected);
        system.host.check();
    }
}
