//! Budgets: how much of models may be used in a day or a month, and what is set aside for turns under way.

use serde::{Deserialize, Serialize};

use super::address::{ChannelName, ForeignId, UserId};
use super::agent::ProviderKind;
use super::folder::Folder;
use super::id::{AgentId, ChatId, MessageId, TaskId};
use super::spend::{Money, SpendScope};
use super::time::{Day, Timestamp};

/// What a budget applies to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum BudgetScope {
    /// The whole installation.
    All,
    /// All turns of an agent.
    Agent(Folder),
    /// All turns that a person's messages start.
    Person(UserId),
    /// All turns for messages of a chat.
    Chat(ChannelName, ForeignId),
    /// A series of tasks.
    Task(TaskId),
}

impl BudgetScope {
    /// Longest text, in bytes. It is part of a key.
    pub const MAX_BYTES: usize = 300;

    /// Parses `all`, `agent:FOLDER`, `person:ID`, `chat:CHANNEL/ID` or `task:ID`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let known = "`all`, `agent:FOLDER`, `person:CHANNEL:ID`, `chat:CHANNEL/ID` or `task:ID`";
        if text.len() > Self::MAX_BYTES {
            return Err(format!("has {} bytes; write at most {}", text.len(), Self::MAX_BYTES));
        }
        if text == "all" {
            return Ok(Self::All);
        }
        let (kind, name) = text.split_once(':').ok_or_else(|| format!("is unknown; write {known}"))?;
        match kind {
            "agent" => Folder::new(name).map(Self::Agent).map_err(|error| error.to_string()),
            "person" => UserId::parse(name).map(Self::Person).map_err(|error| error.to_string()),
            "chat" => {
                let (channel, id) = name.split_once('/').ok_or("names no chat; write `chat:CHANNEL/ID`")?;
                let channel = ChannelName::new(channel).map_err(|error| error.to_string())?;
                let id = ForeignId::new("the chat's id", id).map_err(|error| error.to_string())?;
                Ok(Self::Chat(channel, id))
            }
            "task" => name.parse().map(Self::Task).map_err(|_| "names no task; write `task:ta1`".to_owned()),
            _ => Err(format!("is unknown; write {known}")),
        }
    }
}

/// As it is written in files.
impl std::fmt::Display for BudgetScope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Agent(folder) => write!(f, "agent:{folder}"),
            Self::Person(person) => write!(f, "person:{person}"),
            Self::Chat(channel, id) => write!(f, "chat:{channel}/{id}"),
            Self::Task(task) => write!(f, "task:{task}"),
        }
    }
}

/// How long a budget lasts, by the calendar of the installation's users.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum BudgetPeriod {
    /// A calendar day.
    Day,
    /// A calendar month.
    Month,
}

impl BudgetPeriod {
    /// The word in files and for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Month => "month",
        }
    }

    /// First day of the period that contains `day`.
    #[must_use]
    pub fn first_day(self, day: Day) -> Day {
        match self {
            Self::Day => day,
            Self::Month => day.month(),
        }
    }
}

/// How much may be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Scope: the installation, an agent, a person or a chat.
    pub scope: BudgetScope,
    /// How long it lasts.
    pub per: BudgetPeriod,
    /// Money; none is no limit.
    pub money: Option<Money>,
    /// Tokens of all kinds; none is no limit.
    pub tokens: Option<u64>,
}

impl Budget {
    /// Messages of each person and day that pass although a budget is spent, unless the configuration says otherwise.
    pub const GRACE: u32 = 3;

    /// Its name: unique among the budgets of an installation.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}/{}", self.scope, self.per.as_str())
    }
}

/// What happens to messages of an agent that a budget has no room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum OnLimit {
    /// They wait, and a person is asked whether they may pass.
    #[default]
    Ask,
    /// They wait for the next period.
    Hold,
    /// They pass, and the owner is told.
    Warn,
}

impl OnLimit {
    /// The word in files and for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Hold => "hold",
            Self::Warn => "warn",
        }
    }
}

/// Limits of single messages of an agent, and of its requests to models. None is no limit, or the default of the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Caps {
    /// Tokens for a message.
    pub tokens: Option<u64>,
    /// Requests to models for a message.
    pub calls: Option<u32>,
    /// Minutes for a message.
    pub minutes: Option<u32>,
    /// Turns of a session in a row without a word from a person.
    pub unattended_turns: Option<u32>,
    /// Requests to models under way at once.
    pub at_once: Option<u32>,
    /// Requests to models per minute.
    pub per_minute: Option<u32>,
}

/// What drives an agent while the provider before it takes no work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fallback {
    /// Provider that is used instead of the agent's own.
    pub provider: ProviderKind,
    /// Its program and arguments.
    pub command: Vec<String>,
    /// Its model, if not the provider's default.
    pub model: Option<String>,
}

/// Whom the use of models by a message is counted for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Party {
    /// The agent whose turn is paid.
    pub agent: AgentId,
    /// The chat that the answer goes to.
    pub chat: Option<ChatId>,
    /// The sender of the message that started the turn.
    pub person: Option<UserId>,
    /// The series, if a task runs.
    pub task: Option<TaskId>,
}

impl Party {
    /// Whether what is counted for it is part of a scope's total.
    #[must_use]
    pub fn is_in(&self, scope: &SpendScope) -> bool {
        match scope {
            SpendScope::All => true,
            SpendScope::Agent(agent) => self.agent == *agent,
            SpendScope::Chat(chat) => self.chat == Some(*chat),
            SpendScope::Task(task) => self.task == Some(*task),
            SpendScope::Person(person) => self.person.as_ref() == Some(person),
            SpendScope::Model(_) => false,
        }
    }

    /// The scopes that it is part of.
    pub fn scopes(&self) -> impl Iterator<Item = SpendScope> {
        let chat = self.chat.map(SpendScope::Chat);
        let task = self.task.map(SpendScope::Task);
        let person = self.person.clone().map(SpendScope::Person);
        [Some(SpendScope::All), Some(SpendScope::Agent(self.agent)), chat, task, person].into_iter().flatten()
    }
}

/// What the turn of a dispatched message is expected to use, until it has ended. It counts as spent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// The dispatched message.
    pub message: MessageId,
    /// When it was dispatched.
    pub at: Timestamp,
    /// Whom it is counted for.
    pub party: Party,
    /// Expected costs. Nothing for messages that share the turn of another one.
    pub money: Money,
    /// Tokens that the turn is expected to use.
    pub tokens: u64,
}

impl Reservation {
    /// Whether it sets an amount aside. One for a message that shares the turn of another one does not.
    #[must_use]
    pub fn is_bearing(&self) -> bool {
        self.money > Money::ZERO || self.tokens > 0
    }
}

/// Why a message passes although a budget has no room for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PassReason {
    /// An owner sent it.
    Owner,
    /// It is one of the first messages of its sender that day.
    Grace,
    /// The agent only warns.
    Warn,
}

/// A spent budget that a person is asked to extend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetRequest {
    /// The budget.
    pub budget: Budget,
    /// The agent whose message waits first.
    pub agent: AgentId,
    /// Money to add, if the budget limits it.
    pub money: Money,
    /// Tokens to add, if the budget limits them.
    pub tokens: u64,
    /// When the next period begins.
    pub until: Timestamp,
}

/// A budget in one period: what people allowed in addition, and what they were told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetState {
    /// The first day of the period.
    pub from: Day,
    /// Money that people added.
    pub money: Money,
    /// Tokens that people added.
    pub tokens: u64,
    /// Until when the budget does not count.
    pub open_until: Option<Timestamp>,
    /// Whether the owner was told that most of it is spent.
    pub told_most: bool,
    /// Whether the owner was told that all of it is spent.
    pub told_spent: bool,
}

/// Messages of a person that passed although a budget was spent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraceUsed {
    /// The person who used it.
    pub person: UserId,
    /// The calendar day on which it was used.
    pub day: Day,
    /// How many such messages there were.
    pub messages: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_read_as_they_are_written() {
        for text in ["all", "agent:main", "person:telegram:42", "chat:telegram/-100:5", "chat:web/a/b", "task:ta7"] {
            assert_eq!(BudgetScope::parse(text).unwrap().to_string(), text);
        }
        let long = format!("person:telegram:{}", "4".repeat(BudgetScope::MAX_BYTES));
        for text in ["", "everything", "agent:", "agent:../x", "person:42", "chat:telegram", "task:x", "model:m", &long]
        {
            assert!(BudgetScope::parse(text).is_err(), "{text}");
        }
    }
}
