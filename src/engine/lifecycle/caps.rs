//! Caps of single messages. The gateway counts while a turn goes on, so that it can refuse a request at once; here the
//! turn is ended. What is counted here is in the ledger.

use crate::Result;
use crate::lifecycle::halt;
use crate::model::effect::Effect;
use crate::model::entity::Agent;
use crate::model::gateway::{Cap, ModelCall, TurnBegan, bound};
use crate::model::id::MessageId;
use crate::model::incarnation::IncarnationId;
use crate::model::message::{Message, MessageState};
use crate::model::time::{Awake, Millis};
use crate::rows::{sessions, spend};
use crate::rules::caps;
use crate::tx::Tx;

/// No cap is shorter.
const SHORTEST: Millis = Millis::minutes(1);

/// Tells the gateway that a run began to work on a message, and what the message may still use.
pub(crate) fn turn_began(tx: &mut Tx<'_, '_>, id: MessageId, message: &Message, incarnation: u32) -> Result<()> {
    let Some(agent) = tx.db.agents.get(tx, &message.agent)? else { return Ok(()) };
    if bound(&agent.settings).is_empty() {
        return Ok(());
    }
    let left = caps::left(&agent.settings.caps, spend::used_for(tx, id)?);
    tx.effects.push(Effect::TurnBegan(TurnBegan { session: message.session, incarnation, message: id, left }));
    Ok(())
}

/// Repeats that for a run that an earlier daemon started.
pub(crate) fn turn_goes_on(tx: &mut Tx<'_, '_>, run: IncarnationId) -> Result<()> {
    let Some((_, id)) = tx.db.claimed_messages.last_in(tx, &run.session)? else { return Ok(()) };
    let message = tx.db.messages.require(tx, &id)?;
    turn_began(tx, id, &message, run.number)
}

/// Ends a turn whose request the gateway refused, if it still works on the same message.
pub(crate) fn refused(tx: &mut Tx<'_, '_>, call: &ModelCall) -> Result<()> {
    let Some((over, id)) = call.over.and_then(|over| Some((over, over.message?))) else { return Ok(()) };
    let Some(message) = tx.db.messages.get(tx, &id)? else { return Ok(()) };
    match message.state {
        MessageState::Claimed { incarnation, .. } if incarnation == call.incarnation => {
            let agent = tx.db.agents.require(tx, &message.agent)?;
            end(tx, IncarnationId::new(call.session, incarnation), &agent, over.cap)
        }
        _ => Ok(()),
    }
}

/// Ends a turn that takes too long. Returns whether it did.
pub(crate) fn time_is_over(tx: &mut Tx<'_, '_>, run: IncarnationId, claims: &[Awake]) -> Result<bool> {
    let age = claims.iter().map(|since| tx.now.awake.since(*since)).max().unwrap_or(Millis::ZERO);
    if age < SHORTEST {
        return Ok(false);
    }
    let Some(session) = sessions::load(tx, run.session)? else { return Ok(false) };
    let agent = tx.db.agents.require(tx, &session.agent)?;
    let is_over = age >= caps::time(&agent.settings.caps);
    if is_over {
        end(tx, run, &agent, Cap::Minutes)?;
    }
    Ok(is_over)
}

/// Why a message gets no further try.
pub(crate) fn spent(tx: &Tx<'_, '_>, id: MessageId, message: &Message) -> Result<Option<String>> {
    let Some(agent) = tx.db.agents.get(tx, &message.agent)? else { return Ok(None) };
    let reached = caps::reached(&agent.settings.caps, spend::used_for(tx, id)?);
    Ok(reached.map(|cap| caps::text(&agent.settings.caps, cap)))
}

fn end(tx: &mut Tx<'_, '_>, run: IncarnationId, agent: &Agent, cap: Cap) -> Result<()> {
    halt::at_cap(tx, run, &caps::text(&agent.settings.caps, cap))
}
