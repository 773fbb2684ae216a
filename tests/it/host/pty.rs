//! A program at a terminal, and a person who reads what it shows before typing.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::{wait_for, wait_for_or};

/// A program at a terminal of 100 columns. It is killed when this is dropped.
pub(crate) struct Pty {
    child: Child,
    /// Its window; none once it was closed. The reading thread does not keep it open.
    master: Option<Arc<File>>,
    shown: Arc<Mutex<Vec<u8>>>,
    /// How much of its output was already waited for.
    read: usize,
}

impl Pty {
    pub(crate) fn start(mut command: Command) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let slave = || std::fs::OpenOptions::new().read(true).write(true).open(&name).unwrap();
        tcsetwinsize(&master, Winsize { ws_row: 24, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let child = command.stdin(slave()).stdout(slave()).stderr(slave()).spawn().unwrap();
        // The command holds the other end of the terminal, which closes with the program.
        drop(command);
        fcntl_setfl(&master, OFlags::NONBLOCK).unwrap();
        let master = Arc::new(File::from(master));
        let shown: Arc<Mutex<Vec<u8>>> = Arc::default();
        let (reader, gathered) = (Arc::downgrade(&master), Arc::clone(&shown));
        std::thread::spawn(move || {
            let mut bytes = [0; 4_096];
            while let Some(master) = reader.upgrade() {
                match (&*master).read(&mut bytes) {
                    Ok(count @ 1..) => gathered.lock().unwrap().extend(&bytes[..count]),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        drop(master);
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    _ => return,
                }
            }
        });
        Self { child, master: Some(master), shown, read: 0 }
    }

    /// Everything that was shown.
    pub(crate) fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).replace('\r', "")
    }

    /// Waits for a text after the last one that was waited for.
    pub(crate) fn wait(&mut self, text: &str) {
        let from = self.read;
        let shown = || self.shown();
        let mut find = || shown().get(from..).and_then(|new| new.find(text)).map(|at| from + at + text.len());
        self.read = wait_for_or(&format!("{text:?} on the terminal"), &mut find, shown);
    }

    /// Waits for a question and types a line.
    pub(crate) fn answer(&mut self, question: &str, line: &str) {
        self.wait(question);
        self.type_keys(&format!("{line}\r"));
    }

    pub(crate) fn type_keys(&mut self, keys: &str) {
        let mut master = self.master.as_deref().unwrap();
        master.write_all(keys.as_bytes()).unwrap();
    }

    /// Closes the terminal's window and waits for the end of the program.
    pub(crate) fn hang_up(mut self) -> ExitStatus {
        self.master = None;
        wait_for("the program to end", || self.child.try_wait().unwrap())
    }

    /// Kills the program at once.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for the end of the program. Returns what it showed.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        let shown = Arc::clone(&self.shown);
        let words = || String::from_utf8_lossy(&shown.lock().unwrap()).into_owned();
        let ended = wait_for_or("the program to end", &mut || self.child.try_wait().unwrap(), words);
        // The reading thread ends with the last bytes.
        wait_for("the last bytes", || (Arc::strong_count(&self.shown) == 2).then_some(()));
        (ended, self.shown())
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        // In most cases it has already ended.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
