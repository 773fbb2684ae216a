//! Removes collected files: the host's files of a message first, then the agent's, so that no runner ever sees a
//! finished message without the ack that it wrote for it.

use std::ffi::{OsStr, OsString};

use hearth_wire::{ACK_DIR, FILES_DIR, InName, OUT_DIR};

use crate::model::effect::Discard;

use super::dir::{Dir, DirEntry, is_component};
use super::error::Error;
use super::layout::Mailbox;
use super::text;

/// Deletion steps per call; later calls do the rest.
const TRASH_STEPS: usize = 20_000;

/// Removes files. Idempotent. A file that cannot be removed does not stop the others.
pub(super) fn discard(mailbox: &Mailbox, discard: &Discard) -> Result<(), Error> {
    let mut first = Ok(());
    let mut note = |outcome: Result<(), Error>| {
        if first.is_ok() {
            first = outcome;
        }
    };
    let messages = mailbox.messages()?;
    let attachments = messages.dir(FILES_DIR)?;
    for &seq in &discard.seqs {
        note(mailbox.trash.take(&messages, OsStr::new(&InName { seq }.to_string())));
    }
    if let DirEntry::Found(attachments) = &attachments {
        for &seq in &discard.files {
            note(mailbox.trash.take(attachments, OsStr::new(&InName { seq }.files_dir())));
        }
    }
    for name in &discard.agent_files {
        note(remove_agent_file(mailbox, name));
    }
    note(mailbox.trash.empty(TRASH_STEPS).map(drop));
    first
}

/// A parsed name from a collection.
#[derive(Debug, PartialEq, Eq)]
enum CollectedName {
    /// One of the agent's own directories, which something else stood in for.
    StandIn(&'static str, &'static str),
    /// An entry of one of them.
    Entry(&'static str, OsString),
}

impl CollectedName {
    fn parse(name: &str) -> Option<Self> {
        match name {
            "ack" => return Some(Self::StandIn("", ACK_DIR)),
            "out" => return Some(Self::StandIn("", OUT_DIR)),
            "out/files" => return Some(Self::StandIn(OUT_DIR, FILES_DIR)),
            _ => {}
        }
        let (parent, name) = name.rsplit_once('/')?;
        let parent = [ACK_DIR, OUT_DIR, "out/files"].into_iter().find(|known| *known == parent)?;
        let name = text::unescape(name).filter(|name| is_component(name))?;
        Some(Self::Entry(parent, name))
    }
}

fn remove_agent_file(mailbox: &Mailbox, name: &str) -> Result<(), Error> {
    match CollectedName::parse(name) {
        None => Err(Error::BadName { name: text::reason(name) }),
        Some(CollectedName::Entry(parent, name)) => match mailbox.agent.dir(parent)? {
            DirEntry::Found(dir) => mailbox.trash.take(&dir, &name),
            // Its directory is gone or was replaced, and the file with it.
            DirEntry::Absent | DirEntry::Refused(_) => Ok(()),
        },
        Some(CollectedName::StandIn(parent, name)) => {
            let opened = if parent.is_empty() { None } else { Some(mailbox.agent.dir(parent)?) };
            let parent = match &opened {
                None => &mailbox.agent,
                Some(DirEntry::Found(dir)) => dir,
                Some(DirEntry::Absent | DirEntry::Refused(_)) => return Ok(()),
            };
            replace_stand_in(mailbox, parent, name)
        }
    }
}

/// Recreates a directory that the agent had replaced by something else. A real directory is left alone.
fn replace_stand_in(mailbox: &Mailbox, parent: &Dir, name: &str) -> Result<(), Error> {
    if let DirEntry::Refused(_) = parent.dir(name)? {
        mailbox.trash.take(parent, OsStr::new(name))?;
    }
    mailbox.offer_agent_dirs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_a_collection_gives_out_are_removed() {
        let entry = |parent, name: &str| Some(CollectedName::Entry(parent, OsString::from(name)));
        assert_eq!(CollectedName::parse("ack/4.1.completed.json"), entry("ack", "4.1.completed.json"));
        assert_eq!(CollectedName::parse("out/a.json"), entry("out", "a.json"));
        assert_eq!(CollectedName::parse("out/files/a"), entry("out/files", "a"));
        assert_eq!(CollectedName::parse("ack/a%2Fb%25"), None);
        assert_eq!(CollectedName::parse("out/files"), Some(CollectedName::StandIn("out", "files")));
        for name in [
            "",
            "/",
            "ack/",
            "ack/.",
            "ack/..",
            "out/../host",
            "out/files/..",
            "out/files/a/b",
            "/etc/passwd",
            "host",
            "../kept",
            "state.json",
            "ack//a",
            "ack/%2E%2E",
            "out/files/",
            "files/a",
            "ack/\0",
        ] {
            assert_eq!(CollectedName::parse(name), None, "{name:?}");
        }
    }
}
