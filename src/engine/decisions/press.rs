//! Button presses on approval cards.

use crate::Result;
use crate::approvals::approvers;
use crate::decisions::outcome;
use crate::decisions::outcome::Choice;
use crate::model::approval::{Approval, Decider};
use crate::model::card::{Button, CardOption, PromptSubject};
use crate::model::console::CHANNEL;
use crate::model::delivery::Act;
use crate::model::id::ApprovalId;
use crate::model::input::Press;
use crate::model::report::Reply;
use crate::model::time::Timestamp;
use crate::requests::questions;
use crate::rows::approvals;
use crate::skips::answer;
use crate::tx::Tx;

/// Handles a button press. It checks first whether the person may decide at all, then whether the button is still
/// valid. A press that fails a check changes nothing, neither the approval nor the card.
pub(crate) fn pressed(tx: &mut Tx<'_, '_>, press: &Press) -> Result<Reply> {
    match press.button.matter {
        PromptSubject::Approval(id) => on_approval(tx, id, press),
        PromptSubject::Question(id) => questions::pressed(tx, id, press),
        PromptSubject::Skip(id) => answer::pressed(tx, id, press),
    }
}

fn on_approval(tx: &mut Tx<'_, '_>, id: ApprovalId, press: &Press) -> Result<Reply> {
    let Some(approval) = tx.db.approvals.get(tx, &id)? else {
        return Ok(Reply::undecided("This request no longer exists."));
    };
    let scope = approvers::scope(tx, &approval.about)?;
    if !approvers::may_decide(tx, &press.by, &scope)? {
        return Ok(Reply::undecided("You may not decide this."));
    }
    let option = match decide_press(&approval, &press.button, tx.now.wall) {
        Ok(option) => option.clone(),
        Err(why) => return Ok(Reply::undecided(why)),
    };
    // A press in the console does not say how the person signed in. No such card is shown there.
    if press.at.channel.as_str() == CHANNEL && approvers::needs_link(&approval.about, &option.value) {
        return Ok(Reply::undecided("This is decided where it was asked, or on the page of decisions."));
    }
    if !is_offered(tx, &approval, &option)? {
        let why = format!(
            "{id} is too long to be shown here, so it cannot be approved here: `hearth approvals show {id}` shows all of \
             it, and `hearth approvals approve {id}` approves it."
        );
        return Ok(Reply::undecided(&why));
    }
    let by = Decider::Person(press.by.clone());
    outcome::answer(tx, Choice { id, approval, option, by, at: Some(press.at.clone()) })
}

/// The option that a button selects now, or why it selects none.
fn decide_press<'a>(
    approval: &'a Approval,
    button: &Button,
    now: Timestamp,
) -> std::result::Result<&'a CardOption, &'static str> {
    if !approval.state.is_open() {
        return Err("This was decided already.");
    }
    if now >= approval.expires {
        return Err("It is too late: no one answered in time.");
    }
    if approval.card.is_none() || approval.nonce != button.nonce {
        return Err("This card was replaced by a newer one.");
    }
    let at = usize::try_from(button.option).unwrap_or(usize::MAX);
    approval.options.get(at).ok_or("This card has no such option.")
}

/// Whether the current card offers an option. An option withheld because the text did not fit cannot be chosen there.
fn is_offered(tx: &Tx<'_, '_>, approval: &Approval, option: &CardOption) -> Result<bool> {
    let Some(id) = approval.card else { return Ok(false) };
    let shown = tx.db.outbound.get(tx, &id)?.map(|outbound| outbound.act);
    let Some(Act::Ask(card)) = shown else { return Ok(false) };
    Ok(card.offered().any(|(_, offered)| offered.value == option.value))
}

/// An open approval that has not expired.
pub(crate) fn decidable(tx: &Tx<'_, '_>, id: ApprovalId) -> Result<Option<Approval>> {
    Ok(approvals::open(tx, id)?.filter(|approval| tx.now.wall < approval.expires))
}
