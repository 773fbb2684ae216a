//! Requests to a bridge, and the outcomes that follow from its answers.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_act_has_its_body() {
    let world = World::start(vec![ok(r#"{"messageId":"$1"}"#), ok(r#"{"messageId":12}"#), ok("{}"), ok("")]).await;
    let files = world.sessions.path().join("se1/kept/3.a");
    std::fs::create_dir_all(&files).unwrap();
    std::fs::write(files.join("a.txt"), b"abc").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", files.join("link")).unwrap();
    let message = ForeignId::new("id", "$1").unwrap();
    let names = ["se1/kept/3.a/a.txt", "se1/kept/3.a/link", "../x", "se1/kept/3.a/gone"];
    let say = Delivery {
        to: at("!room", Some("$t")),
        files: names.map(str::to_owned).to_vec(),
        repeated: true,
        ..delivery(1)
    };
    assert_eq!(world.deliver(say).await, delivered(Some("$1")));
    let ask = Delivery { act: DeliveryAct::Ask(card()), speaker: None, in_reply_to: None, ..delivery(2) };
    assert_eq!(world.deliver(ask).await, delivered(Some("12")));
    let edit = Delivery { act: DeliveryAct::Edit(message.clone()), ..delivery(3) };
    assert_eq!(world.deliver(edit).await, delivered(None));
    assert_eq!(world.deliver(Delivery { act: DeliveryAct::React(message), ..delivery(4) }).await, delivered(None));
    let mut got = world.receiving.bodies();
    let errors = [&got[0]["files"][1], &got[0]["files"][2], &got[0]["files"][3]].map(|file| file["error"].to_string());
    assert!(errors.iter().all(|error| error.len() > 4 && !error.contains("root")), "{errors:?}");
    got[0]["files"].as_array_mut().unwrap().truncate(1);
    let content = json!({"text": "hi", "n": 1.5});
    let plain = json!({
        "id": "mo1", "act": "say", "platformId": "!room", "threadId": null, "text": "hi", "content": content,
        "repeated": false, "speaker": "main", "inReplyTo": "ms3", "card": null, "messageId": null, "linkPreviews": false, "files": [],
    });
    let with = |fields: Value| {
        let mut all = plain.clone();
        all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        all
    };
    let buttons = json!({"title": "May they?", "body": "Ann", "options": [
        {"label": "Yes", "button": "ap4.0000000000000007.0"}, {"label": "No", "button": "ap4.0000000000000007.1"}]});
    let file = json!([{"name": "a.txt", "size": 3, "data": "YWJj"}]);
    assert_eq!(got[0], with(json!({"threadId": "$t", "repeated": true, "files": file})));
    assert_eq!(got[1], with(json!({"id": "mo2", "act": "ask", "card": buttons, "speaker": null, "inReplyTo": null})));
    assert_eq!(got[2], with(json!({"id": "mo3", "act": "edit", "messageId": "$1"})));
    assert_eq!(got[3], with(json!({"id": "mo4", "act": "react", "messageId": "$1"})));
    assert!(world.receiving.got()[0].head.starts_with("POST /hook HTTP/1.1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_receiver_answers_decides() {
    let world = World::start(vec![]).await;
    let huge = format!(r#"{{"messageId":"$1","more":"{}"}}"#, "x".repeat(1 << 20));
    for (answer, expected) in [
        (ok("<html>"), delivered(None)),
        (ok(&huge), delivered(None)),
        (ok(r#"{"messageId":""}"#), delivered(None)),
        (ok(&format!(r#"{{"messageId":"{}"}}"#, "x".repeat(2_000))), delivered(None)),
        (status("204 No Content", "", ""), delivered(None)),
        (status("500 Oops", "", "bad\r\n\u{7}day"), DeliveryResult::Retry("the receiver answered 500 bad day".into())),
        (status("502 Bad Gateway", "", ""), DeliveryResult::Retry("the receiver answered 502".into())),
        (status("503 Busy", "", ""), DeliveryResult::Retry("the receiver answered 503".into())),
        (status("429 Slow", "retry-after: soon\r\n", ""), DeliveryResult::Retry("the receiver answered 429".into())),
        (
            status("400 No", "", "no such room"),
            DeliveryResult::Rejected("the receiver answered 400 no such room".into()),
        ),
        (status("403 No", "", ""), DeliveryResult::Rejected("the receiver answered 403".into())),
        (status("404 No", "", ""), DeliveryResult::Rejected("the receiver answered 404".into())),
        (
            status("302 Found", "location: http://127.0.0.1:1/\r\n", ""),
            DeliveryResult::Rejected("the receiver answered 302: set base_url to where it redirects".into()),
        ),
        (
            status("400 No", "", &"é".repeat(9_000)),
            DeliveryResult::Rejected(format!("the receiver answered 400 {}", "é".repeat(200))),
        ),
    ] {
        world.receiving.next(answer);
        assert_eq!(world.deliver(delivery(1)).await, expected);
    }
    for lost in [
        Answer::HangUp,
        Answer::Bytes("HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{\"mess".to_owned()),
        Answer::Bytes("whatever\r\n\r\n".to_owned()),
        Answer::Bytes(format!("HTTP/1.1 200 OK\r\n{}", "x: y\r\n".repeat(9_000))),
    ] {
        world.receiving.next(lost);
        let result = world.deliver(delivery(1)).await;
        assert!(matches!(&result, DeliveryResult::Uncertain(why) if !why.contains("127.0.0.1")), "{result:?}");
        assert!(world.webhook.health().failure.is_some());
    }
    assert_eq!(world.deliver(delivery(1)).await, delivered(None));
    let up = Health { last_contact: Some(noon()), ..Health::of(LineState::Up) };
    assert_eq!(world.webhook.health(), up);
}

/// The receiver accepted the message but its answer was lost: the message is sent again under the same id, which the
/// receiver recognizes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repetition_has_the_same_id() {
    let world = World::start(vec![Answer::HangUp, ok(r#"{"messageId":"$1"}"#)]).await;
    assert!(matches!(world.deliver(delivery(9)).await, DeliveryResult::Uncertain(_)));
    assert_eq!(world.deliver(delivery(9)).await, delivered(Some("$1")));
    let ids: Vec<Value> = world.receiving.bodies().into_iter().map(|body| body["id"].clone()).collect();
    assert_eq!(ids, ["mo9", "mo9"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_pause_is_waited_through_and_a_long_one_kept() {
    let busy = |after: &str| status("429 Slow", &format!("retry-after: {after}\r\n"), "");
    let world = World::start(vec![busy("1"), ok("")]).await;
    assert_eq!(world.deliver(delivery(1)).await, delivered(None));
    assert_eq!(world.receiving.got().len(), 2, "one attempt, two requests");

    world.receiving.next(busy("3000"));
    assert!(matches!(world.deliver(delivery(2)).await, DeliveryResult::Retry(_)));
    let expected = "the receiver requested a pause";
    assert_eq!(world.deliver(delivery(2)).await, DeliveryResult::Retry(expected.to_owned()));
    assert_eq!(world.deliver(delivery(3)).await, DeliveryResult::Retry(expected.to_owned()));
    world.webhook.typing(SessionId::new(1), &at("!room", None));
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(world.receiving.got().len(), 3, "nothing before that time");
    assert_eq!(*world.engine.reachable.lock().unwrap(), 0);
}

/// The end of a long pause is reported at once, so that waiting messages do not wait for their backoff as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_pause_is_told() {
    let engine = Arc::new(Engine::default());
    let intake = Arc::clone(&engine) as Arc<dyn Ingress>;
    let (closed, closing) = watch::channel(false);
    let pause = pause::Pause::new(closing);
    assert_eq!(pause.end(), None);
    pause.begin(Duration::from_secs(31), noon(), &intake);
    assert_eq!(pause.end(), Some(noon().plus(crate::model::time::Millis::seconds(31))));
    assert_eq!(pause.over().await, Err(pause::NotNow::Pause));
    pause.begin(Duration::ZERO, noon(), &intake);
    assert_eq!(pause.over().await, Ok(()), "the later word counts");
    pause.begin(Duration::from_secs(20), noon(), &intake);
    closed.send_replace(true);
    assert_eq!(pause.over().await, Err(pause::NotNow::Closed), "nobody waits for a closed channel");
    assert_eq!(*engine.reachable.lock().unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_is_not_there_is_tried_again_and_its_address_is_not_told() {
    let engine = Arc::new(Engine::default());
    let intake = || Arc::clone(&engine) as Arc<dyn Ingress>;
    let url = Some("http://127.0.0.1:9/hidden-path".to_owned());
    let (webhook, _) = open(setup(url, "127.0.0.1:0"), intake()).await.unwrap();
    webhook.deliver(delivery(1));
    let (_, result) = wait(|| engine.outcomes.lock().unwrap().pop()).await;
    let expected = "the receiver cannot be reached: Connection refused (os error 111)";
    assert_eq!(result, DeliveryResult::Retry(expected.to_owned()));
    assert_eq!(webhook.health().failure.as_deref(), Some(expected));

    let (deaf, _) = open(setup(None, "127.0.0.1:0"), intake()).await.unwrap();
    deaf.deliver(delivery(2));
    let (_, result) = wait(|| engine.outcomes.lock().unwrap().pop()).await;
    assert_eq!(result, DeliveryResult::NoAdapter, "it waits until there is a receiver");
    deaf.open_direct(user());
    assert_eq!(engine.direct.lock().unwrap().pop(), Some((user(), Err(NO_RECEIVER.to_owned()))));
    deaf.typing(SessionId::new(1), &at("!room", None));
    deaf.subscribe(&at("!room", Some("$t")));

    for (secret, base_url, words) in [("", None, "its secret is empty"), ("x", Some("ftp//x"), "not a web address")] {
        let setup = Setup { secret: secret.to_owned(), ..setup(base_url.map(str::to_owned), "127.0.0.1:0") };
        assert!(!format!("{setup:?}").contains("secret"));
        let error = open(setup, intake()).await.err().unwrap();
        assert!(error.contains(words), "{error}");
    }
}

fn user() -> UserId {
    UserId::new(name(), ForeignId::new("id", "@a:x").unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_direct_chat_is_where_the_receiver_says_or_the_person_itself() {
    let world = World::start(vec![]).await;
    let chat = |id: &str| Ok(ForeignId::new("id", id).unwrap());
    for (answer, expected) in [
        (ok(r#"{"platformId":"!dm"}"#), chat("!dm")),
        (status("404 No", "", ""), chat("@a:x")),
        (status("501 No", "", ""), chat("@a:x")),
        (ok("{}"), Err("the receiver did not say where: its answer has no platformId".to_owned())),
        (status("403 No", "", "blocked"), Err("the receiver answered 403 blocked".to_owned())),
    ] {
        world.receiving.next(answer);
        world.webhook.open_direct(user());
        let opened = wait(|| world.engine.direct.lock().unwrap().pop()).await;
        assert_eq!(opened, (user(), expected));
    }
    assert_eq!(world.receiving.bodies()[0], json!({"act": "openDirect", "userId": "@a:x"}));
    world.webhook.subscribe(&at("!room", Some("$t")));
    let told = wait(|| world.receiving.bodies().get(5).cloned()).await;
    assert_eq!(told, json!({"act": "subscribe", "platformId": "!room", "threadId": "$t"}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_is_shown_once_and_to_receivers_that_know_of_it_only() {
    let world = World::start(vec![]).await;
    let place = at("!room", None);
    let shown = || world.receiving.bodies().iter().filter(|body| body["act"] == "typing").count();
    world.webhook.typing(SessionId::new(1), &place);
    wait(|| (shown() == 1).then_some(())).await;
    assert_eq!(world.receiving.bodies()[0], json!({"act": "typing", "platformId": "!room", "threadId": null}));
    world.receiving.next(status("501 No", "", ""));
    world.webhook.typing(SessionId::new(1), &place);
    wait(|| (shown() == 2).then_some(())).await;
    wait(|| world.webhook.no_signs.load(std::sync::atomic::Ordering::Relaxed).then_some(())).await;
    world.webhook.typing(SessionId::new(1), &place);
    assert_eq!(world.deliver(delivery(1)).await, delivered(None));
    assert_eq!(shown(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_go_beside_each_other_and_a_closed_channel_ends_its_waits() {
    let mut answers: Vec<Answer> = (0..15).map(|_| Answer::Nothing).collect();
    answers.push(status("429 Slow", "retry-after: 20\r\n", ""));
    let world = World::start(answers).await;
    (0..15).for_each(|id| world.webhook.deliver(delivery(id)));
    wait(|| (world.receiving.got().len() == 15).then_some(())).await;
    world.webhook.deliver(delivery(16));
    wait(|| (world.receiving.got().len() == 16).then_some(())).await;
    world.webhook.shut_down();
    let (id, result) = wait(|| world.engine.outcomes.lock().unwrap().pop()).await;
    assert_eq!((id.number(), result), (16, DeliveryResult::Retry("the channel is being closed".to_owned())));
    assert_eq!(world.deliver(delivery(17)).await, DeliveryResult::Retry("the channel is being closed".to_owned()));
}

/// If a receiver does not answer, it is unknown whether it has the message. If it asks for too long a pause, it does
/// not have it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_is_uncertain_and_waiting_is_not() {
    let waits = status("503 Busy", "retry-after: 9\r\n", "");
    let endless = Answer::Bytes("HTTP/1.1 200 OK\r\n".to_owned());
    let world = World::start(vec![Answer::Nothing, endless, waits]).await;
    let (_closed, closing) = watch::channel(false);
    let intake = Arc::clone(&world.engine) as Arc<dyn Ingress>;
    let key = Key::new(SECRET).unwrap();
    let mut receiver = Receiver::new(&world.receiving.url, key, noon, intake, closing).unwrap();
    receiver.patience = Duration::from_secs(2);
    let attempt = async || attempt::deliver(&receiver, world.sessions.path(), &delivery(1)).await;
    let silent = "there was no answer within 2s".to_owned();
    assert_eq!(attempt().await, DeliveryResult::Uncertain(silent.clone()));
    assert_eq!(receiver.trouble(), Some(silent));
    assert!(matches!(attempt().await, DeliveryResult::Uncertain(_)));
    assert_eq!(attempt().await, DeliveryResult::Retry("it was not sent in time".to_owned()));
    assert_eq!(world.receiving.got().len(), 3);
}
