//! Tests of the gate with real sockets on both sides.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::answer::ALERT;
use super::hello::tests::hello;
use super::*;
use crate::model::network::{Endpoint, NetRefusal, RuleOrigin, Unlisted};

mod opened;
#[cfg(target_os = "linux")]
mod rebinding;

const KEY: (SessionId, u32) = (SessionId::new(4), 2);

/// A gate with one agent. Every endpoint is placed at one server, unless it is this machine.
struct Gate {
    egress: Egress,
    place: PathBuf,
    seen: Arc<Mutex<Vec<ConnectionSeen>>>,
    wanted: Arc<Mutex<Vec<HostWanted>>>,
    server: TcpListener,
    _directory: tempfile::TempDir,
}

fn policy(unlisted: Unlisted, allow: &[&str]) -> NetworkPolicy {
    let allow = allow.iter().map(|rule| rule.parse().unwrap()).collect();
    NetworkPolicy { allow, ..NetworkPolicy::new(unlisted) }
}

impl Gate {
    fn new(policy: NetworkPolicy) -> Self {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let placed = move |to: &Endpoint| (!to.to_string().starts_with("this-machine.")).then_some(address);
        Self::reaching(policy, server, Reach { placed: Arc::new(placed), ..Reach::default() })
    }

    fn reaching(policy: NetworkPolicy, server: TcpListener, reach: Reach) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (seen, wanted) = (Arc::<Mutex<Vec<_>>>::default(), Arc::<Mutex<Vec<_>>>::default());
        let (rows, questions) = (Arc::clone(&seen), Arc::clone(&wanted));
        let hooks = Hooks {
            ask: Box::new(move |wanted| {
                let declined = wanted.endpoint.port == 1;
                lock(&questions).push(wanted);
                Box::pin(async move { if declined { Err(NetRefusal::TooManyQuestions) } else { Ok(()) } })
            }),
            seen: Box::new(move |seen| lock(&rows).push(seen)),
        };
        let reach = Reach { patience: Duration::from_millis(700), ..reach };
        let egress = Egress::start(Setup { directory: directory.path().join("net"), reach, hooks }).unwrap();
        let place = egress.open(KEY.0, KEY.1, policy, None).unwrap().directory;
        Self { egress, place, seen, wanted, server, _directory: directory }
    }

    fn dial(&self) -> UnixStream {
        let stream = UnixStream::connect(self.place.join(NETWORK_SOCKET)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    fn ask(&self, text: &str) -> UnixStream {
        let mut stream = self.dial();
        stream.write_all(text.as_bytes()).unwrap();
        stream
    }

    /// A connection that is open.
    fn connect(&self, to: &str) -> UnixStream {
        let mut stream = self.ask(&format!("CONNECT {to} HTTP/1.1\r\n\r\n"));
        let head = until(&mut stream, b"\r\n\r\n");
        assert_eq!(head, "HTTP/1.1 200 Connected\r\n\r\n", "{to}");
        stream
    }

    fn accept(&self) -> TcpStream {
        let (stream, _) = self.server.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// The verdicts so far, as soon as there are so many.
    fn verdicts(&self, count: usize) -> Vec<NetVerdict> {
        for _ in 0..2_000 {
            let seen = lock(&self.seen);
            if seen.len() >= count {
                return seen.iter().map(|seen| seen.verdict.clone()).collect();
            }
            drop(seen);
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("there are not {count} rows: {:?}", lock(&self.seen));
    }
}

fn until(stream: &mut impl io::Read, end: &[u8]) -> String {
    let mut all = Vec::new();
    let mut byte = [0; 1];
    while !all.ends_with(end) && stream.read(&mut byte).unwrap() == 1 {
        all.extend(byte);
    }
    String::from_utf8(all).unwrap()
}

/// Everything until the end, which may be a broken connection.
fn all(mut stream: impl io::Read) -> Vec<u8> {
    let mut all = Vec::new();
    drop(stream.read_to_end(&mut all));
    all
}

fn exact(mut stream: impl io::Read, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

#[test]
fn bytes_pass_in_both_directions_and_are_counted() {
    let gate = Gate::new(policy(Unlisted::Refuse, &["a.org:5432"]));
    let mut agent = gate.connect("A.org.:5432");
    let mut server = gate.accept();
    // The server speaks first.
    server.write_all(b"welcome").unwrap();
    assert_eq!(exact(&agent, 7), b"welcome");
    let large: Vec<u8> = (0..=255_u8).cycle().take(3_000_000).collect();
    let (mut sender, sent) = (agent.try_clone().unwrap(), large.clone());
    let sending = std::thread::spawn(move || {
        sender.write_all(&sent).unwrap();
        sender.shutdown(Shutdown::Write).unwrap();
    });
    assert!(all(&server) == large);
    sending.join().unwrap();
    server.write_all(&large[..9]).unwrap();
    drop(server);
    assert_eq!(exact(&mut agent, 9), &large[..9]);
    assert_eq!(all(&agent), b"");
    let rule = "a.org:5432".parse().unwrap();
    assert_eq!(gate.verdicts(1), [NetVerdict::Allowed(RuleOrigin::Allow(rule))]);
    let row = lock(&gate.seen)[0].clone();
    assert_eq!((row.up, row.down, row.session, row.incarnation), (3_000_000, 16, KEY.0, KEY.1));
    assert_eq!(row.endpoint.to_string(), "a.org:5432");
}

#[test]
fn what_is_not_allowed_is_refused_in_words() {
    let gate = Gate::new(policy(Unlisted::Refuse, &["a.org:5432"]));
    for (text, status, words) in [
        ("CONNECT b.org:443 HTTP/1.1\r\n\r\n", "403", "may not reach it"),
        ("CONNECT a.org:443 HTTP/1.1\r\n\r\n", "403", "may not reach it"),
        ("CONNECT 127.0.0.1:5432 HTTP/1.1\r\n\r\n", "403", "this-machine.internal"),
        ("CONNECT 169.254.169.254:80 HTTP/1.1\r\n\r\n", "403", "never reached"),
        ("GET http://b.org/ HTTP/1.1\r\nHost: b.org\r\n\r\n", "403", "may not reach it"),
        ("GET / HTTP/1.1\r\nHost: a.org\r\n\r\n", "400", "CONNECT"),
        ("CONNECT a.org:5432 HTTP/1.1\nHost: a\n\n", "400", "CR and LF"),
        ("\u{16}\u{3}\u{1}\n", "400", "CR and LF"),
    ] {
        let answer = String::from_utf8(all(gate.ask(text))).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.contains(words), "{text}: {answer}");
        assert!(answer.contains("\r\nx-hearth-gate: refused\r\n") && answer.ends_with('\n'), "{answer}");
    }
    assert_eq!(gate.verdicts(5).len(), 5);
    gate.server.set_nonblocking(true).unwrap();
    assert!(gate.server.accept().is_err(), "nothing was connected");
}

#[test]
fn tls_has_to_name_the_host() {
    let gate = Gate::new(policy(Unlisted::Refuse, &["a.org", "a.org:8443"]));
    let good = hello(Some("A.ORG"));
    for (at, to) in ["a.org:443", "a.org:8443"].into_iter().enumerate() {
        let mut agent = gate.connect(to);
        let server = gate.accept();
        // The message comes in parts.
        agent.write_all(&good[..20]).unwrap();
        std::thread::sleep(Duration::from_millis(30));
        agent.write_all(&good[20..]).unwrap();
        agent.write_all(b"more").unwrap();
        assert_eq!(exact(&server, good.len() + 4), [&good[..], b"more"].concat());
        drop((agent, server));
        for (bytes, told) in [
            (hello(Some("b.org")), ALERT),
            (hello(Some("xa.org")), ALERT),
            (hello(None), ALERT),
            (vec![22, 3, 1, 0, 0, 1], b"HTTP/1.1 403 ".as_slice()),
        ] {
            let mut agent = gate.connect(to);
            let server = gate.accept();
            agent.write_all(&bytes).unwrap();
            assert!(all(agent).starts_with(told), "{bytes:?}");
            assert_eq!(all(server), b"", "the server gets nothing");
        }
        let verdicts = gate.verdicts(5 * (at + 1));
        let refused = verdicts.iter().filter(|verdict| matches!(verdict, NetVerdict::Refused(_))).count();
        assert_eq!(refused, 4 * (at + 1));
    }
    // Other bytes pass on another port, but not on that of TLS.
    let mut agent = gate.connect("a.org:443");
    agent.write_all(b"GET / HTTP/1.1\r\nHost: b.org\r\n\r\n").unwrap();
    assert!(String::from_utf8(all(agent)).unwrap().contains("only TLS"));
    assert_eq!(all(gate.accept()), b"");
    let mut agent = gate.connect("a.org:8443");
    agent.write_all(b"hello").unwrap();
    assert_eq!(exact(gate.accept(), 5), b"hello");
}

#[test]
fn every_request_without_tls_has_to_be_for_the_host() {
    let gate = Gate::new(policy(Unlisted::Refuse, &["a.org:80"]));
    let good = "GET / HTTP/1.1\r\nHost: a.org\r\n\r\n";
    let mut agent = gate.connect("a.org:80");
    let server = gate.accept();
    agent.write_all(good.as_bytes()).unwrap();
    assert_eq!(exact(&server, good.len()), good.as_bytes());
    agent.write_all(b"GET / HTTP/1.1\r\nHost: b.org\r\n\r\n").unwrap();
    assert_eq!(all(server), b"", "the second request does not arrive");
    assert!(String::from_utf8(all(agent)).unwrap().contains("only HTTP/1.1 requests for this host"));
    assert_eq!(gate.verdicts(1), [NetVerdict::Refused(NetRefusal::NotForThisHost)]);

    // Another protocol, once the server agrees.
    let mut agent = gate.connect("a.org:80");
    let mut server = gate.accept();
    let asking = "GET /chat HTTP/1.1\r\nHost: a.org\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    agent.write_all(format!("{asking}frame").as_bytes()).unwrap();
    assert_eq!(exact(&server, asking.len()), asking.as_bytes());
    let agreed = b"HTTP/1.1 101 Switching Protocols\r\n\r\n";
    server.write_all(agreed).unwrap();
    assert_eq!(exact(&agent, agreed.len()), agreed);
    assert_eq!(exact(&server, 5), b"frame");
}

#[test]
fn a_request_to_a_proxy_is_sent_on_alone() {
    let gate = Gate::new(policy(Unlisted::Refuse, &["a.org:80"]));
    let mut agent = gate.ask(
        "POST http://a.org/x HTTP/1.1\r\nHost: a.org\r\nProxy-Authorization: Basic eA==\r\nContent-Length: 5\r\n\r\n\
         helloGET /secret HTTP/1.1\r\nHost: b.org\r\n\r\n",
    );
    let mut server = gate.accept();
    let sent = "POST /x HTTP/1.1\r\nhost: a.org\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello";
    assert_eq!(String::from_utf8(exact(&server, sent.len())).unwrap(), sent);
    server.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\ndone").unwrap();
    server.shutdown(Shutdown::Write).unwrap();
    assert!(all(&mut agent).ends_with(b"done"));
    drop(agent);
    assert_eq!(all(server), b"", "nothing follows");
}

#[test]
fn a_connection_waits_for_the_answer_of_a_person() {
    let gate = Gate::new(policy(Unlisted::Ask, &[]));
    let waiting: Vec<UnixStream> = (0..3).map(|_| gate.ask("CONNECT hub.local:22 HTTP/1.1\r\n\r\n")).collect();
    while lock(&gate.wanted).is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(100));
    let (session, incarnation) = KEY;
    let endpoint: Endpoint = "hub.local:22".parse().unwrap();
    // One question, however many connections wait.
    assert_eq!(*lock(&gate.wanted), [HostWanted { session, incarnation, endpoint, local: true }]);
    let granted = NetworkPolicy { granted: vec!["hub.local:22".parse().unwrap()], ..policy(Unlisted::Ask, &[]) };
    assert!(gate.egress.set_policy(session, incarnation, granted));
    for mut agent in waiting {
        assert!(until(&mut agent, b"\r\n\r\n").starts_with("HTTP/1.1 200 "));
    }
    // Without an answer, and with the answer no.
    let answer = String::from_utf8(all(gate.ask("CONNECT b.org:443 HTTP/1.1\r\n\r\n"))).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("you will be told when it is allowed"), "{answer}");
    let answer = String::from_utf8(all(gate.ask("CONNECT b.org:1 HTTP/1.1\r\n\r\n"))).unwrap();
    assert!(answer.contains("too many questions"), "{answer}");
    let waiting = gate.ask("CONNECT c.org:443 HTTP/1.1\r\n\r\n");
    std::thread::sleep(Duration::from_millis(100));
    let refused = NetworkPolicy { refused: vec!["c.org".parse().unwrap()], ..policy(Unlisted::Ask, &[]) };
    gate.egress.set_policy(session, incarnation, refused);
    let answer = String::from_utf8(all(waiting)).unwrap();
    assert!(answer.contains("a person refused c.org for good"), "{answer}");
    let asked = gate.verdicts(6).into_iter().filter(|verdict| *verdict == NetVerdict::Asked).count();
    assert_eq!(asked, 1);
}

#[test]
fn a_new_policy_and_the_end_cut_connections() {
    let gate = Gate::new(policy(Unlisted::Refuse, &["a.org:22", "b.org:22"]));
    let (first, second) = (gate.connect("a.org:22"), gate.connect("b.org:22"));
    let servers = [gate.accept(), gate.accept()];
    gate.egress.set_policy(KEY.0, KEY.1, policy(Unlisted::Refuse, &["b.org:22"]));
    assert_eq!(all(first), b"");
    second.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!((&second).read(&mut [0; 1]).is_err(), "it goes on");
    second.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    gate.egress.close(KEY.0, KEY.1);
    assert_eq!(all(second), b"");
    servers.into_iter().for_each(|server| assert_eq!(all(server), b""));
    assert_eq!(gate.verdicts(2).len(), 2);
    assert!(!gate.place.exists() && UnixStream::connect(gate.place.join(NETWORK_SOCKET)).is_err());
    assert!(!gate.egress.set_policy(KEY.0, KEY.1, policy(Unlisted::Refuse, &[])));
}

#[test]
fn services_of_this_machine_need_a_rule_and_are_never_hearth_itself() {
    for (is_own, expected) in [(false, "HTTP/1.1 200 "), (true, "HTTP/1.1 403 ")] {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let reach = Reach { listens: Arc::new(move |_| is_own), ..Reach::default() };
        let allow = format!("this-machine.internal:{port}");
        let gate = Gate::reaching(policy(Unlisted::Public, &[&allow]), server, reach);
        let mut agent = gate.ask(&format!("CONNECT {allow} HTTP/1.1\r\n\r\n"));
        assert!(until(&mut agent, b"\r\n\r\n").starts_with(expected), "{is_own}");
        // By another way, the same service is not reached.
        for host in ["localhost", "127.0.0.1", "[::1]", "x.localhost"] {
            let mut agent = gate.ask(&format!("CONNECT {host}:{port} HTTP/1.1\r\n\r\n"));
            assert!(until(&mut agent, b"\r\n\r\n").starts_with("HTTP/1.1 403 "), "{host}");
        }
    }
}

#[test]
fn the_next_daemon_listens_where_the_last_one_did() {
    let directory = tempfile::tempdir().unwrap();
    let start = || {
        let hooks = Hooks { ask: Box::new(|_| Box::pin(async { Ok(()) })), seen: Box::new(|_| {}) };
        Egress::start(Setup { directory: directory.path().join("net"), reach: Reach::default(), hooks }).unwrap()
    };
    let open = |egress: &Egress, session| {
        egress.open(SessionId::new(session), 1, policy(Unlisted::Refuse, &[]), None).unwrap()
    };
    let first = start();
    let (kept, left) = (open(&first, 1).directory, open(&first, 2).directory);
    drop(first);
    assert!(kept.join("resolv.conf").exists());
    let second = start();
    assert_eq!(open(&second, 1).directory, kept);
    second.remove_left(&[IncarnationId::new(SessionId::new(1), 1)]);
    assert!(UnixStream::connect(kept.join(NETWORK_SOCKET)).is_ok() && !left.exists());
}

#[test]
fn a_server_that_does_not_answer_is_not_a_refusal() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let address: SocketAddr = closed.local_addr().unwrap();
    drop(closed);
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let reach = Reach { placed: Arc::new(move |_| Some(address)), ..Reach::default() };
    let gate = Gate::reaching(policy(Unlisted::Public, &[]), server, reach);
    let answer = String::from_utf8(all(gate.ask("CONNECT a.org:443 HTTP/1.1\r\n\r\n"))).unwrap();
    assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("does not answer"), "{answer}");
    assert_eq!(gate.verdicts(1), [NetVerdict::Refused(NetRefusal::NoAnswer)]);
}
