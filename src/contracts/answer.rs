//! What a program says before it ends: bounded in time and size.

use std::io::Read;
use std::process::{Child, ExitStatus};
use std::thread::JoinHandle;
use std::time::Duration;

/// Most bytes that are read of what a program says, in either way.
pub const ANSWER_MAX: usize = 256 << 10;
/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(5);

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

/// Waits for a program that was started. One that takes longer than `patience` is killed, and has said nothing.
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
    Some(Answer { ended, out: said(out)?, err: said(err)? })
}

/// Reads beside the program, which would stop at a full pipe.
fn read(pipe: impl Read + Send + 'static) -> JoinHandle<std::io::Result<Vec<u8>>> {
    std::thread::spawn(move || {
        let mut said = Vec::new();
        // Whoever says more is cut off: its pipe closes.
        pipe.take(ANSWER_MAX as u64).read_to_end(&mut said).map(|_| said)
    })
}

fn said(reading: Option<JoinHandle<std::io::Result<Vec<u8>>>>) -> Option<Vec<u8>> {
    match reading {
        Some(reading) => reading.join().ok()?.ok(),
        None => Some(Vec::new()),
    }
}
