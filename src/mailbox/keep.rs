//! Copies files to send out of the agent's reach.
//!
//! They are copied, not moved: a moved file could still be written through a descriptor that the agent holds. The first
//! copy of an answer's files is the one that counts; a collection that is repeated after a crash finds it again.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};

use hearth_wire::{FILES_DIR, OUT_DIR, OutId, is_safe_file_name, limits};

use crate::model::content::Attachment;
use crate::model::id::{OutboundId, SessionId};
use crate::model::mailbox::{HiddenFile, KeptFile};
use crate::model::secrets::Secrets;
use crate::model::time::Timestamp;

use super::blobs::Blobs;
use super::dir::{Dir, DirEntry, fresh};
use super::error::Error;
use super::layout::Mailbox;
use super::text;

/// The kept and refused files of one answer.
#[derive(Debug, Default)]
pub(super) struct OutgoingFiles {
    /// Names for [`super::Mailboxes::kept`], and the same files in the store of files.
    pub(super) files: Vec<KeptFile>,
    /// Refused names, with reasons.
    pub(super) refused: Vec<(String, String)>,
    /// The refused files that contain the value of a secret.
    pub(super) hidden: Vec<HiddenFile>,
}

/// Copies the files that an answer names. Unsafe, missing and irregular ones are refused; the answer stands without
/// them.
pub(super) fn keep(
    mailbox: &Mailbox,
    blobs: &Blobs,
    secrets: &Secrets,
    id: &OutId,
    incarnation: u32,
    names: &[String],
) -> Result<OutgoingFiles, Error> {
    let mut kept = OutgoingFiles::default();
    if names.is_empty() {
        return Ok(kept);
    }
    let place = format!("{incarnation}.{id}");
    let names = wanted(names, &mut kept.refused);
    if let DirEntry::Found(earlier) = mailbox.kept.dir(&place)? {
        for name in names {
            if earlier.has(OsStr::new(name))? {
                kept.files.push(kept_file(mailbox, blobs, &earlier, &place, name)?);
            }
        }
        return Ok(kept);
    }
    let source = match mailbox.agent.dir(format!("{OUT_DIR}/{FILES_DIR}/{id}"))? {
        DirEntry::Found(source) => source,
        DirEntry::Absent => return Ok(refuse_all(kept, names, "it is not there")),
        DirEntry::Refused(reason) => return Ok(refuse_all(kept, names, &reason)),
    };
    let temporary = hearth_wire::temporary_name(&place, fresh());
    let target = mailbox.kept.ensure_dir(&temporary, 0o700)?;
    match copy_all(&source, &target, names, secrets, &mut kept) {
        Ok(copied) if copied.is_empty() => mailbox.trash.take(&mailbox.kept, OsStr::new(&temporary))?,
        Ok(copied) => {
            target.sync()?;
            mailbox.kept.rename(OsStr::new(&temporary), &mailbox.kept, OsStr::new(&place))?;
            mailbox.kept.sync()?;
            for name in copied {
                kept.files.push(kept_file(mailbox, blobs, &target, &place, name)?);
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

/// All kept files of a session.
pub(super) fn list(session: SessionId, kept: &Dir) -> Result<Vec<KeptFiles>, Error> {
    let mut all = Vec::new();
    for place in kept.list(super::collect::ENTRIES)?.names {
        let since = kept.modified(&place)?;
        let Some(place) = place.to_str().filter(|place| !hearth_wire::is_temporary(place)) else { continue };
        let (Some((_, wire_id)), Some(since)) = (place.split_once('.'), since) else { continue };
        let DirEntry::Found(dir) = kept.dir(place)? else { continue };
        let names = dir.list(limits::FILES_PER_MESSAGE)?.names;
        let names = names.iter().filter_map(|name| name.to_str()).filter(|name| is_safe_file_name(name));
        let files = names.map(|name| full_name(session, place, name)).collect();
        all.push(KeptFiles { wire_id: wire_id.to_owned(), since, files });
    }
    Ok(all)
}

/// Begins the names of directories of spoken answers, in place of an incarnation.
const SPOKEN: &str = "spoken";

/// Keeps the audio of an answer beside the files that the agent sends, and replaces what an earlier try left. Returns its
/// name for [`super::Mailboxes::kept`].
pub(super) fn audio(mailbox: &Mailbox, answer: OutboundId, name: &str, bytes: &[u8]) -> Result<String, Error> {
    let place = format!("{SPOKEN}.{answer}");
    if mailbox.kept.has(OsStr::new(&place))? {
        mailbox.trash.take(&mailbox.kept, OsStr::new(&place))?;
    }
    let target = mailbox.kept.ensure_dir(&place, 0o700)?;
    target.write(name, bytes, 0o600)?;
    target.sync()?;
    mailbox.kept.sync()?;
    Ok(full_name(mailbox.session, &place, name))
}

/// Removes incomplete copies after a crash. Only while nothing else works on this mailbox.
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

fn refuse_all(mut kept: OutgoingFiles, names: Vec<&str>, reason: &str) -> OutgoingFiles {
    kept.refused.extend(names.into_iter().map(|name| (text::escape(OsStr::new(name)), reason.to_owned())));
    kept
}

fn copy_all<'a>(
    source: &Dir,
    target: &Dir,
    names: Vec<&'a str>,
    secrets: &Secrets,
    kept: &mut OutgoingFiles,
) -> Result<Vec<&'a str>, Error> {
    let mut copied = Vec::new();
    for name in names {
        let reason = match source.file(OsStr::new(name), limits::FILE_BYTES)? {
            DirEntry::Found((file, _)) => match copy(&file, target, name, secrets)? {
                Copied::Whole => {
                    copied.push(name);
                    continue;
                }
                Copied::TooLong => format!("it grew over {} bytes while it was copied", limits::FILE_BYTES),
                Copied::Secret(secret) => {
                    kept.hidden.push(HiddenFile { file: name.to_owned(), name: secret.clone() });
                    format!("it contains the value of {secret}")
                }
            },
            DirEntry::Absent => "it is not there".to_owned(),
            DirEntry::Refused(reason) => reason,
        };
        kept.refused.push((text::escape(OsStr::new(name)), reason));
    }
    Ok(copied)
}

/// Result of copying one file.
enum Copied {
    Whole,
    /// It grew beyond the limit meanwhile.
    TooLong,
    /// The value of this secret is in it.
    Secret(String),
}

/// Copies one file, unless it may not be sent; then nothing is left of the copy.
fn copy(file: &File, target: &Dir, name: &str, secrets: &Secrets) -> Result<Copied, Error> {
    let fault = |e: io::Error| Error::io("copy to", &target.path().join(name), e);
    let mut copy = target.create(OsStr::new(name), 0o600)?;
    crate::crash::point("kept-write");
    let mut scan = Scan { to: &mut copy, secrets, tail: Vec::new(), found: None };
    let bytes = io::copy(&mut file.take(limits::FILE_BYTES + 1), &mut scan).map_err(fault)?;
    let copied = match scan.found {
        Some(secret) => Copied::Secret(secret),
        None if bytes > limits::FILE_BYTES => Copied::TooLong,
        None => {
            copy.sync_all().map_err(fault)?;
            return Ok(Copied::Whole);
        }
    };
    target.remove(OsStr::new(name))?;
    Ok(copied)
}

/// Searches the written data for secrets, including values that span two pieces.
struct Scan<'a> {
    to: &'a mut File,
    secrets: &'a Secrets,
    /// The tail of the written data: one byte less than the longest value.
    tail: Vec<u8>,
    found: Option<String>,
}

impl io::Write for Scan<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.found.is_none() && !self.secrets.is_empty() {
            self.tail.extend_from_slice(bytes);
            self.found = self.secrets.find(&self.tail).map(str::to_owned);
            let keep = self.secrets.longest().saturating_sub(1);
            self.tail.drain(..self.tail.len().saturating_sub(keep));
        }
        if self.found.is_none() {
            self.to.write_all(bytes)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Also puts a kept file into the store of files, because its message may go to another agent. A file that no message
/// refers to does not stay there.
fn kept_file(mailbox: &Mailbox, blobs: &Blobs, dir: &Dir, place: &str, name: &str) -> Result<KeptFile, Error> {
    let path = dir.path().join(name);
    let (blob, size) = match dir.file(OsStr::new(name), limits::FILE_BYTES)? {
        DirEntry::Found((file, _)) => blobs.put_file(file, &path).map(|(blob, size)| (Ok(blob), size))?,
        DirEntry::Absent => (Err("it is not there".to_owned()), 0),
        DirEntry::Refused(reason) => (Err(reason), 0),
    };
    Ok(KeptFile {
        kept: full_name(mailbox.session, place, name),
        attachment: Attachment { name: name.to_owned(), size, mime: None, blob: blob.into() },
    })
}

/// The name of a kept file outside of this module.
pub(super) fn full_name(session: SessionId, place: &str, name: &str) -> String {
    format!("{session}/{}/{place}/{name}", super::layout::KEPT_DIR)
}
