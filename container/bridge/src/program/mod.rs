//! What bridges in Rust share: the socket to the daemon, the memory of what was delivered, and the main loop with the
//! ways of threads to it.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{FileType, fstat};
use rustix::time::{ClockId, clock_gettime};

use crate::{FromBridge, Hello, Lines, ToBridge, fit};

pub mod hand;
pub mod parts;
pub mod post;
pub mod put_off;
pub mod run;
pub mod settings;
pub mod spool;
pub mod state;

/// Writes a line to the daemon's log.
pub fn log(line: &str) {
    let line: String = line.chars().map(|char| if char.is_control() { ' ' } else { char }).take(1_000).collect();
    drop(writeln!(io::stdout(), "{line}"));
}

/// Deliveries that are remembered.
const REMEMBERED: usize = 10_000;

/// Time since some moment, for waits.
#[must_use]
pub fn now() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// The daemon's side of a bridge.
#[derive(Debug)]
pub struct Daemon {
    socket: UnixStream,
    writer: FrameWriter,
    lines: Lines,
    waiting: VecDeque<ToBridge>,
}

impl Daemon {
    /// Takes over the socket.
    ///
    /// # Errors
    /// If it cannot be shared with writers.
    pub fn new(socket: UnixStream) -> io::Result<Self> {
        let writer = FrameWriter(Arc::new(Mutex::new(socket.try_clone()?)));
        Ok(Self { socket, writer, lines: Lines::default(), waiting: VecDeque::new() })
    }

    /// Takes over the socket that the bridge inherited.
    ///
    /// # Errors
    /// If there is none.
    pub fn inherited() -> io::Result<Self> {
        // It is descriptor 3 as well, which no safe code can name.
        let socket = io::stdin().as_fd().try_clone_to_owned()?;
        if FileType::from_raw_mode(fstat(&socket)?.st_mode) != FileType::Socket {
            return Err(io::Error::other(
                "standard input is no socket: Hearth starts this program, as `hearth bridge test` does",
            ));
        }
        Self::new(UnixStream::from(socket))
    }

    /// Waits for the first frame.
    ///
    /// # Errors
    /// If there is none.
    pub fn hello(&mut self) -> io::Result<Box<Hello>> {
        loop {
            self.read()?;
            if let Some(ToBridge::Hello { hello }) = self.frame() {
                return Ok(hello);
            }
        }
    }

    /// The next frame that was read.
    pub fn frame(&mut self) -> Option<ToBridge> {
        self.waiting.pop_front()
    }

    /// Reads what is there, or waits for something. Frames that this version does not know are skipped.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] when the daemon is gone.
    pub fn read(&mut self) -> io::Result<()> {
        let mut bytes = [0; 16 * 1024];
        let count = match self.socket.read(&mut bytes) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(error),
        };
        self.lines.push(bytes.get(..count).unwrap_or_default());
        while let Some(line) = self.lines.next_frame().map_err(io::Error::other)? {
            self.waiting.extend(ToBridge::read(&line));
        }
        Ok(())
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// If the daemon is gone.
    pub fn send(&mut self, frame: &FromBridge) -> io::Result<()> {
        self.writer.send(frame)
    }

    /// Sends frames from another thread.
    #[must_use]
    pub fn writer(&self) -> FrameWriter {
        self.writer.clone()
    }
}

/// Sends frames to the daemon, each as a whole.
#[derive(Debug, Clone)]
pub struct FrameWriter(Arc<Mutex<UnixStream>>);

impl FrameWriter {
    /// Sends a frame.
    ///
    /// # Errors
    /// If the daemon is gone.
    pub fn send(&self, frame: &FromBridge) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(&fit::line(frame))
    }
}

impl AsFd for Daemon {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The deliveries that the network has, by Hearth's id. Kept in a file, so that a repeat after a restart is answered and
/// not sent.
#[derive(Debug)]
pub struct Delivered {
    path: PathBuf,
    known: BTreeMap<String, String>,
    order: VecDeque<String>,
    file: File,
    lines: usize,
}

impl Delivered {
    /// Opens the memory in a directory.
    ///
    /// # Errors
    /// If its file cannot be read or written.
    pub fn open(directory: &Path) -> io::Result<Self> {
        let path = directory.join("delivered");
        let text = match std::fs::read(&path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        let file = File::options().create(true).append(true).open(&path)?;
        let mut memory = Self { path, known: BTreeMap::new(), order: VecDeque::new(), file, lines: 0 };
        // A line that a crash cut short has no end.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        for (id, message) in whole.lines().filter_map(|line| line.split_once('\t')) {
            memory.learn(id, message);
        }
        memory.rewrite()?;
        Ok(memory)
    }

    /// The network's id of a message that was delivered.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&str> {
        self.known.get(id).map(String::as_str)
    }

    /// Remembers a message. It is on disk afterwards.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn add(&mut self, id: &str, message: &str) -> io::Result<()> {
        if id.contains(['\t', '\n']) || message.contains(['\t', '\n']) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.learn(id, message);
        self.lines += 1;
        if self.lines > 2 * REMEMBERED {
            return self.rewrite();
        }
        self.file.write_all(format!("{id}\t{message}\n").as_bytes())?;
        self.file.sync_data()
    }

    fn learn(&mut self, id: &str, message: &str) {
        if self.known.insert(id.to_owned(), message.to_owned()).is_none() {
            self.order.push_back(id.to_owned());
        }
        while self.order.len() > REMEMBERED {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }

    fn rewrite(&mut self) -> io::Result<()> {
        let new = self.path.with_extension("new");
        let mut text = String::new();
        for id in &self.order {
            text.push_str(&format!("{id}\t{}\n", self.known.get(id).map_or("", String::as_str)));
        }
        let mut file = File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&new, &self.path)?;
        self.file = File::options().append(true).open(&self.path)?;
        self.lines = self.order.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deliveries_are_remembered_and_a_torn_line_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let mut memory = Delivered::open(directory.path()).unwrap();
        memory.add("mo1", "m1").unwrap();
        memory.add("mo2", "m2").unwrap();
        assert!(memory.add("mo\n3", "m").is_err());
        let path = directory.path().join("delivered");
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"mo3\tm").unwrap();
        let memory = Delivered::open(directory.path()).unwrap();
        assert_eq!((memory.get("mo1"), memory.get("mo2"), memory.get("mo3")), (Some("m1"), Some("m2"), None));
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let mut memory = Delivered::open(directory.path()).unwrap();
        (0..=REMEMBERED).for_each(|number| memory.learn(&format!("mo{number}"), "m"));
        assert_eq!((memory.get("mo0"), memory.get("mo1")), (None, Some("m")));
    }
}
