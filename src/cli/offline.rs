//! Commands without a daemon submit the same inputs to an engine of their own. The next daemon performs their effects,
//! which it finds in the tables.

use std::time::Duration;

use super::Failure;
use crate::channel::attachments::Arrived;
use crate::clock;
use crate::config::temp_dir::{Purpose, TempDir};
use crate::config::{Machine, Paths, seams};
use crate::daemon::files::{self, Files};
use crate::daemon::opening::{self, Opening, open_store};
use crate::daemon::{self, groups_path};
use crate::engine::commit::{Engine, Submission};
use crate::model::input::Input;
use crate::model::report::{Refusal, Reply};
use crate::model::time::Timestamp;
use crate::socket::client::{Client, Error};
use crate::socket::command::{Answer, ClientCommand, RequestRefused};
use crate::state::{self, Missing, Reader, Store};

/// Executes inputs: the daemon, or an engine inside the command.
pub(super) enum Host {
    /// The running daemon.
    Daemon(Client),
    /// The store, opened by this command.
    Store(Box<Local>),
}

/// A store that this command opened because no daemon runs.
pub(super) struct Local {
    engine: Engine,
    paths: Paths,
    run: u64,
    /// Directory of a temporary store, removed after the store is closed.
    _scratch: Option<TempDir>,
}

/// Why a command was not carried out.
pub(super) enum SubmitError {
    /// The daemon or the engine refused it.
    Refused(Box<RequestRefused>),
    /// It could not be submitted.
    Failed(Failure),
}

impl From<RequestRefused> for SubmitError {
    fn from(refusal: RequestRefused) -> Self {
        Self::Refused(Box::new(refusal))
    }
}

impl From<Error> for SubmitError {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused(refusal) => Self::Refused(refusal),
            other => Self::Failed(other.into()),
        }
    }
}

impl From<Failure> for SubmitError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<SubmitError> for Failure {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Refused(refusal) if refusal.code == Refusal::CHANGED => Self::Changed(refusal.message),
            SubmitError::Refused(refusal) => Self::Failed(refusal.message),
            SubmitError::Failed(failure) => failure,
        }
    }
}

/// Submits a command to the daemon or, if none runs, to the existing store.
pub(super) fn submit(paths: &Paths, command: ClientCommand) -> Result<Answer, SubmitError> {
    host(paths)?.submit(command)
}

/// The failure for an answer that does not match the command.
pub(super) fn mismatch(answer: &Answer) -> Failure {
    Failure::Failed(format!("an unexpected answer: {answer:?}"))
}

impl Host {
    /// Submits a command.
    pub(super) fn submit(&mut self, command: ClientCommand) -> Result<Answer, SubmitError> {
        match self {
            Self::Daemon(client) => Ok(client.submit(command)?),
            Self::Store(local) => {
                let (input, dry_run) = command.input().map_err(|why| RequestRefused::new("invalid", why))?;
                Ok(Answer::try_from(local.submit(input, dry_run)?)?)
            }
        }
    }
}

/// Connects to the daemon if one runs. Otherwise opens the existing store.
pub(super) fn host(paths: &Paths) -> Result<Host, Failure> {
    host_by(paths, Opening::Existing)
}

/// Like [`host`], for a command that may create the store.
pub(super) fn host_by(paths: &Paths, opening: Opening) -> Result<Host, Failure> {
    daemon_or(paths, Host::Daemon, || open(paths, opening).map(|local| Host::Store(Box::new(local))))
}

/// Like [`host_by`], for a dry run: uses a temporary empty store where a store would be created.
pub(super) fn rehearsal(paths: &Paths, opening: Opening) -> Result<Host, Failure> {
    if is_new(paths) && opening::check(paths, opening)? != Missing::Refuse {
        return Ok(Host::Store(Box::new(scratch()?)));
    }
    host_by(paths, opening)
}

/// Whether there is no store yet.
pub(super) fn is_new(paths: &Paths) -> bool {
    matches!(Reader::open(paths.data()), Err(state::Error::NoStore { .. }))
}

/// Creates an empty store that is removed with the command.
fn scratch() -> Result<Local, Failure> {
    let directory = TempDir::create(Purpose::Rehearsal)?;
    let paths = Paths::find(Some(&directory.path().join("data")))?;
    Ok(local(&paths, open_store(&paths, Opening::OrNew)?, Some(directory))?)
}

/// Time limit for waiting for another command that has the store open, or for a daemon that does not serve yet.
const PATIENCE: Duration = Duration::from_secs(10);
/// Polling interval.
const PAUSE: Duration = Duration::from_millis(50);

/// Uses the daemon if one runs. Otherwise runs without it, as soon as no other process has the store open.
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

fn open(paths: &Paths, opening: Opening) -> Result<Local, daemon::Error> {
    let store = open_store(paths, opening)?;
    for warning in store.warnings() {
        super::print::warning(warning);
    }
    Ok(local(paths, store, None)?)
}

fn local(paths: &Paths, store: Store, scratch: Option<TempDir>) -> Result<Local, state::Error> {
    let run = store.read(|db, txn| db.meta.require(txn, &()))?.runs;
    let engine = Engine::new(store, seams::policy(), groups_path(paths)).in_zone(Machine::look().zone(None, None).zone);
    Ok(Local { engine, paths: paths.clone(), run, _scratch: scratch })
}

impl Local {
    /// Executes one input.
    pub(super) fn submit(&self, input: Input, dry_run: bool) -> Result<Reply, Failure> {
        self.submit_at(input, dry_run, None)
    }

    /// Executes one input at a simulated time.
    pub(super) fn submit_at(&self, input: Input, dry_run: bool, at: Option<Timestamp>) -> Result<Reply, Failure> {
        let group = [Submission::new(input).dry(dry_run)];
        let now = clock::once(self.run);
        let entropy = clock::random().map_err(|error| Failure::Failed(format!("no random numbers: {error}")))?;
        let answer = self.engine.commit(&group, at.map_or(now, |at| now.at(at)), entropy)?.pop();
        match answer {
            Some(Ok(applied)) => self.go_on(applied),
            Some(Err(error)) => Err(error.into()),
            None => Err(Failure::Failed("the engine did not answer".to_owned())),
        }
    }

    /// Stores an event's files, then submits the event.
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

    /// Removes unneeded files, at the current or a simulated time. Returns their number.
    pub(super) fn tidy(&self, at: Option<Timestamp>) -> Result<u64, Failure> {
        Ok(files::tidy(&self.paths, self.engine.store(), at.unwrap_or_else(clock::wall))?)
    }

    /// Continues work that was too large for one transaction. Other effects wait for a daemon.
    fn go_on(&self, applied: crate::engine::Applied) -> Result<Reply, Failure> {
        for effect in applied.effects {
            if let crate::model::Effect::Continue(rest) = effect {
                self.submit(Input::Continue(rest), false)?;
            }
        }
        Ok(applied.reply)
    }
}
