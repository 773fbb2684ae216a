//! Typing indicators of a real daemon on Telegram, counted.

use std::time::{Duration, Instant};

use crate::host::fake_telegram::FakeTelegram;
use crate::host::telegram::patient;
use crate::host::telegram::{connect, typed};
use crate::host::{Host, PATIENCE, wait_for};

fn signs(server: &FakeTelegram) -> usize {
    server.calls("sendChatAction").len()
}

/// Signs of one agent come every four seconds: after this time without one, none will follow.
const CALM: Duration = Duration::from_secs(6);

/// The number of typing signs, once no further one comes.
fn last_sign(server: &FakeTelegram) -> usize {
    let begun = Instant::now();
    let (mut count, mut since) = (signs(server), begun);
    while since.elapsed() < CALM {
        assert!(begun.elapsed() < PATIENCE, "{count} signs, and no end of them");
        std::thread::sleep(Duration::from_millis(50));
        if signs(server) != count {
            (count, since) = (signs(server), Instant::now());
        }
    }
    count
}

/// Typing is not shown for ever for a silent agent, and ends with the answer to the next message.
#[test]
fn a_silent_agent_is_shown_for_a_while_and_nobody_after_the_answer() {
    let (mut host, server) = patient();
    server.happens(typed(1, "slow"));
    wait_for("a sign and further ones", || (signs(&server) >= 3).then_some(()));
    let silent = last_sign(&server);
    assert!(server.shown(123).is_empty(), "its turn goes on");
    host.go();
    wait_for("an answer", || (server.shown(123) == ["did slow"]).then_some(()));
    server.happens(typed(2, "quick"));
    wait_for("another answer", || (server.shown(123).len() == 2).then_some(()));
    host.wait_settled();
    assert!(last_sign(&server) > silent, "a sign at once, and some time after the answer none");
    let sign = server.calls("sendChatAction").pop().unwrap().parameters;
    assert_eq!((&sign["chat_id"], &sign["action"]), (&123.into(), &"typing".into()), "{sign}");
    host.stop();
}

/// No typing is shown for an agent that does not start.
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
    std::thread::sleep(Duration::from_secs(5));
    let shown = signs(&server);
    let tries = host.rows("incarnations").len();
    assert!(shown <= tries, "{shown} signs in {tries} tries");
    host.stop();
}
