//! The incarnations of the process runtime, and the events about them.

use std::io::{PipeWriter, Write as _};
use std::sync::Arc;
use std::time::Duration;

use super::child::Tree;
use crate::model::id::SessionId;
use crate::model::incarnation::{Exit, IncarnationId};
use crate::runtime::registry::{self, Registry};

/// State of an incarnation in this runtime.
pub(super) enum Occupant {
    /// Not started by this daemon: the remains of an earlier daemon's incarnation are being ended.
    Clearing,
    /// The start is being prepared; `stop` asks to cancel it.
    Starting { stop: bool },
    /// The leader runs, or has ended and is not reaped, so the group id is not reused.
    Running { tree: Arc<Tree>, life: Option<PipeWriter>, stop: bool },
    /// The leader has ended; the rest is being ended.
    Ending,
}

/// What the caller has to do after a kill.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kill {
    /// Nothing: it is in progress.
    Nothing,
    /// Make sure that nothing is left.
    Clear,
    /// It was asked to end; kill it if it does not.
    Hurry,
}

type Entries = registry::Entries<IncarnationId, Occupant>;

/// Written into the life pipe to ask a runner to end. Any byte would do; scripts read lines.
const ASK: &[u8] = b"\n";

/// All incarnations that this runtime handles.
pub(super) type Incarnations = Registry<IncarnationId, Occupant>;

impl Entries {
    fn gone(&mut self, run: IncarnationId, exit: Exit, stderr_tail: String) {
        self.told.gone(run.session, run.number, exit, stderr_tail);
    }

    fn running(&self, run: IncarnationId) {
        self.told.running(run.session, run.number);
    }

    fn of_session(&self, session: SessionId) -> impl Iterator<Item = (u32, &Occupant)> {
        let all = IncarnationId::new(session, 0)..=IncarnationId::new(session, u32::MAX);
        self.here.range(all).map(|(run, occupant)| (run.number, occupant))
    }

    /// Whether a run of the session holds the session's lock, so that no other run can have left anything.
    fn locked(&self, session: SessionId) -> bool {
        self.of_session(session).any(|(_, occupant)| matches!(occupant, Occupant::Running { .. } | Occupant::Ending))
    }

    fn refusal(&self, IncarnationId { session, number }: IncarnationId) -> Option<String> {
        self.told.refusal(session, number).or_else(|| {
            self.of_session(session)
                .find(|(_, occupant)| !matches!(occupant, Occupant::Clearing))
                .map(|(other, _)| format!("run {other} of {session} is still there"))
        })
    }
}

impl Incarnations {
    /// Whether the caller has to start the incarnation. If not, its outcome is or will be reported.
    pub(super) fn begin(&self, run: IncarnationId) -> bool {
        let mut entries = self.lock();
        if let Some(occupant) = entries.here.get(&run) {
            if matches!(occupant, Occupant::Running { stop: false, .. }) {
                entries.running(run);
            }
            return false;
        }
        if let Some(refusal) = entries.refusal(run) {
            entries.gone(run, Exit::NotStarted(refusal), String::new());
            return false;
        }
        entries.here.insert(run, Occupant::Starting { stop: false });
        true
    }

    /// Reports that an incarnation could not be started.
    pub(super) fn refuse(&self, run: IncarnationId, reason: String) {
        let mut entries = self.lock();
        if !entries.here.contains_key(&run) {
            entries.gone(run, Exit::NotStarted(reason), String::new());
        }
    }

    /// Whether the incarnation was asked to stop while it was starting.
    pub(super) fn stopped(&self, run: IncarnationId) -> bool {
        !matches!(self.lock().here.get(&run), Some(Occupant::Starting { stop: false }))
    }

    /// Marks an incarnation as running. Returns whether it was asked to stop meanwhile.
    pub(super) fn started(&self, run: IncarnationId, tree: Arc<Tree>, life: PipeWriter) -> bool {
        let mut entries = self.lock();
        let running = Occupant::Running { tree, life: Some(life), stop: false };
        let before = entries.here.insert(run, running);
        entries.running(run);
        matches!(before, Some(Occupant::Starting { stop: true }))
    }

    /// Marks the leader as ended. From now on no other thread signals its group, so the leader can be reaped.
    pub(super) fn leader_ended(&self, run: IncarnationId) {
        self.lock().here.insert(run, Occupant::Ending);
        self.changed();
    }

    /// Reports an incarnation gone: nothing of it is left.
    pub(super) fn finish(&self, run: IncarnationId, exit: Exit, stderr_tail: String) {
        let mut entries = self.lock();
        entries.here.remove(&run);
        entries.gone(run, exit, stderr_tail);
        self.changed();
    }

    /// Drops an inquiry without an answer. It may be repeated.
    pub(super) fn forget(&self, run: IncarnationId) {
        self.lock().here.remove(&run);
        self.changed();
    }

    /// Whether the caller has to make sure that nothing of the incarnation is left, and report that.
    pub(super) fn inquire(&self, run: IncarnationId) -> bool {
        let mut entries = self.lock();
        match entries.here.get(&run) {
            Some(Occupant::Running { stop: false, .. }) => entries.running(run),
            Some(_) => {}
            None if entries.locked(run.session) => entries.gone(run, Exit::Unknown, String::new()),
            None => {
                entries.here.insert(run, Occupant::Clearing);
                return true;
            }
        }
        false
    }

    /// Whether a run of the session holds its lock.
    pub(super) fn locked(&self, session: SessionId) -> bool {
        self.lock().locked(session)
    }

    /// Asks an incarnation to end: its runner reads a byte from the life pipe and ends the agent's program gracefully.
    /// A runner that closed the pipe is killed after the grace period.
    pub(super) fn kill(&self, run: IncarnationId) -> Kill {
        match self.lock().here.get_mut(&run) {
            Some(Occupant::Starting { stop }) => *stop = true,
            Some(Occupant::Running { life, stop, .. }) if !*stop => {
                *stop = true;
                crate::crash::point("ask-end");
                if let Some(Err(error)) = life.as_mut().map(|life| life.write_all(ASK)) {
                    tracing::debug!(session = %run.session, %error, "cannot ask an agent to stop");
                }
                return Kill::Hurry;
            }
            Some(_) => {}
            None => return Kill::Clear,
        }
        Kill::Nothing
    }

    /// Kills the process group unless its leader ends within `grace`. Processes that left the group see the end of the
    /// life pipe.
    pub(super) fn hurry(&self, run: IncarnationId, grace: Duration) {
        let runs = |entries: &Entries| matches!(entries.here.get(&run), Some(Occupant::Running { .. }));
        let (mut entries, _) = self.wait_while(grace, runs);
        if let Some(Occupant::Running { tree, life, .. }) = entries.here.get_mut(&run) {
            drop(life.take());
            tree.force();
        }
    }

    /// Closes the daemon's ends of the life pipes, as its death would.
    #[cfg(test)]
    pub(super) fn close_life_pipes(&self) {
        for occupant in self.lock().here.values_mut() {
            if let Occupant::Running { life, .. } = occupant {
                drop(life.take());
            }
        }
    }
}
