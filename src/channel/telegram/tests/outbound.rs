//! Counts what people see of deliveries.

use super::*;
use crate::channel::telegram::plan::AGAIN;

#[test]
fn a_message_goes_to_its_chat_and_topic() {
    let bench = Bench::up();
    let mut hi = say(1, "hi");
    hi.to = Address { thread: Some(id(42)), ..at(-5) };
    assert_eq!(bench.deliver(hi), delivered(100));
    let call = bench.calls("sendMessage").pop().unwrap();
    assert_eq!(
        call.parameters,
        json!({"chat_id": -5, "text": "hi", "message_thread_id": 42, "link_preview_options": {"is_disabled": true}})
    );
    assert!(matches!(bench.deliver(Delivery { to: Address { platform_id: id("chat:-5"), ..at(1) }, ..say(2, "hi") }),
        DeliveryResult::Rejected(why) if why == "the chat has no Telegram id"));
}

/// Telegram's servers fetch the first link of a text for its preview. A text that an agent writes must not cause that.
#[test]
fn links_have_previews_only_where_the_channel_says_so() {
    let (off, long) = (json!({"is_disabled": true}), format!("https://evil.example/?secret {}", "x ".repeat(5_000)));
    for (link_previews, wanted) in [(false, off), (true, Value::Null)] {
        let mut bench = Bench::up();
        bench.link_previews = link_previews;
        bench.start(None, QUICK);
        assert_eq!(bench.deliver(say(1, &long)), parts("100 101 102"));
        assert_eq!(bench.deliver(say(2, "[look](https://evil.example/?secret)")), delivered(103));
        assert!(matches!(
            bench.deliver(delivery(3, DeliveryAct::Edit(id(103)), &long)),
            DeliveryResult::Delivered { .. }
        ));
        assert!(matches!(
            bench.deliver(delivery(4, DeliveryAct::Edit(id(100)), "https://evil.example/?other")),
            DeliveryResult::Delivered { .. }
        ));
        let calls = [bench.calls("sendMessage"), bench.calls("editMessageText")].concat();
        assert!(calls.len() >= 8, "{calls:?}");
        for call in calls {
            assert_eq!(call.parameters["link_preview_options"], wanted, "{call:?}");
        }
    }
}

#[test]
fn markdown_of_agents_is_shown_and_never_fails_a_message() {
    let bench = Bench::up();
    assert_eq!(bench.deliver(say(1, "**now** `x`")), delivered(100));
    let marked = bench.calls("sendMessage").pop().unwrap().parameters;
    let entities = json!([{"type": "bold", "offset": 0, "length": 3}, {"type": "code", "offset": 4, "length": 1}]);
    assert_eq!(marked["entities"], entities);
    let words = "Bad Request: can't parse entities: unsupported";
    bench.server.fails("sendMessage", [Fault::Error(400, words, json!({}))]);
    assert_eq!(bench.deliver(say(2, "**now**")), delivered(101));
    assert_eq!(bench.server.shown(123), ["now x", "**now**"]);
    assert_eq!(bench.deliver(Delivery { speaker: None, ..say(3, "**Hearth**") }), delivered(102));
    let mut title = card();
    title.title = "[free](https://x.example)".into();
    assert_eq!(bench.deliver(delivery(4, DeliveryAct::Ask(title), "")), delivered(103));
    assert_eq!(bench.server.shown(123)[2..], ["**Hearth**", "[free](https://x.example)\n\nAllow?"]);
    assert_eq!(bench.deliver(delivery(5, DeliveryAct::Edit(id(100)), "*later*")), delivered(100));
    assert_eq!(bench.server.shown(123)[0], "later");
}

#[test]
fn failures_are_told_apart() {
    let bench = Bench::up();
    let error = |code, words| Fault::Error(code, words, json!({}));
    let retry = |why: &str| DeliveryResult::Retry(why.into());
    let rejected = |why: &str| DeliveryResult::Rejected(why.into());
    let rows = [
        (error(400, "Bad Request: chat not found"), rejected("Bad Request: chat not found")),
        (error(403, "Forbidden: bot was blocked by the user"), rejected("Forbidden: bot was blocked by the user")),
        (error(404, "Not Found: method not found"), rejected("Not Found: method not found")),
        (error(500, "Internal Server Error"), retry("the server reports an error: Internal Server Error")),
        (Fault::Error(502, "Bad Gateway", json!({})), retry("the server reports an error: Bad Gateway")),
    ];
    for (number, (fault, expected)) in (1_u64..).zip(rows) {
        bench.server.fails("sendMessage", [fault]);
        assert_eq!(bench.deliver(say(number, "hi")), expected);
    }
    let unclear = [
        Fault::LoseAnswer,
        Fault::Close,
        error(504, "Gateway Timeout"),
        Fault::Say(200, "<html>ok</html>".into()),
        Fault::Say(200, "{\"ok\":true,\"result\":{\"message\":1}}".into()),
    ];
    for (number, fault) in (50_u64..).zip(unclear) {
        bench.server.fails("sendMessage", [fault.clone()]);
        let result = bench.deliver(say(number, "hi"));
        assert!(matches!(result, DeliveryResult::Uncertain(_)), "{fault:?}: {result:?}");
    }
}

#[test]
fn a_server_that_cannot_be_reached_was_sent_nothing() {
    let bench = Bench::at(FakeTelegram::start(), Some(NOBODY.to_owned()));
    bench.until("it is seen", || matches!(bench.bot().state(), State::Down { sending: true, .. }));
    assert_eq!(bench.deliver(say(1, "hi")), DeliveryResult::NoAdapter, "it waits for the line");
}

fn slow(seconds: u32) -> Fault {
    Fault::Error(429, "Too Many Requests: retry later", json!({ "retry_after": seconds }))
}

#[test]
fn a_pause_that_the_server_asks_for_is_kept_and_holds_no_other_chat() {
    let bench = Bench::up();
    bench.server.fails("sendMessage", [slow(5)]);
    bench.bot().deliver(say(1, "first"));
    bench.until("the pause began", || bench.calls("sendMessage").len() == 1);
    bench.bot().deliver(say(2, "second"));
    let other = Delivery { to: at(9), ..say(3, "other") };
    assert_eq!(bench.deliver(other), delivered(100), "at once");
    assert_eq!(bench.server.shown(123), Vec::<String>::new());
    bench.until("both are out", || bench.heard(|heard| heard.outcomes.len() == 3));
    assert_eq!(bench.server.shown(123), ["first", "second"]);
    assert_eq!(bench.calls("sendMessage").len(), 4, "no other call was made in the meantime");
}

/// The engine gets the outcome, however often it asks.
#[test]
fn a_pause_that_is_longer_than_an_attempt_may_take_is_told() {
    let bench = Bench::with(Times { patience: Duration::from_secs(1), ..QUICK });
    bench.server.fails("sendMessage", [slow(5)]);
    let waits = DeliveryResult::Retry("the server requests a pause".into());
    assert_eq!(bench.deliver(say(4, "late")), waits);
    let asked = std::iter::repeat_with(|| bench.deliver(say(4, "late"))).find(|answer| *answer != waits);
    assert_eq!(asked, Some(delivered(100)));
    assert_eq!(bench.calls("sendMessage").len(), 2);
}

/// The engine tries again when the pause is over, and the attempt does not last as long as the pause.
#[test]
fn a_long_pause_ends_the_attempt_at_once_and_its_end_is_told() {
    let bench = Bench::with(Times { waits: Duration::from_secs(2), ..QUICK });
    let known = bench.heard(|heard| heard.reachable);
    bench.server.fails("sendMessage", [slow(5)]);
    let begin = crate::clock::Stopwatch::start();
    assert_eq!(bench.deliver(say(4, "late")), DeliveryResult::Retry("the server requests a pause".into()));
    assert!(begin.elapsed() < Duration::from_secs(5), "it waited for the pause");
    bench.until("the end of the pause", || bench.heard(|heard| heard.reachable > known));
    assert_eq!(bench.deliver(say(4, "late")), delivered(100));
    assert_eq!(bench.calls("sendMessage").len(), 2, "no other call was made in the meantime");
}

#[test]
fn of_a_long_message_only_what_is_missing_is_sent_again() {
    let bench = Bench::up();
    let (a, b, c) = ("a".repeat(4_000), "b".repeat(4_000), "c".repeat(10));
    let long = format!("{a}{b}{c}");
    let trouble = Fault::Error(500, "Internal Server Error", json!({}));
    bench.server.fails("sendMessage", [Fault::None, trouble]);
    assert!(matches!(bench.deliver(say(1, &long)), DeliveryResult::Retry(_)));
    assert_eq!(bench.server.shown(123), [a.as_str()]);
    assert_eq!(bench.deliver(say(1, &long)), parts("100 101 102"));
    assert_eq!(bench.server.shown(123), [a.as_str(), &b, &c]);

    // A message with an unknown outcome is sent again and says so; other messages are neither repeated nor marked.
    bench.server.fails("sendMessage", [Fault::None, Fault::LoseAnswer]);
    assert!(matches!(bench.deliver(say(2, &long)), DeliveryResult::Uncertain(_)));
    let again = Delivery { repeated: true, ..say(2, &long) };
    assert_eq!(bench.deliver(again), parts("103 105 106"));
    assert_eq!(bench.server.shown(123)[3..], [a.clone(), b.clone(), format!("{AGAIN}{b}"), c.clone()]);

    // Nothing is known about attempts of an earlier run.
    let repeated = Delivery { repeated: true, ..say(3, "hi") };
    assert_eq!(bench.deliver(repeated), delivered(107));
    assert_eq!(bench.server.shown(123)[7], format!("{AGAIN}hi"));
}

#[test]
fn a_part_that_is_refused_says_how_far_it_came() {
    let bench = Bench::up();
    let refused = Fault::Error(400, "Bad Request: no", json!({}));
    bench.server.fails("sendMessage", [Fault::None, refused]);
    let long = "x".repeat(9_000);
    let expected = "Bad Request: no; 1 parts were sent, 2 were not".to_owned();
    assert_eq!(bench.deliver(say(1, &long)), DeliveryResult::Rejected(expected));
}

#[test]
fn a_delivery_that_is_under_way_or_was_made_is_not_made_again() {
    let bench = Bench::up();
    bench.server.fails("sendMessage", [Fault::Hold]);
    bench.bot().deliver(say(1, "hi"));
    bench.until("it is under way", || bench.calls("sendMessage").len() == 1);
    let second = Attempt { number: 2, ..say(1, "hi").attempt };
    bench.bot().deliver(Delivery { attempt: second, repeated: true, ..say(1, "hi") });
    bench.server.release();
    assert_eq!(bench.outcome(0), delivered(100));
    assert_eq!(bench.heard(|heard| heard.outcomes[0].0), second, "it answers both");
    assert_eq!(bench.deliver(Delivery { repeated: true, ..say(1, "hi") }), delivered(100));
    assert_eq!((bench.server.shown(123), bench.heard(|heard| heard.outcomes.len())), (vec!["hi".to_owned()], 2));
}

/// A text of several messages that was sent.
fn parts(ids: &str) -> DeliveryResult {
    DeliveryResult::Delivered { platform_message: Some(id(ids)) }
}

#[test]
fn edits_change_all_parts_and_take_the_buttons_away() {
    let bench = Bench::up();
    assert_eq!(bench.deliver(delivery(1, DeliveryAct::Ask(card()), "")), delivered(100));
    let shown = bench.server.message(123, 100).unwrap();
    assert_eq!(shown["text"], "New sender\n\nAllow?");
    assert_eq!(
        shown["reply_markup"]["inline_keyboard"],
        json!([[
            {"text": "Allow", "callback_data": "ap12.000000000000beef.0"},
            {"text": "Deny", "callback_data": "ap12.000000000000beef.1"},
        ]])
    );
    let edit = |number, message: i64, text: &str| delivery(number, DeliveryAct::Edit(id(message)), text);
    assert_eq!(bench.deliver(edit(2, 100, "New sender\n\nAllow!")), delivered(100));
    assert!(bench.server.message(123, 100).unwrap()["reply_markup"].is_null());
    assert_eq!(bench.deliver(edit(3, 100, "New sender\n\nAllow!")), delivered(100), "not modified is done");

    let (a, b) = ("a".repeat(4_000), "b".repeat(10));
    assert_eq!(bench.deliver(say(4, &format!("{a}{b}"))), parts("101 102"));
    assert_eq!(bench.deliver(edit(5, 101, "short")), delivered(101));
    assert_eq!(bench.server.shown(123)[1..], ["short"]);
    assert_eq!(bench.deliver(edit(6, 101, &format!("{b}{a}"))), parts("101 102"));
    assert_eq!(bench.server.shown(123).len(), 3);

    let rejected = "Bad Request: message to edit not found".to_owned();
    assert_eq!(bench.deliver(edit(7, 999, "x")), DeliveryResult::Rejected(rejected));
    bench.server.fails("editMessageText", [Fault::LoseAnswer]);
    assert!(matches!(bench.deliver(edit(8, 101, "y")), DeliveryResult::Retry(_)), "an edit can be repeated");
}

/// The daemon stores the ids of all parts. A part that an edit removed is sent anew when a later text needs it.
#[test]
fn edits_after_a_restart_change_all_parts() {
    let mut bench = Bench::up();
    let long = |letter: &str| [letter.repeat(4_000), letter.repeat(4_000), letter.repeat(10)];
    let said = bench.deliver(say(1, &long("a").concat()));
    let DeliveryResult::Delivered { platform_message: Some(parts) } = said else { panic!("{said:?}") };
    assert_eq!(parts.as_str(), "100 101 102");
    let edit = |number, text: &str| delivery(number, DeliveryAct::Edit(parts.clone()), text);
    for (number, text, expected) in [
        (2, long("b").concat(), long("b").to_vec()),
        (3, "short".to_owned(), vec!["short".to_owned()]),
        (4, long("c").concat(), long("c").to_vec()),
    ] {
        bench.start(None, QUICK);
        bench.until("the bot is connected", || bench.bot().state() == State::Up);
        assert!(matches!(bench.deliver(edit(number, &text)), DeliveryResult::Delivered { .. }), "{number}");
        assert_eq!(bench.server.shown(123), expected, "edit {number}");
    }
    let react = delivery(5, DeliveryAct::React(parts), "thumbs_up");
    assert_eq!(bench.deliver(react), DeliveryResult::Delivered { platform_message: None });
    assert_eq!(bench.calls("setMessageReaction").pop().unwrap().parameters["message_id"], 100);
}

#[test]
fn reactions_are_set() {
    let bench = Bench::up();
    let react = delivery(1, DeliveryAct::React(id(7)), "thumbs_up");
    assert_eq!(bench.deliver(react), DeliveryResult::Delivered { platform_message: None });
    let call = bench.calls("setMessageReaction").pop().unwrap();
    assert_eq!(
        call.parameters,
        json!({"chat_id": 123, "message_id": 7, "reaction": [{"type": "emoji", "emoji": "👍"}]})
    );
}

#[test]
fn files_go_out_as_pictures_and_documents() {
    let bench = Bench::up();
    let dir = bench.sessions.path().join("se1");
    std::fs::create_dir(&dir).unwrap();
    for (name, bytes) in [("a.png", "png"), ("b \"x\" ü.txt", "text"), ("empty.txt", "")] {
        std::fs::write(dir.join(name), bytes).unwrap();
    }
    std::fs::File::create(dir.join("huge.bin")).unwrap().set_len((50 << 20) + 1).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", dir.join("link.txt")).unwrap();
    let with = |number, text: &str, files: &[&str]| Delivery {
        files: files.iter().map(|name| (*name).to_owned()).collect(),
        ..say(number, text)
    };
    assert_eq!(bench.deliver(with(1, "see", &["se1/a.png", "se1/b \"x\" ü.txt"])), delivered(100));
    let photo = bench.calls("sendPhoto").pop().unwrap();
    assert_eq!(photo.parameters, json!({"chat_id": 123, "caption": "see"}));
    assert_eq!(photo.files, [("photo".to_owned(), "a.png".to_owned(), b"png".to_vec())]);
    let document = bench.calls("sendDocument").pop().unwrap();
    assert_eq!((document.files[0].0.as_str(), document.files[0].2.as_slice()), ("document", b"text".as_slice()));

    bench.server.fails("sendPhoto", [Fault::Error(400, "Bad Request: PHOTO_INVALID_DIMENSIONS", json!({}))]);
    assert_eq!(bench.deliver(with(2, "", &["se1/a.png"])), delivered(102));
    assert_eq!(bench.calls("sendDocument").pop().unwrap().files[0].1, "a.png");

    let files = ["se1/gone", "se1/link.txt", "se1/huge.bin", "se1/empty.txt", "../out", "/etc/passwd", "se1/a.png"];
    assert_eq!(bench.deliver(with(3, "see", &files)), delivered(103));
    let shown = bench.server.shown(123);
    assert!(shown[3].starts_with("see\n\n(the file gone could not be sent: "), "{shown:?}");
    let has_detail = |text: &String| text.contains("os error") || text.contains("No such file");
    assert!(!shown.iter().any(has_detail), "{shown:?}");
    assert!(shown[4..9].iter().all(|text| text.starts_with("(the file ")), "{shown:?}");
    assert!(shown[5].contains("it has 50 MB, and bots may send 50"), "{shown:?}");
    assert_eq!(bench.calls("sendPhoto").pop().unwrap().files[0].1, "a.png", "the others are sent");
}

#[test]
fn a_group_that_got_another_id_is_followed() {
    let bench = Bench::up();
    let words = "Bad Request: group chat was upgraded to a supergroup chat";
    bench.server.fails("sendMessage", [Fault::Error(400, words, json!({"migrate_to_chat_id": -1_009}))]);
    let hi = |number| Delivery { to: at(-9), ..say(number, "hi") };
    assert_eq!(bench.deliver(hi(1)), delivered(100));
    assert_eq!(bench.deliver(hi(2)), delivered(101));
    assert_eq!((bench.server.shown(-1_009).len(), bench.server.shown(-9).len()), (2, 0));
}

#[test]
fn typing_is_shown_once() {
    let bench = Bench::up();
    let place = Address { thread: Some(id(42)), ..at(-5) };
    bench.bot().typing(SessionId::new(1), &place);
    bench.until("it is shown", || bench.calls("sendChatAction").len() == 1);
    let sign = bench.calls("sendChatAction").pop().unwrap().parameters;
    assert_eq!(sign, json!({"chat_id": -5, "action": "typing", "message_thread_id": 42}));
    // A late or rejected typing indicator has no effect.
    let refused = Fault::Error(400, "Bad Request: chat not found", json!({}));
    bench.server.fails("sendChatAction", [Fault::Hold, refused]);
    bench.bot().typing(SessionId::new(1), &place);
    bench.bot().typing(SessionId::new(2), &at(-6));
    bench.deliver(Delivery { to: place, ..say(1, "hi") });
    bench.until("all were asked for", || bench.calls("sendChatAction").len() == 3);
}
