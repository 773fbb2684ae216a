//! Checks approvals, held messages and cards.

use std::collections::BTreeMap;

use super::Check;
use crate::error::readable;
use crate::held_bytes::{file_bytes, holder};
use crate::model::Turn;
use crate::model::approval::{Approval, ApprovalSubject, Held, QuestionState};
use crate::model::card::PromptSubject;
use crate::model::id::OutboundId;
use crate::model::skip::SkipState;
use crate::{ApproverKey, HeldKey, Owned, PromptKey, Result};

/// Waitlists of approvers count exactly their waiting approvals.
pub(super) fn waitlists(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    check.each(&db.waitlists, |check, person, list| {
        let waiting = (person.clone(), Turn::Later);
        let count = db.approvals_by_decider.count_prefix(check.txn, &waiting)?;
        if count != list.waits {
            let what = format!("the row says that {} approvals wait, but {count} do", list.waits);
            check.report(&db.waitlists, &person, what);
        }
        Ok(())
    })?;
    check.each(&db.approvals_by_decider, |check, ApproverKey { approver, turn, approval }, ()| {
        let known = turn == Turn::Now || db.waitlists.contains(check.txn, &approver)?;
        if !known {
            check.report(&db.approvals, &approval, "waits for its turn, and is in no waitlist");
        }
        Ok(())
    })
}

/// Held messages wait only for open approvals, and they exist.
pub(super) fn held(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    check.each(&db.held_messages, |check, key, _| {
        check.refers(&db.held_messages, &key, &db.approvals, &key.approval)?;
        check.refers(&db.held_messages, &key, &db.bodies, &key.body)?;
        if check.look_up(&db.approvals, &key.approval)?.is_some_and(|approval| !approval.state.is_open()) {
            check.report(&db.held_messages, &key, "waits for a decision that was made");
        }
        Ok(())
    })?;
    let txn = check.txn;
    let derive = |HeldKey { approval: id, body }: &HeldKey, _: &Held| {
        let key = Owned { owner: *body, id: *id };
        let bytes = match readable(db.bodies.get(txn, body)) {
            Ok(Some(body)) => file_bytes(&body),
            // A missing body is reported elsewhere.
            _ => readable(db.held_messages_by_body.get(txn, &key)).ok()??,
        };
        Some((key, bytes))
    };
    check.agree(&db.held_messages, &db.held_messages_by_body, derive, |key| HeldKey {
        approval: key.id,
        body: key.owner,
    })?;
    held_bytes(check)?;
    check.each(&db.approvals, |check, id, approval| match &approval.about {
        ApprovalSubject::Sender { chat, .. } | ApprovalSubject::Channel { chat, .. } => {
            check.refers(&db.approvals, &id, &db.chats, chat)?;
            if approval.state.is_open() && db.held_messages.first_in(check.txn, &id)?.is_none() {
                check.report(&db.approvals, &id, "is open, and nothing waits for it");
            }
            Ok(())
        }
        ApprovalSubject::Packages { session, .. }
        | ApprovalSubject::McpServer { session, .. }
        | ApprovalSubject::CreateAgent { session, .. } => check.refers(&db.approvals, &id, &db.sessions_by_id, session),
        ApprovalSubject::Host(request) => {
            check.refers(&db.approvals, &id, &db.sessions_by_id, &request.session)?;
            check.refers(&db.approvals, &id, &db.agents, &request.agent)
        }
        ApprovalSubject::Hosts(request) => {
            if request.hosts.is_empty() {
                check.report(&db.approvals, &id, "is about no host");
            }
            for host in &request.hosts {
                check.refers(&db.approvals, &id, &db.sessions_by_id, &host.session)?;
            }
            check.refers(&db.approvals, &id, &db.agents, &request.agent)
        }
        ApprovalSubject::Tool(request) => {
            check.refers(&db.approvals, &id, &db.sessions_by_id, &request.session)?;
            if request.used.is_some() && approval.state.is_open() {
                check.report(&db.approvals, &id, "is open, and its decision was used");
            }
            Ok(())
        }
        ApprovalSubject::Budget(request) => check.refers(&db.approvals, &id, &db.agents, &request.agent),
    })
}

/// Tool calls are allowed in advance only for agents that exist.
pub(super) fn tool_grants(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    check.each(&db.tool_grants, |check, id, grant| check.refers(&db.tool_grants, &id, &db.agents, &grant.agent))
}

/// Byte counts of held files, by person and in total.
fn held_bytes(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    let (mut people, mut all, mut is_whole) = (BTreeMap::new(), 0_u64, true);
    check.each(&db.held_messages_by_body, |check, Owned { owner: body, .. }, bytes| {
        let body = check.look_up(&db.bodies, &body)?;
        is_whole &= body.is_some();
        let holder = body.as_ref().and_then(holder);
        if let Some(holder) = holder.filter(|_| bytes > 0) {
            *people.entry(holder).or_insert(0_u64) += bytes;
        }
        all = all.saturating_add(bytes);
        Ok(())
    })?;
    if !is_whole {
        return Ok(());
    }
    check.each(&db.held_bytes_by_person, |check, holder, bytes| {
        let found = people.remove(&holder).unwrap_or(0);
        if found != bytes {
            check.report(&db.held_bytes_by_person, &holder, format!("says {bytes} bytes, and {found} are held"));
        }
        Ok(())
    })?;
    for (holder, bytes) in people {
        check.report(&db.held_bytes_by_person, &holder, format!("missing, and {bytes} bytes are held"));
    }
    let said = check.look_up(&db.held_bytes, &())?.unwrap_or(0);
    if said != all {
        check.report(&db.held_bytes, &(), format!("says {said} bytes, and {all} are held"));
    }
    Ok(())
}

/// The current card of an approval can be answered where it is shown, and no other card can.
pub(super) fn asked(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    check.each(&db.open_prompts, |check, key, matter| {
        let to = check.look_up(&db.outbound, &key.outbound)?.and_then(|outbound| outbound.to);
        let there = to.is_some_and(|to| PromptKey::of(&to, key.outbound) == key);
        if !there {
            check.report(&db.open_prompts, &key, "nothing was sent there to ask");
        }
        let counts = match matter {
            PromptSubject::Approval(approval) => {
                check.look_up(&db.approvals, &approval)?.and_then(|row| counting(&row))
            }
            PromptSubject::Question(question) => {
                let row = check.look_up(&db.questions, &question)?;
                row.filter(|row| row.state == QuestionState::Open).and_then(|row| row.card)
            }
            PromptSubject::Skip(skip) => match check.look_up(&db.skips, &skip)?.map(|row| row.state) {
                Some(SkipState::Sending(card, _) | SkipState::Surfaced(card, _)) => Some(card),
                _ => None,
            },
        };
        if counts != Some(key.outbound) {
            check.report(&db.open_prompts, &key, format!("asks about {matter}, whose card is another one"));
        }
        Ok(())
    })?;
    check.each(&db.approvals, |check, id, approval| {
        let Some(card) = counting(&approval) else { return Ok(()) };
        let Some(to) = check.look_up(&db.outbound, &card)?.and_then(|outbound| outbound.to) else {
            check.report(&db.approvals, &id, format!("its card {card} was never sent anywhere"));
            return Ok(());
        };
        if check.look_up(&db.open_prompts, &PromptKey::of(&to, card))? != Some(PromptSubject::Approval(id)) {
            check.report(&db.approvals, &id, format!("its card {card} cannot be answered"));
        }
        Ok(())
    })
}

/// The card of an approval that is open.
fn counting(approval: &Approval) -> Option<OutboundId> {
    approval.card.filter(|_| approval.state.is_open())
}
