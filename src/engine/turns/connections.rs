//! Connections that agents made, or were refused.

use crate::Result;
use crate::model::connection::Connection;
use crate::model::incarnation::IncarnationId;
use crate::model::network::ConnectionSeen;
use crate::model::report::Reply;
use crate::rows::sessions;
use crate::state::Owned;
use crate::turns::calls::{self, During};
use crate::tx::Tx;

/// Records of a session among which one of the same kind is looked for.
const ALIKE: usize = 16;
/// Records of one turn. Hosts after these share a record.
const TURN_MAX: usize = 500;

/// Stores connections. Those of the same turn, to the same host and with the same verdict share a record.
pub(crate) fn seen(tx: &mut Tx<'_, '_>, connections: &[ConnectionSeen]) -> Result<Reply> {
    for one in connections {
        tx.isolated(|tx| store(tx, one))?;
    }
    Ok(Reply::Done)
}

fn store(tx: &mut Tx<'_, '_>, seen: &ConnectionSeen) -> Result<()> {
    let run = IncarnationId::new(seen.session, seen.incarnation);
    if !tx.db.incarnations.contains(tx, &run)? {
        return Ok(());
    }
    let Some(session) = sessions::load(tx, seen.session)? else { return Ok(()) };
    let during = During { session: seen.session, incarnation: seen.incarnation, began: seen.began };
    let mut row = Connection {
        agent: session.agent,
        session: seen.session,
        incarnation: seen.incarnation,
        message: calls::message_of(tx, during)?,
        to: Some(seen.endpoint.clone()),
        verdict: seen.verdict.clone(),
        request: seen.request.clone(),
        began: seen.began,
        ended: seen.ended.max(seen.began),
        count: 1,
        up: seen.up,
        down: seen.down,
    };
    let known = tx.db.connections_by_session.collect_last(tx, &seen.session, TURN_MAX)?;
    if add_to_known(tx, &known, &row)? {
        return Ok(());
    }
    if is_full(tx, &known, &row)? {
        (row.to, row.request) = (None, None);
        if add_to_known(tx, &known, &row)? {
            return Ok(());
        }
    }
    let id = tx.db.allocate(tx)?;
    tx.db.connections.append(tx, &id, &row)
}

type Known = (Owned<crate::model::id::SessionId, crate::model::id::ConnectionId>, ());

/// Adds a connection to a record of the same kind, if there is one among the newest.
fn add_to_known(tx: &mut Tx<'_, '_>, known: &[Known], row: &Connection) -> Result<bool> {
    for (Owned { id, .. }, ()) in known.iter().take(ALIKE) {
        let mut other = tx.db.connections.require(tx, id)?;
        if other.is_like(row) {
            other.add(row);
            tx.db.connections.put(tx, id, &other)?;
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the turn has as many records as it may.
fn is_full(tx: &Tx<'_, '_>, known: &[Known], row: &Connection) -> Result<bool> {
    let Some((Owned { id, .. }, ())) = known.last().filter(|_| known.len() >= TURN_MAX) else { return Ok(false) };
    let oldest = tx.db.connections.require(tx, id)?;
    Ok((oldest.incarnation, oldest.message) == (row.incarnation, row.message))
}
