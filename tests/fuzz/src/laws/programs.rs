//! Output of programs that Hearth or its runner starts or queries: agents, scripts, Podman.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;

use agent_runner::{last_value, understood};
use hearth::runtime::podman::build::{Engine, Watch};
use serde_json::Value;

use super::store::directory;

/// A line of a program of the provider `command`. It is ignored, parsed, or a turn's end with a reason. Text that is
/// not JSON is never parsed, and files are named by the last component of their paths.
pub fn command(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let said = understood(&text);
    assert_eq!(said, understood(&format!(" {text}\t")));
    match said {
        None => {}
        Some(Ok(files)) => {
            assert!(serde_json::from_str::<Value>(&text).is_ok_and(|value| value.get("type").is_some()), "{text}");
            assert!(files.iter().all(|name| !name.contains('/')), "{files:?}");
        }
        Some(Err(why)) => assert!(!why.is_empty()),
    }
}

/// What a task's script wrote. Its last line decides, whatever comes before it.
pub fn script(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim();
    let decided = last_value(text.as_bytes());
    assert_eq!(decided, last_value(bytes));
    if !text.is_empty() {
        assert_eq!(decided, last_value(format!("{{\"wakeAgent\":true}}\nnoise\r\n\n{text}\n").as_bytes()));
    }
    match decided {
        Ok((wakes, data)) => {
            let line: Value = serde_json::from_str(text.lines().last().expect("a line")).expect("JSON");
            assert_eq!((&line["wakeAgent"], line.get("data").unwrap_or(&Value::Null)), (&Value::Bool(wakes), &data));
        }
        Err(why) => assert!(!why.is_empty() && why.len() < 200, "{why}"),
    }
}

/// Has no listener and never times out.
struct Patient;

impl Watch for Patient {
    fn said(&self, _: &str) {}

    fn expired(&self) -> bool {
        false
    }
}

/// HTTP output of something that listens in place of Podman. It is understood, or refused with a reason, the same way
/// every time, and nothing counts as success that did not begin as one.
pub fn podman(bytes: &[u8]) {
    let dir = directory();
    let socket = dir.path().join("podman.sock");
    let listener = UnixListener::bind(&socket).expect("a socket can be made");
    let said = bytes.to_vec();
    // Not joined: after a panic in a call there are fewer connections.
    std::thread::spawn(move || (0..CALLS).for_each(|_| answer(&listener, &said)));
    let engine = Engine::at(&socket).expect("there are threads");
    let (info, again) = (engine.info(&Patient), engine.info(&Patient));
    let (images, there) = (engine.images(&Patient), engine.has_image("x", &Patient));
    let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let first = String::from_utf8_lossy(first);
    let status: Option<u16> = first.split_ascii_whitespace().nth(1).and_then(|status| status.parse().ok());
    let good = status.is_some_and(|status| (200..400).contains(&status));
    match (&info, &again) {
        (Ok(info), Ok(again)) => assert!(good && info == again, "{info:?} {again:?}"),
        (Err(why), Err(again)) => assert_eq!(why.to_string(), again.to_string()),
        other => panic!("{other:?}"),
    }
    match &images {
        Ok(images) => assert!(good && images.iter().all(|image| !image.names.is_empty()), "{images:?}"),
        Err(why) => assert!(!why.to_string().is_empty()),
    }
    match &there {
        Ok(there) => assert!(*there == good && (good || status == Some(404)), "{first}"),
        Err(why) => assert!(!why.to_string().is_empty()),
    }
}

/// Calls of one input.
const CALLS: usize = 4;

/// Reads a request to its end and answers it.
fn answer(listener: &UnixListener, said: &[u8]) {
    let Ok((mut stream, _)) = listener.accept() else { return };
    let (mut asked, mut part) = (Vec::new(), [0; 1_024]);
    while !asked.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut part) {
            Ok(read @ 1..) => asked.extend_from_slice(&part[..read]),
            _ => return,
        }
    }
    // The reader closes the pipe when it has enough.
    drop(stream.write_all(said));
}
