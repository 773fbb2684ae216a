//! The last lines of a runner's standard error, kept to explain why it ended.

use std::io::{self, PipeReader, PipeWriter};
use std::process::ChildStderr;
use std::thread::JoinHandle;

use super::wait::follow;
use crate::runtime::redact::Secrets;
use crate::runtime::stderr_tail::StderrTail;

/// Longer lines are logged in pieces.
const LINE_BYTES: usize = 4096;

/// A thread that reads a runner's standard error.
pub(super) struct Stderr {
    reader: JoinHandle<String>,
    stop: PipeWriter,
}

impl Stderr {
    /// Starts reading. The thread reads everything, so that the runner never blocks on a full pipe.
    pub(super) fn start(name: String, stderr: ChildStderr, secrets: Secrets) -> io::Result<Self> {
        let (stopped, stop) = io::pipe()?;
        let reader = std::thread::Builder::new().name(name).spawn(move || read(stderr, &stopped, &secrets))?;
        Ok(Self { reader, stop })
    }

    /// The tail of the output. Does not wait for processes that still have the other end open.
    pub(super) fn finish(self) -> String {
        drop(self.stop);
        self.reader.join().unwrap_or_default()
    }
}

fn read(mut stderr: ChildStderr, stopped: &PipeReader, secrets: &Secrets) -> String {
    let mut last = StderrTail::new(secrets);
    let mut line = Vec::new();
    let end = follow(&mut stderr, stopped, |bytes| {
        last.push(bytes);
        if tracing::enabled!(tracing::Level::TRACE) {
            log(&mut line, bytes, secrets);
        }
        true
    });
    if let Err(error) = end {
        tracing::debug!(%error, "an agent's standard error cannot be read to its end");
    }
    last.into_text()
}

/// Logs a line, at trace level only: agents write people's messages there.
fn log(line: &mut Vec<u8>, bytes: &[u8], secrets: &Secrets) {
    for byte in bytes {
        if *byte == b'\n' || line.len() >= LINE_BYTES {
            let text = String::from_utf8_lossy(&secrets.redact(line)).into_owned();
            tracing::trace!(text, "standard error of an agent");
            line.clear();
        }
        if *byte != b'\n' {
            line.push(*byte);
        }
    }
}
