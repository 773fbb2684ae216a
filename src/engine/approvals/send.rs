//! Getting a card in front of somebody who may decide: one approver after the other, until one was shown it.

use super::direct::{self, Direct};
use super::{approvers, rows, texts};
use crate::engine::cards::{self, NewCard};
use crate::engine::{Cx, Result, sessions};
use crate::model::address::{Address, ChannelName, UserId};
use crate::model::approval::{Approval, ApprovalState, Matters};
use crate::model::card::Matter;
use crate::model::effect::Effect;
use crate::model::id::{ApprovalId, OutboundId};
use crate::model::policy::Policy;
use crate::model::time::Millis;
use crate::state::Write;

/// Longest wait before a card is tried again.
const AGAIN_MAX: Millis = Millis::minutes(60);

/// Who may decide and is on a channel that Hearth knows, in the order in which they are asked.
pub(super) fn reachable(cx: &Cx<'_>, txn: &Write<'_>, about: &Matters) -> Result<Vec<(UserId, Direct)>> {
    let scope = approvers::scope(cx, txn, about)?;
    let candidates = approvers::candidates(cx, txn, &scope)?;
    let origin = origin(cx, txn, about)?;
    let mut found = Vec::new();
    for user in approvers::origin_first(candidates, origin.as_ref()) {
        match direct::find(cx, txn, &user)? {
            Direct::Nowhere => {}
            direct => found.push((user, direct)),
        }
    }
    Ok(found)
}

/// Shows the card to the approver after the one who was asked last.
pub(super) fn show_next(cx: &Cx<'_>, txn: &mut Write<'_>, id: ApprovalId, effects: &mut Vec<Effect>) -> Result<()> {
    let Some(approval) = rows::open(cx, txn, id)? else { return Ok(()) };
    let reachable = reachable(cx, txn, &approval.about)?;
    match decide_next(&reachable, approval.approver.as_ref()) {
        Some((user, Direct::At(address))) => show_to(cx, txn, id, (user, address), effects),
        Some((user, Direct::ToOpen | Direct::Nowhere)) => {
            effects.push(Effect::OpenDirect(user.clone()));
            let due = cx.now.wall.plus(decide_wait(cx.policy, &approval));
            rows::update(cx, txn, id, |approval| {
                let why = Some(format!("a direct message with {user} has to be opened first"));
                approval.state = ApprovalState::Unsent { failed: failures(approval).saturating_add(1), why };
                approval.approver = Some(user.clone());
                approval.due = due;
            })
            .map(drop)
        }
        None => failed(cx, txn, id, "nobody who may decide can be reached").map(drop),
    }
}

/// Shows the card to somebody. Its buttons are the ones that count from now on.
pub(super) fn show_to(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    id: ApprovalId,
    (user, to): (&UserId, &Address),
    effects: &mut Vec<Effect>,
) -> Result<()> {
    let Some(approval) = rows::open(cx, txn, id)? else { return Ok(()) };
    let card = texts::card(cx, txn, &approval.about)?;
    direct::make_chat(cx, txn, user, to)?;
    let new = NewCard {
        matter: Matter::Approval(id),
        to: to.clone(),
        title: card.title,
        body: card.body,
        options: card.options.clone(),
    };
    let (outbound, nonce) = cards::show(cx, txn, new, effects)?;
    rows::update(cx, txn, id, |approval| {
        if !matches!(approval.state, ApprovalState::Unsent { .. }) {
            approval.state = ApprovalState::Unsent { failed: 0, why: None };
        }
        approval.approver = Some(user.clone());
        approval.nonce = nonce;
        approval.options = card.options;
        approval.card = Some(outbound);
        approval.due = cx.now.wall.plus(decide_wait(cx.policy, approval));
    })
    .map(drop)
}

/// The message that asks was delivered, or will never be. A failure mutes nobody: somebody else is asked after a while.
pub(in crate::engine) fn card_settled(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, card): (ApprovalId, OutboundId),
    outcome: std::result::Result<(), &str>,
) -> Result<()> {
    let Some(approval) = rows::open(cx, txn, id)?.filter(|approval| approval.card == Some(card)) else {
        return Ok(());
    };
    match (outcome, approval.state) {
        (Ok(()), ApprovalState::Unsent { .. }) => rows::update(cx, txn, id, |approval| {
            approval.state = ApprovalState::Pending;
            approval.due = approval.expires;
        })
        .map(drop),
        (Ok(()), _) => Ok(()),
        (Err(why), _) => failed(cx, txn, id, why).map(drop),
    }
}

/// A card could not be shown: it is tried again after a while, which doubles.
pub(super) fn failed(cx: &Cx<'_>, txn: &mut Write<'_>, id: ApprovalId, why: &str) -> Result<Approval> {
    rows::update(cx, txn, id, |approval| {
        let due = cx.now.wall.plus(decide_wait(cx.policy, approval));
        let failed = failures(approval).saturating_add(1);
        approval.state = ApprovalState::Unsent { failed, why: Some(why.to_owned()) };
        approval.card = None;
        approval.due = due;
    })
}

/// Nobody has taken the card so far. Somebody else is shown it, if there is somebody and it can be taken back.
pub(super) fn again(cx: &Cx<'_>, txn: &mut Write<'_>, id: ApprovalId, effects: &mut Vec<Effect>) -> Result<()> {
    let Some(approval) = rows::open(cx, txn, id)? else { return Ok(()) };
    let Some(card) = approval.card else { return show_next(cx, txn, id, effects) };
    let others = reachable(cx, txn, &approval.about)?.iter().any(|(user, _)| Some(user) != approval.approver.as_ref());
    if others && cards::take_back(cx, txn, card, effects)? {
        failed(cx, txn, id, "nobody was there to take it")?;
        return show_next(cx, txn, id, effects);
    }
    let due = cx.now.wall.plus(decide_wait(cx.policy, &approval));
    rows::update(cx, txn, id, |approval| {
        let failed = failures(approval).saturating_add(1);
        approval.state = ApprovalState::Unsent { failed, why: Some("nobody has taken it yet".to_owned()) };
        approval.due = due;
    })
    .map(drop)
}

/// Shows a card anew, in the place of what counted until now: to whoever was asked last, if they may still decide.
pub(super) fn show_again(cx: &Cx<'_>, txn: &mut Write<'_>, id: ApprovalId, effects: &mut Vec<Effect>) -> Result<()> {
    let Some(before) = rows::open(cx, txn, id)? else { return Ok(()) };
    if let Some(card) = before.card {
        cards::close(cx, txn, card, "🔁 Asked again", effects)?;
    }
    rows::update(cx, txn, id, |approval| {
        approval.state = ApprovalState::Unsent { failed: 0, why: None };
        approval.card = None;
        approval.due = cx.now.wall;
    })?;
    let reachable = reachable(cx, txn, &before.about)?;
    let same = reachable.iter().find(|(user, _)| Some(user) == before.approver.as_ref());
    match same {
        Some((user, Direct::At(address))) => show_to(cx, txn, id, (user, address), effects),
        _ => show_next(cx, txn, id, effects),
    }
}

/// The channel that something came from.
fn origin(cx: &Cx<'_>, txn: &Write<'_>, about: &Matters) -> Result<Option<ChannelName>> {
    let session = match about {
        Matters::Sender { chat, .. } | Matters::Channel { chat, .. } => {
            return Ok(cx.db.chats.get(txn, chat)?.map(|chat| chat.channel));
        }
        Matters::Packages { session, .. }
        | Matters::McpServer { session, .. }
        | Matters::CreateAgent { session, .. } => *session,
    };
    Ok(sessions::load(cx, txn, session)?.and_then(|session| session.reply).map(|reply| reply.channel))
}

fn failures(approval: &Approval) -> u32 {
    match approval.state {
        ApprovalState::Unsent { failed, .. } => failed,
        _ => 0,
    }
}

/// The first one, or the one after who was asked last; after the last comes the first.
fn decide_next<'a, T>(reachable: &'a [(UserId, T)], last: Option<&UserId>) -> Option<&'a (UserId, T)> {
    let at = last.and_then(|last| reachable.iter().position(|(user, _)| user == last));
    let next = at.map_or(0, |at| at + 1);
    reachable.get(next).or_else(|| reachable.first())
}

fn decide_wait(policy: &Policy, approval: &Approval) -> Millis {
    let doubled = policy.card_again.get().saturating_mul(1_u64 << failures(approval).min(20));
    Millis::new(doubled).min(AGAIN_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn approvers_are_asked_in_turn() {
        let user = |text: &str| UserId::parse(text).unwrap();
        let all = [(user("a:1"), ()), (user("a:2"), ()), (user("a:3"), ())];
        let next = |last: Option<&str>| {
            let last = last.map(user);
            decide_next(&all, last.as_ref()).map(|(user, ())| user.to_string())
        };
        assert_eq!(next(None).as_deref(), Some("a:1"));
        assert_eq!(next(Some("a:1")).as_deref(), Some("a:2"));
        assert_eq!(next(Some("a:3")).as_deref(), Some("a:1"));
        assert_eq!(next(Some("gone:9")).as_deref(), Some("a:1"));
        assert_eq!(decide_next::<()>(&[], None), None);
    }
}
