//! `hearth workspace sessions import` and `hearth import claw`: import sessions from files, with a report for each file.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::place::CommandDir;
use super::taking::{Importer, Report};
use crate::cli::workspace::error::WorkspaceError;
use crate::cli::workspace::{AllowBroad, Guarded, guard, sight};
use crate::cli::{Done, Failure, print};
use crate::config::{Paths, env};
use crate::contracts::claw::{self, WorkspaceScan};

#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// The files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Only show what would be imported
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ClawArgs {
    /// The directory in which claw was used
    dir: PathBuf,
    /// Only show what would be imported
    #[arg(long)]
    dry_run: bool,
    /// Where claw kept the sessions of all directories [default: $CLAW_CONFIG_HOME, else ~/.claw]
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    #[command(flatten)]
    allow: AllowBroad,
}

pub(super) fn import(place: &CommandDir, args: &ImportArgs, json: bool) -> Result<(), WorkspaceError> {
    let mut taking = Importer::new(place, args.dry_run)?;
    let reports = args.files.iter().map(|file| taking.take(file)).collect::<Result<Vec<_>, _>>()?;
    let failed = reports.iter().any(Report::is_refused);
    told(place, &reports, "session_import", args.dry_run, failed, json)?;
    if failed { Err(ended()) } else { Ok(()) }
}

/// Imports all sessions of a directory.
pub(in crate::cli) fn claw(paths: &Paths, args: &ClawArgs, json: bool) -> Done {
    all(paths, args, json).map_err(|trouble| super::tell(trouble, "import", json))
}

fn all(paths: &Paths, args: &ClawArgs, json: bool) -> Result<(), WorkspaceError> {
    if !args.dir.is_dir() {
        let message = format!("{} is not a directory", args.dir.display());
        let hint = "specify the directory in which claw was used, which contains .claw";
        return Err(WorkspaceError::new("workspace_missing", message, hint));
    }
    let sight = match guard(&args.dir, args.allow, json)? {
        Guarded::Aborted => return Ok(()),
        Guarded::Go => sight(paths, &args.dir)?,
    };
    let place = CommandDir::new(paths, sight);
    let mut taking = Importer::new(&place, args.dry_run)?;
    let data = args.from.clone().or_else(data_dir);
    let found = claw::find(taking.home(), data.as_deref()).map_err(Failure::from)?;
    let mut reports = Vec::new();
    for file in &found.files {
        reports.push(taking.take(&file.path)?);
    }
    let failed = reports.iter().any(Report::is_damaged);
    told(&place, &reports, "import_claw", args.dry_run, failed, json)?;
    if !json {
        beside(&args.dir, &found)?;
    }
    if failed { Err(ended()) } else { Ok(()) }
}

/// Where claw keeps sessions outside of their directories.
fn data_dir() -> Option<PathBuf> {
    let set = env::env_lookup("CLAW_CONFIG_HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    set.or_else(|| env::home().map(|home| home.join(".claw")))
}

/// Reports claw data outside the directory's own files.
fn beside(dir: &Path, found: &WorkspaceScan) -> Result<(), Failure> {
    if found.files.is_empty() {
        print::note(&format!("there are no session files of claw for {}", dir.display()));
    }
    for other in &found.others {
        print::note(&format!("{} belongs to another directory, or to this one before it was moved", other.display()));
    }
    Ok(())
}

/// The final error. Details were reported file by file.
fn ended() -> WorkspaceError {
    WorkspaceError::of_kind("import_refused", "")
}

fn told(
    place: &CommandDir,
    reports: &[Report],
    kind: &str,
    dry_run: bool,
    failed: bool,
    json: bool,
) -> Result<(), WorkspaceError> {
    if !json {
        for report in reports {
            print::line(&report.line())?;
        }
        return Ok(());
    }
    let count = |word: &str| reports.iter().filter(|report| report.word() == word).count();
    let files: Vec<Value> = reports.iter().map(Report::json).collect();
    let mut answer = json!({
        "kind": kind,
        "action": "import",
        "status": if failed { "error" } else { "ok" },
        "dry_run": dry_run,
        "workspace_root": place.root(),
        "taken": count("taken"),
        "revised": count("revised"),
        "already": count("already"),
        "passed": count("passed"),
        "conflicts": count("conflict"),
        "refused": count("refused"),
        "files": files,
    });
    if let (true, Value::Object(fields)) = (failed, &mut answer) {
        let message = format!("{} of {} files were not imported", count("refused") + count("conflict"), reports.len());
        fields.insert("error_kind".to_owned(), json!("import_refused"));
        fields.insert("error".to_owned(), json!(message));
        fields.insert("hint".to_owned(), json!("`files` lists the reason for each"));
        fields.insert("exit_code".to_owned(), json!(1));
    }
    Ok(print::json(&answer)?)
}
