//! Emoji that the owner compares: the bridge writes them into a file of its directory, and `hearth-matrix verify`, which
//! the owner runs on the machine, writes the answer into another one.

use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use hearth_bridge::program::now;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What the bridge asks.
const ASKED: &str = "comparison";
/// What the owner says.
const ANSWERED: &str = "comparison-answer";
/// Longest file that is read, in bytes.
const BYTES_MAX: u64 = 16 << 10;
/// How often the other side's file is looked at.
pub(crate) const LOOK: Duration = Duration::from_millis(300);
/// How long the result is waited for: the other side has to confirm, too.
const RESULT: Duration = Duration::from_secs(75);

/// One of the seven.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shown {
    pub(crate) symbol: String,
    /// Its English name, as the specification has it.
    pub(crate) name: String,
}

/// A comparison, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Comparison {
    /// Random, so that no answer counts for another comparison.
    pub(crate) id: String,
    pub(crate) who: String,
    pub(crate) device: String,
    pub(crate) emoji: Vec<Shown>,
    pub(crate) result: Option<String>,
}

/// What the owner says.
#[derive(Debug, Serialize, Deserialize)]
struct Answer {
    id: String,
    is_same: bool,
}

/// The two files.
#[derive(Debug, Clone)]
pub(crate) struct Desk(pub(crate) PathBuf);

impl Desk {
    fn read<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let file = File::open(self.0.join(name)).ok()?;
        serde_json::from_reader(io::Read::take(file, BYTES_MAX)).ok()
    }

    fn write<T: Serialize>(&self, name: &str, value: &T) -> io::Result<()> {
        let (path, new) = (self.0.join(name), self.0.join(format!("{name}.new")));
        // The bridge may be another user than the owner, who may be root: a link of the bridge is not followed.
        drop(std::fs::remove_file(&new));
        let mut file = File::create_new(&new)?;
        file.write_all(&serde_json::to_vec(value)?)?;
        file.set_permissions(Permissions::from_mode(0o644))?;
        std::fs::rename(new, path)
    }

    /// Asks the owner.
    pub(crate) fn ask(&self, comparison: &Comparison) -> io::Result<()> {
        self.write(ASKED, comparison)
    }

    pub(crate) fn asked(&self) -> Option<Comparison> {
        self.read(ASKED)
    }

    /// Nothing is asked any more.
    pub(crate) fn clear(&self) {
        for name in [ASKED, ANSWERED] {
            drop(std::fs::remove_file(self.0.join(name)));
        }
    }

    /// What the owner says about a comparison.
    pub(crate) fn answer(&self, id: &str) -> Option<bool> {
        self.read::<Answer>(ANSWERED).filter(|answer| answer.id == id).map(|answer| answer.is_same)
    }
}

/// `hearth-matrix verify`: shows the emoji of a verification, and asks whether they are the same.
///
/// # Errors
/// Faults of this machine, and a verification that failed.
pub fn verify(directory: &Path) -> io::Result<()> {
    if !directory.join("device").is_file() {
        return Err(io::Error::other(format!(
            "{} is not the state directory of this bridge; it is `bridges/CHANNEL/state` in Hearth's data directory",
            directory.display()
        )));
    }
    let desk = Desk(directory.to_owned());
    let open = || desk.asked().filter(|asked| asked.result.is_none());
    if open().is_none() {
        say("Start the verification in your client now: in the profile of the bot, by comparing emoji.\n")?;
    }
    let asked = loop {
        match open() {
            Some(asked) => break asked,
            None => sleep(LOOK),
        }
    };
    say(&format!("\n{} compares emoji on the device {}:\n\n", plain(&asked.who), plain(&asked.device)))?;
    for shown in &asked.emoji {
        say(&format!("    {}  {}\n", shown.symbol, shown.name))?;
    }
    say("\nDoes that device show the same seven, in this order? yes or no: ")?;
    let is_same = loop {
        let mut line = String::new();
        if io::stdin().read_line(&mut line)? == 0 {
            return Err(io::Error::other("nothing was answered, so nothing is verified"));
        }
        match line.trim() {
            "yes" => break true,
            "no" => break false,
            _ => say("Please write yes or no: ")?,
        }
    };
    desk.write(ANSWERED, &Answer { id: asked.id.clone(), is_same })?;
    let until = now() + RESULT;
    while now() < until {
        match desk.asked().filter(|found| found.id == asked.id) {
            Some(Comparison { result: Some(result), .. }) if result == VERIFIED => {
                return say(&format!("{} is verified.\n", plain(&asked.who)));
            }
            Some(Comparison { result: Some(result), .. }) => {
                return Err(io::Error::other(format!("not verified: {result}")));
            }
            Some(_) => sleep(LOOK),
            None => break,
        }
    }
    Err(io::Error::other("not verified: the bridge does not say how it ended; look into its log"))
}

/// The result of a comparison that succeeded.
pub(crate) const VERIFIED: &str = "verified";

fn say(text: &str) -> io::Result<()> {
    let mut out = io::stdout();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// A text of others without what could control a terminal.
fn plain(text: &str) -> String {
    text.chars().filter(|char| !char.is_control()).take(255).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_for_one_comparison() {
        let directory = tempfile::tempdir().unwrap();
        let desk = Desk(directory.path().to_owned());
        assert_eq!(desk.answer("a"), None);
        desk.write(ANSWERED, &Answer { id: "a".to_owned(), is_same: true }).unwrap();
        assert_eq!((desk.answer("a"), desk.answer("b")), (Some(true), None));
        let other = directory.path().join("other");
        std::fs::write(&other, "of the owner").unwrap();
        std::os::unix::fs::symlink(&other, directory.path().join("comparison-answer.new")).unwrap();
        desk.write(ANSWERED, &Answer { id: "a".to_owned(), is_same: true }).unwrap();
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "of the owner", "a link is not followed");
        desk.clear();
        assert_eq!(desk.answer("a"), None);
        assert!(verify(directory.path()).is_err(), "it is no directory of a bridge");
    }
}
