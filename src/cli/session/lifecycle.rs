//! Lifecycle state of a session, and its reason.

use std::borrow::Cow;

use serde::Serialize;

use crate::model::record::SpeakerRole;
use crate::model::time::Millis;

/// Time without a heartbeat after which a holder counts as stalled.
const BEAT_MAX: Millis = Millis::minutes(5);

/// Facts from which a session's state follows.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SessionFacts {
    /// The holder of its lease.
    pub(super) holder: Option<SessionHolder>,
    pub(super) messages: u64,
    /// Role of the last message, and whether its writer marked the end of the turn.
    pub(super) last: Option<(SpeakerRole, Option<bool>)>,
    /// Whether the directory exists.
    pub(super) present: bool,
    /// Whether the directory has uncommitted changes.
    pub(super) dirty: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SessionHolder {
    /// Whether its process runs.
    pub(super) alive: bool,
    /// Time since its last heartbeat.
    pub(super) silent: Millis,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// A process works on it.
    Active,
    /// A process holds it and has been silent for too long.
    Stalled,
    /// Its holder is dead.
    Orphaned,
    /// It is not in use.
    Saved,
    /// It has no messages.
    Empty,
    /// It ended in the middle of a turn, and the directory has uncommitted changes.
    Abandoned,
}

/// Why a session is orphaned or abandoned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reason {
    /// Its process ended without releasing it.
    ProcessKilled,
    /// The directory is missing.
    WorkspaceMissing,
    /// The last turn has no end.
    TurnUnfinished,
}

/// A state for people and programs.
#[derive(Debug, Serialize)]
pub(super) struct LifecycleJson {
    pub(super) state: State,
    pub(super) abandoned_reason: Option<Reason>,
    /// The state in older terms: `running_process` or `saved_only`.
    pub(super) kind: &'static str,
    pub(super) abandoned: bool,
    pub(super) workspace_dirty: bool,
    pub(super) dirty_file_count: Option<u64>,
    /// Names of some changed files.
    pub(super) dirty_files: Vec<String>,
    pub(super) pid: Option<u32>,
    pub(super) lease_epoch: Option<u64>,
    /// Always null: Hearth checks processes, not terminals.
    pub(super) pane_id: Option<String>,
    pub(super) pane_command: Option<String>,
    pub(super) pane_path: Option<String>,
    pub(super) panes: Vec<String>,
    pub(super) observed_at_ms: i64,
}

/// The state of a session.
pub(super) fn decide(facts: SessionFacts) -> (State, Option<Reason>) {
    let killed = facts.holder.is_some_and(|holder| !holder.alive);
    let unfinished = facts.last.is_some_and(|(role, ends)| match ends {
        Some(ends) => !ends,
        None => role != SpeakerRole::Assistant && role != SpeakerRole::System,
    });
    match facts.holder {
        Some(holder) if holder.alive && holder.silent <= BEAT_MAX => (State::Active, None),
        Some(holder) if holder.alive => (State::Stalled, None),
        _ if !facts.present && facts.messages > 0 => (State::Abandoned, Some(Reason::WorkspaceMissing)),
        _ if killed && facts.dirty => (State::Abandoned, Some(Reason::ProcessKilled)),
        _ if killed => (State::Orphaned, Some(Reason::ProcessKilled)),
        _ if facts.messages == 0 => (State::Empty, None),
        _ if unfinished && facts.dirty => (State::Abandoned, Some(Reason::TurnUnfinished)),
        _ => (State::Saved, None),
    }
}

impl State {
    /// The word for people.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Stalled => "stalled",
            Self::Orphaned => "orphaned",
            Self::Saved => "saved",
            Self::Empty => "empty",
            Self::Abandoned => "abandoned",
        }
    }

    /// The word of programs that know only whether something runs.
    pub(super) const fn kind(self) -> &'static str {
        match self {
            Self::Active | Self::Stalled => "running_process",
            Self::Orphaned | Self::Saved | Self::Empty | Self::Abandoned => "saved_only",
        }
    }
}

impl Reason {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::ProcessKilled => "its process was killed",
            Self::WorkspaceMissing => "the directory is gone",
            Self::TurnUnfinished => "the last turn has no end",
        }
    }
}

/// A state in one line.
pub(super) fn signal(state: State, reason: Option<Reason>, dirty: bool) -> String {
    let mut parts = vec![Cow::from(state.as_str())];
    parts.extend(dirty.then_some(Cow::from("dirty directory")));
    parts.extend(reason.map(|reason| Cow::from(reason.as_str())));
    parts.join(" · ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_and_their_reasons() {
        use SpeakerRole::{Assistant, Tool, User};
        let alive = |seconds| Some(SessionHolder { alive: true, silent: Millis::seconds(seconds) });
        let dead = Some(SessionHolder { alive: false, silent: Millis::ZERO });
        let none: Option<SessionHolder> = None;
        let (here, gone, dirty, clean) = (true, false, true, false);
        for ((holder, messages, last, present, is_dirty), state, reason) in [
            ((alive(0), 0, None, here, clean), State::Active, None),
            ((alive(300), 3, Some((User, None)), here, dirty), State::Active, None),
            ((alive(301), 3, None, here, dirty), State::Stalled, None),
            ((dead, 3, Some((Assistant, None)), here, clean), State::Orphaned, Some(Reason::ProcessKilled)),
            ((dead, 3, Some((Assistant, None)), here, dirty), State::Abandoned, Some(Reason::ProcessKilled)),
            ((none, 0, None, here, dirty), State::Empty, None),
            ((none, 2, Some((Assistant, None)), here, dirty), State::Saved, None),
            ((none, 1, Some((User, None)), here, clean), State::Saved, None),
            ((none, 1, Some((User, None)), here, dirty), State::Abandoned, Some(Reason::TurnUnfinished)),
            ((none, 3, Some((Tool, None)), here, dirty), State::Abandoned, Some(Reason::TurnUnfinished)),
            ((none, 3, Some((Assistant, Some(false))), here, dirty), State::Abandoned, Some(Reason::TurnUnfinished)),
            ((none, 3, Some((Tool, Some(true))), here, dirty), State::Saved, None),
            ((none, 3, Some((Assistant, None)), gone, clean), State::Abandoned, Some(Reason::WorkspaceMissing)),
            ((none, 0, None, gone, clean), State::Empty, None),
        ] {
            let facts = SessionFacts { holder, messages, last, present, dirty: is_dirty };
            assert_eq!(decide(facts), (state, reason), "{facts:?}");
        }
    }

    #[test]
    fn a_state_is_one_line() {
        assert_eq!(signal(State::Saved, None, false), "saved");
        assert_eq!(
            signal(State::Abandoned, Some(Reason::TurnUnfinished), true),
            "abandoned · dirty directory · the last turn has no end"
        );
    }
}
