//! `hearth restore` of a backup of everything.

use std::path::Path;

use serde::Serialize;

use super::super::consent::{self, Consent};
use super::super::progress::StageBar;
use super::super::{Done, Failure, human_time, print};
use super::{RestoreArgs, proof, shown, whole};
use crate::clock;
use crate::config::Paths;
use crate::contracts::archive::{Archive, Listed, Part, Skipped, Unpacking};
use crate::state::backup::{self, Progress as _, Restore, Restored, Step};
use crate::state::references::{Incoming, Reference};

/// The answer of `hearth restore --json` for a backup of everything.
#[derive(Debug, Serialize)]
struct WholeJson {
    data: String,
    install: String,
    /// Whether it is another installation than the one in the backup.
    new_install: bool,
    rows: u64,
    /// Number of entries that were unpacked.
    entries: u64,
    /// Files it reads and commands it runs.
    references: Vec<Reference>,
    /// When the backup was created.
    made: String,
    /// Secrets that were not in the backup.
    secrets: Listed<String>,
    /// What else was not in it.
    skipped: Listed<Skipped>,
    /// References to files of the data directory that was backed up, if this is another one.
    elsewhere: Vec<Reference>,
}

/// Checks an archive, then unpacks it into a new or empty data directory.
pub(super) fn restore(paths: &Paths, file: &Path, args: &RestoreArgs, json: bool) -> Done {
    let target = match &args.into {
        Some(dir) => Paths::find(Some(dir))?,
        None => paths.clone(),
    };
    if args.replace {
        return Err(Failure::Failed(format!(
            "a backup of everything never replaces files: move {} away, or specify another directory with --into",
            target.data().display()
        )));
    }
    let progress = StageBar::new();
    progress.begin(Step::Checking, None);
    let archive = Archive::open(file)?;
    if target.exists() {
        target.check()?;
    } else {
        target.create()?;
    }
    let unpacking = Unpacking::begin(target.data())?;
    match unpack(&archive, &target, &unpacking, args, json, &progress) {
        Ok(restored) => {
            unpacking.finish();
            drop(progress); // off the screen before the answer
            answer(&archive, &target, restored, json)
        }
        Err(failure) => {
            unpacking.abandon();
            Err(failure)
        }
    }
}

/// The store is put into place last, after consent and after everything else.
fn unpack(
    archive: &Archive,
    target: &Paths,
    unpacking: &Unpacking,
    args: &RestoreArgs,
    json: bool,
    progress: &StageBar,
) -> Result<Restored, Failure> {
    target.create()?;
    archive.unpack(unpacking, Part::Store)?;
    let request = Restore {
        backup: unpacking.store(),
        data: target.data().to_owned(),
        replace: false,
        keep_id: args.keep_id,
        install: clock::random()?,
        epoch: clock::random()?,
        now: clock::wall(),
        proof: proof(args.unsound),
    };
    let (here, consent) = (consent::install(target), Consent::of(args.yes, json));
    let agree = |incoming: &Incoming| {
        progress.clear();
        consent.agree(here, incoming)?;
        progress.begin(Step::Copying, None);
        archive.unpack(unpacking, Part::Rest).and_then(|()| unpacking.place()).map_err(|error| error.to_string())
    };
    Ok(backup::restore(&request, &agree, progress)?)
}

fn answer(archive: &Archive, target: &Paths, restored: Restored, json: bool) -> Done {
    let install = format!("{:016x}", restored.install);
    let old = Path::new(&archive.identity.data);
    let of_old = |reference: &&Reference| {
        let path = reference.reference.strip_prefix("file:").map(Path::new);
        old != target.data() && path.is_some_and(|path| path.starts_with(old))
    };
    let elsewhere = restored.references.iter().filter(of_old).cloned().collect();
    let answer = WholeJson {
        data: shown(target.data()),
        new_install: install != restored.manifest.install,
        install,
        rows: restored.manifest.rows,
        entries: archive.contents.entries,
        references: restored.references,
        made: restored.manifest.made,
        secrets: archive.contents.secrets.clone(),
        skipped: archive.contents.skipped.clone(),
        elsewhere,
    };
    if json { print::json(&answer) } else { print(&answer) }
}

fn print(answer: &WholeJson) -> Done {
    let WholeJson { data, rows, entries, made, .. } = answer;
    let made = human_time::local_with_age(made);
    print::line(&format!("{data}: {rows} rows, {entries} files and directories, as of {made}"))?;
    if answer.new_install {
        print::line(&format!("it is a new installation: {}", answer.install))?;
    }
    let heading = "secrets that are not in the backup; run `hearth setup` for those in secrets/, and log in again in the agents' homes:";
    whole::secrets(&answer.secrets, heading)?;
    whole::skipped(&answer.skipped)?;
    if !answer.elsewhere.is_empty() {
        print::line("references to the directory that was backed up; change them if it is gone:")?;
        let line = |one: &Reference| print::line(&format!("  {}: {}", one.place, one.reference));
        answer.elsewhere.iter().try_for_each(line)?;
    }
    print::note(
        "`hearth doctor` checks what else is missing; if Hearth runs as a service, run `hearth service install`",
    );
    Ok(())
}
