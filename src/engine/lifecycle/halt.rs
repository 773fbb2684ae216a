//! Stops turns for people, and freezes agents.
//!
//! Messages of a stopped turn end with the press, in its transaction: whatever dies afterwards, they are not repeated,
//! and answers that their run still writes are discarded. People are told when the run is gone, because only then it is
//! known which tools it used. A row keeps what to tell until then.

use crate::delivery::{notice, speech};
use crate::model::address::{Address, UserId};
use crate::model::effect::Effect;
use crate::model::halt::{Freeze, StoppedTurn};
use crate::model::id::{AgentId, MessageId, OutboundId, SessionId};
use crate::model::incarnation::{IncarnationId, Phase, StopReason};
use crate::model::journal::Event;
use crate::model::message::{Completion, Message, MessageState};
use crate::rows::{agents, journal, messages, notes, session_files, sessions};
use crate::tx::Tx;
use crate::{Result, lifecycle, readable};

/// Tools that a notice names.
const TOOLS_SHOWN: usize = 12;

/// Who stops a turn, and from where.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Halt<'a> {
    /// The person; none is the operator of this machine.
    pub(crate) by: Option<&'a UserId>,
    /// Where the person waits for an answer, besides the chats of the messages.
    pub(crate) reply: Option<&'a Address>,
    /// Which messages may end.
    pub(crate) whose: Whose,
}

/// Which messages a stop ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Messages of the person who stops.
    Own,
    /// All of the running turn, and those of the person that wait.
    Turn,
    /// All of the running turn, and none that wait.
    Running,
}

/// What a stop found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Halted {
    /// It ended a turn or waiting messages. People are told when the run is gone.
    Stopped,
    /// It ended waiting messages of a session without a run, or whose run works for others and goes on. Nothing else tells
    /// the person.
    Withdrawn,
    /// It ended the speech of an answer, and there was nothing else to stop.
    Silenced,
    /// A turn is running that the person may not stop.
    OthersOnly,
    /// There was nothing to stop.
    Nothing,
}

/// Stops a session's turn. What it may not end is queued again by the end of the run and costs no try.
pub(crate) fn turn(tx: &mut Tx<'_, '_>, session: SessionId, halt: Halt<'_>) -> Result<Halted> {
    let Some(row) = sessions::load(tx, session)? else { return Ok(Halted::Nothing) };
    let silenced = speech::stop(tx, session, |tx, question| is_answer_to_own(tx, question, halt))?;
    let (claimed, waiting) = open(tx, session)?;
    let runs = claimed.iter().any(|(_, message)| message.trigger);
    let mut ending = Vec::new();
    for (id, message) in claimed {
        if halt.whose != Whose::Own || message.trigger && is_own(tx, &message, halt.by)? {
            ending.push((id, message));
        }
    }
    let is_others_turn = runs && ending.is_empty();
    for (id, message) in waiting {
        if halt.whose != Whose::Running && is_own(tx, &message, halt.by)? {
            ending.push((id, message));
        }
    }
    match (ending.is_empty(), silenced, runs) {
        (false, ..) => {}
        (true, true, _) => return Ok(Halted::Silenced),
        (true, false, true) => return Ok(Halted::OthersOnly),
        (true, false, false) => return Ok(Halted::Nothing),
    }
    let mut stopped = StoppedTurn {
        by: halt.by.cloned(),
        at: tx.now.wall,
        messages: Vec::new(),
        tell: halt.reply.cloned().into_iter().collect(),
    };
    let seqs = ending.iter().map(|(_, message)| message.seq).collect();
    let why = format!("was stopped by {}", name(tx, halt.by)?);
    for (id, message) in ending {
        let state = MessageState::Completed { how: Completion::Stopped(halt.by.cloned()), at: stopped.at };
        end(tx, Ending { id, message, state, answers: Vec::new(), why: why.clone() }, &mut stopped)?;
    }
    if is_others_turn {
        session_files::discard(tx, session, seqs, Vec::new())?;
        return Ok(Halted::Withdrawn);
    }
    let Some(number) = row.live else { return Ok(Halted::Withdrawn) };
    remember(tx, IncarnationId { session, number }, stopped, StopReason::Asked)?;
    Ok(Halted::Stopped)
}

/// Ends the turn of a run because its message reached a cap, in words for people. They are told at once, and of the tools
/// when the run is gone.
pub(crate) fn at_cap(tx: &mut Tx<'_, '_>, run: IncarnationId, error: &str) -> Result<()> {
    let mut stopped = StoppedTurn { by: None, at: tx.now.wall, messages: Vec::new(), tell: Vec::new() };
    let text = format!("Stopped because {error}.");
    for (id, message) in open(tx, run.session)?.0 {
        journal::of_message(tx, id, Event::GivenUp(error.to_owned()))?;
        let to = message.reply.clone().filter(|to| message.trigger && !stopped.tell.contains(to));
        let told = to.map(|to| notice::say_to(tx, to, Some(id), text.clone())).transpose()?;
        let state = MessageState::Failed { error: error.to_owned(), at: stopped.at };
        let answers = told.into_iter().collect();
        end(tx, Ending { id, message, state, answers, why: format!("ended: {error}") }, &mut stopped)?;
    }
    if let (Some(id), []) = (stopped.messages.first(), stopped.tell.as_slice()) {
        notice::tell_owner(tx, &format!("{id}: {text}"))?;
    }
    remember(tx, run, stopped, StopReason::TurnFailed)
}

/// The claimed messages of a session, and the triggering ones that wait for their agent, for their next try or for files.
fn open(tx: &Tx<'_, '_>, session: SessionId) -> Result<(Messages, Messages)> {
    let limit = tx.policy.rows_per_input / 8;
    let mut waiting: Vec<MessageId> =
        tx.db.ready_messages.collect_prefix(tx, &session, limit)?.into_iter().map(|(_, id)| id).collect();
    waiting.extend(tx.db.session_backoffs.collect_prefix(tx, &session, limit)?.into_iter().map(|(_, id)| id));
    waiting.extend(tx.db.budget_waits.collect_prefix(tx, &session, limit)?.into_iter().map(|(_, id)| id));
    waiting.extend(lifecycle::fetch::parked_in(tx, session, limit)?);
    let load = |ids: Vec<MessageId>| -> Result<Messages> {
        let mut found = Vec::new();
        for id in ids {
            let message = readable(tx.db.messages.get(tx, &id))?;
            found.extend(message.map(|message| (id, message)));
        }
        Ok(found)
    };
    let claimed = tx.db.claimed_messages.collect_prefix(tx, &session, limit)?.into_iter().map(|(_, id)| id).collect();
    Ok((load(claimed)?, load(waiting)?))
}

type Messages = Vec<(MessageId, Message)>;

/// Whether a message is from the person. Nothing is from the operator of this machine.
fn is_own(tx: &Tx<'_, '_>, message: &Message, by: Option<&UserId>) -> Result<bool> {
    let Some(by) = by else { return Ok(false) };
    Ok(tx.db.bodies.require(tx, &message.body)?.sender.as_ref() == Some(by))
}

/// Whether a stop ends the speech of an answer to a message.
fn is_answer_to_own(tx: &Tx<'_, '_>, question: Option<MessageId>, halt: Halt<'_>) -> Result<bool> {
    if halt.whose != Whose::Own {
        return Ok(true);
    }
    match question.map(|id| readable(tx.db.messages.get(tx, &id))).transpose()?.flatten() {
        Some(message) => is_own(tx, &message, halt.by),
        None => Ok(false),
    }
}

/// How a message of a stopped turn ends.
struct Ending {
    id: MessageId,
    message: Message,
    state: MessageState,
    answers: Vec<OutboundId>,
    /// For the agent that sent it.
    why: String,
}

fn end(tx: &mut Tx<'_, '_>, ending: Ending, stopped: &mut StoppedTurn) -> Result<()> {
    let Ending { id, message, state, answers, why } = ending;
    messages::end(tx, id, state, answers)?;
    if !message.trigger {
        return Ok(());
    }
    stopped.messages.push(id);
    if let Some(from) = message.from {
        notes::tell_agent(tx, from.session, &format!("Your message {id} to another agent {why}."))?;
    }
    if let Some(to) = message.reply.filter(|to| !stopped.tell.contains(to)) {
        stopped.tell.push(to);
    }
    Ok(())
}

/// Stops the run of a stopped turn. A second stop before its end adds to the first one.
fn remember(tx: &mut Tx<'_, '_>, run: IncarnationId, mut stopped: StoppedTurn, reason: StopReason) -> Result<()> {
    if let Some(before) = tx.db.stopped_turns.get(tx, &run)? {
        stopped.tell.retain(|to| !before.tell.contains(to));
        stopped = StoppedTurn {
            messages: [before.messages, stopped.messages].concat(),
            tell: [before.tell, stopped.tell].concat(),
            ..before
        };
    }
    tx.db.stopped_turns.put(tx, &run, &stopped)?;
    stop_run(tx, run, reason)
}

fn stop_run(tx: &mut Tx<'_, '_>, run: IncarnationId, reason: StopReason) -> Result<()> {
    lifecycle::begin_stop(tx, run, reason)?;
    tx.effects.push(Effect::StopNow(run.session, run.number));
    Ok(())
}

/// The end of a run: tells people and the agent that its turn was stopped, and which tools it had used.
pub(crate) fn ended(tx: &mut Tx<'_, '_>, run: IncarnationId, tools: &[String]) -> Result<()> {
    let Some(stopped) = tx.db.stopped_turns.get(tx, &run)? else { return Ok(()) };
    tx.db.stopped_turns.delete(tx, &run)?;
    let (text, why) = match cap(tx, &stopped)? {
        Some(error) => (used(tools), format!("because {error}")),
        None => {
            let by = match own_name(tx, &stopped)? {
                Some(name) => name,
                None => name(tx, stopped.by.as_ref())?,
            };
            (format!("Stopped by {by}. {}", used(tools)), format!("by {by}"))
        }
    };
    for to in stopped.tell.iter().filter(|_| !text.is_empty()) {
        notice::say_to(tx, to.clone(), stopped.messages.first().copied(), text.trim_end().to_owned())?;
    }
    let Some(session) = sessions::load(tx, run.session)? else { return Ok(()) };
    if agents::is_removed(tx, session.agent)? {
        return Ok(());
    }
    let text = format!("Your last turn was stopped {why}. Do not go on with it unless you are asked to.");
    notes::tell_agent(tx, run.session, &text)
}

/// Which cap a turn reached, if that ended it. Its messages have failed.
fn cap(tx: &Tx<'_, '_>, stopped: &StoppedTurn) -> Result<Option<String>> {
    let Some(id) = stopped.messages.first() else { return Ok(None) };
    Ok(match readable(tx.db.messages.get(tx, id))?.map(|message| message.state) {
        Some(MessageState::Failed { error, .. }) => Some(error),
        _ => None,
    })
}

/// The name that came with a stopped message of the person who stopped it.
fn own_name(tx: &Tx<'_, '_>, stopped: &StoppedTurn) -> Result<Option<String>> {
    for id in &stopped.messages {
        let Some(message) = readable(tx.db.messages.get(tx, id))? else { continue };
        let body = readable(tx.db.bodies.get(tx, &message.body))?;
        if let Some(body) = body.filter(|body| stopped.by.is_some() && body.sender == stopped.by) {
            return Ok(body.content.sender_name);
        }
    }
    Ok(None)
}

/// The tools of a turn, each once, as a sentence. Empty if none is known.
fn used(tools: &[String]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for tool in tools {
        if !names.contains(&tool.as_str()) {
            names.push(tool);
        }
    }
    let more = names.len().saturating_sub(TOOLS_SHOWN);
    names.truncate(TOOLS_SHOWN);
    match (names.as_slice(), more) {
        ([], _) => String::new(),
        (_, 0) => format!("Tools that had already run: {}.", names.join(", ")),
        (_, more) => format!("Tools that had already run: {} and {more} more.", names.join(", ")),
    }
}

/// A person as others know them.
pub(crate) fn name(tx: &Tx<'_, '_>, by: Option<&UserId>) -> Result<String> {
    let Some(by) = by else { return Ok("the operator".to_owned()) };
    let row = tx.db.users.get(tx, &crate::state::PersonKey::of(by))?;
    Ok(row.and_then(|row| row.name).unwrap_or_else(|| by.to_string()))
}

/// The freeze of an agent, if it is frozen.
pub(crate) fn frozen(tx: &Tx<'_, '_>, agent: AgentId) -> Result<Option<Freeze>> {
    if tx.db.frozen_agents.is_empty(tx)? { Ok(None) } else { readable(tx.db.frozen_agents.get(tx, &agent)) }
}

/// Stops every run of an agent. Returns the sessions with a turn that was stopped.
pub(crate) fn all(tx: &mut Tx<'_, '_>, agent: AgentId, halt: Halt<'_>) -> Result<Vec<SessionId>> {
    let mut stopped = Vec::new();
    for IncarnationId { session, .. } in lifecycle::live_of(tx, |of| of == agent)? {
        if turn(tx, session, halt)? == Halted::Stopped {
            stopped.push(session);
        }
    }
    Ok(stopped)
}

/// Freezes an agent: its turns are stopped, and its idle runs end. Returns whether it was not frozen before.
pub(crate) fn freeze(tx: &mut Tx<'_, '_>, agent: AgentId, halt: Halt<'_>) -> Result<bool> {
    all(tx, agent, halt)?;
    for run in lifecycle::live_of(tx, |of| of == agent)? {
        let phase = tx.db.incarnations.require(tx, &run)?.phase;
        if matches!(phase, Phase::Starting | Phase::Running) {
            stop_run(tx, run, StopReason::Asked)?;
        }
    }
    if tx.db.frozen_agents.contains(tx, &agent)? {
        return Ok(false);
    }
    let freeze = Freeze { by: halt.by.cloned(), at: tx.now.wall };
    tx.db.frozen_agents.put(tx, &agent, &freeze)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_named_once_in_order() {
        let tools = |names: &[&str]| used(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(tools(&[]), "");
        assert_eq!(tools(&["Bash", "Write", "Bash"]), "Tools that had already run: Bash, Write.");
        let many: Vec<String> = (0..TOOLS_SHOWN + 2).map(|number| format!("t{number}")).collect();
        assert!(used(&many).ends_with("t11 and 2 more."), "{}", used(&many));
    }
}
