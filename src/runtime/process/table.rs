//! What runs, and what is told about it.

use std::io::PipeWriter;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::model::id::SessionId;
use crate::model::incarnation::Exit;
use crate::runtime::register::{self, Register};

/// One incarnation of one session.
pub(super) type Key = (SessionId, u32);

/// What an incarnation is to this runtime.
pub(super) enum Occupant {
    /// It is not ours: whatever an earlier daemon left of it is being ended.
    Clearing,
    /// Its start is being prepared; `stop` asks to give up.
    Starting { stop: bool },
    /// Its leader runs, or has ended and is not reaped, so that the group id is its own.
    Running { group: Pid, life: Option<PipeWriter>, stop: bool },
    /// Its leader has ended; the rest is being ended.
    Ending,
}

/// What is to be done after a kill.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kill {
    /// Nothing: it is under way.
    Nothing,
    /// Make sure that nothing is left.
    Clear,
    /// It was asked to end; make it end if it does not.
    Hurry,
}

type Entries = register::Entries<Key, Occupant>;

/// All incarnations this runtime has to do with.
pub(super) type Table = Register<Key, Occupant>;

impl Entries {
    fn gone(&mut self, (session, incarnation): Key, exit: Exit, stderr_tail: String) {
        self.told.gone(session, incarnation, exit, stderr_tail);
    }

    fn running(&self, (session, incarnation): Key) {
        self.told.running(session, incarnation);
    }

    fn of_session(&self, session: SessionId) -> impl Iterator<Item = (u32, &Occupant)> {
        self.here.range((session, 0)..=(session, u32::MAX)).map(|((_, incarnation), occupant)| (*incarnation, occupant))
    }

    /// Whether a run of the session has the session's lock, so that no other can have left anything.
    fn locked(&self, session: SessionId) -> bool {
        self.of_session(session).any(|(_, occupant)| matches!(occupant, Occupant::Running { .. } | Occupant::Ending))
    }

    fn refusal(&self, (session, incarnation): Key) -> Option<String> {
        self.told.refusal(session, incarnation).or_else(|| {
            self.of_session(session)
                .find(|(_, occupant)| !matches!(occupant, Occupant::Clearing))
                .map(|(other, _)| format!("incarnation {other} of {session} is still there"))
        })
    }
}

impl Table {
    /// Whether the incarnation is to be started by the caller. If not, it was said or will be said what becomes of it.
    pub(super) fn begin(&self, key: Key) -> bool {
        let mut entries = self.lock();
        if let Some(occupant) = entries.here.get(&key) {
            if matches!(occupant, Occupant::Running { stop: false, .. }) {
                entries.running(key);
            }
            return false;
        }
        if let Some(refusal) = entries.refusal(key) {
            entries.gone(key, Exit::NotStarted(refusal), String::new());
            return false;
        }
        entries.here.insert(key, Occupant::Starting { stop: false });
        true
    }

    /// Reports that an incarnation of which there is nothing could not be started.
    pub(super) fn refuse(&self, key: Key, reason: String) {
        let mut entries = self.lock();
        if !entries.here.contains_key(&key) {
            entries.gone(key, Exit::NotStarted(reason), String::new());
        }
    }

    /// Whether its end was asked for while it is being started.
    pub(super) fn stopped(&self, key: Key) -> bool {
        !matches!(self.lock().here.get(&key), Some(Occupant::Starting { stop: false }))
    }

    /// It runs. Tells whether its end was asked for meanwhile.
    pub(super) fn started(&self, key: Key, group: Pid, life: PipeWriter) -> bool {
        let mut entries = self.lock();
        let running = Occupant::Running { group, life: Some(life), stop: false };
        let before = entries.here.insert(key, running);
        entries.running(key);
        matches!(before, Some(Occupant::Starting { stop: true }))
    }

    /// Its leader has ended: nobody else signals its group from now on, so that the leader can be reaped.
    pub(super) fn leader_ended(&self, key: Key) {
        self.lock().here.insert(key, Occupant::Ending);
        self.changed();
    }

    /// Nothing of it is left.
    pub(super) fn finish(&self, key: Key, exit: Exit, stderr_tail: String) {
        let mut entries = self.lock();
        entries.here.remove(&key);
        entries.gone(key, exit, stderr_tail);
        self.changed();
    }

    /// The question what became of it will not be answered now; it may be asked again.
    pub(super) fn forget(&self, key: Key) {
        self.lock().here.remove(&key);
        self.changed();
    }

    /// Whether the caller is to make sure that nothing is left of it, and then to say so.
    pub(super) fn inquire(&self, key: Key) -> bool {
        let mut entries = self.lock();
        match entries.here.get(&key) {
            Some(Occupant::Running { stop: false, .. }) => entries.running(key),
            Some(_) => {}
            None if entries.locked(key.0) => entries.gone(key, Exit::Unknown, String::new()),
            None => {
                entries.here.insert(key, Occupant::Clearing);
                return true;
            }
        }
        false
    }

    /// Whether a run of the session has its lock.
    pub(super) fn locked(&self, session: SessionId) -> bool {
        self.lock().locked(session)
    }

    /// Asks it to end. Closing the life pipe reaches those who left the process group.
    pub(super) fn kill(&self, key: Key) -> Kill {
        match self.lock().here.get_mut(&key) {
            Some(Occupant::Starting { stop }) => *stop = true,
            Some(Occupant::Running { group, life, stop }) if !*stop => {
                *stop = true;
                drop(life.take());
                signal(*group, Signal::TERM);
                return Kill::Hurry;
            }
            Some(_) => {}
            None => return Kill::Clear,
        }
        Kill::Nothing
    }

    /// Ends its process group by force unless its leader ends within `grace`.
    pub(super) fn hurry(&self, key: Key, grace: Duration) {
        let runs = |entries: &Entries| matches!(entries.here.get(&key), Some(Occupant::Running { .. }));
        let (entries, _) = self.wait_while(grace, runs);
        if let Some(Occupant::Running { group, .. }) = entries.here.get(&key) {
            signal(*group, Signal::KILL);
        }
    }

    /// Does what the death of the daemon does: closes its ends of the life pipes.
    #[cfg(test)]
    pub(super) fn close_life_pipes(&self) {
        for occupant in self.lock().here.values_mut() {
            if let Occupant::Running { life, .. } = occupant {
                drop(life.take());
            }
        }
    }
}

/// Only for groups whose leader is a child that is not reaped yet: then the number is nobody else's.
pub(super) fn signal(group: Pid, signal: Signal) {
    crate::crash::point("kill");
    if let Err(error) = kill_process_group(group, signal) {
        tracing::debug!(group = group.as_raw_nonzero().get(), %error, "nothing is left of a process group");
    }
}
