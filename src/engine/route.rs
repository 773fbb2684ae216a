//! An inbound event: which agents hear it, which refuse it, and why.

use std::borrow::Cow;

use super::approvals::{self, Stranger, Unheard};
use super::duplicate::{End, Remembered};
use super::engage::{Heard, weigh};
use super::export::Of;
use super::messages::NewMessage;
use super::wake::Arrival;
use super::{Applied, Cx, Result, chats, duplicate, messages, notice, sessions, threads, users, wake};
use crate::model::address::{Address, UserId};
use crate::model::approval::Held;
use crate::model::effect::{Effect, ExportedMessage};
use crate::model::entity::{Agent, Chat, Wiring};
use crate::model::id::{AgentId, ApprovalId, BodyId, ChatId, DropId, MessageId, SessionId};
use crate::model::input::InboundEvent;
use crate::model::message::{Body, Drop, Reason};
use crate::model::report::{Decision, Outcome, Reply, RouteReport, WiringReport};
use crate::model::time::Millis;
use crate::state::Write;

/// How far back to look whether a chat was told of a full backlog.
const DROPS_BACK_MAX: u64 = 100;
/// How long that counts.
const TOLD_AGAIN: Millis = Millis::minutes(60);

/// Takes in a message of a platform: dedup, chat, sender, then every wiring for itself, all in one transaction.
pub(super) fn route(cx: &Cx<'_>, txn: &mut Write<'_>, event: &InboundEvent) -> Result<Applied> {
    let threads = threads::known(cx, txn, event)?;
    let without_thread;
    let event = match (threads, &event.source.thread) {
        (Some(false), Some(_)) => {
            without_thread = threads::without(event);
            &without_thread
        }
        _ => event,
    };
    let remembered = Remembered::of(event);
    if let Some(seen) = remembered.as_ref().map(|event| event.find(cx, txn)).transpose()?.flatten() {
        return duplicate::repeat(cx, txn, (event, threads), &seen);
    }
    if let Some(answered) = approvals::answer(cx, txn, event)? {
        return Ok(answered);
    }
    let known = chats::known(cx, txn, &event.source)?;
    let (chat_id, mut chat) = match &*known {
        Some((id, chat)) => (*id, Cow::Borrowed(chat)),
        None if event.mention => {
            let (id, chat) = chats::discover(cx, txn, &event.source, event.group)?;
            (id, Cow::Owned(chat))
        }
        // Strangers in chats the bot merely sits in leave no rows.
        None => return Ok(silent(event, None, Reason::UnknownChat)),
    };
    let effects = chats::refresh(cx, txn, (chat_id, &mut chat), event)?;
    let sender = sender_of(event);
    let mut fan_out = FanOut::of((event, threads), sender.as_ref(), (chat_id, &*chat), remembered);
    fan_out.effects = effects;
    let mut listeners = chats::listening(cx, txn, chat_id)?;
    if listeners.is_empty() {
        if let Some(done) = fan_out.nobody_listens(cx, txn)? {
            return Ok(done);
        }
        listeners = chats::listening(cx, txn, chat_id)?;
    }
    users::refresh_name(cx, txn, sender.as_ref(), event.content.sender_name.as_deref())?;
    let wirings = fan_out.offer_all(cx, txn, &listeners)?;
    conclude(cx, txn, fan_out, wirings)
}

/// The person who sent an event: nothing but the adapter's sender id makes an identity.
pub(super) fn sender_of(event: &InboundEvent) -> Option<UserId> {
    event.content.sender.clone().map(|handle| UserId::new(event.source.channel.clone(), handle))
}

/// One event on its way to several agents.
pub(super) struct FanOut<'a> {
    event: &'a InboundEvent,
    /// Whether the chat has threads, if anybody knows.
    threads: Option<bool>,
    sender: Option<&'a UserId>,
    chat_id: ChatId,
    chat: &'a Chat,
    remembered: Option<Remembered<'a>>,
    /// What it says, once that is stored.
    pub(super) body: Option<BodyId>,
    /// Whether the sender was told that a command is denied.
    told: bool,
    /// Agents that would have somebody asked about the sender.
    asking: Vec<AgentId>,
    /// The decision that it waits for.
    pub(super) held: Option<ApprovalId>,
    pub(super) effects: Vec<Effect>,
}

impl<'a> FanOut<'a> {
    pub(super) fn of(
        (event, threads): (&'a InboundEvent, Option<bool>),
        sender: Option<&'a UserId>,
        (chat_id, chat): (ChatId, &'a Chat),
        remembered: Option<Remembered<'a>>,
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
            asking: Vec::new(),
            held: None,
            effects: Vec::new(),
        }
    }

    /// Lets every wiring decide for itself; what wants somebody to be asked is asked once for all of them.
    pub(super) fn offer_all(
        &mut self,
        cx: &Cx<'_>,
        txn: &mut Write<'_>,
        listeners: &[(AgentId, Agent, Wiring)],
    ) -> Result<Vec<WiringReport>> {
        let mut wirings = Vec::with_capacity(listeners.len());
        for (agent_id, agent, wiring) in listeners {
            wirings.push(self.offer(cx, txn, (*agent_id, agent), wiring)?);
        }
        if let Some(reason) = self.ask_about_sender(cx, txn, &wirings)? {
            let held = wirings.iter_mut().filter(|report| report.why == Reason::SenderHeld);
            held.for_each(|report| report.why = reason);
        }
        Ok(wirings)
    }

    /// Has somebody asked about the sender and keeps the message until the answer, or says why not.
    fn ask_about_sender(
        &mut self,
        cx: &Cx<'_>,
        txn: &mut Write<'_>,
        wirings: &[WiringReport],
    ) -> Result<Option<Reason>> {
        let agents = std::mem::take(&mut self.asking);
        let (Some(sender), false) = (self.sender, agents.is_empty()) else { return Ok(None) };
        let name = self.event.content.sender_name.as_deref();
        let stranger = Stranger { chat: self.chat_id, sender, name, agents: &agents };
        match approvals::admit(cx, txn, stranger, &mut self.effects)? {
            Ok(approval) => {
                let heard = wirings.iter().any(|report| report.message.is_some());
                self.hold(cx, txn, approval, (agents, heard))?;
                Ok(None)
            }
            Err(reason) => {
                let only = if let [only] = agents.as_slice() { Some(*only) } else { None };
                record_drop(cx, txn, self.event, Some(self.chat_id), (only, reason))?;
                Ok(Some(reason))
            }
        }
    }

    fn hold(
        &mut self,
        cx: &Cx<'_>,
        txn: &mut Write<'_>,
        approval: ApprovalId,
        (agents, heard): (Vec<AgentId>, bool),
    ) -> Result<()> {
        let body = self.body(cx, txn)?;
        let held = Held {
            agents,
            heard,
            mention: self.event.mention,
            group: self.event.group,
            threads: self.threads,
            reply_to: self.event.reply_to.clone(),
            stored: cx.now.wall,
        };
        self.held = Some(approval);
        approvals::hold(cx, txn, (approval, body), &held)
    }

    fn body(&mut self, cx: &Cx<'_>, txn: &mut Write<'_>) -> Result<BodyId> {
        match self.body {
            Some(body) => Ok(body),
            None => {
                let body = body_of(cx, self.event, self.sender.cloned());
                Ok(*self.body.insert(messages::insert_body(cx, txn, &body)?))
            }
        }
    }

    /// The bot was addressed where no agent listens: somebody is asked who is to listen, unless the chat was denied.
    /// Otherwise it is nobody's business. No answer: somebody listens from now on.
    fn nobody_listens(&mut self, cx: &Cx<'_>, txn: &mut Write<'_>) -> Result<Option<Applied>> {
        let (event, chat) = (self.event, Some(self.chat_id));
        if self.chat.denied.is_some() {
            return Ok(Some(silent(event, chat, Reason::ChatDenied)));
        }
        if !event.mention {
            return Ok(Some(silent(event, chat, Reason::NoAgentWired)));
        }
        match approvals::unheard(cx, txn, event, (self.chat_id, self.chat), &mut self.effects)? {
            Unheard::Wired => Ok(None),
            Unheard::Held(approval) => {
                self.hold(cx, txn, approval, (Vec::new(), false))?;
                self.remember(cx, txn, End { held: self.held, ..End::refused(Reason::ChannelHeld) })?;
                let report =
                    RouteReport { outcome: Outcome::Held, reason: Some(Reason::ChannelHeld), ..blank(event, chat) };
                Ok(Some(Applied::new(Reply::Routed(report), std::mem::take(&mut self.effects))))
            }
            Unheard::Dropped(reason) => {
                record_drop(cx, txn, event, chat, (None, reason))?;
                self.remember(cx, txn, End::refused(reason))?;
                Ok(Some(silent(event, chat, reason)))
            }
        }
    }

    fn remember(&mut self, cx: &Cx<'_>, txn: &mut Write<'_>, end: End) -> Result<()> {
        match self.remembered.take() {
            Some(event) => event.remember(cx, txn, end),
            None => Ok(()),
        }
    }

    /// Lets one wiring decide and does what it decides.
    fn offer(
        &mut self,
        cx: &Cx<'_>,
        txn: &mut Write<'_>,
        (agent_id, agent): (AgentId, &Agent),
        wiring: &Wiring,
    ) -> Result<WiringReport> {
        let heard = Heard { event: self.event, chat: self.chat, sender: self.sender, threads: self.threads };
        let verdict = weigh(cx, txn, heard, (agent_id, wiring))?;
        let (mut decision, mut why) = (verdict.decision, verdict.why);
        if decision == Decision::Engaged && messages::backlog(cx, txn, agent_id)? >= cx.policy.backlog_max {
            (decision, why) = (Decision::Refused, Reason::Backlog);
        }
        let mut report = WiringReport { agent: agent.folder.clone(), session: None, decision, why, message: None };
        match decision {
            Decision::Engaged | Decision::Accumulated => {
                let (session, message) =
                    self.store(cx, txn, (agent_id, agent), (wiring, decision == Decision::Engaged))?;
                (report.session, report.message) = (Some(session), Some(message));
                if decision == Decision::Engaged {
                    threads::engaged(cx, txn, (agent_id, wiring), heard, &mut self.effects)?;
                }
            }
            Decision::Refused if why == Reason::SenderHeld => self.asking.push(agent_id),
            Decision::Refused => {
                if why == Reason::Backlog {
                    self.tell_of_backlog(cx, txn, (agent_id, agent))?;
                }
                record_drop(cx, txn, self.event, Some(self.chat_id), (Some(agent_id), why))?;
            }
            Decision::Filtered | Decision::Denied => {
                if let Some(text) = verdict.told {
                    self.tell(cx, txn, text)?;
                }
                record_drop(cx, txn, self.event, Some(self.chat_id), (Some(agent_id), why))?;
            }
            Decision::Ignored if why == Reason::Muted => {
                record_drop(cx, txn, self.event, Some(self.chat_id), (Some(agent_id), why))?;
            }
            Decision::Ignored => {}
        }
        Ok(report)
    }

    /// Tells the sender that a command is denied; once, however many agents deny it.
    fn tell(&mut self, cx: &Cx<'_>, txn: &mut Write<'_>, text: String) -> Result<()> {
        if self.told {
            return Ok(());
        }
        self.told = true;
        notice::say_to(cx, txn, (self.reply(), None), text, &mut self.effects).map(drop)
    }

    /// Says in the chat that an agent takes nothing more; once in a while, not for every message.
    fn tell_of_backlog(&mut self, cx: &Cx<'_>, txn: &mut Write<'_>, (id, agent): (AgentId, &Agent)) -> Result<()> {
        let last = cx.db.dropped.last(txn, ..)?.map_or(0, |(last, _)| last.number());
        let from = DropId::new(last.saturating_sub(DROPS_BACK_MAX));
        let newest = cx.db.dropped.range(txn, from..)?.collect::<Result<Vec<_>>>()?;
        let told = |drop: &Drop| {
            let same = drop.agent == Some(id) && drop.chat == Some(self.chat_id) && drop.reason == Reason::Backlog;
            same && drop.at.plus(TOLD_AGAIN) > cx.now.wall
        };
        if newest.iter().any(|(_, drop)| told(drop)) {
            return Ok(());
        }
        let name = &agent.settings.name;
        let text = format!("{name} has too many waiting messages and takes no more until some are answered.");
        notice::say_to(cx, txn, (self.reply(), None), text, &mut self.effects).map(drop)
    }

    /// Where an answer goes.
    fn reply(&self) -> Address {
        self.event.reply_to.clone().unwrap_or_else(|| self.event.source.clone())
    }

    fn store(
        &mut self,
        cx: &Cx<'_>,
        txn: &mut Write<'_>,
        (agent_id, agent): (AgentId, &Agent),
        (wiring, trigger): (&Wiring, bool),
    ) -> Result<(SessionId, MessageId)> {
        let body = self.body(cx, txn)?;
        let mode = sessions::decide_mode(wiring.session, self.threads, self.chat.group);
        let route = sessions::decide_route(mode, self.chat_id, &self.event.source);
        let (session, row) = sessions::arrive(cx, txn, agent_id, route, &self.event.source)?;
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
        };
        let message = messages::insert(cx, txn, new)?;
        if trigger {
            let message = ExportedMessage {
                seq,
                id: message,
                kind: self.event.kind,
                trigger,
                said: self.event.said.unwrap_or(cx.now.wall),
                reply: Some(reply),
                content: self.event.content.raw.clone(),
                attachments: self.event.attachments.clone(),
            };
            let of = Of { id: session, session: &row, agent };
            wake::wake_visibly(cx, txn, Arrival { of, message }, &mut self.effects)?;
        }
        Ok((session, message))
    }
}

fn body_of(cx: &Cx<'_>, event: &InboundEvent, sender: Option<UserId>) -> Body {
    Body {
        content: event.content.clone(),
        kind: event.kind,
        said: event.said.unwrap_or(cx.now.wall),
        source: Some(event.source.clone()),
        platform_message: event.platform_message.clone(),
        sender,
        attachments: event.attachments.clone(),
    }
}

/// Sums up what the wirings decided and remembers the event.
fn conclude(cx: &Cx<'_>, txn: &mut Write<'_>, fan_out: FanOut<'_>, wirings: Vec<WiringReport>) -> Result<Applied> {
    let end = fan_out.end(cx, txn, &wirings)?;
    let outcome = match (end.refused, end.held) {
        (None, _) => Outcome::Routed,
        (Some(_), Some(_)) => Outcome::Held,
        (Some(_), None) => Outcome::Dropped,
    };
    let report = RouteReport { outcome, reason: end.refused, wirings, ..blank(fan_out.event, Some(fan_out.chat_id)) };
    if let Some(event) = fan_out.remembered {
        event.remember(cx, txn, end)?;
    }
    Ok(Applied::new(Reply::Routed(report), fan_out.effects))
}

impl FanOut<'_> {
    /// What is remembered of the event; that nobody took it is recorded.
    pub(super) fn end(&self, cx: &Cx<'_>, txn: &mut Write<'_>, wirings: &[WiringReport]) -> Result<End> {
        let messages: Vec<MessageId> = wirings.iter().filter_map(|report| report.message).collect();
        let refused = match self.held {
            Some(_) if messages.is_empty() => Some(Reason::SenderHeld),
            _ => decide_refusal(wirings),
        };
        if refused == Some(Reason::NoAgentEngaged) {
            record_drop(cx, txn, self.event, Some(self.chat_id), (None, Reason::NoAgentEngaged))?;
        }
        Ok(End { messages, refused, held: self.held })
    }
}

/// Why nobody has the message; none if somebody has. A refusal by a gate or a mute comes before nobody's interest.
fn decide_refusal(wirings: &[WiringReport]) -> Option<Reason> {
    if wirings.iter().any(|report| report.message.is_some()) {
        return None;
    }
    let refuses = |report: &&WiringReport| match report.decision {
        Decision::Refused | Decision::Filtered | Decision::Denied => true,
        Decision::Ignored => report.why == Reason::Muted,
        Decision::Engaged | Decision::Accumulated => false,
    };
    let refused = wirings.iter().find(refuses);
    Some(refused.map_or(Reason::NoAgentEngaged, |report| report.why))
}

fn silent(event: &InboundEvent, chat: Option<ChatId>, reason: Reason) -> Applied {
    let report = RouteReport { reason: Some(reason), ..blank(event, chat) };
    Applied::new(Reply::Routed(report), Vec::new())
}

/// A report of an event that nobody has.
pub(super) fn blank(event: &InboundEvent, chat: Option<ChatId>) -> RouteReport {
    let event = event.platform_message.as_ref().map_or_else(String::new, ToString::to_string);
    RouteReport { event, chat, outcome: Outcome::Dropped, reason: None, wirings: Vec::new() }
}

/// Records that nobody has an event, or that one agent has not.
pub(super) fn record_drop(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    event: &InboundEvent,
    chat: Option<ChatId>,
    (agent, reason): (Option<AgentId>, Reason),
) -> Result<()> {
    let id: DropId = cx.db.allocate(txn)?;
    let drop = Drop {
        at: cx.now.wall,
        channel: event.source.channel.clone(),
        platform_id: event.source.platform_id.clone(),
        chat,
        agent,
        platform_message: event.platform_message.clone(),
        sender: sender_of(event),
        sender_name: event.content.sender_name.clone(),
        reason,
    };
    cx.db.dropped.append(txn, &id, &drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::entity::Folder;

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
