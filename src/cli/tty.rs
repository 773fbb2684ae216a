//! The terminal's mode: restored after it was changed, and without echo while a secret is typed.

use std::io::{self, Read as _};

use super::{Failure, print};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// Restores the terminal's mode on drop.
pub(super) struct Restored(Termios);

impl Restored {
    /// Remembers the present mode of standard input.
    pub(super) fn now() -> io::Result<Self> {
        Ok(Self(tcgetattr(io::stdin())?))
    }

    /// Switches off the echo. Keys that end a process arrive as bytes, so that the mode is restored in any case.
    fn silence(&self) -> io::Result<()> {
        let mut silent = self.0.clone();
        silent.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        Ok(tcsetattr(io::stdin(), OptionalActions::Now, &silent)?)
    }
}

impl Drop for Restored {
    fn drop(&mut self) {
        if let Err(error) = tcsetattr(io::stdin(), OptionalActions::Now, &self.0) {
            tracing::debug!(%error, "cannot restore the terminal's mode");
        }
    }
}

/// Ctrl-C, Ctrl-D and Ctrl-Z in a terminal without signals.
const LEAVE: [u8; 3] = [3, 4, 26];
/// Backspace, in both of its forms.
const BACK: [u8; 2] = [8, 127];
/// Ctrl-U.
const CLEAR: u8 = 21;

/// Asks for a line without echo. None if the person leaves instead.
pub(super) fn read_hidden(question: &str, max: usize) -> Result<Option<Vec<u8>>, Failure> {
    let mode = Restored::now()?;
    // Before the question: nothing that is typed or pasted at once may be shown.
    mode.silence()?;
    print::question(question)?;
    let mut line = Vec::new();
    for byte in io::stdin().lock().bytes() {
        match byte? {
            b'\r' | b'\n' => return Ok(Some(line)),
            leave if LEAVE.contains(&leave) => return Ok(None),
            back if BACK.contains(&back) => drop(line.pop()),
            CLEAR => line.clear(),
            typed if line.len() < max => line.push(typed),
            _ => {}
        }
    }
    Ok(None)
}
