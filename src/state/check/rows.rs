//! Checks single rows.

use crate::key::KeyPart;
use crate::model::id::{
    AgentId, ApprovalId, BodyId, ChatId, ConnectionId, ConsoleSessionId, Counted, DropId, JournalId, MessageId,
    OutboundId, QuestionId, SessionId, SkipId, TaskId,
};
use crate::table::{Codec, Rows};
use crate::{Error, Result, Text};

use super::Check;
use crate::error::readable;

/// Every row of every table has a key of its kind and a value that decodes.
pub(super) fn every_row_is_readable(check: &mut Check<'_, '_>) -> Result<()> {
    for (_, rows) in check.db.all() {
        for row in rows.bytes().all(check.txn)? {
            let (key, value) = row.map_err(Error::lmdb("reading a row"))?;
            match rows.read(key, value) {
                Ok(()) => {}
                Err(Error::Damaged { table, key, reason }) => {
                    check.report_text(table, key, format!("unreadable: {reason}"));
                }
                Err(Error::TooNew { table, key, found, known }) => {
                    let what = format!("written by a newer Hearth: version {found}, known are up to {known}");
                    check.report_text(table, key, what);
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// A counter that lags behind its table would allocate an id that is in use.
pub(super) fn counters_are_ahead(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    ahead(check, &db.agents, AgentId::number)?;
    ahead(check, &db.chats, ChatId::number)?;
    ahead(check, &db.sessions_by_id, SessionId::number)?;
    ahead(check, &db.bodies, BodyId::number)?;
    ahead(check, &db.messages, MessageId::number)?;
    ahead(check, &db.dropped_events, DropId::number)?;
    ahead(check, &db.outbound, OutboundId::number)?;
    ahead(check, &db.approvals, ApprovalId::number)?;
    ahead(check, &db.questions, QuestionId::number)?;
    ahead(check, &db.tasks, TaskId::number)?;
    ahead(check, &db.skips, SkipId::number)?;
    ahead(check, &db.connections, ConnectionId::number)?;
    ahead(check, &db.console_sessions, ConsoleSessionId::number)?;
    ahead(check, &db.journal, JournalId::number)
}

/// Epochs that overlap would give one outgoing id two meanings.
pub(super) fn epochs_ascend(check: &mut Check<'_, '_>) -> Result<()> {
    let meta = check.db.meta;
    let epochs = check.look_up(&meta, &())?.map(|meta| meta.epochs).unwrap_or_default();
    if !epochs.is_sorted_by(|one, next| one.from < next.from) {
        check.report(&meta, &(), format!("the epochs of outgoing ids do not follow each other: {epochs:?}"));
    }
    Ok(())
}

fn ahead<K: KeyPart + Counted, V, C: Codec<V>>(
    check: &mut Check<'_, '_>,
    rows: &Rows<K, V, C>,
    number: impl Fn(K) -> u64,
) -> Result<()> {
    let Some(highest) = readable(rows.last_key(check.txn))? else { return Ok(()) };
    let counter = check.look_up(&check.db.counters, &Text::from(K::COUNTER))?.map_or(0, |n| n.0);
    if number(highest.clone()) > counter {
        let counters = check.db.counters;
        let what = format!("is {counter}, but {} has {}", rows.name(), highest.shown());
        check.report(&counters, &Text::from(K::COUNTER), what);
    }
    Ok(())
}
