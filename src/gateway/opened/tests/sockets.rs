//! WebSockets on opened connections.

use super::*;
use crate::gateway::opened::frames::{Frames, Kind, Message, Sender};
use crate::gateway::opened::leak::{Leak, Place};

const ALLOWED: (&str, &str, &[&str]) = (SECRET, "Authorization: Bearer {}", &["WEBSOCKET /live/**", "GET /repos"]);
const SOCKET: [&str; 5] = [
    "Connection: keep-alive, Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Extensions: permessage-deflate",
];

/// A host that answers each message with itself and with the credential of the request.
fn host(config: Arc<ServerConfig>) -> (SocketAddr, Receiver<Got>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (told, got) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), stream);
            let Some(asked) = read_request(&mut stream) else { continue };
            told.send(asked.clone()).unwrap();
            let more = if asked.path() == "/live/deflated" { "Sec-WebSocket-Extensions: x\r\n" } else { "" };
            let agreed = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n";
            let accept = "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
            stream.write_all(format!("{agreed}{more}{accept}").as_bytes()).unwrap();
            stream.flush().unwrap();
            let credential = asked.header("authorization").join("").into_bytes();
            while let Some(message) = read(&mut stream, Sender::Program) {
                let payload = [&message.payload[..], b" for ", &credential].concat();
                let answer = Message::new(message.kind, payload, None).written();
                if stream.write_all(&answer).and_then(|()| stream.flush()).is_err() {
                    break;
                }
            }
        }
    });
    (address, got)
}

/// The next message that comes.
fn read(stream: &mut impl std::io::Read, sender: Sender) -> Option<Message> {
    let mut frames = Frames::new(sender);
    let mut byte = [0];
    loop {
        if let Some(message) = frames.next().ok()? {
            return Some(message);
        }
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        frames.push(&byte);
    }
}

struct Client(StreamOwned<ClientConnection, TcpStream>, String);

impl Client {
    fn ask(world: &World, path: &str) -> Self {
        let mut stream = world.client(HOST);
        let head = format!("GET {path} HTTP/1.1\r\nHost: {HOST}\r\n{AUTH}\r\n{}\r\n\r\n", SOCKET.join("\r\n"));
        stream.write_all(head.as_bytes()).unwrap();
        stream.flush().unwrap();
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read > 0) {
            head.push(byte[0]);
        }
        Self(stream, String::from_utf8(head).unwrap())
    }

    fn send(&mut self, kind: Kind, payload: &[u8]) {
        self.0.write_all(&Message::new(kind, payload.to_vec(), Some([1, 2, 3, 4])).written()).unwrap();
        self.0.flush().unwrap();
    }

    fn read(&mut self) -> Option<(Kind, String)> {
        read(&mut self.0, Sender::Host)
            .map(|message| (message.kind, String::from_utf8_lossy(&message.payload).into_owned()))
    }
}

#[test]
fn messages_pass_and_the_value_is_overwritten_in_them() {
    let world = World::of_host(host, &[ALLOWED]);
    let mut client = Client::ask(&world, "/live/a");
    assert!(client.1.starts_with("HTTP/1.1 101 ") && client.1.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{}", client.1);
    let got = world.got();
    assert_eq!(got.header("authorization"), [format!("Bearer {VALUE}")]);
    assert_eq!((got.header("upgrade"), got.header("connection")), (vec!["websocket"], vec!["Upgrade"]));
    assert!(got.header("sec-websocket-extensions").is_empty(), "a compressed message could not be searched");
    let stars = format!("Bearer {}", "*".repeat(VALUE.len()));
    for length in [1, 125, 126, 70_000] {
        let text = "x".repeat(length);
        client.send(Kind::Text, text.as_bytes());
        assert_eq!(client.read(), Some((Kind::Text, format!("{text} for {stars}"))));
    }
    client.send(Kind::Ping, b"p");
    assert_eq!(client.read(), Some((Kind::Ping, format!("p for {stars}"))));
    client.send(Kind::Close, &[3, 232]);
    assert_eq!(client.read().map(|(kind, _)| kind), Some(Kind::Close));
    assert_eq!(client.read(), None);
    let seen = loop {
        if let Some(seen) = world.seen().pop() {
            break seen;
        }
    };
    assert_eq!((seen.path.as_str(), seen.status, seen.refused), ("/live/a", Some(101), None));
}

#[test]
fn a_message_with_a_secret_does_not_arrive() {
    for (payload, says) in [
        (format!("a {OTHER} b"), "a message of this request has the value of ANTHROPIC_API_KEY in it"),
        ("y".repeat((1 << 20) + 1), "longer than 1 MiB"),
    ] {
        let world = World::of_host(host, &[ALLOWED]);
        let mut client = Client::ask(&world, "/live/a");
        world.got();
        client.send(Kind::Binary, payload.as_bytes());
        let (kind, text) = client.read().unwrap();
        assert!(kind == Kind::Close && text.contains(says), "{text}");
        assert!(!text.contains(OTHER));
        let seen = loop {
            if let Some(seen) = world.seen().pop() {
                break seen;
            }
        };
        assert!(seen.refused.unwrap().contains(says));
        let leak = Leak { name: "ANTHROPIC_API_KEY".to_owned(), place: Place::Message };
        assert_eq!(seen.leak, payload.contains(OTHER).then_some(leak));
    }
}

#[test]
fn a_websocket_needs_a_rule_and_a_host_that_agrees_to_it_alone() {
    let world = World::of_host(host, &[ALLOWED]);
    for path in ["/repos", "/dead", "/live/../dead"] {
        let refused = Client::ask(&world, path).1;
        assert!(refused.starts_with("HTTP/1.1 40") && refused.contains("x-hearth-gate: refused"), "{path}: {refused}");
        assert!(world.nothing_arrived());
    }
    let deflated = Client::ask(&world, "/live/deflated").1;
    assert!(deflated.starts_with("HTTP/1.1 502"), "{deflated}");
    world.got();
    for requests in [&[][..], &["* /live/**"]] {
        let world = World::of_host(host, &[(SECRET, "Authorization: Bearer {}", requests)]);
        let refused = Client::ask(&world, "/live/a").1;
        assert!(refused.starts_with("HTTP/1.1 403"), "{requests:?}: {refused}");
        assert!(world.nothing_arrived());
    }
}
