//! Setup's configuration: the file that a person reads and applies again, and the same change to the store.

use std::path::PathBuf;

use super::{Setup, secret};
use crate::cli::{Done, Failure, change, print};
use crate::config::Paths;
use crate::config::file::{self, write};
use crate::crash;
use crate::daemon::opening::Opening;
use crate::model::configure::Change;
use crate::socket::change::ChangeRequest;

/// The first line of a file that setup wrote.
const HEAD: &str = "# Written by `hearth setup`. After a change, `hearth apply` applies it.\n";

/// The file of the data directory.
pub(super) fn path(paths: &Paths) -> PathBuf {
    paths.data().join("hearth.toml")
}

/// The effect of a change on the file.
#[derive(Debug, PartialEq, Eq)]
enum Merged {
    /// The file already has the change.
    Same,
    /// The new text. Nothing else is lost.
    Ours(String),
    /// The new text. The old text has parts that would be lost, such as comments.
    Theirs(String),
    /// The file cannot be read as configuration.
    Bad(String),
}

fn merge(old: Option<&str>, change: &Change) -> Merged {
    let text = |changes: &[Change]| format!("{HEAD}{}", write::write(changes));
    let Some(old) = old else { return Merged::Ours(text(std::slice::from_ref(change))) };
    let mut changes = match file::parse("hearth.toml", old) {
        Ok(parsed) => parsed.changes,
        Err(bad) => return Merged::Bad(bad.to_string()),
    };
    if changes.contains(change) {
        return Merged::Same;
    }
    let ours = text(&changes) == old;
    match changes.iter_mut().find(|known| is_of_same(known, change)) {
        Some(known) => *known = change.clone(),
        None => changes.push(change.clone()),
    }
    if ours { Merged::Ours(text(&changes)) } else { Merged::Theirs(text(&changes)) }
}

/// Whether two changes concern the same entity.
fn is_of_same(one: &Change, other: &Change) -> bool {
    match (one, other) {
        (Change::PutAgent(one, _), Change::PutAgent(other, _)) => one == other,
        (Change::PutChannel(one), Change::PutChannel(other)) => one.name == other.name,
        (Change::PutSettings(_), Change::PutSettings(_)) | (Change::PutConsole(_), Change::PutConsole(_)) => true,
        _ => false,
    }
}

impl Setup<'_> {
    /// Makes a change, first in the file, then in the store. A change that the store would refuse changes neither. If
    /// the process ends in between, the next setup makes the change again.
    pub(super) fn put(&mut self, change: &Change) -> Done {
        let toml = write::write(std::slice::from_ref(change));
        let request = ChangeRequest { toml, from_file: true, dry_run: true, ..ChangeRequest::default() };
        let opening = Opening::or_new(self.args.new);
        change::submit_by(self.paths, &request, "setup", opening)?;
        self.write(change)?;
        change::submit_by(self.paths, &ChangeRequest { dry_run: false, ..request }, "setup", opening).map(drop)
    }

    fn write(&self, change: &Change) -> Done {
        let path = path(self.paths);
        let shown = path.display();
        let old = match std::fs::read_to_string(&path) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(Failure::Failed(format!("{shown} cannot be read: {error}"))),
        };
        let text = match merge(old.as_deref(), change) {
            Merged::Same => return Ok(()),
            Merged::Ours(text) => text,
            Merged::Bad(why) => {
                return Err(Failure::Failed(format!(
                    "{shown} is not a usable configuration: {why}\nCorrect it, or move it away"
                )));
            }
            Merged::Theirs(text) => {
                let kept = path.with_extension("toml.old");
                self.say(&format!(
                    "{shown} was written by hand: replacing it would lose its comments and formatting."
                ))?;
                let question = format!("Replace it, and keep the old one as {}?", kept.display());
                if !(self.args.yes || self.ask.is_person() && self.ask.yes(&question, false)?) {
                    let lines = write::write(std::slice::from_ref(change));
                    print::note(&format!("{shown} is not changed; to keep it complete, add:\n\n{lines}"));
                    return Ok(());
                }
                crash::point("setup-aside");
                std::fs::rename(&path, &kept)?;
                text
            }
        };
        self.paths.create()?;
        secret::write(&path, &text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::configure::RuntimeKind;
    use crate::model::configure::Settings;
    use crate::model::entity::{AgentSettings, Folder, ProviderKind};

    fn agent(provider: ProviderKind) -> Change {
        let settings = AgentSettings { provider, ..AgentSettings::named("main".to_owned()) };
        Change::PutAgent(Folder::new("main").unwrap(), settings)
    }

    #[test]
    fn what_setup_wrote_is_changed_and_what_a_person_wrote_is_not_lost() {
        let Merged::Ours(first) = merge(None, &agent(ProviderKind::Echo)) else { panic!() };
        assert!(first.starts_with(HEAD), "{first}");
        assert_eq!(merge(Some(&first), &agent(ProviderKind::Echo)), Merged::Same);
        let Merged::Ours(second) = merge(Some(&first), &agent(ProviderKind::Claude)) else { panic!() };
        assert!(second.contains("\"claude\"") && !second.contains("\"echo\""), "{second}");
        let settings = Settings { runtime: Some(RuntimeKind::Process), ..Settings::default() };
        let Merged::Ours(third) = merge(Some(&second), &Change::PutSettings(settings)) else { panic!() };
        assert!(third.contains("runtime = \"process\"") && third.contains("\"claude\""), "{third}");

        let by_hand = "schema = 1\n# mine\n[[agents]]\nfolder = \"main\"\n";
        let merged = merge(Some(by_hand), &agent(ProviderKind::Claude));
        assert!(matches!(merged, Merged::Theirs(text) if text.contains("claude")));
        assert!(matches!(merge(Some("schema = \n"), &agent(ProviderKind::Echo)), Merged::Bad(_)));
    }
}
