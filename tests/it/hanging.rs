//! Daemons that hang, lost their files, or ended with a reason; and the weekly check of the whole store.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::host::{Ended, Host, is_alive, wait_for};

fn status(host: &Host) -> (Ended, Value) {
    let ended = host.run(&["status", "--json"], b"");
    let told = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:#?}"));
    (ended, told)
}

/// The answer names the process that hangs, arrives soon, and counts as a failure.
#[test]
fn a_daemon_that_hangs_is_named_soon() {
    let mut host = Host::with_echo();
    host.start();
    let pid = host.daemon().unwrap().pid();
    rustix::process::kill_process(pid, Signal::STOP).unwrap();
    for arguments in [vec!["status"], vec!["status", "--json"], vec!["doctor"]] {
        let began = Instant::now();
        let ended = host.run(&arguments, b"");
        assert!(began.elapsed() < Duration::from_secs(8), "{arguments:?} took {:?}", began.elapsed());
        assert_eq!(ended.code, Some(1), "{ended:#?}");
        let told = format!("{}{}", ended.stdout, ended.stderr);
        assert!(told.contains(&format!("(process {pid}) does not answer", pid = pid.as_raw_nonzero())), "{told}");
        assert!(told.contains("kill -9") && !told.contains("no daemon is running"), "{told}");
    }
    rustix::process::kill_process(pid, Signal::CONT).unwrap();
    wait_for("an answer", || (status(&host).0.code == Some(0)).then_some(()));
    assert_eq!(host.stop().code, Some(0));
}

#[test]
fn a_daemon_makes_what_was_removed_of_its_run_again() {
    let mut host = Host::with_echo();
    host.start();
    let pid = host.daemon().unwrap().pid();
    for what in ["run", "token", "socket"] {
        match what {
            "run" => std::fs::remove_dir_all(host.data().join("run")).unwrap(),
            "token" => std::fs::remove_file(host.data().join("run/token")).unwrap(),
            _ => {
                let runtime = host.path("runtime");
                let entries = std::fs::read_dir(&runtime).unwrap().flatten();
                let sockets = entries.filter(|entry| entry.path().extension().is_some_and(|end| end == "sock"));
                assert_eq!(sockets.map(|entry| std::fs::remove_file(entry.path()).unwrap()).count(), 1);
            }
        }
        let ended = host.run(&["status"], b"");
        let told = format!("{}{}", ended.stdout, ended.stderr);
        assert!(!told.contains("no daemon is running") && !told.contains("daemon: not running"), "{what}: {told}");
        wait_for("the daemon to be reachable", || (status(&host).0.code == Some(0)).then_some(()));
        assert_eq!(status(&host).1["daemon"]["pid"], pid.as_raw_nonzero().get(), "{what}");
        let before = host.said().len();
        host.inject(what, what);
        host.wait_said(before + 1);
    }
    assert_eq!(host.stop().code, Some(0));
    host.check();
}

#[test]
fn agents_of_a_daemon_that_stopped_take_no_slots() {
    let mut host = Host::with_echo();
    host.start();
    host.inject("m1", "hello");
    host.wait_said(1);
    assert_eq!(status(&host).1["places"]["running"], 1);
    assert_eq!(host.stop().code, Some(0));
    let (ended, told) = status(&host);
    assert_eq!((ended.code, &told["places"]["running"]), (Some(0), &Value::from(0)), "{told}");
}

#[test]
fn a_running_daemon_has_its_store_checked_by_a_child() {
    let mut host = Host::with_echo();
    host.env.push(("HEARTH_TEST_CHECK_MS".to_owned(), "200".to_owned()));
    host.start();
    let checked = |host: &Host| status(host).1["check"].clone();
    let first = wait_for("a check", || Some(checked(&host)).filter(Value::is_object));
    assert_eq!((&first["sound"], &first["found"]), (&Value::from(true), &Value::Null), "{first}");
    wait_for("another one", || (checked(&host)["at"] != first["at"]).then_some(()));
    assert_eq!(host.stop().code, Some(0));
    assert_eq!(checked(&host)["sound"], true, "it is known without a daemon");
}

/// The child ends with the daemon, however the daemon ends, and does not delay a stop.
#[test]
fn a_check_ends_with_its_daemon() {
    for kill in [false, true] {
        let mut host = Host::with_echo();
        host.env.push(("HEARTH_TEST_CHECK_MS".to_owned(), "50".to_owned()));
        host.start();
        let pid = host.daemon().unwrap().pid().as_raw_nonzero().to_string();
        let child = wait_for("a check", || {
            let all = std::fs::read_dir("/proc").unwrap().flatten();
            all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).find(|other| {
                let line = std::fs::read(format!("/proc/{other}/cmdline")).unwrap_or_default();
                String::from_utf8_lossy(&line).contains(&format!("--child-of\0{pid}\0"))
            })
        });
        if kill {
            host.kill();
        } else {
            assert_eq!(host.stop().code, Some(0));
        }
        wait_for("the check to end", || (!is_alive(child)).then_some(()));
    }
}
