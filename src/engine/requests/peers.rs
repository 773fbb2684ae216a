//! Messages between agents: the same transaction that stores what one said gives it to the other.

use crate::engine::json::{self, Field};
use crate::engine::messages::{self, NewMessage};
use crate::engine::{Cx, Result, agents, notice, remove, sessions, wake};
use crate::model::address::{Address, ChannelName, ForeignId, UserId};
use crate::model::content::Content;
use crate::model::effect::Effect;
use crate::model::entity::{Destination, Folder};
use crate::model::id::{AgentId, DropId, MessageId, SessionId};
use crate::model::mailbox::Said;
use crate::model::message::{Body, Drop, Due, Hop, Message, MessageKind, MessageState, Reason};
use crate::model::session::{ChatSession, SessionStatus};
use crate::model::time::Millis;
use crate::state::Write;

/// The namespace of agents among those who speak. No channel instance has this name.
pub(in crate::engine) const CHANNEL: &str = "agent";

/// Messages of a session that are looked through for the last one of another agent.
const BACK_MAX: usize = 200;
/// Recorded refusals that are looked through for whether the owner was told.
const DROPS_BACK_MAX: u64 = 100;
/// How long that counts.
const TOLD_AGAIN: Millis = Millis::minutes(60);

/// Another agent, or the same one in another session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) struct Peer {
    /// Which.
    pub(in crate::engine) agent: AgentId,
    /// The session that is answered.
    pub(in crate::engine) session: Option<SessionId>,
}

/// What became of a message to another agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::engine) enum Sent {
    /// The other one has it.
    Stored(MessageId),
    /// It went through too many agents, as the text says: recorded, and those who have to know were told.
    Dropped(String),
}

/// Where an answer to what another agent said goes, as an address: agents are told it, and may write to it.
pub(in crate::engine) fn address(from_agent: bool, body: &Body) -> Option<Address> {
    let speaker = body.sender.as_ref().filter(|_| from_agent)?;
    Some(Address { channel: speaker.channel().clone(), platform_id: speaker.handle().clone(), thread: None })
}

/// The agent that an address names, if the speaker may write to it; every agent may write to itself.
pub(in crate::engine) fn by_address(
    cx: &Cx<'_>,
    txn: &Write<'_>,
    from: AgentId,
    address: &Address,
) -> Result<std::result::Result<Peer, String>> {
    let name = address.platform_id.as_str();
    let unknown = || format!("the agent has no destination that is the agent {name:?}");
    let Ok(folder) = Folder::new(name) else { return Ok(Err(unknown())) };
    let Some((agent, _)) = agents::find(cx, txn, &folder)? else { return Ok(Err(unknown())) };
    let destinations = cx.db.destinations.collect_prefix(txn, &from, cx.policy.rows_per_input)?;
    let allowed = agent == from || destinations.iter().any(|(_, to)| *to == Destination::Agent(agent));
    Ok(if allowed { Ok(Peer { agent, session: None }) } else { Err(unknown()) })
}

/// Gives something to another agent; refused with the reason if that cannot be.
pub(in crate::engine) fn send(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (from, said, question): (SessionId, &Said, Option<&Message>),
    peer: Peer,
    effects: &mut Vec<Effect>,
) -> Result<std::result::Result<Sent, String>> {
    let Some(speaker) = Speaker::of(cx, txn, from)? else { return Ok(Err("the session is gone".to_owned())) };
    if remove::is_removed(cx, txn, peer.agent)? {
        return Ok(Err("the other agent was removed".to_owned()));
    }
    let count = hops(cx, txn, from, question)?.saturating_add(1);
    if count > cx.policy.hops_max {
        return refuse(cx, txn, (&speaker, from), peer.agent, effects).map(|why| Ok(Sent::Dropped(why)));
    }
    if messages::backlog(cx, txn, peer.agent)? >= cx.policy.backlog_max {
        return Ok(Err("the other agent has too many waiting messages".to_owned()));
    }
    let answered = whom(cx, txn, (from, question), peer)?;
    let body = messages::insert_body(cx, txn, &body(cx, said, &speaker))?;
    let (session, row) = sessions::arrive_in(cx, txn, peer.agent, answered)?;
    let seq = row.last_number;
    let hop = Some(Hop { session: from, count });
    let new = NewMessage { session, agent: peer.agent, seq, body, trigger: true, reply: None, from: hop, slot: None };
    let message = messages::insert(cx, txn, new)?;
    match said.deliver_after {
        Some(time) if time > cx.now.wall => {
            messages::update(cx, txn, message, |row| row.state = MessageState::Pending(Due::At(time)))?;
        }
        _ => {
            wake::wake_about(cx, txn, (session, message), effects)?;
        }
    }
    Ok(Ok(Sent::Stored(message)))
}

/// The agent that speaks.
struct Speaker {
    folder: Folder,
    id: UserId,
}

impl Speaker {
    fn of(cx: &Cx<'_>, txn: &Write<'_>, session: SessionId) -> Result<Option<Self>> {
        let Some(session) = sessions::load(cx, txn, session)? else { return Ok(None) };
        let agent = cx.db.agents.require(txn, &session.agent)?;
        let channel = ChannelName::new(CHANNEL);
        let handle = ForeignId::new("the agent", agent.folder.as_str());
        // A folder is a plain name: both can be.
        let (Ok(channel), Ok(handle)) = (channel, handle) else { return Ok(None) };
        Ok(Some(Self { folder: agent.folder, id: UserId::new(channel, handle) }))
    }
}

/// What was said, with who said it in front: the edge let nothing of the agent's own stand there.
fn body(cx: &Cx<'_>, said: &Said, speaker: &Speaker) -> Body {
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
        said: cx.now.wall,
        source: None,
        platform_message: None,
        sender: Some(speaker.id.clone()),
        attachments: said.files.iter().map(|file| file.attachment.clone()).collect(),
    }
}

/// Agents that what the speaking turn works on went through since a person spoke. What is said after a turn belongs to
/// the newest message of its session.
fn hops(cx: &Cx<'_>, txn: &Write<'_>, session: SessionId, question: Option<&Message>) -> Result<u32> {
    let count = |message: &Message| message.from.map_or(0, |hop| hop.count);
    let mut most = question.map_or(0, count);
    let mut worked_on = cx.db.claims.collect_prefix(txn, &session, cx.policy.rows_per_input)?;
    if worked_on.is_empty() && question.is_none() {
        worked_on = cx.db.messages_by_session.collect_last(txn, &session, 1)?;
    }
    for (_, id) in worked_on {
        most = most.max(count(&cx.db.messages.require(txn, &id)?));
    }
    Ok(most)
}

/// The session of the other agent that this goes to: the one that is answered, else the one that wrote last.
fn whom(
    cx: &Cx<'_>,
    txn: &Write<'_>,
    (from, question): (SessionId, Option<&Message>),
    peer: Peer,
) -> Result<Option<SessionId>> {
    let asked = peer.session.or_else(|| question.and_then(|question| question.from).map(|hop| hop.session));
    if let Some(session) = asked
        && talks(sessions::load(cx, txn, session)?.as_ref(), peer.agent)
    {
        return Ok(Some(session));
    }
    for (_, id) in cx.db.messages_by_session.collect_last(txn, &from, BACK_MAX)? {
        let Some(hop) = cx.db.messages.require(txn, &id)?.from else { continue };
        if talks(sessions::load(cx, txn, hop.session)?.as_ref(), peer.agent) {
            return Ok(Some(hop.session));
        }
    }
    Ok(None)
}

/// Whether a session is one in which an agent can be written to.
fn talks(session: Option<&ChatSession>, agent: AgentId) -> bool {
    session.is_some_and(|session| session.agent == agent && session.status == SessionStatus::Active)
}

/// Records that a message went through too many agents, and says so: to the agent, and once in a while to the owner.
fn refuse(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (speaker, session): (&Speaker, SessionId),
    to: AgentId,
    effects: &mut Vec<Effect>,
) -> Result<String> {
    let other = cx.db.agents.require(txn, &to)?.folder;
    let most = cx.policy.hops_max;
    let last = cx.db.dropped.last(txn, ..)?.map_or(0, |(last, _)| last.number());
    let from = DropId::new(last.saturating_sub(DROPS_BACK_MAX));
    let newest = cx.db.dropped.range(txn, from..)?.collect::<Result<Vec<_>>>()?;
    let told = newest.iter().any(|(_, drop)| {
        let same = drop.agent == Some(to) && drop.sender.as_ref() == Some(&speaker.id);
        same && drop.reason == Reason::TooManyHops && drop.at.plus(TOLD_AGAIN) > cx.now.wall
    });
    let drop = Drop {
        at: cx.now.wall,
        channel: speaker.id.channel().clone(),
        platform_id: speaker.id.handle().clone(),
        chat: None,
        agent: Some(to),
        platform_message: None,
        sender: Some(speaker.id.clone()),
        sender_name: Some(speaker.folder.as_str().to_owned()),
        reason: Reason::TooManyHops,
    };
    let id: DropId = cx.db.allocate(txn)?;
    cx.db.dropped.put(txn, &id, &drop)?;
    let folder = &speaker.folder;
    let text = format!(
        "Your message to {other} was not given to it: agents have written to each other {most} times since a person spoke."
    );
    notice::tell_agent(cx, txn, session, &text)?;
    if told {
        return Ok(text);
    }
    let to_owner = format!(
        "{folder} and {other} have written to each other {most} times without a person; \
         their messages stop here until somebody writes to one of them."
    );
    notice::tell_owner(cx, txn, &to_owner, effects).map(|()| text)
}
