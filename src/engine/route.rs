//! An inbound event: which agents hear it, which refuse it, and why.

use super::duplicate::Remembered;
use super::engage::{Heard, weigh};
use super::export::Of;
use super::messages::NewMessage;
use super::wake::Arrival;
use super::{Applied, Cx, Result, chats, duplicate, messages, notice, sessions, threads, users, wake};
use crate::model::address::{Address, UserId};
use crate::model::effect::{Effect, ExportedMessage};
use crate::model::entity::{Agent, Chat, Wiring};
use crate::model::id::{AgentId, BodyId, ChatId, DropId, MessageId, SessionId};
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
    let (chat_id, mut chat) = match chats::find(cx, txn, &event.source.channel, &event.source.platform_id)? {
        Some(found) => found,
        None if event.mention => chats::discover(cx, txn, &event.source, event.group)?,
        // Strangers in chats the bot merely sits in leave no rows.
        None => return Ok(silent(event, None, Reason::UnknownChat)),
    };
    let effects = chats::refresh(cx, txn, (chat_id, &mut chat), event)?;
    let listeners = chats::listeners(cx, txn, chat_id)?;
    if listeners.is_empty() {
        return nobody_listens(cx, txn, event, (chat_id, &chat), remembered);
    }
    let sender = sender_of(event);
    users::refresh_name(cx, txn, sender.as_ref(), event.content.sender_name.as_deref())?;
    let (sender, chat) = (sender.as_ref(), &chat);
    let mut fan_out = FanOut { event, threads, sender, chat_id, chat, body: None, told: false, effects };
    let mut wirings = Vec::with_capacity(listeners.len());
    for (agent_id, agent, wiring) in &listeners {
        wirings.push(fan_out.offer(cx, txn, (*agent_id, agent), wiring)?);
    }
    conclude(cx, txn, fan_out, wirings, remembered)
}

/// The person who sent an event: nothing but the adapter's sender id makes an identity.
pub(super) fn sender_of(event: &InboundEvent) -> Option<UserId> {
    event.content.sender.clone().map(|handle| UserId::new(event.source.channel.clone(), handle))
}

/// One event on its way to several agents.
struct FanOut<'a> {
    event: &'a InboundEvent,
    /// Whether the chat has threads, if anybody knows.
    threads: Option<bool>,
    sender: Option<&'a UserId>,
    chat_id: ChatId,
    chat: &'a Chat,
    body: Option<BodyId>,
    /// Whether the sender was told that a command is denied.
    told: bool,
    effects: Vec<Effect>,
}

impl FanOut<'_> {
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
        let body = match self.body {
            Some(body) => body,
            None => *self.body.insert(messages::insert_body(cx, txn, &body_of(cx, self.event, self.sender.cloned()))?),
        };
        let mode = sessions::decide_mode(wiring.session, self.threads, self.chat.group);
        let route = sessions::decide_route(mode, self.chat_id, &self.event.source);
        let (session, row) = sessions::arrive(cx, txn, agent_id, route, &self.event.source)?;
        let (seq, reply) = (row.last_number, self.reply());
        let new = NewMessage { session, agent: agent_id, seq, body, trigger, reply: Some(reply.clone()), from: None };
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
fn conclude(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    fan_out: FanOut<'_>,
    wirings: Vec<WiringReport>,
    remembered: Option<Remembered<'_>>,
) -> Result<Applied> {
    let stored: Vec<MessageId> = wirings.iter().filter_map(|report| report.message).collect();
    let refused = decide_refusal(&wirings);
    if refused == Some(Reason::NoAgentEngaged) {
        record_drop(cx, txn, fan_out.event, Some(fan_out.chat_id), (None, Reason::NoAgentEngaged))?;
    }
    if let Some(event) = remembered {
        event.remember(cx, txn, stored, refused)?;
    }
    let outcome = if refused.is_none() { Outcome::Routed } else { Outcome::Dropped };
    let report = RouteReport { outcome, reason: refused, wirings, ..blank(fan_out.event, Some(fan_out.chat_id)) };
    Ok(Applied::new(Reply::Routed(report), fan_out.effects))
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

/// The bot was addressed where no agent listens: recorded, unless the chat was denied. Otherwise it is nobody's business.
fn nobody_listens(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    event: &InboundEvent,
    (chat_id, chat): (ChatId, &Chat),
    remembered: Option<Remembered<'_>>,
) -> Result<Applied> {
    if chat.denied.is_some() {
        return Ok(silent(event, Some(chat_id), Reason::ChatDenied));
    }
    if event.mention {
        record_drop(cx, txn, event, Some(chat_id), (None, Reason::NoAgentWired))?;
        if let Some(event) = remembered {
            event.remember(cx, txn, Vec::new(), Some(Reason::NoAgentWired))?;
        }
    }
    Ok(silent(event, Some(chat_id), Reason::NoAgentWired))
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

fn record_drop(
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
    cx.db.dropped.put(txn, &id, &drop)
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
