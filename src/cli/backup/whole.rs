//! `hearth backup --all`: one archive with the store and what it names.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Serialize;

use super::super::progress::StageBar;
use super::super::{Done, Failure, human_size, print};
use super::shown;
use crate::clock;
use crate::config::Paths;
use crate::contracts::archive::{self, Archive, Contents, Identity, Listed, Skipped, Source};
use crate::daemon::backups::{self, GoodBackup};
use crate::model::content::BlobId;
use crate::model::entity::Folder;
use crate::state::backup::{self, Manifest, Progress as _, Request, Step};
use crate::state::{self, Reader};

/// Names that are printed. All that are listed are in the archive and in the answer for programs.
const SHOWN_MAX: usize = 20;

/// The answer of `hearth backup --all --json`.
#[derive(Debug, Serialize)]
struct WholeJson {
    backup: String,
    /// Size of the file.
    bytes: u64,
    /// Number of entries in it.
    entries: u64,
    /// Whether secrets are in it.
    with_secrets: bool,
    /// Secrets that are not in it.
    secrets: Listed<String>,
    /// What else is not in it, with the reasons.
    skipped: Listed<Skipped>,
    /// The manifest of the store in it.
    manifest: Manifest,
    /// Older backups that were removed.
    removed: Vec<String>,
}

/// Makes, checks and names an archive.
pub(super) fn backup(paths: &Paths, reader: Reader, request: &Request, with_secrets: bool, json: bool) -> Done {
    let progress = StageBar::new();
    let unfinished = backup::begin(&reader, request, &progress)?;
    drop(reader);
    let (folders, blobs) = unfinished.snapshot()?.read(named)?;
    let Manifest { install, made, data, .. } = unfinished.manifest().clone();
    let identity = Identity::new(install.clone(), made, data, with_secrets);
    let store = unfinished.store();
    let source = Source { paths, store: &store, folders: &folders, blobs: &blobs, identity: &identity };
    progress.begin(Step::Copying, None);
    archive::write(&unfinished.archive(), &source)?;
    progress.begin(Step::Checking, None);
    let Archive { contents, bytes, .. } = Archive::open(&unfinished.archive())?;
    let same = |path: &Path| archive::identity(path).is_ok_and(|found| found.install == install);
    let made = unfinished.finish(&same)?;
    drop(progress); // off the screen before the answer
    let removed = made.removed.iter().map(|path| shown(path)).collect();
    let Contents { entries, secrets, skipped, .. } = contents;
    let good = GoodBackup {
        at_ms: clock::wall().millis(),
        path: shown(&std::path::absolute(&made.path)?),
        bytes,
        skipped: skipped.count(),
    };
    if let Err(error) = backups::note_good(paths, good) {
        print::warning(&format!("`hearth status` will not show this backup: {error}"));
    }
    let (backup, manifest) = (shown(&made.path), made.manifest);
    let answer = WholeJson { backup, bytes, entries, with_secrets, secrets, skipped, manifest, removed };
    if json { print::json(&answer) } else { print(&answer) }
}

/// Folders of agents, archived ones included, and files that messages need.
fn named(db: &state::Tables, txn: &state::Read<'_>) -> Result<(Vec<Folder>, Vec<BlobId>), state::Error> {
    let mut folders = BTreeSet::new();
    for row in db.agents.iter(txn)? {
        folders.insert(row?.1.folder);
    }
    let mut blobs = Vec::new();
    for row in db.bodies_by_file.iter(txn)? {
        let blob = BlobId::parse(row?.0.owner.as_str());
        // In order, so equal ones are neighbours.
        blobs.extend(blob.filter(|blob| blobs.last() != Some(blob)));
    }
    Ok((folders.into_iter().collect(), blobs))
}

fn print(answer: &WholeJson) -> Done {
    let WholeJson { backup, bytes, entries, manifest, .. } = answer;
    let rows = manifest.rows;
    print::line(&format!("{backup}: {rows} rows, {entries} files and directories, {}", human_size::decimal(*bytes)))?;
    answer.removed.iter().try_for_each(|path| print::line(&format!("removed {path}")))?;
    secrets(&answer.secrets, "secrets that are not in it (--with-secrets includes them):")?;
    skipped(&answer.skipped)?;
    let what = if answer.with_secrets { "all messages, files and secrets" } else { "all messages and files" };
    print::note(&format!(
        "the backup is not encrypted: everyone who can read it has {what}; keep it on an encrypted disk, or encrypt it with a program like age or gpg"
    ));
    Ok(())
}

/// Lists secrets that are not in a backup.
pub(super) fn secrets(listed: &Listed<String>, heading: &str) -> Done {
    if listed.is_empty() {
        return Ok(());
    }
    print::line(heading)?;
    listed.names.iter().take(SHOWN_MAX).try_for_each(|name| print::line(&format!("  {name}")))?;
    further(listed.names.len(), listed.more)
}

/// Lists what else is not in a backup.
pub(super) fn skipped(listed: &Listed<Skipped>) -> Done {
    if listed.is_empty() {
        return Ok(());
    }
    print::line("skipped:")?;
    let line = |one: &Skipped| print::line(&format!("  {}: {}", one.path, one.why));
    listed.names.iter().take(SHOWN_MAX).try_for_each(line)?;
    further(listed.names.len(), listed.more)
}

fn further(names: usize, more: u64) -> Result<(), Failure> {
    match (names.saturating_sub(SHOWN_MAX) as u64).saturating_add(more) {
        0 => Ok(()),
        more => print::line(&format!("  and {more} more; contents.json in the backup lists them")),
    }
}
