//! Attachments in the host's half of a mailbox: `in/files/<seq>/<name>`, there before the message that names them, and
//! as long as the store promises them.
//!
//! They are copies (where the file system can, copies that share their blocks). With a hard link to the file in the
//! store of files, a process that may write here could change what other sessions see. A directory gets its name when
//! everything in it is on disk, so a directory with that name is complete.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use hearth_wire::{FILES_DIR, HOST_DIR, IN_DIR, InName, is_safe_file_name, is_temporary, temporary_name};
use serde_json::{Map, Value};

use crate::model::content::Attachment;
use crate::model::effect::{ExportedFiles, ExportedMessage};

use super::blobs::Blobs;
use super::collect::ENTRIES;
use super::dir::{Dir, DirEntry, copy, fresh};
use super::error::Error;
use super::layout::{Mailbox, SHARED};

/// Mode of the host's files: their reader may be another user inside a container.
const READABLE: u32 = 0o644;

/// Deletion steps per call; later calls do the rest.
const TRASH_STEPS: usize = 20_000;

/// Result of writing an attachment: its file exists, or the reason why not.
pub(super) type Fate = Result<(), String>;

/// Writes the attachments of a message whose own file does not exist yet. Leftovers of an earlier try are rewritten.
pub(super) fn write(
    mailbox: &Mailbox,
    blobs: &Blobs,
    messages: &Dir,
    message: &ExportedMessage,
) -> Result<Vec<Fate>, Error> {
    if message.attachments.is_empty() {
        return Ok(Vec::new());
    }
    let files = messages.ensure_dir(FILES_DIR, SHARED)?;
    write_dir(mailbox, blobs, &files, &InName { seq: message.seq }.files_dir(), &message.attachments)
}

/// Writes files of ended messages that the mailbox lacks.
pub(super) fn restore(mailbox: &Mailbox, blobs: &Blobs, messages: &Dir, kept: &[ExportedFiles]) -> Result<(), Error> {
    if kept.is_empty() {
        return Ok(());
    }
    let files = messages.ensure_dir(FILES_DIR, SHARED)?;
    for ExportedFiles { seq, attachments } in kept {
        let name = InName { seq: *seq }.files_dir();
        // Anything else with this name is replaced.
        if !matches!(files.dir(&name)?, DirEntry::Found(_)) {
            write_dir(mailbox, blobs, &files, &name, attachments)?;
        }
    }
    Ok(())
}

/// Removes the files of messages for which `needed` says no, and partial ones. Nothing may be written meanwhile.
pub(super) fn remove_unneeded<E: From<Error>>(
    mailbox: &Mailbox,
    mut needed: impl FnMut(u64) -> Result<bool, E>,
) -> Result<u64, E> {
    let DirEntry::Found(files) = mailbox.messages()?.dir(FILES_DIR)? else { return Ok(0) };
    let mut removed = 0;
    for name in files.list(ENTRIES)?.names {
        let of_message = name.to_str().and_then(|name| InName::parse(&format!("{name}.json")));
        let stays = match of_message {
            Some(message) => needed(message.seq)?,
            None => !name.to_str().is_some_and(is_temporary),
        };
        if !stays {
            mailbox.trash.take(&files, &name)?;
            removed += 1;
        }
    }
    if removed > 0 {
        mailbox.trash.empty(TRASH_STEPS)?;
    }
    Ok(removed)
}

fn write_dir(
    mailbox: &Mailbox,
    blobs: &Blobs,
    files: &Dir,
    name: &str,
    attachments: &[Attachment],
) -> Result<Vec<Fate>, Error> {
    mailbox.trash.take(files, OsStr::new(name))?;
    let temporary = temporary_name(name, fresh());
    let target = files.ensure_dir(&temporary, SHARED)?;
    let done = write_all(blobs, &target, attachments).and_then(|fates| {
        target.sync()?;
        files.rename(OsStr::new(&temporary), files, OsStr::new(name))?;
        files.sync()?;
        Ok(fates)
    });
    if done.is_err() {
        // The first error is the one to report; what stays is removed when the next incarnation is made ready.
        mailbox.trash.take(files, OsStr::new(&temporary)).ok();
    }
    done
}

fn write_all(blobs: &Blobs, target: &Dir, attachments: &[Attachment]) -> Result<Vec<Fate>, Error> {
    let mut seen = BTreeSet::new();
    let mut fates = Vec::with_capacity(attachments.len());
    for attachment in attachments {
        fates.push(if !is_safe_file_name(&attachment.name) {
            Err("its name is not a safe name".to_owned())
        } else if !seen.insert(attachment.name.as_str()) {
            Err("another file of the message has its name".to_owned())
        } else {
            write_one(blobs, target, attachment)?
        });
    }
    Ok(fates)
}

fn write_one(blobs: &Blobs, target: &Dir, attachment: &Attachment) -> Result<Fate, Error> {
    let blob = match attachment.blob.get() {
        Ok(blob) => blob,
        Err(reason) => return Ok(Err(reason.to_owned())),
    };
    let file = match blobs.read(blob) {
        Ok(Some((file, size))) if size == attachment.size => file,
        Ok(Some(_)) => return Ok(Err("its file was changed".to_owned())),
        Ok(None) => return Ok(Err("its file is not kept any more".to_owned())),
        Err(Error::Unusable { reason, .. }) => return Ok(Err(format!("its file cannot be used: {reason}"))),
        Err(error) => return Err(error),
    };
    let name = OsStr::new(&attachment.name);
    let mut written = target.create(name, READABLE)?;
    crate::crash::point("file-write");
    let done = copy(&file, &mut written).and_then(|_| written.sync_all());
    done.map_err(|e| Error::io("write", &target.path().join(name), e))?;
    Ok(Ok(()))
}

/// Adds to a payload's `attachments` the location of each file, or why it is missing. Existing entries with a file's
/// name are completed; other files get new entries. Locations and transcripts that came with the payload are removed.
pub(super) fn describe(content: &mut Value, message: &ExportedMessage, fates: &[Fate]) {
    let Some(content) = content.as_object_mut() else { return };
    if let Some(Value::Array(entries)) = content.get_mut("attachments") {
        for entry in entries.iter_mut().filter_map(Value::as_object_mut) {
            for field in ["localPath", "transcript", "transcriptError"] {
                entry.remove(field);
            }
        }
    }
    if message.attachments.is_empty() {
        return;
    }
    let list = content.entry("attachments").or_insert_with(|| Value::Array(Vec::new()));
    if !list.is_array() {
        *list = Value::Array(Vec::new());
    }
    let Some(entries) = list.as_array_mut() else { return };
    let directory = InName { seq: message.seq }.files_dir();
    for (file, fate) in message.attachments.iter().zip(fates) {
        let named = |entry: &Value| entry.get("name").and_then(Value::as_str) == Some(file.name.as_str());
        let at = entries.iter().position(|entry| entry.is_object() && named(entry));
        let at = at.unwrap_or_else(|| {
            entries.push(Value::Object(entry(file)));
            entries.len() - 1
        });
        let Some(entry) = entries.get_mut(at).and_then(Value::as_object_mut) else { continue };
        entry.insert("size".to_owned(), file.size.into());
        if let Some(heard) = message.transcripts.iter().find(|heard| heard.file == file.name) {
            let (field, text) = match heard.state.get() {
                Ok(text) => ("transcript", text),
                Err(why) => ("transcriptError", why),
            };
            entry.insert(field.to_owned(), text.into());
        }
        match fate {
            Ok(()) => {
                let path = format!("{HOST_DIR}/{IN_DIR}/{FILES_DIR}/{directory}/{}", file.name);
                entry.remove("error");
                entry.insert("localPath".to_owned(), path.into());
            }
            Err(reason) => drop(entry.insert("error".to_owned(), reason.clone().into())),
        }
    }
}

/// The entry of a file that its payload does not mention.
fn entry(file: &Attachment) -> Map<String, Value> {
    let kind = file.mime.as_deref().and_then(|mime| mime.split('/').next());
    let kind = kind.filter(|kind| ["image", "audio", "video"].contains(kind)).unwrap_or("file");
    let mut entry = Map::from_iter([("name".to_owned(), file.name.clone().into()), ("type".to_owned(), kind.into())]);
    if let Some(mime) = &file.mime {
        entry.insert("mimeType".to_owned(), mime.clone().into());
    }
    entry
}
