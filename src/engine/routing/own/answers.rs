//! Texts that answer commands in chats. All are bounded, and name no path, program or code.

use crate::Result;
use crate::approvals::{approvers, texts};
use crate::lifecycle::fallback::Next;
use crate::lifecycle::mailbox_view::SessionRef;
use crate::lifecycle::rate_limit::AgentProvider;
use crate::lifecycle::{fallback, halt, rate_limit};
use crate::model::address::{Address, UserId};
use crate::model::approval::Approval;
use crate::model::delivery::Act;
use crate::model::entity::Agent;
use crate::model::id::{AgentId, ApprovalId, SessionId};
use crate::model::message::MessageState;
use crate::model::rate_limit::{LimitCause, RateLimit};
use crate::model::session::{ChatSession, SessionSettings};
use crate::model::session_providers::StandIn;
use crate::model::spend::{Amounts, Money};
use crate::model::task::{Task, TaskHome};
use crate::model::time::{Day, Timestamp};
use crate::readable;
use crate::rows::{agents, approvals, chats, direct, session_providers, sessions, settings, spend};
use crate::state::{Owned, ScopeKey};
use crate::time::local;
use crate::time::zone::Zone;
use crate::tx::Tx;
use std::collections::BTreeSet;

/// Messages that are counted.
const COUNTED: usize = 1_000;
/// Tasks and approvals that are looked at.
const SEARCHED: usize = 200;
/// Entries of a list.
const SHOWN: usize = 8;
/// Characters of a task's prompt that are shown.
const PROMPT_CHARS: usize = 80;

/// An agent in the conversation in which it is asked.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) id: AgentId,
    pub(super) agent: &'a Agent,
    /// The session, if there is one.
    pub(super) session: Option<SessionId>,
}

impl Asked<'_> {
    fn name(&self) -> &str {
        &self.agent.settings.name
    }

    fn row(&self, tx: &Tx<'_, '_>) -> Result<Option<(SessionId, ChatSession)>> {
        let Some(id) = self.session else { return Ok(None) };
        Ok(sessions::load(tx, id)?.map(|row| (id, row)))
    }

    /// Says what the agent does here, what waits, and what drives it.
    pub(super) fn status(&self, tx: &Tx<'_, '_>) -> Result<String> {
        let row = self.row(tx)?;
        let waiting = match &row {
            Some((id, _)) => {
                let ready = tx.db.ready_messages.collect_prefix(tx, id, COUNTED)?.len();
                ready + tx.db.session_backoffs.collect_prefix(tx, id, COUNTED)?.len()
            }
            None => 0,
        };
        let mut lines = vec![self.state(tx, row.as_ref(), waiting)?];
        if waiting > 0 {
            lines.push(format!("Waiting: {}.", counted(waiting, "message")));
        }
        let provider = row.as_ref().and_then(|(_, row)| row.provider).unwrap_or(self.agent.settings.provider);
        let stand_in =
            row.map(|(id, _)| session_providers::of(tx.db, tx, id)).transpose()?.and_then(|row| row.stand_in);
        match stand_in {
            Some(StandIn { fallback, since, .. }) => {
                let (own, since) =
                    (provider.as_str(), local::clock(since, tx.now.wall, &agents::zone_of(tx, self.id)?));
                lines.push(format!("Provider: {fallback}, since {since}, because {own} took no work."));
            }
            None => {
                lines.push(format!("Provider: {}.", provider.as_str()));
                lines.push(format!("Model: {}. Effort: {}.", self.model(tx)?, self.effort(tx)?));
            }
        }
        Ok(lines.join("\n"))
    }

    fn state(&self, tx: &Tx<'_, '_>, row: Option<&(SessionId, ChatSession)>, waiting: usize) -> Result<String> {
        let name = self.name();
        let zone = agents::zone_of(tx, self.id)?;
        if let Some(freeze) = halt::frozen(tx, self.id)? {
            let (by, at) = (halt::name(tx, freeze.by.as_ref())?, local::show(freeze.at, &zone));
            return Ok(format!("{name} was frozen by {by} on {at}. Messages wait."));
        }
        if let Some(limit) = self.pause(tx, row)? {
            let what = match limit.cause {
                LimitCause::Limited => "is overloaded or limits its use",
                LimitCause::Unreachable => "cannot be reached",
            };
            let at = local::clock(limit.again, tx.now.wall, &zone);
            return Ok(format!("{name} waits: its provider {what}. The next try is at about {at}."));
        }
        let Some((id, row)) = row else { return Ok(format!("{name} was not asked anything here.")) };
        Ok(if row.failed_starts > 0 {
            format!("{name} cannot be started. It is tried again until it works.")
        } else if tx.db.claimed_messages.first_in(tx, id)?.is_some() {
            format!("{name} is working here.")
        } else if waiting > 0 {
            format!("{name} has not begun yet.")
        } else {
            format!("{name} is idle here.")
        })
    }

    /// The pause that keeps the agent from working here, if one does.
    fn pause(&self, tx: &Tx<'_, '_>, row: Option<&(SessionId, ChatSession)>) -> Result<Option<RateLimit>> {
        let Some((id, session)) = row else { return rate_limit::current(tx, AgentProvider::own(self.id)) };
        Ok(match fallback::next(tx, SessionRef { id: *id, session, agent: self.agent })? {
            Next::Wait(limit) => Some(limit),
            Next::Provider(_) => None,
        })
    }

    /// The model of this conversation.
    pub(super) fn model(&self, tx: &Tx<'_, '_>) -> Result<String> {
        let chosen = self.chosen(tx)?.model;
        Ok(setting(chosen.as_deref(), self.agent.settings.model.as_deref()))
    }

    /// The effort of this conversation.
    pub(super) fn effort(&self, tx: &Tx<'_, '_>) -> Result<String> {
        let chosen = self.chosen(tx)?.effort;
        Ok(setting(chosen.as_deref(), self.agent.settings.effort.as_deref()))
    }

    fn chosen(&self, tx: &Tx<'_, '_>) -> Result<SessionSettings> {
        let row = self.session.map(|id| readable(tx.db.session_settings.get(tx, &id))).transpose()?.flatten();
        Ok(row.unwrap_or_default())
    }

    /// Counts the messages and turns of this conversation, and what models were used for in its chat.
    pub(super) fn usage(&self, tx: &Tx<'_, '_>, chat: &Address) -> Result<String> {
        let name = self.name();
        let Some((id, row)) = self.row(tx)? else { return Ok(format!("{name} was not asked anything here.")) };
        let zone = settings::zone(tx)?;
        let day = |at: Timestamp| Day::of(at, zone.offset_at(at.millis().div_euclid(1_000)));
        let today = day(tx.now.wall);
        let (mut asked, mut failed, mut turns) = (0_usize, 0_usize, BTreeSet::new());
        let newest = tx.db.messages_by_session.collect_last(tx, &id, COUNTED)?;
        for (_, id) in &newest {
            let Some(message) = readable(tx.db.messages.get(tx, id))?.filter(|message| message.trigger) else {
                continue;
            };
            asked += usize::from(day(message.stored) == today);
            // All messages of a turn end at the same time.
            if let Some(ended) = message.state.ended().filter(|ended| day(*ended) == today) {
                turns.insert(ended);
                failed += usize::from(matches!(message.state, MessageState::Failed { .. }));
            }
        }
        let least = if newest.len() < COUNTED { "" } else { "at least " };
        let failed = if failed == 0 { String::new() } else { format!(" Failed: {}.", counted(failed, "message")) };
        let (asked, turns) = (counted(asked, "message"), counted(turns.len(), "turn"));
        let since = local::show(row.created, &zone);
        let all = counted(usize::try_from(row.messages).unwrap_or(usize::MAX), "message");
        let costs = costs(tx, chat, today)?;
        Ok(format!("{name} here, today: {least}{asked}, {turns}.{failed}\nSince {since}: {all}.\n{costs}"))
    }

    /// Lists the tasks that answer in a chat.
    pub(super) fn tasks(&self, tx: &Tx<'_, '_>, chat: &Address) -> Result<String> {
        let zone = agents::zone_of(tx, self.id)?;
        let mut lines = Vec::new();
        for (Owned { id, .. }, ()) in tx.db.tasks_by_agent.collect_prefix(tx, &self.id, SEARCHED)? {
            let Some(task) = readable(tx.db.tasks.get(tx, &id))? else { continue };
            let is_here = match (&task.reply, task.home) {
                (Some(to), _) => is_same(to, chat),
                (None, TaskHome::Session(home)) => self.session == Some(home),
                (None, TaskHome::Maintenance) => false,
            };
            if is_here {
                lines.push(format!("{id} {}: {}", when(&task, tx.now.wall, &zone), excerpt(&task.prompt)));
            }
        }
        Ok(list(&format!("Tasks of {} here", self.name()), lines, "none"))
    }
}

/// Lists what a person may decide, with the words to answer. A group learns only how much there is.
pub(super) fn approvals(tx: &Tx<'_, '_>, by: &UserId, chat: &Address, is_group: bool) -> Result<String> {
    let mut lines = Vec::new();
    for (id, ()) in tx.db.approvals_open.collect_range(tx, .., SEARCHED)? {
        let Some(approval) = approvals::open(tx, id)?.filter(|approval| tx.now.wall < approval.expires) else {
            continue;
        };
        if approvers::may_decide(tx, by, &approvers::scope(tx, &approval.about)?)? {
            lines.push(if is_group { String::new() } else { approval_line(tx, id, &approval, by, chat)? });
        }
    }
    Ok(match (is_group, lines.len()) {
        (true, count @ 1..) => {
            let (what, which) = (counted(count, "approval"), if count == 1 { "it" } else { "them" });
            format!("You can decide {what}. Write `/approvals` in a direct chat to see {which}.")
        }
        _ => list("You can decide", lines, "nothing at the moment"),
    })
}

fn approval_line(tx: &Tx<'_, '_>, id: ApprovalId, approval: &Approval, by: &UserId, chat: &Address) -> Result<String> {
    let asker = match approval.about.session() {
        Some(session) => sessions::load(tx, session)?.map(|row| row.agent),
        None => None,
    };
    let text = texts::text(tx.db, tx, &approval.about, asker)?;
    let card = approval.card.map(|card| tx.db.outbound.get(tx, &card)).transpose()?.flatten();
    let is_near = |to: &Address| is_same(to, chat) || direct::on_terminal(by).is_some_and(|own| is_same(to, &own));
    let how = match card {
        Some(card) if card.to.as_ref().is_some_and(is_near) => match &card.act {
            Act::Ask(card) => {
                let options = card.offered().map(|(at, option)| format!("`{id} {}` {}", at + 1, option.label));
                options.collect::<Vec<_>>().join(", ")
            }
            _ => "say the name of the new agent".to_owned(),
        },
        Some(_) => "answer where its card is".to_owned(),
        None => format!("`hearth approvals show {id}`"),
    };
    Ok(format!("{id} {}: {} ({how})", text.title, text.summary()))
}

/// What models were used for in a chat today and in this month, by all agents.
fn costs(tx: &Tx<'_, '_>, chat: &Address, today: Day) -> Result<String> {
    let Some((chat, _)) = chats::find(tx, &chat.channel, &chat.platform_id)? else { return Ok(String::new()) };
    let month = spend::total(tx.db, tx, &ScopeKey::Chat(chat), today.month()..=today)?;
    if month.turns == 0 {
        return Ok("Costs: not known in this chat.".to_owned());
    }
    let day = spend::total(tx.db, tx, &ScopeKey::Chat(chat), today..=today)?;
    Ok(format!("Models in this chat, today: {}. This month: {}.", used(day), used(month)))
}

fn used(amounts: Amounts) -> String {
    let tokens = amounts.tokens.total();
    let unpriced = if amounts.unpriced == Money::ZERO { "" } else { " and more that has no known price" };
    format!("{tokens} tokens, {}{unpriced}", amounts.cost)
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn setting(chosen: Option<&str>, own: Option<&str>) -> String {
    match (chosen, own) {
        (Some(chosen), _) => format!("{chosen}, chosen for this conversation"),
        (None, Some(own)) => own.to_owned(),
        (None, None) => "the provider's default".to_owned(),
    }
}

fn is_same(one: &Address, other: &Address) -> bool {
    (&one.channel, &one.platform_id) == (&other.channel, &other.platform_id)
}

fn when(task: &Task, now: Timestamp, zone: &Zone) -> String {
    match task.due() {
        Some(due) => format!("at {}", local::clock(due, now, zone)),
        None if task.running.is_some() => "runs now".to_owned(),
        None => "is paused".to_owned(),
    }
}

/// The beginning of a text, on one line.
fn excerpt(text: &str) -> String {
    let mut chars = text.split_whitespace().flat_map(|word| [" ", word]).flat_map(str::chars).skip(1);
    let short: String = chars.by_ref().take(PROMPT_CHARS).collect();
    if chars.next().is_some() { format!("{short}…") } else { short }
}

/// A list with a heading, cut after [`SHOWN`] lines.
fn list(heading: &str, mut lines: Vec<String>, none: &str) -> String {
    let more = lines.len().saturating_sub(SHOWN);
    lines.truncate(SHOWN);
    match (lines.as_slice(), more) {
        ([], _) => format!("{heading}: {none}."),
        (_, 0) => format!("{heading}:\n{}", lines.join("\n")),
        (_, more) => format!("{heading}:\n{}\nand {more} more", lines.join("\n")),
    }
}
