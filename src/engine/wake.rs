//! Bringing due messages to an agent: to the incarnation that lives, or to a new one.

use super::export::Due;
use super::places::Full;
use super::{Cx, Result, export, places, sessions};
use crate::model::effect::{Effect, Launch};
use crate::model::id::{MessageId, SessionId};
use crate::model::incarnation::{Incarnation, Phase};
use crate::model::session::{Session, SessionStatus};
use crate::state::Write;

/// Does what a session's due messages need: export to a live incarnation, start of a new one, or nothing while one is
/// ending or no place is free; then the answer says where. Asked twice it asks for the same things twice, which harms
/// nothing.
pub(super) fn wake(cx: &Cx<'_>, txn: &mut Write<'_>, id: SessionId, effects: &mut Vec<Effect>) -> Result<Option<Full>> {
    bring(cx, txn, id, Due::All, effects)
}

/// As [`wake`], for one message that has just become due: the others were brought when they did.
pub(super) fn wake_for(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, seq, message): (SessionId, u64, MessageId),
    effects: &mut Vec<Effect>,
) -> Result<Option<Full>> {
    bring(cx, txn, id, Due::One(seq, message), effects)
}

fn bring(cx: &Cx<'_>, txn: &mut Write<'_>, id: SessionId, due: Due, effects: &mut Vec<Effect>) -> Result<Option<Full>> {
    let Some(session) = sessions::load(cx, txn, id)? else { return Ok(None) };
    let incarnation = match session.live {
        Some(number) => cx.db.incarnations.get(txn, &(id, number))?,
        None => None,
    };
    let Some((_, oldest)) = cx.db.ready.first_in(txn, &id)? else { return Ok(None) };
    // From the removal of an agent on nothing of it is started, even before its sessions are archived.
    let removed = cx.db.agents.require(txn, &session.agent)?.archived.is_some();
    match decide(&session, incarnation.as_ref(), removed) {
        Wake::Nothing => Ok(None),
        Wake::Export => {
            let export = export::addition(cx, txn, (id, due), effects)?;
            effects.push(Effect::Export(Box::new(export)));
            Ok(None)
        }
        Wake::Launch => match places::full(cx, txn, session.agent)? {
            None => launch(cx, txn, id, effects).map(|()| None),
            Some(full) => places::make_room(cx, txn, (full, oldest), effects).map(|()| Some(full)),
        },
    }
}

/// What has to be done for a session.
#[derive(Debug, PartialEq, Eq)]
enum Wake {
    Nothing,
    Export,
    Launch,
}

fn decide(session: &Session, incarnation: Option<&Incarnation>, removed: bool) -> Wake {
    if removed || session.status != SessionStatus::Active {
        return Wake::Nothing;
    }
    // One that ends with its turn gets nothing more, either.
    let phase = incarnation.filter(|incarnation| !incarnation.outdated).map(|incarnation| &incarnation.phase);
    match (session.live, phase) {
        (None, _) => Wake::Launch,
        (Some(_), Some(Phase::Starting | Phase::Running)) => Wake::Export,
        // One that ends gets nothing more; its close wakes the session again.
        (Some(_), _) => Wake::Nothing,
    }
}

fn launch(cx: &Cx<'_>, txn: &mut Write<'_>, id: SessionId, effects: &mut Vec<Effect>) -> Result<()> {
    let (session, number) = sessions::update(cx, txn, id, |session| {
        session.last_incarnation = session.last_incarnation.saturating_add(1);
        session.live = Some(session.last_incarnation);
        session.context_version = session.context_version.saturating_add(1);
        session.last_incarnation
    })?;
    let incarnation = Incarnation {
        phase: Phase::Starting,
        launched: cx.now.awake,
        started: cx.now.wall,
        beat: cx.now.awake,
        progress: cx.now.awake,
        tool: None,
        stopped_for: None,
        claimed: false,
        outdated: false,
        stderr_tail: String::new(),
    };
    cx.db.incarnations.put(txn, &(id, number), &incarnation)?;
    cx.db.live.put(txn, &id, &number)?;
    launch_effect(cx, txn, (id, number, session), effects)
}

/// Asks for the start of an incarnation of which nothing was heard: a runtime starts what does not run yet.
pub(super) fn launch_again(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, number): (SessionId, u32),
    effects: &mut Vec<Effect>,
) -> Result<()> {
    match sessions::load(cx, txn, id)? {
        Some(session) => launch_effect(cx, txn, (id, number, session), effects),
        None => Ok(()),
    }
}

fn launch_effect(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, number, session): (SessionId, u32, Session),
    effects: &mut Vec<Effect>,
) -> Result<()> {
    let agent = cx.db.agents.require(txn, &session.agent)?;
    let export = export::everything(cx, txn, id, effects)?;
    effects.push(Effect::Launch(Box::new(Launch {
        session: id,
        incarnation: number,
        folder: agent.folder.to_string(),
        settings: agent.settings,
        session_name: session.name,
        export,
    })));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::id::AgentId;
    use crate::model::incarnation::{Exit, StopReason};
    use crate::model::session::{Route, SessionName};
    use crate::model::time::{Awake, Timestamp};

    #[test]
    fn a_session_has_one_incarnation_at_a_time() {
        let at = Timestamp::from_millis(0);
        let awake = Awake::new(1, 0);
        let session = |live, status| Session {
            agent: AgentId::new(1),
            route: Route::AgentShared,
            name: SessionName::Default,
            reply: None,
            status,
            last_number: 0,
            last_incarnation: 1,
            live,
            context_version: 0,
            created: at,
            active: at,
        };
        let decide_for = |phase: Option<Phase>, status, removed| {
            let live = phase.is_some().then_some(1);
            let incarnation = phase.map(|phase| Incarnation {
                phase,
                launched: awake,
                started: at,
                beat: awake,
                progress: awake,
                tool: None,
                stopped_for: None,
                claimed: false,
                outdated: false,
                stderr_tail: String::new(),
            });
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
