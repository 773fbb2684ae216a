//! Cleans a mailbox after an incarnation is gone and all of its output was collected.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use hearth_wire::{FILES_DIR, OUT_DIR, is_temporary};

use crate::model::mailbox::CollectedRecord;

use super::collect::ENTRIES;
use super::dir::DirEntry;
use super::error::Error;
use super::layout::Mailbox;
use super::{keep, text};

/// Maximum number of deletion steps per call.
const TRASH_STEPS: usize = 50_000;

/// Whether a name belongs to a file that is still being written.
pub(super) fn is_unfinished(name: &OsStr) -> bool {
    is_temporary(&name.to_string_lossy())
}

/// Removes leftovers that no record refers to: files without an answer, incomplete copies.
pub(super) fn clean(mailbox: &Mailbox, found: &[CollectedRecord]) -> Result<(), Error> {
    let taken: BTreeSet<&str> = found.iter().flat_map(|found| &found.files).map(String::as_str).collect();
    let directory = format!("{OUT_DIR}/{FILES_DIR}");
    if let DirEntry::Found(files) = mailbox.agent.dir(&directory)? {
        for name in files.list(ENTRIES)?.names {
            if !taken.contains(format!("{directory}/{}", text::escape(&name)).as_str()) {
                mailbox.trash.take(&files, &name)?;
            }
        }
    }
    for half in [&mailbox.agent, &mailbox.host] {
        for name in half.list(ENTRIES)?.names {
            if is_unfinished(&name) {
                mailbox.trash.take(half, &name)?;
            }
        }
    }
    keep::clean(mailbox)?;
    mailbox.trash.empty(TRASH_STEPS).map(drop)
}
