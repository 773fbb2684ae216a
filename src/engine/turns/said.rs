//! Writes agents' outgoing messages: checks what an agent may send where, and queues it.

use crate::delivery::queue;
use crate::lifecycle::replies::Asker;
use crate::model::address::Address;
use crate::model::delivery::{Act, Author, OutState, Outbound};
use crate::model::entity::Destination;
use crate::model::id::{AgentId, MessageId, OutboundId, SessionId};
use crate::model::journal::Event;
use crate::model::mailbox::{Recipient, Said};
use crate::model::message::Message;
use crate::model::request::RequestedAction;
use crate::model::session::ChatSession;
use crate::requests::edits::To;
use crate::requests::peers::{Peer, Sent};
use crate::requests::{Accepted, ResolvedRecipient, edits, peers};
use crate::rows::{agents, destinations, journal, messages, recall, sessions};
use crate::state::{DestinationKey, SentKey, Text};
use crate::tx::Tx;
use crate::{Result, requests};

/// What to do with an agent's output that is allowed.
enum Acceptance {
    /// Send it to a channel.
    Deliver(Address, Act),
    /// It was handled without a channel.
    Carried(OutState, Accepted),
}

/// Accepts an agent's output. It is stored once under the agent's id, checked against the agent's destinations, and
/// then queued, given to another agent, or served as a request.
pub(crate) fn accept(tx: &mut Tx<'_, '_>, session: SessionId, said: &Said) -> Result<Accepted> {
    if messages::is_known(tx, session, &said.wire_id)? {
        return Ok(Accepted::Known);
    }
    let question = match said.in_reply_to {
        Some(seq) => messages::at(tx, session, seq)?,
        None => None,
    };
    let (about, question) = question.unzip();
    let plan = match number_problem(tx, session, said.number)? {
        Some(problem) => Err(problem),
        None => plan(tx, session, said, about.zip(question.as_ref()))?,
    };
    let (to, act, state, accepted) = match plan {
        Ok(Acceptance::Deliver(to, act)) => {
            let state = match said.deliver_after {
                Some(time) if time > tx.now.wall => OutState::Later(time),
                _ => OutState::Waiting { until: None, after: None },
            };
            (Some(to), act, state, None)
        }
        Ok(Acceptance::Carried(state, accepted)) => (None, Act::Say, state, Some(accepted)),
        Err(error) => {
            let state = OutState::Refused { error: error.clone(), at: tx.now.wall };
            (None, Act::Say, state, Some(Accepted::Refused(error)))
        }
    };
    let outbound = Outbound { act, ..from_agent(tx, session, said, about, to, state) };
    let id = store_said(tx, session, said, &outbound)?;
    match accepted {
        Some(Accepted::Carried(_)) => return Ok(Accepted::Carried(id)),
        Some(accepted) => {
            if let Accepted::Refused(reason) = &accepted {
                journal::of_session(tx, session, Event::AnswerRefused(id, reason.clone()))?;
            }
            return Ok(accepted);
        }
        None => {}
    }
    queue::enqueue(tx, id, &outbound)?;
    Ok(Accepted::Stored(id))
}

/// Handles the part of an agent's output that needs no channel. Returns what is left to do, or why it is refused.
fn plan(
    tx: &mut Tx<'_, '_>,
    id: SessionId,
    said: &Said,
    about: Option<(MessageId, &Message)>,
) -> Result<std::result::Result<Acceptance, String>> {
    let (message, question) = about.unzip();
    let Some(session) = sessions::load(tx, id)? else { return Ok(Err("the session is gone".to_owned())) };
    let done = OutState::Carried { at: tx.now.wall, message: None };
    let to = match &said.action {
        RequestedAction::Impossible(why) => return Ok(Err(why.clone())),
        // The target message may be gone by then.
        RequestedAction::Edit(_) | RequestedAction::React(_)
            if said.deliver_after.is_some_and(|time| time > tx.now.wall) =>
        {
            return Ok(Err("an edit or a reaction cannot wait for a time; only what is said can".to_owned()));
        }
        RequestedAction::Edit(number) => return edit(tx, id, &session, To::Edit, *number),
        RequestedAction::React(number) => return edit(tx, id, &session, To::React, *number),
        RequestedAction::Say | RequestedAction::Request(_) => resolve_target(tx, &session, question, &said.to)?,
    };
    if let RequestedAction::Request(request) = &said.action {
        let request_name = said.request.clone().unwrap_or_else(|| said.wire_id.clone());
        let asker = Asker { session: id, incarnation: said.incarnation, number: said.number, request: request_name };
        let served = requests::serve(tx, &asker, request.as_ref().clone(), message, to)?;
        return Ok(served.map(|()| Acceptance::Carried(done, Accepted::Served)));
    }
    let peer = match to {
        Ok(ResolvedRecipient::Chat(to)) => return Ok(Ok(Acceptance::Deliver(to, Act::Say))),
        Ok(ResolvedRecipient::Peer(peer)) => peer,
        Err(why) => return Ok(Err(why)),
    };
    let at = tx.now.wall;
    let carried = |message| {
        let state = OutState::Carried { at, message: Some(message) };
        Acceptance::Carried(state, Accepted::Carried(OutboundId::new(0)))
    };
    let sent = peers::send(tx, id, said, question, peer)?;
    Ok(sent.map(|sent| match sent {
        Sent::Stored(message) => carried(message),
        Sent::Dropped(error) => {
            let state = OutState::Refused { error, at: tx.now.wall };
            Acceptance::Carried(state, Accepted::Carried(OutboundId::new(0)))
        }
    }))
}

fn edit(
    tx: &Tx<'_, '_>,
    id: SessionId,
    session: &ChatSession,
    to: To,
    number: u64,
) -> Result<std::result::Result<Acceptance, String>> {
    Ok(edits::resolve(tx, id, session, to, number)?.map(|(to, act)| Acceptance::Deliver(to, act)))
}

/// Keeps a final answer that no turn end named before its incarnation was gone. It is never sent.
pub(crate) fn discard(tx: &mut Tx<'_, '_>, session: SessionId, said: &Said) -> Result<()> {
    if messages::is_known(tx, session, &said.wire_id)? {
        return Ok(());
    }
    let question = match said.in_reply_to {
        Some(seq) => messages::at(tx, session, seq)?.map(|(id, _)| id),
        None => None,
    };
    let outbound = from_agent(tx, session, said, question, None, OutState::Abandoned { at: tx.now.wall });
    let id = store_said(tx, session, said, &outbound)?;
    journal::of_session(tx, session, Event::AnswerAbandoned(id))
}

fn from_agent(
    tx: &Tx<'_, '_>,
    session: SessionId,
    said: &Said,
    in_reply_to: Option<MessageId>,
    to: Option<Address>,
    state: OutState,
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
        stored: tx.now.wall,
    }
}

fn store_said(tx: &mut Tx<'_, '_>, session: SessionId, said: &Said, outbound: &Outbound) -> Result<OutboundId> {
    let id = tx.db.allocate(tx)?;
    tx.db.outbound.put(tx, &id, outbound)?;
    recall::answer_stored(tx, id, outbound)?;
    sessions::update(tx, session, |row| {
        // Output that is refused for its number does not advance the session's numbers.
        if !said.number.is_multiple_of(2) && said.number <= row.last_number.saturating_add(NUMBER_JUMP_MAX) {
            row.last_number = row.last_number.max(said.number);
        }
    })?;
    Ok(id)
}

/// Upper bound of agents' message numbers; the wire format has 16 digits.
const NUMBER_MAX: u64 = 1_000_000_000_000_000;

/// How far a number may exceed the last one of its session, so that an agent cannot exhaust the numbers.
pub(crate) const NUMBER_JUMP_MAX: u64 = 1_000_000;

fn number_problem(tx: &Tx<'_, '_>, session: SessionId, number: u64) -> Result<Option<String>> {
    if number.is_multiple_of(2) || number >= NUMBER_MAX {
        return Ok(Some(format!("the number {number} is not one an agent may use (odd and below {NUMBER_MAX})")));
    }
    let last = sessions::load(tx, session)?.map_or(0, |row| row.last_number);
    if number > last.saturating_add(NUMBER_JUMP_MAX) {
        return Ok(Some(format!("the number {number} is too far above the session's last one, {last}")));
    }
    let used = tx.db.outbound_by_number.get(tx, &SentKey { session, number })?.is_some();
    Ok(used.then(|| format!("the number {number} was used before")))
}

/// The address of an agent's output, if the agent may write there. A reply to another agent's message goes to that
/// agent.
fn resolve_target(
    tx: &Tx<'_, '_>,
    session: &ChatSession,
    question: Option<&Message>,
    target: &Recipient,
) -> Result<std::result::Result<ResolvedRecipient, String>> {
    let reply = question.and_then(|message| message.reply.clone()).or_else(|| session.reply.clone());
    match target {
        Recipient::Reply => {
            if let Some(hop) = question.and_then(|message| message.from)
                && let Some(origin) = sessions::load(tx, hop.session)?
            {
                return Ok(Ok(ResolvedRecipient::Peer(Peer { agent: origin.agent, session: Some(hop.session) })));
            }
            Ok(reply
                .map(ResolvedRecipient::Chat)
                .ok_or_else(|| "it has no address, and neither has the session".to_owned()))
        }
        Recipient::Destination(name) => by_name(tx, session.agent, name),
        Recipient::Address(address) if address.channel.as_str() == destinations::CHANNEL => {
            Ok(peers::by_address(tx, session.agent, address)?.map(ResolvedRecipient::Peer))
        }
        Recipient::Address(address) if reply.as_ref() == Some(address) || session.reply.as_ref() == Some(address) => {
            Ok(Ok(ResolvedRecipient::Chat(address.clone())))
        }
        Recipient::Address(address) => {
            let allowed = destinations::may_write_to(tx, session.agent, address)?;
            let refusal = || format!("the agent has no destination in {}/{}", address.channel, address.platform_id);
            Ok(if allowed { Ok(ResolvedRecipient::Chat(address.clone())) } else { Err(refusal()) })
        }
    }
}

fn by_name(tx: &Tx<'_, '_>, agent: AgentId, name: &str) -> Result<std::result::Result<ResolvedRecipient, String>> {
    let unknown = || format!("the agent has no destination named {name:?}");
    let Ok(key) = Text::new(name) else { return Ok(Err(unknown())) };
    let place = match tx.db.destinations.get(tx, &DestinationKey { agent, name: key })? {
        Some(Destination::Chat(chat)) => {
            let chat = tx.db.chats.get(tx, &chat)?.filter(|chat| chat.archived.is_none());
            chat.map(|chat| Address { channel: chat.channel, platform_id: chat.platform_id, thread: None })
                .map(ResolvedRecipient::Chat)
        }
        Some(Destination::Agent(agent)) => {
            let there = !agents::is_removed(tx, agent)?;
            there.then_some(ResolvedRecipient::Peer(Peer { agent, session: None }))
        }
        None => None,
    };
    Ok(place.ok_or_else(unknown))
}
