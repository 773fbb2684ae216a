//! Tests of forwarding with real sockets.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use super::{Entry, Forwarder, Kind, PATIENCE};

/// Forwards a free port to a socket.
fn forwarded(socket: &Path, patience: Duration) -> u16 {
    forwarded_as(Kind::Plain, socket, patience)
}

fn forwarded_as(kind: Kind, socket: &Path, patience: Duration) -> u16 {
    let listener = super::forward::listen(Ipv4Addr::LOCALHOST, 0).unwrap();
    let port = listener.local_addr().unwrap().port();
    let entries = vec![Entry { listener, kind }];
    let forwarder = Forwarder { entries, resolver: None, socket: socket.to_owned(), patience };
    std::thread::spawn(move || forwarder.run());
    port
}

/// A network with one port by name, and a resolver.
struct Network {
    port: u16,
    resolver: SocketAddr,
}

impl Network {
    fn new(socket: &Path) -> Self {
        let listener = super::forward::listen(Ipv4Addr::UNSPECIFIED, 0).unwrap();
        let port = listener.local_addr().unwrap().port();
        let resolver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        resolver.set_nonblocking(true).unwrap();
        let address = resolver.local_addr().unwrap();
        let entries = vec![Entry { listener, kind: Kind::ByName }];
        let forwarder = Forwarder { entries, resolver: Some(resolver), socket: socket.to_owned(), patience: PATIENCE };
        std::thread::spawn(move || forwarder.run());
        Self { port, resolver: address }
    }

    fn look_up(&self, name: &str) -> Ipv4Addr {
        let mut query = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            query.push(u8::try_from(label.len()).unwrap());
            query.extend(label.as_bytes());
        }
        query.extend([0, 0, 1, 0, 1]);
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        socket.send_to(&query, self.resolver).unwrap();
        let mut answer = [0; 512];
        let length = socket.recv(&mut answer).unwrap();
        let address: [u8; 4] = answer[length - 4..length].try_into().unwrap();
        address.into()
    }

    fn connect(&self, name: &str) -> TcpStream {
        TcpStream::connect((self.look_up(name), self.port)).unwrap()
    }
}

/// Reads a request for a connection.
fn request(stream: &mut UnixStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0; 1];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    String::from_utf8(head).unwrap()
}

fn all(mut stream: impl io::Read) -> Vec<u8> {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    all
}

/// Answers each connection with what it said, when it has said all.
fn echo(listener: UnixListener) {
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut all = Vec::new();
                stream.read_to_end(&mut all).unwrap();
                stream.write_all(&all).unwrap();
            });
        }
    });
}

fn said_back(port: u16, text: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(text).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    all
}

#[test]
fn bytes_go_both_ways_also_by_a_long_path() {
    let directory = tempfile::tempdir().unwrap();
    let long = directory.path().join("x".repeat(120));
    std::fs::create_dir(&long).unwrap();
    // Bound by another name of the same directory.
    let short = directory.path().join("s");
    std::os::unix::fs::symlink(&long, &short).unwrap();
    echo(UnixListener::bind(short.join("model.sock")).unwrap());
    let port = forwarded(&long.join("model.sock"), PATIENCE);
    let text: Vec<u8> = (0..=255_u8).cycle().take(3_000_000).collect();
    assert_eq!(said_back(port, &text), text);
    let asking: Vec<_> = (0..50_u8)
        .map(|number| std::thread::spawn(move || assert_eq!(said_back(port, &[number; 100_000]), [number; 100_000])))
        .collect();
    asking.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_program_waits_for_the_daemon_but_not_for_ever() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("model.sock");
    let port = forwarded(&socket, PATIENCE);
    let asking = std::thread::spawn(move || said_back(port, b"hello"));
    std::thread::sleep(Duration::from_millis(120));
    echo(UnixListener::bind(&socket).unwrap());
    assert_eq!(asking.join().unwrap(), b"hello");
    let port = forwarded(&directory.path().join("nobody.sock"), Duration::from_millis(120));
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    assert_eq!(stream.read(&mut [0; 1]).unwrap_or(0), 0);
}

/// An answer that broke off must not look whole, and the next connection reaches the next daemon.
#[test]
fn a_daemon_that_dies_ends_the_connection() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("model.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let port = forwarded(&socket, PATIENCE);
    let mut program = TcpStream::connect(("127.0.0.1", port)).unwrap();
    program.write_all(b"ask").unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    stream.write_all(b"half").unwrap();
    let mut half = [0; 4];
    program.read_exact(&mut half).unwrap();
    drop((stream, listener));
    assert_eq!((&half, program.read(&mut [0; 1]).unwrap_or(0)), (b"half", 0));
    std::fs::remove_file(&socket).unwrap();
    echo(UnixListener::bind(&socket).unwrap());
    assert_eq!(said_back(port, b"again"), b"again");
}

/// A request to the proxy that waits for a person when the daemon dies ends with a reason.
#[test]
fn a_request_to_the_proxy_that_is_not_answered_ends_with_a_reason() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("net.sock");
    let port = forwarded_as(Kind::Proxy, &socket, Duration::from_millis(600));
    let words = String::from_utf8(super::forward::UNANSWERED.to_vec()).unwrap();
    let (head, body) = words.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{words}");
    let asked = b"CONNECT a.org:443 HTTP/1.1\r\n\r\n";
    let heard = |said: &[u8], answer: &[u8]| {
        drop(std::fs::remove_file(&socket));
        let listener = UnixListener::bind(&socket).unwrap();
        let mut program = TcpStream::connect(("127.0.0.1", port)).unwrap();
        program.write_all(said).unwrap();
        let (mut daemon, _) = listener.accept().unwrap();
        daemon.read_exact(&mut vec![0; said.len()]).unwrap();
        daemon.write_all(answer).unwrap();
        drop((daemon, listener));
        String::from_utf8(all(program)).unwrap()
    };
    assert_eq!(heard(asked, b""), words);
    assert_eq!(heard(asked, b"HTTP/1.1 200 Connected\r\n\r\nhalf"), "HTTP/1.1 200 Connected\r\n\r\nhalf");
    assert_eq!(heard(b"", b""), "", "who asks nothing is not answered");
    // No daemon comes in time.
    std::fs::remove_file(&socket).unwrap();
    let mut program = TcpStream::connect(("127.0.0.1", port)).unwrap();
    program.write_all(asked).unwrap();
    assert_eq!(String::from_utf8(all(program)).unwrap(), words);
}

/// A daemon that dies with bytes that it did not read resets the connection.
#[test]
fn a_reset_is_no_answer_either() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("net.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let port = forwarded_as(Kind::Proxy, &socket, PATIENCE);
    let mut program = TcpStream::connect(("127.0.0.1", port)).unwrap();
    program.write_all(b"GET http://a.org/ HTTP/1.1\r\n\r\n").unwrap();
    let (mut daemon, _) = listener.accept().unwrap();
    daemon.read_exact(&mut [0; 1]).unwrap();
    drop(daemon);
    assert_eq!(all(program), super::forward::UNANSWERED);
}

#[test]
fn a_connection_to_the_address_of_a_name_asks_for_the_name() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("net.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let network = Network::new(&socket);
    for name in ["example.org", "other.example"] {
        let mut program = network.connect(name);
        // Before there is a connection, nothing that the program sends is passed on.
        program.write_all(b"hello").unwrap();
        let (mut daemon, _) = listener.accept().unwrap();
        let port = network.port;
        assert_eq!(request(&mut daemon), format!("CONNECT {name}:{port} HTTP/1.1\r\nHost: {name}:{port}\r\n\r\n"));
        daemon.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        assert!(daemon.read(&mut [0; 1]).is_err());
        daemon.set_read_timeout(None).unwrap();
        daemon.write_all(b"HTTP/1.1 200 OK\r\n\r\nwelcome").unwrap();
        let mut said = [0; 5];
        daemon.read_exact(&mut said).unwrap();
        program.shutdown(Shutdown::Write).unwrap();
        assert_eq!((&said, all(&daemon)), (b"hello", Vec::new()));
        drop(daemon);
        assert_eq!(all(&program), b"welcome");
    }
}

#[test]
fn a_refusal_is_told_in_the_program_s_own_terms() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("net.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let network = Network::new(&socket);
    let refusal = b"HTTP/1.1 403 Forbidden\r\nconnection: close\r\n\r\nno";
    for (says, hears) in [(b"\x16\x03\x01", &[21, 3, 3, 0, 2, 2, 49][..]), (b"GET", refusal), (b"\0\0\0", b"")] {
        let mut program = network.connect("example.org");
        program.write_all(says).unwrap();
        let (mut daemon, _) = listener.accept().unwrap();
        request(&mut daemon);
        std::thread::sleep(Duration::from_millis(20));
        daemon.write_all(refusal).unwrap();
        drop(daemon);
        let mut heard = Vec::new();
        // An answer to bytes that were never read may end with a reset.
        drop(program.read_to_end(&mut heard));
        assert_eq!(heard, hears);
    }
}

#[test]
fn a_daemon_that_stops_before_it_answers_is_asked_again() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("net.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let network = Network::new(&socket);
    let mut program = network.connect("example.org");
    program.write_all(b"hello").unwrap();
    let (mut daemon, _) = listener.accept().unwrap();
    let first = request(&mut daemon);
    drop((daemon, listener));
    std::fs::remove_file(&socket).unwrap();
    std::thread::sleep(Duration::from_millis(120));
    let listener = UnixListener::bind(&socket).unwrap();
    let (mut daemon, _) = listener.accept().unwrap();
    assert_eq!(request(&mut daemon), first);
    daemon.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
    let mut said = [0; 5];
    daemon.read_exact(&mut said).unwrap();
    assert_eq!(&said, b"hello");
}

#[test]
fn an_address_without_a_name_leads_nowhere() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("net.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    listener.set_nonblocking(true).unwrap();
    let network = Network::new(&socket);
    for address in [Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 64, 9, 9)] {
        let mut program = TcpStream::connect((address, network.port)).unwrap();
        assert_eq!(program.read(&mut [0; 1]).unwrap_or(0), 0);
    }
    assert!(listener.accept().is_err(), "the daemon is not asked");
}
