//! Starts bridges: for channels, and for the kit that tests them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

pub use crate::runtime::process::bridge::{Hold, Kill, Program, Reports, StartedBridge};

use super::runtime::{guarded, lookup, this_program};
use crate::channel::Channel;
use crate::channel::bridge::{Process, Setup, Starter, Times};
use crate::channel::intake::Ingress;
use crate::clock::{self, Stopwatch};
use crate::config::{Paths, env};
use crate::model::address::ChannelName;
use crate::model::channel::BridgeProgram;
use crate::runtime::process::{self, bridge};

/// Lines of a bridge that are logged in a minute.
const LINES_MAX: u32 = 100;
const MINUTE: Duration = Duration::from_secs(60);
/// Longest name of a channel's directory in bytes.
const NAME_MAX: usize = 200;

/// Starts a bridge. Blocks until it runs.
///
/// # Errors
/// Why it cannot be started, for people.
pub fn start(paths: &Paths, program: &Program, reports: Reports) -> Result<StartedBridge, String> {
    bridge::start(&setup(paths)?, program, reports)
}

fn setup(paths: &Paths) -> Result<process::Setup, String> {
    let own = this_program().map_err(|error| error.to_string())?;
    let setup = process::Setup::new(own, env::child_path(), paths.run().join("locks"), lookup());
    Ok(setup.guarding(guarded(paths)))
}

/// Starts the bridges of channels.
pub(super) struct Bridges {
    paths: Paths,
    tokio: Handle,
    /// How programs are confined here, found out for the first bridge.
    setup: Arc<OnceLock<Result<process::Setup, String>>>,
}

/// A bridge to start for a channel.
pub(super) struct NewBridge {
    pub(super) name: ChannelName,
    pub(super) program: BridgeProgram,
    /// Its token and secret, by these names.
    pub(super) secrets: BTreeMap<String, String>,
    pub(super) link_previews: bool,
}

impl Bridges {
    pub(super) fn new(paths: &Paths, tokio: &Handle) -> Arc<Self> {
        Arc::new(Self { paths: paths.clone(), tokio: tokio.clone(), setup: Arc::default() })
    }

    /// Base directory for the paths of outgoing files.
    pub(super) fn sessions(&self) -> PathBuf {
        self.paths.sessions()
    }

    /// Connects a channel with its bridge, which is started again until the channel is shut down.
    ///
    /// # Errors
    /// Why this is not possible, for people.
    pub(super) fn connect(&self, new: NewBridge, ingress: &Arc<dyn Ingress>) -> Result<Arc<dyn Channel>, String> {
        let NewBridge { name, program, secrets, link_previews } = new;
        let directory = self.paths.data().join("bridges").join(directory_of(&name)?);
        let settings = program.told();
        let settings = settings.map(|setting| (setting.name.clone(), setting.value.clone().into())).collect();
        let (sessions, files) = (self.paths.sessions(), directory.join("files"));
        let space = directory.clone();
        let start = self.starter(name.clone(), program, directory, &secrets);
        let setup = Setup {
            name,
            settings,
            secrets,
            files,
            sessions,
            link_previews,
            now: clock::wall,
            start,
            space: Arc::new(move || bridge::space(&space)),
            times: Times::USUAL,
        };
        Ok(crate::channel::bridge::start(setup, Arc::clone(ingress), &self.tokio))
    }

    fn starter(
        &self,
        name: ChannelName,
        program: BridgeProgram,
        directory: PathBuf,
        secrets: &BTreeMap<String, String>,
    ) -> Starter {
        let hold = if program.unconfined { Hold::Unconfined } else { Hold::Confined };
        let secrets = secrets.values().cloned().collect();
        let program = Program { command: program.command, directory, hold, secrets };
        let (found, paths) = (Arc::clone(&self.setup), self.paths.clone());
        Arc::new(move || {
            let setup = found.get_or_init(|| setup(&paths)).as_ref().map_err(Clone::clone)?;
            let (told, ended) = oneshot::channel();
            // The channel may be gone.
            let ended_by = move |how| drop(told.send(how));
            let reports = Reports { line: Box::new(log(name.clone())), ended: Box::new(ended_by) };
            let StartedBridge { socket, kill } = bridge::start(setup, &program, reports)?;
            Ok(Process { socket, kill: Box::new(move || kill.kill()), ended })
        })
    }
}

/// Logs what a bridge writes to its output, within bounds.
fn log(name: ChannelName) -> impl FnMut(String) + Send {
    let (mut watch, mut lines) = (Stopwatch::start(), 0);
    move |line| {
        if watch.elapsed() >= MINUTE {
            (watch, lines) = (Stopwatch::start(), 0);
        }
        lines += 1;
        if lines < LINES_MAX {
            tracing::info!(channel = %name, line, "output of the bridge");
        } else if lines == LINES_MAX {
            tracing::warn!(channel = %name, "the bridge writes too much: the rest of this minute is not logged");
        }
    }
}

/// The directory of a channel: its name with everything but letters, digits, `-` and `_` as `%XX`.
fn directory_of(name: &ChannelName) -> Result<String, String> {
    let mut directory = String::new();
    for byte in name.as_str().bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') {
            directory.push(char::from(byte));
        } else {
            directory.push_str(&format!("%{byte:02X}"));
        }
    }
    if directory.len() > NAME_MAX { Err("its name is too long for a bridge".to_owned()) } else { Ok(directory) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_channels_are_plain_and_differ() {
        for (name, expected) in
            [("mail", "mail"), ("..", "%2E%2E"), ("a/b", "a%2Fb"), ("ä", "%C3%A4"), ("a%2Fb", "a%252Fb")]
        {
            assert_eq!(directory_of(&ChannelName::new(name).unwrap()).unwrap(), expected);
        }
        assert!(directory_of(&ChannelName::new("x".repeat(201)).unwrap()).is_err());
    }
}
