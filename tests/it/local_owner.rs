//! The user who starts a new installation becomes its owner, whatever command comes first.

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

/// `--prune` removes only entities from the file, and the owner is not from it.
#[test]
fn the_first_apply_makes_the_local_user_owner_in_the_same_transaction() {
    let host = Host::before_the_first_start();
    let granted = format!("created   role {} owner", me());
    assert!(host.done(&["apply", "-", "--dry-run"], TERMINAL.as_bytes()).contains(&granted));
    assert!(!host.data().exists());
    let first = host.run(&["apply", "-"], TERMINAL.as_bytes());
    assert!(first.stdout.contains(&granted), "{first:#?}");
    assert!(first.stderr.contains(&format!("you are the owner: {}", me())), "{first:#?}");
    assert_owned(&host);
    let again = host.run(&["apply", "-", "--prune"], TERMINAL.as_bytes());
    assert!(!again.stdout.contains("role") && !again.stderr.contains("owner"), "{again:#?}");
    assert_owned(&host);
}

#[test]
fn a_file_that_says_who_is_owner_or_who_you_are_decides() {
    let other = "schema = 1\n[[users]]\nid = \"telegram:7\"\nroles = [\"owner\"]\n".to_owned();
    let lower = format!("schema = 1\n[[users]]\nid = \"{}\"\nroles = [\"admin\"]\n", me());
    let cases = [(&other, vec![("telegram:7".to_owned(), "file".to_owned())]), (&lower, Vec::new())];
    for (file, expected) in cases {
        let host = Host::before_the_first_start();
        host.done(&["apply", "-"], file.as_bytes());
        assert_eq!(owners(&host), expected, "{file}");
    }
    let host = Host::before_the_first_start();
    host.done(&["apply", "-", "--no-owner"], ANOTHER.as_bytes());
    assert_eq!(owners(&host), []);
    let host = Host::before_the_first_start();
    host.done(&["apply", "-"], ANOTHER.as_bytes());
    assert_owned(&host);
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
fn installing_the_service_creates_the_store_of_a_new_directory_and_its_owner() {
    let system = System::new();
    std::fs::remove_dir_all(system.host.data()).unwrap();
    let installed = system.json(&["install", "--as-root"]);
    assert_eq!(installed["written"], "new", "{installed}");
    let unit = std::fs::read_to_string(installed["file"].as_str().unwrap()).unwrap();
    let id = hearth::state::installation(&system.host.data()).unwrap();
    assert!(unit.contains(&format!("--installation {id:016x}\n")), "{unit}");
    assert_owned(&system.host);
    // Not in a directory where another program keeps its files.
    let system = System::new();
    std::fs::remove_dir_all(system.host.data().join("store")).unwrap();
    std::fs::write(system.host.data().join("photo.jpg"), "").unwrap();
    let refused = system.run(&["install", "--as-root"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("photo.jpg"), "{refused:#?}");
    assert!(!system.host.data().join("store").exists());
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
