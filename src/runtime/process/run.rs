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
use super::spawn::{Gate, Held, Launch, runner};
use super::stderr::Stderr;
use super::{Shared, lock_owners};
use crate::model::incarnation::{Exit, IncarnationId};
use crate::runtime::redact::Secrets;
use crate::runtime::{Error, Spec};

/// A lock that is still held after this time is worth a warning. The warning repeats each time the wait doubles.
const WARN_AFTER: Duration = Duration::from_secs(10);

/// Starts an incarnation, waits until nothing of it is left and reports that.
pub(super) fn run(shared: &Arc<Shared>, spec: Spec) {
    let run = IncarnationId::new(spec.session, spec.incarnation);
    let (exit, stderr_tail) = match prepare(shared, spec).and_then(|(launch, secrets)| {
        let started = start(shared, run, &launch)?;
        Ok((started, secrets))
    }) {
        Ok((started, secrets)) => attend(shared, run, started, secrets),
        Err(error) => {
            let reason = error.reason();
            tracing::warn!(session = %run.session, incarnation = run.number, reason, "agent not started");
            (Exit::NotStarted(reason), String::new())
        }
    };
    shared.table.finish(run, exit, stderr_tail);
}

/// Ends what an earlier daemon left of an incarnation and reports it gone.
pub(super) fn clear(shared: &Arc<Shared>, run: IncarnationId) {
    release(shared, run, &mut |gate, lock| if shared.table.locked(run.session) { Ok(true) } else { lock.clear(gate) });
    shared.table.finish(run, Exit::Unknown, String::new());
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
fn start(shared: &Arc<Shared>, run: IncarnationId, launch: &Launch) -> Result<Started, Error> {
    let mut lock = SessionLock::new(&shared.setup.locks, run.session);
    let locked = |lock: &SessionLock, source| Error::Lock { path: lock.path().to_owned(), source };
    let mut pauses = Pauses::default();
    loop {
        let gate = Gate::enter();
        if shared.table.stopped(run) {
            return Err(Error::Stopped);
        }
        if let Some(file) = lock.take(&gate).map_err(|source| locked(&lock, source))? {
            return start_locked(shared, run, launch, file, gate);
        }
        lock.clear(&gate).map_err(|source| locked(&lock, source))?;
        drop(gate);
        if pauses.pause() >= shared.setup.patience {
            return Err(Error::Held { session: run.session });
        }
    }
}

fn start_locked(
    shared: &Arc<Shared>,
    run: IncarnationId,
    launch: &Launch,
    lock: File,
    gate: Gate,
) -> Result<Started, Error> {
    let program = launch.jailed.as_ref().map_or(&launch.program, |jailed| &jailed.program);
    let failed = |source| Error::Spawn { program: program.clone(), source };
    let (life, daemon_end) = io::pipe().map_err(failed)?;
    let mark = SessionLock::new(&shared.setup.locks, run.session).mark().map_err(failed)?;
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
    tracing::info!(session = %run.session, incarnation = run.number, pid = child.id(), "agent started");
    let tree = Arc::new(Tree { group, init: told.as_ref().and_then(|told| namespace(run, &child, told)) });
    if shared.table.started(run, Arc::clone(&tree), daemon_end) {
        shared.kill(run, shared.setup.grace);
    }
    Ok(Started { child, tree, lock, told })
}

/// Bubblewrap first reports the first process of the namespace it made. If it reports nothing, it failed before it
/// started anything, and its exit says why.
fn namespace(run: IncarnationId, child: &Child, told: &PipeReader) -> Option<std::os::fd::OwnedFd> {
    let mut line = String::new();
    BufReader::new(told).read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
    let told: serde_json::Value = serde_json::from_str(&line).ok()?;
    let pid = told.get("child-pid")?.as_i64().and_then(|pid| i32::try_from(pid).ok())?;
    let opened = open_init(child, pid);
    opened
        .inspect_err(|error| tracing::debug!(session = %run.session, %error, "a process namespace is already gone"))
        .ok()
}

/// Waits for the end of a runner, then ends what is left of it.
fn attend(shared: &Arc<Shared>, run: IncarnationId, started: Started, secrets: Secrets) -> (Exit, String) {
    let Started { mut child, tree, lock, told } = started;
    let tail = child.stderr.take().and_then(|stderr| {
        let tail = Stderr::start(format!("stderr {run}"), stderr, secrets);
        tail.inspect_err(
            |error| tracing::warn!(session = %run.session, %error, "cannot read an agent's standard error"),
        )
        .ok()
    });
    wait_unreaped(tree.group);
    shared.table.leader_ended(run);
    if let Some(init) = &tree.init {
        insist(run, "the process namespace of an agent is still running", &mut || {
            force_init(init);
            namespace_is_dead(init)
        });
    }
    end_group(run, tree.group);
    let exit = child.wait().map_or(Exit::Unknown, |status| exit(status, told.is_some()));
    // From here on another run may take the lock. It would find what is left.
    drop(lock);
    release(shared, run, &mut |gate, lock| lock.clear(gate));
    tracing::info!(session = %run.session, incarnation = run.number, ?exit, "agent gone");
    (exit, tail.map(Stderr::finish).unwrap_or_default())
}

/// Kills a group until no member is alive. Its leader must not be reaped yet.
fn end_group(run: IncarnationId, group: Pid) {
    insist(run, "processes of an agent do not end", &mut || {
        signal(group, Signal::KILL);
        lock_owners::group_is_dead(group)
    });
}

/// Waits until no process has the session's lock.
fn release(shared: &Shared, run: IncarnationId, look: &mut dyn FnMut(&Gate, &mut SessionLock) -> io::Result<bool>) {
    let mut lock = SessionLock::new(&shared.setup.locks, run.session);
    insist(run, "the lock of an agent is still held", &mut || look(&Gate::enter(), &mut lock));
}

/// Retries until it succeeds, however long that takes: a wrong "gone" would let two incarnations run.
fn insist(run: IncarnationId, problem: &str, attempt: &mut dyn FnMut() -> io::Result<bool>) {
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
            tracing::warn!(session = %run.session, incarnation = run.number, seconds, ?error, problem, "an agent is still running");
        }
    }
}
