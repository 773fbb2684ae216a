//! Files to send, copied out of the agent's reach.
//!
//! They are copied, not moved: a moved file could still be written through a descriptor that the agent holds. The first
//! copy of an answer's files is the one that counts; a collection that is repeated after a crash finds it again.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};

use hearth_wire::{FILES_DIR, OUT_DIR, OutId, is_safe_file_name, limits};

use crate::model::content::Attachment;
use crate::model::id::SessionId;
use crate::model::mailbox::KeptFile;
use crate::model::time::Timestamp;

use super::blobs::Blobs;
use super::dir::{Dir, Look, fresh};
use super::error::Error;
use super::layout::Mailbox;
use super::text;

/// What became of the files of one answer.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Names for [`super::Mailboxes::kept`], and the same files in the store of files.
    pub(super) files: Vec<KeptFile>,
    /// Names that were left out, and why.
    pub(super) refused: Vec<(String, String)>,
}

/// Copies the files that an answer names. Unsafe, missing and odd ones are left out, as the answer stands without them.
pub(super) fn keep(
    mailbox: &Mailbox,
    blobs: &Blobs,
    (id, incarnation): (&OutId, u32),
    names: &[String],
) -> Result<Kept, Error> {
    let mut kept = Kept::default();
    if names.is_empty() {
        return Ok(kept);
    }
    let place = format!("{incarnation}.{id}");
    let names = wanted(names, &mut kept.refused);
    if let Look::Found(earlier) = mailbox.kept.dir(&place)? {
        for name in names {
            if earlier.has(OsStr::new(name))? {
                kept.files.push(kept_file(mailbox, blobs, (&earlier, &place), name)?);
            }
        }
        return Ok(kept);
    }
    let source = match mailbox.agent.dir(format!("{OUT_DIR}/{FILES_DIR}/{id}"))? {
        Look::Found(source) => source,
        Look::Absent => return Ok(refuse_all(kept, names, "it is not there")),
        Look::Refused(reason) => return Ok(refuse_all(kept, names, &reason)),
    };
    let temporary = hearth_wire::temporary_name(&place, fresh());
    let target = mailbox.kept.ensure_dir(&temporary, 0o700)?;
    match copy_all(&source, &target, names, &mut kept.refused) {
        Ok(copied) if copied.is_empty() => mailbox.trash.take(&mailbox.kept, OsStr::new(&temporary))?,
        Ok(copied) => {
            target.sync()?;
            mailbox.kept.rename(OsStr::new(&temporary), &mailbox.kept, OsStr::new(&place))?;
            mailbox.kept.sync()?;
            for name in copied {
                kept.files.push(kept_file(mailbox, blobs, (&target, &place), name)?);
            }
        }
        Err(error) => {
            // The first error is the one to report; the temporary directory goes with the incarnation.
            mailbox.trash.take(&mailbox.kept, OsStr::new(&temporary)).ok();
            return Err(error);
        }
    }
    Ok(kept)
}

/// The files of one answer, kept to be sent.
#[derive(Debug)]
pub struct KeptFiles {
    /// The agent's id of the answer.
    pub wire_id: String,
    /// Since when they are kept.
    pub since: Timestamp,
    /// Names for [`super::Mailboxes::release`].
    pub files: Vec<String>,
}

/// All that is kept of a session.
pub(super) fn list(session: SessionId, kept: &Dir) -> Result<Vec<KeptFiles>, Error> {
    let mut all = Vec::new();
    for place in kept.list(super::collect::ENTRIES)?.names {
        let since = kept.modified(&place)?;
        let Some(place) = place.to_str().filter(|place| !hearth_wire::is_temporary(place)) else { continue };
        let (Some((_, wire_id)), Some(since)) = (place.split_once('.'), since) else { continue };
        let Look::Found(dir) = kept.dir(place)? else { continue };
        let names = dir.list(limits::FILES_PER_MESSAGE)?.names;
        let names = names.iter().filter_map(|name| name.to_str()).filter(|name| is_safe_file_name(name));
        let files = names.map(|name| full_name(session, place, name)).collect();
        all.push(KeptFiles { wire_id: wire_id.to_owned(), since, files });
    }
    Ok(all)
}

/// Removes what a crash left half copied. Only while nothing else works on this mailbox.
pub(super) fn clean(mailbox: &Mailbox) -> Result<(), Error> {
    for name in mailbox.kept.list(super::collect::ENTRIES)?.names {
        if name.to_str().is_some_and(hearth_wire::is_temporary) {
            mailbox.trash.take(&mailbox.kept, &name)?;
        }
    }
    Ok(())
}

fn wanted<'a>(names: &'a [String], refused: &mut Vec<(String, String)>) -> Vec<&'a str> {
    let mut seen = BTreeSet::new();
    let mut wanted = Vec::new();
    for name in names.iter().take(limits::FILES_PER_MESSAGE) {
        if !is_safe_file_name(name) {
            refused.push((
                text::escape(OsStr::new(&text::cut(name, limits::NAME_BYTES))),
                "it is not a safe name".to_owned(),
            ));
        } else if seen.insert(name) {
            wanted.push(name.as_str());
        }
    }
    if names.len() > limits::FILES_PER_MESSAGE {
        let reason = format!("{} files are named, {} are sent with one answer", names.len(), limits::FILES_PER_MESSAGE);
        refused.push((String::new(), reason));
    }
    wanted
}

fn refuse_all(mut kept: Kept, names: Vec<&str>, reason: &str) -> Kept {
    kept.refused.extend(names.into_iter().map(|name| (text::escape(OsStr::new(name)), reason.to_owned())));
    kept
}

fn copy_all<'a>(
    source: &Dir,
    target: &Dir,
    names: Vec<&'a str>,
    refused: &mut Vec<(String, String)>,
) -> Result<Vec<&'a str>, Error> {
    let mut copied = Vec::new();
    for name in names {
        let reason = match source.file(OsStr::new(name), limits::FILE_BYTES)? {
            Look::Found((file, _)) => match copy(&file, target, name)? {
                None => {
                    copied.push(name);
                    continue;
                }
                Some(reason) => reason,
            },
            Look::Absent => "it is not there".to_owned(),
            Look::Refused(reason) => reason,
        };
        refused.push((text::escape(OsStr::new(name)), reason));
    }
    Ok(copied)
}

/// Copies one file; a reason if it grew over the bound meanwhile.
fn copy(file: &File, target: &Dir, name: &str) -> Result<Option<String>, Error> {
    let fault = |e: io::Error| Error::io("copy to", &target.path().join(name), e);
    let mut copy = target.create(OsStr::new(name), 0o600)?;
    crate::crash::point("kept-write");
    let bytes = io::copy(&mut file.take(limits::FILE_BYTES + 1), &mut copy).map_err(fault)?;
    if bytes > limits::FILE_BYTES {
        target.remove(OsStr::new(name))?;
        return Ok(Some(format!("it grew over {} bytes while it was copied", limits::FILE_BYTES)));
    }
    copy.sync_all().map_err(fault)?;
    Ok(None)
}

/// Puts a kept file into the store of files as well: whether its message goes to another agent is not known here. What
/// no message refers to then does not stay there.
fn kept_file(mailbox: &Mailbox, blobs: &Blobs, (dir, place): (&Dir, &str), name: &str) -> Result<KeptFile, Error> {
    let path = dir.path().join(name);
    let (blob, size) = match dir.file(OsStr::new(name), limits::FILE_BYTES)? {
        Look::Found((file, _)) => blobs.put_file(file, &path).map(|(blob, size)| (Ok(blob), size))?,
        Look::Absent => (Err("it is not there".to_owned()), 0),
        Look::Refused(reason) => (Err(reason), 0),
    };
    Ok(KeptFile {
        kept: full_name(mailbox.session, place, name),
        attachment: Attachment { name: name.to_owned(), size, mime: None, blob },
    })
}

/// What a file kept to be sent is called outside of this folder.
pub(super) fn full_name(session: SessionId, place: &str, name: &str) -> String {
    format!("{session}/{}/{place}/{name}", super::layout::KEPT_DIR)
}
