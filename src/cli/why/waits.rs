//! Describes what a message waits for, with the next try.

use crate::cli::{budgets, daemon_status, human_time, labels, lookup, problems};
use crate::clock;
use crate::config::Paths;
use crate::engine::waits_for_person;
use crate::model::id::{MessageId, SessionId};
use crate::model::incarnation::{IncarnationId, Phase};
use crate::model::journal::Event;
use crate::model::message::{Due, Message, MessageState};
use crate::model::rate_limit::{LimitCause, RateLimit};
use crate::model::session::ChatSession;
use crate::model::time::{Awake, Millis, Timestamp};
use crate::state::{self, Owned, Read, Tables, Text};

/// Newest journal entries of a message that are searched for the reason of its wait.
const ENTRIES_MAX: usize = 20;

/// Whether a daemon runs, and its awake time, by which retries are timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Daemon {
    /// The daemon runs. An old one does not report its time.
    Running(Option<Awake>),
    /// None runs.
    Stopped,
    /// A process holds the data directory but could not be asked.
    Unknown,
}

/// What something waits for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Wait {
    /// The description; none if the state says everything.
    pub(super) words: Option<String>,
    /// The time of the next try, if the machine stays awake.
    pub(super) next_try: Option<Timestamp>,
}

impl Daemon {
    pub(super) fn ask(paths: &Paths) -> Self {
        match daemon_status::ask(paths) {
            Ok(Some(status)) => Self::Running(status.awake),
            Ok(None) => Self::Stopped,
            Err(_) => Self::Unknown,
        }
    }

    /// The remaining time of a wait until a point of awake time; none if it is unknown. The next start of a daemon ends
    /// all waits.
    fn left(self, until: Awake) -> Option<Millis> {
        match self {
            Self::Running(Some(now)) if now < until => Some(until.since(now)),
            Self::Running(Some(_)) => Some(Millis::ZERO),
            Self::Running(None) | Self::Stopped | Self::Unknown => None,
        }
    }

    /// The next try of something that waits until a point of awake time.
    pub(super) fn next_try(self, until: Awake) -> String {
        match (self, self.left(until)) {
            (_, Some(Millis::ZERO)) => "next try now".to_owned(),
            (_, Some(left)) => format!("next try in {}", human_time::length_up(left)),
            (Self::Stopped, None) => "next try when the daemon starts".to_owned(),
            (_, None) => "retried automatically".to_owned(),
        }
    }

    /// The time of the next try, if the machine stays awake; none if it is unknown.
    pub(super) fn time(self, until: Awake) -> Option<Timestamp> {
        self.left(until).map(|left| clock::wall().plus(left))
    }

    /// A wait until a point of awake time.
    fn wait(self, until: Awake, words: String) -> Wait {
        Wait { words: Some(words), next_try: self.time(until) }
    }
}

impl Wait {
    fn words(words: impl Into<String>) -> Self {
        Self { words: Some(words.into()), next_try: None }
    }
}

/// What a message waits for, or how it ended.
pub(super) fn of_message(
    db: &Tables,
    txn: &Read<'_>,
    daemon: Daemon,
    id: MessageId,
    message: &Message,
) -> Result<Wait, state::Error> {
    // If it has fallbacks, the message waits for the first of several providers.
    let has_fallbacks = db.agents.get(txn, &message.agent)?.is_some_and(|agent| !agent.settings.fallback.is_empty());
    let limit = if has_fallbacks { None } else { db.rate_limits.get(txn, &message.agent)? };
    match &message.state {
        MessageState::Pending(Due::At(_)) if db.fetches.contains(txn, &message.body)? => {
            Ok(Wait::words("waiting for its files to be downloaded"))
        }
        MessageState::Pending(Due::Budget(until)) if message.trigger => {
            Ok(Wait { words: Some(of_budget(db, txn, id, *until)?), next_try: Some(*until) })
        }
        MessageState::Pending(Due::Retry(until)) => match why_retried(db, txn, id)? {
            Some(Event::TurnFailed { tries, why, .. }) => Ok(retry(daemon, *until, "failed", tries, &why)),
            Some(Event::TurnLost { tries, why, .. }) => Ok(retry(daemon, *until, "was lost", tries, &why)),
            Some(Event::PutOff { why, .. }) => Ok(limit.map_or_else(
                || of_refusal(daemon, *until, LimitCause::Limited, &why),
                |limit| of_limit(daemon, &limit, *until),
            )),
            Some(Event::Unreachable { why, .. }) => Ok(limit.map_or_else(
                || of_refusal(daemon, *until, LimitCause::Unreachable, &why),
                |limit| of_limit(daemon, &limit, *until),
            )),
            _ => Ok(daemon.wait(*until, format!("waiting, {}", daemon.next_try(*until)))),
        },
        MessageState::Pending(Due::Now) if message.trigger => of_ready(db, txn, daemon, message, limit),
        MessageState::Pending(Due::Now) => Ok(Wait::words("context: waiting for a message that asks for a turn")),
        state => Ok(Wait { words: labels::state_detail(state), next_try: None }),
    }
}

/// A wait for room in a budget, and who was asked.
fn of_budget(db: &Tables, txn: &Read<'_>, id: MessageId, until: Timestamp) -> Result<String, state::Error> {
    let mut name = None;
    for (Owned { id: entry, .. }, ()) in db.journal_by_message.collect_last(txn, &id, ENTRIES_MAX)? {
        if let Some(Event::OverBudget { budget, .. }) = db.journal.get(txn, &entry)?.map(|entry| entry.event) {
            name = Some(budget);
            break;
        }
    }
    let until = human_time::local(&until.to_string());
    let Some(name) = name else { return Ok(format!("waiting for room in a budget, at the latest until {until}")) };
    let used = budgets::used(db, txn, &name)?.map_or_else(String::new, |used| format!(" ({used} spent)"));
    let asked = match Text::new(name.as_str()).ok().map(|name| db.approvals_by_budget.get(txn, &name)).transpose()? {
        Some(Some(approval)) => format!("; {approval} asks whether it may go on"),
        _ => String::new(),
    };
    Ok(format!("waiting for room in the budget {name}{used}, at the latest until {until}{asked}"))
}

/// Why the last try of a message failed and was repeated.
fn why_retried(db: &Tables, txn: &Read<'_>, id: MessageId) -> Result<Option<Event>, state::Error> {
    for (Owned { id: entry, .. }, ()) in db.journal_by_message.collect_last(txn, &id, ENTRIES_MAX)? {
        let event = db.journal.get(txn, &entry)?.map(|entry| entry.event);
        if let Some(
            Event::TurnFailed { .. } | Event::TurnLost { .. } | Event::PutOff { .. } | Event::Unreachable { .. },
        ) = event
        {
            return Ok(event);
        }
    }
    Ok(None)
}

fn retry(daemon: Daemon, until: Awake, how: &str, tries: u32, why: &str) -> Wait {
    let why = labels::cause(why);
    daemon.wait(until, format!("try {tries} {how}, {}: {why}", daemon.next_try(until)))
}

/// A wait for the provider, until the later of two ends.
fn of_limit(daemon: Daemon, limit: &RateLimit, until: Awake) -> Wait {
    of_refusal(daemon, limit.until.max(until), limit.cause, &limit.why)
}

fn of_refusal(daemon: Daemon, until: Awake, cause: LimitCause, why: &str) -> Wait {
    let (why, next) = (labels::cause(why), daemon.next_try(until));
    let what = match cause {
        LimitCause::Limited => "rate-limited by the provider",
        LimitCause::Unreachable => "the provider cannot be reached",
    };
    daemon.wait(until, format!("{what}, {next}: {why}"))
}

/// What a message that is ready for its agent waits for.
fn of_ready(
    db: &Tables,
    txn: &Read<'_>,
    daemon: Daemon,
    message: &Message,
    limit: Option<RateLimit>,
) -> Result<Wait, state::Error> {
    let (agent, session) = (message.agent, message.session);
    if let Some(words) = problems::frozen_of(db, txn, agent)? {
        return Ok(Wait::words(words));
    }
    if let Some(agent) = db.agents.get(txn, &agent)?
        && let Some(turns) = waits_for_person(db, txn, session, &agent)?
    {
        return Ok(Wait::words(format!(
            "its session had {turns} turns in a row without a word from a person; a message from a person there lets it go on"
        )));
    }
    // Also applies while the run that met the limit has not ended yet.
    if let Some(limit) = &limit {
        return Ok(of_limit(daemon, limit, limit.until));
    }
    if let Some(number) = db.live_incarnations.get(txn, &session)? {
        let run = db.incarnations.get(txn, &IncarnationId::new(session, number))?;
        let starting = run.is_some_and(|run| run.phase == Phase::Starting);
        let what = if starting { "is being started" } else { "has received it but not claimed it yet" };
        return Ok(Wait::words(format!("run {number} of {session} {what}")));
    }
    let row = lookup::session(db, txn, session)?;
    if let Some(row) = row.as_ref().filter(|row| row.failed_starts > 0) {
        return failed_starts(db, txn, daemon, session, row);
    }
    Ok(Wait::words(match daemon {
        Daemon::Stopped => "no daemon is running: start one with `hearth run` or `hearth up`",
        Daemon::Running(_) | Daemon::Unknown => {
            "waiting to be started; `hearth status` shows the slots, and what keeps agents from starting"
        }
    }))
}

/// A session whose agent cannot be started.
pub(super) fn failed_starts(
    db: &Tables,
    txn: &Read<'_>,
    daemon: Daemon,
    id: SessionId,
    row: &ChatSession,
) -> Result<Wait, state::Error> {
    let times = labels::count(row.failed_starts, "start", "starts in a row");
    let why = problems::last_end(db, txn, id)?.map_or_else(String::new, |why| format!(": {}", labels::cause(&why)));
    let next = row.start_after.map_or_else(|| "next try now".to_owned(), |after| daemon.next_try(after));
    let words = format!("its agent does not start, {times} failed, {next}{why}");
    Ok(row.start_after.map_or_else(|| Wait::words(words.clone()), |after| daemon.wait(after, words.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_are_said_as_a_time_from_now() {
        let until = Awake::new(2, 16_000);
        let at = |run, ms| Daemon::Running(Some(Awake::new(run, ms)));
        for (daemon, text) in [
            (at(2, 0), "next try in 16 s"),
            (at(2, 15_400), "next try in 1 s"),
            (at(2, 16_000), "next try now"),
            (at(2, 20_000), "next try now"),
            // Waits of an earlier run are over.
            (at(3, 0), "next try now"),
            (Daemon::Stopped, "next try when the daemon starts"),
            (Daemon::Unknown, "retried automatically"),
            (Daemon::Running(None), "retried automatically"),
        ] {
            assert_eq!(daemon.next_try(until), text, "{daemon:?}");
        }
        assert_eq!(at(2, 0).next_try(Awake::new(2, 900_000)), "next try in 15 min");
    }
}
