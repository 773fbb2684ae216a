//! The ledger of costs, and budgets.

use super::{AGENT, CHAT, SESSION, ada, at, foreign, message, telegram};
use crate::model::budget::{Budget, BudgetPeriod, BudgetScope, BudgetState, GraceUsed, Party, Reservation};
use crate::model::entity::Folder;
use crate::model::id::{MessageId, TaskId};
use crate::model::message::{Due, MessageState};
use crate::model::spend::{Amounts, CostBasis, ModelUse, Money, Spend, SpendScope, SpendSource, SpendTotal, Tokens};
use crate::model::time::Day;
use crate::{InboxKey, PersonKey, Result, ScopeKey, SpendKey, SpendTotalKey, Tables, Text, Write};

/// A turn that is in the ledger, and an older one of which only the totals are left.
pub(super) fn fill(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    let tokens = Tokens { input: 1_200, output: 80, cache_read: 300, cache_write: 20, reasoning: 10 };
    let used = ModelUse {
        model: Some("claude-sonnet-4-5".into()),
        tokens,
        cost: Money::micros(4_965),
        basis: CostBasis::Priced,
    };
    let entry = Spend {
        at: at(6),
        day: Day::new(20_563),
        agent: AGENT,
        session: SESSION,
        chat: Some(CHAT),
        person: Some(ada()),
        task: None,
        uses: vec![used],
        source: SpendSource::Reported,
        counted: true,
    };
    db.spend.put(txn, &SpendKey { message: MessageId::new(1), incarnation: 2, call: 0 }, &entry)?;
    for (scope, kept) in entry.amounts() {
        let forgotten = if scope == SpendScope::All { kept } else { Amounts::default() };
        let key = SpendTotalKey { scope: ScopeKey::of(&scope)?, day: entry.day };
        db.spend_totals.put(txn, &key, &SpendTotal { kept, forgotten })?;
    }
    set_aside(db, txn)
}

/// A message that an agent works on has a reservation, and the budget was extended.
fn set_aside(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    let reservation = Reservation {
        message: MessageId::new(6),
        at: at(7),
        party: Party { agent: AGENT, chat: Some(CHAT), person: Some(ada()), task: None },
        money: Money::micros(5_000),
        tokens: 1_600,
    };
    db.reservations.put(txn, &InboxKey { session: SESSION, seq: 12 }, &reservation)?;
    let state = BudgetState {
        from: Day::new(20_563),
        money: Money::micros(1_000_000),
        tokens: 0,
        open_until: Some(at(90)),
        told_most: true,
        told_spent: false,
    };
    for budget in budgets() {
        db.budget_states.put(txn, &Text::new(budget.name())?, &state)?;
    }
    let (id, waiting) = message(11, MessageState::Pending(Due::Budget(at(95))), true);
    db.messages.put(txn, &id, &waiting)?;
    let used = GraceUsed { person: ada(), day: Day::new(20_563), messages: 1 };
    db.grace_used.put(txn, &PersonKey::of(&ada()), &used)
}

pub(super) fn budgets() -> Vec<Budget> {
    let budget = |scope, per, money, tokens| Budget { scope, per, money, tokens };
    let family = BudgetScope::Chat(telegram(), foreign("-100"));
    vec![
        budget(BudgetScope::All, BudgetPeriod::Month, Some(Money::micros(40_000_000)), None),
        budget(BudgetScope::Agent(Folder::new("main").unwrap()), BudgetPeriod::Day, None, Some(1_000_000)),
        budget(BudgetScope::Person(ada()), BudgetPeriod::Day, Some(Money::micros(2_500_000)), None),
        budget(family, BudgetPeriod::Day, Some(Money::ZERO), None),
        budget(BudgetScope::Task(TaskId::new(1)), BudgetPeriod::Day, Some(Money::micros(100_000)), None),
    ]
}
