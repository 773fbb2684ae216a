//! What agents ask of the host: questions to people, changes of themselves, new agents.

use super::{Applied, Cx, Result};
use crate::model::approval::{Approval, Decider};
use crate::model::effect::Effect;
use crate::model::id::{ApprovalId, OutboundId, QuestionId};
use crate::model::input::Press;
use crate::state::Write;

/// Carries out what an agent asked for and somebody approved. Why it cannot be done any more, if it cannot: the approval
/// is superseded then. Row, card and index of the approval are the caller's.
pub(super) fn granted(
    _cx: &Cx<'_>,
    _txn: &mut Write<'_>,
    (_id, _approval): (ApprovalId, &Approval),
    _by: &Decider,
    _effects: &mut Vec<Effect>,
) -> Result<std::result::Result<(), String>> {
    Ok(Err("agents' requests are not served yet".to_owned()))
}

/// Tells an agent that what it asked for was not approved, and why: rejected, expired, or not possible any more.
pub(super) fn denied(
    _cx: &Cx<'_>,
    _txn: &mut Write<'_>,
    (_id, _approval): (ApprovalId, &Approval),
    _why: &str,
    _effects: &mut Vec<Effect>,
) -> Result<()> {
    Ok(())
}

/// Somebody pressed a button of a question's card, or answered it in words.
pub(super) fn pressed(_cx: &Cx<'_>, _txn: &mut Write<'_>, question: QuestionId, _press: &Press) -> Result<Applied> {
    Ok(Applied::refused("not_yet", format!("{question} cannot be answered yet")))
}

/// The operator answers a question by command.
pub(super) fn decide(_cx: &Cx<'_>, _txn: &mut Write<'_>, question: QuestionId, _value: &str) -> Result<Applied> {
    Ok(Applied::refused("not_yet", format!("{question} cannot be answered yet")))
}

/// The card of a question was shown, or will never be: then why.
pub(super) fn card_settled(
    _cx: &Cx<'_>,
    _txn: &mut Write<'_>,
    (_question, _card): (QuestionId, OutboundId),
    _outcome: std::result::Result<(), &str>,
    _effects: &mut Vec<Effect>,
) -> Result<()> {
    Ok(())
}
