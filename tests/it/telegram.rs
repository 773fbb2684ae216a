//! A daemon that talks to people on Telegram: what a person types and sees, through crashes and lost answers.

use std::time::Duration;

use serde_json::{Value, json};

use crate::host::chaos::{Chaos, settled};
use crate::host::fake_llm::FakeLlm;
use crate::host::fake_telegram::{FakeTelegram, Fault, TOKEN};
use crate::host::telegram::{PROGRAM, connect, typed, wait_delivered, wait_shown};
use crate::host::{CHAT, Host, wait_for};

/// A host whose chat `telegram/123` is on a fake Telegram.
fn connected(agent: &str) -> (Host, FakeTelegram) {
    connect(Host::with_agent(agent))
}

#[test]
fn a_person_is_answered_and_an_update_that_comes_again_is_not_answered_again() {
    let (mut host, server) = connected("provider = \"echo\"");
    let number = server.happens(typed(7, "hello"));
    assert_eq!(wait_shown(&server, 1), ["echo: hello"]);
    wait_delivered(&host, 1);
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

#[test]
fn a_photo_reaches_the_agent_and_a_file_of_it_the_person() {
    let (mut host, server) = connect(Host::with_program(PROGRAM));
    server.has_file("p", "photos/file 1.jpg", b"a cat".to_vec());
    let mut photo = typed(7, "");
    photo["message"]["photo"] = json!([{"file_id": "p", "width": 10, "height": 10, "file_size": 5}]);
    server.happens(photo);
    assert_eq!(wait_shown(&server, 1), ["it says a cat"]);
    let sent = server.calls("sendDocument");
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].files, [("document".to_owned(), "answer.txt".to_owned(), b"A CAT".to_vec())]);
    wait_delivered(&host, 1);
    host.wait_settled();
    host.check();
    host.stop();
}

/// While a file is fetched, another sender is answered. The daemon dies before the update is stored and acknowledged to
/// Telegram.
#[test]
fn a_file_that_loads_for_long_holds_nobody_else_and_a_crash_loses_and_doubles_nothing() {
    let host = Host::with_agent("provider = \"echo\"");
    host.apply(&format!("schema = 1\n{}", CHAT.replace("123", "456")));
    let (mut host, server) = connect(host);
    server.has_file("v", "voice/1.oga", b"sound".to_vec());
    server.fails("getFile", [Fault::Hold]);
    let mut voice = typed(7, "");
    voice["message"]["voice"] = json!({"file_id": "v", "duration": 1});
    voice["message"]["caption"] = json!("listen");
    let slow = server.happens(voice);
    wait_for("the file to be asked for", || (server.calls("getFile").len() == 1).then_some(()));
    let mut other = typed(8, "me too");
    other["message"]["chat"] = json!({"id": 456, "type": "private", "first_name": "Bob"});
    let last = server.happens(other);
    wait_for("an answer to somebody else", || (server.shown(456) == ["echo: me too"]).then_some(()));
    wait_delivered(&host, 1);
    assert_eq!((server.unconfirmed(), server.shown(123).len()), ((slow..=last).collect(), 0));
    host.kill();
    server.release();
    host.start();
    wait_shown(&server, 1);
    wait_for("all to be confirmed", || server.unconfirmed().is_empty().then_some(()));
    host.wait_settled();
    assert_eq!((host.rows("messages").len(), server.shown(123).len(), server.shown(456).len()), (2, 1, 1));
    host.check();
    assert_eq!(host.stop().code, Some(0));
}

/// Files of unknown senders are not fetched, so they delay no one.
#[test]
fn files_of_strangers_stay_where_they_are() {
    let host = Host::new();
    host.apply(&format!(
        "schema = 1\n[[agents]]\nfolder = \"main\"\nprovider = \"echo\"\n{}",
        CHAT.replace("public", "strict")
    ));
    let (mut host, server) = connect(host);
    server.has_file("v", "voice/1.oga", b"sound".to_vec());
    for number in 1..=3 {
        let mut voice = typed(number, "");
        voice["message"]["voice"] = json!({"file_id": "v", "duration": 1});
        server.happens(voice);
    }
    wait_for("all to be confirmed", || server.unconfirmed().is_empty().then_some(()));
    assert_eq!((server.calls("getFile").len(), host.rows("messages").len()), (0, 0));
    let dropped: Value = serde_json::from_str(&host.done(&["dropped", "--json"], b"")).unwrap();
    assert!(dropped.to_string().contains("unknown_sender"), "{dropped}");
    host.check();
    assert_eq!(host.stop().code, Some(0));
}

#[test]
fn an_agent_changes_what_it_said_and_reacts_to_what_it_was_told() {
    let (mut host, server) = connect(Host::with_program(PROGRAM));
    server.happens(typed(7, "change"));
    wait_delivered(&host, 3);
    assert_eq!(server.shown(123), ["right"]);
    let reaction = server.calls("setMessageReaction").pop().unwrap().parameters;
    assert_eq!((&reaction["message_id"], &reaction["reaction"][0]["emoji"]), (&json!(7), &json!("\u{1f44d}")));
    host.check();
    host.stop();
}

/// An unknown sender writes, the owner is asked in their own chat, the daemon dies, and the owner's press admits the
/// sender.
#[test]
fn a_stranger_is_answered_when_the_owner_presses_a_button() {
    let host = Host::new();
    let chat = CHAT.replace("public", "request_approval");
    let owner = "[[users]]\nid = \"telegram:1\"\nroles = [\"owner\"]";
    host.apply(&format!("schema = 1\n[[agents]]\nfolder = \"main\"\nprovider = \"echo\"\n{owner}\n{chat}"));
    let (mut host, server) = connect(host);
    server.happens(typed(7, "hello"));
    wait_for("a card", || (!server.shown(1).is_empty()).then_some(()));
    let card = server.calls("sendMessage").pop().unwrap().parameters;
    wait_delivered(&host, 1);
    assert!(server.shown(123).is_empty() && host.states() == [] as [Value; 0]);
    host.kill();
    host.start();
    let button = card["reply_markup"]["inline_keyboard"][0][0]["callback_data"].clone();
    let press = |by: i64| {
        json!({"callback_query": {"id": format!("cq{by}"), "from": {"id": by, "is_bot": false, "first_name": "Bo"},
            "chat_instance": "1", "data": button,
            "message": {"message_id": 100, "date": 1, "text": "Allow?", "chat": {"id": 1, "type": "private"}}}})
    };
    server.happens(press(9));
    wait_for("the stranger to be told", || (server.calls("answerCallbackQuery").len() == 1).then_some(()));
    assert!(server.shown(123).is_empty(), "nobody lets themselves in");
    server.happens(press(1));
    assert_eq!(wait_shown(&server, 1), ["echo: hello"]);
    server.happens(press(1));
    wait_for("every press to be answered", || (server.calls("answerCallbackQuery").len() == 3).then_some(()));
    let notes: Vec<Value> =
        server.calls("answerCallbackQuery").iter().map(|call| call.parameters["show_alert"].clone()).collect();
    assert_eq!(notes, [true, false, true]);
    host.wait_settled();
    assert_eq!(server.shown(123), ["echo: hello"]);
    let card = server.message(1, 100).unwrap();
    assert!(card["reply_markup"]["inline_keyboard"].as_array().is_none_or(Vec::is_empty), "{card}");
    host.check();
    host.stop();
}

/// The daemon dies while Telegram has the message and has not answered yet.
#[test]
fn what_a_dead_daemon_may_have_said_is_marked_when_it_is_said_again() {
    let (mut host, server) = connected("provider = \"echo\"");
    server.fails("sendMessage", [Fault::Hold]);
    server.happens(typed(7, "hello"));
    wait_for("the attempt", || (!server.calls("sendMessage").is_empty()).then_some(()));
    host.kill();
    server.release();
    host.start();
    let shown = wait_shown(&server, 2);
    let marked = shown.iter().filter(|text| text.starts_with("(sent again")).count();
    assert_eq!((shown.len(), marked), (2, 1), "{shown:?}");
    wait_delivered(&host, 1);
    host.check();
    host.stop();
}

/// The daemon is killed, Telegram goes away and answers of it are lost while messages arrive and answers leave: nothing is
/// lost, and what people see twice says so.
#[test]
fn nothing_is_lost_by_telegram_and_repeats_are_marked() {
    let mut host = Host::with_agent("provider = \"echo\"");
    host.env.push(("HEARTH_TEST_BACKOFF_MS".to_owned(), "100".to_owned()));
    let (mut host, mut server) = connect(host);
    let chaos = Chaos::new(8);
    let mut last = 0;
    for (number, burst) in chaos.bursts() {
        for text in burst {
            last += 1;
            server.happens(typed(last, text));
        }
        std::thread::sleep(Duration::from_millis(37 * (number as u64 % 5)));
        match number % 4 {
            0 => server.fails("sendMessage", [Fault::LoseAnswer]),
            1 => server.restart(Duration::from_millis(50)),
            _ => {
                host.kill();
                host.start();
            }
        }
        chaos.follow(number, || server.shown(123), || host.unfinished());
    }
    chaos.marked(|| server.shown(123), || host.unfinished());
    settled(&host);
    assert_eq!(host.rows("bodies").len(), chaos.texts.len(), "each message is stored once");
    wait_for("all to be confirmed", || server.unconfirmed().is_empty().then_some(()));
    host.check();
}

/// The few lines of `docs/channels.md` that lead from an empty directory to a bot that answers.
#[test]
fn the_short_way_to_telegram() {
    let mut host = Host::new();
    let server = FakeTelegram::start();
    std::fs::write(host.path("bot-token"), format!("{TOKEN}\n")).unwrap();
    let (token, url) = (host.path("bot-token"), server.url());
    host.done(&["chat", "hello"], b"");
    host.start();
    host.apply(&format!(
        "schema = 1\n[channels.telegram]\ntoken = \"file:{}\"\nbase_url = \"{url}\"\n",
        token.display()
    ));
    server.happens(typed(7, "hello"));
    wait_for("the question who listens", || host.done(&["approvals", "list"], b"").contains("ap1").then_some(()));
    host.done(&["approvals", "approve", "ap1"], b"");
    assert_eq!(wait_shown(&server, 1), ["echo: hello"]);
    host.done(&["roles", "grant", "telegram:9", "owner"], b"");
    server.happens(typed(8, "more"));
    assert_eq!(wait_shown(&server, 2), ["echo: hello", "echo: more"]);
    wait_delivered(&host, 2);
    host.check();
    assert_eq!(host.stop().code, Some(0));
}

/// Until a server rejects one, a direct chat shows what the model has written so far; then only that it writes.
#[test]
fn a_direct_chat_shows_an_answer_while_it_is_written() {
    let model = FakeLlm::start();
    let agent = format!(
        "provider = \"openai\"\nmodel = \"fake-1\"\nunconfined = true\n\
         env = {{ OPENAI_BASE_URL = \"http://127.0.0.1:{}/v1\", OPENAI_API_KEY = \"none\" }}",
        model.port
    );
    let (mut host, server) = connected(&agent);
    let texts = || -> Vec<String> {
        let calls = server.calls("sendMessageDraft").into_iter();
        calls.map(|call| call.parameters["text"].as_str().unwrap().to_owned()).collect()
    };
    let whole = "It is raining now, and soon it will stop.";
    server.happens(typed(7, &format!("\n@@say {whole}\n@@drip 9\n")));
    assert_eq!(wait_shown(&server, 1), [whole]);
    let shown = texts();
    assert!(shown.len() > 1 && shown.iter().all(|text| whole.starts_with(text)), "{shown:?}");
    assert!(shown.windows(2).all(|two| two[0].len() <= two[1].len()), "{shown:?}");
    let draft = &server.calls("sendMessageDraft")[0].parameters;
    assert!(draft["chat_id"] == 123 && draft["draft_id"].as_u64() > Some(0), "{draft}");
    // A server that knows no drafts.
    let unknown = Fault::Error(404, "Not Found: method not found", Value::Null);
    server.fails("sendMessageDraft", [unknown.clone(), unknown]);
    server.happens(typed(8, &format!("\n@@say {whole}\n@@drip 9\n")));
    wait_shown(&server, 2);
    assert_eq!(texts().len(), shown.len() + 1, "it is not asked again");
    host.wait_settled();
    host.check();
    host.stop();
}
