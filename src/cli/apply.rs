//! `hearth apply FILE` and `hearth export`.

use std::path::PathBuf;

use clap::Args;

use super::{Done, Failure, change, configuration, out, sight};
use crate::config::Paths;
use crate::config::file::write;
use crate::model::configure::{Change, Configure};
use crate::model::entity::Hold;
use crate::socket::change::ChangeRequest;
use crate::socket::shape::ConfiguredJson;
use crate::state::Reader;

#[derive(Debug, Args)]
pub(super) struct ApplyArgs {
    /// The file, usually hearth.toml; `-` is standard input
    file: PathBuf,
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
    /// Also remove what an earlier file added and this one does not name
    #[arg(long)]
    prune: bool,
}

/// Makes the entities be as a file says, all of them or none. People see what will change before it does.
pub(super) fn apply(paths: &Paths, args: &ApplyArgs, json: bool) -> Done {
    let name = args.file.display().to_string();
    let plan =
        ChangeRequest { toml: read(args)?, from_file: true, prune: args.prune, dry_run: true, ..Default::default() };
    let configure = plan.configure(&name)?;
    warn_of_unconfined(&configure);
    sight::warn_of_mounts(&configure);
    let mut looked = look(paths, &plan, &name)?;
    if args.dry_run || !json {
        change::print(&looked.planned, json)?;
    }
    if args.dry_run {
        return Ok(());
    }
    for _ in 0..change::LOOKS {
        match change::submit(paths, &ChangeRequest { dry_run: false, ..looked.plan }, &name) {
            Err(Failure::Changed(_)) => {}
            done => return done.and_then(|_| if json { change::print(&looked.planned, true) } else { Ok(()) }),
        }
        // It may have been something that the file has nothing to do with.
        let next = look(paths, &plan, &name)?;
        if !json && next.planned != looked.planned {
            return Err(changed());
        }
        looked = next;
    }
    Err(changed())
}

/// What a file would change, seen over one moment of the configuration.
struct Looked {
    /// The request, which holds for that moment only.
    plan: ChangeRequest,
    planned: ConfiguredJson,
}

/// The report of the transaction and the difference of every key are of the same moment: the transaction refuses another.
fn look(paths: &Paths, plan: &ChangeRequest, name: &str) -> Result<Looked, Failure> {
    for _ in 0..change::LOOKS {
        let known = configuration::read(paths)?;
        let plan = ChangeRequest { expected: known.digest, ..plan.clone() };
        match change::submit(paths, &plan, name) {
            Err(Failure::Changed(_)) => {}
            planned => {
                let mut planned = planned?;
                change::explain(&mut planned, &known.diff(&plan.configure(name)?.changes));
                return Ok(Looked { plan, planned });
            }
        }
    }
    Err(changed())
}

fn changed() -> Failure {
    Failure::Failed(
        "the configuration changed meanwhile, so this file would now have another effect than shown: nothing was \
         applied, look again with --dry-run"
            .to_owned(),
    )
}

/// Writes the whole configuration as a file that changes nothing when it is applied.
pub(super) fn export(paths: &Paths, json: bool) -> Done {
    let configuration = Reader::open(paths.data())?.read(configuration::collect)?;
    let toml = write::write(&configuration.changes());
    if json { out::json(&serde_json::json!({ "toml": toml })) } else { out::verbatim(toml.trim_end()) }
}

/// Such agents are accepted, since the daemon may run where they can be confined; here they would not start.
fn warn_of_unconfined(configure: &Configure) {
    let Err(why) = agent_runner::confine::support() else { return };
    for change in &configure.changes {
        if let Change::PutAgent(folder, settings) = change
            && settings.hold(settings.provider, false) == Hold::NeedsUnconfined
        {
            let what =
                "does not start here unless it is given `unconfined = true`, and with that all rights of your user";
            out::warning(&format!("agent {folder} {what}: {why}"));
        }
    }
}

/// Longest file that is read: as a line of the socket it may be twice as long.
const FILE_MAX: u64 = 1 << 20;

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
            Err(Failure::Failed(format!("{name} has more than {FILE_MAX} bytes; that is not a configuration")))
        }
        Ok(_) => Ok(text),
        Err(error) => Err(Failure::Failed(format!(
            "{name} cannot be read: {error}; name a file like hearth.toml, or `-` for standard input"
        ))),
    }
}
