//! Cards: shown with a number that nobody can guess, closed once they mean nothing any more.
//!
//! A card that counts has a row in `asked`, which is how an answer in words finds it and how a delivery that came to its
//! end finds whoever waits for it. A card without that row is nobody's business.

use super::{Cx, Result, approvals, attempt, notice, outbox, readable, requests};
use crate::model::address::Address;
use crate::model::card::{Card, CardOption, Matter};
use crate::model::delivery::{Act, Author, OutState, Outbound, Said};
use crate::model::effect::Effect;
use crate::model::id::OutboundId;
use crate::state::{ForeignKey, Write};

/// Characters of what was asked that a closed card still shows.
const CLOSED_BODY_MAX: usize = 500;

/// A card that is not shown yet.
#[derive(Debug, Clone)]
pub(super) struct NewCard {
    /// What it asks about.
    pub(super) matter: Matter,
    /// Where it is shown.
    pub(super) to: Address,
    /// Its heading.
    pub(super) title: String,
    /// The question.
    pub(super) body: String,
    /// What can be chosen.
    pub(super) options: Vec<CardOption>,
}

/// Shows a card; tells its message and the number that its buttons carry.
pub(super) fn show(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    new: NewCard,
    effects: &mut Vec<Effect>,
) -> Result<(OutboundId, u64)> {
    let nonce = cx.entropy.nonce();
    let card = Card { matter: new.matter, nonce, title: new.title, body: new.body, options: new.options };
    let text = in_words(&card);
    let outbound = Outbound { act: Act::Ask(card), ..notice::notice(cx, new.to, None, text) };
    let id = ask_with(cx, txn, (new.matter, outbound), effects)?;
    Ok((id, nonce))
}

/// Asks for an answer in words that is no choice.
pub(super) fn prompt(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (matter, to): (Matter, Address),
    text: String,
    effects: &mut Vec<Effect>,
) -> Result<OutboundId> {
    let outbound = notice::notice(cx, to, None, text);
    ask_with(cx, txn, (matter, outbound), effects)
}

/// Takes the buttons of a card away and says what became of it. A card that nobody has seen is not sent any more; where
/// messages cannot be changed, and after what was asked in words, another one says it.
pub(super) fn close(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    id: OutboundId,
    said: &str,
    effects: &mut Vec<Effect>,
) -> Result<()> {
    let outbound = cx.db.outbound.require(txn, &id)?;
    forget(cx, txn, id, &outbound)?;
    let over =
        matches!(outbound.state, OutState::Failed { .. } | OutState::Refused { .. } | OutState::Abandoned { .. });
    let (Some(to), false) = (outbound.to, over) else { return Ok(()) };
    if attempt::withdraw(cx, txn, id, effects)? {
        return Ok(());
    }
    let closing = match outbound.act {
        Act::Ask(card) => {
            let text = format!("{}\n\n{}\n\n{said}", card.title, shortened(&card.body));
            Outbound { act: Act::Edit(Said::Ours(id)), ..notice::notice(cx, to, None, text) }
        }
        Act::Say | Act::Edit(_) | Act::React(_) => notice::notice(cx, to, None, said.to_owned()),
    };
    outbox::say(cx, txn, closing, effects).map(drop)
}

/// The beginning of what was asked: the titles of two cards may be the same, and who was let in is to be read afterwards.
fn shortened(body: &str) -> String {
    let mut chars = body.chars();
    let beginning: String = chars.by_ref().take(CLOSED_BODY_MAX).collect();
    if chars.next().is_some() { format!("{beginning}…") } else { beginning }
}

/// Whether a message asks something that is still open: whatever ends that looks at the message once more.
pub(super) fn counts(cx: &Cx<'_>, txn: &Write<'_>, id: OutboundId, outbound: &Outbound) -> Result<bool> {
    match key(id, outbound) {
        Some(key) => Ok(readable(cx.db.asked.get(txn, &key))?.is_some()),
        None => Ok(false),
    }
}

/// Takes a card back that nobody has seen, so that it can be shown elsewhere. Tells whether that could be done.
pub(super) fn take_back(cx: &Cx<'_>, txn: &mut Write<'_>, id: OutboundId, effects: &mut Vec<Effect>) -> Result<bool> {
    let outbound = cx.db.outbound.require(txn, &id)?;
    if !matches!(outbound.state, OutState::Waiting { .. }) || outbound.uncertain > 0 {
        return Ok(false);
    }
    forget(cx, txn, id, &outbound)?;
    attempt::withdraw(cx, txn, id, effects)
}

/// A message of ours was delivered or given up: whoever asked with it is told. Called for every message that ends.
pub(super) fn settled(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, outbound): (OutboundId, &Outbound),
    effects: &mut Vec<Effect>,
) -> Result<()> {
    let outcome = match &outbound.state {
        OutState::Delivered { .. } => Ok(()),
        OutState::Failed { error, .. } => Err(error.as_str()),
        _ => return Ok(()),
    };
    let ours = outbound.author == Author::Hearth;
    let Some(key) = key(id, outbound).filter(|_| ours) else { return Ok(()) };
    let Some(matter) = cx.db.asked.get(txn, &key)? else { return Ok(()) };
    if outcome.is_err() {
        cx.db.asked.delete(txn, &key)?;
    }
    match matter {
        Matter::Approval(approval) => approvals::card_settled(cx, txn, (approval, id), outcome),
        Matter::Question(question) => requests::card_settled(cx, txn, (question, id), outcome, effects),
        // Whether it was asked or only told, the end of its message is heard by itself.
        Matter::Skip(_) => Ok(()),
    }
}

fn ask_with(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (matter, outbound): (Matter, Outbound),
    effects: &mut Vec<Effect>,
) -> Result<OutboundId> {
    let id = outbox::say(cx, txn, outbound.clone(), effects)?;
    if let Some(key) = key(id, &outbound) {
        cx.db.asked.put(txn, &key, &matter)?;
    }
    Ok(id)
}

fn forget(cx: &Cx<'_>, txn: &mut Write<'_>, id: OutboundId, outbound: &Outbound) -> Result<()> {
    match key(id, outbound) {
        Some(key) => cx.db.asked.delete(txn, &key).map(drop),
        None => Ok(()),
    }
}

/// Under which key a message is asked with.
fn key(id: OutboundId, outbound: &Outbound) -> Option<(ForeignKey, ForeignKey, OutboundId)> {
    let to = outbound.to.as_ref()?;
    let (channel, chat) = ForeignKey::chat(&to.channel, &to.platform_id);
    Some((channel, chat, id))
}

/// A card for channels without buttons: its options have numbers, which are answers.
fn in_words(card: &Card) -> String {
    let mut text = format!("{}\n\n{}\n", card.title, card.body);
    for (at, option) in card.options.iter().enumerate() {
        text.push_str(&format!("\n{}. {}", at + 1, option.label));
    }
    if !card.options.is_empty() {
        text.push_str(&format!("\n\nAnswer with a number, or with \"{} 1\".", card.matter));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::id::ApprovalId;

    #[test]
    fn closed_cards_are_short() {
        assert_eq!(shortened("Ann wants in"), "Ann wants in");
        let long = "é".repeat(CLOSED_BODY_MAX + 1);
        assert_eq!(shortened(&long), format!("{}…", "é".repeat(CLOSED_BODY_MAX)));
    }

    #[test]
    fn cards_can_be_answered_without_buttons() {
        let option = |label: &str| CardOption { label: label.into(), chosen: String::new(), value: String::new() };
        let card = Card {
            matter: Matter::Approval(ApprovalId::new(3)),
            nonce: 1,
            title: "Title".into(),
            body: "Body".into(),
            options: vec![option("Allow"), option("Deny")],
        };
        assert_eq!(in_words(&card), "Title\n\nBody\n\n1. Allow\n2. Deny\n\nAnswer with a number, or with \"ap3 1\".");
    }
}
