//! The history of one event, assembled from its rows.

use std::collections::BTreeSet;

use super::answers;
use super::find::FoundEvent;
use super::heard;
use super::json::{AnswerJson, EventJson, FileJson, MessageJson, StepJson, WiringJson};
use super::mutes;
use super::spoken;
use super::waits::{self, Daemon};
use crate::cli::{approvals, labels, lookup, net, spend};
use crate::model::Timestamp;
use crate::model::address::{ChannelName, ForeignId};
use crate::model::approval::{ApprovalState, ApprovalSubject};
use crate::model::content::Attachment;
use crate::model::delivery::{OutState, Outbound};
use crate::model::id::{BodyId, JournalId, MessageId, OutboundId};
use crate::model::incarnation::IncarnationId;
use crate::model::journal::Event;
use crate::model::message::{Body, Message, Reason, Seen};
use crate::state::envelope::Record;
use crate::state::recall::source::{self, SaidText, TERMS_MAX};
use crate::state::{self, ChatKey, ForeignKey, HeldKey, KeyPart, Owned, Read, SeenKey, Table, Tables, WiringKey};

/// Maximum number of answers and journal entries shown per message.
const ROWS_MAX: usize = 1_000;
/// How many journal entries before the first one about a message are searched for events since its arrival.
const BEFORE_MAX: u64 = 500;

/// Assembles an event's history.
pub(super) fn trace(db: &Tables, txn: &Read<'_>, daemon: Daemon, hit: &FoundEvent) -> Result<EventJson, state::Error> {
    let mut trace = Trace { db, txn, daemon, event: EventJson::default() };
    for id in &hit.messages {
        trace.message(*id)?;
    }
    if let Some(key) = &hit.held {
        trace.held(*key)?;
    }
    for id in &hit.drops {
        let Some(drop) = trace.expect(&db.dropped_events, id)? else { continue };
        trace.refusal(&drop)?;
    }
    trace.decision(hit)?;
    if hit.drops.is_empty() || !hit.messages.is_empty() {
        trace.silent_wirings(hit)?;
    }
    if let Some(id) = hit.answer {
        trace.answer(id)?;
    }
    if let Some(key) = &hit.seen {
        trace.seen_only(key)?;
    }
    trace.event.timeline.sort_by_key(|step| step.order);
    Ok(trace.event)
}

struct Trace<'a, 't> {
    db: &'a Tables,
    txn: &'a Read<'t>,
    daemon: Daemon,
    event: EventJson,
}

impl Trace<'_, '_> {
    /// Reads a row that another one refers to. A missing row is recorded as damage.
    fn expect<K: KeyPart, V: Record>(&mut self, table: &Table<K, V>, key: &K) -> Result<Option<V>, state::Error> {
        match table.require(self.txn, key) {
            Err(missing @ state::Error::Missing { .. }) => {
                self.event.damaged.push(missing.to_string());
                Ok(None)
            }
            found => found.map(Some),
        }
    }

    fn step(&mut self, at: Timestamp, message: Option<MessageId>, what: String) {
        let message = message.map(|id| id.to_string());
        self.event.timeline.push(StepJson { at: at.to_string(), message, what, order: at });
    }

    fn message(&mut self, id: MessageId) -> Result<(), state::Error> {
        let (db, txn) = (self.db, self.txn);
        let Some(message) = self.expect(&db.messages, &id)? else { return Ok(()) };
        let body = match message.state.ended() {
            Some(_) => db.bodies.get(txn, &message.body)?, // retention removes bodies first
            None => self.expect(&db.bodies, &message.body)?,
        };
        let said = body.as_ref().map(|body| source::of_stored(db, txn, message.body, body)).transpose()?.flatten();
        match body {
            Some(row) => self.head(message.body, &row, message.stored)?,
            None => self.expired_head(&message),
        }
        let agent = lookup::folder(db, txn, message.agent)?;
        let (decision, kept) =
            if message.trigger { ("engaged", "as a trigger") } else { ("accumulated", "as context") };
        if let Some(hop) = message.from {
            let speaker = lookup::folder_of_session(db, txn, hop.session)?;
            let what = format!(
                "sent by agent {speaker} in {}, {} agents since the last message of a person",
                hop.session, hop.count
            );
            self.step(message.stored, Some(id), what);
        }
        if let Some(slot) = message.slot {
            self.step(message.stored, Some(id), format!("created by task {}, scheduled for {}", slot.task, slot.at));
        }
        let what = format!("accepted for {agent} in {}, {kept}", message.session);
        self.step(message.stored, Some(id), what);
        if let Some(text) = said {
            self.left_out(message.stored, Some(id), &text);
        }
        self.event.wirings.push(WiringJson {
            agent: Some(agent.clone()),
            decision,
            reason: None,
            words: format!("{id} in {}, {kept}", message.session),
            message: Some(id.to_string()),
        });
        self.journal(id, &message)?;
        let answers = self.answers(id)?;
        let used = spend::of_message(db, txn, id)?;
        for entry in used.iter().flat_map(|(_, entries)| entries) {
            self.step(entry.at, Some(id), spend::entry_words(entry));
        }
        for connection in net::of_message(db, txn, id)? {
            let at = connection.began;
            self.step(at, Some(id), net::words(db, txn, connection)?);
        }
        self.end(id, &message);
        let wait = waits::of_message(db, txn, self.daemon, id, &message)?;
        self.event.messages.push(MessageJson {
            message: id.to_string(),
            agent,
            session: message.session.to_string(),
            task: message.slot.map(|slot| slot.task.to_string()),
            slot: message.slot.map(|slot| slot.at.to_string()),
            state: labels::state(&message.state),
            words: wait.words,
            next_try: wait.next_try.map(|at| at.to_string()),
            tries: message.tries,
            spend: used.map(|(sum, _)| sum),
            answers,
        });
        Ok(())
    }

    /// The event, or a part of it, waits for a decision.
    fn held(&mut self, key: HeldKey) -> Result<(), state::Error> {
        let (db, txn) = (self.db, self.txn);
        let (Some(held), Some(body)) = (db.held_messages.get(txn, &key)?, db.bodies.get(txn, &key.body)?) else {
            return Ok(());
        };
        self.head(key.body, &body, held.stored)?;
        let id = key.approval;
        let reason = match db.approvals.get(txn, &id)?.map(|approval| approval.about) {
            Some(ApprovalSubject::Channel { .. }) => Reason::ChannelHeld,
            _ => Reason::SenderHeld,
        };
        self.step(held.stored, None, format!("waits for a decision: {id}"));
        let words = format!("{id}: {}", reason.explanation());
        let agents = match held.agents.as_slice() {
            [] => vec![None],
            agents => agents.iter().map(|agent| lookup::folder(db, txn, *agent).map(Some)).collect::<Result<_, _>>()?,
        };
        for agent in agents {
            let (reason, words) = (Some(reason.to_string()), words.clone());
            self.event.wirings.push(WiringJson { agent, decision: "held", reason, words, message: None });
        }
        Ok(())
    }

    /// The decision that the event waited for, or waits for.
    fn decision(&mut self, hit: &FoundEvent) -> Result<(), state::Error> {
        let (db, txn) = (self.db, self.txn);
        let seen = match (hit.messages.first(), hit.drops.first()) {
            (Some(id), _) => {
                let body = db.messages.get(txn, id)?.map(|message| message.body);
                let body = body.map(|id| db.bodies.get(txn, &id)).transpose()?.flatten();
                match body.map(|body| (body.source, body.platform_message)) {
                    Some((Some(at), Some(message))) => seen(db, txn, &at.channel, &at.platform_id, &message)?,
                    _ => None,
                }
            }
            (None, Some(id)) => match db.dropped_events.get(txn, id)? {
                Some(drop) => match &drop.platform_message {
                    Some(message) => seen(db, txn, &drop.channel, &drop.platform_id, message)?,
                    None => None,
                },
                None => None,
            },
            (None, None) => None,
        };
        let Some((seen, id)) = seen.and_then(|seen| seen.held.map(|id| (seen, id))) else { return Ok(()) };
        if hit.held.is_none() {
            self.step(seen.at, None, format!("waited for a decision: {id}"));
        }
        let Some(approval) = db.approvals.get(txn, &id)? else { return Ok(()) };
        let at = match &approval.state {
            ApprovalState::Approved { at, .. }
            | ApprovalState::Rejected { at, .. }
            | ApprovalState::Expired { at }
            | ApprovalState::Superseded { at, .. } => *at,
            ApprovalState::Unsent { .. } | ApprovalState::Pending | ApprovalState::Naming { .. } => return Ok(()),
        };
        let words = approvals::state_words(&approval.state).unwrap_or_default();
        self.step(at, None, format!("{id} was {}: {words}", approval.state.as_str()));
        Ok(())
    }

    fn head(&mut self, id: BodyId, body: &Body, taken_in: Timestamp) -> Result<(), state::Error> {
        let event = &mut self.event;
        if !event.taken_in.is_empty() {
            return Ok(());
        }
        let transcripts = self.db.transcripts.get(self.txn, &id)?.map(|row| row.files).unwrap_or_default();
        event.timeline.extend(transcripts.iter().filter_map(heard::step));
        event.taken_in = taken_in.to_string();
        event.said = Some(body.said.to_string());
        event.platform_message = body.platform_message.as_ref().map(ToString::to_string);
        event.chat = body.source.as_ref().map(|at| format!("{}/{}", at.channel, at.platform_id));
        event.thread = body.source.as_ref().and_then(|at| at.thread.as_ref()).map(ToString::to_string);
        event.sender = body.sender.as_ref().map(ToString::to_string);
        event.sender_name.clone_from(&body.content.sender_name);
        event.text = Some(labels::excerpt(&body.content.text));
        let file = |file: &Attachment| FileJson {
            name: file.name.clone(),
            size: file.size,
            error: file.blob.get().err().map(str::to_owned),
            transcript: transcripts.iter().find(|heard| heard.file == file.name).map(heard::json),
        };
        event.files = body.attachments.iter().map(file).collect();
        Ok(())
    }

    fn expired_head(&mut self, message: &Message) {
        let event = &mut self.event;
        if event.taken_in.is_empty() {
            event.taken_in = message.stored.to_string();
            event.chat = message.reply.as_ref().map(|at| format!("{}/{}", at.channel, at.platform_id));
            event.expired = true;
        }
    }

    fn refusal(&mut self, drop: &crate::model::message::Drop) -> Result<(), state::Error> {
        if self.event.taken_in.is_empty() {
            self.event.taken_in = drop.at.to_string();
            self.event.platform_message = drop.platform_message.as_ref().map(ToString::to_string);
            self.event.chat = Some(format!("{}/{}", drop.channel, drop.platform_id));
            self.event.thread = drop.thread.as_ref().map(ToString::to_string);
            self.event.sender = drop.sender.as_ref().map(ToString::to_string);
            self.event.sender_name.clone_from(&drop.sender_name);
        }
        let agent = drop.agent.map(|agent| lookup::folder(self.db, self.txn, agent)).transpose()?;
        let whose = agent.as_ref().map_or_else(String::new, |agent| format!(" for {agent}"));
        let words = match (drop.reason, drop.agent, &agent) {
            (Reason::Muted, Some(id), Some(folder)) => mutes::words(self.db, self.txn, drop, id, folder)?,
            _ => drop.reason.explanation().to_owned(),
        };
        self.step(drop.at, None, format!("dropped{whose}: {words}"));
        let decision = match drop.reason {
            Reason::CommandFiltered => "filtered",
            Reason::CommandDenied => "denied",
            Reason::Muted => "ignored",
            _ => "refused",
        };
        let reason = Some(drop.reason.to_string());
        self.event.wirings.push(WiringJson { agent, decision, reason, words, message: None });
        Ok(())
    }

    /// Wirings of the chat without a row. A wiring that ignores a message records nothing.
    fn silent_wirings(&mut self, hit: &FoundEvent) -> Result<(), state::Error> {
        let (db, txn) = (self.db, self.txn);
        let Some(first) = hit.messages.first() else { return Ok(()) };
        let Some(message) = db.messages.get(txn, first)? else { return Ok(()) };
        let source = db.bodies.get(txn, &message.body)?.and_then(|body| body.source);
        let Some((chat, _)) = source.map(|at| lookup::chat_at(db, txn, &at)).transpose()?.flatten() else {
            return Ok(());
        };
        for (WiringKey { agent, .. }, wiring) in db.wirings.collect_prefix(txn, &chat, ROWS_MAX)? {
            let folder = lookup::folder(db, txn, agent)?;
            if self.event.wirings.iter().any(|known| known.agent.as_ref() == Some(&folder)) {
                continue;
            }
            let words = if wiring.created > message.stored {
                "wired later"
            } else {
                "ignored: it did not engage, and it keeps no context"
            };
            self.event.wirings.push(WiringJson {
                agent: Some(folder),
                decision: "no_record",
                reason: None,
                words: words.to_owned(),
                message: None,
            });
        }
        Ok(())
    }

    fn journal(&mut self, id: MessageId, message: &Message) -> Result<(), state::Error> {
        let (db, txn) = (self.db, self.txn);
        let mut claimed = BTreeSet::new();
        let mut first = None;
        for (Owned { id: entry, .. }, ()) in db.journal_by_message.collect_prefix(txn, &id, ROWS_MAX)? {
            let Some(row) = self.expect(&db.journal, &entry)? else { continue };
            first = first.or(Some(entry));
            if let Event::Claimed(number) = row.event {
                claimed.insert(number);
            }
            self.step(row.at, Some(id), labels::event(&row.event));
        }
        for (Owned { id: entry, .. }, ()) in db.tool_calls_by_message.collect_last(txn, &id, ROWS_MAX)? {
            let Some(row) = self.expect(&db.journal, &entry)? else { continue };
            self.step(row.at, Some(id), labels::event(&row.event));
        }
        self.session(id, message, first)?;
        claimed.extend(
            self.db
                .live_incarnations
                .get(txn, &message.session)?
                .filter(|_| message.trigger && message.state.ended().is_none()),
        );
        for number in claimed {
            let run = IncarnationId::new(message.session, number);
            let Some(incarnation) = db.incarnations.get(txn, &run)? else { continue };
            if incarnation.started >= message.stored {
                let what = format!("run {number} of {} was started for it", message.session);
                self.step(incarnation.started, Some(id), what);
            }
        }
        Ok(())
    }

    /// Events of the session while the message was being processed.
    fn session(&mut self, id: MessageId, message: &Message, first: Option<JournalId>) -> Result<(), state::Error> {
        let (db, txn) = (self.db, self.txn);
        let entries = match first {
            Some(first) => {
                // Includes events between its arrival and the first entry about it.
                let before = JournalId::new(first.number().saturating_sub(BEFORE_MAX));
                let entry = |id| Owned { owner: message.session, id };
                let range = entry(before)..=entry(JournalId::new(u64::MAX));
                db.journal_by_session.collect_range(txn, range, ROWS_MAX)?
            }
            None => db.journal_by_session.collect_last(txn, &message.session, ROWS_MAX)?,
        };
        let over = message.state.ended();
        for (Owned { id: entry, .. }, ()) in entries {
            let Some(row) = self.expect(&db.journal, &entry)? else { continue };
            let during = row.at >= message.stored && over.is_none_or(|over| row.at <= over);
            let about = match &row.event {
                Event::AnswerRefused(answer, _) | Event::AnswerAbandoned(answer) => {
                    db.outbound.get(txn, answer)?.is_some_and(|outbound| outbound.in_reply_to == Some(id))
                }
                _ => during,
            };
            if about {
                self.step(row.at, Some(id), labels::event(&row.event));
            }
        }
        Ok(())
    }

    fn answers(&mut self, id: MessageId) -> Result<Vec<AnswerJson>, state::Error> {
        let (db, txn) = (self.db, self.txn);
        let mut answers = Vec::new();
        for (Owned { id: answer, .. }, ()) in db.outbound_by_message.collect_prefix(txn, &id, ROWS_MAX)? {
            let Some(outbound) = self.expect(&db.outbound, &answer)? else { continue };
            self.answer_steps(Some(id), answer, &outbound)?;
            answers.push(answers::shape(db, txn, self.daemon, answer, &outbound)?);
        }
        Ok(answers)
    }

    /// The outgoing message that was asked about. Its own steps are part of the event's history, unless it refers to no
    /// event.
    fn answer(&mut self, id: OutboundId) -> Result<(), state::Error> {
        let (db, txn) = (self.db, self.txn);
        let Some(outbound) = self.expect(&db.outbound, &id)? else { return Ok(()) };
        if self.event.taken_in.is_empty() {
            self.event.taken_in = outbound.stored.to_string();
        }
        if outbound.in_reply_to.is_none() {
            self.answer_steps(None, id, &outbound)?;
            for (at, event) in answers::entries(db, txn, id, &outbound)? {
                self.step(at, None, labels::event(&event));
            }
        }
        self.event.answer = Some(answers::shape(db, txn, self.daemon, id, &outbound)?);
        Ok(())
    }

    /// An event of which only the row for duplicate detection remains.
    fn seen_only(&mut self, key: &SeenKey) -> Result<(), state::Error> {
        let Some(seen) = self.db.seen_events.get(self.txn, key)?.filter(|_| self.event.taken_in.is_empty()) else {
            return Ok(());
        };
        self.event.taken_in = seen.at.to_string();
        self.event.platform_message = Some(seen.platform_message.to_string());
        self.event.chat = Some(key.chat.shown());
        let reason = seen.refused.unwrap_or(Reason::NoAgentEngaged);
        let words = reason.explanation().to_owned();
        let (decision, what) = match reason {
            Reason::Answer => ("consumed", words.clone()),
            _ => ("refused", format!("dropped: {words}")),
        };
        self.step(seen.at, None, what);
        let reason = Some(reason.to_string());
        self.event.wirings.push(WiringJson { agent: None, decision, reason, words, message: None });
        Ok(())
    }

    fn answer_steps(
        &mut self,
        id: Option<MessageId>,
        answer: OutboundId,
        outbound: &Outbound,
    ) -> Result<(), state::Error> {
        let who = match answers::incarnation(&outbound.author) {
            Some(number) => format!("run {number} sent"),
            None => "Hearth sent".to_owned(),
        };
        let said = match spoken::answer_of(self.db, self.txn, answer)? {
            Some(written) => format!("the spoken form of {written}"),
            None => labels::excerpt(&outbound.text),
        };
        self.step(outbound.stored, id, format!("{who} {answer}: {said}"));
        if let Some(speech) = self.db.speeches.get(self.txn, &answer)? {
            self.event
                .timeline
                .push(StepJson { message: id.map(|id| id.to_string()), ..spoken::step(answer, &speech) });
        }
        if let Some((_, text)) = source::of_outbound(outbound) {
            self.left_out(outbound.stored, id, &text);
        }
        let to = outbound.to.as_ref().map_or_else(String::new, |to| format!(" to {}", lookup::place(to)));
        match &outbound.state {
            OutState::Delivered { at, .. } => self.step(*at, id, format!("{answer} was delivered{to}")),
            OutState::Failed { error, at } => {
                self.step(*at, id, format!("{answer} could not be delivered{to}: {error}"));
            }
            _ => {}
        }
        Ok(())
    }

    /// Says if searches do not find all words of a text.
    fn left_out(&mut self, at: Timestamp, id: Option<MessageId>, text: &SaidText) {
        let words = text.words().left_out();
        if words > 0 {
            let what = format!("searches do not find its last words: it has more than {TERMS_MAX} different ones");
            self.step(at, id, format!("{what}, and {words} are not indexed"));
        }
    }

    fn end(&mut self, id: MessageId, message: &Message) {
        let Some(at) = message.state.ended() else { return };
        let detail = labels::state_detail(&message.state).map_or_else(String::new, |words| format!(": {words}"));
        let what = format!("{}{detail}", labels::state(&message.state));
        let message = Some(id.to_string());
        // The journal may already have this step.
        if !self.event.timeline.iter().any(|step| step.order == at && step.message == message && step.what == what) {
            self.step(at, Some(id), what);
        }
    }
}

fn seen(
    db: &Tables,
    txn: &Read<'_>,
    channel: &ChannelName,
    chat: &ForeignId,
    message: &ForeignId,
) -> Result<Option<Seen>, state::Error> {
    let key = SeenKey { chat: ChatKey::of(channel, chat), message: ForeignKey::of(message) };
    let seen = db.seen_events.get(txn, &key)?;
    Ok(seen.filter(|seen| seen.platform_message == *message))
}
