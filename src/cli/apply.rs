//! `hearth apply FILE`.

use std::path::PathBuf;

use clap::Args;

use super::local::{Host, host};
use super::{Done, Failure, out};
use crate::config::{Paths, file};
use crate::model::input::Input;
use crate::model::report::Reply;
use crate::socket::client::unexpected;
use crate::socket::protocol::{Request, Response};
use crate::socket::shape::ConfiguredJson;

#[derive(Debug, Args)]
pub(super) struct ApplyArgs {
    /// The file, usually hearth.toml; `-` is standard input
    file: PathBuf,
    /// Only say what would change
    #[arg(long)]
    dry_run: bool,
}

/// Makes the entities be as a file says, all of them or none.
pub(super) fn apply(paths: &Paths, args: &ApplyArgs, json: bool) -> Done {
    let text = read(args)?;
    // Checked here as well, so that a bad file is refused before a store is made for it.
    let configure = file::parse(&args.file.display().to_string(), &text)?;
    let changes = match host(paths)? {
        Host::Daemon(mut client) => match client.ask(&Request::Apply { toml: text, dry_run: args.dry_run })? {
            Response::Configured(changes) => changes,
            other => return Err(unexpected(other).into()),
        },
        Host::Store(local) => match local.submit(Input::Configure(configure), args.dry_run)? {
            Reply::Configured(changes) => ConfiguredJson::from(changes.as_slice()),
            Reply::Refused(refusal) => return Err(Failure::Failed(refusal.message)),
            Reply::Done | Reply::Routed(_) | Reply::Swept(_) => {
                return Err(Failure::Failed("an unexpected answer".to_owned()));
            }
        },
    };
    if json {
        return out::json(&changes);
    }
    for change in changes.changes {
        out::line(&format!("{:9} {}", change.action, change.entity))?;
    }
    Ok(())
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
