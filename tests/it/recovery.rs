//! Accepted messages are answered after a crash: with real processes and a real `kill -9`.

use crate::host::agents::runners;
use crate::host::{Host, Running, is_alive, wait_for};

/// Starts the daemon and waits for this number of outgoing messages.
fn start_and_wait(host: &mut Host, count: usize) -> Vec<String> {
    host.launch();
    host.wait_said(count)
}

/// Nothing is left open, and nothing is sent twice, even after another start that serves the session once more.
fn assert_quiet(host: &mut Host, said: &[String]) {
    host.wait_settled();
    host.check();
    let stopped = host.stop();
    assert!(stopped.code == Some(0) && stopped.stderr.contains("is stopping"), "{stopped:#?}");
    host.start();
    host.inject("last", "and now");
    let mut expected = said.to_vec();
    expected.push("echo: and now".to_owned());
    assert_eq!(host.wait_said(expected.len()), expected);
    host.wait_settled();
    host.check();
}

#[test]
fn a_message_from_before_the_start_wakes_the_agent() {
    let mut host = Host::with_echo();
    let routed = host.inject("m1", "hello");
    assert_eq!((&routed["outcome"], &routed["wirings"][0]["agent"]), (&"routed".into(), &"main".into()), "{routed}");
    assert_eq!(host.inject("m1", "hello")["outcome"], "duplicate");
    let said = start_and_wait(&mut host, 1);
    assert_eq!(said, ["echo: hello"]);
    let status = host.status();
    assert_eq!(status["outbound"]["total"], 1, "{status}");
    assert_quiet(&mut host, &said);
}

#[test]
fn what_a_daemon_accepted_survives_its_sudden_end() {
    let mut host = Host::with_echo();
    host.start();
    assert_eq!(host.inject("m1", "hello")["outcome"], "routed");
    host.kill();
    let said = start_and_wait(&mut host, 1);
    assert_eq!(said, ["echo: hello"]);
    assert_quiet(&mut host, &said);
}

#[test]
fn a_turn_that_was_cut_off_is_taken_again() {
    let mut host = Host::with_echo();
    host.start();
    host.inject("m1", "!until go\nslow");
    wait_for("the turn to begin", || host.states()[0].get("Claimed").map(|_| ()));
    let runners = runners(&host);
    assert_eq!(runners.len(), 1, "{runners:?}");
    host.kill();
    host.go();
    let said = start_and_wait(&mut host, 1);
    assert_eq!(said, ["echo: slow"]);
    assert!(!is_alive(runners[0]), "the runner of the dead daemon lives on");
    let incarnations = host.rows("incarnations");
    assert_eq!(incarnations.len(), 2, "{incarnations:#?}");
    assert_quiet(&mut host, &said);
}

#[test]
fn an_answer_for_a_terminal_that_went_away_is_shown_to_the_next() {
    let mut host = Host::new();
    host.start();
    let mut first = Running::start_open(host.command(&["chat"]));
    first.type_line("!until go");
    first.type_line("late");
    wait_for("both to be accepted", || (host.states().len() == 2).then_some(()));
    first.signal(rustix::process::Signal::KILL).end();
    host.go();
    let said = host.wait_said(1);
    assert_eq!(said, ["echo: late"]);
    host.kill();
    host.start();
    let mut second = Running::start_open(host.command(&["chat"]));
    second.wait_stdout("echo: late");
}
