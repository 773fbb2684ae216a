//! Deciding by command what was asked by card: through the daemon, or through the store itself, as the same input.

use serde::Serialize;

use super::local::{Host, host, unfit};
use super::{Done, Failure, out};
use crate::config::Paths;
use crate::model::card::Matter;
use crate::model::input::Input;
use crate::model::report::Reply;
use crate::socket::client::unexpected;
use crate::socket::protocol::{Request, Response};
use crate::state::Reader;

/// The answer of a command that decides.
#[derive(Debug, Serialize)]
struct DecidedJson<'a> {
    id: String,
    decided: bool,
    text: &'a str,
}

/// Decides: `value` is that of an option, its label or its number.
pub(super) fn decide(paths: &Paths, matter: Matter, value: &str, json: bool) -> Done {
    // Deciding makes no store.
    Reader::open(paths.data()).map(drop)?;
    let (decided, text) = match host(paths, false)? {
        Host::Daemon(mut client) => {
            let request = Request::Decide { matter: matter.to_string(), value: value.to_owned() };
            match client.ask(&request)? {
                Response::Answered { decided, text } => (decided, text),
                other => return Err(unexpected(other).into()),
            }
        }
        Host::Store(local) => match local.submit(Input::Decide(matter, value.to_owned()), false)? {
            Reply::Answered { decided, text } => (decided, text),
            other => return Err(unfit(other)),
        },
    };
    if json {
        out::json(&DecidedJson { id: matter.to_string(), decided, text: &text })?;
    } else if decided {
        out::line(&format!("{matter} {text}"))?;
    }
    match (decided, json) {
        (true, _) => Ok(()),
        (false, true) => Err(Failure::Told),
        (false, false) => Err(Failure::Failed(format!("{matter}: {text}"))),
    }
}
