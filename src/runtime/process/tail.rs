//! The last lines of a runner's standard error: kept for people who ask why it ended.

use std::collections::VecDeque;
use std::io::{self, PipeReader, PipeWriter};
use std::process::ChildStderr;
use std::thread::JoinHandle;

use super::follow::follow;
use super::redact::Secrets;

/// What is kept.
const KEPT_BYTES: usize = 64 * 1024;
/// Longer lines are logged in pieces.
const LINE_BYTES: usize = 4096;

/// A thread that reads a runner's standard error.
pub(super) struct Tail {
    reader: JoinHandle<String>,
    stop: PipeWriter,
}

impl Tail {
    /// Starts to read. Nobody else reads, so that the runner never waits for a full pipe.
    pub(super) fn start(name: String, stderr: ChildStderr, secrets: Secrets) -> io::Result<Self> {
        let (stopped, stop) = io::pipe()?;
        let reader = std::thread::Builder::new().name(name).spawn(move || read(stderr, &stopped, &secrets))?;
        Ok(Self { reader, stop })
    }

    /// What came last. Waits for no process that still has the other end.
    pub(super) fn finish(self) -> String {
        drop(self.stop);
        self.reader.join().unwrap_or_default()
    }
}

fn read(mut stderr: ChildStderr, stopped: &PipeReader, secrets: &Secrets) -> String {
    let mut last = Last::new(secrets);
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

/// Only at trace: agents write there what people said.
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

/// The end of a stream, and enough before it to recognise a secret that the cut would split.
struct Last<'a> {
    bytes: VecDeque<u8>,
    cut: bool,
    secrets: &'a Secrets,
}

impl<'a> Last<'a> {
    fn new(secrets: &'a Secrets) -> Self {
        Self { bytes: VecDeque::new(), cut: false, secrets }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        let excess = self.bytes.len().saturating_sub(KEPT_BYTES + self.secrets.longest());
        self.cut |= excess > 0;
        self.bytes.drain(..excess);
    }

    fn into_text(mut self) -> String {
        let mut clean = self.secrets.redact(self.bytes.make_contiguous());
        if self.cut {
            clean.drain(..self.secrets.longest().min(clean.len()));
        }
        let excess = clean.len().saturating_sub(KEPT_BYTES);
        clean.drain(..excess);
        let mut text = String::from_utf8_lossy(&clean).into_owned();
        let excess = (text.len().saturating_sub(KEPT_BYTES)..=text.len()).find(|at| text.is_char_boundary(*at));
        text.drain(..excess.unwrap_or_default());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept_and_a_cut_secret_is_not_shown() {
        let mut secrets = Secrets::default();
        secrets.add(b"correct horse battery staple");
        for before in 0..40 {
            let mut last = Last::new(&secrets);
            last.push(&b"x".repeat(100));
            last.push(b"correct horse battery staple");
            last.push(&b"y".repeat(KEPT_BYTES - before));
            last.push(b"end");
            let text = last.into_text();
            assert!(text.ends_with("yend") && text.len() <= KEPT_BYTES, "{before}");
            assert!(!text.contains("stap") && !text.contains("corr"), "{before}: {}", &text[..60]);
        }
    }
}
