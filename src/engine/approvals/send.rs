//! Delivers cards to approvers: tries one after another until a card is shown.

use crate::Result;
use crate::approvals::{approvers, texts, waitlist};
use crate::delivery::prompts;
use crate::delivery::prompts::NewCard;
use crate::model::address::{Address, ChannelName, UserId};
use crate::model::approval::{Approval, ApprovalState, ApprovalSubject};
use crate::model::backoff::Backoff;
use crate::model::card::PromptSubject;
use crate::model::channel::ChannelKind;
use crate::model::effect::Effect;
use crate::model::id::{ApprovalId, OutboundId};
use crate::model::policy::Policy;
use crate::model::time::Millis;
use crate::rows::direct::Direct;
use crate::rows::{approvals, channels, direct, sessions};
use crate::tx::Tx;

/// Longest wait before a card is sent again.
const AGAIN_MAX: Millis = Millis::minutes(60);

/// The approvers on channels that Hearth knows, in the order in which they are asked.
pub(crate) fn reachable(tx: &Tx<'_, '_>, about: &ApprovalSubject) -> Result<Vec<(UserId, Direct)>> {
    let scope = approvers::scope(tx, about)?;
    let candidates = approvers::candidates(tx, &scope)?;
    let origin = origin(tx, about)?;
    let mut found = Vec::new();
    for user in approvers::origin_first(candidates, origin.as_ref()) {
        match direct::find(tx, &user)? {
            Direct::Nowhere => {}
            direct => found.push((user, direct)),
        }
    }
    Ok(found)
}

/// Shows the card to the approver after the last one asked.
pub(crate) fn show_next(tx: &mut Tx<'_, '_>, id: ApprovalId) -> Result<()> {
    let Some(approval) = approvals::open(tx, id)? else { return Ok(()) };
    let reachable = reachable(tx, &approval.about)?;
    match decide_next(&reachable, approval.approver.as_ref()) {
        Some((user, direct)) => offer(tx, id, &approval, user, direct),
        None => failed(tx, id, "no approver can be reached").map(drop),
    }
}

/// Shows the card to an approver. It waits if a direct message has to be opened first, or if the approver has too many
/// open cards.
fn offer(tx: &mut Tx<'_, '_>, id: ApprovalId, approval: &Approval, user: &UserId, direct: &Direct) -> Result<()> {
    if waitlist::is_full(tx, user, id)? {
        return waitlist::wait(tx, id, user);
    }
    if let Direct::At(address) = direct {
        return show_to(tx, id, user, address);
    }
    tx.effects.push(Effect::OpenDirect(user.clone()));
    let due = tx.now.wall.plus(decide_wait(tx.policy, approval));
    approvals::update(tx, id, |approval| {
        let why = Some(format!("a direct message with {user} has to be opened first"));
        approval.state = ApprovalState::Unsent { failed: failures(approval).saturating_add(1), why };
        approval.approver = Some(user.clone());
        approval.due = due;
    })
    .map(drop)
}

/// Continues an approval that waited on an approver's waitlist: shows it to that approver, or to the next one if the
/// first may not decide it any more.
pub(crate) fn take_turn(tx: &mut Tx<'_, '_>, id: ApprovalId, user: &UserId) -> Result<()> {
    let Some(approval) = approvals::open(tx, id)? else { return Ok(()) };
    let reachable = reachable(tx, &approval.about)?;
    match reachable.iter().find(|(candidate, _)| candidate == user) {
        Some((_, direct)) => offer(tx, id, &approval, user, direct),
        None => show_next(tx, id),
    }
}

/// Sends the card to an approver. From now on only the buttons of this card are valid.
pub(crate) fn show_to(tx: &mut Tx<'_, '_>, id: ApprovalId, user: &UserId, to: &Address) -> Result<()> {
    let Some(approval) = approvals::open(tx, id)? else { return Ok(()) };
    let whole = texts::card(tx, &approval.about)?;
    direct::make_chat(tx, user, to)?;
    let options = whole.options.clone();
    let can = channels::capabilities(tx, &to.channel)?.unwrap_or_else(|| ChannelKind::Webhook.capabilities());
    let card = texts::fit(whole, id, usize::try_from(can.card_max).unwrap_or(usize::MAX));
    let new = NewCard {
        matter: PromptSubject::Approval(id),
        to: to.clone(),
        title: card.title,
        body: card.body,
        options: card.options,
    };
    let (outbound, nonce) = prompts::show(tx, new)?;
    let (now, policy) = (tx.now.wall, tx.policy);
    approvals::update(tx, id, |approval| {
        if failures(approval) == 0 {
            approval.state = ApprovalState::Unsent { failed: 0, why: None };
        }
        approval.approver = Some(user.clone());
        approval.nonce = nonce;
        approval.options = options;
        approval.card = Some(outbound);
        approval.due = now.plus(decide_wait(policy, approval));
    })
    .map(drop)
}

/// Records that the card's message was delivered or failed. After a failure, another approver is asked after a wait.
pub(crate) fn card_settled(
    tx: &mut Tx<'_, '_>,
    id: ApprovalId,
    card: OutboundId,
    outcome: std::result::Result<(), &str>,
) -> Result<()> {
    let Some(approval) = approvals::open(tx, id)?.filter(|approval| approval.card == Some(card)) else {
        return Ok(());
    };
    match (outcome, approval.state) {
        (Ok(()), ApprovalState::Unsent { .. }) => approvals::update(tx, id, |approval| {
            approval.state = ApprovalState::Pending;
            approval.due = approval.expires;
        })
        .map(drop),
        (Ok(()), _) => Ok(()),
        (Err(why), _) => failed(tx, id, why).map(drop),
    }
}

/// Records that a card could not be shown. It is retried after a wait that doubles each time.
pub(crate) fn failed(tx: &mut Tx<'_, '_>, id: ApprovalId, why: &str) -> Result<Approval> {
    let (now, policy) = (tx.now.wall, tx.policy);
    approvals::update(tx, id, |approval| {
        let due = now.plus(decide_wait(policy, approval));
        let failed = failures(approval).saturating_add(1);
        approval.state = ApprovalState::Unsent { failed, why: Some(why.to_owned()) };
        approval.card = None;
        approval.due = due;
    })
}

/// Handles a card that was not delivered in time. Another approver gets it, if there is one and the card can be
/// withdrawn.
pub(crate) fn again(tx: &mut Tx<'_, '_>, id: ApprovalId) -> Result<()> {
    let Some(approval) = approvals::open(tx, id)? else { return Ok(()) };
    let Some(card) = approval.card else { return show_next(tx, id) };
    let others = reachable(tx, &approval.about)?.iter().any(|(user, _)| Some(user) != approval.approver.as_ref());
    if others && prompts::take_back(tx, card)? {
        failed(tx, id, "the approver is not connected")?;
        return show_next(tx, id);
    }
    let due = tx.now.wall.plus(decide_wait(tx.policy, &approval));
    approvals::update(tx, id, |approval| {
        let failed = failures(approval).saturating_add(1);
        approval.state = ApprovalState::Unsent { failed, why: Some("not delivered yet".to_owned()) };
        approval.due = due;
    })
    .map(drop)
}

/// Replaces the current card with a new one, for the same approver if they may still decide.
pub(crate) fn show_again(tx: &mut Tx<'_, '_>, id: ApprovalId) -> Result<()> {
    let Some(before) = approvals::open(tx, id)? else { return Ok(()) };
    if let Some(card) = before.card {
        prompts::close(tx, card, "🔁 Asked again")?;
    }
    let now = tx.now.wall;
    approvals::update(tx, id, |approval| {
        approval.state = ApprovalState::Unsent { failed: 0, why: None };
        approval.card = None;
        approval.due = now;
    })?;
    let reachable = reachable(tx, &before.about)?;
    let same = reachable.iter().find(|(user, _)| Some(user) == before.approver.as_ref());
    match same {
        Some((user, direct @ Direct::At(_))) => offer(tx, id, &before, user, direct),
        _ => show_next(tx, id),
    }
}

/// The channel on which the request originated.
fn origin(tx: &Tx<'_, '_>, about: &ApprovalSubject) -> Result<Option<ChannelName>> {
    let session = match about {
        ApprovalSubject::Sender { chat, .. } | ApprovalSubject::Channel { chat, .. } => {
            return Ok(tx.db.chats.get(tx, chat)?.map(|chat| chat.channel));
        }
        ApprovalSubject::Budget(_) => return Ok(None),
        ApprovalSubject::Host(request) => request.session,
        ApprovalSubject::Hosts(_) => match about.session() {
            Some(session) => session,
            None => return Ok(None),
        },
        ApprovalSubject::Packages { session, .. }
        | ApprovalSubject::McpServer { session, .. }
        | ApprovalSubject::CreateAgent { session, .. } => *session,
        ApprovalSubject::Tool(request) => request.session,
    };
    Ok(sessions::load(tx, session)?.and_then(|session| session.reply).map(|reply| reply.channel))
}

fn failures(approval: &Approval) -> u32 {
    match approval.state {
        ApprovalState::Unsent { failed, .. } => failed,
        _ => 0,
    }
}

/// The entry after the last approver asked. Starts over at the end.
fn decide_next<'a, T>(reachable: &'a [(UserId, T)], last: Option<&UserId>) -> Option<&'a (UserId, T)> {
    let at = last.and_then(|last| reachable.iter().position(|(user, _)| user == last));
    let next = at.map_or(0, |at| at + 1);
    reachable.get(next).or_else(|| reachable.first())
}

fn decide_wait(policy: &Policy, approval: &Approval) -> Millis {
    Backoff::new(policy.card_again, AGAIN_MAX).wait(failures(approval))
}

#[cfg(test)]
mod tests {
    use crate::approvals::send::*;

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
