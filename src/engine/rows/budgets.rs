//! Budgets: what is left of them, what is set aside for turns under way, and what people allowed and were told. The only
//! writer of these tables.

use crate::Result;
use crate::model::address::UserId;
use crate::model::budget::{Budget, BudgetScope, BudgetState, GraceUsed, Party, Reservation};
use crate::model::configure::Settings;
use crate::model::id::SessionId;
use crate::model::message::Message;
use crate::model::spend::{Amounts, Money, SpendScope};
use crate::model::time::{Day, Timestamp};
use crate::rows::{chats, settings, spend};
use crate::rules::budgets::{self, Today};
use crate::state::{Basis, ChatKey, InboxKey, PersonKey, Read, ScopeKey, Tables, Text};
use crate::time::zone::Zone;
use crate::tx::Tx;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// Reservations that are added up, more than there are messages under way.
const RESERVATIONS_MAX: usize = 100_000;

/// A budget in its present period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetAccount {
    pub budget: Budget,
    /// What is counted for it; none if there is no such agent or chat.
    pub scope: Option<SpendScope>,
    /// What was used in the period.
    pub spent: Amounts,
    /// Money that is set aside for turns under way.
    pub reserved_money: Money,
    /// Tokens that are set aside for them.
    pub reserved_tokens: u64,
    /// What people allowed and were told in the period.
    pub state: BudgetState,
    /// When the next period begins.
    pub until: Timestamp,
}

impl BudgetAccount {
    /// The limit in money with what people added.
    #[must_use]
    pub fn money(&self) -> Option<Money> {
        self.budget.money.map(|limit| limit.plus(self.state.money))
    }

    /// The limit in tokens with what people added.
    #[must_use]
    pub fn tokens(&self) -> Option<u64> {
        self.budget.tokens.map(|limit| limit.saturating_add(self.state.tokens))
    }

    /// Money that was used, at the highest price for models without one.
    #[must_use]
    pub fn spent_money(&self) -> Money {
        self.spent.cost.plus(self.spent.unpriced)
    }

    /// Whether a person has opened it for the moment.
    #[must_use]
    pub fn is_open(&self, now: Timestamp) -> bool {
        self.state.open_until.is_some_and(|until| now < until)
    }

    /// Its limits with what is used of each, first money, then tokens.
    fn limits(&self) -> [Option<budgets::Limit>; 2] {
        let money = self.money().map(|limit| budgets::Limit {
            limit: limit.as_micros(),
            spent: self.spent_money().as_micros(),
            reserved: self.reserved_money.as_micros(),
        });
        let tokens = self.tokens().map(|limit| budgets::Limit {
            limit,
            spent: self.spent.tokens.total(),
            reserved: self.reserved_tokens,
        });
        [money, tokens]
    }

    /// What was used beyond its limits.
    pub(crate) fn overspent(&self) -> (Money, u64) {
        let money = self.money().map_or(Money::ZERO, |limit| self.spent_money().minus(limit));
        let tokens = self.tokens().map_or(0, |limit| self.spent.tokens.total().saturating_sub(limit));
        (money, tokens)
    }

    /// Whether it has room for a turn.
    pub(crate) fn has_room(&self, now: Timestamp, expected: Expected) -> bool {
        let [money, tokens] = self.limits();
        let fits =
            |limit: Option<budgets::Limit>, expected| limit.is_none_or(|limit| budgets::decide_room(limit, expected));
        self.is_open(now)
            || expected.money.is_none_or(|expected| fits(money, expected.as_micros())) && fits(tokens, expected.tokens)
    }

    /// Whether most of it is spent.
    pub(crate) fn is_mostly_spent(&self) -> bool {
        self.limits().into_iter().flatten().any(|of| budgets::decide_most(of.limit, of.spent))
    }

    /// How much of it is used: `$1.20 of $2.00`, `9000 of 10000 tokens`, or both.
    #[must_use]
    pub fn used(&self) -> String {
        let money = self.money().map(|limit| format!("{} of {limit}", self.spent_money()));
        let tokens = self.tokens().map(|limit| format!("{} of {limit} tokens", self.spent.tokens.total()));
        money.into_iter().chain(tokens).collect::<Vec<_>>().join(", ")
    }
}

/// What a turn is expected to use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    /// Money; none if its model costs nothing.
    pub(crate) money: Option<Money>,
    /// Tokens.
    pub(crate) tokens: u64,
}

/// All budgets, for people and programs. `zone` is the machine's.
///
/// # Errors
/// The store's.
pub fn budgets(db: &Tables, txn: &Read<'_>, now: Timestamp, zone: &Zone) -> Result<Vec<BudgetAccount>> {
    let settings = db.settings.get(txn, &())?.unwrap_or_default();
    if settings.budgets.is_empty() {
        return Ok(Vec::new());
    }
    let configured = settings.timezone.and_then(|name| Zone::parse(&name).ok());
    let today = Today::of(now, configured.unwrap_or_else(|| zone.clone()));
    let reserved = Reservations::read(db, txn)?;
    let account = |budget: Budget| {
        let state = db.budget_states.get(txn, &Text::new(budget.name())?)?;
        let mut account = account(budget, state, &today);
        if let Some(scope) = resolved(db, txn, &account.budget.scope)? {
            account.spent = spend::total(db, txn, &ScopeKey::of(&scope)?, account.state.from..=today.day)?;
            (account.reserved_money, account.reserved_tokens) = reserved.within(&scope, None);
            account.scope = Some(scope);
        }
        Ok(account)
    };
    settings.budgets.into_iter().map(account).collect()
}

/// The budgets of a message. What is set aside for the session itself is left out.
pub(crate) fn of_party(
    tx: &Tx<'_, '_>,
    of: &Settings,
    session: SessionId,
    party: &Party,
) -> Result<Vec<BudgetAccount>> {
    let today = settings::today(tx, of);
    let (reserved, states, mut totals) = (reservations(tx)?, states(tx)?, spend::totals_of_periods(tx)?);
    let mut found = Vec::with_capacity(of.budgets.len());
    for budget in &of.budgets {
        let Some(scope) = counted(tx, &budget.scope)?.filter(|scope| party.is_in(scope)) else { continue };
        let name = if states.is_empty() { None } else { Some(Text::new(budget.name())?) };
        let state = states.iter().find(|(known, _)| Some(known) == name.as_ref()).map(|(_, state)| state.clone());
        let mut account = account(budget.clone(), state, &today);
        account.spent = spend::total_of_period(tx, &mut totals, &scope, account.state.from..=today.day)?;
        (account.reserved_money, account.reserved_tokens) = reserved.within(&scope, Some(session));
        account.scope = Some(scope);
        found.push(account);
    }
    Ok(found)
}

/// What is set aside for messages, in memory.
#[derive(Default, Clone)]
pub(crate) struct Reservations {
    all: BTreeMap<SessionId, BTreeMap<u64, Reservation>>,
    /// Those that set an amount aside.
    bearing: BTreeMap<InboxKey, Reservation>,
    /// The sums of these.
    sums: BTreeMap<SpendScope, ReservedSum>,
}

/// What is set aside within a scope. Too wide to overflow.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
struct ReservedSum {
    money: u128,
    tokens: u128,
}

impl Reservations {
    fn read(db: &Tables, txn: &Read<'_>) -> Result<Self> {
        let mut known = Self::default();
        for (key, row) in db.reservations.collect_range(txn, .., RESERVATIONS_MAX)? {
            known.insert(key, &row);
        }
        Ok(known)
    }

    fn insert(&mut self, key: InboxKey, row: &Reservation) {
        self.remove(key);
        self.all.entry(key.session).or_default().insert(key.seq, row.clone());
        if row.is_bearing() {
            self.bearing.insert(key, row.clone());
            self.count(row, u128::saturating_add);
        }
    }

    fn remove(&mut self, key: InboxKey) {
        if let Entry::Occupied(mut of_session) = self.all.entry(key.session) {
            of_session.get_mut().remove(&key.seq);
            if of_session.get().is_empty() {
                of_session.remove();
            }
        }
        if let Some(row) = self.bearing.remove(&key) {
            self.count(&row, u128::saturating_sub);
        }
    }

    fn count(&mut self, row: &Reservation, how: fn(u128, u128) -> u128) {
        for scope in row.party.scopes() {
            let mut known = match self.sums.entry(scope) {
                Entry::Occupied(known) => known,
                Entry::Vacant(new) => new.insert_entry(ReservedSum::default()),
            };
            let sum = known.get_mut();
            sum.money = how(sum.money, row.money.as_micros().into());
            sum.tokens = how(sum.tokens, row.tokens.into());
            if *sum == ReservedSum::default() {
                known.remove();
            }
        }
    }

    /// What is set aside within a scope, except for one session.
    fn within(&self, scope: &SpendScope, except: Option<SessionId>) -> (Money, u64) {
        let mut sum = self.sums.get(scope).copied().unwrap_or_default();
        for own in except.into_iter().flat_map(|session| self.bearing_of(session)) {
            if own.party.is_in(scope) {
                sum.money = sum.money.saturating_sub(own.money.as_micros().into());
                sum.tokens = sum.tokens.saturating_sub(own.tokens.into());
            }
        }
        let narrow = |sum: u128| u64::try_from(sum).unwrap_or(u64::MAX);
        (Money::micros(narrow(sum.money)), narrow(sum.tokens))
    }

    /// Reservations of a session's messages, by their positions.
    pub(crate) fn of_session(&self, session: SessionId) -> Option<&BTreeMap<u64, Reservation>> {
        self.all.get(&session)
    }

    /// Reservations of a session that set an amount aside.
    pub(crate) fn bearing_of(&self, session: SessionId) -> impl Iterator<Item = &Reservation> {
        let whole = InboxKey { session, seq: 0 }..=InboxKey { session, seq: u64::MAX };
        self.bearing.range(whole).map(|(_, row)| row)
    }

    /// The reservation of a message.
    pub(crate) fn of_message(&self, key: InboxKey) -> Option<&Reservation> {
        self.all.get(&key.session)?.get(&key.seq)
    }
}

/// All reservations. The rows are read once; later changes update the copy in memory, too.
pub(crate) fn reservations(tx: &Tx<'_, '_>) -> Result<Arc<Reservations>> {
    tx.once(Basis::Reservations, &(), || Reservations::read(tx.db, tx))
}

/// The settings, for a decision about budgets.
pub(crate) fn settings(tx: &Tx<'_, '_>) -> Result<Arc<Settings>> {
    tx.once(Basis::Settings, &(), || Ok(tx.db.settings.get(tx, &())?.unwrap_or_default()))
}

/// An account without use and reservations, which the caller adds.
fn account(budget: Budget, state: Option<BudgetState>, today: &Today) -> BudgetAccount {
    let from = budget.per.first_day(today.day);
    let state = state.filter(|state| state.from == from);
    BudgetAccount {
        until: today.end_of(budget.per),
        state: state.unwrap_or(BudgetState { from, ..BudgetState::default() }),
        spent: Amounts::default(),
        reserved_money: Money::ZERO,
        reserved_tokens: 0,
        budget,
        scope: None,
    }
}

/// What people allowed and were told of budgets, by their names. Most have no row: all rows are read once.
fn states(tx: &Tx<'_, '_>) -> Result<Arc<Vec<(Text, BudgetState)>>> {
    let read = || tx.db.budget_states.collect_range(tx, .., tx.policy.rows_per_input);
    tx.once(Basis::BudgetStates, &(), read)
}

/// What a budget counts; none if there is no such agent or chat.
fn resolved(db: &Tables, txn: &Read<'_>, scope: &BudgetScope) -> Result<Option<SpendScope>> {
    Ok(match scope {
        BudgetScope::All => Some(SpendScope::All),
        BudgetScope::Agent(folder) => db.agents_by_folder.get(txn, &Text::from(folder))?.map(SpendScope::Agent),
        BudgetScope::Chat(channel, id) => {
            db.chats_by_address.get(txn, &ChatKey::of(channel, id))?.map(SpendScope::Chat)
        }
        BudgetScope::Person(person) => Some(SpendScope::Person(person.clone())),
        BudgetScope::Task(task) => Some(SpendScope::Task(*task)),
    })
}

/// Like [`resolved`]. The chat of a message is known already.
fn counted(tx: &Tx<'_, '_>, scope: &BudgetScope) -> Result<Option<SpendScope>> {
    match scope {
        BudgetScope::Chat(channel, id) => Ok(chats::id_of(tx, channel, id)?.map(SpendScope::Chat)),
        _ => resolved(tx.db, tx, scope),
    }
}

/// Changes what people allowed and were told of a budget. Returns what `change` does.
pub(crate) fn change_state<T>(
    tx: &mut Tx<'_, '_>,
    account: &BudgetAccount,
    change: impl FnOnce(&mut BudgetState) -> T,
) -> Result<T> {
    let key = Text::new(account.budget.name())?;
    let known = tx.db.budget_states.get(tx, &key)?.filter(|state| state.from == account.state.from);
    let before = known.clone().unwrap_or_else(|| account.state.clone());
    let mut state = before.clone();
    let done = change(&mut state);
    if known.is_none() || state != before {
        tx.db.budget_states.put(tx, &key, &state)?;
    }
    Ok(done)
}

/// Records that the owner is told that all of a budget is spent. Returns whether that is new in this period.
pub(crate) fn begin_telling_spent(tx: &mut Tx<'_, '_>, account: &BudgetAccount) -> Result<bool> {
    change_state(tx, account, |state| !std::mem::replace(&mut state.told_spent, true))
}

/// Removes the states of budgets that are not configured any more.
pub(crate) fn forget_states(tx: &mut Tx<'_, '_>, settings: &Settings) -> Result<()> {
    for (name, _) in tx.db.budget_states.collect_range(tx, .., tx.policy.rows_per_input)? {
        if !settings.budgets.iter().any(|budget| budget.name() == name.as_str()) {
            tx.db.budget_states.delete(tx, &name)?;
        }
    }
    Ok(())
}

/// The messages of a person that passed today although a budget was spent.
pub(crate) fn grace_used(tx: &Tx<'_, '_>, person: &UserId, today: Day) -> Result<u32> {
    let row = tx.db.grace_used.get(tx, &PersonKey::of(person))?;
    Ok(row.filter(|row| row.person == *person && row.day == today).map_or(0, |row| row.messages))
}

/// Counts one more of them.
pub(crate) fn use_grace(tx: &mut Tx<'_, '_>, person: &UserId, today: Day) -> Result<()> {
    let messages = grace_used(tx, person, today)?.saturating_add(1);
    tx.db.grace_used.put(tx, &PersonKey::of(person), &GraceUsed { person: person.clone(), day: today, messages })
}

/// Sets something aside.
pub(crate) fn reserve(tx: &mut Tx<'_, '_>, key: &InboxKey, reservation: &Reservation) -> Result<()> {
    let mut known = reservations(tx)?;
    tx.db.reservations.put(tx, key, reservation)?;
    Arc::make_mut(&mut known).insert(*key, reservation);
    tx.keep(Basis::Reservations, &(), known);
    Ok(())
}

fn release(tx: &mut Tx<'_, '_>, key: InboxKey) -> Result<()> {
    let mut known = reservations(tx)?;
    tx.db.reservations.delete(tx, &key)?;
    Arc::make_mut(&mut known).remove(key);
    tx.keep(Basis::Reservations, &(), known);
    Ok(())
}

/// Releases what is set aside for a session's messages.
pub(crate) fn release_session(tx: &mut Tx<'_, '_>, session: SessionId) -> Result<()> {
    let seqs: Vec<u64> = reservations(tx)?.of_session(session).into_iter().flat_map(BTreeMap::keys).copied().collect();
    for seq in seqs {
        release(tx, InboxKey { session, seq })?;
    }
    Ok(())
}

/// Releases what is set aside for a message that is not under way any more.
pub(crate) fn message_changed(tx: &mut Tx<'_, '_>, before: &Message, after: &Message) -> Result<()> {
    use crate::model::message::Waits;
    let (was, is) = (before.waits(), after.waits());
    let key = InboxKey::of(after);
    if was == is || is == Some(Waits::Turn) || reservations(tx)?.of_message(key).is_none() {
        return Ok(());
    }
    release(tx, key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::id::{AgentId, MessageId};

    #[test]
    fn what_is_set_aside_is_the_sum_of_the_other_sessions() {
        let row = |agent, person: &str, tokens| Reservation {
            message: MessageId::new(1),
            at: Timestamp::from_millis(0),
            party: Party { agent: AgentId::new(agent), chat: None, person: UserId::parse(person).ok(), task: None },
            money: Money::micros(tokens / 2),
            tokens,
        };
        let key = |session, seq| InboxKey { session: SessionId::new(session), seq };
        let mut known = Reservations::default();
        for (at, row) in [
            (key(1, 2), row(1, "net:a", 10)),
            (key(1, 4), row(1, "net:b", 20)),
            (key(1, 6), row(1, "net:b", 0)),
            (key(2, 2), row(2, "net:a", 40)),
            (key(3, 2), row(2, "net:a", u64::MAX)),
        ] {
            known.insert(at, &row);
        }
        let person = SpendScope::Person(UserId::parse("net:a").unwrap());
        let tokens = |known: &Reservations, scope: &SpendScope, except: Option<u64>| {
            known.within(scope, except.map(SessionId::new)).1
        };
        assert_eq!(tokens(&known, &SpendScope::All, None), u64::MAX);
        assert_eq!(tokens(&known, &SpendScope::All, Some(3)), 70, "a sum beyond the largest number is not lost");
        known.remove(key(3, 2));
        known.insert(key(2, 2), &row(2, "net:a", 5));
        assert_eq!(tokens(&known, &SpendScope::All, None), 35);
        assert_eq!(tokens(&known, &SpendScope::Agent(AgentId::new(1)), Some(2)), 30);
        assert_eq!(tokens(&known, &person, Some(1)), 5);
        assert_eq!(tokens(&known, &SpendScope::Agent(AgentId::new(3)), None), 0);
        for at in [key(1, 2), key(1, 4), key(1, 6), key(2, 2)] {
            known.remove(at);
        }
        assert!(known.all.is_empty() && known.sums.is_empty(), "nothing is left");
    }
}
