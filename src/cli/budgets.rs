//! Budgets, and what is left of them, for `spend`, `status` and `why`.

use serde::Serialize;

use super::listed::{Column, Listed};
use super::{human_time, labels, lookup, zone};
use crate::clock;
use crate::console::Rank;
use crate::engine::{BudgetAccount, budgets};
use crate::model::Timestamp;
use crate::model::budget::BudgetScope;
use crate::model::configure::Settings;
use crate::model::spend::{Money, SpendScope};
use crate::state::{self, Read, Tables};
use crate::time::zone::Zone;

/// A budget in its present period.
#[derive(Debug, Serialize)]
pub(super) struct BudgetJson {
    budget: String,
    scope: String,
    per: &'static str,
    /// Amounts in millionths of a dollar; null if it does not limit money.
    money: Option<UsedJson>,
    /// Null if it does not limit tokens.
    tokens: Option<UsedJson>,
    /// The part of the money that is for models without a price, at the highest price of the list.
    unpriced_micros: u64,
    /// Until when a person let everything pass; null for no such permission.
    open_until: Option<String>,
    /// When the next period begins.
    until: String,
    /// Whether it has no room for more.
    spent: bool,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct UsedJson {
    /// With what people added.
    limit: u64,
    spent: u64,
    /// Set aside for turns under way.
    reserved: u64,
    left: u64,
}

impl UsedJson {
    const fn of(limit: u64, spent: u64, reserved: u64) -> Self {
        Self { limit, spent, reserved, left: limit.saturating_sub(spent).saturating_sub(reserved) }
    }
}

impl BudgetJson {
    fn of(account: &BudgetAccount, now: Timestamp) -> Self {
        let money = account.money().map(|limit| {
            UsedJson::of(limit.as_micros(), account.spent_money().as_micros(), account.reserved_money.as_micros())
        });
        let tokens =
            account.tokens().map(|limit| UsedJson::of(limit, account.spent.tokens.total(), account.reserved_tokens));
        let open = account.state.open_until.filter(|until| now < *until);
        let is_full = |used: Option<UsedJson>| used.is_some_and(|used| used.left == 0);
        Self {
            budget: account.budget.name(),
            scope: account.budget.scope.to_string(),
            per: account.budget.per.as_str(),
            money,
            tokens,
            unpriced_micros: account.spent.unpriced.as_micros(),
            open_until: open.map(|until| until.to_string()),
            until: account.until.to_string(),
            spent: open.is_none() && (is_full(money) || is_full(tokens)),
        }
    }

    fn part(&self, of: impl Fn(UsedJson) -> u64) -> String {
        let money = self.money.map(|used| Money::micros(of(used)).to_string());
        let tokens = self.tokens.map(|used| format!("{} tokens", of(used)));
        money.into_iter().chain(tokens).collect::<Vec<_>>().join(", ")
    }

    /// A line for people: what is left.
    fn words(&self) -> String {
        let open = match &self.open_until {
            Some(until) => format!("; does not count until {}", human_time::local(until)),
            None => String::new(),
        };
        format!("{}: {} left of {}{open}", self.budget, self.part(|used| used.left), self.part(|used| used.limit))
    }

    /// A warning, if it is spent.
    fn warning(&self) -> Option<String> {
        let until = human_time::local(&self.until);
        self.spent.then(|| format!("the budget {} is spent: its next period begins at {until}", self.budget))
    }
}

impl Listed for BudgetJson {
    const PLURAL: &'static str = "budgets";
    const COLUMNS: &'static [Column<Self>] = &[
        ("BUDGET", |row| row.budget.clone()),
        ("LIMIT", |row| row.part(|used| used.limit)),
        ("SPENT", |row| row.part(|used| used.spent)),
        ("SET ASIDE", |row| row.part(|used| used.reserved)),
        ("LEFT", |row| row.part(|used| used.left)),
        ("UNTIL", |row| human_time::local(&row.until)),
    ];
}

/// The time zone of the installation's users.
pub(super) fn zone_of(settings: Option<&Settings>) -> Zone {
    let configured = settings.and_then(|settings| settings.timezone.as_ref());
    configured.and_then(|name| Zone::parse(name).ok()).unwrap_or_else(|| zone::or_the_machines(None))
}

pub(super) fn all(db: &Tables, txn: &Read<'_>) -> Result<Vec<BudgetJson>, state::Error> {
    let now = clock::wall();
    let accounts = accounts(db, txn, now)?;
    Ok(accounts.iter().map(|account| BudgetJson::of(account, now)).collect())
}

fn accounts(db: &Tables, txn: &Read<'_>, now: Timestamp) -> Result<Vec<BudgetAccount>, state::Error> {
    budgets(db, txn, now, &zone_of(db.settings.get(txn, &())?.as_ref()))
}

/// How much of a budget is used, by its name.
pub(super) fn used(db: &Tables, txn: &Read<'_>, name: &str) -> Result<Option<String>, state::Error> {
    let accounts = accounts(db, txn, clock::wall())?;
    let found = accounts.iter().find(|account| account.budget.name() == name);
    Ok(found.map(BudgetAccount::used))
}

/// Warnings about budgets that are spent, and about those that name an agent, a chat or a task that does not exist. Those
/// who do not see everything get the budgets of the agents that they see, and of their tasks.
pub(super) fn warnings(db: &Tables, txn: &Read<'_>, rank: &Rank) -> Result<Vec<String>, state::Error> {
    let now = clock::wall();
    let mut found = Vec::new();
    for account in accounts(db, txn, now)? {
        if !concerns(db, txn, &account.budget.scope, rank)? {
            continue;
        }
        found.extend(BudgetJson::of(&account, now).warning());
        let exists = match &account.scope {
            None => false,
            Some(SpendScope::Task(task)) => db.tasks.contains(txn, task)?,
            Some(_) => true,
        };
        if !exists {
            let (name, scope) = (account.budget.name(), &account.budget.scope);
            found.push(format!("the budget {name} counts nothing, because there is no {scope}; correct or remove it"));
        }
    }
    Ok(found)
}

/// Whether a budget concerns an agent that a person sees.
fn concerns(db: &Tables, txn: &Read<'_>, scope: &BudgetScope, rank: &Rank) -> Result<bool, state::Error> {
    Ok(match scope {
        _ if *rank == Rank::Everything => true,
        BudgetScope::Agent(folder) => rank.sees(folder.as_str()),
        BudgetScope::Task(task) => match db.tasks.get(txn, task)? {
            Some(task) => rank.sees(&lookup::folder(db, txn, task.agent)?),
            None => false,
        },
        BudgetScope::All | BudgetScope::Person(_) | BudgetScope::Chat(..) => false,
    })
}

/// The budgets, and how many messages wait for them, as lines for people.
pub(super) fn lines(budgets: &[BudgetJson], waiting: u64) -> Vec<String> {
    let waiting =
        (waiting > 0).then(|| format!("waiting for budgets: {}", labels::count(waiting, "message", "messages")));
    waiting.into_iter().chain(budgets.iter().map(|budget| format!("budget {}", budget.words()))).collect()
}
