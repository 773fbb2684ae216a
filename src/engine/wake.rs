//! Bringing due messages to an agent: to the incarnation that lives, or to a new one.

use super::export::Of;
use super::places::Full;
use super::{Cx, Result, again, export, places, sessions, spec, starts};
use crate::model::effect::{Effect, ExportedMessage, Launch};
use crate::model::id::{MessageId, SessionId};
use crate::model::incarnation::{Incarnation, Phase};
use crate::model::session::{ChatSession, SessionStatus};
use crate::state::Write;

/// Does what a session's due messages need: export to a live incarnation, start of a new one, or nothing while one is
/// ending or no place is free; then the answer says where. Asked twice it asks for the same things twice, which harms
/// nothing.
pub(super) fn wake(cx: &Cx<'_>, txn: &mut Write<'_>, id: SessionId, effects: &mut Vec<Effect>) -> Result<Option<Full>> {
    let Some(((_, seq), oldest)) = cx.db.ready.first_in(txn, &id)? else { return Ok(None) };
    let Some(session) = sessions::load(cx, txn, id)? else { return Ok(None) };
    let agent = cx.db.agents.require(txn, &session.agent)?;
    let of = Of { id, session: &session, agent: &agent };
    bring(cx, txn, of, ((seq, oldest), None), effects)
}

/// A message that has just become due in a session.
pub(super) struct Arrival<'a> {
    /// Where.
    pub(super) of: Of<'a>,
    /// The message.
    pub(super) message: ExportedMessage,
}

/// As [`wake_for`], for a message of which nothing is at hand.
pub(super) fn wake_about(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, message): (SessionId, MessageId),
    effects: &mut Vec<Effect>,
) -> Result<Option<Full>> {
    let Some(session) = sessions::load(cx, txn, id)? else { return Ok(None) };
    let agent = cx.db.agents.require(txn, &session.agent)?;
    let message = export::view(cx, txn, message)?;
    wake_for(cx, txn, Arrival { of: Of { id, session: &session, agent: &agent }, message }, effects)
}

/// As [`wake`], for one message that has just become due: the others were brought when they did.
pub(super) fn wake_for(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    Arrival { of, message }: Arrival<'_>,
    effects: &mut Vec<Effect>,
) -> Result<Option<Full>> {
    let Some(((_, seq), oldest)) = cx.db.ready.first_in(txn, &of.id)? else { return Ok(None) };
    bring(cx, txn, of, ((seq, oldest), Some(message)), effects)
}

/// As [`wake_for`], for what a person said: where the answer will come, the agent is shown to be at work if something was
/// brought to it.
pub(super) fn wake_visibly(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    arrival: Arrival<'_>,
    effects: &mut Vec<Effect>,
) -> Result<Option<Full>> {
    let (id, reply, before) = (arrival.of.id, arrival.message.reply.clone(), effects.len());
    let full = wake_for(cx, txn, arrival, effects)?;
    let brought = effects.iter().skip(before).any(|effect| match effect {
        Effect::Export(export) => export.session == id && !export.messages.is_empty(),
        Effect::Launch(launch) => launch.session == id,
        _ => false,
    });
    if let (true, Some(reply)) = (brought, reply) {
        effects.push(Effect::Typing(id, reply));
    }
    Ok(full)
}

fn bring(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    of: Of<'_>,
    ((oldest_seq, oldest), arrived): ((u64, MessageId), Option<ExportedMessage>),
    effects: &mut Vec<Effect>,
) -> Result<Option<Full>> {
    let incarnation = match of.session.live {
        Some(number) => cx.db.incarnations.get(txn, &(of.id, number))?,
        None => None,
    };
    // From the removal of an agent on nothing of it is started, even before its sessions are archived.
    let wake = decide(of.session, incarnation.as_ref(), of.agent.archived.is_some());
    if wake != Wake::Nothing
        && let Some(hold_off) = again::held_off(cx, txn, of.session.agent)?
    {
        return again::put_off_all(cx, txn, of.id, &hold_off, effects).map(|()| None);
    }
    match wake {
        Wake::Launch if !starts::may_start(of.session, cx.now.awake) => Ok(None),
        Wake::Nothing => Ok(None),
        Wake::Export => {
            let export = match arrived {
                Some(message) => export::one(cx, txn, of, (message, oldest_seq), effects)?,
                None => Some(export::everything(cx, txn, of, false, effects)?),
            };
            effects.extend(export.map(|export| Effect::Export(Box::new(export))));
            Ok(None)
        }
        Wake::Launch => match places::full(cx, txn, of)? {
            None => launch(cx, txn, of, effects).map(|()| None),
            Some(full) => places::make_room(cx, txn, (full, oldest), effects).map(|()| Some(full)),
        },
    }
}

/// Brings what did not fit into a session's mailbox, if there can be such messages: `over` are those that have just ended.
pub(super) fn follow_up(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, over): (SessionId, &[u64]),
    effects: &mut Vec<Effect>,
) -> Result<()> {
    let Some(((_, newest), _)) = cx.db.ready.last_in(txn, &id)? else { return Ok(()) };
    // The oldest message that was due when something was last brought is none older than these.
    let claimed = cx.db.claims.first_in(txn, &id)?.map(|((_, seq), _)| seq);
    let ready = cx.db.ready.first_in(txn, &id)?.map(|((_, seq), _)| seq);
    let oldest = over.iter().copied().chain(claimed).chain(ready).min().unwrap_or(0);
    if export::in_window(oldest, newest) { Ok(()) } else { wake(cx, txn, id, effects).map(drop) }
}

/// What has to be done for a session.
#[derive(Debug, PartialEq, Eq)]
enum Wake {
    Nothing,
    Export,
    Launch,
}

fn decide(session: &ChatSession, incarnation: Option<&Incarnation>, removed: bool) -> Wake {
    if removed || session.status != SessionStatus::Active {
        return Wake::Nothing;
    }
    // One that ends with its turn gets nothing more, either.
    let phase = incarnation.filter(|incarnation| incarnation.outdated.is_none()).map(|incarnation| &incarnation.phase);
    match (session.live, phase) {
        (None, _) => Wake::Launch,
        (Some(_), Some(Phase::Starting | Phase::Running)) => Wake::Export,
        // One that ends gets nothing more; its close wakes the session again.
        (Some(_), _) => Wake::Nothing,
    }
}

fn launch(cx: &Cx<'_>, txn: &mut Write<'_>, of: Of<'_>, effects: &mut Vec<Effect>) -> Result<()> {
    let id = of.id;
    let (session, number) = sessions::update(cx, txn, id, |session| {
        session.last_incarnation = session.last_incarnation.saturating_add(1);
        session.live = Some(session.last_incarnation);
        session.context_version = session.context_version.saturating_add(1);
        session.last_incarnation
    })?;
    let (digest, _) = spec::of(cx, txn, (&session, of.agent))?;
    let incarnation = Incarnation::new(cx.now.awake, cx.now.wall, digest);
    cx.db.incarnations.put(txn, &(id, number), &incarnation)?;
    cx.db.live.put(txn, &id, &number)?;
    launch_effect(cx, txn, (Of { session: &session, ..of }, number), effects)
}

/// Asks for the start of an incarnation of which nothing was heard: a runtime starts what does not run yet.
pub(super) fn launch_again(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, number): (SessionId, u32),
    effects: &mut Vec<Effect>,
) -> Result<()> {
    let Some(session) = sessions::load(cx, txn, id)? else { return Ok(()) };
    let agent = cx.db.agents.require(txn, &session.agent)?;
    launch_effect(cx, txn, (Of { id, session: &session, agent: &agent }, number), effects)
}

fn launch_effect(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (of, incarnation): (Of<'_>, u32),
    effects: &mut Vec<Effect>,
) -> Result<()> {
    let export = export::everything(cx, txn, of, true, effects)?;
    let (digest, image) = spec::of(cx, txn, (of.session, of.agent))?;
    effects.push(Effect::Launch(Box::new(Launch {
        session: of.id,
        incarnation,
        folder: of.agent.folder.to_string(),
        settings: of.agent.settings.clone(),
        session_name: of.session.name,
        digest,
        image,
        export,
    })));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::id::AgentId;
    use crate::model::incarnation::{Exit, SpecDigest, StopReason};
    use crate::model::session::{Route, SessionName};
    use crate::model::time::{Awake, Timestamp};

    #[test]
    fn a_session_has_one_incarnation_at_a_time() {
        let at = Timestamp::from_millis(0);
        let awake = Awake::new(1, 0);
        let session = |live, status| {
            let who = (AgentId::new(1), SessionName::Default);
            ChatSession { last_incarnation: 1, live, status, ..ChatSession::new(who, Route::AgentShared, None, at) }
        };
        let decide_for = |phase: Option<Phase>, status, removed| {
            let live = phase.is_some().then_some(1);
            let incarnation =
                phase.map(|phase| Incarnation { phase, ..Incarnation::new(awake, at, SpecDigest::new(0)) });
            decide(&session(live, status), incarnation.as_ref(), removed)
        };
        let stopping = Phase::Stopping { why: StopReason::Ceiling, since: awake };
        let collecting = Phase::Collecting { exit: Exit::Code(0), since: awake };
        for (phase, status, removed, expected) in [
            (None, SessionStatus::Active, false, Wake::Launch),
            (None, SessionStatus::Active, true, Wake::Nothing),
            (None, SessionStatus::Archived, false, Wake::Nothing),
            (Some(Phase::Starting), SessionStatus::Active, false, Wake::Export),
            (Some(Phase::Running), SessionStatus::Active, false, Wake::Export),
            (Some(Phase::Running), SessionStatus::Active, true, Wake::Nothing),
            (Some(stopping), SessionStatus::Active, false, Wake::Nothing),
            (Some(collecting), SessionStatus::Active, false, Wake::Nothing),
        ] {
            assert_eq!(decide_for(phase.clone(), status, removed), expected, "{phase:?} {status:?} {removed}");
        }
    }
}
