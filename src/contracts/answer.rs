//! What a program says before it ends: bounded in time and size.

use std::io::Read;
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Most bytes that are read of what a program says, in either way.
pub const ANSWER_MAX: usize = 256 << 10;
/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(5);
/// Least time for reading the rest of what a program said that has ended.
const REST: Duration = Duration::from_secs(1);

/// How a program ended, and what it said.
#[derive(Debug)]
pub struct Answer {
    /// How it ended.
    pub ended: ExitStatus,
    /// The beginning of its standard output, if that is a pipe.
    pub out: Vec<u8>,
    /// The beginning of its standard error, if that is a pipe.
    pub err: Vec<u8>,
}

/// Waits for a program that was started. One that takes longer than `patience` is killed, and has said nothing; so has one
/// that ended in time and left its pipes to others that go on.
#[must_use]
pub fn answer(mut child: Child, patience: Duration) -> Option<Answer> {
    let out = child.stdout.take().map(read);
    let err = child.stderr.take().map(read);
    let mut waited = Duration::ZERO;
    let ended = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if waited < patience => {}
            Ok(None) | Err(_) => break None,
        }
        std::thread::sleep(PAUSE);
        waited += PAUSE;
    };
    let Some(ended) = ended else {
        // It may have ended just now.
        drop(child.kill());
        drop(child.wait());
        return None;
    };
    // What was said before the end is there in no time.
    let left = patience.saturating_sub(waited).max(REST);
    Some(Answer { ended, out: said(out, left)?, err: said(err, left)? })
}

/// Reads beside the program, which would stop at a full pipe.
fn read(pipe: impl Read + Send + 'static) -> Receiver<std::io::Result<Vec<u8>>> {
    let (done, reading) = channel();
    std::thread::spawn(move || {
        let mut said = Vec::new();
        // Whoever says more is cut off: its pipe closes.
        let read = pipe.take(ANSWER_MAX as u64).read_to_end(&mut said).map(|_| said);
        // Nobody waits any more for what comes too late.
        done.send(read).ok();
    });
    reading
}

fn said(reading: Option<Receiver<std::io::Result<Vec<u8>>>>, patience: Duration) -> Option<Vec<u8>> {
    match reading {
        Some(reading) => reading.recv_timeout(patience).ok()?.ok(),
        None => Some(Vec::new()),
    }
}
