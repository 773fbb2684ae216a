//! What people see of an agent at work: signs of a real daemon on Telegram, counted.

use std::time::Duration;

use crate::drain::{go, patient};
use crate::fake_telegram::FakeTelegram;
use crate::host::{Host, wait_for};
use crate::telegram::{connect, typed};

fn signs(server: &FakeTelegram) -> usize {
    server.calls("sendChatAction").len()
}

/// An agent of which nothing is seen is shown for fifteen seconds, and its answer ends the sign of the next message.
#[test]
fn a_silent_agent_is_shown_for_a_while_and_nobody_after_the_answer() {
    let (mut host, server) = patient();
    server.happens(typed(1, "slow"));
    wait_for("a sign", || (signs(&server) == 1).then_some(()));
    wait_for("further signs", || (signs(&server) == 4).then_some(()));
    std::thread::sleep(Duration::from_secs(6));
    assert_eq!(signs(&server), 4, "nothing was seen of it for more than fifteen seconds");
    go(&host);
    wait_for("an answer", || (server.shown(123) == ["did slow"]).then_some(()));
    server.happens(typed(2, "quick"));
    wait_for("another answer", || (server.shown(123).len() == 2).then_some(()));
    host.wait_settled();
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(signs(&server), 5, "one sign at once, and none after the answer");
    let sign = server.calls("sendChatAction").pop().unwrap().parameters;
    assert_eq!((&sign["chat_id"], &sign["action"]), (&123.into(), &"typing".into()), "{sign}");
    host.stop();
}

/// What does not start is not at work.
#[test]
fn an_agent_that_cannot_be_started_is_not_shown_for_long() {
    let mut host = Host::with_echo();
    host.env.push(("HEARTH_TEST_RUNNER".to_owned(), "/nonexistent".to_owned()));
    let (mut host, server) = connect(host);
    server.happens(typed(1, "hello"));
    wait_for("the end of the first try", || {
        let ended = host.rows("incarnations").iter().any(|row| row["value"]["phase"].get("Closed").is_some());
        ended.then_some(())
    });
    let shown = signs(&server);
    std::thread::sleep(Duration::from_secs(5));
    assert!(signs(&server) <= shown.max(1), "{shown} signs, then {}", signs(&server));
    host.stop();
}
