//! What follows from a decision: its effects and the end of the approval are one transaction.

use super::texts::APPROVE;
use super::{channels, held, rows, senders};
use crate::engine::requests::Denial;
use crate::engine::{Applied, Cx, Result, cards, requests};
use crate::model::address::Address;
use crate::model::approval::{Approval, ApprovalState, Decider, Matters};
use crate::model::card::CardOption;
use crate::model::effect::Effect;
use crate::model::id::ApprovalId;
use crate::model::message::Reason;
use crate::model::report::Reply;
use crate::state::Write;

/// A choice that counts: whoever made it may, and the approval is open.
pub(super) struct Choice {
    /// Of what.
    pub(super) id: ApprovalId,
    /// As it was.
    pub(super) approval: Approval,
    /// What was chosen.
    pub(super) option: CardOption,
    /// Who chose.
    pub(super) by: Decider,
    /// Where, if somewhere.
    pub(super) at: Option<Address>,
}

/// What to tell whoever chose: what came of it, or why nothing did.
pub(super) type Told = std::result::Result<String, String>;

/// Carries out a choice and says what came of it.
pub(super) fn answer(cx: &Cx<'_>, txn: &mut Write<'_>, choice: Choice) -> Result<Applied> {
    let mut effects = Vec::new();
    let (decided, text) = match carry_out(cx, txn, choice, &mut effects)? {
        Ok(text) => (true, text),
        Err(why) => (false, why),
    };
    Ok(Applied::new(Reply::Answered { decided, text }, effects))
}

fn carry_out(cx: &Cx<'_>, txn: &mut Write<'_>, choice: Choice, effects: &mut Vec<Effect>) -> Result<Told> {
    match choice.approval.about {
        Matters::Sender { .. } => senders::decided(cx, txn, choice, effects),
        Matters::Channel { .. } => channels::decided(cx, txn, choice, effects),
        Matters::Packages { .. } | Matters::McpServer { .. } | Matters::CreateAgent { .. } => {
            of_request(cx, txn, choice, effects)
        }
    }
}

fn of_request(cx: &Cx<'_>, txn: &mut Write<'_>, choice: Choice, effects: &mut Vec<Effect>) -> Result<Told> {
    let Choice { id, approval, option, by, .. } = choice;
    let at = cx.now.wall;
    if option.value != APPROVE {
        requests::denied(cx, txn, (id, &approval), Denial::Rejected, effects)?;
        finish(cx, txn, id, (ApprovalState::Rejected { by, at }, &option.chosen), effects)?;
        return Ok(Ok(option.chosen));
    }
    match requests::granted(cx, txn, (id, &approval), &by, effects)? {
        Ok(()) => {
            finish(cx, txn, id, (ApprovalState::Approved { by, at }, &option.chosen), effects)?;
            Ok(Ok(option.chosen))
        }
        Err(why) => {
            supersede(cx, txn, id, &why, effects)?;
            Ok(Err(not_any_more(&why)))
        }
    }
}

/// Ends an approval: the row says how, the card says what.
pub(super) fn finish(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    id: ApprovalId,
    (state, said): (ApprovalState, &str),
    effects: &mut Vec<Effect>,
) -> Result<()> {
    let card = rows::update(cx, txn, id, |approval| approval.state = state)?.card;
    match card {
        Some(card) => cards::close(cx, txn, card, said, effects),
        None => Ok(()),
    }
}

/// What it was about is not any more: what waited for it is dropped, and whoever was asked is told.
pub(in crate::engine) fn supersede(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    id: ApprovalId,
    why: &str,
    effects: &mut Vec<Effect>,
) -> Result<()> {
    let state = ApprovalState::Superseded { why: why.to_owned(), at: cx.now.wall };
    lapse(cx, txn, id, (state, Reason::Superseded, why), effects)
}

/// Ends an approval that nobody has to decide any more; what waited for it is the caller's to see to.
pub(super) fn not_needed(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    id: ApprovalId,
    why: &str,
    effects: &mut Vec<Effect>,
) -> Result<()> {
    let state = ApprovalState::Superseded { why: why.to_owned(), at: cx.now.wall };
    finish(cx, txn, id, (state, &not_any_more(why)), effects)
}

/// Nobody decided in time.
pub(super) fn expire(cx: &Cx<'_>, txn: &mut Write<'_>, id: ApprovalId, effects: &mut Vec<Effect>) -> Result<()> {
    let state = ApprovalState::Expired { at: cx.now.wall };
    lapse(cx, txn, id, (state, Reason::ApprovalExpired, "nobody answered in time"), effects)
}

fn lapse(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    id: ApprovalId,
    (state, reason, why): (ApprovalState, Reason, &str),
    effects: &mut Vec<Effect>,
) -> Result<()> {
    let Some(approval) = rows::open(cx, txn, id)? else { return Ok(()) };
    let expired = matches!(state, ApprovalState::Expired { .. });
    match &approval.about {
        Matters::Sender { chat, .. } | Matters::Channel { chat, .. } => {
            held::drop_all(cx, txn, (id, *chat), reason, effects)?;
        }
        Matters::Packages { .. } | Matters::McpServer { .. } | Matters::CreateAgent { .. } => {
            let denial = if expired { Denial::Lapsed } else { Denial::Impossible(why) };
            requests::denied(cx, txn, (id, &approval), denial, effects)?;
        }
    }
    let said = if expired { format!("⌛ Expired: {why}") } else { not_any_more(why) };
    finish(cx, txn, id, (state, &said), effects)
}

fn not_any_more(why: &str) -> String {
    format!("🚫 Not needed any more: {why}")
}
