//! The session-state file of an agent group under a daemon, with concurrent editors and crashes.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::host::deaths::STATE_FILE_POINTS;
use crate::host::{Host, Running, wait_for};

const WRITER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/foreign_state.py");

fn folder(host: &Host) -> PathBuf {
    let folder = host.data().join("groups/main");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn file(host: &Host) -> Option<Value> {
    serde_json::from_str(&std::fs::read_to_string(folder(host).join("session-state.json")).ok()?).ok()
}

fn writer(host: &Host, prefix: &str, rounds: usize) -> Running {
    let mut command = host.bare("python3");
    command.arg(WRITER).arg(folder(host)).arg(prefix).arg(rounds.to_string());
    Running::start(command, b"")
}

fn state(host: &Host) -> Value {
    serde_json::from_str(&host.done(&["agents", "state", "main", "--json"], b"")).unwrap()
}

/// Asserts that everything the writers wrote is in the file and in the store, and that abandoned entries are cleared.
fn assert_shared(host: &Host, prefixes: &[&str], rounds: usize) {
    let names: Vec<String> =
        prefixes.iter().flat_map(|prefix| (0..rounds).map(move |n| format!("{prefix}{n}"))).collect();
    let shared = wait_for("the file and the rows to say the same", || {
        // The file is read first, because the rows are written before it.
        let cleared = file(host).is_some_and(|file| file["pending_response"] == Value::Null);
        let shared = state(host);
        let over = shared["pending_responses"].as_array()?.iter().all(|one| one["state"] != "waiting");
        (cleared && over && shared["to_write"] == false && shared["trouble"] == Value::Null).then_some(shared)
    });
    let file = file(host).unwrap();
    for name in &names {
        assert!(file[name].is_number(), "{name} is lost: {file:#}");
        assert!(shared["fields"].as_array().unwrap().iter().any(|field| field["name"] == **name), "{name}: {shared:#}");
    }
    assert_eq!(file["seen_email_ids"].as_array().unwrap().len(), names.len());
}

#[test]
fn programs_and_the_daemon_write_at_the_same_time() {
    let mut host = Host::with_echo();
    folder(&host);
    host.start();
    host.inject("m1", "hi");
    host.wait_said(1);
    let writers = [writer(&host, "a", 25), writer(&host, "b", 25)];
    for writer in writers {
        assert_eq!(writer.end().code, Some(0));
    }
    assert_shared(&host, &["a", "b"], 25);
    host.stop();
    host.check();
}

#[test]
fn a_death_between_two_steps_loses_nothing() {
    std::thread::scope(|scope| {
        for step in STATE_FILE_POINTS {
            scope.spawn(move || {
                let mut host = Host::with_echo();
                assert_eq!(writer(&host, "a", 2).end().code, Some(0));
                host.env.push(("HEARTH_TEST_CRASH_AT".to_owned(), format!("{step}:1")));
                host.launch();
                host.ended();
                host.env.clear();
                assert_eq!(writer(&host, "b", 2).end().code, Some(0), "the lock went with the daemon");
                host.start();
                assert_shared(&host, &["a", "b"], 2);
                host.stop();
                let left: Vec<_> = std::fs::read_dir(folder(&host)).unwrap().map(|e| e.unwrap().file_name()).collect();
                assert!(!left.iter().any(|name| name.to_string_lossy().starts_with(".tmp-")), "{step}: {left:?}");
                host.check();
            });
        }
    });
}

#[test]
fn trouble_is_named_and_nothing_is_wiped() {
    let mut host = Host::with_echo();
    let path = folder(&host).join("session-state.json");
    let newer = json!({"schema_version": 7, "mood": 1}).to_string();
    std::fs::write(&path, &newer).unwrap();
    host.start();
    wait_for("a newer file to be noticed", || (state(&host)["trouble"] == "newer").then_some(()));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), newer);
    let status = host.done(&["status", "--json"], b"");
    assert!(status.contains("its schema_version is 7"), "{status}");
    host.stop();
    std::fs::write(&path, "{\"mood\": ").unwrap();
    host.start();
    let shared =
        wait_for("a broken file to be noticed", || Some(state(&host)).filter(|s| s["trouble"] == "unreadable"));
    let copy = shared["quarantined"][0].as_str().unwrap().to_owned();
    let copy = folder(&host).join(copy);
    assert_eq!(std::fs::read_to_string(&copy).unwrap(), "{\"mood\": ");
    assert!(host.done(&["status", "--json"], b"").contains("was kept as"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"mood\": ", "there is nothing to replace it with");
    assert!(
        std::fs::metadata(path.with_file_name("session-state.json.lock")).unwrap().permissions().mode() & 0o600 > 0
    );
    host.stop();
    // After the copy is removed, the warning ends.
    std::fs::remove_file(copy).unwrap();
    std::fs::remove_file(&path).unwrap();
    host.start();
    wait_for("the copy to be forgotten", || (state(&host)["quarantined"] == json!([])).then_some(()));
    assert!(!host.done(&["status", "--json"], b"").contains("was kept as"));
    host.stop();
    host.check();
}

#[test]
fn a_held_lock_holds_nobody_else_up() {
    let mut host = Host::with_echo();
    assert_eq!(writer(&host, "a", 1).end().code, Some(0));
    let mut command = host.bare("python3");
    let script = "import fcntl, sys\nlock = open(sys.argv[1], 'a+')\nfcntl.flock(lock, fcntl.LOCK_EX)\nprint('held', \
                  flush=True)\nsys.stdin.read()\n";
    command.args(["-c", script]).arg(folder(&host).join("session-state.json.lock"));
    let mut holder = Running::start_open(command);
    holder.wait_stdout("held");
    host.start();
    host.inject("m1", "hi");
    host.wait_said(1);
    wait_for("the lock to be given up for", || (state(&host)["trouble"] == "locked").then_some(()));
    holder.close_input();
    assert_eq!(holder.end().code, Some(0));
    assert_shared(&host, &["a"], 1);
    host.stop();
}
