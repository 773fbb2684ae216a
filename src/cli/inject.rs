//! `hearth inject`.

use clap::Args;

use super::local::{Host, host, unfit};
use super::{Done, Failure, out};
use crate::channel::event;
use crate::config::Paths;
use crate::model::report::Reply;
use crate::socket::client::unexpected;
use crate::socket::protocol::{Request, Response};
use crate::socket::shape::RoutedJson;

#[derive(Debug, Args)]
pub(super) struct InjectArgs {
    /// Only show what would happen to the events
    #[arg(long)]
    dry_run: bool,
}

/// Takes one event per line and prints one result per line. Lines that are no events get a result that says why; the
/// command fails at its end if there were any.
pub(super) fn inject(paths: &Paths, args: &InjectArgs) -> Done {
    let mut host = host(paths, args.dry_run)?;
    let mut input = std::io::stdin().lock();
    let mut refused = 0_usize;
    while let Some(line) = super::line::read(&mut input, event::EVENT_BYTES_MAX)? {
        let result = match line {
            Ok(line) if line.trim_ascii().is_empty() => continue,
            Ok(line) => one(&mut host, &line, args.dry_run)?,
            Err(message) => RoutedJson::invalid("invalid_event", message),
        };
        refused += usize::from(result.error.is_some());
        out::json(&result)?;
    }
    if refused > 0 {
        return Err(Failure::Failed(format!("{refused} of the lines were not taken in; their results say why")));
    }
    Ok(())
}

/// Takes in one event.
pub(super) fn one(host: &mut Host, line: &[u8], dry_run: bool) -> Result<RoutedJson, Failure> {
    let arrived = match event::read(line) {
        Ok(event) => event,
        Err(error) => return Ok(RoutedJson::invalid("invalid_event", error.to_string())),
    };
    match host {
        Host::Store(local) => match local.inject(arrived, dry_run)? {
            Reply::Routed(report) => Ok(RoutedJson::from(&report)),
            Reply::Refused(refusal) => Ok(RoutedJson::invalid(refusal.code, refusal.message)),
            other => Err(unfit(other)),
        },
        Host::Daemon(client) => {
            // A parsed line is text.
            let event = String::from_utf8_lossy(line).into_owned();
            match client.ask(&Request::Inject { event, dry_run })? {
                Response::Routed(result) => Ok(result),
                Response::Refused { code, message, .. } => Ok(RoutedJson::invalid(&code, message)),
                other => Err(unexpected(other).into()),
            }
        }
    }
}
