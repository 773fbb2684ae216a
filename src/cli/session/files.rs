//! Claw session files that are not imported yet. They are listed together with the store's sessions, under the same
//! rules as for an import. Reading them changes nothing.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::find::SessionLookup;
use super::place::CommandDir;
use super::shape::{self, DirectoryState, RecordJson, SessionJson};
use super::taking::{Importer, home};
use crate::cli::Failure;
use crate::cli::workspace::error::WorkspaceError;
use crate::contracts::claw::{self, Part, SessionFile, Unfit};
use crate::model::session::SessionLabel;
use crate::model::session_ref::Reference;
use crate::model::take_in::FileSession;
use crate::model::workspace::Fingerprint;
use crate::state::{Digest, LabelKey, Text};

/// Maximum number of files read by one command.
const FILES_MAX: usize = 1_000;

/// A file that may be imported.
pub(super) struct File {
    pub(super) path: PathBuf,
    pub(super) session: FileSession,
}

/// Session files outside the store.
#[derive(Default)]
pub(super) struct SessionFiles {
    /// Files that may be imported, each with a unique id.
    pub(super) files: Vec<File>,
    /// Files that may not be imported, by file name.
    refused: Vec<(String, claw::Trouble)>,
    /// Number of files whose id another session has.
    same: usize,
    /// Number of files that were not read.
    more: usize,
}

impl SessionFiles {
    /// Looks for files in the directory.
    pub(super) fn look(place: &CommandDir) -> Result<Self, WorkspaceError> {
        let home = home(place)?;
        let found = claw::find(&home, None).map_err(Failure::from)?;
        let mut paths: Vec<PathBuf> =
            found.files.into_iter().filter(|file| file.part == Part::Current).map(|file| file.path).collect();
        if paths.is_empty() {
            return Ok(Self::default());
        }
        let taken = known(place, &paths)?;
        paths.retain(|path| !taken.contains(path));
        let mut beside = Self { more: paths.len().saturating_sub(FILES_MAX), ..Self::default() };
        for path in paths.into_iter().take(FILES_MAX) {
            match claw::read(&path, &home).and_then(|SessionFile { path, session, .. }| Ok((path, session?))) {
                Ok((path, session)) => beside.add(place, File { path, session })?,
                Err(claw::Trouble::Missing(_)) => {}
                Err(trouble) => beside.refused.push((stem(&path), trouble)),
            }
        }
        beside.files.sort_by_key(|file| std::cmp::Reverse(file.session.head.updated));
        Ok(beside)
    }

    /// Adds a file unless its id is taken. Ids must be unambiguous: the store's sessions take precedence, then those of
    /// the partition.
    fn add(&mut self, place: &CommandDir, file: File) -> Result<(), WorkspaceError> {
        let label = &file.session.head.label;
        if self.files.iter().any(|known| known.session.head.label == *label) || has(place, label)? {
            self.same = self.same.saturating_add(1);
        } else {
            self.files.push(file);
        }
        Ok(())
    }

    /// A note for people about files that are not shown.
    pub(super) fn note(&self) -> Option<String> {
        let each: Vec<String> = self.refused().iter().map(|(why, count)| format!("{count} {why}")).collect();
        let each = each.join(", ");
        (!each.is_empty()).then(|| {
            format!(
                "session files that are not shown: {each}; `hearth import claw DIR --dry-run` shows the reason for each"
            )
        })
    }

    /// Counts the hidden files by reason.
    pub(super) fn refused(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for (_, trouble) in &self.refused {
            let count: &mut usize = counts.entry(trouble.code()).or_default();
            *count = count.saturating_add(1);
        }
        counts.extend([("id_taken", self.same), ("not_looked_at", self.more)].into_iter().filter(|(_, n)| *n > 0));
        counts
    }
}

/// Resolves a reference that the store does not know to a file. Returns `missing` if there is none.
pub(super) fn find(place: &CommandDir, text: &str, missing: WorkspaceError) -> Result<File, WorkspaceError> {
    let Reference::Label(label) = Reference::read(text) else { return Err(missing) };
    if missing.kind != "session_not_found" {
        return Err(missing);
    }
    let SessionFiles { mut files, refused, .. } = SessionFiles::look(place)?;
    let by_id = files.iter().position(|file| file.session.head.label == label);
    let at = by_id.or_else(|| files.iter().position(|file| stem(&file.path) == label.as_str()));
    if let Some(at) = at {
        return Ok(files.swap_remove(at));
    }
    match refused.into_iter().find(|(stem, _)| stem == label.as_str()) {
        Some((_, why)) => Err(told(place, &label, &why)),
        None => Err(missing),
    }
}

/// Imports a file. Returns the id of its session.
pub(super) fn take_in(place: &CommandDir, file: &File) -> Result<String, WorkspaceError> {
    Importer::new(place, false)?.take(&file.path)?.session()
}

/// JSON output of a file as a session. It has no store key.
pub(super) fn shape(file: &File, around: &DirectoryState) -> SessionJson {
    shape::file_session(&file.session, &file.path, around)
}

/// The newest records of a file, at most `limit`.
pub(super) fn records(file: File, limit: usize) -> Vec<RecordJson> {
    let skip = file.session.records.len().saturating_sub(limit);
    let numbered = (1..).zip(file.session.records).skip(skip);
    numbered.map(|(number, row)| shape::record(number, row)).collect()
}

fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Files whose imported sessions still exist.
fn known(place: &CommandDir, paths: &[PathBuf]) -> Result<Vec<PathBuf>, WorkspaceError> {
    let Some(reader) = place.reader()? else { return Ok(Vec::new()) };
    reader.read(|db, txn| {
        let look = SessionLookup::new(place, db, txn)?;
        let mut known = Vec::new();
        for path in paths {
            let states = db.imported_files.collect_prefix(txn, &Digest::of(path.as_os_str().as_bytes()), usize::MAX)?;
            for id in states.into_iter().filter_map(|(_, state)| state.outcome.ok()) {
                if db.sessions_by_id.get(txn, &id)?.is_some_and(|of| look.workspace() == Some(of)) {
                    known.push(path.clone());
                    break;
                }
            }
        }
        Ok(known)
    })
}

/// Whether the store has a session with this id here.
fn has(place: &CommandDir, label: &SessionLabel) -> Result<bool, WorkspaceError> {
    let Some(reader) = place.reader()? else { return Ok(false) };
    reader.read(|db, txn| {
        let look = SessionLookup::new(place, db, txn)?;
        let Some(workspace) = look.workspace() else { return Ok(false) };
        let Ok(text) = Text::new(label.as_str()) else { return Ok(false) };
        Ok(db.session_labels.contains(txn, &LabelKey { workspace, label: text })?)
    })
}

/// The error for a file that cannot be a session here.
fn told(place: &CommandDir, label: &SessionLabel, why: &claw::Trouble) -> WorkspaceError {
    let fingerprint = |path: &Path| Fingerprint::of_path(path.as_os_str().as_bytes()).to_string();
    let hint = "`hearth import claw DIR --dry-run` shows what would happen to every file";
    let mut trouble = WorkspaceError::new(why.code(), why.to_string(), hint).with("session_id", label.as_str());
    if let claw::Trouble::Unfit(unfit) = why
        && let Unfit::Mismatch { expected, actual } = &**unfit
    {
        trouble = trouble
            .with("expected_workspace_root", expected.to_string_lossy())
            .with("expected_fingerprint", fingerprint(expected))
            .with("actual_workspace_root", actual.to_string_lossy())
            .with("actual_fingerprint", fingerprint(actual));
    }
    if let claw::Trouble::Damaged { damage: claw::Damage::Record { line, recoverable, .. }, .. } = why {
        trouble = trouble.with("line", *line).with("recoverable_records", *recoverable);
    }
    place.about(trouble.with("requested", label.as_str()).with("branch", "id"), None, 0)
}
