//! Which provider drives a session, and what the others missed.

use crate::model::id::SessionId;
use crate::model::session_providers::SessionProviders;
use crate::state::{Read, Tables};
use crate::tx::Tx;
use crate::{Result, readable};

/// The providers of a session.
pub(crate) fn of(db: &Tables, txn: &Read<'_>, session: SessionId) -> Result<SessionProviders> {
    // Usually no session has a row. The number of rows is known without reading any.
    if db.session_providers.is_empty(txn)? {
        return Ok(SessionProviders::default());
    }
    Ok(readable(db.session_providers.get(txn, &session))?.unwrap_or_default())
}

/// Changes the providers of a session.
pub(crate) fn update(
    tx: &mut Tx<'_, '_>,
    session: SessionId,
    change: impl FnOnce(&mut SessionProviders),
) -> Result<()> {
    let before = of(tx.db, tx, session)?;
    let mut after = before.clone();
    change(&mut after);
    if after == before { Ok(()) } else { tx.db.session_providers.put(tx, &session, &after) }
}
