//! Routes messages to the agents that listen in their chat, and holds messages until an approval.

use crate::Result;
use crate::approvals::ask::Waits;
use crate::delivery::notice;
use crate::lifecycle::dispatch::DueMessage;
use crate::lifecycle::mailbox_view::SessionRef;
use crate::lifecycle::{dispatch, fetch, halt};
use crate::model::address::{Address, UserId};
use crate::model::approval::Held;
use crate::model::effect::ExportedMessage;
use crate::model::entity::{Agent, Chat, Wiring};
use crate::model::id::{AgentId, ApprovalId, BodyId, ChatId, DropId, MessageId, OutboundId, SessionId};
use crate::model::input::InboundEvent;
use crate::model::message::{Body, Drop, Reason};
use crate::model::report::{Decision, Outcome, Reply, RouteReport, WiringReport};
use crate::model::session::Route;
use crate::model::time::Millis;
use crate::routing::held::Stranger;
use crate::routing::seen::{EventKey, SeenOutcome};
use crate::routing::weigh::InboundContext;
use crate::rows::messages::NewMessage;
use crate::rows::{channels, messages, people, sessions, transcripts};
use crate::rules::commands::CommandReply;
use crate::rules::{access, engage};
use crate::state::{AgentChatKey, derived};
use crate::tx::Tx;

pub(crate) mod held;
mod own;
pub(crate) mod replay;
pub(crate) mod seen;
pub(crate) mod threads;
pub(crate) mod weigh;

/// How long a chat is not told again about a full backlog, counted from the last refusal.
const TOLD_AGAIN: Millis = Millis::minutes(60);

/// One event on its way to the agents of its chat.
pub(crate) struct FanOut<'a> {
    pub(crate) event: &'a InboundEvent,
    /// Whether the chat has threads, if known.
    threads: Option<bool>,
    sender: Option<&'a UserId>,
    pub(crate) chat_id: ChatId,
    pub(crate) chat: &'a Chat,
    pub(crate) remembered: Option<EventKey<'a>>,
    /// The stored text, once there is one.
    pub(crate) body: Option<BodyId>,
    /// Whether the sender was told that a command is denied.
    told: bool,
    /// What the sender is told of a command that Hearth carried out, for each agent.
    replies: Vec<CommandReply>,
    /// The message that tells it.
    pub(crate) answer: Option<OutboundId>,
    /// Agents that require an approval of the sender.
    asking: Vec<AgentId>,
    /// The approval that the message waits for.
    pub(crate) held: Option<ApprovalId>,
}

impl<'a> FanOut<'a> {
    pub(crate) fn of(
        event: &'a InboundEvent,
        threads: Option<bool>,
        sender: Option<&'a UserId>,
        chat_id: ChatId,
        chat: &'a Chat,
        remembered: Option<EventKey<'a>>,
    ) -> Self {
        Self {
            event,
            threads,
            sender,
            chat_id,
            chat,
            remembered,
            body: None,
            told: false,
            replies: Vec::new(),
            answer: None,
            asking: Vec::new(),
            held: None,
        }
    }

    /// Lets each wiring decide on its own. If several require an approval of the sender, one is requested for all of
    /// them.
    pub(crate) fn offer_all(
        &mut self,
        tx: &mut Tx<'_, '_>,
        listeners: &[(AgentId, Agent, Wiring)],
    ) -> Result<Vec<WiringReport>> {
        let mut wirings = Vec::with_capacity(listeners.len());
        for (agent_id, agent, wiring) in listeners {
            wirings.push(self.offer(tx, *agent_id, agent, wiring)?);
        }
        self.reply_to_command(tx)?;
        if let Some(reason) = self.ask_about_sender(tx, &wirings)? {
            let held = wirings.iter_mut().filter(|report| report.why == Reason::SenderHeld);
            held.for_each(|report| report.why = reason);
        }
        Ok(wirings)
    }

    /// Requests an approval of the sender and holds the message, or returns why it is dropped.
    fn ask_about_sender(&mut self, tx: &mut Tx<'_, '_>, wirings: &[WiringReport]) -> Result<Option<Reason>> {
        let agents = std::mem::take(&mut self.asking);
        let (Some(sender), false) = (self.sender, agents.is_empty()) else { return Ok(None) };
        let name = self.event.content.sender_name.as_deref();
        let stranger = Stranger { chat: self.chat_id, sender, name, agents: &agents };
        match held::admit(tx, stranger)? {
            Ok(waits) => {
                let heard = wirings.iter().any(|report| report.message.is_some());
                self.hold(tx, waits, agents, heard)?;
                Ok(None)
            }
            Err(reason) => {
                let only = if let [only] = agents.as_slice() { Some(*only) } else { None };
                record_drop(tx, self.event, Some(self.chat_id), only, reason)?;
                Ok(Some(reason))
            }
        }
    }

    pub(crate) fn hold(&mut self, tx: &mut Tx<'_, '_>, waits: Waits, agents: Vec<AgentId>, heard: bool) -> Result<()> {
        if waits.is_new {
            self.tell_of_waiting(tx, &agents)?;
        }
        let body = self.held_body(tx)?;
        let held = Held {
            agents,
            heard,
            mention: self.event.mention,
            group: self.event.group,
            threads: self.threads,
            reply_to: self.event.reply_to.clone(),
            stored: tx.now.wall,
        };
        self.held = Some(waits.approval);
        held::hold(tx, waits.approval, body, &held)
    }

    /// Tells the sender that the message is held, if the channel is configured to. Sent once per approval, and never
    /// where the chat is denied or muted for one of the agents.
    fn tell_of_waiting(&mut self, tx: &mut Tx<'_, '_>, agents: &[AgentId]) -> Result<()> {
        let channel = channels::row(tx, &self.event.source.channel)?;
        if self.chat.denied.is_some() || channel.is_none_or(|channel| !channel.tell_strangers) {
            return Ok(());
        }
        for agent in agents {
            if threads::is_muted(tx, *agent, &self.event.source)? {
                return Ok(());
            }
        }
        let text = "Your message was received. It waits for an approval.".to_owned();
        notice::say_to(tx, self.reply(), None, text).map(drop)
    }

    /// Stores the body of a held message, without files that exceed the limits, unless it is already stored for an
    /// agent.
    fn held_body(&mut self, tx: &mut Tx<'_, '_>) -> Result<BodyId> {
        if let Some(body) = self.body {
            return Ok(body);
        }
        let mut body = body_of(tx, self.event, self.sender.cloned());
        held::leave_out(tx, &mut body)?;
        Ok(*self.body.insert(messages::insert_body(tx, &body)?))
    }

    fn body(&mut self, tx: &mut Tx<'_, '_>) -> Result<BodyId> {
        match self.body {
            Some(body) => Ok(body),
            None => {
                let body = body_of(tx, self.event, self.sender.cloned());
                Ok(*self.body.insert(messages::insert_body(tx, &body)?))
            }
        }
    }

    pub(crate) fn remember(&mut self, tx: &mut Tx<'_, '_>, end: SeenOutcome) -> Result<()> {
        match self.remembered.take() {
            Some(event) => event.remember(tx, end),
            None => Ok(()),
        }
    }

    /// Lets one wiring decide and carries out the decision.
    fn offer(
        &mut self,
        tx: &mut Tx<'_, '_>,
        agent_id: AgentId,
        agent: &Agent,
        wiring: &Wiring,
    ) -> Result<WiringReport> {
        let heard = InboundContext { event: self.event, chat: self.chat, sender: self.sender, threads: self.threads };
        let verdict = weigh::weigh(tx, heard, agent_id, wiring)?;
        let (mut decision, mut why) = (verdict.decision, verdict.why);
        if decision == Decision::Engaged && !messages::has_place(tx, agent_id)? {
            (decision, why) = (Decision::Refused, Reason::Backlog);
        }
        let mut report = WiringReport { agent: agent.folder.clone(), session: None, decision, why, message: None };
        match decision {
            Decision::Engaged | Decision::Accumulated => {
                self.interrupt(tx, agent_id, wiring, decision)?;
                let (session, message) = self.store(tx, agent_id, agent, wiring, decision == Decision::Engaged)?;
                (report.session, report.message) = (Some(session), Some(message));
                if decision == Decision::Engaged {
                    threads::engaged(tx, agent_id, wiring, heard)?;
                }
            }
            Decision::Done => {
                self.carry_out(tx, agent_id, agent, wiring)?;
                record_drop(tx, self.event, Some(self.chat_id), Some(agent_id), why)?;
            }
            Decision::Refused if why == Reason::SenderHeld => self.asking.push(agent_id),
            Decision::Refused => {
                if why == Reason::Backlog {
                    self.tell_of_backlog(tx, agent_id, agent)?;
                }
                record_drop(tx, self.event, Some(self.chat_id), Some(agent_id), why)?;
            }
            Decision::Filtered | Decision::Denied => {
                if let Some(text) = verdict.told {
                    self.tell(tx, text)?;
                }
                record_drop(tx, self.event, Some(self.chat_id), Some(agent_id), why)?;
            }
            Decision::Ignored if why == Reason::Muted => {
                record_drop(tx, self.event, Some(self.chat_id), Some(agent_id), why)?;
            }
            Decision::Ignored => {}
        }
        Ok(report)
    }

    /// Tells the sender that a command is denied, only once even if several agents deny it.
    fn tell(&mut self, tx: &mut Tx<'_, '_>, text: String) -> Result<()> {
        if self.told {
            return Ok(());
        }
        self.told = true;
        notice::say_to(tx, self.reply(), None, text).map(drop)
    }

    /// Tells the chat that an agent's backlog is full: at the first refusal, and again after an hour without one.
    fn tell_of_backlog(&mut self, tx: &mut Tx<'_, '_>, id: AgentId, agent: &Agent) -> Result<()> {
        let last = tx.db.dropped_for_backlog.get(tx, &AgentChatKey { agent: id, chat: self.chat_id })?;
        let last = last.map(|last| tx.db.dropped_events.get(tx, &last)).transpose()?.flatten();
        if last.is_some_and(|last| last.at.plus(TOLD_AGAIN) > tx.now.wall) {
            return Ok(());
        }
        let name = &agent.settings.name;
        let text = format!("{name} has too many waiting messages and takes no more until some are answered.");
        notice::say_to(tx, self.reply(), None, text).map(drop)
    }

    /// Tells the sender that a message waits because its agent is frozen.
    fn tell_of_freeze(&self, tx: &mut Tx<'_, '_>, id: AgentId, agent: &Agent, message: MessageId) -> Result<()> {
        let Some(freeze) = halt::frozen(tx, id)? else { return Ok(()) };
        let (to, by) = (self.reply(), halt::name(tx, freeze.by.as_ref())?);
        let Agent { folder, settings, .. } = agent;
        let end = match notice::shows_details(tx, &to)? {
            true => format!("`hearth agents unfreeze {folder}` lets it work."),
            false => "The answer comes when it may work again.".to_owned(),
        };
        let text = format!("Your message waits: {} was frozen by {by}. {end}", settings.name);
        notice::say_to(tx, to, Some(message), text).map(drop)
    }

    /// The session of a wiring that the message belongs to.
    fn route(&self, wiring: &Wiring) -> Route {
        let mode = engage::decide_mode(wiring.session, self.threads, self.chat.group);
        engage::decide_route(mode, self.chat_id, &self.event.source)
    }

    /// The reply address.
    fn reply(&self) -> Address {
        self.event.reply_to.clone().unwrap_or_else(|| self.event.source.clone())
    }

    fn store(
        &mut self,
        tx: &mut Tx<'_, '_>,
        agent_id: AgentId,
        agent: &Agent,
        wiring: &Wiring,
        trigger: bool,
    ) -> Result<(SessionId, MessageId)> {
        let body = self.body(tx)?;
        let route = self.route(wiring);
        let (session, row) = sessions::arrive(tx, agent_id, route, &self.event.source)?;
        let (seq, reply) = (row.last_number, self.reply());
        let new = NewMessage {
            session,
            agent: agent_id,
            seq,
            body,
            trigger,
            reply: Some(reply.clone()),
            from: None,
            slot: None,
            chat: Some(self.chat_id),
        };
        let message = messages::insert(tx, new)?;
        if trigger {
            self.tell_of_freeze(tx, agent_id, agent, message)?;
        }
        if fetch::begin(tx, body, &self.event.attachments, trigger)? {
            messages::park(tx, message)?;
        } else if trigger {
            let message = ExportedMessage {
                seq,
                id: message,
                kind: self.event.kind,
                trigger,
                said: self.event.said.unwrap_or(tx.now.wall),
                unknown_sender: access::decide_unknown(self.event.kind, people::standing(tx, self.sender, agent_id)?),
                reply: Some(reply),
                content: self.event.content.raw.clone(),
                attachments: self.event.attachments.clone(),
                transcripts: transcripts::of(tx.db, tx, body, &self.event.attachments)?,
            };
            let of = SessionRef { id: session, session: &row, agent };
            dispatch::dispatch_visibly(tx, DueMessage { of, message, sender: self.sender })?;
        }
        Ok((session, message))
    }
}

fn body_of(tx: &Tx<'_, '_>, event: &InboundEvent, sender: Option<UserId>) -> Body {
    Body {
        content: event.content.clone(),
        kind: event.kind,
        said: event.said.unwrap_or(tx.now.wall),
        source: Some(event.source.clone()),
        platform_message: event.platform_message.clone(),
        sender,
        attachments: event.attachments.clone(),
    }
}

impl FanOut<'_> {
    /// The result to remember for the event. If no agent engaged, records the drop.
    pub(crate) fn end(&self, tx: &mut Tx<'_, '_>, wirings: &[WiringReport]) -> Result<SeenOutcome> {
        let messages: Vec<MessageId> = wirings.iter().filter_map(|report| report.message).collect();
        let refused = match self.held {
            Some(_) if messages.is_empty() => Some(Reason::SenderHeld),
            _ => decide_refusal(wirings),
        };
        if refused == Some(Reason::NoAgentEngaged) {
            record_drop(tx, self.event, Some(self.chat_id), None, Reason::NoAgentEngaged)?;
        }
        Ok(SeenOutcome { messages, refused, held: self.held })
    }
}

/// Why no agent received the message; none if one did. A refusal or a mute takes precedence over "no agent engaged".
fn decide_refusal(wirings: &[WiringReport]) -> Option<Reason> {
    if wirings.iter().any(|report| report.message.is_some()) {
        return None;
    }
    let refuses = |report: &&WiringReport| match report.decision {
        Decision::Refused | Decision::Filtered | Decision::Denied | Decision::Done => true,
        Decision::Ignored => report.why == Reason::Muted,
        Decision::Engaged | Decision::Accumulated => false,
    };
    let refused = wirings.iter().find(refuses);
    Some(refused.map_or(Reason::NoAgentEngaged, |report| report.why))
}

pub(crate) fn silent(event: &InboundEvent, chat: Option<ChatId>, reason: Reason) -> Reply {
    let report = RouteReport { reason: Some(reason), ..blank(event, chat) };
    Reply::Routed(report)
}

/// The report of an event that no agent received.
pub(crate) fn blank(event: &InboundEvent, chat: Option<ChatId>) -> RouteReport {
    let event = event.platform_message.as_ref().map_or_else(String::new, ToString::to_string);
    RouteReport { event, chat, outcome: Outcome::Dropped, reason: None, wirings: Vec::new(), answer: None }
}

/// Records that an event was dropped, for all agents or for one.
pub(crate) fn record_drop(
    tx: &mut Tx<'_, '_>,
    event: &InboundEvent,
    chat: Option<ChatId>,
    agent: Option<AgentId>,
    reason: Reason,
) -> Result<()> {
    let id: DropId = tx.db.allocate(tx)?;
    let drop = Drop {
        at: tx.now.wall,
        channel: event.source.channel.clone(),
        platform_id: event.source.platform_id.clone(),
        thread: event.source.thread.clone(),
        chat,
        agent,
        platform_message: event.platform_message.clone(),
        sender: people::sender_of(event),
        sender_name: event.content.sender_name.clone(),
        reason,
    };
    if let Some(key) = derived::refused_for_backlog(&drop) {
        tx.db.dropped_for_backlog.put(tx, &key, &id)?;
    }
    tx.db.dropped_events.append(tx, &id, &drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::entity::Folder;
    use crate::model::id::MessageId;
    use crate::model::report::Decision;

    #[test]
    fn the_real_reason_of_a_refusal_is_kept() {
        let report = |decision, why, message: Option<u64>| WiringReport {
            agent: Folder::new("a").unwrap(),
            session: None,
            decision,
            why,
            message: message.map(MessageId::new),
        };
        let ignored = || report(Decision::Ignored, Reason::NotMentioned, None);
        let refused = || report(Decision::Refused, Reason::UnknownSenderStrict, None);
        let engaged = || report(Decision::Engaged, Reason::PatternMatch, Some(1));
        assert_eq!(decide_refusal(&[ignored(), ignored()]), Some(Reason::NoAgentEngaged));
        assert_eq!(decide_refusal(&[ignored(), refused()]), Some(Reason::UnknownSenderStrict));
        assert_eq!(decide_refusal(&[refused(), engaged()]), None);
        let denied = || report(Decision::Denied, Reason::CommandDenied, None);
        let muted = || report(Decision::Ignored, Reason::Muted, None);
        assert_eq!(decide_refusal(&[ignored(), denied(), refused()]), Some(Reason::CommandDenied));
        assert_eq!(decide_refusal(&[ignored(), muted()]), Some(Reason::Muted));
    }
}
