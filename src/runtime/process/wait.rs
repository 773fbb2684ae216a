//! Reads a child's output until it ends or the reader stops.

use std::io::{self, PipeReader, Read};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// Bytes still read after the stop; more than any pipe holds.
const REST_BYTES: usize = 1 << 20;

/// Reads until the end of `source`, until `take` returns false, or until `stop` is closed and nothing is readable at
/// that moment. A stray process that keeps the other end of `source` open cannot block the caller.
pub(super) fn follow<S: Read + AsFd>(
    source: &mut S,
    stop: &PipeReader,
    mut take: impl FnMut(&[u8]) -> bool,
) -> io::Result<()> {
    let mut buffer = [0_u8; 8192];
    let mut rest = REST_BYTES;
    loop {
        let (readable, stopped) = wait(source, stop)?;
        if !readable && stopped || rest == 0 {
            return Ok(());
        }
        if !readable {
            continue;
        }
        let count = match source.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if stopped {
            rest = rest.saturating_sub(count);
        }
        let Some(bytes) = buffer.get(..count).filter(|bytes| !bytes.is_empty()) else { return Ok(()) };
        if !take(bytes) {
            return Ok(());
        }
    }
}

fn wait(source: &impl AsFd, stop: &PipeReader) -> io::Result<(bool, bool)> {
    let mut ends = [PollFd::new(source, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
    match poll(&mut ends, None) {
        Ok(_) => {}
        Err(Errno::INTR) => return Ok((false, false)),
        Err(error) => return Err(error.into()),
    }
    let [source, stop] = ends.map(|end| !end.revents().is_empty());
    Ok((source, stop))
}
