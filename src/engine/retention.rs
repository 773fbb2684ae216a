//! What is not kept for ever goes when its time is over: a few rows of each kind per sweep, oldest first.
//!
//! Ids are given out in the order of time, so looking stops at the first row that is young: the cost follows what is
//! due. How far each walk came is in the table `swept`. What has to stay although it is old (a message that still waits)
//! is passed over, and looked at again the next day.

use std::collections::BTreeSet;

use changing::Changing;
use walk::{Again, Walk};

use super::messages::{Removed, remove_files};
use super::{Cx, Result, cards, readable, schedule, workspaces};
use crate::model::approval::{Question, QuestionState};
use crate::model::content::BlobId;
use crate::model::delivery::{Act, Author, OutState, Outbound};
use crate::model::effect::Effect;
use crate::model::id::{BodyId, MessageId, OutboundId, SessionId, SkipId, TaskId};
use crate::model::message::{Body, Message, MessageState, Seen};
use crate::model::report::Caused;
use crate::model::retention::{Keep, Retention};
use crate::model::time::{Millis, Timestamp};
use crate::state::{ForeignKey, Number, Read, Tables, Text, Write};

mod changing;
mod walk;

/// What a message says of a file that was removed.
const EXPIRED: &str = "expired";
/// A card may be decided on for a while, and is changed then: it is kept at least so long.
const CARD_MIN: Millis = Millis::minutes(30 * 24 * 60);

/// Removes what is due; says how much of what. Nothing goes by a clock that has just jumped ahead.
pub(super) fn sweep(cx: &Cx<'_>, txn: &mut Write<'_>, effects: &mut Vec<Effect>) -> Result<Vec<Caused>> {
    if !cx.steady {
        return Ok(Vec::new());
    }
    let retention = cx.db.settings.get(txn, &())?.unwrap_or_default().retention;
    let mut caused = Vec::new();
    for (what, part) in PARTS {
        let mut own = Vec::new();
        let done = cx.apart(txn, &mut own, |txn, effects| part(cx, txn, &retention, effects))?.unwrap_or(0);
        caused.extend((done > 0).then(|| Caused { what: "expire", about: format!("{done} {what}") }));
        caused.extend(own.iter().map(Caused::from));
        effects.append(&mut own);
    }
    Ok(caused)
}

/// Lets every walk begin again, because something else is due now.
pub(super) fn begin_again(cx: &Cx<'_>, txn: &mut Write<'_>) -> Result<()> {
    let rows = cx.db.swept.collect_range(txn, .., cx.policy.rows_per_input)?;
    for (key, _) in rows.into_iter().filter(|(key, _)| key.as_str() != schedule::RENEWAL) {
        cx.db.swept.delete(txn, &key)?;
    }
    Ok(())
}

/// Whether files that were kept to be sent are needed: the message they go with still has to go out, or is young.
///
/// # Errors
/// Faults of the store.
pub fn needs_sent_files(
    db: &Tables,
    txn: &Read<'_>,
    (session, wire_id): (SessionId, &str),
    (since, now): (Timestamp, Timestamp),
) -> Result<bool> {
    let retention = db.settings.get(txn, &())?.unwrap_or_default().retention;
    let row = match Text::new(wire_id).map(|wire_id| db.outbound_by_wire.get(txn, &(session, wire_id))) {
        Ok(id) => id?.map(|id| db.outbound.get(txn, &id)).transpose()?.flatten(),
        Err(_) => None,
    };
    let Some(row) = row else { return Ok(since.plus(UNKNOWN_MIN) > now) };
    let young = retention.attachments().until(now).is_none_or(|end| row.stored >= end);
    Ok(young || over(&row).is_none())
}

/// Files that no message is known for may be of one that could not be taken in yet.
const UNKNOWN_MIN: Millis = Millis::minutes(7 * 24 * 60);

/// Removes some of one kind; how many.
type Part = fn(&Cx<'_>, &mut Write<'_>, &Retention, &mut Vec<Effect>) -> Result<usize>;

const PARTS: [(&str, Part); 13] = [
    ("journal entries", journal),
    ("refusals", drops),
    ("decisions", decisions),
    ("questions", questions),
    ("times of tasks", tasks),
    ("messages' files", attachments),
    ("sent messages' files", sent_files),
    ("messages' texts", bodies),
    ("sent messages", outbound),
    ("remembered ids", seen),
    ("sessions in the trash", trash),
    ("files that were given up", given_up),
    ("skips", skips),
];

fn journal(cx: &Cx<'_>, txn: &mut Write<'_>, retention: &Retention, _: &mut Vec<Effect>) -> Result<usize> {
    let Some(end) = retention.journal().until(cx.now.wall) else { return Ok(0) };
    for done in 0..cx.policy.retention_rows {
        let Some((id, entry)) = readable(cx.db.journal.first(txn, ..))?.filter(|(_, entry)| entry.at < end) else {
            return Ok(done);
        };
        cx.db.journal.delete(txn, &id)?;
        if let Some(message) = entry.message {
            cx.db.journal_by_message.delete(txn, &(message, id))?;
        }
        if let Some(session) = entry.session {
            cx.db.journal_by_session.delete(txn, &(session, id))?;
        }
    }
    Ok(cx.policy.retention_rows)
}

/// What became of skips. A question that nobody has answered stays.
fn skips(cx: &Cx<'_>, txn: &mut Write<'_>, retention: &Retention, _: &mut Vec<Effect>) -> Result<usize> {
    let Some(end) = retention.journal().until(cx.now.wall) else { return Ok(0) };
    let mut walk = Walk::resume(cx, txn, "skips", Again::Daily)?;
    let mut done = 0;
    while let Some((id, skip)) =
        walk.next(cx.policy.retention_rows, |at| readable(cx.db.skips.after(txn, &SkipId::new(at))))?
    {
        if skip.taken >= end {
            break;
        }
        done += usize::from(super::skips::forget_old(cx, txn, (id, &skip), end)?);
        walk.pass(id.number());
    }
    walk.note(cx, txn)?;
    Ok(done)
}

/// Sessions of workspaces that were in the trash for long enough.
fn trash(cx: &Cx<'_>, txn: &mut Write<'_>, _: &Retention, _: &mut Vec<Effect>) -> Result<usize> {
    workspaces::sweep_trash(cx, txn)
}

/// Files of sessions of which only some pieces came.
fn given_up(cx: &Cx<'_>, txn: &mut Write<'_>, _: &Retention, _: &mut Vec<Effect>) -> Result<usize> {
    workspaces::sweep_intakes(cx, txn)
}

fn drops(cx: &Cx<'_>, txn: &mut Write<'_>, retention: &Retention, _: &mut Vec<Effect>) -> Result<usize> {
    let Some(end) = retention.drops().until(cx.now.wall) else { return Ok(0) };
    for done in 0..cx.policy.retention_rows {
        let Some((id, _)) = readable(cx.db.dropped.first(txn, ..))?.filter(|(_, row)| row.at < end) else {
            return Ok(done);
        };
        cx.db.dropped.delete(txn, &id)?;
    }
    Ok(cx.policy.retention_rows)
}

/// What was decided on. It goes with the journal, as long after the last moment at which somebody could decide.
fn decisions(cx: &Cx<'_>, txn: &mut Write<'_>, retention: &Retention, _: &mut Vec<Effect>) -> Result<usize> {
    let Some(end) = retention.journal().until(cx.now.wall) else { return Ok(0) };
    for done in 0..cx.policy.retention_rows {
        let row = readable(cx.db.approvals.first(txn, ..))?;
        let Some((id, _)) = row.filter(|(_, row)| !row.state.is_open() && row.expires < end) else { return Ok(done) };
        if cx.db.held.first_in(txn, &id)?.is_some() {
            return Ok(done);
        }
        cx.db.approvals.delete(txn, &id)?;
    }
    Ok(cx.policy.retention_rows)
}

fn questions(cx: &Cx<'_>, txn: &mut Write<'_>, retention: &Retention, _: &mut Vec<Effect>) -> Result<usize> {
    let Some(end) = retention.journal().until(cx.now.wall) else { return Ok(0) };
    for done in 0..cx.policy.retention_rows {
        let row = readable(cx.db.questions.first(txn, ..))?;
        let over = |row: &Question| row.state != QuestionState::Open && row.expires < end;
        let Some((id, _)) = row.filter(|(_, row)| over(row)) else { return Ok(done) };
        cx.db.questions.delete(txn, &id)?;
    }
    Ok(cx.policy.retention_rows)
}

/// What became of times of tasks. A task that is over goes when nothing of it is left.
fn tasks(cx: &Cx<'_>, txn: &mut Write<'_>, retention: &Retention, _: &mut Vec<Effect>) -> Result<usize> {
    let Some(end) = retention.journal().until(cx.now.wall) else { return Ok(0) };
    let mut walk = Walk::resume(cx, txn, "tasks", Again::Daily)?;
    let mut done = 0;
    while let Some((id, task)) =
        walk.next(cx.policy.retention_rows, |at| readable(cx.db.tasks.after(txn, &TaskId::new(at))))?
    {
        let all = schedule::forget_fires(cx, txn, (id, end), (cx.policy.retention_rows, &mut done))?;
        if !all {
            break; // there is more of this one
        }
        if !task.state.is_open() && task.running.is_none() && task.changed < end && is_gone(cx, txn, id)? {
            cx.db.tasks.delete(txn, &id)?;
        }
        walk.pass(id.number());
    }
    walk.note(cx, txn)?;
    Ok(done)
}

fn is_gone(cx: &Cx<'_>, txn: &Write<'_>, task: TaskId) -> Result<bool> {
    Ok(cx.db.fires.first_in(txn, &task)?.is_none())
}

/// Files of messages that are over. Those of a message that still waits go with what it says.
fn attachments(cx: &Cx<'_>, txn: &mut Write<'_>, retention: &Retention, effects: &mut Vec<Effect>) -> Result<usize> {
    let mut walk = Walk::resume(cx, txn, "attachments", Again::Never)?;
    let mut unneeded = Vec::new();
    let mut done = 0;
    while let Some(id) = walk.next(cx.policy.retention_rows, |at| cx.db.bodies.next_key(txn, &BodyId::new(at)))? {
        match fate(cx, txn, id, retention.attachments())? {
            Fate::Young => break,
            Fate::Needed => {}
            Fate::Due => {
                let body = readable(cx.db.bodies.get(txn, &id))?;
                if let Some(body) = body.filter(|body| body.attachments.iter().any(|file| file.blob.is_ok())) {
                    unneeded.append(&mut remove_files(cx, txn, (id, body), Removed::FilesOnly(EXPIRED))?);
                    done += 1;
                }
            }
        }
        walk.pass(id.number());
    }
    walk.note(cx, txn)?;
    forget(unneeded, effects);
    Ok(done)
}

/// What messages say that are over.
fn bodies(cx: &Cx<'_>, txn: &mut Write<'_>, retention: &Retention, effects: &mut Vec<Effect>) -> Result<usize> {
    let mut walk = Walk::resume(cx, txn, "bodies", Again::Daily)?;
    let mut unneeded = Vec::new();
    let mut done = 0;
    while let Some(id) = walk.next(cx.policy.retention_rows, |at| cx.db.bodies.next_key(txn, &BodyId::new(at)))? {
        match fate(cx, txn, id, retention.bodies())? {
            Fate::Young => break,
            Fate::Needed => walk.pass(id.number()),
            Fate::Due => match readable(cx.db.bodies.get(txn, &id))? {
                None => walk.pass(id.number()),
                Some(body) => {
                    let remembered = seen_key(&body);
                    unneeded.append(&mut remove_files(cx, txn, (id, body), Removed::Body)?);
                    if let Some(key) = remembered {
                        forget_event(cx, txn, &key, retention)?;
                    }
                    done += 1;
                }
            },
        }
    }
    walk.note(cx, txn)?;
    forget(unneeded, effects);
    Ok(done)
}

/// Files that were sent, or could not be.
fn sent_files(cx: &Cx<'_>, txn: &mut Write<'_>, retention: &Retention, effects: &mut Vec<Effect>) -> Result<usize> {
    let Some(end) = retention.attachments().until(cx.now.wall) else { return Ok(0) };
    let mut walk = Walk::resume(cx, txn, "sent_files", Again::Never)?;
    let mut done = 0;
    while let Some((id, row)) = walk.next(cx.policy.retention_rows, |at| next_outbound(cx, txn, at))? {
        if row.stored >= end {
            break;
        }
        if over(&row).is_some() {
            done += usize::from(release(&row, effects));
        }
        walk.pass(id.number());
    }
    walk.note(cx, txn)?;
    Ok(done)
}

/// What was said and has arrived, or never will.
fn outbound(cx: &Cx<'_>, txn: &mut Write<'_>, retention: &Retention, effects: &mut Vec<Effect>) -> Result<usize> {
    let Some(end) = retention.bodies().until(cx.now.wall) else { return Ok(0) };
    let mut walk = Walk::resume(cx, txn, "outbound", Again::Daily)?;
    let mut done = 0;
    let mut changing = Changing::default();
    while let Some((id, row)) = walk.next(cx.policy.retention_rows, |at| next_outbound(cx, txn, at))? {
        if row.stored >= end {
            break;
        }
        let is_card = matches!(row.act, Act::Ask(_));
        let end = if is_card { end.min(cx.now.wall.minus(CARD_MIN)) } else { end };
        if over(&row).is_none_or(|at| at >= end)
            || cards::counts(cx, txn, id, &row)?
            || changing.is_changed(cx, txn, id, &row)?
        {
            walk.pass(id.number());
            continue;
        }
        release(&row, effects);
        remove_outbound(cx, txn, id, &row)?;
        done += 1;
    }
    walk.note(cx, txn)?;
    Ok(done)
}

/// That messages were seen. It is remembered at least as long as what they say is there; it goes together with that when
/// it is old enough then.
fn seen(cx: &Cx<'_>, txn: &mut Write<'_>, retention: &Retention, _: &mut Vec<Effect>) -> Result<usize> {
    let Some(end) = retention.dedup().until(cx.now.wall) else { return Ok(0) };
    let key = Text::new("seen")?;
    let passed = cx.db.swept.get(txn, &key)?.map_or(0, |Number(at)| i64::try_from(at).unwrap_or(i64::MAX));
    let from = |ms: i64| {
        let least = ForeignKey::least;
        (Timestamp::from_millis(ms), least(), least(), least())
    };
    let range = from(passed.saturating_add(1))..from(end.millis());
    let mut rows = cx.db.seen_by_time.collect_range(txn, range, cx.policy.retention_rows)?;
    let Some(last) = rows.last().map(|((at, ..), ())| *at) else { return Ok(0) };
    // All of one moment together, since the place that is noted is a moment.
    rows.retain(|((at, ..), ())| *at != last);
    rows.extend(cx.db.seen_by_time.collect_prefix(txn, &last, cx.policy.rows_per_input)?);
    let mut done = 0;
    for ((_, channel, chat, message), ()) in rows {
        done += usize::from(forget_event(cx, txn, &(channel, chat, message), retention)?);
    }
    cx.db.swept.put(txn, &key, &Number(u64::try_from(last.millis()).unwrap_or(0)))?;
    Ok(done)
}

type SeenKey = (ForeignKey, ForeignKey, ForeignKey);

/// Under which key the event is remembered that a body is of.
fn seen_key(body: &Body) -> Option<SeenKey> {
    let source = body.source.as_ref()?;
    let (channel, chat) = ForeignKey::chat(&source.channel, &source.platform_id);
    Some((channel, chat, ForeignKey::of(body.platform_message.as_ref()?)))
}

/// Forgets an event if it is old enough and nothing of it is there; whether it did.
fn forget_event(cx: &Cx<'_>, txn: &mut Write<'_>, key: &SeenKey, retention: &Retention) -> Result<bool> {
    let Some(end) = retention.dedup().until(cx.now.wall) else { return Ok(false) };
    let Some(row) = readable(cx.db.seen.get(txn, key))?.filter(|row| row.at < end) else { return Ok(false) };
    if is_there(cx, txn, &row)? {
        return Ok(false);
    }
    cx.db.seen.delete(txn, key)?;
    let (channel, chat, message) = key.clone();
    cx.db.seen_by_time.delete(txn, &(row.at, channel, chat, message))?;
    Ok(true)
}

/// Whether what an event said is there, for a message of it or a decision about it.
fn is_there(cx: &Cx<'_>, txn: &Write<'_>, seen: &Seen) -> Result<bool> {
    for id in &seen.messages {
        let message = readable(cx.db.messages.get(txn, id))?;
        if let Some(message) = message
            && cx.db.bodies.contains(txn, &message.body)?
        {
            return Ok(true);
        }
    }
    match seen.held {
        Some(approval) => Ok(readable(cx.db.approvals.get(txn, &approval))?.is_some_and(|row| row.state.is_open())),
        None => Ok(false),
    }
}

/// What becomes of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is young, and so are all after it.
    Young,
    /// It is old, and something needs it.
    Needed,
    /// It is old and over.
    Due,
}

/// A body is as old as the newest message that says it; one without messages is older than those of the next one.
fn fate(cx: &Cx<'_>, txn: &Write<'_>, id: BodyId, keep: Keep) -> Result<Fate> {
    let Some(end) = keep.until(cx.now.wall) else { return Ok(Fate::Young) };
    let mut messages = Vec::new();
    for ((_, message), ()) in cx.db.messages_by_body.collect_prefix(txn, &id, cx.policy.rows_per_input)? {
        messages.extend(readable(cx.db.messages.get(txn, &message))?);
    }
    if !messages.is_empty() {
        return Ok(decide_fate(&messages, end));
    }
    let next = (BodyId::new(id.number().saturating_add(1)), MessageId::new(0));
    let Some(((_, next), ())) = cx.db.messages_by_body.first(txn, next..)? else { return Ok(Fate::Young) };
    let young = readable(cx.db.messages.get(txn, &next))?.is_none_or(|message| message.stored >= end);
    if young {
        return Ok(Fate::Young);
    }
    let held: BTreeSet<BodyId> =
        cx.db.held.collect_range(txn, .., HELD_MAX)?.into_iter().map(|((_, body), _)| body).collect();
    Ok(if held.contains(&id) || held.len() >= HELD_MAX { Fate::Needed } else { Fate::Due })
}

/// Messages that wait for decisions; there are never so many.
const HELD_MAX: usize = 100_000;

fn decide_fate(messages: &[Message], end: Timestamp) -> Fate {
    let open = |state: &MessageState| matches!(state, MessageState::Pending(_) | MessageState::Claimed { .. });
    if messages.iter().all(|message| message.stored >= end) {
        Fate::Young
    } else if messages.iter().any(|message| message.stored >= end || open(&message.state)) {
        Fate::Needed
    } else {
        Fate::Due
    }
}

/// Since when a row is over.
fn over(row: &Outbound) -> Option<Timestamp> {
    match row.state {
        OutState::Delivered { at, .. }
        | OutState::Failed { at, .. }
        | OutState::Refused { at, .. }
        | OutState::Carried { at, .. }
        | OutState::Abandoned { at } => Some(at),
        OutState::Later(_) | OutState::Waiting { .. } | OutState::Attempting { .. } => None,
    }
}

fn next_outbound(cx: &Cx<'_>, txn: &Write<'_>, after: u64) -> Result<Option<(OutboundId, Outbound)>> {
    readable(cx.db.outbound.after(txn, &OutboundId::new(after)))
}

/// Asks for the removal of a row's files; whether it has some.
fn release(row: &Outbound, effects: &mut Vec<Effect>) -> bool {
    let (Author::Agent { session, .. }, false) = (&row.author, row.files.is_empty()) else { return false };
    effects.push(Effect::Release(*session, row.files.clone()));
    true
}

fn remove_outbound(cx: &Cx<'_>, txn: &mut Write<'_>, id: OutboundId, row: &Outbound) -> Result<()> {
    cx.db.outbound.delete(txn, &id)?;
    if let Some(message) = row.in_reply_to {
        cx.db.outbound_by_message.delete(txn, &(message, id))?;
    }
    let Author::Agent { session, wire_id, number, .. } = &row.author else { return Ok(()) };
    cx.db.outbound_by_wire.delete(txn, &(*session, Text::new(wire_id.as_str())?))?;
    let by_number = (*session, *number);
    if cx.db.outbound_by_number.get(txn, &by_number)? == Some(id) {
        cx.db.outbound_by_number.delete(txn, &by_number)?;
    }
    Ok(())
}

fn forget(unneeded: Vec<BlobId>, effects: &mut Vec<Effect>) {
    if !unneeded.is_empty() {
        effects.push(Effect::Unneeded(unneeded));
    }
}
