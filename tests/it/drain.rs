//! A stopping daemon lets turns finish: real agents, real signals, and people on Telegram.

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::host::fake_telegram::FakeTelegram;
use crate::host::telegram::typed;
use crate::host::telegram::{begun, patient};
use crate::host::{Ended, Host, wait_for};

fn wait_begun(host: &Host, count: usize) {
    wait_for("turns to begin", || (begun(host).len() >= count).then_some(()));
}

fn signal(host: &mut Host, signal: Signal) {
    kill_process(host.daemon().expect("no daemon was started").pid(), signal).unwrap();
}

/// Asks the daemon to stop, and waits until it says that it waits for a turn.
fn ask(host: &mut Host, by: Signal) {
    signal(host, by);
    let daemon = host.daemon().unwrap();
    wait_for("the daemon to wait", || daemon.stderr().contains("waiting for 1 turn; press Ctrl-C").then_some(()));
}

fn wait_shown(server: &FakeTelegram, texts: &[&str]) {
    wait_for("answers on Telegram", || (server.shown(123).len() >= texts.len()).then_some(()));
    assert_eq!(server.shown(123), texts);
}

fn assert_calm(mut host: Host, server: &FakeTelegram, texts: &[&str]) {
    host.wait_settled();
    wait_for("everything to be delivered", || {
        let rows = host.rows("outbound");
        rows.iter().all(|row| row["value"]["state"].get("Delivered").is_some()).then_some(())
    });
    host.check();
    assert_eq!(host.stop().code, Some(0));
    assert_eq!(server.shown(123), texts);
    let tries: Vec<Value> = host.rows("messages").iter().map(|row| row["value"]["tries"].clone()).collect();
    assert!(tries.iter().all(|tries| *tries == 0), "an end of the daemon costs no try: {tries:?}");
}

#[test]
fn a_turn_ends_and_is_answered_and_nothing_new_begins() {
    let (mut host, server) = patient();
    server.happens(typed(1, "first"));
    wait_begun(&host, 1);
    server.happens(typed(2, "second"));
    wait_for("the second message", || (host.states().len() == 2).then_some(()));
    ask(&mut host, Signal::TERM);
    let status = host.status();
    assert_eq!(status["daemon"]["draining"], true);
    assert_eq!(status["places"], serde_json::json!({"running": 1, "max": 16, "waiting": []}));
    let refused = host.run(&["inject", "--json"], crate::host::event("m3", "third").to_string().as_bytes());
    let told = format!("{}{}", refused.stdout, refused.stderr);
    assert!(refused.code == Some(1) && told.contains("the daemon is stopping"), "{refused:?}");
    server.happens(typed(4, "fourth"));
    host.go();
    let Ended { code, stderr, .. } = host.ended();
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(server.shown(123), ["did first"], "{stderr}");
    assert_eq!(begun(&host), ["first"]);
    host.start();
    wait_shown(&server, &["did first", "did second", "did fourth"]);
    assert_eq!(begun(&host), ["first", "second", "fourth"]);
    assert_calm(host, &server, &["did first", "did second", "did fourth"]);
}

#[test]
fn a_second_signal_stops_at_once_and_the_turn_is_done_after_the_next_start() {
    for (first, second) in [(Signal::TERM, Signal::TERM), (Signal::INT, Signal::INT)] {
        let (mut host, server) = patient();
        server.happens(typed(1, "first"));
        wait_begun(&host, 1);
        ask(&mut host, first);
        signal(&mut host, second);
        let Ended { code, stderr, .. } = host.ended();
        assert!(code == Some(0) && stderr.contains("no longer waiting"), "{stderr}");
        assert!(server.shown(123).is_empty() && begun(&host) == ["first"]);
        host.go();
        host.start();
        wait_shown(&server, &["did first"]);
        assert_calm(host, &server, &["did first"]);
    }
}

#[test]
fn a_daemon_that_dies_while_it_waits_loses_nothing() {
    let (mut host, server) = patient();
    server.happens(typed(1, "first"));
    wait_begun(&host, 1);
    server.happens(typed(2, "second"));
    wait_for("the second message", || (host.states().len() == 2).then_some(()));
    ask(&mut host, Signal::TERM);
    host.kill();
    host.go();
    host.start();
    wait_shown(&server, &["did first", "did second"]);
    assert_calm(host, &server, &["did first", "did second"]);
}

#[test]
fn containers_that_cannot_be_had_are_not_replaced_by_something_else() {
    let mut host = Host::with_echo();
    let nowhere = host.path("no.sock");
    host.env.push(("CONTAINER_HOST".to_owned(), format!("unix://{}", nowhere.display())));
    host.start();
    let why = "--runtime asks for it";
    assert_eq!(
        (&host.status()["daemon"]["runtime"], &host.status()["daemon"]["runtime_why"]),
        (&"process".into(), &why.into())
    );
    assert!(host.done(&["status"], b"").contains(&format!("agents run as processes, because {why}")));
    assert!(host.run(&["doctor"], b"").stdout.contains("process, because "), "what a start without that would take");
    let stderr = host.stop().stderr;
    assert!(stderr.contains(&format!("runtime: process, because {why}")), "{stderr}");
    let refused = host.run(&["run", "--runtime", "podman"], b"");
    let words = "--runtime asks for containers, which are not available, because Podman does not answer at";
    assert!(refused.code == Some(1) && refused.stderr.contains(words), "{refused:?}");
}

/// The warnings of `hearth status` while no daemon runs, except that one, where the store is, and missing setup.
fn warned(host: &Host) -> Vec<String> {
    let status = host.status();
    let all = status["warnings"].as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned());
    let other = ["no daemon is running", "is on tmpfs", "is unconfined", "there is no owner", "Podman is installed"];
    all.filter(|one| !other.iter().any(|other| one.contains(other))).collect()
}

#[test]
fn an_end_in_order_is_nothing_to_warn_of_and_any_other_is() {
    let (mut host, server) = patient();
    server.happens(typed(1, "first"));
    wait_begun(&host, 1);
    host.go();
    wait_shown(&server, &["did first"]);
    host.wait_settled();
    assert_eq!(host.stop().code, Some(0));
    assert_eq!((warned(&host), host.status()["incarnations"][0]["phase"].clone()), (vec![], "running".into()));
    assert!(host.done(&["status"], b"").contains("was running"), "nobody knows what it is now");
    std::fs::remove_file(host.data().join("groups/main/go")).unwrap();
    host.start();
    server.happens(typed(2, "second"));
    wait_begun(&host, 2);
    ask(&mut host, Signal::TERM);
    signal(&mut host, Signal::TERM);
    assert_eq!(host.ended().code, Some(0));
    let cut = "1 message was in progress when the daemon stopped: the next one requeues it, which costs no try";
    assert_eq!(warned(&host), [cut]);
    host.start();
    wait_begun(&host, 3);
    host.kill();
    let killed = warned(&host);
    let words = "the daemon was killed or its machine crashed during 1 run of an agent: the next daemon adopts it";
    assert!(killed.len() == 1 && killed[0].starts_with(words), "{killed:?}");
    assert_eq!(host.status()["places"]["running"], 0, "without a daemon no agent counts as running");
    assert!(host.done(&["status"], b"").contains("agents: 0 of 16 running, 0 queued"));
    host.go();
    host.start();
    wait_shown(&server, &["did first", "did second"]);
    assert_calm(host, &server, &["did first", "did second"]);
}
