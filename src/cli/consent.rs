//! Consent for a foreign store: shows what it makes this machine do before it is installed.

use std::io::IsTerminal as _;

use super::print;
use crate::config::Paths;
use crate::state::Reader;
use crate::state::references::{Incoming, Reference};

/// How the operator consents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Consent {
    /// Consent was given with `--yes`.
    Given,
    /// The person at the terminal is asked.
    Asked,
    /// No one can be asked.
    Missing,
}

impl Consent {
    /// Chooses by the options of a command.
    pub(super) fn of(yes: bool, json: bool) -> Self {
        match (yes, !json && std::io::stdin().is_terminal()) {
            (true, _) => Self::Given,
            (false, true) => Self::Asked,
            (false, false) => Self::Missing,
        }
    }

    /// Shows the references of a store. Asks for consent if it belongs to another installation.
    ///
    /// # Errors
    /// Why the store is not installed, and what to do.
    pub(super) fn agree(self, here: Option<u64>, incoming: &Incoming) -> Result<(), String> {
        if incoming.references.is_empty() {
            return Ok(());
        }
        print::note(
            "When the store's agents and channels start, they read these files and run these commands as your user:",
        );
        for Reference { place, reference } in &incoming.references {
            print::note(&format!("  {}: {}", place.escape_default(), reference.escape_default()));
        }
        if here == Some(incoming.install) || self == Self::Given {
            return Ok(());
        }
        let whose = match here {
            Some(_) => "It belongs to another installation than this one.",
            None => "There is no installation here to which it could belong.",
        };
        match self {
            Self::Asked if print::agreed(&format!("{whose} Install it? [y/N]: ")) => Ok(()),
            Self::Asked => Err("cancelled: nothing was changed".to_owned()),
            Self::Given | Self::Missing => {
                Err(format!("{whose} Nothing was changed. If you trust the store, repeat the command with --yes"))
            }
        }
    }
}

/// The installation id of a data directory; none if it does not exist or cannot be read.
pub(super) fn install(paths: &Paths) -> Option<u64> {
    Reader::open(paths.data()).ok()?.read(|db, txn| db.meta.require(txn, &())).ok().map(|meta| meta.install)
}
