//! The people on the network, played by a program of the bridge's author.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::clock::Stopwatch;

/// Pause between two looks at what the bot sent.
const LOOK: Duration = Duration::from_millis(100);

/// The people.
pub(super) struct Network {
    pub(super) program: PathBuf,
    /// How long what the bot sent may be on its way.
    pub(super) patience: Duration,
}

impl Network {
    /// A person writes to the bot.
    pub(super) fn say(&self, text: &str) -> Result<(), String> {
        self.ask(&["say", text]).map(drop)
    }

    /// Everything that the bot sent.
    pub(super) fn heard(&self) -> Result<String, String> {
        self.ask(&["heard"])
    }

    /// How often the bot sent a text, as soon as it is there at all.
    pub(super) fn count(&self, text: &str) -> Result<usize, String> {
        let watch = Stopwatch::start();
        loop {
            let count = self.heard()?.matches(text).count();
            if count > 0 || watch.elapsed() >= self.patience {
                return Ok(count);
            }
            std::thread::sleep(LOOK);
        }
    }

    fn ask(&self, words: &[&str]) -> Result<String, String> {
        let failed = |why: String| format!("`{} {}`: {why}", self.program.display(), words.join(" "));
        let done = command(&self.program).args(words).output().map_err(|error| failed(error.to_string()))?;
        if !done.status.success() {
            return Err(failed(done.status.to_string()));
        }
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    }
}

#[expect(clippy::disallowed_methods, reason = "a test's program, whose end is waited for")]
fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stderr(Stdio::inherit());
    command
}
