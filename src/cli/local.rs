//! Commands without a daemon: the same inputs, put through an engine of their own. What they cause is carried out by the
//! next daemon, which finds everything in the tables.

use std::time::Duration;

use super::Failure;
use crate::channel::attachments::Arrived;
use crate::clock;
use crate::config::{Machine, Paths, seams};
use crate::daemon::files::{self, Files};
use crate::daemon::{self, groups_path, open_store};
use crate::engine::commit::{Engine, Submission};
use crate::model::input::Input;
use crate::model::report::{Refusal, Reply};
use crate::model::time::Timestamp;
use crate::socket::client::{Client, Error};
use crate::state::{self, Reader, Store};

/// Whoever can carry out an input.
pub(super) enum Host {
    /// A daemon.
    Daemon(Client),
    /// The store itself.
    Store(Box<Local>),
}

/// A store without a daemon.
pub(super) struct Local {
    engine: Engine,
    paths: Paths,
    run: u64,
    /// Removed after the store was closed.
    _scratch: Option<tempfile::TempDir>,
}

/// Talks to the daemon if there is one, else opens the store; makes it if there is none, but not for a rehearsal.
pub(super) fn host(paths: &Paths, rehearsal: bool) -> Result<Host, Failure> {
    if rehearsal && is_new(paths) {
        return Ok(Host::Store(Box::new(scratch()?)));
    }
    daemon_or(paths, Host::Daemon, || open(paths).map(|local| Host::Store(Box::new(local))))
}

/// Whether there is no store yet.
pub(super) fn is_new(paths: &Paths) -> bool {
    matches!(Reader::open(paths.data()), Err(state::Error::NoStore { .. }))
}

/// An empty store that goes with the command.
fn scratch() -> Result<Local, Failure> {
    let directory = tempfile::Builder::new().prefix("hearth-rehearsal-").tempdir()?;
    let paths = Paths::find(Some(&directory.path().join("data")))?;
    paths.create()?;
    Ok(local(&paths, open_store(&paths)?, Some(directory))?)
}

/// Time to wait for another command that has the store, or for a daemon that has it and does not serve yet.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// Uses the daemon if there is one; otherwise does without, as soon as no other process has the store.
pub(super) fn daemon_or<T>(
    paths: &Paths,
    with: impl FnOnce(Client) -> T,
    without: impl Fn() -> Result<T, daemon::Error>,
) -> Result<T, Failure> {
    let mut waited = Duration::ZERO;
    loop {
        match Client::connect(paths) {
            Ok(client) => return Ok(with(client)),
            Err(Error::NotRunning { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        match without() {
            Err(daemon::Error::State(state::Error::Locked { .. })) if waited < PATIENCE => {}
            done => return Ok(done?),
        }
        std::thread::sleep(PAUSE);
        waited += PAUSE;
    }
}

fn open(paths: &Paths) -> Result<Local, daemon::Error> {
    paths.create()?;
    let store = open_store(paths)?;
    for warning in store.warnings() {
        super::out::warning(warning);
    }
    Ok(local(paths, store, None)?)
}

fn local(paths: &Paths, store: Store, scratch: Option<tempfile::TempDir>) -> Result<Local, state::Error> {
    let run = store.read(|db, txn| db.meta.require(txn, &()))?.runs;
    let engine = Engine::new(store, seams::policy(), groups_path(paths)).in_zone(Machine::look().zone(None, None).zone);
    Ok(Local { engine, paths: paths.clone(), run, _scratch: scratch })
}

impl Local {
    /// Carries out one input.
    pub(super) fn submit(&self, input: Input, dry_run: bool) -> Result<Reply, Failure> {
        self.submit_at(input, dry_run, None)
    }

    /// Carries out one input as if it were another time.
    pub(super) fn submit_at(&self, input: Input, dry_run: bool, at: Option<Timestamp>) -> Result<Reply, Failure> {
        let group = [Submission { input, dry_run }];
        let now = clock::once(self.run);
        let entropy = clock::random().map_err(|error| Failure::Failed(format!("no random numbers: {error}")))?;
        let answer = self.engine.commit(&group, at.map_or(now, |at| now.at(at)), entropy)?.pop();
        match answer {
            Some(Ok(applied)) => self.go_on(applied),
            Some(Err(error)) => Err(error.into()),
            None => Err(Failure::Failed("the engine gave no answer".to_owned())),
        }
    }

    /// Takes an event in, its files first.
    pub(super) fn inject(&self, arrived: Arrived, dry_run: bool) -> Result<Reply, Failure> {
        let event = if dry_run {
            arrived.without_files()
        } else {
            let files = Files::open(&self.paths)?;
            match arrived.keep(|bytes| files.keep(self.engine.store(), &bytes)) {
                Ok(event) => event,
                Err(no_room) => {
                    return Ok(Reply::Refused(Refusal { code: "store_full", message: no_room.to_string() }));
                }
            }
        };
        self.submit(Input::Inbound(Box::new(event)), dry_run)
    }

    /// Removes files that nobody needs any more, as if it were another time.
    pub(super) fn tidy(&self, at: Option<Timestamp>) -> Result<u64, Failure> {
        Ok(files::tidy(&self.paths, self.engine.store(), at.unwrap_or_else(clock::wall))?)
    }

    /// Work that was too large for one transaction goes on at once; other effects wait for a daemon.
    fn go_on(&self, applied: crate::engine::Applied) -> Result<Reply, Failure> {
        for effect in applied.effects {
            if let crate::model::Effect::Continue(rest) = effect {
                self.submit(Input::Continue(rest), false)?;
            }
        }
        Ok(applied.reply)
    }
}

/// The failure of an answer of the engine that is a refusal, or does not fit the question.
pub(super) fn unfit(reply: Reply) -> Failure {
    match reply {
        Reply::Refused(refusal) => Failure::Failed(refusal.message),
        other => Failure::Failed(other.unexpected()),
    }
}
