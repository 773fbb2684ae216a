//! Judges messages of a session: whether its budgets have room for their turn, and what is expected of it.

use crate::Result;
use crate::lifecycle::mailbox_view::SessionRef;
use crate::model::address::UserId;
use crate::model::budget::{Budget, OnLimit, Party, PassReason, Reservation};
use crate::model::configure::Settings;
use crate::model::id::{AgentId, MessageId, SessionId};
use crate::model::journal::Event;
use crate::model::message::{Message, Reason};
use crate::model::spend::{Money, SpendScope};
use crate::rows::budgets::{BudgetAccount, Expected};
use crate::rows::recent_turns::RecentTurn;
use crate::rows::{budgets, journal, people, recent_turns, settings, spend};
use crate::rules::access::AccessLevel;
use crate::rules::budgets::{Verdict, decide_expected, decide_over};
use crate::tx::Tx;
use std::sync::Arc;

/// Judges the messages of one session.
pub(super) struct Judge<'a> {
    settings: &'a Settings,
    agent: AgentId,
    on_limit: OnLimit,
    /// Whether the models of its provider cost nothing.
    is_free: bool,
    /// Tokens that a message may use at most, by the agent's settings.
    cap: Option<u64>,
    session: SessionId,
    /// What is set aside for the session and for messages that were judged: one reservation for each party. The other
    /// messages of a party share its turn.
    bearing: Vec<Reservation>,
    /// Senders of messages that pass by grace with this judgement.
    graced: Vec<UserId>,
    recent: Option<Vec<RecentTurn>>,
    /// The budgets of those whose messages were judged.
    known: Vec<(Party, Arc<Vec<BudgetAccount>>)>,
}

pub(super) struct Judged {
    /// What to set aside; none if no budget counts the message.
    pub(super) reservation: Option<Reservation>,
    /// The budget without room, and what follows from it; none if all have room.
    pub(super) verdict: Option<(BudgetAccount, Verdict)>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(tx: &Tx<'_, '_>, settings: &'a Settings, of: SessionRef<'_>, is_free: bool) -> Result<Self> {
        Ok(Self {
            settings,
            agent: of.session.agent,
            on_limit: of.agent.settings.on_limit,
            is_free,
            cap: of.agent.settings.caps.tokens,
            session: of.id,
            bearing: budgets::reservations(tx)?.bearing_of(of.id).cloned().collect(),
            graced: Vec::new(),
            recent: None,
            known: Vec::new(),
        })
    }

    pub(super) fn judge(&mut self, tx: &Tx<'_, '_>, id: MessageId, message: &Message) -> Result<Judged> {
        self.judge_party(tx, id, spend::party(tx, message)?)
    }

    /// Like [`Self::judge`], for a message whose party is known.
    pub(super) fn judge_party(&mut self, tx: &Tx<'_, '_>, id: MessageId, party: Party) -> Result<Judged> {
        let accounts = self.accounts(tx, &party)?;
        if accounts.is_empty() {
            return Ok(Judged { reservation: None, verdict: None });
        }
        let mut reservation = match self.shared_turn(&party, &accounts) {
            Some((money, tokens)) => Reservation { message: id, at: tx.now.wall, party, money, tokens },
            None => self.expect(tx, id, party)?,
        };
        let mut over: Option<BudgetAccount> = None;
        for account in accounts.iter() {
            let shared = account.scope.as_ref().map(|scope| self.shared(scope)).unwrap_or_default();
            let money = (!self.is_free).then(|| shared.0.max(reservation.money));
            let expected = Expected { money, tokens: shared.1.max(reservation.tokens) };
            let later = over.as_ref().is_none_or(|known| known.until < account.until);
            if later && !account.has_room(tx.now.wall, expected) {
                over = Some(account.clone());
            }
        }
        if self.bearing(&reservation.party).is_some() {
            (reservation.money, reservation.tokens) = (Money::ZERO, 0);
        }
        let verdict = match over {
            Some(over) => {
                let verdict = self.over(tx, id, reservation.party.person.as_ref())?;
                Some((over, verdict))
            }
            None => None,
        };
        Ok(Judged { reservation: Some(reservation), verdict })
    }

    /// The budgets of a message, without what is set aside for the session itself.
    pub(super) fn accounts(&mut self, tx: &Tx<'_, '_>, party: &Party) -> Result<Arc<Vec<BudgetAccount>>> {
        if let Some((_, accounts)) = self.known.iter().find(|(known, _)| known == party) {
            return Ok(Arc::clone(accounts));
        }
        let accounts = Arc::new(budgets::of_party(tx, self.settings, self.session, party)?);
        self.known.push((party.clone(), Arc::clone(&accounts)));
        Ok(accounts)
    }

    /// Counts what is to be set aside for a message.
    pub(super) fn set_aside(&mut self, reservation: &Reservation) {
        if reservation.is_bearing() {
            self.bearing.push(reservation.clone());
        }
    }

    /// Judges as if nothing was set aside for the session.
    pub(super) fn anew(mut self) -> Self {
        self.bearing.clear();
        self
    }

    /// The reservation for the turn of a party's messages.
    pub(super) fn bearing(&self, party: &Party) -> Option<&Reservation> {
        self.bearing.iter().find(|own| own.party == *party)
    }

    /// What is set aside for the turn that a message shares, if it says what is expected of it in each unit that is
    /// limited: what was set aside when models cost nothing says nothing about money.
    fn shared_turn(&self, party: &Party, accounts: &[BudgetAccount]) -> Option<(Money, u64)> {
        let own = self.bearing(party)?;
        let in_money = !self.is_free && accounts.iter().any(|account| account.budget.money.is_some());
        let in_tokens = accounts.iter().any(|account| account.budget.tokens.is_some());
        let says = (own.money > Money::ZERO || !in_money) && (own.tokens > 0 || !in_tokens);
        says.then_some((own.money, own.tokens))
    }

    /// What is set aside for the session's turn within a scope.
    fn shared(&self, scope: &SpendScope) -> (Money, u64) {
        let within = self.bearing.iter().filter(|own| own.party.is_in(scope));
        within.fold((Money::ZERO, 0), |(money, tokens), own| (money.max(own.money), tokens.max(own.tokens)))
    }

    /// What the turn of a message is expected to use.
    pub(super) fn expect(&mut self, tx: &Tx<'_, '_>, message: MessageId, party: Party) -> Result<Reservation> {
        let accounts = self.accounts(tx, &party)?;
        let recent = match &mut self.recent {
            Some(recent) => recent,
            None => self.recent.insert(recent_turns::recent(tx, self.agent)?),
        };
        let (money, tokens) = recent.iter().map(|turn| (turn.money, turn.tokens)).unzip();
        let in_money = accounts.iter().filter_map(|account| account.budget.money).map(Money::as_micros);
        let in_tokens = accounts.iter().filter_map(|account| account.budget.tokens);
        let money = if self.is_free { 0 } else { decide_expected(money, None, in_money) };
        Ok(Reservation {
            message,
            at: tx.now.wall,
            party,
            money: Money::micros(money),
            tokens: decide_expected(tokens, self.cap, in_tokens),
        })
    }

    fn over(&mut self, tx: &Tx<'_, '_>, id: MessageId, person: Option<&UserId>) -> Result<Verdict> {
        // A repeated turn of a message that passed before costs no grace.
        let before = journal::last_of_message(tx, id)?.into_iter().find_map(|event| match event {
            Event::PassedBudget { why, .. } => Some(why),
            _ => None,
        });
        if let Some(why) = before {
            return Ok(Verdict::Pass(why));
        }
        let (mut is_owner, mut grace) = (false, false);
        if let Some(person) = person {
            is_owner = people::standing(tx, Some(person), self.agent)? == AccessLevel::Known(Reason::Owner);
            let most = self.settings.grace.unwrap_or(Budget::GRACE);
            let now = self.graced.iter().filter(|known| *known == person).count();
            let used = budgets::grace_used(tx, person, settings::today(tx, self.settings).day)?;
            grace = used.saturating_add(u32::try_from(now).unwrap_or(u32::MAX)) < most;
        }
        let verdict = decide_over(self.on_limit, is_owner, grace);
        if let (Verdict::Pass(PassReason::Grace), Some(person)) = (verdict, person) {
            self.graced.push(person.clone());
        }
        Ok(verdict)
    }
}
