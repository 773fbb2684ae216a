//! `hearth channels reconnect`: reconnects a channel and reports the result.

use std::thread::sleep;
use std::time::Duration;

use super::{ChannelJson, mend, shape};
use crate::cli::{Done, Failure, configuration, print};
use crate::config::Paths;
use crate::socket::client::{Client, unexpected};
use crate::socket::command::Answer;
use crate::socket::protocol::{Request, Response};

/// Interval between two status queries.
const LOOK: Duration = Duration::from_millis(100);
/// Number of status queries before the command gives up: 20 s, which is more than the time limit of a command that
/// resolves a secret.
const LOOKS: u32 = 200;

/// Runs the command.
pub(super) fn reconnect(paths: &Paths, channel: &str, json: bool) -> Done {
    let mut client = Client::connect(paths)?;
    match client.answer(&Request::Reconnect { channel: channel.to_owned() })? {
        Answer::Reconnecting => {}
        other => return Err(crate::cli::offline::mismatch(&other)),
    }
    let (state, mend) = connected(paths, &mut client, channel)?;
    if json {
        print::json(&state)?;
    }
    let why = state.why.as_deref().unwrap_or_default();
    match (state.is_up(), state.is_down()) {
        (true, _) if json => Ok(()),
        (false, _) if json => Err(Failure::Told),
        (true, _) => print::line(&format!("channel {channel} is {}", state.words())),
        (false, true) => Err(Failure::Failed(format!("channel {channel} is {}: {why}; {mend}", state.words()))),
        (false, false) => Err(Failure::Failed(format!(
            "channel {channel} is still connecting, and its service has not answered; `hearth channels list` shows its progress"
        ))),
    }
}

/// Waits until the service has answered or a try has failed. Returns the state, and how to fix it.
fn connected(paths: &Paths, client: &mut Client, channel: &str) -> Result<(ChannelJson, String), Failure> {
    let known = configuration::read(paths)?.channels;
    let Some(row) = known.iter().find(|row| row.name.as_str() == channel) else {
        return Err(Failure::Failed(format!("channel {channel} was removed meanwhile")));
    };
    let mut looks = 0;
    loop {
        let daemon = match client.ask(&Request::Status)? {
            Response::Status(status) => status,
            other => return Err(unexpected(other).into()),
        };
        let state = shape(row, Some(&daemon));
        if state.is_up() || state.is_down() || looks >= LOOKS {
            let mend = mend(row, state.why.as_deref().unwrap_or_default());
            return Ok((state, mend));
        }
        looks += 1;
        sleep(LOOK);
    }
}
