//! Cards: each is shown with an unguessable number, and closed once it is no longer valid.
//!
//! A valid card has a row in `asked`. A text answer finds the card through this row, and so does a finished delivery
//! that has to report to the asker. A card without the row is ignored.

use crate::delivery::{attempt, notice, queue};
use crate::model::address::Address;
use crate::model::card::{Card, CardOption, PromptSubject};
use crate::model::delivery::{Act, Author, MessageRef, OutState, Outbound};
use crate::model::id::{ApprovalId, OutboundId};
use crate::state::PromptKey;
use crate::tx::{Hook, Tx};
use crate::{Result, readable};

/// Characters of the question that a closed card still shows.
const CLOSED_BODY_MAX: usize = 500;

/// A card that is not shown yet.
#[derive(Debug, Clone)]
pub(crate) struct NewCard {
    /// The approval, question or skip that it asks about.
    pub(crate) matter: PromptSubject,
    /// Where it is shown.
    pub(crate) to: Address,
    pub(crate) title: String,
    pub(crate) body: String,
    /// What can be chosen.
    pub(crate) options: Vec<CardOption>,
}

/// Shows a card. Returns its message and the number in its buttons.
pub(crate) fn show(tx: &mut Tx<'_, '_>, new: NewCard) -> Result<(OutboundId, u64)> {
    let nonce = tx.cx.entropy.nonce();
    let card = Card { matter: new.matter, nonce, title: new.title, body: new.body, options: new.options };
    let text = in_words(&card);
    let outbound = Outbound { act: Act::Ask(card), ..notice::notice(tx, new.to, None, text) };
    let id = ask_with(tx, new.matter, outbound)?;
    Ok((id, nonce))
}

/// Asks for a free text answer.
pub(crate) fn prompt(tx: &mut Tx<'_, '_>, matter: PromptSubject, to: Address, text: String) -> Result<OutboundId> {
    let outbound = notice::notice(tx, to, None, text);
    ask_with(tx, matter, outbound)
}

/// Removes the buttons of a card and shows the outcome. A card that was not shown yet is not sent any more. Where
/// messages cannot be edited, and after a text prompt, another message states the outcome.
pub(crate) fn close(tx: &mut Tx<'_, '_>, id: OutboundId, said: &str) -> Result<()> {
    let outbound = tx.db.outbound.require(tx, &id)?;
    forget(tx, id, &outbound)?;
    let over =
        matches!(outbound.state, OutState::Failed { .. } | OutState::Refused { .. } | OutState::Abandoned { .. });
    let (Some(to), false) = (outbound.to, over) else { return Ok(()) };
    if attempt::withdraw(tx, id)? {
        return Ok(());
    }
    let closing = match outbound.act {
        Act::Ask(card) => {
            let text = format!("{}\n\n{}\n\n{said}", card.title, shortened(&card.body));
            Outbound { act: Act::Edit(MessageRef::Ours(id)), ..notice::notice(tx, to, None, text) }
        }
        Act::Say | Act::Edit(_) | Act::React(_) => notice::notice(tx, to, None, said.to_owned()),
    };
    queue::say(tx, closing).map(drop)
}

/// The beginning of the question. It stays readable because two cards may share a title, and people may look up later
/// who was let in.
fn shortened(body: &str) -> String {
    let mut chars = body.chars();
    let beginning: String = chars.by_ref().take(CLOSED_BODY_MAX).collect();
    if chars.next().is_some() { format!("{beginning}…") } else { beginning }
}

/// Whether a message asks something that is still open. Such a message is edited once more when the question ends.
pub(crate) fn counts(tx: &Tx<'_, '_>, id: OutboundId, outbound: &Outbound) -> Result<bool> {
    match key(id, outbound) {
        Some(key) => Ok(readable(tx.db.open_prompts.get(tx, &key))?.is_some()),
        None => Ok(false),
    }
}

/// Withdraws a card that was not shown yet, so that it can be shown elsewhere. Returns whether that was possible.
pub(crate) fn take_back(tx: &mut Tx<'_, '_>, id: OutboundId) -> Result<bool> {
    let outbound = tx.db.outbound.require(tx, &id)?;
    if !matches!(outbound.state, OutState::Waiting { .. }) || outbound.uncertain > 0 {
        return Ok(false);
    }
    forget(tx, id, &outbound)?;
    attempt::withdraw(tx, id)
}

/// Reports the delivery or failure of one of Hearth's messages to the asker. Called for every message that ends.
pub(crate) fn settled(tx: &mut Tx<'_, '_>, id: OutboundId, outbound: &Outbound) -> Result<()> {
    let outcome = match &outbound.state {
        OutState::Delivered { .. } => Ok(()),
        OutState::Failed { error, .. } => Err(error.as_str()),
        _ => return Ok(()),
    };
    let ours = outbound.author == Author::Hearth;
    let Some(key) = key(id, outbound).filter(|_| ours) else { return Ok(()) };
    let Some(subject) = tx.db.open_prompts.get(tx, &key)? else { return Ok(()) };
    if outcome.is_err() {
        tx.db.open_prompts.delete(tx, &key)?;
    }
    tx.call(Hook::PromptEnded { subject, prompt: id, outcome })
}

fn ask_with(tx: &mut Tx<'_, '_>, matter: PromptSubject, outbound: Outbound) -> Result<OutboundId> {
    let id = queue::say(tx, outbound.clone())?;
    if let Some(key) = key(id, &outbound) {
        tx.db.open_prompts.put(tx, &key, &matter)?;
    }
    Ok(id)
}

fn forget(tx: &mut Tx<'_, '_>, id: OutboundId, outbound: &Outbound) -> Result<()> {
    match key(id, outbound) {
        Some(key) => tx.db.open_prompts.delete(tx, &key).map(drop),
        None => Ok(()),
    }
}

/// The key of a message in `asked`.
fn key(id: OutboundId, outbound: &Outbound) -> Option<PromptKey> {
    outbound.to.as_ref().map(|to| PromptKey::of(to, id))
}

/// The card as text, for channels without buttons. People answer with the number of an option.
fn in_words(card: &Card) -> String {
    let mut text = format!("{}\n\n{}\n", card.title, card.body);
    for (at, option) in card.offered() {
        text.push_str(&format!("\n{}. {}", at + 1, option.label));
    }
    if let Some((first, _)) = card.offered().next() {
        text.push_str(&format!("\n\nAnswer with a number, or with \"{} {}\".", card.matter, first + 1));
    }
    text
}

/// The length of a card as text, in UTF-16 code units, no matter how its channel shows it.
pub(crate) fn length(title: &str, body: &str, options: &[CardOption]) -> usize {
    let card = Card {
        matter: PromptSubject::Approval(ApprovalId::new(u64::MAX)),
        nonce: 0,
        title: title.to_owned(),
        body: body.to_owned(),
        options: options.to_vec(),
    };
    in_words(&card).encode_utf16().count()
}

#[cfg(test)]
mod tests {
    use crate::delivery::prompts::*;

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
            matter: PromptSubject::Approval(ApprovalId::new(3)),
            nonce: 1,
            title: "Title".into(),
            body: "Body".into(),
            options: vec![option("Allow"), option("Deny")],
        };
        assert_eq!(in_words(&card), "Title\n\nBody\n\n1. Allow\n2. Deny\n\nAnswer with a number, or with \"ap3 1\".");
        let options = vec![option("Allow").withheld(), option("Deny")];
        let only_no = Card { options, ..card };
        assert_eq!(in_words(&only_no), "Title\n\nBody\n\n2. Deny\n\nAnswer with a number, or with \"ap3 2\".");
    }
}
