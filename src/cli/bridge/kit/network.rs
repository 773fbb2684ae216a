//! The people on the network, played by a program of the bridge's author.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use serde::Deserialize;

use super::Stop;
use crate::clock::Stopwatch;

/// Pause between two looks at what the bot sent.
const LOOK: Duration = Duration::from_millis(100);

pub(super) struct Network {
    program: PathBuf,
    /// How long what the bot sent may be on its way.
    patience: Duration,
    /// What the program says that it can do.
    known: OnceLock<String>,
}

/// A file that people got.
#[derive(Debug, Deserialize)]
pub(super) struct Got {
    pub(super) name: String,
    /// Its bytes, in hexadecimal.
    pub(super) hex: String,
}

impl Network {
    pub(super) const fn new(program: PathBuf, patience: Duration) -> Self {
        Self { program, patience, known: OnceLock::new() }
    }

    /// A person writes to the bot.
    pub(super) fn say(&self, text: &str) -> Result<(), Stop> {
        self.act(&["say", text]).map(drop)
    }

    /// Everything that the bot sent.
    pub(super) fn heard(&self) -> Result<String, String> {
        self.ask(&["heard"])
    }

    /// How often the bot sent a text, as soon as it is there at all.
    pub(super) fn count(&self, text: &str) -> Result<usize, String> {
        let count = |this: &Self| Ok(Some(this.heard()?.matches(text).count()).filter(|count| *count > 0));
        Ok(self.soon(count)?.unwrap_or_default())
    }

    /// The file with a name that the bot sent, as soon as it is there.
    pub(super) fn file(&self, name: &str) -> Result<Option<Got>, Stop> {
        self.can("files")?;
        Ok(self.soon(|this| {
            let files = this.ask(&["files"])?;
            let mut files = files.lines().map(serde_json::from_str::<Got>);
            let bad = |error| format!("`files`: a line is no file: {error}");
            files
                .try_fold(None, |found, file| file.map(|file| (file.name == name).then_some(file).or(found)))
                .map_err(bad)
        })?)
    }

    /// What a word prints, as soon as a text is in it.
    pub(super) fn shows(&self, word: &str, text: &str) -> Result<Option<String>, Stop> {
        self.can(word)?;
        Ok(self.soon(|this| Ok(Some(this.ask(&[word])?).filter(|printed| printed.contains(text))))?)
    }

    /// What a look finds, as soon as it finds something.
    fn soon<T>(&self, look: impl Fn(&Self) -> Result<Option<T>, String>) -> Result<Option<T>, String> {
        let watch = Stopwatch::start();
        loop {
            let found = look(self)?;
            if found.is_some() || watch.elapsed() >= self.patience {
                return Ok(found);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Does something that not every network can, and returns what the program says.
    pub(super) fn act(&self, words: &[&str]) -> Result<String, Stop> {
        self.can(words.first().copied().unwrap_or_default())?;
        Ok(self.ask(words)?.trim_end().to_owned())
    }

    /// Stops the case if the program says why it does not apply.
    pub(super) fn objects(&self, word: &str) -> Result<(), Stop> {
        let known = self.known();
        let why = known.lines().filter_map(|line| line.split_once(": ")).find(|(about, _)| *about == word);
        why.map_or(Ok(()), |(_, why)| Err(Stop::NotTried(why.to_owned())))
    }

    fn known(&self) -> &str {
        self.known.get_or_init(|| self.ask(&["can"]).unwrap_or_default())
    }

    /// Stops the case, with the reason, if the program cannot do something.
    pub(super) fn can(&self, verb: &str) -> Result<(), Stop> {
        let known = self.known();
        let of = |line: &str| line.split(':').next().is_some_and(|word| word == verb);
        match known.lines().find(|line| of(line)).map(|line| line.split_once(": ")) {
            Some(None) => Ok(()),
            Some(Some((_, why))) => Err(Stop::NotTried(why.to_owned())),
            // All can do this, also those that do not know the word `can`.
            None if ["say", "heard"].contains(&verb) => Ok(()),
            None => Err(Stop::NotTried(format!("the people do not know `{verb}`"))),
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
