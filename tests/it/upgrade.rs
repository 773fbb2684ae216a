//! What a newer program reports about a store before it upgrades it.

use std::path::Path;

use serde_json::Value;

use crate::host::{Host, TERMINAL};

/// A data directory with a store of the first format.
fn of_format_1() -> Host {
    let host = Host::before_the_first_start();
    let store = host.data().join("store");
    std::fs::create_dir_all(&store).unwrap();
    std::fs::set_permissions(host.data(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/store/format-1.mdb");
    std::fs::copy(fixture, store.join("data.mdb")).unwrap();
    host
}

/// The finding of a check, and its result.
fn found(report: &Value, check: &str) -> Option<(String, String)> {
    let one = report["checks"].as_array().unwrap().iter().find(|one| one["check"] == check)?;
    let text = |field: &str| one[field].as_str().unwrap().to_owned();
    Some((text("result"), text("found")))
}

#[test]
fn an_older_store_is_upgraded_only_as_a_copy() {
    let host = of_format_1();
    let file = host.data().join("store/data.mdb");
    let before = std::fs::read(&file).unwrap();
    std::fs::write(host.data().join("hearth.toml"), "schema = 1\nfuture_key = true\n").unwrap();
    let report: Value = serde_json::from_str(&host.done(&["doctor", "--before-upgrade", "--json"], b"")).unwrap();
    let (_, migrations) = found(&report, "migrations").unwrap();
    assert!(
        migrations.contains("from format 1 to format 2: ") && migrations.contains("; to format 11: "),
        "{migrations}"
    );
    assert!(migrations.contains("backup"), "{migrations}");
    assert!(found(&report, "upgrade").unwrap().1.contains("a copy was backed up and upgraded"), "{report}");
    assert_eq!(found(&report, "store").unwrap().0, "ok", "{report}");
    let (result, toml) = found(&report, "hearth.toml").unwrap();
    assert!(result == "warn" && toml.contains("future_key"), "{toml}");
    assert_eq!(std::fs::read(&file).unwrap(), before);
    assert!(!host.data().join("backups").exists());
    // The promise is kept.
    host.done(&["inject"], b"");
    let report: Value = serde_json::from_str(&host.done(&["doctor", "--before-upgrade", "--json"], b"")).unwrap();
    assert!(found(&report, "migrations").unwrap().1.starts_with("none: "), "{report}");
}

#[test]
fn a_running_daemon_goes_on_while_its_store_is_tried() {
    let mut host = Host::new();
    host.apply(TERMINAL);
    host.start();
    let report: Value = serde_json::from_str(&host.done(&["doctor", "--before-upgrade", "--json"], b"")).unwrap();
    assert!(found(&report, "daemon").unwrap().1.contains("is running and continues to run"), "{report}");
    assert!(found(&report, "migrations").unwrap().1.starts_with("none: "), "{report}");
    assert!(host.done(&["chat", "still here"], b"").contains("still here"));
    host.stop();
    host.check();
}

/// Agents that rely on the network that an omitted key gave before.
#[test]
fn a_changed_default_is_listed_with_the_line_that_keeps_the_old_one() {
    let host = Host::new();
    let agent = |folder: &str, rest: &str| format!("[[agents]]\nfolder = \"{folder}\"\n{rest}");
    let file = ["schema = 1\n", &agent("main", "trust = \"main\"\n"), &agent("free", "unconfined = true\n")].concat();
    host.apply(&file);
    let check = |toml: &str| {
        std::fs::write(host.data().join("hearth.toml"), toml).unwrap();
        let report = serde_json::from_str(&host.done(&["doctor", "--before-upgrade", "--json"], b"")).unwrap();
        (found(&report, "defaults").unwrap(), report)
    };
    let ((result, text), report) = check(&file);
    assert!(result == "warn" && text.contains("get `ask`") && text.ends_with("keep `open`: main"), "{text}");
    assert!(report.to_string().contains("write `network = \\\"open\\\"` into their tables"), "{report}");
    let written = agent("main", "trust = \"main\"\nnetwork = \"open\"\n");
    assert_eq!(check(&format!("schema = 1\n{written}")).0.0, "ok");
}

/// A killed check leaves its copy of the store; the next command that needs a temporary directory removes it.
#[test]
fn a_copy_that_a_killed_check_left_is_removed_by_the_next_one() {
    let mut host = of_format_1();
    let place = host.path("tmp");
    std::fs::create_dir(&place).unwrap();
    let left = || std::fs::read_dir(&place).unwrap().count();
    let kept = ("TMPDIR".to_owned(), place.to_str().unwrap().to_owned());
    host.env = vec![kept.clone(), ("HEARTH_TEST_CRASH_AT".to_owned(), "copy-sync".to_owned())];
    assert_eq!(host.run(&["doctor", "--before-upgrade"], b"").signal, Some(9));
    assert_eq!(left(), 1);
    host.env = vec![kept];
    host.run(&["doctor", "--before-upgrade"], b"");
    assert_eq!(left(), 0);
}

#[test]
fn what_cannot_be_read_fails_with_a_reason_and_leaves_nothing() {
    let host = Host::before_the_first_start();
    let missing = host.run(&["doctor", "--before-upgrade"], b"");
    assert!(missing.code == Some(1) && missing.stdout.contains("there is no store"), "{missing:#?}");
    assert!(!host.data().exists());
    let host = of_format_1();
    let file = host.data().join("store/data.mdb");
    std::fs::write(&file, vec![0x5a; 65_536]).unwrap();
    let damaged = host.run(&["doctor", "--before-upgrade"], b"");
    assert!(damaged.code == Some(1) && damaged.stdout.contains("FAIL"), "{damaged:#?}");
}
