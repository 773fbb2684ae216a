//! Inbound updates are confirmed once they are committed, and not before.

use super::*;

#[test]
fn updates_are_confirmed_only_after_they_were_taken_in() {
    let bench = Bench::up();
    let later = || NotTaken::Later("no room".into());
    bench.heard(|heard| heard.refusals.extend([later(), later(), later()]));
    let number = bench.server.happens(message(123, 7, "hello"));
    bench.until("it was offered", || bench.heard(|heard| heard.refusals.len() < 3));
    assert_eq!(bench.server.unconfirmed(), [number]);
    bench.until("it is confirmed", || bench.server.unconfirmed().is_empty());
    assert_eq!(bench.taken(), ["7"], "once, after as many refusals as there were");
    let asked = bench.calls("getUpdates").pop().unwrap().parameters;
    assert_eq!(asked["offset"], number + 1);
    assert_eq!(asked["allowed_updates"], json!(["message", "channel_post", "callback_query"]));
}

#[test]
fn one_that_is_refused_for_ever_holds_nobody_up() {
    let bench = Bench::up();
    bench.heard(|heard| heard.refusals.push_back(NotTaken::Refused("never".into())));
    bench.server.happens(message(123, 7, "bad"));
    bench.server.happens(message(123, 8, "good"));
    bench.until("both are over", || bench.server.unconfirmed().is_empty() && bench.taken() == ["8"]);
}

/// A voice message whose file is held back by the server.
fn slow_voice(bench: &Bench, chat: i64, number: i64) -> Value {
    bench.server.has_file("slow", "voice/f.oga", b"sound".to_vec());
    bench.server.fails("getFile", [Fault::Hold]);
    let mut voice = message(chat, number, "");
    voice["message"]["voice"] = json!({"file_id": "slow", "duration": 1});
    voice
}

#[test]
fn the_order_within_a_chat_is_kept_and_a_slow_chat_holds_no_other() {
    let bench = Bench::up();
    let voice = slow_voice(&bench, -5, 1);
    let later = (2..5).map(|number| message(-5, number, "x"));
    bench.server.happen_at_once([voice].into_iter().chain(later).chain([message(-6, 9, "quick")]));
    bench.until("the quick one is taken", || bench.taken() == ["9"]);
    bench.server.release();
    bench.until("all are taken", || bench.taken().len() == 5);
    assert_eq!(bench.taken(), ["9", "1", "2", "3", "4"]);
}

/// A person who may not talk to an agent cannot delay others, not even with files.
#[test]
fn files_of_strangers_are_not_fetched() {
    let bench = Bench::up();
    bench.heard(|heard| heard.unheard = Some("-666"));
    for number in 1..=3 {
        bench.server.happens(slow_voice(&bench, -666, number));
    }
    bench.server.happens(message(-6, 9, "quick"));
    bench.until("all are taken", || bench.server.unconfirmed().is_empty());
    assert_eq!(bench.calls("getFile").len(), 0);
    let events = bench.heard(|heard| heard.events.clone());
    assert_eq!(events.len(), 4, "they are recorded all the same");
    let files: Vec<_> = events.iter().flat_map(|event| &event.attachments).collect();
    assert_eq!(files.len(), 3);
    assert!(files.iter().all(|file| file.blob.get().is_err_and(|why| why.contains("no agent received its message"))));
}

/// While a message waits for an approval, its file stays with Telegram. When Hearth requests the file, it is fetched
/// once, and temporary failures are not reported.
#[test]
fn a_file_of_a_held_message_is_fetched_when_hearth_asks() {
    let bench = Bench::up();
    bench.heard(|heard| heard.holding = Some("-5"));
    let voice = slow_voice(&bench, -5, 1);
    bench.server.happens(voice);
    bench.until("it is taken", || bench.taken() == ["1"]);
    let files = bench.heard(|heard| heard.events[0].attachments.clone());
    assert_eq!(files[0].blob, FileBytes::Remote("slow".to_owned()));
    assert!(bench.calls("getFile").is_empty());
    let fetch = Fetch { body: BodyId::new(3), channel: at(-5).channel, files };
    (0..3).for_each(|_| bench.bot().fetch(fetch.clone()));
    bench.until("it is asked for", || bench.calls("getFile").len() == 1);
    bench.bot().fetch(fetch.clone());
    bench.server.release();
    bench.until("it is fetched", || bench.heard(|heard| heard.fetched.len() == 1));
    let (body, files) = bench.heard(|heard| heard.fetched[0].clone());
    assert_eq!((body, files[0].size, files[0].blob.stored().is_some()), (fetch.body, 5, true));
    assert_eq!(bench.calls("getFile").len(), 1);
    // There is no space now: nothing is reported, and Hearth asks again.
    bench.heard(|heard| heard.full = Some("the disk is full".to_owned()));
    bench.until("it is tried", || {
        bench.bot().fetch(fetch.clone());
        bench.heard(|heard| heard.kept.len() > 2)
    });
    bench.heard(|heard| heard.full = None);
    assert_eq!(bench.heard(|heard| heard.fetched.len()), 1);
    // A file that Telegram no longer has is a final result.
    let gone = Fetch { body: BodyId::new(4), ..fetch };
    let files = gone.files.iter().map(|file| Attachment { blob: FileBytes::Remote("gone".into()), ..file.clone() });
    bench.bot().fetch(Fetch { files: files.collect(), ..gone });
    let of_gone = |heard: &mut Heard| heard.fetched.iter().find(|(body, _)| *body == BodyId::new(4)).cloned();
    bench.until("it is given up", || bench.heard(of_gone).is_some());
    let (_, files) = bench.heard(of_gone).unwrap();
    assert!(files[0].blob.get().is_err_and(|why| why.contains("invalid file_id")));
}

/// Telegram shows at most 100 unconfirmed updates: one with a slow file must not keep those of all other chats away.
#[test]
fn a_message_with_a_slow_file_is_confirmed_and_its_file_fetched_afterwards() {
    let bench = Bench::with(Times { files: Duration::from_millis(100), ..QUICK });
    let voice = slow_voice(&bench, -5, 1);
    bench.server.happens(voice);
    for number in 2..150 {
        bench.server.happens(message(-1_000 - number, number, "quick"));
    }
    bench.until("all are confirmed", || bench.server.unconfirmed().is_empty() && bench.taken().len() == 149);
    let event = bench.heard(|heard| heard.events.iter().find(|event| event.source == at(-5)).cloned()).unwrap();
    assert_eq!(event.attachments[0].blob, FileBytes::Remote("slow".to_owned()));
    let fetch = Fetch { body: BodyId::new(3), channel: at(-5).channel, files: event.attachments };
    bench.server.release();
    bench.bot().fetch(fetch.clone());
    bench.until("it is fetched", || bench.heard(|heard| heard.fetched.len() == 1));
    assert!(bench.heard(|heard| heard.fetched[0].1[0].blob.stored().is_some()));
}

/// An earlier version requested no further updates while a file was being fetched, which delayed other chats.
#[test]
fn what_others_say_while_a_file_loads_is_taken_in_and_nothing_is_confirmed_before_it_is_there() {
    let mut bench = Bench::up();
    let voice = slow_voice(&bench, -5, 1);
    let slow = bench.server.happens(voice.clone());
    bench.until("the file is asked for", || bench.calls("getFile").len() == 1);
    for number in 10..13 {
        bench.server.happens(message(-6, number, "quick"));
        bench.until("it is taken", || bench.taken().last() == Some(&number.to_string()));
    }
    let last = bench.server.happens(message(-5, 2, "of the slow chat"));
    let asked = || bench.calls("getUpdates").len();
    let before = asked();
    bench.until("it came a few times", || asked() > before + 3);
    assert_eq!(bench.taken(), ["10", "11", "12"], "each once, though it came with every answer");
    assert_eq!(bench.server.unconfirmed(), (slow..=last).collect::<Vec<_>>());
    let questions = bench.calls("getUpdates");
    let held = questions.iter().filter(|call| call.parameters["offset"] == slow);
    assert!(held.skip(1).all(|call| call.parameters["timeout"] == 0), "an answer with known updates comes at once");

    // A crash at this point loses nothing: all updates are sent again, and stored ones are recognized by their ids.
    bench.start(None, QUICK);
    bench.server.release();
    bench.until("all are taken", || bench.server.unconfirmed().is_empty());
    let mut taken = bench.taken().split_off(3);
    assert!(taken.iter().position(|id| id == "1") < taken.iter().position(|id| id == "2"), "{taken:?}");
    taken.sort();
    assert_eq!(taken, ["1", "10", "11", "12", "2"]);
}

#[test]
fn no_more_is_asked_for_than_an_answer_can_show() {
    let bench = Bench::up();
    let voice = slow_voice(&bench, -5, 0);
    bench.server.happens(voice);
    bench.until("the file is asked for", || bench.calls("getFile").len() == 1);
    bench.server.happen_at_once((1..150).map(|number| message(-6, number, "x")));
    bench.until("what an answer has is taken", || bench.taken().len() == 99);
    let asked = bench.calls("getUpdates").len();
    std::thread::sleep(QUICK.again * 6);
    assert_eq!((bench.calls("getUpdates").len(), bench.taken().len()), (asked, 99));
    bench.server.release();
    bench.until("the rest is taken", || bench.taken().len() == 150);
    bench.until("all are confirmed", || bench.server.unconfirmed().is_empty());
}

#[test]
fn updates_of_unknown_kinds_and_forms_are_passed_over() {
    let bench = Bench::up();
    bench.server.happens(json!({"purchased_paid_media": {"from": {"id": 1}}}));
    bench.server.happens(json!({"message": {"message_id": "seven"}}));
    bench.server.happens(json!({"message": null}));
    bench.server.happens(json!({"message": message(123, 6, "x")["message"], "edited_message": 3}));
    bench.server.happens(json!({"callback_query": {"id": 4}}));
    bench.server.again(99_999, json!(["no update"]));
    bench.server.happens(json!({"channel_post": {"message_id": 8, "date": 1, "text": "news",
        "chat": {"id": -100, "type": "channel", "title": "News"}}}));
    // The updates are from two chats, which are processed in parallel.
    bench.until("what can be read is taken", || bench.taken().len() == 2);
    let mut taken = bench.taken();
    taken.sort();
    assert_eq!(taken, ["6", "8"]);
}

#[test]
fn an_update_that_comes_again_is_handed_over_again_with_the_same_id() {
    let mut bench = Bench::up();
    let number = bench.server.happens(message(123, 7, "hello"));
    bench.until("it is taken", || bench.taken() == ["7"]);
    bench.until("it is confirmed, so that it is not confirmed later", || bench.server.unconfirmed().is_empty());
    bench.start(None, QUICK);
    bench.server.again(number, message(123, 7, "hello"));
    bench.until("it is taken again", || bench.taken() == ["7", "7"]);
}

#[test]
fn answers_that_are_lost_broken_or_huge_are_asked_for_again() {
    let server = FakeTelegram::start();
    let slow = json!({"retry_after": 0});
    server
        .fails("getMe", [Fault::Close, Fault::Error(502, "Bad Gateway", json!({})), Fault::Say(200, "<html>".into())]);
    server.fails(
        "getUpdates",
        [
            Fault::LoseAnswer,
            Fault::Say(200, "{\"ok\": true, \"result\": [{\"upd".into()),
            Fault::Say(200, "{\"ok\":true,\"result\":{\"a\":1}}".into()),
            Fault::Say(502, "<html>bad gateway</html>".into()),
            Fault::Error(429, "Too Many Requests", slow),
            Fault::Say(200, format!("{{\"ok\":true,\"result\":[\"{}\"]}}", "x".repeat(17 << 20))),
            Fault::Say(200, "{\"ok\":true,\"result\":[{\"no\":\"number\"}]}".into()),
        ],
    );
    server.happens(message(123, 7, "hello"));
    let bench = Bench::at(server, None);
    bench.until("it is taken", || bench.taken() == ["7"]);
    assert_eq!(bench.bot().state(), State::Up);
    let limits = bench.calls("getUpdates").into_iter().map(|call| call.parameters["limit"].as_u64().unwrap());
    assert!(limits.collect::<Vec<_>>().contains(&1), "less is asked for after an answer that was too large");
}

#[test]
fn files_are_kept_before_their_message_is_taken() {
    let bench = Bench::up();
    bench.server.has_file("p", "photos/file 1.jpg", vec![7; 5_000]);
    let mut photo = message(123, 7, "");
    photo["message"]["photo"] = json!([{"file_id": "p", "width": 10, "height": 10, "file_size": 5_000}]);
    photo["message"]["caption"] = json!("look");
    bench.server.happens(photo);
    bench.until("it is taken", || bench.taken() == ["7"]);
    let attachments = bench.heard(|heard| heard.events[0].attachments.clone());
    assert_eq!(attachments.len(), 1);
    let photo = &attachments[0];
    assert_eq!((photo.size, photo.mime.as_deref()), (5_000, Some("image/jpeg")));
    assert!(photo.name.starts_with("attachment") && photo.name.ends_with(".jpg"), "{}", photo.name);
    assert!(photo.blob.stored().is_some());
    assert_eq!(bench.heard(|heard| heard.kept.clone()), [vec![7; 5_000]]);
}

#[test]
fn a_file_that_cannot_be_had_says_why_and_its_message_is_taken() {
    let bench = Bench::up();
    bench.server.has_file("big", "documents/big", vec![0; (20 << 20) + 1]);
    bench.server.has_file("local", "/var/lib/bot/file", vec![1]);
    bench.server.has_file("outside", "documents/../../etc", vec![1]);
    bench.server.has_file("kept", "documents/kept", vec![1]);
    let document = |number: i64, file: Value| {
        let mut document = message(123, number, "");
        document["message"]["document"] = file;
        document
    };
    let rows = [
        (json!({"file_id": "none", "file_name": "a"}), "invalid file_id"),
        (json!({"file_id": "big", "file_name": "a", "file_size": 1}), "larger than the 20 MB"),
        (json!({"file_id": "told", "file_name": "a", "file_size": 30_000_000}), "larger than the 20 MB"),
        (json!({"file_id": "local", "file_name": "a"}), "only its own machine"),
        (json!({"file_id": "outside", "file_name": "a"}), "only its own machine"),
    ];
    for (number, (file, why)) in (10_i64..).zip(rows) {
        bench.server.happens(document(number, file.clone()));
        bench.until("it is taken", || bench.taken().last() == Some(&number.to_string()));
        let blob = bench.heard(|heard| heard.events.last().unwrap().attachments[0].blob.clone());
        let said = blob.get().unwrap_err();
        assert!(said.contains(why) && !said.contains(TOKEN), "{file}: {said}");
    }
    bench.heard(|heard| heard.full = Some("the disk is full".into()));
    bench.server.happens(document(50, json!({"file_id": "kept", "file_name": "a"})));
    bench.until("it is taken", || bench.taken().last().map(String::as_str) == Some("50"));
    let blob = bench.heard(|heard| heard.events.last().unwrap().attachments[0].blob.clone());
    assert_eq!(blob, FileBytes::Missing("not now: the disk is full".to_owned()));
}

/// Ann presses a button.
fn press(data: Value, under: Value) -> Value {
    json!({"callback_query": {"id": "cq1", "from": {"id": 123, "is_bot": false, "first_name": "Ann"},
        "chat_instance": "1", "data": data, "message": under}})
}

#[test]
fn a_pressed_button_is_taken_in_and_answered() {
    let bench = Bench::up();
    let data = json!(card().button(1).to_string());
    let under = json!({"message_id": 5, "date": 1, "chat": {"id": -5, "type": "supergroup"}, "text": "Allow?",
        "is_topic_message": true, "message_thread_id": 42});
    bench.heard(|heard| heard.refusals.push_back(NotTaken::Later("busy".into())));
    bench.server.happens(press(data.clone(), under));
    bench.until("it is answered", || bench.calls("answerCallbackQuery").len() == 1);
    let mut place = at(-5);
    place.thread = Some(id(42));
    let by = UserId::parse("telegram:123").unwrap();
    let button = Button { matter: PromptSubject::Approval(ApprovalId::new(12)), nonce: 0xbeef, option: 1 };
    assert_eq!(bench.heard(|heard| heard.presses.clone()), [Press { by: by.clone(), at: place, button }]);
    let answer = bench.calls("answerCallbackQuery").pop().unwrap().parameters;
    assert_eq!(answer, json!({"callback_query_id": "cq1", "text": "Allowed.", "show_alert": false}));

    // For a message that is too old, Telegram only sends the chat.
    bench.server.happens(press(data, json!({"message_id": 5, "date": 0, "chat": {"id": 123, "type": "private"}})));
    bench.until("it is answered", || bench.calls("answerCallbackQuery").len() == 2);
    assert_eq!(bench.heard(|heard| heard.presses.last().cloned()), Some(Press { by, at: at(123), button }));
    let answer = bench.calls("answerCallbackQuery").pop().unwrap().parameters;
    assert_eq!((&answer["text"], &answer["show_alert"]), (&json!("Someone was faster."), &json!(true)));
}

#[test]
fn buttons_that_are_not_ours_are_answered_and_nothing_else() {
    let bench = Bench::up();
    let under = json!({"message_id": 5, "date": 1, "chat": {"id": 123, "type": "private"}});
    bench.server.fails("answerCallbackQuery", [Fault::Error(400, "Bad Request: query is too old", json!({}))]);
    for data in [json!("ncq:appr-1:0"), json!(null), json!("ap12.beef.1"), json!("")] {
        bench.server.happens(press(data, under.clone()));
    }
    bench.server.happens(press(json!(card().button(0).to_string()), json!(null)));
    bench.until("they are answered", || bench.calls("answerCallbackQuery").len() == 5);
    assert!(bench.heard(|heard| heard.presses.is_empty()));
    bench.until("they are confirmed", || bench.server.unconfirmed().is_empty());
}

#[test]
fn a_server_that_does_not_take_the_token_is_asked_until_it_does() {
    let server = FakeTelegram::start();
    server.takes("another");
    server.happens(message(123, 7, "hello"));
    let bench = Bench::at(server, None);
    bench.until("it is seen", || matches!(bench.bot().state(), State::Down { sending: false, .. }));
    let health = bench.bot().health();
    assert_eq!(health.failure.unwrap(), "the server does not accept the token: Unauthorized");
    assert_eq!((health.state, health.last_contact), (LineState::Refused, None));
    bench.until("the next try is known", || bench.bot().health().next_try.is_some_and(|at| at.millis() > NOW));
    assert_eq!(bench.deliver(say(1, "hi")), DeliveryResult::NoAdapter);
    assert!(bench.calls("sendMessage").is_empty());
    bench.server.takes(TOKEN);
    bench.until("it works", || bench.heard(|heard| heard.reachable == 1) && bench.taken() == ["7"]);
    let up = Health { last_contact: Some(Timestamp::from_millis(NOW)), ..Health::of(LineState::Up) };
    assert_eq!((bench.bot().health(), bench.deliver(say(1, "hi"))), (up, delivered(100)));
}

#[test]
fn two_that_take_the_same_updates_are_visible_and_messages_go_out_all_the_same() {
    let server = FakeTelegram::start();
    let words = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running";
    server.fails("getUpdates", std::iter::repeat_n(Fault::Error(409, words, json!({})), 8));
    let bench = Bench::at(server, None);
    bench.until("it is seen", || matches!(bench.bot().state(), State::Down { sending: true, .. }));
    assert!(bench.bot().health().failure.unwrap().contains("only one bot instance"));
    assert_eq!(bench.deliver(say(1, "hi")), delivered(100));
    bench.until("it is over", || bench.bot().state() == State::Up);
}

#[test]
fn nothing_is_taken_after_the_end() {
    let bench = Bench::up();
    bench.bot().shut_down();
    let number = bench.server.happens(message(123, 7, "hello"));
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!((bench.taken().len(), bench.server.unconfirmed()), (0, vec![number]));
    assert!(matches!(bench.deliver(say(1, "hi")), DeliveryResult::Retry(_)));
    assert!(bench.server.shown(123).is_empty());
}
