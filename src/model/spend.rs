//! What agents use of models, and what it costs.

use serde::{Deserialize, Serialize};

use super::address::UserId;
use super::id::{AgentId, ChatId, SessionId, TaskId};
use super::short::Short;
use super::time::{Day, Timestamp};

/// Millionths of a US dollar.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Money(u64);

impl Money {
    /// No money.
    pub const ZERO: Self = Self(0);

    /// An amount in millionths of a dollar.
    #[must_use]
    pub const fn micros(micros: u64) -> Self {
        Self(micros)
    }

    /// The amount in millionths of a dollar.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// The sum, or the largest amount.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, or nothing.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// `$1.50`, or below a dollar with four decimals, rounded up.
impl std::fmt::Display for Money {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const CENT: u64 = 10_000;
        const SMALLEST: u64 = 100;
        if self.0 == 0 || self.0 >= 1_000_000 {
            let cents = self.0.saturating_add(CENT / 2) / CENT;
            write!(f, "${}.{:02}", cents / 100, cents % 100)
        } else {
            let small = self.0.div_ceil(SMALLEST);
            write!(f, "${}.{:04}", small / 10_000, small % 10_000)
        }
    }
}

/// Tokens of one or more calls of a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Read, without those of a cache.
    pub input: u64,
    /// Written, with those of reasoning.
    pub output: u64,
    /// Read from the provider's cache.
    pub cache_read: u64,
    /// Written to the provider's cache.
    pub cache_write: u64,
    /// Of reasoning, a part of `output`.
    pub reasoning: u64,
}

impl Tokens {
    /// Largest number of tokens of one kind in one report. No model comes near it in a turn.
    pub const MAX: u64 = 1_000_000_000;

    /// All tokens that a provider counts.
    #[must_use]
    pub const fn total(self) -> u64 {
        let read = self.input.saturating_add(self.cache_read).saturating_add(self.cache_write);
        read.saturating_add(self.output)
    }

    /// Each number combined with that of other tokens.
    #[must_use]
    pub fn combine(self, other: Self, how: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            input: how(self.input, other.input),
            output: how(self.output, other.output),
            cache_read: how(self.cache_read, other.cache_read),
            cache_write: how(self.cache_write, other.cache_write),
            reasoning: how(self.reasoning, other.reasoning),
        }
    }
}

/// Where the cost of a use comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CostBasis {
    /// The agent states it.
    Stated,
    /// From the table of prices.
    Priced,
    /// The model has no price. The amount is what its tokens would cost at most, for budgets.
    Unknown,
}

/// The use of one model, as an agent reports it or the gateway counted it. Bounded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedUse {
    /// The model's name, if it is known.
    pub model: Option<Short>,
    /// Tokens by kind.
    pub tokens: Tokens,
    /// Its cost, if it was stated.
    pub cost: Option<Money>,
}

/// What a turn used of one model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelUse {
    /// The model's name, if it is known.
    pub model: Option<Short>,
    /// Tokens by kind.
    pub tokens: Tokens,
    /// Price of the tokens.
    pub cost: Money,
    /// Where the cost comes from.
    pub basis: CostBasis,
}

/// Source of the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SpendSource {
    /// The agent reported it with the end of its turn.
    Reported,
    /// The agent reports nothing.
    Unreported,
    /// The model gateway saw the call.
    Gateway,
}

impl SpendSource {
    /// For people and programs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reported => "reported",
            Self::Unreported => "unreported",
            Self::Gateway => "gateway",
        }
    }
}

/// One entry of the ledger: what a turn used, or a call that the gateway counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spend {
    /// When it was stored.
    pub at: Timestamp,
    /// The day of its totals.
    pub day: Day,
    /// The agent whose turn it was.
    pub agent: AgentId,
    /// The session of the turn.
    pub session: SessionId,
    /// The chat that the answer goes to.
    pub chat: Option<ChatId>,
    /// The sender of the message.
    pub person: Option<UserId>,
    /// The series, if a task ran.
    pub task: Option<TaskId>,
    /// One entry for each model.
    pub uses: Vec<ModelUse>,
    /// Source of the numbers.
    pub source: SpendSource,
    /// Whether it is in the totals. A report is not, where the gateway counted the calls of the turn.
    pub counted: bool,
}

/// What totals are kept for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpendScope {
    /// The whole installation.
    All,
    /// All turns of an agent.
    Agent(AgentId),
    /// All turns for a chat.
    Chat(ChatId),
    /// A series of tasks.
    Task(TaskId),
    /// All turns for a person.
    Person(UserId),
    /// A model; empty if its name is not known.
    Model(Short),
}

impl Spend {
    /// What it counts for, and how much: everything for all scopes but models.
    #[must_use]
    pub fn amounts(&self) -> Vec<(SpendScope, Amounts)> {
        if !self.counted || self.uses.is_empty() {
            return Vec::new();
        }
        let sum = self.uses.iter().fold(Amounts::default(), |sum, used| sum.plus(Amounts::of(used)));
        let sum = Amounts { turns: 1, ..sum };
        let mut scopes = vec![(SpendScope::All, sum), (SpendScope::Agent(self.agent), sum)];
        scopes.extend(self.chat.map(|chat| (SpendScope::Chat(chat), sum)));
        scopes.extend(self.task.map(|task| (SpendScope::Task(task), sum)));
        scopes.extend(self.person.clone().map(|person| (SpendScope::Person(person), sum)));
        let models = self.uses.iter().map(|used| {
            let amounts = Amounts { turns: 1, ..Amounts::of(used) };
            (SpendScope::Model(used.model.clone().unwrap_or_default()), amounts)
        });
        scopes.extend(models);
        scopes
    }
}

/// A sum of uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amounts {
    /// Entries of the ledger.
    pub turns: u64,
    /// Tokens by kind.
    pub tokens: Tokens,
    /// Costs that are known.
    pub cost: Money,
    /// What the tokens of models without a price cost at most.
    pub unpriced: Money,
}

impl Amounts {
    fn of(used: &ModelUse) -> Self {
        let (cost, unpriced) = match used.basis {
            CostBasis::Stated | CostBasis::Priced => (used.cost, Money::ZERO),
            CostBasis::Unknown => (Money::ZERO, used.cost),
        };
        Self { turns: 0, tokens: used.tokens, cost, unpriced }
    }

    /// Field by field.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            turns: self.turns.saturating_add(other.turns),
            tokens: self.tokens.combine(other.tokens, u64::saturating_add),
            cost: self.cost.plus(other.cost),
            unpriced: self.unpriced.plus(other.unpriced),
        }
    }

    /// Field by field.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            turns: self.turns.saturating_sub(other.turns),
            tokens: self.tokens.combine(other.tokens, u64::saturating_sub),
            cost: self.cost.minus(other.cost),
            unpriced: self.unpriced.minus(other.unpriced),
        }
    }
}

/// The totals of a day.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpendTotal {
    /// The sum of entries that are in the ledger.
    pub kept: Amounts,
    /// The sum of entries that retention has removed.
    pub forgotten: Amounts,
}

impl SpendTotal {
    /// All of it.
    #[must_use]
    pub fn sum(&self) -> Amounts {
        self.kept.plus(self.forgotten)
    }
}

/// The price of a model, by the name that agents report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelPrice {
    /// Name as the provider reports it.
    pub model: String,
    /// The price.
    pub price: Price,
}

/// Prices in millionths of a US dollar for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Price {
    /// Tokens read.
    pub input: u64,
    /// Tokens written.
    pub output: u64,
    /// Tokens read from the cache.
    pub cache_read: u64,
    /// Tokens written to the cache.
    pub cache_write: u64,
}

impl Price {
    /// The cost of tokens, rounded up.
    #[must_use]
    pub fn of(self, tokens: Tokens) -> Money {
        let part = |count: u64, price: u64| u128::from(count) * u128::from(price);
        let sum = part(tokens.input, self.input)
            + part(tokens.output, self.output)
            + part(tokens.cache_read, self.cache_read)
            + part(tokens.cache_write, self.cache_write);
        Money(u64::try_from(sum.div_ceil(1_000_000)).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_shown_in_dollars() {
        for (micros, shown) in [
            (0, "$0.00"),
            (1, "$0.0001"),
            (50, "$0.0001"),
            (41_500, "$0.0415"),
            (999_999, "$1.0000"),
            (1_000_000, "$1.00"),
            (12_345_678, "$12.35"),
            (u64::MAX, "$18446744073709.55"),
        ] {
            assert_eq!(Money::micros(micros).to_string(), shown, "{micros}");
        }
    }

    #[test]
    fn a_price_counts_each_kind_of_token() {
        let price = Price { input: 3_000_000, output: 15_000_000, cache_read: 300_000, cache_write: 3_750_000 };
        let tokens = Tokens { input: 1_000, output: 100, cache_read: 10_000, cache_write: 0, reasoning: 50 };
        assert_eq!(price.of(tokens), Money::micros(3_000 + 1_500 + 3_000));
        assert_eq!(price.of(Tokens { input: 1, ..Tokens::default() }), Money::micros(3));
        assert_eq!(price.of(Tokens::default()), Money::ZERO);
    }
}
