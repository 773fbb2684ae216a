//! Against sockets that behave badly; the real Podman is asked in the tests across modules.

use std::cell::{Cell, RefCell};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;

use serde_json::json;

use super::*;

/// Remembers what was said, and has patience for so many looks.
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

/// Answers one request with `answer`, then with silence if it is not to close.
fn build(answer: &'static str, close: bool) -> (Result<String, Error>, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        assert!(stream.read(&mut request).unwrap() > 0);
        stream.write_all(answer.as_bytes()).unwrap();
        if !close {
            while stream.read(&mut request).is_ok_and(|count| count > 0) {}
        }
    });
    let seen = Seen::with(40);
    let context = Context::default().bytes("Containerfile", "FROM x\n");
    let order = Order { image: "localhost/x:1", args: json!({}), context, fresh: false };
    let built = Engine::at(path).build(&order, &seen);
    server.join().unwrap();
    (built, seen.said.into_inner())
}

const ID: &str = "0123456789012345678901234567890123456789012345678901234567890123";

#[test]
fn the_last_line_of_a_build_is_its_image() {
    let answer = "HTTP/1.0 200 OK\r\nServer: x\r\n\r\n{\"stream\":\"STEP 1/2: FROM x\\nhello\\n\"}\n\
                  {\"stream\":\"0123456789012345678901234567890123456789012345678901234567890123\\n\"}\n";
    let (built, said) = build(answer, true);
    assert_eq!(built.unwrap(), ID);
    assert_eq!(said, ["STEP 1/2: FROM x", "hello", ID]);
}

#[test]
fn a_build_that_fails_says_its_last_words() {
    let answer = "HTTP/1.0 200 OK\r\n\r\n{\"stream\":\"a\\nb\\n\"}\n{\"error\":\"step 2 failed\\n\"}\n";
    let Err(Error::Build { image, said, tail }) = build(answer, true).0 else { panic!("it failed") };
    assert_eq!((image.as_str(), said.as_str(), tail.as_str()), ("localhost/x:1", "step 2 failed", "a\nb"));

    let refused =
        "HTTP/1.0 500 Internal Server Error\r\n\r\n{\"cause\":\"x\",\"message\":\"no such image\",\"response\":500}";
    assert!(matches!(build(refused, true).0, Err(Error::Refused { status: 500, said }) if said == "no such image"));
    for cut in ["", "HTTP/1.0 ", "HTTP/1.0 200 OK\r\n\r\n{\"stream\":\"a\\n\"}\n", "nonsense\n"] {
        assert!(matches!(build(cut, true).0, Err(Error::Unclear { .. })), "{cut:?}");
    }
}

#[test]
fn a_build_that_hangs_ends() {
    assert!(matches!(build("HTTP/1.0 200 OK\r\n\r\n{\"stream\":\"a\\n\"}\n", false).0, Err(Error::TooLong { .. })));
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
