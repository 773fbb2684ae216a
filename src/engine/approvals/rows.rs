//! The one writer of approvals: a row and all indexes that follow from it change together.

use crate::engine::{Cx, Result};
use crate::model::approval::{Approval, Matters};
use crate::model::id::ApprovalId;
use crate::state::{ForeignKey, Write};

/// Stores a new approval.
pub(super) fn insert(cx: &Cx<'_>, txn: &mut Write<'_>, approval: &Approval) -> Result<ApprovalId> {
    let id = cx.db.allocate(txn)?;
    index(cx, txn, id, approval, Row::Add)?;
    cx.db.approvals.put(txn, &id, approval)?;
    Ok(id)
}

/// Changes an approval.
pub(super) fn update(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    id: ApprovalId,
    change: impl FnOnce(&mut Approval),
) -> Result<Approval> {
    let mut approval = cx.db.approvals.require(txn, &id)?;
    index(cx, txn, id, &approval, Row::Remove)?;
    change(&mut approval);
    // Nothing has to be done about it after it lapsed.
    approval.due = approval.due.min(approval.expires);
    index(cx, txn, id, &approval, Row::Add)?;
    cx.db.approvals.put(txn, &id, &approval)?;
    Ok(approval)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Row {
    Add,
    Remove,
}

/// Adds or removes the index rows of an approval that is open.
fn index(cx: &Cx<'_>, txn: &mut Write<'_>, id: ApprovalId, approval: &Approval, row: Row) -> Result<()> {
    if !approval.state.is_open() {
        return Ok(());
    }
    match row {
        Row::Add => cx.db.approvals_due.put(txn, &(approval.due, id), &())?,
        Row::Remove => drop(cx.db.approvals_due.delete(txn, &(approval.due, id))?),
    }
    match &approval.about {
        Matters::Sender { chat, sender, .. } => {
            let (channel, handle) = ForeignKey::user(sender);
            let key = (*chat, channel, handle);
            match row {
                Row::Add => cx.db.approvals_by_sender.put(txn, &key, &id),
                Row::Remove => cx.db.approvals_by_sender.delete(txn, &key).map(drop),
            }
        }
        Matters::Channel { chat, .. } => match row {
            Row::Add => cx.db.approvals_by_chat.put(txn, chat, &id),
            Row::Remove => cx.db.approvals_by_chat.delete(txn, chat).map(drop),
        },
        Matters::Packages { .. } | Matters::McpServer { .. } | Matters::CreateAgent { .. } => Ok(()),
    }
}

/// An approval that can still be decided.
pub(super) fn open(cx: &Cx<'_>, txn: &Write<'_>, id: ApprovalId) -> Result<Option<Approval>> {
    Ok(cx.db.approvals.get(txn, &id)?.filter(|approval| approval.state.is_open()))
}
