//! Key of what totals of costs are kept for.

use super::key::{BadKey, KeyPart, take_tag};
use super::keys::PersonKey;
use super::text_key::{BadText, Text};
use crate::model::id::{AgentId, ChatId, TaskId};
use crate::model::spend::SpendScope;

/// What a total is kept for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ScopeKey {
    /// The whole installation.
    All,
    /// An agent.
    Agent(AgentId),
    /// A chat.
    Chat(ChatId),
    /// A series of tasks.
    Task(TaskId),
    /// A person.
    Person(PersonKey),
    /// A model.
    Model(Text),
}

impl ScopeKey {
    /// Key of a scope.
    ///
    /// # Errors
    /// [`BadText`] for the name of a model that no key can hold.
    pub fn of(scope: &SpendScope) -> Result<Self, BadText> {
        Ok(match scope {
            SpendScope::All => Self::All,
            SpendScope::Agent(agent) => Self::Agent(*agent),
            SpendScope::Chat(chat) => Self::Chat(*chat),
            SpendScope::Task(task) => Self::Task(*task),
            SpendScope::Person(person) => Self::Person(PersonKey::of(person)),
            SpendScope::Model(model) => Self::Model(Text::new(model.clone())?),
        })
    }
}

impl KeyPart for ScopeKey {
    const MAX_BYTES: usize =
        1 + if PersonKey::MAX_BYTES > Text::MAX_BYTES { PersonKey::MAX_BYTES } else { Text::MAX_BYTES };

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::All => out.push(1),
            Self::Agent(agent) => {
                out.push(2);
                agent.encode(out);
            }
            Self::Chat(chat) => {
                out.push(3);
                chat.encode(out);
            }
            Self::Task(task) => {
                out.push(4);
                task.encode(out);
            }
            Self::Person(person) => {
                out.push(5);
                person.encode(out);
            }
            Self::Model(model) => {
                out.push(6);
                model.encode(out);
            }
        }
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, BadKey> {
        match take_tag(bytes)? {
            1 => Ok(Self::All),
            2 => AgentId::decode(bytes).map(Self::Agent),
            3 => ChatId::decode(bytes).map(Self::Chat),
            4 => TaskId::decode(bytes).map(Self::Task),
            5 => PersonKey::decode(bytes).map(Self::Person),
            6 => Text::decode(bytes).map(Self::Model),
            other => Err(BadKey(format!("{other} is not the scope of a total"))),
        }
    }

    fn show(&self, parts: &mut Vec<String>) {
        let (word, shown) = match self {
            Self::All => ("all", None),
            Self::Agent(agent) => ("agent", Some(agent.shown())),
            Self::Chat(chat) => ("chat", Some(chat.shown())),
            Self::Task(task) => ("task", Some(task.shown())),
            Self::Person(person) => ("person", Some(person.shown())),
            Self::Model(model) => ("model", Some(model.shown())),
        };
        parts.push(word.to_owned());
        parts.extend(shown);
    }
}
