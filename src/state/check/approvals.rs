//! What has to be decided, what waits for it, and the cards by which it is asked.

use super::Check;
use crate::model::approval::{Approval, Matters, QuestionState};
use crate::model::card::Matter;
use crate::model::id::OutboundId;
use crate::model::skip::SkipState;
use crate::state::{ForeignKey, Result};

/// Open approvals are found by whom and what they are about, and closed ones are not.
pub(super) fn indexes(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    check.agree(
        &db.approvals,
        &db.approvals_by_sender,
        |id, approval| match &approval.about {
            Matters::Sender { chat, sender, .. } if approval.state.is_open() => {
                let (channel, handle) = ForeignKey::user(sender);
                Some(((*chat, channel, handle), *id))
            }
            _ => None,
        },
        |_, id| *id,
    )?;
    check.agree(
        &db.approvals,
        &db.approvals_by_chat,
        |id, approval| match approval.about {
            Matters::Channel { chat, .. } if approval.state.is_open() => Some((chat, *id)),
            _ => None,
        },
        |_, id| *id,
    )
}

/// Messages wait for open approvals only, and are there.
pub(super) fn held(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    check.each(&db.held, |check, key, _| {
        check.refers((&db.held, &key), (&db.approvals, &key.0))?;
        check.refers((&db.held, &key), (&db.bodies, &key.1))?;
        if check.look_up(&db.approvals, &key.0)?.is_some_and(|approval| !approval.state.is_open()) {
            check.report(&db.held, &key, "waits for a decision that was made");
        }
        Ok(())
    })?;
    check.each(&db.approvals, |check, id, approval| match &approval.about {
        Matters::Sender { chat, .. } | Matters::Channel { chat, .. } => {
            check.refers((&db.approvals, &id), (&db.chats, chat))?;
            if approval.state.is_open() && db.held.first_in(check.txn, &id)?.is_none() {
                check.report(&db.approvals, &id, "is open, and nothing waits for it");
            }
            Ok(())
        }
        Matters::Packages { session, .. }
        | Matters::McpServer { session, .. }
        | Matters::CreateAgent { session, .. } => check.refers((&db.approvals, &id), (&db.sessions_by_id, session)),
    })
}

/// A card that counts can be answered where it is shown, and no other one can.
pub(super) fn asked(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    check.each(&db.asked, |check, key, matter| {
        let (channel, chat, id) = &key;
        let to = check.look_up(&db.outbound, id)?.and_then(|outbound| outbound.to);
        let there =
            to.is_some_and(|to| ForeignKey::chat(&to.channel, &to.platform_id) == (channel.clone(), chat.clone()));
        if !there {
            check.report(&db.asked, &key, "nothing was sent there to ask");
        }
        let counts = match matter {
            Matter::Approval(approval) => check.look_up(&db.approvals, &approval)?.and_then(|row| counting(&row)),
            Matter::Question(question) => {
                let row = check.look_up(&db.questions, &question)?;
                row.filter(|row| row.state == QuestionState::Open).and_then(|row| row.card)
            }
            Matter::Skip(skip) => match check.look_up(&db.skips, &skip)?.map(|row| row.state) {
                Some(SkipState::Sending(card, _) | SkipState::Surfaced(card, _)) => Some(card),
                _ => None,
            },
        };
        if counts != Some(*id) {
            check.report(&db.asked, &key, format!("asks about {matter}, whose card is another one"));
        }
        Ok(())
    })?;
    check.each(&db.approvals, |check, id, approval| {
        let Some(card) = counting(&approval) else { return Ok(()) };
        let Some(to) = check.look_up(&db.outbound, &card)?.and_then(|outbound| outbound.to) else {
            check.report(&db.approvals, &id, format!("its card {card} was never sent anywhere"));
            return Ok(());
        };
        let (channel, chat) = ForeignKey::chat(&to.channel, &to.platform_id);
        if check.look_up(&db.asked, &(channel, chat, card))? != Some(Matter::Approval(id)) {
            check.report(&db.approvals, &id, format!("its card {card} cannot be answered"));
        }
        Ok(())
    })
}

/// The card of an approval that is open.
fn counting(approval: &Approval) -> Option<OutboundId> {
    approval.card.filter(|_| approval.state.is_open())
}
