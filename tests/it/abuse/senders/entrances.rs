//! Replayed requests, unsigned requests, and connections that stay open.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::json;

use super::ground::{Ground, event, now, signed};
use crate::host::channels::{SECRET, sign};
use crate::host::telegram::typed;
use crate::host::{Running, wait_for};

pub(super) fn again(ground: &mut Ground) {
    let said = event("m1", "room", "once");
    let first = ground.web(&said).1;
    assert_eq!(first["outcome"], "routed", "{first}");
    for _ in 0..3 {
        let answer = ground.web(&said).1;
        assert_eq!(answer["outcome"], "duplicate", "{answer}");
    }
    let number = ground.telegram.happens(typed(7, "hello"));
    wait_for("the question", || (ground.approvals() == [json!("Pending")]).then_some(()));
    ground.telegram.again(number, typed(7, "hello"));
    ground.telegram.happens(typed(8, "more"));
    wait_for("the second one", || (ground.host.rows("held").len() == 2).then_some(()));
    ground.host.wait_settled();
    // The agent is told as context that the channel cannot answer.
    let messages = ground.host.rows("messages");
    assert_eq!(messages.iter().filter(|row| row["value"]["trigger"] == true).count(), 1, "{messages:#?}");
}

pub(super) fn same_id(ground: &mut Ground) {
    ground.web(&event("m1", "room", "first words"));
    ground.host.wait_said(1);
    let answer = ground.web(&event("m1", "room", "other words")).1;
    assert_eq!(answer["outcome"], "duplicate", "{answer}");
    ground.serves();
    assert!(!ground.host.said().concat().contains("other words"));
}

pub(super) fn unsigned(ground: &mut Ground) {
    let body = event("m1", "room", "hello").to_string();
    let stamp = now().to_string();
    let wrong = sign("another secret", &stamp, &body);
    let right = sign(SECRET, &stamp, &body);
    let cases = [
        String::new(),
        format!("x-hearth-timestamp: {stamp}\r\n"),
        format!("x-hearth-signature: {right}\r\n"),
        format!("x-hearth-timestamp: {stamp}\r\nx-hearth-signature: {wrong}\r\n"),
        format!("x-hearth-timestamp: {stamp}\r\nx-hearth-signature: v1=\r\n"),
        format!("x-hearth-timestamp: {stamp}\r\nx-hearth-signature: {}\r\n", &right[..right.len() - 2]),
        format!("x-hearth-timestamp: {stamp}\r\nx-hearth-signature: {}\r\n", right.replace("v1=", "v2=")),
        format!("x-hearth-timestamp: x\r\nx-hearth-signature: {right}\r\n"),
    ];
    for headers in cases {
        ground.turns_away(&headers, &body);
    }
    ground.nothing();
}

pub(super) fn old_stamp(ground: &mut Ground) {
    let body = event("m1", "room", "hello").to_string();
    for stamp in [0, 1, now() - 3_600, now() - 310, now() + 310, now() + 86_400, u64::MAX] {
        ground.turns_away(&signed(stamp, &body), &body);
    }
    ground.nothing();
}

pub(super) fn changed_body(ground: &mut Ground) {
    let body = event("m1", "room", "hello").to_string();
    let headers = signed(now(), &body);
    ground.turns_away(&headers, &body.replace("hello", "other"));
    ground.turns_away(&headers, &format!("{body} "));
    ground.nothing();
}

pub(super) fn slow(ground: &mut Ground) {
    // Announces the maximum size, and sends none of it.
    let stamps = signed(now(), "something else");
    let announced = format!("POST /v1/events HTTP/1.1\r\nhost: x\r\ncontent-length: 25000000\r\n{stamps}\r\n");
    let begun = "POST /v1/events HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\nx-a: ";
    let open = |said: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", ground.port)).unwrap();
        stream.write_all(said.as_bytes()).unwrap();
        stream
    };
    let mut slow: Vec<TcpStream> = [begun, &announced, ""].iter().cycle().take(300).map(|said| open(said)).collect();
    ground.serves();
    // The first of them was evicted, not timed out: later ones that had to wait for a connection slot are still open.
    slow[0].read_to_end(&mut Vec::new()).ok();
    slow[200].set_nonblocking(true).unwrap();
    assert_eq!(slow[200].peek(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

pub(super) fn no_token(ground: &mut Ground) {
    for greeting in ["{\"do\":\"hello\",\"v\":1,\"token\":\"\"}", "{\"do\":\"status\"}", "nonsense", "", "{}"] {
        let mut stream = ground.socket();
        stream.write_all(format!("{greeting}\n{{\"do\":\"status\"}}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok();
        assert!(answer.contains("\"refused\"") && !answer.contains("queued"), "{greeting}: {answer}");
        assert_eq!(answer.lines().count(), 1, "{answer}");
    }
}

pub(super) fn endless_line(ground: &mut Ground) {
    let mut stream = ground.socket();
    let piece = vec![b'x'; 1 << 16];
    // The server stops reading long before the end of the request.
    let cut = (0..200).any(|_| stream.write_all(&piece).is_err());
    assert!(cut, "ten megabytes were listened to");
    let _rest = stream.read_to_end(&mut Vec::new());
    assert!(ground.host.status()["daemon"]["pid"].is_u64());
    ground.serves();
}

pub(super) fn silence(ground: &mut Ground) {
    let mut silent: Vec<_> = (0..300).map(|_| ground.socket()).collect();
    assert!(ground.host.status()["daemon"]["pid"].is_u64());
    // The first of them was evicted, not timed out.
    let mut told = String::new();
    silent[0].read_to_string(&mut told).unwrap();
    assert!(told.contains("\"busy\"") && told.lines().count() == 1, "{told}");
    // A connection that has sent the token stays.
    let mut client = Running::start_open(ground.host.command(&["inject", "--json"]));
    let mut asks = |id: &str| {
        client.type_line(&event(id, "room", "hello").to_string());
        wait_for(id, || client.stdout().contains(&format!("\"event\":\"{id}\"")).then_some(()));
    };
    asks("before");
    // The earlier connections are closed first: together they may exceed the limit of open files of the test process.
    silent.clear();
    silent.extend((0..300).map(|_| ground.socket()));
    assert!(ground.host.status()["daemon"]["pid"].is_u64());
    asks("after");
    assert_eq!(client.end().code, Some(0));
    ground.serves();
}
