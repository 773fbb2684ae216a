//! Copies bytes between two sockets that do not block.

use std::io::{self, Read, Write};

/// Bytes that are read before they are written.
pub(super) const BUFFER: usize = 32 << 10;

/// Bytes on their way in one direction.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    /// Bytes that could not be written yet. An idle connection has no memory here.
    waiting: Vec<u8>,
    /// How many of them are written.
    written: usize,
    /// What the target gets if the source ends without a byte.
    instead: Option<&'static [u8]>,
    /// Bytes have come.
    began: bool,
    /// The source has ended.
    pub(super) ended: bool,
    /// The target was told so.
    shut: bool,
}

impl Pipe {
    /// A direction in which these bytes come first.
    pub(super) fn beginning(waiting: Vec<u8>) -> Self {
        Self { waiting, began: true, ..Self::default() }
    }

    /// Whether bytes have come.
    pub(super) const fn has_begun(&self) -> bool {
        self.began
    }

    /// Gives the target these bytes if the source ends without one.
    pub(super) const fn or_else(&mut self, instead: &'static [u8]) {
        self.instead = Some(instead);
    }

    fn end_with(&mut self, last: &'static [u8]) {
        (self.waiting, self.written) = (last.to_vec(), 0);
        (self.ended, self.instead) = (true, None);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.written >= self.waiting.len()
    }

    /// Nothing will come any more.
    pub(super) fn is_over(&self) -> bool {
        self.ended && self.is_empty()
    }

    /// Copies what is there, as long as neither side blocks. `buffer` is used for bytes that pass at once.
    pub(super) fn copy(
        &mut self,
        from: &mut impl Read,
        to: &mut impl Write,
        buffer: &mut [u8],
        shut: impl Fn() -> io::Result<()>,
    ) -> io::Result<()> {
        loop {
            while !self.is_empty() {
                match to.write(self.waiting.get(self.written..).unwrap_or_default()) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(bytes) => self.written = self.written.saturating_add(bytes),
                    Err(error) => return unless_blocked(error),
                }
            }
            (self.waiting, self.written) = (Vec::new(), 0);
            if self.ended {
                if !self.shut {
                    self.shut = true;
                    // The target may be gone already.
                    drop(shut());
                }
                return Ok(());
            }
            let read = match (from.read(buffer), self.instead) {
                (Ok(0), Some(instead)) => {
                    self.end_with(instead);
                    continue;
                }
                (Ok(read), _) => read,
                (Err(error), instead) => match (unless_blocked(error), instead) {
                    (Err(_), Some(instead)) => {
                        self.end_with(instead);
                        continue;
                    }
                    (done, _) => return done,
                },
            };
            self.ended = read == 0;
            if read > 0 {
                (self.began, self.instead) = (true, None);
            }
            let read = buffer.get(..read).unwrap_or_default();
            let written = match to.write(read) {
                _ if read.is_empty() => 0,
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => written,
                Err(error) => unless_blocked(error).map(|()| 0)?,
            };
            self.waiting = read.get(written..).unwrap_or_default().to_vec();
        }
    }
}

pub(super) fn unless_blocked(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(()),
        _ => Err(error),
    }
}
