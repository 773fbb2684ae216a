//! Opens the store of a data directory, and decides whether one may be created.
//!
//! A store is created only in a directory that is missing or fresh. Elsewhere a missing store is an error: its disk may
//! not be mounted, and a new store in its place would hide that.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::Error;
use crate::clock;
use crate::config::{Contents, Paths};
use crate::state::{self, Missing, Store};

/// Longest list of names in a message.
const NAMES_MAX: usize = 6;

/// Which store to open, and whether one may be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// The existing store.
    Existing,
    /// The existing store, if it belongs to this installation.
    Only(Installation),
    /// The existing store, or a new one if the directory is missing or fresh.
    OrNew,
    /// The existing store, or a new one whatever the directory contains.
    OrNewBeside,
}

impl Opening {
    /// The choice for the option `--new`.
    #[must_use]
    pub const fn or_new(beside: bool) -> Self {
        if beside { Self::OrNewBeside } else { Self::OrNew }
    }
}

/// The id of an installation, as people and service files write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Installation(pub u64);

impl fmt::Display for Installation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for Installation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_id = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u64::from_str_radix(text, 16).ok().filter(|_| is_id);
        number.map(Self).ok_or_else(|| "an installation is 16 hexadecimal digits".to_owned())
    }
}

/// Why no store is created or opened.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The store is missing, but other parts of an installation exist.
    #[error(
        "{data} has parts of an installation ({found}) but no store: its disk may not be mounted, or the store was removed. \
         Mount the disk, or restore a backup with `hearth restore {backup}`; to start over with an empty store beside \
         these parts, run `hearth run --new`"
    )]
    Remains {
        /// The data directory.
        data: String,
        /// What is there.
        found: String,
        /// The newest backup, or the word `BACKUP` if there is none.
        backup: String,
    },
    /// The directory is not empty and does not belong to Hearth.
    #[error(
        "{data} is not empty ({found}) and is not a data directory of Hearth: choose another directory with --data or \
         HEARTH_DATA; if Hearth is to use it all the same, add --new"
    )]
    NotOurs {
        data: String,
        /// What is there.
        found: String,
    },
    /// The daemon was started for one installation, whose store is missing.
    #[error(
        "installation {wanted} has no store in {data}: its disk may not be mounted, or the store was removed. Mount the \
         disk, or restore a backup with `hearth restore BACKUP`; to start over, run `hearth run --new` once, then `hearth \
         service install`"
    )]
    Gone {
        /// The data directory.
        data: String,
        wanted: Installation,
    },
    /// The daemon was started for one installation, and the store belongs to another one.
    #[error(
        "the store in {data} is of installation {found}, and this daemon was started for {wanted}: mount the right disk; if \
         this store is the right one, for example after a restore, run `hearth service install` again"
    )]
    Another {
        /// The data directory.
        data: String,
        /// The installation of the existing store.
        found: Installation,
        /// The expected installation.
        wanted: Installation,
    },
}

/// Opens the store of a data directory for writing, for the daemon and for commands without one.
///
/// # Errors
/// [`Error::Refused`] where no store may be created, [`Error`] of the place and the store otherwise.
pub fn open_store(paths: &Paths, opening: Opening) -> Result<Store, Error> {
    let missing = check(paths, opening)?;
    paths.create()?;
    let install = clock::random().map_err(Error::Entropy)?;
    let options = state::Options { now: Some(clock::wall()), missing, ..state::Options::new(install) };
    let store = Store::open(paths.data(), options)?;
    if missing == Missing::CreateBeside {
        // Parts of the directory were moved aside.
        paths.create()?;
    }
    Ok(store)
}

/// Applies the rule without creating anything. Returns what opening does if the store is still missing then.
///
/// # Errors
/// As for [`open_store`].
pub fn check(paths: &Paths, opening: Opening) -> Result<Missing, Error> {
    if state::exists(paths.data()).is_ok_and(|exists| exists) {
        return check_existing(paths, opening);
    }
    // Read before the store is checked again, so that files another process creates meanwhile do not count as remains.
    let contents = paths.contents()?;
    if state::exists(paths.data())? {
        return check_existing(paths, opening);
    }
    let data = paths.data().display().to_string();
    match (opening, contents) {
        (Opening::Only(wanted), _) => Err(Refusal::Gone { data, wanted }.into()),
        (Opening::Existing, _) => Err(state::Error::NoStore { path: paths.data().to_owned() }.into()),
        (Opening::OrNewBeside, _) => Ok(Missing::CreateBeside),
        (Opening::OrNew, Contents::Fresh) => Ok(Missing::Create),
        (Opening::OrNew, Contents::Remains(found)) => {
            Err(Refusal::Remains { data, found: listed(&found), backup: newest_backup(paths) }.into())
        }
        (Opening::OrNew, Contents::Foreign(found)) => Err(Refusal::NotOurs { data, found: listed(&found) }.into()),
    }
}

/// The rule for an existing store: no new one is created if it vanishes.
fn check_existing(paths: &Paths, opening: Opening) -> Result<Missing, Error> {
    paths.check()?;
    if let Opening::Only(wanted) = opening {
        let found = Installation(state::installation(paths.data())?);
        if found != wanted {
            return Err(Refusal::Another { data: paths.data().display().to_string(), found, wanted }.into());
        }
    }
    Ok(Missing::Refuse)
}

fn listed(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMES_MAX);
    let shown = names.iter().take(NAMES_MAX).map(|name| name.escape_debug().to_string()).collect::<Vec<_>>().join(", ");
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}

fn newest_backup(paths: &Paths) -> String {
    let newest: Option<PathBuf> = state::backup::newest_in(&state::backup::default_dir(paths.data()));
    let name = newest.and_then(|path| path.file_name().map(|name| name.to_string_lossy().into_owned()));
    name.unwrap_or_else(|| "BACKUP".to_owned())
}
