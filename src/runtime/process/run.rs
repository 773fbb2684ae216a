//! The life of one incarnation, each on a thread of its own: prepare, start, wait for the end, make sure of it.

use std::io;
use std::process::Child;
use std::sync::Arc;
use std::time::Duration;

use agent_runner::confine::CONFINE_VARIABLE;
use rustix::process::{Pid, Signal};

use super::child::{exit, group, wait_unreaped};
use super::confine::Confined;
use super::environment::environment;
use super::holders;
use super::lock::{Pauses, SessionLock};
use super::spawn::{Gate, Launch, runner};
use super::table::{Key, signal};
use super::tail::Tail;
use super::{Setup, Shared};
use crate::model::entity::Hold;
use crate::model::incarnation::Exit;
use crate::runtime::redact::Secrets;
use crate::runtime::{Error, Spec, directory};

/// After this time a lock that does not become free is worth a warning, and then again each time it doubles.
const WARN_AFTER: Duration = Duration::from_secs(10);

/// Starts an incarnation, stays until nothing of it is left and says so.
pub(super) fn run(shared: &Arc<Shared>, spec: Spec) {
    let key = (spec.session, spec.incarnation);
    let (exit, stderr_tail) = match prepare(shared, spec).and_then(|(launch, secrets)| {
        let child = start(shared, key, &launch)?;
        Ok((child, secrets))
    }) {
        Ok((child, secrets)) => attend(shared, key, child, secrets),
        Err(error) => {
            let reason = error.reason();
            tracing::warn!(session = %key.0, incarnation = key.1, reason, "agent not started");
            (Exit::NotStarted(reason), String::new())
        }
    };
    shared.table.finish(key, exit, stderr_tail);
}

/// Ends what an earlier daemon left of an incarnation and says that it is gone.
pub(super) fn clear(shared: &Arc<Shared>, key: Key) {
    release(shared, key, &mut |gate, lock| if shared.table.locked(key.0) { Ok(true) } else { lock.clear(gate) });
    shared.table.finish(key, Exit::Unknown, String::new());
}

/// Directories and environment. The runner's working directory is its group's, so all paths become absolute.
fn prepare(shared: &Arc<Shared>, mut spec: Spec) -> Result<(Launch, Secrets), Error> {
    for path in [&mut spec.session_dir, &mut spec.group_dir, &mut spec.home_dir] {
        let absolute = std::path::absolute(&*path);
        *path = absolute.map_err(|source| Error::Directory { path: path.clone(), source })?;
    }
    directory::make(&spec.group_dir)?;
    directory::make(&spec.home_dir)?;
    let key = (spec.session, spec.incarnation);
    let stopped = || shared.table.stopped(key);
    let confined = confined(&shared.setup, &spec);
    let reach = match &confined {
        Some(confined) => (confined.path.as_os_str(), Some(confined.tmp.as_path())),
        None => (shared.setup.path.as_os_str(), None),
    };
    let mut environment = environment(&spec, reach, &shared.setup.lookup, &stopped)?;
    if let Some(confined) = &confined {
        environment.variables.push((CONFINE_VARIABLE.into(), confined.rules_json()?.into()));
    }
    let launch = Launch {
        program: shared.setup.program.clone(),
        arguments: shared.setup.arguments.clone(),
        directory: spec.group_dir,
        variables: environment.variables,
    };
    Ok((launch, environment.secrets))
}

/// The rules for an agent that is to be confined.
fn confined(setup: &Setup, spec: &Spec) -> Option<Confined> {
    (spec.settings.hold(spec.provider, setup.confinement.is_ok()) == Hold::Confined).then(|| Confined::of(spec, setup))
}

/// Takes the lock, ending whoever has it, and starts the runner with it. Nobody else can look for holders in between.
fn start(shared: &Arc<Shared>, key: Key, launch: &Launch) -> Result<Child, Error> {
    let mut lock = SessionLock::new(&shared.setup.locks, key.0);
    let locked = |lock: &SessionLock, source| Error::Lock { path: lock.path().to_owned(), source };
    let mut pauses = Pauses::default();
    loop {
        let gate = Gate::enter();
        if shared.table.stopped(key) {
            return Err(Error::Stopped);
        }
        if let Some(file) = lock.take(&gate).map_err(|source| locked(&lock, source))? {
            return start_locked(shared, key, launch, (file, gate));
        }
        lock.clear(&gate).map_err(|source| locked(&lock, source))?;
        drop(gate);
        if pauses.pause() >= shared.setup.patience {
            return Err(Error::Held { session: key.0 });
        }
    }
}

fn start_locked(
    shared: &Arc<Shared>,
    key: Key,
    launch: &Launch,
    (lock, gate): (std::fs::File, Gate),
) -> Result<Child, Error> {
    let failed = |source| Error::Spawn { program: launch.program.clone(), source };
    let (life, daemon_end) = io::pipe().map_err(failed)?;
    let mut child = runner(launch, life.into(), lock, &gate).map_err(failed)?;
    crate::crash::point("spawned");
    let Some(group) = group(&child) else {
        // No system has such ids. Without one nothing can be promised, so it does not run.
        drop(child.kill());
        drop(child.wait());
        return Err(failed(io::ErrorKind::InvalidData.into()));
    };
    tracing::info!(session = %key.0, incarnation = key.1, pid = child.id(), "agent started");
    if shared.table.started(key, group, daemon_end) {
        shared.kill(key);
    }
    Ok(child)
}

/// Waits for the end of a runner, then ends what is left of it.
fn attend(shared: &Arc<Shared>, key: Key, mut child: Child, secrets: Secrets) -> (Exit, String) {
    let tail = child.stderr.take().and_then(|stderr| {
        let tail = Tail::start(format!("stderr {}.{}", key.0, key.1), stderr, secrets);
        tail.inspect_err(|error| tracing::warn!(session = %key.0, %error, "an agent's standard error is not read")).ok()
    });
    let group = group(&child);
    if let Some(leader) = group {
        wait_unreaped(leader);
    }
    shared.table.leader_ended(key);
    if let Some(group) = group {
        end_group(key, group);
    }
    let exit = child.wait().map_or(Exit::Unknown, exit);
    release(shared, key, &mut |gate, lock| lock.clear(gate));
    tracing::info!(session = %key.0, incarnation = key.1, ?exit, "agent gone");
    (exit, tail.map(Tail::finish).unwrap_or_default())
}

/// Returns when a group whose leader is not reaped has no living member.
fn end_group(key: Key, group: Pid) {
    insist(key, "processes of an agent do not end", &mut || {
        signal(group, Signal::KILL);
        holders::group_is_dead(group)
    });
}

/// Returns when nobody has the session's lock.
fn release(shared: &Shared, key: Key, look: &mut dyn FnMut(&Gate, &mut SessionLock) -> io::Result<bool>) {
    let mut lock = SessionLock::new(&shared.setup.locks, key.0);
    insist(key, "the lock of an agent is still held", &mut || look(&Gate::enter(), &mut lock));
}

/// Tries until it is done, however long that takes: a wrong "gone" would let two incarnations run.
fn insist(key: Key, problem: &str, attempt: &mut dyn FnMut() -> io::Result<bool>) {
    let mut pauses = Pauses::default();
    let mut warn_at = WARN_AFTER;
    loop {
        let outcome = attempt();
        if matches!(outcome, Ok(true)) {
            return;
        }
        let waited = pauses.pause();
        if waited >= warn_at {
            warn_at *= 2;
            let (seconds, error) = (waited.as_secs(), outcome.err());
            tracing::warn!(session = %key.0, incarnation = key.1, seconds, ?error, problem, "an agent is not gone yet");
        }
    }
}
