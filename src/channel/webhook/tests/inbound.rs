//! Requests of a bridge: signed, bounded, and answered only once stored.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_is_answered_with_what_became_of_it_and_known_when_it_comes_again() {
    let world = World::start(vec![]).await;
    let body = event("m1").to_string();
    let (status, answer) = world.post("/v1/events", body.as_bytes()).await;
    assert_eq!(
        (status, answer),
        (200, json!({"event": "m1", "chat": null, "outcome": "routed", "reason": null, "wirings": []}))
    );
    let (status, answer) = world.post("/v1/events", body.as_bytes()).await;
    assert_eq!((status, &answer["outcome"]), (200, &json!("duplicate")));
    assert_eq!(world.engine.events.lock().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_what_is_signed_and_fresh_counts() {
    let world = World::start(vec![]).await;
    let body = event("m1").to_string();
    let key = Key::new(SECRET).unwrap();
    let stranger = Key::new("guessed").unwrap().sign(noon(), body.as_bytes());
    let old = key.sign(Timestamp::from_millis(noon().millis() - 301_000), body.as_bytes());
    let early = key.sign(Timestamp::from_millis(noon().millis() + 301_000), body.as_bytes());
    let other = key.sign(noon(), b"{}");
    let missing = (String::new(), String::new());
    for (what, (time, sum)) in
        [("stranger", stranger), ("old", old), ("early", early), ("another body", other), ("none", missing)]
    {
        for path in ["/v1/events", "/v1/actions"] {
            let (status, answer, _) = world.post_as(path, &time, &sum, body.as_bytes()).await;
            assert_eq!(status, 401, "{what}: {answer}");
            assert!(!answer["error"].as_str().unwrap().contains(SECRET));
        }
    }
    assert!(world.engine.events.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_events_are_refused_with_the_reason() {
    let world = World::start(vec![]).await;
    let with = |change: &dyn Fn(&mut Value)| {
        let mut event = event("m1");
        change(&mut event);
        event.to_string()
    };
    for (body, words) in [
        (String::new(), "not usable JSON"),
        ("{".to_owned(), "not usable JSON"),
        ("[1]".to_owned(), "must be an object"),
        ("\u{fffd}".to_owned(), "not usable JSON"),
        (with(&|event| event["channelType"] = "telegram".into()), "speaks only for `matrix`"),
        (
            with(&|event| event["replyTo"] = json!({"channelType": "x", "platformId": "y"})),
            "replyTo.channelType is `x`",
        ),
        (with(&|event| event["message"]["id"] = "".into()), "message.id is missing"),
        (with(&|event| event["message"]["kind"] = "task".into()), "message.kind is `task`"),
        (with(&|event| event["platformId"] = Value::Null), "platformId is missing"),
        (with(&|event| event["message"]["content"] = "x".repeat(600_000).into()), "too large"),
    ] {
        let (status, answer) = world.post("/v1/events", body.as_bytes()).await;
        assert_eq!(status, 400, "{words}: {answer}");
        assert!(answer["error"].as_str().unwrap().contains(words), "{words}: {answer}");
    }
    assert_eq!(world.post("/v1/events", b"\xff{}").await.0, 400);
    assert!(world.engine.events.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn huge_and_slow_bodies_take_nothing_from_others() {
    let world = World::start(vec![]).await;
    let (time, sum) = Key::new(SECRET).unwrap().sign(noon(), b"");
    let send = async |head: &str, rest: &[u8]| {
        let mut stream = TcpStream::connect(world.address).await.unwrap();
        let stamps = format!("{TIMESTAMP_NAME}: {time}\r\n{SIGNATURE_NAME}: {sum}\r\n");
        let head = format!("POST /v1/events HTTP/1.1\r\nhost: x\r\n{stamps}{head}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        // The server may close the connection before it has read everything.
        stream.write_all(rest).await.ok();
        let mut answer = [0; 64];
        let count = stream.read(&mut answer).await.unwrap_or(0);
        String::from_utf8_lossy(&answer[..count]).into_owned()
    };
    // Announced as huge: refused before it is sent.
    let answer = send("content-length: 999999999999", b"").await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    // Huge without an announcement: in endless chunks.
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(65_536)).repeat(event_chunks());
    let answer = send("transfer-encoding: chunked", chunk.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413") || answer.is_empty(), "{answer}");
    // Silent after its headers; other callers are served meanwhile.
    let mut silent = TcpStream::connect(world.address).await.unwrap();
    silent.write_all(b"POST /v1/events HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n").await.unwrap();
    assert_eq!(world.post("/v1/events", event("m2").to_string().as_bytes()).await.0, 200);
    assert_eq!(world.post("/v1/nothing", b"{}").await.0, 404);
}

/// More connections than slots, repeatedly, while the slow one is sending.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_who_say_next_to_nothing_give_way_and_a_slow_one_who_brings_much_does_not() {
    let world = World::start(vec![]).await;
    let mut long = event("long");
    long["message"]["content"]["text"] = "x".repeat(400_000).into();
    let long = long.to_string();
    let (time, sum) = Key::new(SECRET).unwrap().sign(noon(), long.as_bytes());
    let stamps = format!("{TIMESTAMP_NAME}: {time}\r\n{SIGNATURE_NAME}: {sum}\r\n");
    let head =
        |length: usize| format!("POST /v1/events HTTP/1.1\r\nhost: x\r\n{stamps}content-length: {length}\r\n\r\n");
    let mut slow = TcpStream::connect(world.address).await.unwrap();
    slow.write_all(head(long.len()).as_bytes()).await.unwrap();
    let (mut pieces, mut idle) = (long.as_bytes().chunks(100_000), Vec::new());
    for piece in pieces.by_ref() {
        slow.write_all(piece).await.unwrap();
        // Sent before this point, so that it is read before there are too many.
        assert_eq!(world.post("/v1/events", event("m").to_string().as_bytes()).await.0, 200);
        for said in [String::new(), "POST /v1/ev".to_owned(), head(25_000_000), head(long.len()) + "{"] {
            for _ in 0..40 {
                let mut one = TcpStream::connect(world.address).await.unwrap();
                one.write_all(said.as_bytes()).await.ok();
                idle.push(one);
            }
        }
    }
    let mut answer = [0; 15];
    slow.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
    let of_whom =
        world.engine.events.lock().unwrap().iter().map(|event| event.platform_message.clone()).collect::<Vec<_>>();
    assert_eq!(of_whom.len(), 2, "{of_whom:?}");
}

/// An event with a file of this many bytes.
fn with_file(id: &str, bytes: usize) -> String {
    let mut event = event(id);
    event["message"]["content"]["attachments"] = json!([{"name": "a", "data": "A".repeat(bytes)}]);
    event.to_string()
}

/// A caller that does not know the secret and sends only `length` of the bytes it announces.
async fn stranger(world: &World, length: usize) -> TcpStream {
    let (time, sum) = Key::new(SECRET).unwrap().sign(noon(), b"something else");
    let mut stranger = TcpStream::connect(world.address).await.unwrap();
    let stamps = format!("{TIMESTAMP_NAME}: {time}\r\n{SIGNATURE_NAME}: {sum}\r\ncontent-length: {}", 24 * MIB);
    let head = format!("POST /v1/events HTTP/1.1\r\nhost: x\r\n{stamps}\r\n\r\n");
    // The server may close the connection before it has read everything.
    stranger.write_all(head.as_bytes()).await.ok();
    stranger.write_all(&vec![b' '; length]).await.ok();
    stranger
}

const MIB: usize = 1 << 20;

/// Bodies of unauthenticated callers that were never completed used to occupy all memory for half a minute, and all
/// other callers had to retry.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_who_send_much_and_never_end_keep_nobody_out() {
    let world = World::start(vec![]).await;
    let mut strangers = Vec::new();
    // Together exactly the memory limit for all bodies.
    for length in [24 * MIB - 1_024, 24 * MIB - 1_024, 16 * MIB - 1_024] {
        strangers.push(stranger(&world, length).await);
    }
    // Most of it has been read by now, and the rest will be.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(world.post("/v1/events", event("small").to_string().as_bytes()).await.0, 200);
    assert_eq!(world.post("/v1/events", with_file("large", 20 * MIB).as_bytes()).await.0, 200);
    // As many callers as possible, each within its own share.
    for _ in 0..120 {
        strangers.push(stranger(&world, 120 * 1_024).await);
    }
    assert_eq!(world.post("/v1/events", event("more").to_string().as_bytes()).await.0, 200);
    assert_eq!(world.post("/v1/events", with_file("larger", 20 * MIB).as_bytes()).await.0, 200);
    assert_eq!(world.engine.events.lock().unwrap().len(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signature_that_is_none_is_refused_before_the_body() {
    let world = World::start(vec![]).await;
    let mut stranger = TcpStream::connect(world.address).await.unwrap();
    let stamps = format!("{TIMESTAMP_NAME}: 1776686400\r\n{SIGNATURE_NAME}: v1=nonsense\r\ncontent-length: 1000");
    let head = format!("POST /v1/events HTTP/1.1\r\nhost: x\r\n{stamps}\r\n\r\n");
    stranger.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    stranger.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 401");
}

fn event_chunks() -> usize {
    crate::channel::event::EVENT_BYTES_MAX / 65_536 + 2
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_taken_now_may_come_again() {
    let world = World::start(vec![]).await;
    let body = event("m1").to_string();
    let (time, sum) = Key::new(SECRET).unwrap().sign(noon(), body.as_bytes());
    *world.engine.not.lock().unwrap() = Some(NotTaken::Later("no room".to_owned()));
    let (status, answer, after) = world.post_as("/v1/events", &time, &sum, body.as_bytes()).await;
    assert_eq!((status, answer, after.as_deref()), (503, json!({"error": "no room"}), Some("2")));
    *world.engine.not.lock().unwrap() = Some(NotTaken::Refused("never".to_owned()));
    assert_eq!(world.post("/v1/events", body.as_bytes()).await, (400, json!({"error": "never"})));
    *world.engine.not.lock().unwrap() = None;
    assert_eq!(world.post("/v1/events", body.as_bytes()).await.0, 200);
    assert_eq!(world.engine.events.lock().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_whose_file_has_no_room_may_come_again() {
    let world = World::start(vec![]).await;
    let mut file = event("m1");
    file["message"]["content"] = json!({"text": "see", "attachments": [{"name": "a", "data": "eA=="}]});
    let body = file.to_string();
    *world.engine.not.lock().unwrap() = Some(NotTaken::Later("no room".to_owned()));
    assert_eq!(world.post("/v1/events", body.as_bytes()).await, (503, json!({"error": "no room"})));
    assert!(world.engine.events.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_button_says_who_pressed_it_where() {
    let world = World::start(vec![]).await;
    let button = card().button(1);
    let press = |change: &dyn Fn(&mut Value)| {
        let mut press =
            json!({"button": button.to_string(), "userId": "@a:x", "platformId": "!room", "threadId": "$t"});
        change(&mut press);
        press.to_string()
    };
    let done = world.post("/v1/actions", press(&|_| ()).as_bytes()).await;
    assert_eq!(done, (200, json!({"decided": true, "text": "done"})));
    let by = UserId::new(name(), ForeignId::new("id", "@a:x").unwrap());
    let expected = Press { by, at: at("!room", Some("$t")), button };
    assert_eq!(world.engine.presses.lock().unwrap().split_off(0), [expected]);
    for (body, words) in [
        (press(&|press| press["button"] = "ap12.x.1".into()), "not one of Hearth"),
        (press(&|press| press["userId"] = "".into()), "userId is empty"),
        (press(&|press| press["userId"] = "a\u{0}b".into()), "control character"),
        (press(&|press| press["platformId"] = Value::Null), "not usable"),
        (press(&|press| press["threadId"] = "x".repeat(2_000).into()), "1024 are accepted"),
        ("{}".to_owned(), "missing field"),
    ] {
        let (status, answer) = world.post("/v1/actions", body.as_bytes()).await;
        assert_eq!(status, 400, "{words}: {answer}");
        assert!(answer["error"].as_str().unwrap().contains(words), "{words}: {answer}");
    }
    assert!(world.engine.presses.lock().unwrap().is_empty());
}
