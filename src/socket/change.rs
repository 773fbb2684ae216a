//! Configuration changes as socket messages: a fragment of hearth.toml, plus edits that the file cannot express.

use serde::{Deserialize, Serialize};

use crate::config::file::{self, BadFile};
use crate::model::address::ForeignId;
use crate::model::configure::{Change, Configure};
use crate::model::entity::Origin;

/// Changes that happen together or not at all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChangeRequest {
    /// Text of a hearth.toml, whole or in part; empty for none.
    pub toml: String,
    /// Edits that hearth.toml cannot express, applied after `toml`.
    pub edits: Vec<Change>,
    /// Whether the change comes from a file rather than from a command.
    pub from_file: bool,
    /// Removes entities that an earlier file created and this one does not name.
    pub prune: bool,
    /// Only report what would change.
    pub dry_run: bool,
    /// Digest of the configuration that the caller read. If the configuration has changed since, nothing is done.
    pub expected: Option<u64>,
}

/// Why a change request is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadChange {
    /// The piece of hearth.toml.
    #[error(transparent)]
    File(#[from] BadFile),
    /// A name in an edit.
    #[error("{0}")]
    Edit(String),
}

impl ChangeRequest {
    /// Converts the request to an input. `name` is the file's name in messages.
    ///
    /// # Errors
    /// [`BadChange`] with all errors of the file, or with the first invalid edit.
    pub fn configure(&self, name: &str) -> Result<Configure, BadChange> {
        // An empty file is an error: the program that wrote it failed, and pruning by it would remove everything.
        let none = self.toml.is_empty() && !self.from_file;
        let mut changes = if none { Vec::new() } else { file::parse(name, &self.toml)?.changes };
        for edit in &self.edits {
            check(edit).map_err(BadChange::Edit)?;
            changes.push(edit.clone());
        }
        if self.prune {
            changes.push(Change::Prune);
        }
        let origin = if self.from_file { Origin::File } else { Origin::Runtime };
        Ok(Configure { changes, origin, by: None, expected: self.expected })
    }
}

/// Checks what the types of an edit do not express.
fn check(edit: &Change) -> Result<(), String> {
    let Change::MuteName(_, name, note) = edit else { return Ok(()) };
    check_short("the name", name)?;
    note.as_deref().map_or(Ok(()), |note| check_short("the note", note))
}

fn check_short(what: &'static str, text: &str) -> Result<(), String> {
    let text = ForeignId::optional(what, Some(text.to_owned())).map_err(|error| error.to_string())?;
    text.map(drop).ok_or_else(|| format!("{what} is empty"))
}
