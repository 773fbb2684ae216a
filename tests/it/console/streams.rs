//! Event streams of pages: they end with their session, and tell nothing of others.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use super::{Console, PEOPLE, me};

/// An open event stream.
struct Stream(BufReader<TcpStream>);

impl Stream {
    fn open(console: &Console, cookie: &str) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", console.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        write!(stream, "GET /events HTTP/1.1\r\nHost: {}\r\nCookie: {cookie}\r\n\r\n", console.here()).unwrap();
        Self(BufReader::new(stream))
    }

    /// The lines of the next event; none if the stream ends.
    fn next(&mut self) -> Option<Vec<String>> {
        let mut event: Vec<String> = Vec::new();
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).expect("neither an event nor the end came in time") == 0 {
                return None;
            }
            let line = line.trim();
            if ["event:", "data:", "id:"].iter().any(|field| line.starts_with(field)) {
                event.push(line.to_owned());
            } else if line.is_empty() && !event.is_empty() {
                return Some(event);
            } else if line == "0" {
                return None;
            }
        }
    }
}

#[test]
fn a_stream_ends_with_its_session_and_the_rights_of_its_person() {
    let console = Console::with(PEOPLE);
    let owner = console.sign_in(&[]);
    for (user, end) in
        [("telegram:5", vec!["users", "remove", "telegram:5"]), ("telegram:6", vec!["console", "sign-out", "cs3"])]
    {
        let mut stream = Stream::open(&console, &console.sign_in(&["--user", user]));
        let mut other = Stream::open(&console, &owner);
        assert!(stream.next().is_some() && other.next().is_some());
        console.host.done(&end, b"");
        assert_eq!(stream.next(), None, "{end:?}");
        assert!(other.next().is_some(), "others go on");
    }
    let mut stream = Stream::open(&console, &owner);
    assert!(stream.next().is_some());
    console.host.done(&["users", "remove", &me(), "--force"], b"");
    assert_eq!(stream.next(), None);
}

#[test]
fn an_event_does_not_tell_how_much_others_do() {
    let console = Console::with(PEOPLE);
    let member = console.sign_in(&["--user", "telegram:5"]);
    let first = Stream::open(&console, &member).next().unwrap();
    for number in 0..3 {
        console.host.inject(&format!("e{number}"), "of others");
    }
    console.host.wait_settled();
    assert_eq!(Stream::open(&console, &member).next().unwrap(), first);
}
