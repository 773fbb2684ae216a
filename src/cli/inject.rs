//! `hearth inject`.

use clap::Args;

use super::offline::{Host, SubmitError, host, mismatch};
use super::{Done, Failure, labels, print};
use crate::channel::event;
use crate::config::Paths;
use crate::model::routed::{RouteResult, WiringResult};
use crate::socket::command::Answer;
use crate::socket::protocol::Request;

#[derive(Debug, Args)]
pub(super) struct InjectArgs {
    /// Only show what would happen to the events
    #[arg(long)]
    dry_run: bool,
}

/// Reads one event per line and prints its result: with `--json` one per line, otherwise in words. An invalid line gets a result with the reason, and makes
/// the command fail at its end.
pub(super) fn inject(paths: &Paths, args: &InjectArgs, json: bool) -> Done {
    let mut host = host(paths)?;
    let mut input = std::io::stdin().lock();
    let mut refused = 0_usize;
    while let Some(line) = super::read_line::read(&mut input, event::EVENT_BYTES_MAX)? {
        let result = match line {
            Ok(line) if line.trim_ascii().is_empty() => continue,
            Ok(line) => one(&mut host, &line, args.dry_run)?,
            Err(message) => RouteResult::invalid("invalid_event", message),
        };
        refused += usize::from(result.error.is_some());
        if json { print::json(&result)? } else { print(&result)? }
    }
    if refused > 0 {
        return Err(Failure::Failed(format!("{refused} lines were rejected; their results give the reasons")));
    }
    Ok(())
}

/// Prints the outcome of an event, and a line for each wiring with further information.
fn print(result: &RouteResult) -> Done {
    let RouteResult { event, chat, outcome, reason, error, wirings } = result;
    let name = if event.is_empty() { "event".to_owned() } else { labels::excerpt(event) };
    let place = chat.as_ref().map(|chat| format!(" in {chat}")).unwrap_or_default();
    let why = error.clone().or_else(|| reason.as_deref().map(labels::reason));
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    print::line(&format!("{name}{place} {outcome}{why}"))?;
    // A wiring that only repeats the reason adds no information.
    let says_more = |one: &&WiringResult| one.message.is_some() || reason.as_ref() != Some(&one.why);
    wirings.iter().filter(says_more).try_for_each(|one| {
        let WiringResult { agent, session, decision, why, message } = one;
        let message = message.as_ref().map(|message| format!(" as {message}")).unwrap_or_default();
        let session = session.as_ref().map(|session| format!(" in {session}")).unwrap_or_default();
        print::line(&format!("  {agent}: {decision}{message}{session}: {}", labels::reason(why)))
    })
}

/// Submits one event.
pub(super) fn one(host: &mut Host, line: &[u8], dry_run: bool) -> Result<RouteResult, Failure> {
    let arrived = match event::read(line) {
        Ok(event) => event,
        Err(error) => return Ok(RouteResult::invalid("invalid_event", error.to_string())),
    };
    let answer = match host {
        Host::Store(local) => Answer::try_from(local.inject(arrived, dry_run)?).map_err(SubmitError::from),
        Host::Daemon(client) => {
            // A line that was parsed is valid UTF-8.
            let event = String::from_utf8_lossy(line).into_owned();
            client.answer(&Request::Inject { event, dry_run }).map_err(SubmitError::from)
        }
    };
    match answer {
        Ok(Answer::Routed(result)) => Ok(result),
        Ok(other) => Err(mismatch(&other)),
        Err(SubmitError::Refused(refusal)) => Ok(RouteResult::invalid(&refusal.code, refusal.message)),
        Err(SubmitError::Failed(failure)) => Err(failure),
    }
}
