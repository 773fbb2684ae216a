//! `hearth backup`, `restore` and `compact`.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::consent::{self, Consent};
use super::progress::StageBar;
use super::{Done, Failure, check, human_size, human_time, print};
use crate::clock;
use crate::config::Paths;
use crate::state::Reader;
use crate::state::backup::{self, BackupPath, Manifest, Proof, Request, Restore};
use crate::state::references::{Incoming, Reference};

mod whole;
mod whole_restore;

#[derive(Debug, Args)]
#[command(
    after_help = "Without --all, the backup is a directory with the store and a manifest, and nothing else. With --all, it is one tar archive with the store, the agents' folders and homes (groups/, homes/), trusted/, skills/, the files that came with messages (files/) and hearth.toml.
Neither is encrypted. The daemon may keep running meanwhile; the store's file may grow during the copy. Hearth creates mailboxes (sessions/) again from the store."
)]
pub(super) struct BackupArgs {
    /// Directory the backup is put into, named by the time; or, without --keep, a name that does not exist yet for the
    /// backup itself [default: backups/ in the data directory]
    place: Option<PathBuf>,
    /// Back up everything: the store, and the files that it refers to
    #[arg(long)]
    all: bool,
    /// Include secrets: the files in secrets/ and the credentials of agent CLIs in the agents' homes
    #[arg(long, requires = "all")]
    with_secrets: bool,
    /// For the daemon: back up at the lowest priority, and end with this process
    #[arg(long, hide = true, value_name = "PID")]
    child_of: Option<i32>,
    /// Then delete all but the newest N backups of this installation in PLACE; if it does not exist, it becomes a
    /// directory of dated backups
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
    /// Keep the copy even if the store is inconsistent
    #[arg(long)]
    unsound: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The daemon must not run. The backup is checked before anything changes, and a crash leaves either the old store or the restored one.
In a different directory, the store becomes a new installation unless --keep-id is given.
The files that are read and the commands that are run when its agents and channels start (`file:`, `cmd:`) are listed; a backup of another installation than the one in the directory is restored only with your consent.
A backup of everything (`hearth backup --all`) is restored into a new or empty directory. Of any other backup, the agents' folders and homes (groups/, homes/), trusted/, skills/ and the files that came with messages (files/) are not part: copy them yourself. If BACKUP is a directory of backups, choose one of them."
)]
pub(super) struct RestoreArgs {
    /// The backup: its directory or file, or the name of one in backups/ of the data directory
    backup: PathBuf,
    /// Data directory to restore into [default: the data directory in use]
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
    /// Keep the installation's id, even in another directory
    #[arg(long)]
    keep_id: bool,
    /// Move an existing store and its mailboxes aside
    #[arg(long)]
    replace: bool,
    /// Restore even an inconsistent backup
    #[arg(long)]
    unsound: bool,
    /// Agree to the files that are read and the commands that are run for a backup of another installation
    #[arg(long)]
    yes: bool,
}

/// The answer of `hearth backup --json`.
#[derive(Debug, Serialize)]
struct BackupJson {
    backup: String,
    manifest: Manifest,
    /// Older backups that were removed.
    removed: Vec<String>,
}

/// The answer of `hearth restore --json`.
#[derive(Debug, Serialize)]
struct RestoreJson {
    data: String,
    install: String,
    /// Whether it is another installation than the one in the backup.
    new_install: bool,
    rows: u64,
    /// Files it reads and commands it runs.
    references: Vec<Reference>,
    /// When the backup was created.
    made: String,
    /// Path of the replaced store.
    store_aside: Option<String>,
    /// Path of its mailboxes.
    sessions_aside: Option<String>,
}

/// The answer of `hearth compact --json`.
#[derive(Debug, Serialize)]
struct CompactJson {
    data: String,
    rows: u64,
    /// Bytes of the store's file.
    before: u64,
    after: u64,
}

/// Copies the store, checks the copy, and renames it to its final name.
pub(super) fn backup(paths: &Paths, args: &BackupArgs, json: bool) -> Done {
    if let Some(parent) = args.child_of {
        check::give_way(parent)?;
    }
    let progress = StageBar::new();
    let reader = Reader::open_unless_held(paths.data(), &progress)?;
    let place = match &args.place {
        None => BackupPath::In(backup::default_dir(paths.data())),
        Some(dir) if args.keep.is_some() || dir.is_dir() => BackupPath::In(dir.clone()),
        Some(path) => BackupPath::At(path.clone()),
    };
    let request = Request {
        data: paths.data().to_owned(),
        place,
        now: clock::wall(),
        keep: args.keep.and_then(|keep| usize::try_from(keep).ok()),
        proof: proof(args.unsound),
    };
    if args.all {
        return whole::backup(paths, reader, &request, args.with_secrets, json);
    }
    let made = backup::backup(&reader, &request, &progress)?;
    let removed: Vec<String> = made.removed.iter().map(|path| shown(path)).collect();
    if json {
        return print::json(&BackupJson { backup: shown(&made.path), manifest: made.manifest, removed });
    }
    let Manifest { rows, bytes, .. } = made.manifest;
    print::line(&format!("{}: {rows} rows, {}", made.path.display(), human_size::decimal(bytes)))?;
    removed.iter().try_for_each(|path| print::line(&format!("removed {path}")))
}

/// Puts a backup in place.
pub(super) fn restore(paths: &Paths, args: &RestoreArgs, json: bool) -> Done {
    let backup = find(paths, &args.backup)?;
    if !backup.is_dir() {
        return whole_restore::restore(paths, &backup, args, json);
    }
    recognise(&backup)?; // before anything is made for it
    let target = match &args.into {
        Some(dir) => Paths::find(Some(dir))?,
        None => paths.clone(),
    };
    target.create()?;
    let now = clock::wall();
    let request = Restore {
        backup,
        data: target.data().to_owned(),
        replace: args.replace,
        keep_id: args.keep_id,
        install: clock::random()?,
        epoch: clock::random()?,
        now,
        proof: proof(args.unsound),
    };
    let (here, consent) = (consent::install(&target), Consent::of(args.yes, json));
    let progress = StageBar::new();
    let agree = |incoming: &Incoming| {
        progress.clear();
        consent.agree(here, incoming)
    };
    let restored = backup::restore(&request, &agree, &progress)?;
    drop(progress); // off the screen before the answer
    let install = format!("{:016x}", restored.install);
    let answer = RestoreJson {
        data: shown(target.data()),
        new_install: install != restored.manifest.install,
        install,
        rows: restored.manifest.rows,
        references: restored.references,
        made: restored.manifest.made,
        store_aside: restored.aside.as_deref().map(shown),
        sessions_aside: restored.mailboxes_aside.as_deref().map(shown),
    };
    if json { print::json(&answer) } else { print(&answer) }
}

fn print(answer: &RestoreJson) -> Done {
    print::line(&format!("{}: {} rows, as of {}", answer.data, answer.rows, human_time::local_with_age(&answer.made)))?;
    if answer.new_install {
        print::line(&format!("it is a new installation: {}", answer.install))?;
        print::note(
            "if it runs as a service, run `hearth service install` again: a service belongs to one installation",
        );
    }
    for aside in [&answer.store_aside, &answer.sessions_aside].into_iter().flatten() {
        print::line(&format!("the previous data is in {aside}"))?;
    }
    print::line("not part of a backup: make sure that groups/, homes/, trusted/, skills/ and files/ exist as well")
}

/// Compacts the store's file.
pub(super) fn compact(paths: &Paths, json: bool) -> Done {
    Reader::open(paths.data()).map(drop)?; // nothing is made where no store is
    let done = backup::compact(paths.data(), &StageBar::new())?;
    let backup::Compacted { before, after, rows } = done;
    if json {
        return print::json(&CompactJson { data: shown(paths.data()), rows, before, after });
    }
    print::line(&format!(
        "{}: {} before, {} now, {rows} rows",
        paths.data().display(),
        human_size::decimal(before),
        human_size::decimal(after)
    ))
}

/// The given path, or the backup of that name in the backup directory.
fn find(paths: &Paths, given: &Path) -> Result<PathBuf, Failure> {
    let named = backup::default_dir(paths.data()).join(given);
    if given.exists() {
        Ok(given.to_owned())
    } else if named.exists() {
        Ok(named)
    } else {
        Err(Failure::Failed(format!(
            "backup not found: {}; a backup is a directory created by `hearth backup`, or a file created by `hearth backup --all`",
            if given.is_absolute() { shown(given) } else { format!("{} or {}", given.display(), named.display()) }
        )))
    }
}

/// Rejects the directory of backups itself: the user has to specify one backup.
fn recognise(backup: &Path) -> Done {
    let Err(error) = Manifest::read(backup) else { return Ok(()) };
    match backup::newest_in(backup) {
        Some(newest) if matches!(error, backup::Error::NotABackup { .. }) => Err(Failure::Failed(format!(
            "{} is a directory of backups: choose one of them; the newest is {}",
            backup.display(),
            newest.display()
        ))),
        _ => Err(error.into()),
    }
}

const fn proof(unsound: bool) -> Proof {
    if unsound { Proof::Readable } else { Proof::Sound }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
