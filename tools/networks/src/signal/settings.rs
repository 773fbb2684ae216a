//! What the channel's settings say.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};

use hearth_bridge::Hello;
use hearth_bridge::program::settings::{only, setting};

use super::link::Place;

/// Names of settings.
const NAMES: [&str; 3] = ["account", "config", "server"];
/// The program, on the search path.
const PROGRAM: &str = "signal-cli";
/// signal-cli's directory, in that of the bridge.
const DIRECTORY: &str = "signal-cli";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) number: String,
    pub(super) place: Place,
}

impl Settings {
    /// `program` is the word of the command after `signal`, if there is one.
    pub(super) fn of(hello: &Hello, program: Option<&str>) -> Result<Self, String> {
        only(hello, &NAMES)?;
        let number = setting(hello, "account")
            .ok_or("the account is missing; set `account` to its number, like \"+15550001111\"")?;
        let digits = number.strip_prefix('+').unwrap_or_default();
        if !(5..=15).contains(&digits.len()) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err("`account` must be a number with its country, like \"+15550001111\"".to_owned());
        }
        let place = match setting(hello, "server") {
            Some(_) if program.is_some() || setting(hello, "config").is_some() => {
                return Err("`server` names a daemon that runs already; leave out the program and `config`".to_owned());
            }
            Some(server) => daemon(server)?,
            None => {
                let directory = setting(hello, "config").unwrap_or(DIRECTORY);
                let directory = std::path::absolute(directory).map_err(|error| format!("`config`: {error}"))?;
                let program = program.unwrap_or(PROGRAM).to_owned();
                Place::Program { program, directory, account: number.to_owned() }
            }
        };
        Ok(Self { number: number.to_owned(), place })
    }
}

/// A daemon of this machine. It has no password, so that another machine's would be everybody's.
fn daemon(server: &str) -> Result<Place, String> {
    let wrong =
        || "`server` must be \"unix:/path/to/socket\" or a port of this machine, like \"127.0.0.1:7583\"".to_owned();
    if let Some(path) = server.strip_prefix("unix:") {
        return Some(PathBuf::from(path)).filter(|path| path.is_absolute()).map(Place::Unix).ok_or_else(wrong);
    }
    let address: SocketAddr = match server.strip_prefix("localhost:") {
        Some(_) => server.to_socket_addrs().ok().and_then(|mut found| found.next()).ok_or_else(wrong)?,
        None => server.parse().map_err(|_| wrong())?,
    };
    if address.ip().is_loopback() { Ok(Place::Tcp(address)) } else { Err(wrong()) }
}

/// Where signal-cli puts files.
pub(super) fn attachments(directory: &Path) -> PathBuf {
    directory.join("attachments")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daemons_are_on_this_machine() {
        assert_eq!(daemon("unix:/run/x"), Ok(Place::Unix("/run/x".into())));
        for server in ["127.0.0.1:7583", "[::1]:7583", "localhost:7583"] {
            assert!(matches!(daemon(server), Ok(Place::Tcp(_))), "{server}");
        }
        for server in [
            "",
            "unix:x",
            "unix:",
            "10.0.0.1:7583",
            "signal.test:7583",
            "127.0.0.1",
            "localhost:x",
            "http://127.0.0.1:1",
        ] {
            assert!(daemon(server).is_err(), "{server}");
        }
    }
}
