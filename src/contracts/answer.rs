//! Collects the output of a program until it ends, within limits of time and size.

use std::io::Read;
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Size limit of standard output and of standard error, in bytes.
pub const ANSWER_MAX: usize = 256 << 10;
/// Pause between two checks.
const PAUSE: Duration = Duration::from_millis(5);
/// Minimum time for reading the remaining output of a program that has ended.
const REST: Duration = Duration::from_secs(1);

/// A program's exit status and output.
#[derive(Debug)]
pub struct Answer {
    /// How it ended.
    pub ended: ExitStatus,
    /// The beginning of its standard output, if that is a pipe.
    pub out: Vec<u8>,
    /// The beginning of its standard error, if that is a pipe.
    pub err: Vec<u8>,
}

/// Waits for a started program. Returns `None` if it takes longer than `patience`, in which case it is killed, or if it
/// ends in time but leaves its pipes open in other processes.
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
    // Output from before the end is available at once.
    let left = patience.saturating_sub(waited).max(REST);
    Some(Answer { ended, out: said(out, left)?, err: said(err, left)? })
}

/// Reads in a thread, because the program would block on a full pipe.
fn read(pipe: impl Read + Send + 'static) -> Receiver<std::io::Result<Vec<u8>>> {
    let (done, reading) = channel();
    std::thread::spawn(move || {
        let mut said = Vec::new();
        // A program that writes more is cut off: its pipe closes.
        let read = pipe.take(ANSWER_MAX as u64).read_to_end(&mut said).map(|_| said);
        // After a timeout nothing receives this any more.
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
