//! A daemon that talks to people on Telegram: what a person types and sees, through crashes and lost answers.

use serde_json::{Value, json};

use crate::fake_telegram::{FakeTelegram, Fault, TOKEN};
use crate::host::{Host, wait_for};

/// A host whose chat `telegram/123` is on a stand-in for Telegram.
fn connected(agent: &str) -> (Host, FakeTelegram) {
    let server = FakeTelegram::start();
    let mut host = Host::with_agent(agent);
    host.env.push(("BOT_TOKEN".to_owned(), TOKEN.to_owned()));
    host.apply(&format!(
        "schema = 1\n[channels.telegram]\ntoken = \"env:BOT_TOKEN\"\nbase_url = \"{}\"\n",
        server.url()
    ));
    host.start();
    (host, server)
}

/// What Ann types in her direct chat.
fn typed(id: i64, text: &str) -> Value {
    json!({"message": {
        "message_id": id, "date": 1_700_000_000, "text": text,
        "from": {"id": 9, "is_bot": false, "first_name": "Ann"},
        "chat": {"id": 123, "type": "private", "first_name": "Ann"},
    }})
}

fn wait_shown(server: &FakeTelegram, count: usize) -> Vec<String> {
    wait_for("messages on Telegram", || Some(server.shown(123)).filter(|shown| shown.len() >= count))
}

#[test]
fn a_person_is_answered_and_an_update_that_comes_again_is_not_answered_again() {
    let (mut host, server) = connected("provider = \"echo\"");
    let number = server.happens(typed(7, "hello"));
    assert_eq!(wait_shown(&server, 1), ["echo: hello"]);
    host.wait_settled();
    host.kill();
    server.again(number, typed(7, "hello"));
    host.start();
    server.happens(typed(8, "more"));
    assert_eq!(wait_shown(&server, 2), ["echo: hello", "echo: more"]);
    host.wait_settled();
    host.check();
    assert_eq!(host.stop().code, Some(0));
}

#[test]
fn an_answer_whose_fate_is_not_known_is_said_again_and_says_so() {
    let (mut host, server) = connected("provider = \"echo\"");
    server.fails("sendMessage", [Fault::LoseAnswer]);
    server.happens(typed(7, "hello"));
    let shown = wait_shown(&server, 2);
    assert_eq!(shown[0], "echo: hello");
    assert!(shown[1].starts_with("(sent again") && shown[1].ends_with("\necho: hello"), "{shown:?}");
    host.wait_settled();
    host.check();
    host.stop();
}

#[test]
fn nothing_that_hearth_says_or_stores_has_the_token() {
    let (mut host, server) = connected("provider = \"echo\"");
    server.fails("getUpdates", [Fault::Close, Fault::Close]);
    server.fails("sendMessage", [Fault::Close]);
    server.happens(typed(7, "hello"));
    wait_shown(&server, 1);
    let told = [
        host.status().to_string(),
        host.done(&["export"], b""),
        host.dump(&["--json", "--bodies"]).stdout,
        host.stop().stderr,
    ];
    for text in told {
        assert!(!text.contains(TOKEN), "{text}");
    }
}

#[test]
fn a_token_that_is_not_taken_is_shown_and_answers_wait_until_it_is() {
    let server = FakeTelegram::start();
    server.takes("another");
    let mut host = Host::with_agent("provider = \"echo\"");
    host.env.push(("BOT_TOKEN".to_owned(), TOKEN.to_owned()));
    host.apply(&format!(
        "schema = 1\n[channels.telegram]\ntoken = \"env:BOT_TOKEN\"\nbase_url = \"{}\"\n",
        server.url()
    ));
    host.start();
    wait_for("the channel to be down", || {
        let status = host.status();
        let channel = status["channels"].as_array()?.iter().find(|channel| channel["channel"] == "telegram")?.clone();
        let why = channel["why"].as_str().unwrap_or_default();
        (channel["state"] == "down" && why.contains("does not accept the token")).then_some(())
    });
    host.inject("m1", "hello");
    host.wait_said(1);
    assert!(server.shown(123).is_empty());
    host.stop();
    server.takes(TOKEN);
    host.start();
    assert_eq!(wait_shown(&server, 1), ["echo: hello"]);
    host.stop();
}
