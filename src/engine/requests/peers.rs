//! Messages between agents. The transaction that stores an agent's message also delivers it to the other agent.

use crate::Result;
use crate::delivery::notice;
use crate::lifecycle::dispatch;
use crate::model::address::{Address, ChannelName, ForeignId, UserId};
use crate::model::content::Content;
use crate::model::entity::{Destination, Folder};
use crate::model::id::{AgentId, DropId, MessageId, SessionId};
use crate::model::mailbox::Said;
use crate::model::message::{Body, Drop, Due, Hop, Message, MessageKind, MessageState, Reason};
use crate::model::session::{ChatSession, SessionStatus};
use crate::model::time::Millis;
use crate::rows::destinations::CHANNEL;
use crate::rows::messages::NewMessage;
use crate::rows::{agents, messages, notes, sessions};
use crate::rules::json;
use crate::rules::json::Field;
use crate::tx::Tx;

/// Messages of a session that are searched for the last one from another agent.
const BACK_MAX: usize = 200;

/// Recorded drops that are searched for an earlier notice to the owner.
const DROPS_BACK_MAX: u64 = 100;

/// How long an earlier notice to the owner suppresses the next one.
const TOLD_AGAIN: Millis = Millis::minutes(60);

/// Another agent, or the same one in another session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) agent: AgentId,
    /// The session whose message is answered.
    pub(crate) session: Option<SessionId>,
}

/// The result of a message to another agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Delivered to the other agent.
    Stored(MessageId),
    /// Dropped and recorded, because it went through too many agents. The agent and the owner were told.
    Dropped(String),
}

/// The agent at an address, if the sender has it as a destination. Every agent may write to itself.
pub(crate) fn by_address(
    tx: &Tx<'_, '_>,
    from: AgentId,
    address: &Address,
) -> Result<std::result::Result<Peer, String>> {
    let name = address.platform_id.as_str();
    let unknown = || format!("the agent has no destination that is the agent {name:?}");
    let Ok(folder) = Folder::new(name) else { return Ok(Err(unknown())) };
    let Some((agent, _)) = agents::find(tx, &folder)? else { return Ok(Err(unknown())) };
    let destinations = tx.db.destinations.collect_prefix(tx, &from, tx.policy.rows_per_input)?;
    let allowed = agent == from || destinations.iter().any(|(_, to)| *to == Destination::Agent(agent));
    Ok(if allowed { Ok(Peer { agent, session: None }) } else { Err(unknown()) })
}

/// Delivers a message to another agent. Refused with a reason if that is impossible.
pub(crate) fn send(
    tx: &mut Tx<'_, '_>,
    from: SessionId,
    said: &Said,
    question: Option<&Message>,
    peer: Peer,
) -> Result<std::result::Result<Sent, String>> {
    let Some(speaker) = Speaker::of(tx, from)? else { return Ok(Err("the session is gone".to_owned())) };
    if agents::is_removed(tx, peer.agent)? {
        return Ok(Err("the other agent was removed".to_owned()));
    }
    let count = hops(tx, from, question)?.saturating_add(1);
    if count > tx.policy.hops_max {
        return refuse(tx, &speaker, from, peer.agent).map(|why| Ok(Sent::Dropped(why)));
    }
    if !messages::has_place(tx, peer.agent)? {
        return Ok(Err("the other agent has too many waiting messages".to_owned()));
    }
    let answered = whom(tx, from, question, peer)?;
    let body = messages::insert_body(tx, &body(tx, said, &speaker))?;
    let (session, row) = sessions::arrive_in(tx, peer.agent, answered)?;
    let seq = row.last_number;
    let hop = Some(Hop { session: from, count });
    let new = NewMessage {
        session,
        agent: peer.agent,
        seq,
        body,
        trigger: true,
        reply: None,
        from: hop,
        slot: None,
        chat: None,
    };
    let message = messages::insert(tx, new)?;
    match said.deliver_after {
        Some(time) if time > tx.now.wall => {
            messages::update(tx, message, |row| row.state = MessageState::Pending(Due::At(time)))?;
        }
        _ => {
            dispatch::dispatch_message(tx, session, message)?;
        }
    }
    Ok(Ok(Sent::Stored(message)))
}

/// The sending agent.
struct Speaker {
    folder: Folder,
    id: UserId,
}

impl Speaker {
    fn of(tx: &Tx<'_, '_>, session: SessionId) -> Result<Option<Self>> {
        let Some(session) = sessions::load(tx, session)? else { return Ok(None) };
        let agent = tx.db.agents.require(tx, &session.agent)?;
        let channel = ChannelName::new(CHANNEL);
        let handle = ForeignId::new("the agent", agent.folder.as_str());
        // A folder is a plain name, so both conversions succeed.
        let (Ok(channel), Ok(handle)) = (channel, handle) else { return Ok(None) };
        Ok(Some(Self { folder: agent.folder, id: UserId::new(channel, handle) }))
    }
}

/// The message with its sender's fields in front. The mailbox edge removes these fields from an agent's own payload.
fn body(tx: &Tx<'_, '_>, said: &Said, speaker: &Speaker) -> Body {
    let (name, id) = (speaker.folder.as_str(), speaker.id.to_string());
    let raw = json::with(&[("sender", Field::Text(name)), ("senderId", Field::Text(&id))], &said.content);
    Body {
        content: Content {
            text: said.text.clone(),
            sender: Some(speaker.id.handle().clone()),
            sender_name: Some(name.to_owned()),
            raw,
        },
        kind: MessageKind::Chat,
        said: tx.now.wall,
        source: None,
        platform_message: None,
        sender: Some(speaker.id.clone()),
        attachments: said.files.iter().map(|file| file.attachment.clone()).collect(),
    }
}

/// The number of agents that the turn's messages passed through since a person's message. Output after a turn counts
/// for the newest message of its session.
fn hops(tx: &Tx<'_, '_>, session: SessionId, question: Option<&Message>) -> Result<u32> {
    let count = |message: &Message| message.from.map_or(0, |hop| hop.count);
    let mut most = question.map_or(0, count);
    let mut worked_on = tx.db.claimed_messages.collect_prefix(tx, &session, tx.policy.rows_per_input)?;
    if worked_on.is_empty() && question.is_none() {
        worked_on = tx.db.messages_by_session.collect_last(tx, &session, 1)?;
    }
    for (_, id) in worked_on {
        most = most.max(count(&tx.db.messages.require(tx, &id)?));
    }
    Ok(most)
}

/// The receiving session of the other agent: the one that is answered, otherwise the one that wrote last.
fn whom(tx: &Tx<'_, '_>, from: SessionId, question: Option<&Message>, peer: Peer) -> Result<Option<SessionId>> {
    let asked = peer.session.or_else(|| question.and_then(|question| question.from).map(|hop| hop.session));
    if let Some(session) = asked
        && talks(sessions::load(tx, session)?.as_ref(), peer.agent)
    {
        return Ok(Some(session));
    }
    for (_, id) in tx.db.messages_by_session.collect_last(tx, &from, BACK_MAX)? {
        let Some(hop) = tx.db.messages.require(tx, &id)?.from else { continue };
        if talks(sessions::load(tx, hop.session)?.as_ref(), peer.agent) {
            return Ok(Some(hop.session));
        }
    }
    Ok(None)
}

/// Whether a session belongs to the agent and is active.
fn talks(session: Option<&ChatSession>, agent: AgentId) -> bool {
    session.is_some_and(|session| session.agent == agent && session.status == SessionStatus::Active)
}

/// Records that a message went through too many agents. Tells the agent, and at most once per hour the owner.
fn refuse(tx: &mut Tx<'_, '_>, speaker: &Speaker, session: SessionId, to: AgentId) -> Result<String> {
    let other = tx.db.agents.require(tx, &to)?.folder;
    let most = tx.policy.hops_max;
    let last = tx.db.dropped_events.last(tx, ..)?.map_or(0, |(last, _)| last.number());
    let from = DropId::new(last.saturating_sub(DROPS_BACK_MAX));
    let newest = tx.db.dropped_events.range(tx, from..)?.collect::<Result<Vec<_>>>()?;
    let told = newest.iter().any(|(_, drop)| {
        let same = drop.agent == Some(to) && drop.sender.as_ref() == Some(&speaker.id);
        same && drop.reason == Reason::TooManyHops && drop.at.plus(TOLD_AGAIN) > tx.now.wall
    });
    let drop = Drop {
        at: tx.now.wall,
        channel: speaker.id.channel().clone(),
        platform_id: speaker.id.handle().clone(),
        thread: None,
        chat: None,
        agent: Some(to),
        platform_message: None,
        sender: Some(speaker.id.clone()),
        sender_name: Some(speaker.folder.as_str().to_owned()),
        reason: Reason::TooManyHops,
    };
    let id: DropId = tx.db.allocate(tx)?;
    tx.db.dropped_events.put(tx, &id, &drop)?;
    let folder = &speaker.folder;
    let text = format!(
        "Your message to {other} was not given to it: agents have written to each other {most} times since a person spoke."
    );
    notes::tell_agent(tx, session, &text)?;
    if told {
        return Ok(text);
    }
    let to_owner = format!(
        "{folder} and {other} have written to each other {most} times without a person; \
         their messages stop here until a person writes to one of them."
    );
    notice::tell_owner(tx, &to_owner).map(|_| text)
}
