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
use crate::model::time::Day;
use crate::rows::budgets::{BudgetAccount, Expected};
use crate::rows::{budgets, journal, people, settings, spend};
use crate::rules::access::AccessLevel;
use crate::rules::budgets::{Verdict, decide_expected, decide_over};
use crate::state::InboxKey;
use crate::time::local;
use crate::tx::Tx;

/// Judges the messages of one session.
pub(super) struct Judge<'a> {
    settings: &'a Settings,
    session: SessionId,
    agent: AgentId,
    on_limit: OnLimit,
    /// Whether the models of its provider cost nothing.
    is_free: bool,
    /// Tokens that a message may use at most, by the agent's settings.
    cap: Option<u64>,
    today: Day,
    /// What is set aside for the session.
    pub(super) own: Vec<(InboxKey, Reservation)>,
    /// Senders of messages that pass by grace with this judgement.
    graced: Vec<UserId>,
    recent: Option<(Vec<u64>, Vec<u64>)>,
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
            session: of.id,
            agent: of.session.agent,
            on_limit: of.agent.settings.on_limit,
            is_free,
            cap: of.agent.settings.caps.tokens,
            today: local::day(tx.now.wall, &settings::zone_of(tx, settings)),
            own: budgets::of_session(tx, of.id)?,
            graced: Vec::new(),
            recent: None,
        })
    }

    pub(super) fn judge(&mut self, tx: &Tx<'_, '_>, id: MessageId, message: &Message) -> Result<Judged> {
        let party = spend::party(tx, message)?;
        let accounts = budgets::of_party(tx, self.settings, self.session, &party)?;
        if accounts.is_empty() {
            return Ok(Judged { reservation: None, verdict: None });
        }
        let mut reservation = self.expect(tx, id, party, &accounts)?;
        let mut over: Option<BudgetAccount> = None;
        for account in accounts {
            let shared = account.scope.as_ref().map(|scope| self.shared(scope)).unwrap_or_default();
            let money = (!self.is_free).then(|| shared.0.max(reservation.money));
            let expected = Expected { money, tokens: shared.1.max(reservation.tokens) };
            let later = over.as_ref().is_none_or(|known| known.until < account.until);
            if later && !account.has_room(tx.now.wall, expected) {
                over = Some(account);
            }
        }
        let shares_turn = self.own.iter().any(|(_, own)| {
            let covers = own.party == reservation.party;
            covers && (own.money > Money::ZERO || own.tokens > 0)
        });
        if shares_turn {
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

    /// What is set aside for the session's turn within a scope.
    fn shared(&self, scope: &SpendScope) -> (Money, u64) {
        let within = self.own.iter().filter(|(_, own)| own.party.is_in(scope));
        within.fold((Money::ZERO, 0), |(money, tokens), (_, own)| (money.max(own.money), tokens.max(own.tokens)))
    }

    /// What the turn of a message is expected to use.
    pub(super) fn expect(
        &mut self,
        tx: &Tx<'_, '_>,
        message: MessageId,
        party: Party,
        accounts: &[BudgetAccount],
    ) -> Result<Reservation> {
        let (money, tokens) = match &self.recent {
            Some(recent) => recent.clone(),
            None => self.recent.insert(budgets::recent(tx, self.agent)?).clone(),
        };
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
            let used = budgets::grace_used(tx, person, self.today)?;
            grace = used.saturating_add(u32::try_from(now).unwrap_or(u32::MAX)) < most;
        }
        let verdict = decide_over(self.on_limit, is_owner, grace);
        if let (Verdict::Pass(PassReason::Grace), Some(person)) = (verdict, person) {
            self.graced.push(person.clone());
        }
        Ok(verdict)
    }
}
