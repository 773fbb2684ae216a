//! The people on the network, played by a program of the bridge's author.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The program.
pub(super) struct Network(PathBuf);

impl Network {
    pub(super) fn of(program: &Path) -> Self {
        Self(program.to_owned())
    }

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
        for _ in 0..20 {
            let count = self.heard()?.matches(text).count();
            if count > 0 {
                return Ok(count);
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        Ok(0)
    }

    fn ask(&self, words: &[&str]) -> Result<String, String> {
        let failed = |why: String| format!("`{} {}`: {why}", self.0.display(), words.join(" "));
        let done = command(&self.0).args(words).output().map_err(|error| failed(error.to_string()))?;
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
