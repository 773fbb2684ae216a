//! Retention: removes rows whose time is over, a few of each kind per sweep, oldest first.
//!
//! Ids are allocated in the order of time, so a walk stops at the first row that is too young. Its cost follows the
//! number of old rows. The table `swept` holds the position of each walk. Old rows that have to stay, such as a message
//! that still waits, are skipped and examined again the next day.

use crate::delivery::prompts;
use crate::housekeeping::retention::changing::Changing;
use crate::housekeeping::retention::walk::{Pass, Walk};
use crate::model::approval::{Question, QuestionState};
use crate::model::content::BlobId;
use crate::model::delivery::{Act, Author, OutState, Outbound};
use crate::model::effect::Effect;
use crate::model::id::{BodyId, MessageId, OutboundId, SessionId, SkipId, TaskId};
use crate::model::message::{Body, Message, MessageState, Seen};
use crate::model::report::Caused;
use crate::model::retention::{Keep, Retention};
use crate::model::time::{Millis, Timestamp};
use crate::model::tool::GrantScope;
use crate::rows::messages::Removed;
use crate::rows::{approvals, messages, recall, session_files, speeches, spend, tool_grants};
use crate::schedule::run_ended;
use crate::state::{
    ChatKey, ForeignKey, InboxKey, Number, Owned, Read, SeenKey, Tables, Text, Timed, WireKey, derived,
};
use crate::tx::Tx;
use crate::workspaces::{purge, take_in};
use crate::{Result, readable, skips};

pub(crate) mod changing;
pub(crate) mod walk;

/// The reason that a message shows for a removed file.
const EXPIRED: &str = "expired";

/// Minimum lifetime of a card: it can be decided for a while, and is edited then.
const CARD_MIN: Millis = Millis::minutes(30 * 24 * 60);

/// Removes old rows and returns how many of each kind. Does nothing while the clock has just jumped ahead.
pub(crate) fn sweep(tx: &mut Tx<'_, '_>) -> Result<Vec<Caused>> {
    if !tx.cx.steady {
        return Ok(Vec::new());
    }
    let retention = tx.db.settings.get(tx, &())?.unwrap_or_default().retention;
    let mut caused = Vec::new();
    for (what, part) in PARTS {
        let before = tx.effects.len();
        let done = tx.isolated(|tx| part(tx, &retention))?.unwrap_or(0);
        caused.extend((done > 0).then(|| Caused { what: "expire".into(), about: format!("{done} {what}") }));
        caused.extend(tx.effects.iter().skip(before).map(Caused::from));
    }
    Ok(caused)
}

/// Whether files kept for sending are still needed: their message is unsent or not old enough.
///
/// # Errors
/// Faults of the store.
pub fn needs_sent_files(
    db: &Tables,
    txn: &Read<'_>,
    session: SessionId,
    wire_id: &str,
    since: Timestamp,
    now: Timestamp,
) -> Result<bool> {
    let retention = db.settings.get(txn, &())?.unwrap_or_default().retention;
    let row = match Text::new(wire_id).map(|wire_id| db.outbound_by_wire.get(txn, &WireKey { session, id: wire_id })) {
        Ok(id) => id?.map(|id| db.outbound.get(txn, &id)).transpose()?.flatten(),
        Err(_) => None,
    };
    let Some(row) = row else { return Ok(since.plus(UNKNOWN_MIN) > now) };
    let young = retention.attachments().until(now).is_none_or(|end| row.stored >= end);
    Ok(young || over(&row).is_none())
}

/// Whether files that came with a message belong in its session's mailbox.
///
/// # Errors
/// Faults of the store.
pub fn needs_received_files(db: &Tables, txn: &Read<'_>, session: SessionId, seq: u64) -> Result<bool> {
    session_files::are_needed(db, txn, InboxKey { session, seq })
}

/// How long files without a known message are kept. Their message may not be imported yet.
const UNKNOWN_MIN: Millis = Millis::minutes(7 * 24 * 60);

/// Removes some rows of one kind and returns their number.
type Part = fn(&mut Tx<'_, '_>, &Retention) -> Result<usize>;

const PARTS: [(&str, Part); 15] = [
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
    ("costs of turns", costs),
    ("connections", connections),
];

fn journal(tx: &mut Tx<'_, '_>, retention: &Retention) -> Result<usize> {
    let Some(end) = retention.journal().until(tx.now.wall) else { return Ok(0) };
    for done in 0..tx.policy.retention_rows {
        let Some((id, _)) = readable(tx.db.journal.first(tx, ..))?.filter(|(_, entry)| entry.at < end) else {
            return Ok(done);
        };
        tx.db.journal.delete(tx, &id)?;
    }
    Ok(tx.policy.retention_rows)
}

/// Entries of the ledger of costs. The totals of each day stay.
fn costs(tx: &mut Tx<'_, '_>, retention: &Retention) -> Result<usize> {
    let Some(end) = retention.journal().until(tx.now.wall) else { return Ok(0) };
    for done in 0..tx.policy.retention_rows {
        let Some((key, entry)) = readable(tx.db.spend.first(tx, ..))?.filter(|(_, entry)| entry.at < end) else {
            return Ok(done);
        };
        spend::forget(tx, &key, &entry)?;
    }
    Ok(tx.policy.retention_rows)
}

/// Connections of agents. Records of a turn that goes on may be changed, so the end counts.
fn connections(tx: &mut Tx<'_, '_>, retention: &Retention) -> Result<usize> {
    let Some(end) = retention.journal().until(tx.now.wall) else { return Ok(0) };
    for done in 0..tx.policy.retention_rows {
        let Some((id, _)) = readable(tx.db.connections.first(tx, ..))?.filter(|(_, row)| row.ended < end) else {
            return Ok(done);
        };
        tx.db.connections.delete(tx, &id)?;
    }
    Ok(tx.policy.retention_rows)
}

/// Old skips. Those with an open question stay.
fn skips(tx: &mut Tx<'_, '_>, retention: &Retention) -> Result<usize> {
    let Some(end) = retention.journal().until(tx.now.wall) else { return Ok(0) };
    let mut walk = Walk::resume(tx, "skips", Pass::Daily)?;
    let mut done = 0;
    while let Some((id, skip)) =
        walk.next(tx.policy.retention_rows, |at| readable(tx.db.skips.after(tx, &SkipId::new(at))))?
    {
        if skip.taken >= end {
            break;
        }
        done += usize::from(skips::forget::forget_old(tx, id, &skip, end)?);
        walk.pass(id.number());
    }
    walk.note(tx)?;
    Ok(done)
}

/// Workspace sessions whose time in the trash is over.
fn trash(tx: &mut Tx<'_, '_>, _: &Retention) -> Result<usize> {
    purge::sweep(tx)
}

/// Session files of which only some pieces arrived.
fn given_up(tx: &mut Tx<'_, '_>, _: &Retention) -> Result<usize> {
    take_in::sweep(tx)
}

fn drops(tx: &mut Tx<'_, '_>, retention: &Retention) -> Result<usize> {
    let Some(end) = retention.drops().until(tx.now.wall) else { return Ok(0) };
    for done in 0..tx.policy.retention_rows {
        let Some((id, row)) = readable(tx.db.dropped_events.first(tx, ..))?.filter(|(_, row)| row.at < end) else {
            return Ok(done);
        };
        tx.db.dropped_events.delete(tx, &id)?;
        if let Some(key) = derived::refused_for_backlog(&row)
            && tx.db.dropped_for_backlog.get(tx, &key)? == Some(id)
        {
            tx.db.dropped_for_backlog.delete(tx, &key)?;
        }
    }
    Ok(tx.policy.retention_rows)
}

/// Closed approvals. They are kept as long as the journal, counted from the last moment at which they could be decided.
fn decisions(tx: &mut Tx<'_, '_>, retention: &Retention) -> Result<usize> {
    let Some(end) = retention.journal().until(tx.now.wall) else { return Ok(0) };
    for done in 0..tx.policy.retention_rows {
        let row = readable(tx.db.approvals.first(tx, ..))?;
        let Some((id, _)) = row.filter(|(_, row)| !row.state.is_open() && row.expires < end) else { return Ok(done) };
        if tx.db.held_messages.first_in(tx, &id)?.is_some() {
            return Ok(done);
        }
        approvals::forget(tx, id)?;
    }
    Ok(tx.policy.retention_rows)
}

fn questions(tx: &mut Tx<'_, '_>, retention: &Retention) -> Result<usize> {
    let Some(end) = retention.journal().until(tx.now.wall) else { return Ok(0) };
    for done in 0..tx.policy.retention_rows {
        let row = readable(tx.db.questions.first(tx, ..))?;
        let over = |row: &Question| row.state != QuestionState::Open && row.expires < end;
        let Some((id, _)) = row.filter(|(_, row)| over(row)) else { return Ok(done) };
        tx.db.questions.delete(tx, &id)?;
    }
    Ok(tx.policy.retention_rows)
}

/// Records of task runs. A finished task is removed when its last record is gone.
fn tasks(tx: &mut Tx<'_, '_>, retention: &Retention) -> Result<usize> {
    let Some(end) = retention.journal().until(tx.now.wall) else { return Ok(0) };
    let mut walk = Walk::resume(tx, "tasks", Pass::Daily)?;
    let mut done = 0;
    while let Some((id, task)) =
        walk.next(tx.policy.retention_rows, |at| readable(tx.db.tasks.after(tx, &TaskId::new(at))))?
    {
        let all = run_ended::forget_fires(tx, id, end, tx.policy.retention_rows, &mut done)?;
        if !all {
            break; // this task has more records
        }
        if !task.state.is_open() && task.running.is_none() && task.changed < end && is_gone(tx, id)? {
            tx.db.tasks.delete(tx, &id)?;
            tool_grants::forget(tx, task.agent, |grant| grant.scope == GrantScope::Task(id))?;
        }
        walk.pass(id.number());
    }
    walk.note(tx)?;
    Ok(done)
}

fn is_gone(tx: &Tx<'_, '_>, task: TaskId) -> Result<bool> {
    Ok(tx.db.task_runs.first_in(tx, &task)?.is_none())
}

/// Files of completed messages. Those of a message that still waits are removed with its text.
fn attachments(tx: &mut Tx<'_, '_>, retention: &Retention) -> Result<usize> {
    let mut walk = Walk::resume(tx, "attachments", Pass::Never)?;
    let mut unneeded = Vec::new();
    let mut done = 0;
    while let Some(id) = walk.next(tx.policy.retention_rows, |at| tx.db.bodies.next_key(tx, &BodyId::new(at)))? {
        match fate(tx, id, retention.attachments())? {
            Fate::Young => break,
            Fate::Needed => {}
            Fate::Due => {
                let body = readable(tx.db.bodies.get(tx, &id))?;
                if let Some(body) = body.filter(|body| body.attachments.iter().any(|file| file.blob.stored().is_some()))
                {
                    unneeded.append(&mut messages::remove_files(tx, id, body, Removed::FilesOnly(EXPIRED))?);
                    done += 1;
                }
            }
        }
        walk.pass(id.number());
    }
    walk.note(tx)?;
    forget(tx, unneeded);
    Ok(done)
}

/// Texts of completed messages.
fn bodies(tx: &mut Tx<'_, '_>, retention: &Retention) -> Result<usize> {
    let mut walk = Walk::resume(tx, "bodies", Pass::Daily)?;
    let mut unneeded = Vec::new();
    let mut done = 0;
    while let Some(id) = walk.next(tx.policy.retention_rows, |at| tx.db.bodies.next_key(tx, &BodyId::new(at)))? {
        match fate(tx, id, retention.bodies())? {
            Fate::Young => break,
            Fate::Needed => walk.pass(id.number()),
            Fate::Due => match readable(tx.db.bodies.get(tx, &id))? {
                None => walk.pass(id.number()),
                Some(body) => {
                    let remembered = seen_key(&body);
                    unneeded.append(&mut messages::remove_files(tx, id, body, Removed::Body)?);
                    if let Some(key) = remembered {
                        forget_event(tx, &key, retention)?;
                    }
                    done += 1;
                }
            },
        }
    }
    walk.note(tx)?;
    forget(tx, unneeded);
    Ok(done)
}

/// Files of messages that were sent or failed.
fn sent_files(tx: &mut Tx<'_, '_>, retention: &Retention) -> Result<usize> {
    let Some(end) = retention.attachments().until(tx.now.wall) else { return Ok(0) };
    let mut walk = Walk::resume(tx, "sent_files", Pass::Never)?;
    let mut done = 0;
    while let Some((id, row)) = walk.next(tx.policy.retention_rows, |at| next_outbound(tx, at))? {
        if row.stored >= end {
            break;
        }
        if over(&row).is_some() {
            done += usize::from(release(tx, &row));
        }
        walk.pass(id.number());
    }
    walk.note(tx)?;
    Ok(done)
}

/// Outgoing messages that were delivered or failed for good.
fn outbound(tx: &mut Tx<'_, '_>, retention: &Retention) -> Result<usize> {
    let Some(end) = retention.bodies().until(tx.now.wall) else { return Ok(0) };
    let mut walk = Walk::resume(tx, "outbound", Pass::Daily)?;
    let mut done = 0;
    let mut changing = Changing::default();
    while let Some((id, row)) = walk.next(tx.policy.retention_rows, |at| next_outbound(tx, at))? {
        if row.stored >= end {
            break;
        }
        let is_card = matches!(row.act, Act::Ask(_));
        let end = if is_card { end.min(tx.now.wall.minus(CARD_MIN)) } else { end };
        if over(&row).is_none_or(|at| at >= end)
            || prompts::counts(tx, id, &row)?
            || changing.is_changed(tx, id, &row)?
        {
            walk.pass(id.number());
            continue;
        }
        release(tx, &row);
        recall::answer_removed(tx, id, &row)?;
        speeches::forget(tx, id)?;
        tx.db.outbound.delete(tx, &id)?;
        done += 1;
    }
    walk.note(tx)?;
    Ok(done)
}

/// Rows for duplicate detection. They are kept at least as long as the message's text, and are removed together with it
/// if they are old enough then.
fn seen(tx: &mut Tx<'_, '_>, retention: &Retention) -> Result<usize> {
    let Some(end) = retention.dedup().until(tx.now.wall) else { return Ok(0) };
    let key = Text::new("seen")?;
    let passed = tx.db.retention_cursors.get(tx, &key)?.map_or(0, |Number(at)| i64::try_from(at).unwrap_or(i64::MAX));
    let from = |ms: i64| {
        let least = ForeignKey::least;
        let id = SeenKey { chat: ChatKey { channel: least(), chat: least() }, message: least() };
        Timed { at: Timestamp::from_millis(ms), id }
    };
    let range = from(passed.saturating_add(1))..from(end.millis());
    let mut rows = tx.db.seen_events_by_time.collect_range(tx, range, tx.policy.retention_rows)?;
    let Some(last) = rows.last().map(|(key, ())| key.at) else { return Ok(0) };
    // Rows of one timestamp go together, because the stored position is a timestamp.
    rows.retain(|(key, ())| key.at != last);
    rows.extend(tx.db.seen_events_by_time.collect_prefix(tx, &last, tx.policy.rows_per_input)?);
    let mut done = 0;
    for (key, ()) in rows {
        done += usize::from(forget_event(tx, &key.id, retention)?);
    }
    tx.db.retention_cursors.put(tx, &key, &Number(u64::try_from(last.millis()).unwrap_or(0)))?;
    Ok(done)
}

/// The key under which the event of a body is remembered.
fn seen_key(body: &Body) -> Option<SeenKey> {
    Some(SeenKey::of(body.source.as_ref()?, body.platform_message.as_ref()?))
}

/// Forgets an event if it is old enough and its text is gone. Returns whether it did.
fn forget_event(tx: &mut Tx<'_, '_>, key: &SeenKey, retention: &Retention) -> Result<bool> {
    let Some(end) = retention.dedup().until(tx.now.wall) else { return Ok(false) };
    let Some(row) = readable(tx.db.seen_events.get(tx, key))?.filter(|row| row.at < end) else { return Ok(false) };
    if is_there(tx, &row)? {
        return Ok(false);
    }
    tx.db.seen_events.delete(tx, key)
}

/// Whether the text of an event is still stored, for a message or for an open approval.
fn is_there(tx: &Tx<'_, '_>, seen: &Seen) -> Result<bool> {
    for id in &seen.messages {
        let message = readable(tx.db.messages.get(tx, id))?;
        if let Some(message) = message
            && tx.db.bodies.contains(tx, &message.body)?
        {
            return Ok(true);
        }
    }
    match seen.held {
        Some(approval) => Ok(readable(tx.db.approvals.get(tx, &approval))?.is_some_and(|row| row.state.is_open())),
        None => Ok(false),
    }
}

/// What retention does with a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Too young, as are all later ones.
    Young,
    /// Old, but still needed.
    Needed,
    /// Old and not needed: it is removed.
    Due,
}

/// Judges a body by the age of its newest message. A body without messages is older than the messages of the next one.
fn fate(tx: &Tx<'_, '_>, id: BodyId, keep: Keep) -> Result<Fate> {
    let Some(end) = keep.until(tx.now.wall) else { return Ok(Fate::Young) };
    let mut messages = Vec::new();
    for (Owned { id: message, .. }, ()) in tx.db.messages_by_body.collect_prefix(tx, &id, tx.policy.rows_per_input)? {
        messages.extend(readable(tx.db.messages.get(tx, &message))?);
    }
    if !messages.is_empty() {
        return Ok(decide_fate(&messages, end));
    }
    let next = Owned { owner: BodyId::new(id.number().saturating_add(1)), id: MessageId::new(0) };
    let Some((Owned { id: next, .. }, ())) = tx.db.messages_by_body.first(tx, next..)? else { return Ok(Fate::Young) };
    let young = readable(tx.db.messages.get(tx, &next))?.is_none_or(|message| message.stored >= end);
    if young {
        return Ok(Fate::Young);
    }
    let held = tx.db.held_messages_by_body.first_in(tx, &id)?.is_some();
    Ok(if held { Fate::Needed } else { Fate::Due })
}

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

/// When a message reached its final state, if it has.
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

fn next_outbound(tx: &Tx<'_, '_>, after: u64) -> Result<Option<(OutboundId, Outbound)>> {
    readable(tx.db.outbound.after(tx, &OutboundId::new(after)))
}

/// Requests the removal of a message's files. Returns whether it has any.
fn release(tx: &mut Tx<'_, '_>, row: &Outbound) -> bool {
    let session = match row.author {
        Author::Agent { session, .. } => Some(session),
        // A spoken answer is kept with the files of its session: the name begins with it.
        Author::Hearth => row.files.first().and_then(|name| name.split('/').next()?.parse().ok()),
    };
    let (Some(session), false) = (session, row.files.is_empty()) else { return false };
    tx.effects.push(Effect::Release(session, row.files.clone()));
    true
}

fn forget(tx: &mut Tx<'_, '_>, unneeded: Vec<BlobId>) {
    if !unneeded.is_empty() {
        tx.effects.push(Effect::Unneeded(unneeded));
    }
}
