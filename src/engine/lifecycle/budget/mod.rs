//! Lets messages go to their agents as far as budgets have room.
//!
//! Before a message is dispatched, what its turn is expected to use is set aside in the same transaction. A message that
//! finds no room stays pending, with a row of an index, until a turn leaves room, a person extends the budget, or its next
//! period begins. Messages of a session share a turn, so only the first of them sets something aside.

use crate::delivery::notice;
use crate::lifecycle::dispatch::Arrived;
use crate::lifecycle::fallback::ChosenProvider;
use crate::lifecycle::mailbox_view::SessionRef;
use crate::lifecycle::{dispatch, fallback, halt};
use crate::model::approval::{ApprovalState, ApprovalSubject, Decider};
use crate::model::budget::{BudgetPeriod, BudgetRequest, Party, PassReason, Reservation};
use crate::model::effect::Effect;
use crate::model::id::{ApprovalId, MessageId, SessionId};
use crate::model::input::Continuation;
use crate::model::message::{Due, Message, MessageState, Reason};
use crate::model::spend::Money;
use crate::rows::settings::BUDGETS_RECONSIDERED;
use crate::rows::{agents, budgets, messages, session_files, sessions, settings, spend};
use crate::rules::budgets::Verdict;
use crate::state::{InboxKey, Number, Text};
use crate::tx::Tx;
use crate::{Result, readable};
use judge::{Judge, Judged};
use std::collections::{BTreeMap, BTreeSet};
use tell::Passed;

mod judge;
mod tell;

pub(crate) use tell::watch;

/// Messages of a session that are judged together: as many as a mailbox holds.
const JUDGED_MAX: usize = 200;
/// Sessions whose waiting messages are judged again in one transaction.
const SESSIONS_PER_SLICE: usize = 50;

/// A queued message that nothing is set aside for.
pub(crate) struct Unjudged {
    key: InboxKey,
    id: MessageId,
    /// Whom it is counted for, if that is at hand.
    party: Option<Party>,
}

/// What the budgets say about such messages of a session.
#[derive(Default)]
pub(crate) struct Judgement(Vec<JudgedMessage>);

struct JudgedMessage {
    key: InboxKey,
    id: MessageId,
    judged: Judged,
}

impl Judgement {
    /// The budget that one of the messages would wait for.
    pub(crate) fn waits_for(&self) -> Option<String> {
        self.0.iter().find_map(|one| match &one.judged.verdict {
            Some((over, Verdict::Wait(_))) => Some(over.budget.name()),
            _ => None,
        })
    }
}

/// What may be dispatched of a session.
#[derive(Default)]
pub(crate) struct Admission {
    admitted: Vec<Admitted>,
    /// Messages that wait from now on.
    waiting: BTreeSet<MessageId>,
}

struct Admitted {
    key: InboxKey,
    reservation: Reservation,
    passed: Option<Passed>,
}

impl Admission {
    /// Whether the message waits.
    pub(crate) fn holds(&self, message: MessageId) -> bool {
        self.waiting.contains(&message)
    }
}

/// Whether a turn of this provider costs nothing. That matters only to budgets that limit money.
pub(crate) fn costs_nothing(tx: &Tx<'_, '_>, of: SessionRef<'_>, provider: &ChosenProvider) -> Result<bool> {
    let limits_money = budgets::settings(tx)?.budgets.iter().any(|budget| budget.money.is_some());
    Ok(limits_money && provider.is_free(tx, of)?)
}

/// Judges queued messages of a session. `is_free`: their turn costs no money.
pub(crate) fn judge(tx: &Tx<'_, '_>, of: SessionRef<'_>, is_free: bool, queued: &[Unjudged]) -> Result<Judgement> {
    let settings = budgets::settings(tx)?;
    let mut all = Vec::new();
    let mut judge = Judge::new(tx, &settings, of, is_free)?;
    for Unjudged { key, id, party } in queued {
        let (key, id) = (*key, *id);
        let judged = match party {
            Some(party) => judge.judge_party(tx, id, party.clone())?,
            None => judge.judge(tx, id, &tx.db.messages.require(tx, &id)?)?,
        };
        let waits = matches!(judged.verdict, Some((_, Verdict::Wait(_))));
        if let Some(reservation) = judged.reservation.as_ref().filter(|_| !waits) {
            judge.set_aside(reservation);
        }
        all.push(JudgedMessage { key, id, judged });
    }
    Ok(Judgement(all))
}

/// The queued messages of a session that nothing is set aside for; none if there are no budgets. Usually that is only the
/// one that has just arrived, or none: what is queued behind a full mailbox follows when there is room for it.
pub(crate) fn unjudged(tx: &Tx<'_, '_>, of: SessionRef<'_>, arrived: Option<Arrived<'_>>) -> Result<Vec<Unjudged>> {
    if budgets::settings(tx)?.budgets.is_empty() {
        return Ok(Vec::new());
    }
    let reserved = budgets::reservations(tx)?;
    let mut from = InboxKey { session: of.id, seq: 0 };
    if let (Some(Arrived { message, .. }), Some(known)) = (arrived, reserved.of_session(of.id))
        && let Some((newest, _)) = known.last_key_value().filter(|(newest, _)| **newest < message.seq)
    {
        if known.len() >= JUDGED_MAX && fills_mailbox(tx, of.id, known)? {
            return Ok(Vec::new());
        }
        // Those before were judged when they were dispatched.
        from.seq = newest.saturating_add(1);
    }
    let queued = tx.db.ready_messages.collect_range(tx, from..=InboxKey { seq: u64::MAX, ..from }, JUDGED_MAX)?;
    let mut unjudged = Vec::new();
    for (key, id) in queued.into_iter().filter(|(key, _)| reserved.of_message(*key).is_none()) {
        let party = match arrived {
            Some(Arrived { message, sender: Some(sender) }) if message.id == id => {
                Some(spend::party_of_person(tx, of.session.agent, message.reply.as_ref(), sender)?)
            }
            _ => None,
        };
        unjudged.push(Unjudged { key, id, party });
    }
    Ok(unjudged)
}

/// Whether as many messages of a session as a mailbox holds have a reservation and are not claimed.
fn fills_mailbox(tx: &Tx<'_, '_>, session: SessionId, known: &BTreeMap<u64, Reservation>) -> Result<bool> {
    let claimed = tx.db.claimed_messages.collect_prefix(tx, &session, JUDGED_MAX)?;
    let claimed = claimed.iter().filter(|(key, _)| known.contains_key(&key.seq)).count();
    Ok(known.len().saturating_sub(claimed) >= JUDGED_MAX)
}

/// Lets messages without room wait from now on, and tells people. [`reserve`] completes it once the others are dispatched.
pub(crate) fn admit(tx: &mut Tx<'_, '_>, of: SessionRef<'_>, judgement: Judgement) -> Result<Admission> {
    let mut admission = Admission::default();
    for JudgedMessage { key, id, judged: Judged { reservation, verdict } } in judgement.0 {
        let passed = match verdict {
            Some((over, Verdict::Wait(ask))) => {
                let message = tx.db.messages.require(tx, &id)?;
                tell::wait(tx, id, &message, &over, ask)?;
                admission.waiting.insert(id);
                continue;
            }
            Some((over, Verdict::Pass(why))) => {
                Some(Passed { over, why, reply: tx.db.messages.require(tx, &id)?.reply })
            }
            None => None,
        };
        if let Some(reservation) = reservation {
            admission.admitted.push(Admitted { key, reservation, passed });
        }
    }
    // Its run may have them already.
    if of.session.live.is_some() && !admission.waiting.is_empty() {
        let mut seqs = Vec::new();
        for id in &admission.waiting {
            seqs.push(tx.db.messages.require(tx, id)?.seq);
        }
        session_files::discard(tx, of.id, seqs, Vec::new())?;
    }
    Ok(admission)
}

/// Sets aside what dispatched messages are expected to use.
pub(crate) fn reserve(tx: &mut Tx<'_, '_>, admission: Admission) -> Result<()> {
    for Admitted { key, reservation, passed } in admission.admitted {
        budgets::reserve(tx, &key, &reservation)?;
        if let Some(passed) = passed {
            tell::passed(tx, &reservation, &passed)?;
        }
    }
    Ok(())
}

/// A message was claimed. If it was not dispatched since it waits, or if the turn whose reservation it shares has ended,
/// something is set aside for it now.
pub(crate) fn claimed(tx: &mut Tx<'_, '_>, message: &Message, id: MessageId) -> Result<()> {
    let settings = budgets::settings(tx)?;
    if settings.budgets.is_empty() || !message.trigger {
        return Ok(());
    }
    let key = InboxKey::of(message);
    let reserved = budgets::reservations(tx)?;
    let own = reserved.of_message(key);
    if own.is_some_and(Reservation::is_bearing) {
        return Ok(());
    }
    let (known, mut pays) = (own.is_some(), false);
    for (other, _) in tx.db.claimed_messages.collect_prefix(tx, &message.session, JUDGED_MAX)? {
        pays |= reserved.of_message(other).is_some_and(Reservation::is_bearing);
    }
    drop(reserved);
    if pays && known {
        return Ok(());
    }
    let Some(session) = sessions::load(tx, message.session)? else { return Ok(()) };
    let agent = tx.db.agents.require(tx, &message.agent)?;
    let of = SessionRef { id: message.session, session: &session, agent: &agent };
    let mut judge = Judge::new(tx, &settings, of, fallback::drives_for_free(tx, of)?)?;
    let party = spend::party(tx, message)?;
    if judge.accounts(tx, &party)?.is_empty() {
        return Ok(());
    }
    let mut reservation = judge.expect(tx, id, party)?;
    if pays {
        (reservation.money, reservation.tokens) = (Money::ZERO, 0);
    }
    budgets::reserve(tx, &key, &reservation)
}

/// A turn of a session has ended: messages that were to share it are judged anew, and so are those that wait for room.
pub(crate) fn turn_ended(tx: &mut Tx<'_, '_>, session: SessionId) -> Result<()> {
    if budgets::reservations(tx)?.of_session(session).is_some()
        && tx.db.claimed_messages.first_in(tx, &session)?.is_none()
        && !goes_on(tx, session)?
    {
        budgets::release_session(tx, session)?;
        dispatch::dispatch_session(tx, session)?;
    }
    reconsider(tx)
}

/// Judges the messages that the run of a session has and did not begin, after a turn. Returns whether nothing but what is
/// set aside changes for them. Else nothing was changed, and the session is to be dispatched anew.
fn goes_on(tx: &mut Tx<'_, '_>, id: SessionId) -> Result<bool> {
    let Some(session) = sessions::load(tx, id)? else { return Ok(false) };
    let agent = agents::known(tx, session.agent)?;
    let of = SessionRef { id, session: &session, agent: &agent };
    let Some(provider) = dispatch::goes_on_with(tx, of)? else { return Ok(false) };
    let settings = budgets::settings(tx)?;
    let reserved = budgets::reservations(tx)?;
    // Reservations of messages that the run did not begin: none is claimed.
    let Some(own) = reserved.of_session(id) else { return Ok(false) };
    // A message without one was not dispatched, and messages are dispatched in order.
    let newest = tx.db.ready_messages.last_in(tx, &id)?;
    if newest.is_none_or(|(key, _)| !own.contains_key(&key.seq)) {
        return Ok(false);
    }
    let mut judge = Judge::new(tx, &settings, of, costs_nothing(tx, of, &provider)?)?.anew();
    let mut changed = Vec::new();
    for (seq, known) in own {
        if !known.is_bearing() && judge.bearing(&known.party).is_some() {
            continue;
        }
        let judged = judge.judge_party(tx, known.message, known.party.clone())?;
        let Judged { reservation: Some(mut new), verdict: None } = judged else { return Ok(false) };
        new.at = known.at;
        judge.set_aside(&new);
        if new != *known {
            changed.push((InboxKey { session: id, seq: *seq }, new));
        }
    }
    drop(reserved); // else they would be copied
    for (key, reservation) in changed {
        budgets::reserve(tx, &key, &reservation)?;
    }
    Ok(true)
}

/// Judges all messages that wait for budgets again, because a budget may have room now: at once those of some sessions, the
/// others in the next sweeps.
pub(crate) fn reconsider(tx: &mut Tx<'_, '_>) -> Result<()> {
    if tx.db.budget_waits.is_empty(tx)? {
        return Ok(());
    }
    let key = Text::new(BUDGETS_RECONSIDERED)?;
    tx.db.retention_cursors.put(tx, &key, &Number(0))?;
    go_on(tx)
}

/// Continues the walk, if one is in progress.
pub(crate) fn go_on(tx: &mut Tx<'_, '_>) -> Result<()> {
    let cursor = Text::new(BUDGETS_RECONSIDERED)?;
    let Some(Number(passed)) = tx.db.retention_cursors.get(tx, &cursor)? else { return Ok(()) };
    let mut next = SessionId::new(passed.saturating_add(1));
    for _ in 0..SESSIONS_PER_SLICE {
        let from = InboxKey { session: next, seq: 0 };
        let Some((InboxKey { session, .. }, _)) = tx.db.budget_waits.first(tx, from..)? else {
            return tx.db.retention_cursors.delete(tx, &cursor).map(drop);
        };
        tx.isolated(|tx| reconsider_session(tx, session))?;
        next = SessionId::new(session.number().saturating_add(1));
    }
    tx.db.retention_cursors.put(tx, &cursor, &Number(next.number().saturating_sub(1)))
}

fn reconsider_session(tx: &mut Tx<'_, '_>, id: SessionId) -> Result<()> {
    let Some(session) = sessions::load(tx, id)? else { return Ok(()) };
    let agent = tx.db.agents.require(tx, &session.agent)?;
    let settings = budgets::settings(tx)?;
    let of = SessionRef { id, session: &session, agent: &agent };
    let mut judge = Judge::new(tx, &settings, of, fallback::has_free(tx, of)?)?;
    let mut released = false;
    for (_, message) in tx.db.budget_waits.collect_prefix(tx, &id, JUDGED_MAX)? {
        let row = tx.db.messages.require(tx, &message)?;
        let judged = judge.judge(tx, message, &row)?;
        let state = match judged.verdict {
            None | Some((_, Verdict::Pass(PassReason::Warn))) => MessageState::Pending(Due::Now),
            Some((over, _)) => MessageState::Pending(Due::Budget(over.until)),
        };
        if state != row.state {
            released |= state == MessageState::Pending(Due::Now);
            messages::update(tx, message, |message| message.state = state)?;
        }
    }
    if released { dispatch::dispatch_session(tx, id).map(drop) } else { Ok(()) }
}

/// Adds to a budget, or opens it for a while, as a person decided.
pub(crate) fn extend(tx: &mut Tx<'_, '_>, request: &BudgetRequest, until_tomorrow: bool) -> Result<()> {
    let settings = budgets::settings(tx)?;
    let all = budgets::budgets(tx.db, tx, tx.now.wall, tx.cx.zone)?;
    let Some(account) = all.into_iter().find(|account| account.budget.name() == request.budget.name()) else {
        return Ok(());
    };
    let tomorrow = settings::today(tx, &settings).end_of(BudgetPeriod::Day);
    budgets::change_state(tx, &account, |state| {
        if until_tomorrow {
            state.open_until = Some(tomorrow);
        } else {
            // What was used beyond the limit would otherwise use up what is added.
            let (money, tokens) = account.overspent();
            state.money = state.money.plus(money).plus(request.money);
            state.tokens = state.tokens.saturating_add(tokens).saturating_add(request.tokens);
        }
        (state.told_most, state.told_spent) = (true, false);
    })?;
    reconsider(tx)
}

/// Drops the messages that wait for the budget of a rejected approval, from a position on, and tells their senders. What
/// is too much for one transaction follows in a continuation; after a crash the rest goes on waiting.
pub(crate) fn drop_waiting(tx: &mut Tx<'_, '_>, id: ApprovalId, from: InboxKey) -> Result<()> {
    let Some(approval) = readable(tx.db.approvals.get(tx, &id))? else { return Ok(()) };
    let (ApprovalSubject::Budget(request), ApprovalState::Rejected { by, .. }) = (&approval.about, &approval.state)
    else {
        return Ok(());
    };
    let (settings, name) = (budgets::settings(tx)?, request.budget.name());
    let person = match by {
        Decider::Person(user) => Some(user),
        Decider::Operator => None,
    };
    let by = halt::name(tx, person)?;
    let limit = tx.policy.rows_per_input / 8;
    let waiting = tx.db.budget_waits.collect_range(tx, from.., limit)?;
    if waiting.len() >= limit
        && let Some((InboxKey { session, seq }, _)) = waiting.last()
    {
        tx.effects.push(Effect::Continue(Continuation::DropWaiting(id, *session, seq.saturating_add(1))));
    }
    let mut told = BTreeSet::new();
    for (key, id) in waiting {
        let Some(message) = readable(tx.db.messages.get(tx, &id))? else { continue };
        let party = spend::party(tx, &message)?;
        let accounts = budgets::of_party(tx, &settings, key.session, &party)?;
        if !accounts.iter().any(|account| account.budget.name() == name) {
            continue;
        }
        messages::end(tx, id, MessageState::Dropped { reason: Reason::Budget, at: tx.now.wall }, Vec::new())?;
        let Some(to) = message.reply else { continue };
        if told.insert(to.clone()) {
            let text = format!("Your message was dropped: {by} decided that no more is spent on it.");
            notice::say_to(tx, to, Some(id), text)?;
        }
    }
    Ok(())
}
