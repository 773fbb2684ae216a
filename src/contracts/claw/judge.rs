//! Whether a workspace may import a session file. Decided before anything is done.

use std::path::{Path, PathBuf};

use crate::model::workspace::Fingerprint;

/// A workspace, as files refer to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    /// Its canonical path.
    pub path: PathBuf,
    /// Former or alternative paths that were adopted. Files that name them belong to this workspace.
    pub also: Vec<PathBuf>,
}

impl Home {
    /// Whether a path belongs to the workspace.
    fn is(&self, path: &Path) -> bool {
        self.path == path || self.also.iter().any(|own| own == path)
    }

    /// All its paths, the current one first.
    pub(super) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        std::iter::once(&self.path).chain(&self.also)
    }

    fn has_partition(&self, name: &str) -> bool {
        use std::os::unix::ffi::OsStrExt as _;
        self.paths().any(|path| Fingerprint::of_path(path.as_os_str().as_bytes()).to_string() == name)
    }
}

/// Location of a file, and the workspace it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClaimedPath {
    /// The file, its directory in canonical form.
    pub(super) file: PathBuf,
    /// The workspace, as written in the file.
    pub(super) written: Option<PathBuf>,
    /// The workspace's path in canonical form, or as written if it cannot be resolved.
    pub(super) root: Option<PathBuf>,
}

/// Why a file may not be imported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// It belongs to another workspace.
    #[error(
        "session workspace mismatch: expected {}, found {}; open it in {}, or `hearth workspace adopt` here if that \
         directory became this one", expected.display(), actual.display(), actual.display()
    )]
    Mismatch {
        expected: PathBuf,
        /// The one that the file names.
        actual: PathBuf,
    },
    /// It names no workspace and lies in another directory.
    #[error(
        "legacy session is missing workspace binding: {} lies outside of {}; import it in the workspace it belongs to",
        file.display(), expected.display()
    )]
    Unbound { file: PathBuf, expected: PathBuf },
    /// It names no workspace and lies in another workspace's partition.
    #[error(
        "{} names no workspace and lies in the partition of another one ({partition}): `hearth workspace adopt` here first \
         if this directory was moved", file.display()
    )]
    OtherPartition {
        file: PathBuf,
        /// The fingerprint that names the partition.
        partition: String,
    },
}

/// Whether a workspace may import a file: the file names the workspace, wherever it lies, or it names none and lies in
/// it.
///
/// # Errors
/// Why not.
pub(super) fn judge(home: &Home, place: &ClaimedPath) -> Result<(), Unfit> {
    let expected = home.path.clone();
    if let Some(root) = &place.root {
        // A relative path depends on the working directory of the program that wrote it, which is unknown.
        let absolute = place.written.as_ref().is_none_or(|written| written.is_absolute());
        let own = absolute && home.is(root);
        let shown = if absolute { root } else { place.written.as_ref().unwrap_or(root) };
        return if own { Ok(()) } else { Err(Unfit::Mismatch { expected, actual: shown.clone() }) };
    }
    if !place.file.starts_with(&home.path) {
        return Err(Unfit::Unbound { file: place.file.clone(), expected });
    }
    match partition(&place.file) {
        Some(partition) if !home.has_partition(partition) => {
            Err(Unfit::OtherPartition { file: place.file.clone(), partition: partition.to_owned() })
        }
        _ => Ok(()),
    }
}

/// The partition that directly contains a file, if there is one.
fn partition(file: &Path) -> Option<&str> {
    let partition = file.parent()?;
    let name = partition.file_name()?.to_str()?;
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    let sessions = partition.parent()?.file_name()? == "sessions";
    (sessions && name.len() == 16 && name.bytes().all(hex)).then_some(name)
}
