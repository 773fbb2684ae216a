//! Tests against sockets that misbehave. The integration tests use a real Podman.

use std::cell::{Cell, RefCell};
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};

use serde_json::json;

use super::*;

/// Records the output, and expires after a number of checks.
struct Seen {
    said: RefCell<Vec<String>>,
    looks: Cell<u32>,
}

impl Seen {
    fn with(looks: u32) -> Self {
        Self { said: RefCell::default(), looks: Cell::new(looks) }
    }
}

impl Watch for Seen {
    fn said(&self, line: &str) {
        self.said.borrow_mut().push(line.to_owned());
    }

    fn expired(&self) -> bool {
        self.looks.set(self.looks.get().saturating_sub(1));
        self.looks.get() == 0
    }
}

/// Answers one request with `answer`, and then calls this before it closes the connection.
fn build(answer: &'static str, then: fn(&mut UnixStream)) -> (Result<String, Error>, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut request, mut piece) = (Vec::new(), [0; 4096]);
        // The end of a tar archive.
        while !request.ends_with(&[0; 1024]) {
            let count = stream.read(&mut piece).unwrap();
            assert!(count > 0);
            request.extend_from_slice(&piece[..count]);
        }
        assert!(String::from_utf8_lossy(&request).contains("FROM x"));
        stream.write_all(answer.as_bytes()).unwrap();
        then(&mut stream);
    });
    let seen = Seen::with(40);
    let context = Context::default().bytes("Containerfile", "FROM x\n");
    let order = Order { image: "localhost/x:1", args: json!({}), context, fresh: false };
    let built = Engine::at(&path).unwrap().build(order, &seen);
    server.join().unwrap();
    (built, seen.said.into_inner())
}

fn close(_: &mut UnixStream) {}

const ID: &str = "0123456789012345678901234567890123456789012345678901234567890123";

#[test]
fn the_last_line_of_a_build_is_its_image() {
    let answer = "HTTP/1.0 200 OK\r\nServer: x\r\n\r\n{\"stream\":\"STEP 1/2: FROM x\\nhello\\n\"}\n\
                  {\"stream\":\"0123456789012345678901234567890123456789012345678901234567890123\\n\"}\n";
    let (built, said) = build(answer, close);
    assert_eq!(built.unwrap(), ID);
    assert_eq!(said, ["STEP 1/2: FROM x", "hello", ID]);
}

#[test]
fn a_build_that_fails_says_its_last_words() {
    let answer = "HTTP/1.0 200 OK\r\n\r\n{\"stream\":\"a\\nb\\n\"}\n{\"error\":\"step 2 failed\\n\"}\n";
    let Err(Error::Build { image, message, tail }) = build(answer, close).0 else { panic!("it failed") };
    assert_eq!((image.as_str(), message.as_str(), tail.as_str()), ("localhost/x:1", "step 2 failed", "a\nb"));

    let refused =
        "HTTP/1.0 500 Internal Server Error\r\n\r\n{\"cause\":\"x\",\"message\":\"no such image\",\"response\":500}";
    assert!(
        matches!(build(refused, close).0, Err(Error::Refused { status: 500, message }) if message == "no such image")
    );
    for cut in ["", "HTTP/1.0 ", "nonsense\n", "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{\"stream\":\"a\\n\"}\n"] {
        let error = build(cut, close).0.unwrap_err();
        assert!(matches!(error, Error::Unusable(Unusable::Silent { .. })), "{cut:?} {error}");
    }
    let nameless = "HTTP/1.0 200 OK\r\n\r\n{\"stream\":\"a\\n\"}\n";
    assert!(matches!(build(nameless, close).0, Err(Error::Unclear { .. })));
}

#[test]
fn a_build_that_hangs_or_never_stops_talking_ends() {
    let hang = |stream: &mut UnixStream| while stream.read(&mut [0; 64]).is_ok_and(|count| count > 0) {};
    let talk = |stream: &mut UnixStream| while stream.write_all(b"{\"stream\":\"a\\n\"}\n").is_ok() {};
    let both: [fn(&mut UnixStream); 2] = [hang, talk];
    for then in both {
        let ended = build("HTTP/1.0 200 OK\r\n\r\n{\"stream\":\"a\\n\"}\n", then).0;
        assert!(matches!(ended, Err(Error::TooLong { .. })), "{ended:?}");
    }
}

#[test]
fn certificates_are_a_file_of_some_length() {
    let place = tempfile::tempdir().unwrap();
    for path in ["/dev/zero".into(), place.path().to_owned()] {
        let options = Options { trust: Some(path), ..Options::default() };
        let Err(Error::File { source, .. }) = options.add_to(Context::default()) else { panic!("it was read") };
        assert!(source.to_string().starts_with("it must be a file of at most"), "{source}");
    }
}
