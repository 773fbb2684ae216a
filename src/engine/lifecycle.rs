//! The life of incarnations, in the one order there is: the runtime confirms that it is gone, its mailbox is collected to
//! the end, its claims are reset, and only then may the next one start.

use super::messages::end;
use super::notice::Told;
use super::requests::replies;
use super::{Applied, Cx, Result, journal, messages, places, readable, remove, sessions, starts};
use crate::model::configure::Settings;
use crate::model::effect::Effect;
use crate::model::id::{AgentId, MessageId, SessionId};
use crate::model::incarnation::{Exit, Incarnation, Phase, StopReason};
use crate::model::input::RuntimeEvent;
use crate::model::journal::Event;
use crate::model::message::{Due, Message, MessageState};
use crate::model::policy::Policy;
use crate::model::time::{Awake, Millis};
use crate::state::Write;

// All that lives is looked at in one input.
const _: () = assert!(Settings::MAX_CONTAINERS as usize <= Policy::STANDARD.rows_per_input);

/// The live incarnations of some agents. A session that cannot be read is nobody's.
pub(super) fn living(cx: &Cx<'_>, txn: &Write<'_>, of: impl Fn(AgentId) -> bool) -> Result<Vec<(SessionId, u32)>> {
    let mut living = Vec::new();
    for live in cx.db.live.iter(txn)? {
        let (session, number) = live?;
        if readable(sessions::load(cx, txn, session))?.is_some_and(|row| of(row.agent)) {
            living.push((session, number));
        }
    }
    Ok(living)
}

/// Takes in what the runtime says of an incarnation.
pub(super) fn runtime_event(cx: &Cx<'_>, txn: &mut Write<'_>, event: RuntimeEvent) -> Result<Applied> {
    let mut effects = Vec::new();
    match event {
        RuntimeEvent::Running(session, number) => {
            let Some(mut incarnation) = cx.db.incarnations.get(txn, &(session, number))? else {
                return Ok(Applied::done(effects));
            };
            if adopt(&mut incarnation, cx.now.awake) {
                cx.db.incarnations.put(txn, &(session, number), &incarnation)?;
                end_outdated(cx, txn, (session, number), &mut effects)?;
            }
        }
        RuntimeEvent::Outdated(session, number) => {
            if cx.db.live.get(txn, &session)? == Some(number)
                && cx.db.incarnations.require(txn, &(session, number))?.outdated.is_none()
            {
                retire(cx, txn, (session, number), StopReason::Renewed, &mut effects)?;
            }
        }
        RuntimeEvent::Gone { session, incarnation: number, exit, stderr_tail } => {
            if cx.db.live.get(txn, &session)? != Some(number) {
                return Ok(Applied::done(effects));
            }
            let mut incarnation = cx.db.incarnations.require(txn, &(session, number))?;
            if !matches!(incarnation.phase, Phase::Collecting { .. }) {
                incarnation.phase = Phase::Collecting { exit, since: cx.now.awake };
                incarnation.stderr_tail = stderr_tail;
                cx.db.incarnations.put(txn, &(session, number), &incarnation)?;
            }
            effects.push(Effect::CollectRest(session, number));
        }
    }
    Ok(Applied::done(effects))
}

/// Notes that an incarnation runs; one of an earlier run of the daemon is this one's from now on. Whether anything changed.
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

/// Asks for the end of an incarnation.
pub(super) fn stop(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (session, number): (SessionId, u32),
    why: StopReason,
    effects: &mut Vec<Effect>,
) -> Result<()> {
    let mut incarnation = cx.db.incarnations.require(txn, &(session, number))?;
    if matches!(incarnation.phase, Phase::Starting | Phase::Running) {
        incarnation.phase = Phase::Stopping { why, since: cx.now.awake };
        incarnation.stopped_for = Some(why);
        cx.db.incarnations.put(txn, &(session, number), &incarnation)?;
        journal::of_session(cx, txn, session, Event::Stopped(number, why))?;
    }
    effects.push(Effect::Stop(session, number));
    Ok(())
}

/// Lets an incarnation get nothing more: it ends at once if it works on nothing, else with its turn.
pub(super) fn retire(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (session, number): (SessionId, u32),
    why: StopReason,
    effects: &mut Vec<Effect>,
) -> Result<()> {
    cx.db.incarnations.update(txn, &(session, number), |incarnation| incarnation.outdated = Some(why))?;
    end_outdated(cx, txn, (session, number), effects)
}

/// Ends an incarnation that gets nothing more, if it works on nothing.
pub(super) fn end_outdated(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (session, number): (SessionId, u32),
    effects: &mut Vec<Effect>,
) -> Result<()> {
    let Some(incarnation) = cx.db.incarnations.get(txn, &(session, number))? else { return Ok(()) };
    let lives = matches!(incarnation.phase, Phase::Starting | Phase::Running);
    match incarnation.outdated {
        Some(why) if lives && cx.db.claims.first_in(txn, &session)?.is_none() => {
            stop(cx, txn, (session, number), why, effects)
        }
        _ => Ok(()),
    }
}

/// Closes an incarnation whose mailbox has been collected to its end: what it left unfinished is due again.
pub(super) fn close(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (session, number): (SessionId, u32),
    effects: &mut Vec<Effect>,
) -> Result<()> {
    if cx.db.live.get(txn, &session)? != Some(number) {
        return Ok(());
    }
    let mut incarnation = cx.db.incarnations.require(txn, &(session, number))?;
    let Phase::Collecting { exit, .. } = incarnation.phase.clone() else { return Ok(()) };
    let lost = decide_loss(&incarnation, &exit, cx.now.awake);
    let end = describe_end(&incarnation, &exit, cx.now.awake);
    let limit = cx.policy.rows_per_input / 4; // what is given back changes a few rows each
    let (mut worked_on, mut told) = (false, Told::default());
    let claims = cx.db.claims.collect_prefix(txn, &session, limit)?;
    let (more, unfinished) = (claims.len() >= limit, !claims.is_empty());
    for (_, message) in claims {
        worked_on |= give_back(cx, txn, (message, number), (lost, &end, &mut told), effects)?.trigger;
    }
    if more {
        // It stays as it is until every claim is reset; then the look that closes it is asked for again.
        effects.push(Effect::CollectRest(session, number));
        return Ok(());
    }
    if starts::decide_failed(&incarnation, &exit, cx.policy, cx.now.awake) && lost == Loss::Own {
        starts::failed(cx, txn, (session, &end), effects)?;
    } else if lost == Loss::Own && !worked_on && (unfinished || !incarnation.claimed) {
        // It lived and never began with what waited for it: that counts as a try, or it would start for ever. What came to
        // one that had ended all it began, just as it died, is for the next one as if it had come a moment later.
        for (_, message) in cx.db.ready.collect_prefix(txn, &session, limit)? {
            give_back(cx, txn, (message, number), (lost, &end, &mut told), effects)?;
        }
    }
    journal::of_session(cx, txn, session, Event::Ended(number, exit.clone()))?;
    incarnation.phase = Phase::Closed { exit, at: cx.now.wall };
    (incarnation.tool, incarnation.tool_since) = (None, None);
    cx.db.incarnations.put(txn, &(session, number), &incarnation)?;
    cx.db.live.delete(txn, &session)?;
    sessions::update(cx, txn, session, |row| row.live = None)?;
    replies::forget(cx, txn, session, effects)?;
    places::hand_on(cx, txn, effects)
}

/// Whose doing the end of an incarnation was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    /// The daemon's or the operator's: nothing counts as a try.
    Ours,
    /// The agent's: unfinished messages count a try and wait out a backoff.
    Own,
}

fn decide_loss(incarnation: &Incarnation, exit: &Exit, now: Awake) -> Loss {
    let earlier_run = incarnation.run() != now.run();
    match (incarnation.stopped_for, exit) {
        (Some(StopReason::MadeRoom | StopReason::AgentRemoved | StopReason::Renewed), _)
        | (Some(StopReason::TurnFailed | StopReason::Restarted), _) => Loss::Ours,
        (Some(StopReason::ClaimStuck | StopReason::Silent | StopReason::Ceiling), _) => Loss::Own,
        // It ended with the daemon.
        (None, _) if earlier_run => Loss::Ours,
        // Its start was never carried out.
        (None, Exit::Unknown) if !incarnation.claimed => Loss::Ours,
        (None, _) => Loss::Own,
    }
}

/// Makes an unfinished message due again, or gives it up after its last try and says so. Returns what it was.
fn give_back(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, incarnation): (MessageId, u32),
    (loss, end_words, told): (Loss, &str, &mut Told),
    effects: &mut Vec<Effect>,
) -> Result<Message> {
    let message = cx.db.messages.require(txn, &id)?;
    if remove::is_removed(cx, txn, message.agent)? {
        return remove::drop_message(cx, txn, id, effects).map(|()| message);
    }
    // Context never fails: it waits for the next turn, whatever became of this one.
    let loss = if message.trigger { loss } else { Loss::Ours };
    match decide_again(cx.policy, loss, message.tries) {
        Again::Now => {
            messages::update(cx, txn, id, |message| message.state = MessageState::Pending(Due::Now))?;
        }
        Again::After { tries, wait } => {
            let due = Due::Retry(cx.now.awake.plus(wait));
            messages::update(cx, txn, id, |message| {
                message.state = MessageState::Pending(due);
                message.tries = tries;
            })?;
            let why = end_words.to_owned();
            journal::of_message(cx, txn, id, Event::TurnLost { incarnation, tries, why })?;
        }
        Again::Never => {
            let error = format!("given up after {} tries; the last one ended with: {end_words}", message.tries);
            journal::of_message(cx, txn, id, Event::GivenUp(error.clone()))?;
            // What only went along is not what somebody waits for: they are told of the message that asked.
            let said = match message.trigger {
                true => told.message_failed(cx, txn, (id, &message, &error), effects)?,
                false => None,
            };
            let failed = MessageState::Failed { error, at: cx.now.wall };
            end(cx, txn, id, (failed, said.into_iter().collect()), effects)?;
        }
    }
    Ok(message)
}

#[derive(Debug, PartialEq, Eq)]
enum Again {
    Now,
    After { tries: u32, wait: Millis },
    Never,
}

fn decide_again(policy: &Policy, loss: Loss, tries: u32) -> Again {
    match loss {
        Loss::Ours => Again::Now,
        Loss::Own if tries >= policy.max_tries => Again::Never,
        Loss::Own => Again::After { tries: tries + 1, wait: policy.backoff(tries) },
    }
}

/// The end of an incarnation in words for people: why it was ended, or how it ended, and what it was doing.
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
pub(super) fn describe(exit: &Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("signal {signal}"),
        Exit::NotStarted(why) => why.clone(),
        Exit::Unknown => "it disappeared".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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

    /// Waits and tries are NanoClaw's: 5, 10, 20, 40, 80 s, then failed.
    #[test]
    fn tries_back_off_and_end() {
        let policy = &Policy::STANDARD;
        let waits: Vec<Again> = (0..6).map(|tries| decide_again(policy, Loss::Own, tries)).collect();
        let after = |tries, seconds| Again::After { tries, wait: Millis::seconds(seconds) };
        assert_eq!(waits, [after(1, 5), after(2, 10), after(3, 20), after(4, 40), after(5, 80), Again::Never]);
        assert_eq!(decide_again(policy, Loss::Ours, 5), Again::Now);
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
            (stopped(StopReason::ClaimStuck), Exit::Signal(9), Loss::Own),
            (stopped(StopReason::MadeRoom), Exit::Signal(15), Loss::Ours),
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
