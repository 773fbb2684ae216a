//! Somebody pressed a button.

use super::outcome::{self, Choice};
use super::{approvers, rows};
use crate::engine::{Applied, Cx, Result, requests, skips};
use crate::model::approval::{Approval, Decider};
use crate::model::card::{Button, CardOption, Matter};
use crate::model::id::ApprovalId;
use crate::model::input::Press;
use crate::model::time::Timestamp;
use crate::state::Write;

/// Takes in a press. First it is asked whether the person may decide at all; then whether the button still means
/// anything. Whatever it is not that counts for changes nothing, neither here nor on the card.
pub(in crate::engine) fn pressed(cx: &Cx<'_>, txn: &mut Write<'_>, press: &Press) -> Result<Applied> {
    match press.button.matter {
        Matter::Approval(id) => on_approval(cx, txn, id, press),
        Matter::Question(id) => requests::pressed(cx, txn, id, press),
        Matter::Skip(id) => skips::pressed(cx, txn, id, press),
    }
}

fn on_approval(cx: &Cx<'_>, txn: &mut Write<'_>, id: ApprovalId, press: &Press) -> Result<Applied> {
    let Some(approval) = cx.db.approvals.get(txn, &id)? else {
        return Ok(Applied::undecided("This is not asked any more."));
    };
    let scope = approvers::scope(cx, txn, &approval.about)?;
    if !approvers::may_decide(cx, txn, &press.by, &scope)? {
        return Ok(Applied::undecided("You may not decide this."));
    }
    let option = match decide_press(&approval, &press.button, cx.now.wall) {
        Ok(option) => option.clone(),
        Err(why) => return Ok(Applied::undecided(why)),
    };
    let by = Decider::Person(press.by.clone());
    outcome::answer(cx, txn, Choice { id, approval, option, by, at: Some(press.at.clone()) })
}

/// The option that a button stands for now, or why it stands for none.
fn decide_press<'a>(
    approval: &'a Approval,
    button: &Button,
    now: Timestamp,
) -> std::result::Result<&'a CardOption, &'static str> {
    if !approval.state.is_open() {
        return Err("This was decided already.");
    }
    if now >= approval.expires {
        return Err("It is too late: nobody answered in time.");
    }
    if approval.card.is_none() || approval.nonce != button.nonce {
        return Err("This card was replaced by a newer one.");
    }
    let at = usize::try_from(button.option).unwrap_or(usize::MAX);
    approval.options.get(at).ok_or("This card has no such option.")
}

/// An approval that waits for a decision, if the time for it is not over.
pub(super) fn decidable(cx: &Cx<'_>, txn: &Write<'_>, id: ApprovalId) -> Result<Option<Approval>> {
    Ok(rows::open(cx, txn, id)?.filter(|approval| cx.now.wall < approval.expires))
}
