//! `hearth apply FILE` and `hearth export`.

use std::path::PathBuf;

use clap::Args;

use super::{Done, Failure, change, configuration, out};
use crate::config::Paths;
use crate::config::file::write;
use crate::model::configure::{Change, Configure};
use crate::model::entity::Hold;
use crate::socket::change::ChangeRequest;
use crate::state::Reader;

#[derive(Debug, Args)]
pub(super) struct ApplyArgs {
    /// The file, usually hearth.toml; `-` is standard input
    file: PathBuf,
    /// Only say what would change
    #[arg(long)]
    dry_run: bool,
    /// Remove what an earlier file made and this one does not name
    #[arg(long)]
    prune: bool,
}

/// Makes the entities be as a file says, all of them or none. People see what will change before it does.
pub(super) fn apply(paths: &Paths, args: &ApplyArgs, json: bool) -> Done {
    let name = args.file.display().to_string();
    let plan =
        ChangeRequest { toml: read(args)?, from_file: true, prune: args.prune, dry_run: true, ..Default::default() };
    warn_of_unconfined(&plan.configure(&name)?);
    let diff = change::diff(&configuration::read(paths)?, &plan, &name)?;
    let mut planned = change::submit(paths, &plan, &name)?;
    change::explain(&mut planned, &diff);
    if args.dry_run {
        return change::print(&planned, json);
    }
    if !json {
        change::print(&planned, false)?;
    }
    let mut done = change::submit(paths, &ChangeRequest { dry_run: false, ..plan }, &name)?;
    change::explain(&mut done, &diff);
    match (json, done == planned) {
        (true, _) | (false, false) => change::print(&done, json),
        (false, true) => Ok(()),
    }
}

/// Writes the whole configuration as a file that changes nothing when it is applied.
pub(super) fn export(paths: &Paths, json: bool) -> Done {
    let configuration = Reader::open(paths.data())?.read(configuration::collect)?;
    let toml = write::write(&configuration.changes());
    if json { out::json(&serde_json::json!({ "toml": toml })) } else { out::line(toml.trim_end()) }
}

/// Such agents are accepted, since the daemon may run where they can be confined; here they would not start.
fn warn_of_unconfined(configure: &Configure) {
    let Err(why) = agent_runner::confine::support() else { return };
    for change in &configure.changes {
        if let Change::PutAgent(folder, settings) = change
            && settings.hold(false) == Hold::NeedsUnconfined
        {
            let what =
                "does not start here unless it is given `unconfined = true`, and with that all rights of your user";
            out::note(&format!("warning: agent {folder} {what}: {why}"));
        }
    }
}

/// Longest file that is read.
const FILE_MAX: u64 = 4 << 20;

fn read(args: &ApplyArgs) -> Result<String, Failure> {
    use std::io::Read as _;
    let name = args.file.display();
    let mut text = String::new();
    let read = if args.file.as_os_str() == "-" {
        std::io::stdin().take(FILE_MAX).read_to_string(&mut text)
    } else {
        std::fs::File::open(&args.file).and_then(|file| file.take(FILE_MAX).read_to_string(&mut text))
    };
    match read {
        Ok(bytes) if u64::try_from(bytes).is_ok_and(|bytes| bytes >= FILE_MAX) => {
            Err(Failure::Failed(format!("{name} has more than {FILE_MAX} bytes; that is no configuration")))
        }
        Ok(_) => Ok(text),
        Err(error) => Err(Failure::Failed(format!("{name}: {error}"))),
    }
}
