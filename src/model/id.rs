//! Ids that the store allocates: a number per table, shown with the table's prefix (`ag12`).

use serde::{Deserialize, Serialize};

macro_rules! numeric_ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
            pub struct $name(u64);

            impl $name {
                /// What people see before the number.
                pub const PREFIX: &'static str = $prefix;

                /// An id that the counter of its table gave out.
                #[must_use]
                pub const fn new(number: u64) -> Self {
                    Self(number)
                }

                /// The number.
                #[must_use]
                pub const fn number(self) -> u64 {
                    self.0
                }
            }

            impl std::fmt::Display for $name {
                fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    write!(f, concat!($prefix, "{}"), self.0)
                }
            }

            impl std::str::FromStr for $name {
                type Err = BadId;

                fn from_str(text: &str) -> Result<Self, BadId> {
                    parse_number($prefix, text).map(Self).ok_or_else(|| BadId { text: text.to_owned(), prefix: $prefix })
                }
            }
        )*

        /// One counter per kind of id, plus those that count something else.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Counter {
            $(
                #[doc = concat!("Last number given to a `", $prefix, "` id.")]
                $name,
            )*
        }

        impl Counter {
            /// Every counter.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The counter's key in the store: the prefix of the id it gives out.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $prefix,)* }
            }
        }

        $(
            impl Counted for $name {
                const COUNTER: Counter = Counter::$name;

                fn from_number(number: u64) -> Self {
                    Self(number)
                }
            }
        )*
    };
}

/// An id that a counter gives out.
pub trait Counted {
    /// Its counter.
    const COUNTER: Counter;

    /// Makes the id of a number.
    fn from_number(number: u64) -> Self;
}

numeric_ids! {
    /// An agent group.
    AgentId = "ag";
    /// A chat on a channel (messaging group).
    ChatId = "mg";
    /// A session of an agent.
    SessionId = "se";
    /// A message in a session.
    MessageId = "ms";
    /// What a message says; shared by the messages of a fan-out.
    BodyId = "mb";
    /// An outgoing message.
    OutboundId = "mo";
    /// A pending or decided approval.
    ApprovalId = "ap";
    /// A question an agent asked a person.
    QuestionId = "qu";
    /// A scheduled task.
    TaskId = "ta";
    /// A recorded refusal of an inbound event.
    DropId = "dr";
    /// An entry of the journal.
    JournalId = "jo";
    /// A skip summary.
    SkipId = "sk";
    /// A change of a workspace session: says only which was first.
    ChangeId = "wc";
}

/// A text that is not an id of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an id like {prefix}12")]
pub struct BadId {
    text: String,
    prefix: &'static str,
}

fn parse_number(prefix: &str, text: &str) -> Option<u64> {
    let digits = text.strip_prefix(prefix)?;
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let canonical = digits == "0" || !digits.starts_with('0');
    if plain && canonical { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_one_spelling() {
        assert_eq!(SessionId::new(345).to_string(), "se345");
        assert_eq!("se345".parse::<SessionId>(), Ok(SessionId::new(345)));
        for text in ["se", "se0345", "ag345", "se-1", "se3 ", "SE3", "se99999999999999999999"] {
            assert!(text.parse::<SessionId>().is_err(), "{text}");
        }
    }
}
