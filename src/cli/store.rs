//! `hearth store export` and `hearth store import`.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use serde::Serialize;

use super::consent::Consent;
use super::progress::StageBar;
use super::{Done, Failure, print};
use crate::clock;
use crate::config::Paths;
use crate::crash;
use crate::state::lines::{self, Exported, Import, Imported};
use crate::state::references::{Incoming, Reference};
use crate::state::{Reader, backup};

#[derive(Debug, Subcommand)]
pub(super) enum StoreCommand {
    /// Write every row of the store as a line of JSON, for a machine of another kind; also beside a running daemon
    Export(ExportArgs),
    /// Make the store of a new data directory from an export
    Import(ImportArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Everything people wrote is in it, readable by anyone who can read the file. Agents' folders and homes are not.")]
pub(super) struct ExportArgs {
    /// A file that does not exist yet; `-` is standard output
    file: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// The export; `-` is standard input
    file: PathBuf,
    /// Keep the installation's id
    #[arg(long)]
    keep_id: bool,
    /// Agree to the files that are read and the commands that are run when its agents and channels start
    #[arg(long)]
    yes: bool,
}

/// The answer of `hearth store export FILE --json`.
#[derive(Debug, Serialize)]
struct ExportJson {
    file: String,
    rows: u64,
    sha256: String,
}

/// The answer of `hearth store import FILE --json`.
#[derive(Debug, Serialize)]
struct ImportJson {
    data: String,
    rows: u64,
    install: String,
    /// Files it reads and commands it runs.
    references: Vec<Reference>,
}

/// Runs a store command.
pub(super) fn run(paths: &Paths, command: &StoreCommand, json: bool) -> Done {
    match command {
        StoreCommand::Export(args) => export(paths, &args.file, json),
        StoreCommand::Import(args) => import(paths, args, json),
    }
}

fn export(paths: &Paths, file: &Path, json: bool) -> Done {
    let to_stdout = file.as_os_str() == "-";
    if !to_stdout && file.symlink_metadata().is_ok() {
        return Err(Failure::Failed(format!("{} already exists and was not changed", file.display())));
    }
    let progress = StageBar::new();
    let reader = Reader::open_unless_held(paths.data(), &progress)?;
    let frozen = backup::frozen(&reader, paths.data(), clock::wall(), &progress)?;
    drop(reader);
    if to_stdout {
        let mut out = BufWriter::new(std::io::stdout().lock());
        return match lines::export(&frozen, &mut out, &progress) {
            Err(lines::Error::Write(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => Err(Failure::UNREAD),
            done => Ok(done.map(drop)?),
        };
    }
    let Exported { rows, sha256 } = export_to(&frozen, file, &progress)?;
    drop(progress); // off the screen before the answer
    if json {
        return print::json(&ExportJson { file: file.display().to_string(), rows, sha256 });
    }
    print::line(&format!("{}: {rows} rows", file.display()))
}

/// Prefix of the names of unfinished exports. The process id, a random part and [`PART`] follow.
const PREFIX: &str = ".export-";
const PART: &str = ".part";

/// Removes leftovers of killed exports.
fn remove_leftovers(dir: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)?.flatten() {
        let name = entry.file_name();
        let inner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.strip_suffix(PART));
        let writer = inner.and_then(|inner| Pid::from_raw(inner.split_once('-')?.0.parse().ok()?));
        if writer.is_some_and(|writer| test_kill_process(writer) == Err(Errno::SRCH)) {
            crash::point("export-leftover");
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Writes an export. The file gets its final name when it is complete.
fn export_to(frozen: &Reader, file: &Path, progress: &StageBar) -> Result<Exported, Failure> {
    let failed = |error: std::io::Error| Failure::Failed(format!("{}: {error}", file.display()));
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    remove_leftovers(dir).map_err(failed)?;
    let prefix = format!("{PREFIX}{}-", std::process::id());
    let mut part = tempfile::Builder::new().prefix(&prefix).suffix(PART).tempfile_in(dir).map_err(failed)?;
    let mut out = BufWriter::new(part.as_file_mut());
    let done = lines::export(frozen, &mut out, progress)?;
    out.flush().map_err(failed)?;
    drop(out);
    crash::point("export-sync");
    part.as_file().sync_all().map_err(failed)?;
    crash::point("export-name");
    part.persist_noclobber(file).map_err(|error| failed(error.error))?;
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed)?;
    Ok(done)
}

fn import(paths: &Paths, args: &ImportArgs, json: bool) -> Done {
    let failed = |error: std::io::Error| Failure::Failed(format!("{}: {error}", args.file.display()));
    let mut input: Box<dyn std::io::BufRead> = if args.file.as_os_str() == "-" {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(BufReader::new(File::open(&args.file).map_err(failed)?))
    };
    paths.create()?;
    let install = if args.keep_id { None } else { Some(clock::random()?) };
    let request = Import { data: paths.data(), install, epoch: clock::random()? };
    // If the lines come from standard input, the user cannot answer a question there.
    let consent = Consent::of(args.yes, json || args.file.as_os_str() == "-");
    let progress = StageBar::new();
    let agree = |incoming: &Incoming| {
        progress.clear();
        consent.agree(None, incoming)
    };
    let Imported { rows, install, references } = lines::import(request, &mut input, &agree, &progress)?;
    drop(progress); // off the screen before the answer
    let install = format!("{install:016x}");
    if json {
        return print::json(&ImportJson { data: paths.data().display().to_string(), rows, install, references });
    }
    print::line(&format!("{}: {rows} rows, installation {install}", paths.data().display()))
}
