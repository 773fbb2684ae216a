//! The life of incarnations. Their end has a fixed order: the runtime confirms that the process is gone, its mailbox is
//! collected completely, its claims are reset, and only then may the next one start.

use crate::lifecycle::failures::Failures;
use crate::model::configure::Settings;
use crate::model::effect::Effect;
use crate::model::id::AgentId;
use crate::model::incarnation::{Exit, Incarnation, IncarnationId, Phase, StopReason};
use crate::model::input::RuntimeEvent;
use crate::model::journal::Event;
use crate::model::policy::Policy;
use crate::model::report::Reply;
use crate::model::time::Awake;
use crate::rows::{budgets, journal, sessions};
use crate::tx::{Hook, Tx};
use crate::{Result, readable};

pub(crate) mod budget;
pub(crate) mod capacity;
pub(crate) mod caps;
pub(crate) mod context;
pub(crate) mod dispatch;
pub(crate) mod failures;
pub(crate) mod fallback;
pub(crate) mod fetch;
pub(crate) mod halt;
pub(crate) mod mailbox_view;
pub(crate) mod network;
pub(crate) mod peek;
pub(crate) mod rate_limit;
pub(crate) mod recap;
pub(crate) mod replies;
pub(crate) mod requeue;
pub(crate) mod retry;
pub(crate) mod rollout;
pub(crate) mod start_backoff;
pub(crate) mod unattended;

// All live incarnations are examined in one input.
const _: () = assert!(Settings::MAX_CONTAINERS as usize <= Policy::STANDARD.rows_per_input);

/// The live incarnations of the selected agents. Sessions that cannot be read are skipped.
pub(crate) fn live_of(tx: &Tx<'_, '_>, of: impl Fn(AgentId) -> bool) -> Result<Vec<IncarnationId>> {
    let mut living = Vec::new();
    for live in tx.db.live_incarnations.iter(tx)? {
        let (session, number) = live?;
        if readable(sessions::load(tx, session))?.is_some_and(|row| of(row.agent)) {
            living.push(IncarnationId { session, number });
        }
    }
    Ok(living)
}

/// Handles a report of the runtime about an incarnation.
pub(crate) fn runtime_event(tx: &mut Tx<'_, '_>, event: RuntimeEvent) -> Result<Reply> {
    match event {
        RuntimeEvent::Running(session, number) => {
            let id = IncarnationId { session, number };
            let Some(mut incarnation) = tx.db.incarnations.get(tx, &id)? else {
                return Ok(Reply::Done);
            };
            if adopt(&mut incarnation, tx.now.awake) {
                tx.db.incarnations.put(tx, &id, &incarnation)?;
                if incarnation.adopted.is_some() {
                    tx.call(Hook::RunAdopted(id))?;
                }
                stop_if_idle(tx, id)?;
            }
        }
        RuntimeEvent::Outdated(session, number) => {
            let id = IncarnationId { session, number };
            if tx.db.live_incarnations.get(tx, &session)? == Some(number)
                && tx.db.incarnations.require(tx, &id)?.outdated.is_none()
            {
                mark_outdated(tx, id, StopReason::Renewed)?;
            }
        }
        RuntimeEvent::Gone { session, incarnation: number, exit, stderr_tail } => {
            if tx.db.live_incarnations.get(tx, &session)? != Some(number) {
                return Ok(Reply::Done);
            }
            let id = IncarnationId { session, number };
            let mut incarnation = tx.db.incarnations.require(tx, &id)?;
            if !matches!(incarnation.phase, Phase::Collecting { .. }) {
                incarnation.phase = Phase::Collecting { exit, since: tx.now.awake };
                incarnation.stderr_tail = stderr_tail;
                tx.db.incarnations.put(tx, &id, &incarnation)?;
            }
            tx.effects.push(Effect::CollectRest(session, number));
        }
    }
    Ok(Reply::Done)
}

/// Records that an incarnation runs, and adopts one that an earlier run of the daemon started. Returns whether anything
/// changed.
fn adopt(incarnation: &mut Incarnation, now: Awake) -> bool {
    let before = (incarnation.phase.clone(), incarnation.adopted);
    if !matches!(incarnation.phase, Phase::Starting | Phase::Running) {
        return false;
    }
    incarnation.phase = Phase::Running;
    if incarnation.run() != now.run() {
        incarnation.adopted = Some(now);
    }
    before != (incarnation.phase.clone(), incarnation.adopted)
}

/// Stops an incarnation.
pub(crate) fn stop(tx: &mut Tx<'_, '_>, id: IncarnationId, why: StopReason) -> Result<()> {
    begin_stop(tx, id, why)?;
    tx.effects.push(Effect::Stop(id.session, id.number));
    Ok(())
}

/// Records that an incarnation is being stopped. The caller adds the effect.
fn begin_stop(tx: &mut Tx<'_, '_>, id: IncarnationId, why: StopReason) -> Result<()> {
    let mut incarnation = tx.db.incarnations.require(tx, &id)?;
    if matches!(incarnation.phase, Phase::Starting | Phase::Running) {
        incarnation.phase = Phase::Stopping { why, since: tx.now.awake };
        incarnation.stopped_for = Some(why);
        tx.db.incarnations.put(tx, &id, &incarnation)?;
        journal::of_session(tx, id.session, Event::Stopped(id.number, why))?;
    }
    Ok(())
}

/// Marks an incarnation as outdated. It receives nothing more and ends at once if idle, otherwise with its turn.
pub(crate) fn mark_outdated(tx: &mut Tx<'_, '_>, id: IncarnationId, why: StopReason) -> Result<()> {
    tx.db.incarnations.update(tx, &id, |incarnation| incarnation.outdated = Some(why))?;
    stop_if_idle(tx, id)
}

/// Stops an outdated incarnation if it is idle.
pub(crate) fn stop_if_idle(tx: &mut Tx<'_, '_>, id: IncarnationId) -> Result<()> {
    let Some(incarnation) = tx.db.incarnations.get(tx, &id)? else { return Ok(()) };
    let lives = matches!(incarnation.phase, Phase::Starting | Phase::Running);
    match incarnation.outdated {
        Some(why) if lives && tx.db.claimed_messages.first_in(tx, &id.session)?.is_none() => stop(tx, id, why),
        _ => Ok(()),
    }
}

/// Closes an incarnation whose mailbox was collected completely. Its unfinished messages are queued again. `tools` are
/// those that it used in its last turn.
pub(crate) fn close(tx: &mut Tx<'_, '_>, id: IncarnationId, tools: &[String]) -> Result<()> {
    let IncarnationId { session, number } = id;
    if tx.db.live_incarnations.get(tx, &session)? != Some(number) {
        return Ok(());
    }
    let mut incarnation = tx.db.incarnations.require(tx, &id)?;
    let Phase::Collecting { exit, .. } = incarnation.phase.clone() else { return Ok(()) };
    let lost = decide_loss(&incarnation, &exit, tx.now.awake);
    let end = describe_end(&incarnation, &exit, tx.now.awake);
    let limit = tx.policy.rows_per_input / 4; // every requeued message changes a few rows
    let (mut worked_on, mut failures) = (false, Failures::default());
    let claims = tx.db.claimed_messages.collect_prefix(tx, &session, limit)?;
    let (more, unfinished) = (claims.len() >= limit, !claims.is_empty());
    for (_, message) in claims {
        worked_on |= requeue::requeue(tx, message, number, lost, &end, &mut failures)?.trigger;
    }
    failures.settle(tx)?;
    if more {
        // The incarnation stays open until every claim is reset. Then another collection is requested, which closes it.
        tx.effects.push(Effect::CollectRest(session, number));
        return Ok(());
    }
    if start_backoff::decide_failed(&incarnation, &exit, tx.policy, tx.now.awake) && lost == Loss::Own {
        start_backoff::failed(tx, session, &end)?;
    } else if lost == Loss::Own && !worked_on && (unfinished || !incarnation.claimed) {
        // It lived but never began with its messages. That counts as a try, or it would be started for ever. A message
        // that arrived while an otherwise idle agent was exiting costs no try.
        for (_, message) in tx.db.ready_messages.collect_prefix(tx, &session, limit)? {
            requeue::requeue(tx, message, number, lost, &end, &mut failures)?;
        }
        failures.settle(tx)?;
    }
    halt::ended(tx, id, tools)?;
    budgets::release_session(tx, session)?;
    journal::of_session(tx, session, Event::Ended(number, exit.clone()))?;
    incarnation.phase = Phase::Closed { exit, at: tx.now.wall };
    (incarnation.tool, incarnation.tool_since) = (None, None);
    tx.db.incarnations.put(tx, &id, &incarnation)?;
    sessions::update(tx, session, |row| row.live = None)?;
    replies::forget(tx, session)?;
    tx.call(Hook::RunClosed(id))?;
    budget::reconsider(tx)?;
    capacity::assign_free_slots(tx)
}

/// Who caused the end of an incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The daemon or the operator: it costs no try.
    Ours,
    /// The agent: unfinished messages use up a try and wait out a backoff.
    Own,
}

fn decide_loss(incarnation: &Incarnation, exit: &Exit, now: Awake) -> Loss {
    let earlier_run = incarnation.run() != now.run();
    match (incarnation.stopped_for, exit) {
        (Some(StopReason::MadeRoom | StopReason::AgentRemoved | StopReason::Renewed), _)
        | (Some(StopReason::TurnFailed | StopReason::Restarted | StopReason::Asked | StopReason::ProviderChanged), _) => {
            Loss::Ours
        }
        (Some(StopReason::ClaimStuck | StopReason::Silent | StopReason::Ceiling), _) => Loss::Own,
        // It ended with the daemon.
        (None, _) if earlier_run => Loss::Ours,
        // Its start was never performed.
        (None, Exit::Unknown) if !incarnation.claimed => Loss::Ours,
        (None, _) => Loss::Own,
    }
}

/// Describes for people why or how an incarnation ended, and what it was doing.
fn describe_end(incarnation: &Incarnation, exit: &Exit, now: Awake) -> String {
    let how = match incarnation.stopped_for {
        Some(StopReason::ClaimStuck) => "nothing happened after it took the message, so it was ended".to_owned(),
        Some(StopReason::Ceiling) => "nothing happened for too long, so it was ended".to_owned(),
        Some(StopReason::Silent) => "its runner fell silent, so it was ended".to_owned(),
        _ => describe(exit),
    };
    match (&incarnation.tool, incarnation.tool_since) {
        (Some(tool), Some(since)) => {
            format!("{how} (it was running the tool {} for {})", tool.name, incarnation.age(since, now))
        }
        _ => how,
    }
}

/// An exit in words.
pub(crate) fn describe(exit: &Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("signal {signal}"),
        Exit::NotStarted(why) => why.clone(),
        Exit::Unknown => "it disappeared".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crate::lifecycle::*;
    use crate::model::incarnation::{SpecDigest, ToolUse};

    const NOW: Awake = Awake::new(2, 60_000);

    fn running() -> Incarnation {
        Incarnation {
            phase: Phase::Running,
            beat: NOW,
            progress: NOW,
            claimed: true,
            ..Incarnation::new(Awake::new(2, 0), crate::model::Timestamp::from_millis(0), SpecDigest::new(0))
        }
    }

    #[test]
    fn only_the_agents_own_failures_count() {
        let (now, base) = (NOW, running());
        let stopped = |why| Incarnation { stopped_for: Some(why), ..base.clone() };
        let unclaimed = Incarnation { claimed: false, ..base.clone() };
        let earlier = Incarnation { launched: Awake::new(1, 9_000), ..base.clone() };
        let adopted = Incarnation { adopted: Some(Awake::new(2, 5)), ..earlier.clone() };
        for (incarnation, exit, loss) in [
            (base.clone(), Exit::Signal(11), Loss::Own),
            (base.clone(), Exit::Code(0), Loss::Own),
            (unclaimed.clone(), Exit::Code(0), Loss::Own),
            (unclaimed.clone(), Exit::Unknown, Loss::Ours),
            (unclaimed.clone(), Exit::Code(1), Loss::Own),
            (unclaimed, Exit::NotStarted("no such program".into()), Loss::Own),
            (base.clone(), Exit::Unknown, Loss::Own),
            (earlier, Exit::Code(137), Loss::Ours),
            (adopted, Exit::Code(137), Loss::Own),
            (stopped(StopReason::TurnFailed), Exit::Signal(15), Loss::Ours),
            (stopped(StopReason::Restarted), Exit::Signal(15), Loss::Ours),
            (stopped(StopReason::Asked), Exit::Signal(9), Loss::Ours),
            (stopped(StopReason::ClaimStuck), Exit::Signal(9), Loss::Own),
            (stopped(StopReason::MadeRoom), Exit::Signal(15), Loss::Ours),
            (stopped(StopReason::ProviderChanged), Exit::Signal(9), Loss::Ours),
        ] {
            assert_eq!(decide_loss(&incarnation, &exit, now), loss, "{incarnation:?} {exit:?}");
        }
    }

    #[test]
    fn ends_are_told_in_words() {
        let tool = |since| Incarnation {
            tool: Some(ToolUse { name: "Bash".into(), timeout: None }),
            tool_since: Some(since),
            ..running()
        };
        let stopped = |why| Incarnation { stopped_for: Some(why), ..running() };
        for (incarnation, words) in [
            (running(), "signal 9"),
            (stopped(StopReason::MadeRoom), "signal 9"),
            (stopped(StopReason::ClaimStuck), "nothing happened after it took the message, so it was ended"),
            (stopped(StopReason::Ceiling), "nothing happened for too long, so it was ended"),
            (stopped(StopReason::Silent), "its runner fell silent, so it was ended"),
            (tool(Awake::new(2, 30_000)), "signal 9 (it was running the tool Bash for 30 s)"),
        ] {
            assert_eq!(describe_end(&incarnation, &Exit::Signal(9), NOW), words);
        }
    }
}
