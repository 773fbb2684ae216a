//! The one writer of outgoing messages: who may say what where, and the lanes in which it waits.

use super::requests::acts::{self, To};
use super::requests::peers::{self, Peer, Sent};
use super::requests::replies::Asker;
use super::{Cx, Result, attempt, chats, journal, requests, sessions};
use crate::model::address::Address;
use crate::model::delivery::{Act, Author, OutState, Outbound};
use crate::model::effect::Effect;
use crate::model::entity::Destination;
use crate::model::id::{AgentId, MessageId, OutboundId, SessionId};
use crate::model::journal::Event;
use crate::model::mailbox::{Said, Target};
use crate::model::message::Message;
use crate::model::request::Wish;
use crate::model::session::ChatSession;
use crate::state::{ForeignKey, Text, Write};

/// What became of something an agent said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Accepted {
    /// It is on its way.
    Stored(OutboundId),
    /// It was a request that is being served; its answer comes of itself.
    Served,
    /// Another agent has it, or it was dropped and those who have to know were told.
    Carried(OutboundId),
    /// It was stored before.
    Known,
    /// The agent may not say this, or not there; it is kept as refused.
    Refused(String),
}

/// Where something goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// To a chat.
    Chat(Address),
    /// To another agent.
    Peer(Peer),
}

/// What is to be done with something an agent said, if it may be done.
enum Plan {
    /// It goes to a channel.
    Deliver(Address, Act),
    /// It goes to no channel.
    Carried(OutState, Accepted),
}

/// Takes in something an agent said: stored under the agent's id once, checked against its destinations, put in a lane,
/// given to another agent, or served.
pub(super) fn accept(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (session, said): (SessionId, &Said),
    effects: &mut Vec<Effect>,
) -> Result<Accepted> {
    if is_known(cx, txn, session, &said.wire_id)? {
        return Ok(Accepted::Known);
    }
    let question = match said.in_reply_to {
        Some(seq) => super::messages::at(cx, txn, session, seq)?,
        None => None,
    };
    let (about, question) = question.unzip();
    let plan = match number_problem(cx, txn, session, said.number)? {
        Some(problem) => Err(problem),
        None => plan(cx, txn, (session, said, question.as_ref()), effects)?,
    };
    let (to, act, state, accepted) = match plan {
        Ok(Plan::Deliver(to, act)) => {
            let state = match said.deliver_after {
                Some(time) if time > cx.now.wall => OutState::Later(time),
                _ => OutState::Waiting { until: None, after: None },
            };
            (Some(to), act, state, None)
        }
        Ok(Plan::Carried(state, accepted)) => (None, Act::Say, state, Some(accepted)),
        Err(error) => {
            let state = OutState::Refused { error: error.clone(), at: cx.now.wall };
            (None, Act::Say, state, Some(Accepted::Refused(error)))
        }
    };
    let outbound = Outbound { act, ..from_agent(cx, (session, said), about, (to, state)) };
    let id = store_said(cx, txn, (session, said), &outbound)?;
    match accepted {
        Some(Accepted::Carried(_)) => return Ok(Accepted::Carried(id)),
        Some(accepted) => {
            if let Accepted::Refused(reason) = &accepted {
                journal::of_session(cx, txn, session, Event::AnswerRefused(id, reason.clone()))?;
            }
            return Ok(accepted);
        }
        None => {}
    }
    match outbound.state {
        OutState::Later(time) => cx.db.outbound_later.put(txn, &(time, id), &())?,
        _ => enter_lane(cx, txn, id, &outbound, effects)?,
    }
    Ok(Accepted::Stored(id))
}

/// Does what an agent wishes as far as it needs no channel; says what is left to do, or why nothing can be done.
fn plan(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, said, question): (SessionId, &Said, Option<&Message>),
    effects: &mut Vec<Effect>,
) -> Result<std::result::Result<Plan, String>> {
    let Some(session) = sessions::load(cx, txn, id)? else { return Ok(Err("the session is gone".to_owned())) };
    let done = OutState::Carried { at: cx.now.wall, message: None };
    let to = match &said.wish {
        Wish::Impossible(why) => return Ok(Err(why.clone())),
        // What it is about may be gone by then.
        Wish::Edit(_) | Wish::React(_) if said.deliver_after.is_some_and(|time| time > cx.now.wall) => {
            return Ok(Err("an edit or a reaction cannot wait for a time; only what is said can".to_owned()));
        }
        Wish::Edit(number) => return edit(cx, txn, (id, &session), (To::Edit, *number)),
        Wish::React(number) => return edit(cx, txn, (id, &session), (To::React, *number)),
        Wish::Say | Wish::Request(_) => resolve_target(cx, txn, &session, question, &said.to)?,
    };
    if let Wish::Request(request) = &said.wish {
        let request_name = said.request.clone().unwrap_or_else(|| said.wire_id.clone());
        let asker = Asker { session: id, incarnation: said.incarnation, number: said.number, request: request_name };
        let served = requests::serve(cx, txn, (&asker, request.as_ref().clone()), to, effects)?;
        return Ok(served.map(|()| Plan::Carried(done, Accepted::Served)));
    }
    let peer = match to {
        Ok(Place::Chat(to)) => return Ok(Ok(Plan::Deliver(to, Act::Say))),
        Ok(Place::Peer(peer)) => peer,
        Err(why) => return Ok(Err(why)),
    };
    let carried = |message| {
        let state = OutState::Carried { at: cx.now.wall, message: Some(message) };
        Plan::Carried(state, Accepted::Carried(OutboundId::new(0)))
    };
    let sent = peers::send(cx, txn, (id, said, question), peer, effects)?;
    Ok(sent.map(|sent| match sent {
        Sent::Stored(message) => carried(message),
        Sent::Dropped(error) => {
            let state = OutState::Refused { error, at: cx.now.wall };
            Plan::Carried(state, Accepted::Carried(OutboundId::new(0)))
        }
    }))
}

fn edit(
    cx: &Cx<'_>,
    txn: &Write<'_>,
    session: (SessionId, &ChatSession),
    change: (To, u64),
) -> Result<std::result::Result<Plan, String>> {
    Ok(acts::resolve(cx, txn, session, change)?.map(|(to, act)| Plan::Deliver(to, act)))
}

/// Keeps a final answer that no end named before its incarnation was gone. It is never sent.
pub(super) fn abandon(cx: &Cx<'_>, txn: &mut Write<'_>, session: SessionId, said: &Said) -> Result<()> {
    if is_known(cx, txn, session, &said.wire_id)? {
        return Ok(());
    }
    let question = match said.in_reply_to {
        Some(seq) => super::messages::at(cx, txn, session, seq)?.map(|(id, _)| id),
        None => None,
    };
    let outbound = from_agent(cx, (session, said), question, (None, OutState::Abandoned { at: cx.now.wall }));
    let id = store_said(cx, txn, (session, said), &outbound)?;
    journal::of_session(cx, txn, session, Event::AnswerAbandoned(id))
}

/// Stores something Hearth itself says and puts it in a lane.
pub(super) fn say(cx: &Cx<'_>, txn: &mut Write<'_>, notice: Outbound, effects: &mut Vec<Effect>) -> Result<OutboundId> {
    let id = cx.db.allocate(txn)?;
    cx.db.outbound.put(txn, &id, &notice)?;
    index_reply(cx, txn, id, &notice)?;
    enter_lane(cx, txn, id, &notice, effects)?;
    Ok(id)
}

/// Whether the session has said this before. An id that cannot be stored was not.
pub(super) fn is_known(cx: &Cx<'_>, txn: &Write<'_>, session: SessionId, wire_id: &str) -> Result<bool> {
    let Ok(wire_id) = Text::new(wire_id) else { return Ok(false) };
    Ok(cx.db.outbound_by_wire.get(txn, &(session, wire_id))?.is_some())
}

/// Puts a message at the end of its lane; the first of a lane is attempted at once.
pub(super) fn enter_lane(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    id: OutboundId,
    outbound: &Outbound,
    effects: &mut Vec<Effect>,
) -> Result<()> {
    let Some(to) = &outbound.to else { return Ok(()) };
    let lane = lane(to);
    let waits_behind = cx.db.lanes.first_in(txn, &lane)?.is_some();
    cx.db.lanes.put(txn, &(lane.0, lane.1, lane.2, id), &())?;
    if waits_behind { Ok(()) } else { attempt::begin(cx, txn, id, effects) }
}

/// The lane of an address: messages of one lane go out in order.
pub(super) fn lane(to: &Address) -> (ForeignKey, ForeignKey, Option<ForeignKey>) {
    ForeignKey::place(to)
}

fn from_agent(
    cx: &Cx<'_>,
    (session, said): (SessionId, &Said),
    in_reply_to: Option<MessageId>,
    (to, state): (Option<Address>, OutState),
) -> Outbound {
    Outbound {
        author: Author::Agent {
            session,
            incarnation: said.incarnation,
            wire_id: said.wire_id.clone(),
            number: said.number,
        },
        to,
        act: Act::Say,
        in_reply_to,
        text: said.text.clone(),
        content: said.content.clone(),
        files: said.files.iter().map(|file| file.kept.clone()).collect(),
        state,
        attempts: 0,
        first_attempt: None,
        uncertain: 0,
        stored: cx.now.wall,
    }
}

fn store_said(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (session, said): (SessionId, &Said),
    outbound: &Outbound,
) -> Result<OutboundId> {
    let id = cx.db.allocate(txn)?;
    cx.db.outbound.put(txn, &id, outbound)?;
    index_reply(cx, txn, id, outbound)?;
    cx.db.outbound_by_wire.put(txn, &(session, Text::new(said.wire_id.as_str())?), &id)?;
    // What is never sent has no number: its number may be used or impossible.
    if !matches!(outbound.state, OutState::Refused { .. } | OutState::Abandoned { .. }) {
        cx.db.outbound_by_number.put(txn, &(session, said.number), &id)?;
    }
    sessions::update(cx, txn, session, |row| {
        // What is refused for its number takes no numbers away.
        if !said.number.is_multiple_of(2) && said.number <= row.last_number.saturating_add(NUMBER_JUMP_MAX) {
            row.last_number = row.last_number.max(said.number);
        }
    })?;
    Ok(id)
}

/// Makes it possible to find what was said about a message.
fn index_reply(cx: &Cx<'_>, txn: &mut Write<'_>, id: OutboundId, outbound: &Outbound) -> Result<()> {
    match outbound.in_reply_to {
        Some(message) => cx.db.outbound_by_message.put(txn, &(message, id), &()),
        None => Ok(()),
    }
}

/// Highest number an agent may use; the wire writes numbers with 16 digits.
const NUMBER_MAX: u64 = 1_000_000_000_000_000;
/// How far a number may be above the last one of its session: an agent must not use up the numbers.
pub(super) const NUMBER_JUMP_MAX: u64 = 1_000_000;

fn number_problem(cx: &Cx<'_>, txn: &Write<'_>, session: SessionId, number: u64) -> Result<Option<String>> {
    if number.is_multiple_of(2) || number >= NUMBER_MAX {
        return Ok(Some(format!("the number {number} is not one an agent may use (odd and below {NUMBER_MAX})")));
    }
    let last = sessions::load(cx, txn, session)?.map_or(0, |row| row.last_number);
    if number > last.saturating_add(NUMBER_JUMP_MAX) {
        return Ok(Some(format!("the number {number} is too far above the session's last one, {last}")));
    }
    let used = cx.db.outbound_by_number.get(txn, &(session, number))?.is_some();
    Ok(used.then(|| format!("the number {number} was used before")))
}

/// Where something goes, if its agent may say it there. What another agent said is answered to that agent.
fn resolve_target(
    cx: &Cx<'_>,
    txn: &Write<'_>,
    session: &ChatSession,
    question: Option<&Message>,
    target: &Target,
) -> Result<std::result::Result<Place, String>> {
    let reply = question.and_then(|message| message.reply.clone()).or_else(|| session.reply.clone());
    match target {
        Target::Reply => {
            if let Some(hop) = question.and_then(|message| message.from)
                && let Some(origin) = sessions::load(cx, txn, hop.session)?
            {
                return Ok(Ok(Place::Peer(Peer { agent: origin.agent, session: Some(hop.session) })));
            }
            Ok(reply.map(Place::Chat).ok_or_else(|| "it has no address, and neither has the session".to_owned()))
        }
        Target::Destination(name) => by_name(cx, txn, session.agent, name),
        Target::Address(address) if address.channel.as_str() == peers::CHANNEL => {
            Ok(peers::by_address(cx, txn, session.agent, address)?.map(Place::Peer))
        }
        Target::Address(address) if reply.as_ref() == Some(address) || session.reply.as_ref() == Some(address) => {
            Ok(Ok(Place::Chat(address.clone())))
        }
        Target::Address(address) => {
            let allowed = may_write_to(cx, txn, session.agent, address)?;
            let refusal = || format!("the agent has no destination in {}/{}", address.channel, address.platform_id);
            Ok(if allowed { Ok(Place::Chat(address.clone())) } else { Err(refusal()) })
        }
    }
}

fn by_name(cx: &Cx<'_>, txn: &Write<'_>, agent: AgentId, name: &str) -> Result<std::result::Result<Place, String>> {
    let unknown = || format!("the agent has no destination named {name:?}");
    let Ok(key) = Text::new(name) else { return Ok(Err(unknown())) };
    let place = match cx.db.destinations.get(txn, &(agent, key))? {
        Some(Destination::Chat(chat)) => {
            let chat = cx.db.chats.get(txn, &chat)?.filter(|chat| chat.archived.is_none());
            chat.map(|chat| Address { channel: chat.channel, platform_id: chat.platform_id, thread: None })
                .map(Place::Chat)
        }
        Some(Destination::Agent(agent)) => {
            let there = !super::remove::is_removed(cx, txn, agent)?;
            there.then_some(Place::Peer(Peer { agent, session: None }))
        }
        None => None,
    };
    Ok(place.ok_or_else(unknown))
}

/// Whether an agent has a destination in the chat of an address.
pub(super) fn may_write_to(cx: &Cx<'_>, txn: &Write<'_>, agent: AgentId, address: &Address) -> Result<bool> {
    let Some((chat, _)) = chats::find(cx, txn, &address.channel, &address.platform_id)? else { return Ok(false) };
    let destinations = cx.db.destinations.collect_prefix(txn, &agent, cx.policy.rows_per_input)?;
    Ok(destinations.iter().any(|(_, destination)| *destination == Destination::Chat(chat)))
}
