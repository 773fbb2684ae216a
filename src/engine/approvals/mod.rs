//! What somebody has to decide: asked by card, answered once by somebody who may, carried out in the same transaction.

use super::{Applied, Cx, Result};
use crate::model::address::{ForeignId, UserId};
use crate::model::approval::Matters;
use crate::model::card::Matter;
use crate::model::effect::Effect;
use crate::model::id::ApprovalId;
use crate::model::input::{InboundEvent, Press};
use crate::model::message::Reason;
use crate::state::Write;

/// Somebody pressed a button.
pub(super) fn pressed(_cx: &Cx<'_>, _txn: &mut Write<'_>, _press: &Press) -> Result<Applied> {
    Ok(Applied::refused("not_yet", "buttons are not served yet".to_owned()))
}

/// The operator decides by command.
pub(super) fn decide(_cx: &Cx<'_>, _txn: &mut Write<'_>, matter: Matter, _value: &str) -> Result<Applied> {
    Ok(Applied::refused("not_yet", format!("{matter} cannot be decided yet")))
}

/// A channel opened a direct message, or could not.
pub(super) fn direct_opened(
    _cx: &Cx<'_>,
    _txn: &mut Write<'_>,
    _user: &UserId,
    _chat: std::result::Result<ForeignId, String>,
) -> Result<Applied> {
    Ok(Applied::done(Vec::new()))
}

/// Asks somebody to decide. The card is sent when somebody can be reached; until then the approval is open and unsent.
/// Refused with the reason when nobody may decide it, or too much is open.
#[expect(dead_code, reason = "asked by what is built next")]
pub(super) fn ask(
    _cx: &Cx<'_>,
    _txn: &mut Write<'_>,
    _about: Matters,
    _effects: &mut Vec<Effect>,
) -> Result<std::result::Result<ApprovalId, Reason>> {
    Ok(Err(Reason::ApprovalUnavailable))
}

/// A message that is the answer to an open card at its address: a number, or the name that somebody owes.
#[expect(dead_code, reason = "asked by what is built next")]
pub(super) fn answer(_cx: &Cx<'_>, _txn: &mut Write<'_>, _event: &InboundEvent) -> Result<Option<Applied>> {
    Ok(None)
}
