//! Finds out whether a daemon runs, from the lock of the data directory, and asks it for its status.

use std::time::Duration;

use crate::config::Paths;
use crate::socket::client::{Client, Error, unexpected};
use crate::socket::protocol::{DaemonStatus, Request, Response};
use crate::state;

/// Time limit for each of the two lines of the daemon's answer.
const ANSWER: Duration = Duration::from_millis(700);
/// Number of attempts if a process holds the data directory but no daemon listens. Covers the duration of a command.
const LOOKS: u32 = 10;
/// Delay between two attempts.
const LOOK: Duration = Duration::from_millis(100);

/// Asks the daemon for its status; none if no daemon holds the lock of the data directory.
pub(super) fn ask(paths: &Paths) -> Result<Option<DaemonStatus>, Error> {
    for _ in 0..LOOKS {
        match ask_once(paths) {
            Err(Error::NotRunning { .. } | Error::Token { .. }) if state::holder(paths.data()).is_some() => {}
            Err(Error::NotRunning { .. }) => return Ok(None),
            // The daemon may have been stopping.
            Err(Error::Silent | Error::Closed | Error::Broken(_)) => break,
            told => return told.map(Some),
        }
        std::thread::sleep(LOOK);
    }
    match state::holder(paths.data()) {
        Some(pid) => Err(Error::Unreachable { pid }),
        None => Ok(None),
    }
}

fn ask_once(paths: &Paths) -> Result<DaemonStatus, Error> {
    match Client::connect_within(paths, ANSWER)?.ask(&Request::Status)? {
        Response::Status(status) => Ok(status),
        other => Err(unexpected(other)),
    }
}
