//! Runs one incarnation on its own thread: prepares and starts it, waits for its end and verifies it.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, PipeReader};
use std::process::Child;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal};

use super::child::{Tree, exit, force_init, group, namespace_is_dead, open_init, signal, wait_unreaped};
use super::lock::{Pauses, SessionLock};
use super::prepare::prepare;
use super::registry::Key;
use super::spawn::{Gate, Held, Launch, runner};
use super::stderr::Stderr;
use super::{Shared, lock_owners};
use crate::model::incarnation::Exit;
use crate::runtime::redact::Secrets;
use crate::runtime::{Error, Spec};

/// A lock that is still held after this time is worth a warning. The warning repeats each time the wait doubles.
const WARN_AFTER: Duration = Duration::from_secs(10);

/// Starts an incarnation, waits until nothing of it is left and reports that.
pub(super) fn run(shared: &Arc<Shared>, spec: Spec) {
    let key = (spec.session, spec.incarnation);
    let (exit, stderr_tail) = match prepare(shared, spec).and_then(|(launch, secrets)| {
        let started = start(shared, key, &launch)?;
        Ok((started, secrets))
    }) {
        Ok((started, secrets)) => attend(shared, key, started, secrets),
        Err(error) => {
            let reason = error.reason();
            tracing::warn!(session = %key.0, incarnation = key.1, reason, "agent not started");
            (Exit::NotStarted(reason), String::new())
        }
    };
    shared.table.finish(key, exit, stderr_tail);
}

/// Ends what an earlier daemon left of an incarnation and reports it gone.
pub(super) fn clear(shared: &Arc<Shared>, key: Key) {
    release(shared, key, &mut |gate, lock| if shared.table.locked(key.0) { Ok(true) } else { lock.clear(gate) });
    shared.table.finish(key, Exit::Unknown, String::new());
}

/// A runner that was started.
struct Started {
    child: Child,
    tree: Arc<Tree>,
    /// Held until nothing of the incarnation is left.
    lock: File,
    /// Bubblewrap's status pipe. It stays open to the end, because bubblewrap would die of writing to a pipe without a
    /// reader.
    told: Option<PipeReader>,
}

/// Takes the lock, ending its holders, and starts the runner with it. The gate keeps other threads from looking for
/// holders in between.
fn start(shared: &Arc<Shared>, key: Key, launch: &Launch) -> Result<Started, Error> {
    let mut lock = SessionLock::new(&shared.setup.locks, key.0);
    let locked = |lock: &SessionLock, source| Error::Lock { path: lock.path().to_owned(), source };
    let mut pauses = Pauses::default();
    loop {
        let gate = Gate::enter();
        if shared.table.stopped(key) {
            return Err(Error::Stopped);
        }
        if let Some(file) = lock.take(&gate).map_err(|source| locked(&lock, source))? {
            return start_locked(shared, key, launch, file, gate);
        }
        lock.clear(&gate).map_err(|source| locked(&lock, source))?;
        drop(gate);
        if pauses.pause() >= shared.setup.patience {
            return Err(Error::Held { session: key.0 });
        }
    }
}

fn start_locked(shared: &Arc<Shared>, key: Key, launch: &Launch, lock: File, gate: Gate) -> Result<Started, Error> {
    let program = launch.jailed.as_ref().map_or(&launch.program, |jailed| &jailed.program);
    let failed = |source| Error::Spawn { program: program.clone(), source };
    let (life, daemon_end) = io::pipe().map_err(failed)?;
    let mark = SessionLock::new(&shared.setup.locks, key.0).mark().map_err(failed)?;
    let held = Held { life: life.into(), lock: &lock, mark };
    let (mut child, told) = runner(launch, held, &gate).map_err(failed)?;
    drop(gate);
    crate::crash::point("spawned");
    let Some(group) = group(&child) else {
        // No real system has such ids. Without one nothing can be guaranteed, so the child is killed.
        drop(child.kill());
        drop(child.wait());
        return Err(failed(io::ErrorKind::InvalidData.into()));
    };
    tracing::info!(session = %key.0, incarnation = key.1, pid = child.id(), "agent started");
    let tree = Arc::new(Tree { group, init: told.as_ref().and_then(|told| namespace(key, &child, told)) });
    if shared.table.started(key, Arc::clone(&tree), daemon_end) {
        shared.kill(key, shared.setup.grace);
    }
    Ok(Started { child, tree, lock, told })
}

/// Bubblewrap first reports the first process of the namespace it made. If it reports nothing, it failed before it
/// started anything, and its exit says why.
fn namespace(key: Key, child: &Child, told: &PipeReader) -> Option<std::os::fd::OwnedFd> {
    let mut line = String::new();
    BufReader::new(told).read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
    let told: serde_json::Value = serde_json::from_str(&line).ok()?;
    let pid = told.get("child-pid")?.as_i64().and_then(|pid| i32::try_from(pid).ok())?;
    let opened = open_init(child, pid);
    opened.inspect_err(|error| tracing::debug!(session = %key.0, %error, "a process namespace is already gone")).ok()
}

/// Waits for the end of a runner, then ends what is left of it.
fn attend(shared: &Arc<Shared>, key: Key, started: Started, secrets: Secrets) -> (Exit, String) {
    let Started { mut child, tree, lock, told } = started;
    let tail = child.stderr.take().and_then(|stderr| {
        let tail = Stderr::start(format!("stderr {}.{}", key.0, key.1), stderr, secrets);
        tail.inspect_err(|error| tracing::warn!(session = %key.0, %error, "cannot read an agent's standard error")).ok()
    });
    wait_unreaped(tree.group);
    shared.table.leader_ended(key);
    if let Some(init) = &tree.init {
        insist(key, "the process namespace of an agent is still running", &mut || {
            force_init(init);
            namespace_is_dead(init)
        });
    }
    end_group(key, tree.group);
    let exit = child.wait().map_or(Exit::Unknown, |status| exit(status, told.is_some()));
    // From here on another run may take the lock. It would find what is left.
    drop(lock);
    release(shared, key, &mut |gate, lock| lock.clear(gate));
    tracing::info!(session = %key.0, incarnation = key.1, ?exit, "agent gone");
    (exit, tail.map(Stderr::finish).unwrap_or_default())
}

/// Kills a group until no member is alive. Its leader must not be reaped yet.
fn end_group(key: Key, group: Pid) {
    insist(key, "processes of an agent do not end", &mut || {
        signal(group, Signal::KILL);
        lock_owners::group_is_dead(group)
    });
}

/// Waits until no process has the session's lock.
fn release(shared: &Shared, key: Key, look: &mut dyn FnMut(&Gate, &mut SessionLock) -> io::Result<bool>) {
    let mut lock = SessionLock::new(&shared.setup.locks, key.0);
    insist(key, "the lock of an agent is still held", &mut || look(&Gate::enter(), &mut lock));
}

/// Retries until it succeeds, however long that takes: a wrong "gone" would let two incarnations run.
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
            tracing::warn!(session = %key.0, incarnation = key.1, seconds, ?error, problem, "an agent is still running");
        }
    }
}
