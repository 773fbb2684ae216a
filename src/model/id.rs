//! Ids that the store allocates: a number per table, shown with the table's prefix (`ag12`).

use serde::{Deserialize, Serialize};

macro_rules! numeric_ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
            pub struct $name(u64);

            impl $name {
                /// Prefix of the text form.
                pub const PREFIX: &'static str = $prefix;

                /// Wraps a number from the table's counter.
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

        /// One counter per kind of id, plus counters for other things.
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

/// An [`OutboundId`] outside of the store, like `5f0c91ab-mo17`. Channels use it as an idempotency key.
///
/// Numbers repeat after a restore; the random epoch does not. Ids from before epochs existed have none: `mo17`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutgoingId {
    /// The row.
    pub id: OutboundId,
    /// The random prefix, if it has one.
    pub epoch: Option<u32>,
}

impl std::fmt::Display for OutgoingId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.epoch {
            Some(epoch) => write!(f, "{epoch:08x}-{}", self.id),
            None => self.id.fmt(f),
        }
    }
}

impl std::str::FromStr for OutgoingId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        let bad = || BadId { text: text.to_owned(), prefix: OutboundId::PREFIX };
        let (epoch, id) = match text.split_once('-') {
            Some((epoch, id)) => (Some(parse_epoch(epoch).ok_or_else(bad)?), id),
            None => (None, text),
        };
        Ok(Self { id: id.parse().map_err(|_| bad())?, epoch })
    }
}

/// Accepts only the form in which [`OutgoingId`] is displayed.
fn parse_epoch(text: &str) -> Option<u32> {
    let plain = text.len() == 8 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    plain.then(|| u32::from_str_radix(text, 16).ok()).flatten()
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
    /// Content of a message; shared by the messages of a fan-out.
    BodyId = "mb";
    /// An outgoing message.
    OutboundId = "mo";
    /// A pending or decided approval.
    ApprovalId = "ap";
    /// A question an agent asked a person.
    QuestionId = "qu";
    /// A scheduled task.
    TaskId = "ta";
    /// A dropped inbound event.
    DropId = "dr";
    /// An entry of the journal.
    JournalId = "jo";
    /// A skip summary.
    SkipId = "sk";
    /// A change of a workspace session; used only for ordering.
    ChangeId = "wc";
    /// A record of connections of an agent.
    ConnectionId = "cn";
    /// Tool calls that a person allowed in advance.
    ToolGrantId = "tg";
    /// A browser in which a person is signed in to the console.
    ConsoleSessionId = "cs";
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

    #[test]
    fn outgoing_ids_have_one_spelling() {
        let id = OutboundId::new(17);
        for (id, text) in [
            (OutgoingId { id, epoch: None }, "mo17"),
            (OutgoingId { id, epoch: Some(0x5f0c_91ab) }, "5f0c91ab-mo17"),
            (OutgoingId { id, epoch: Some(0xa) }, "0000000a-mo17"),
        ] {
            assert_eq!(id.to_string(), text);
            assert_eq!(text.parse::<OutgoingId>(), Ok(id));
        }
        for text in
            ["", "-mo17", "a-mo17", "5F0C91AB-mo17", "5f0c91ab-ms17", "5f0c91ab-mo017", "5f0c91ab-", "+f0c91ab-mo17"]
        {
            assert!(text.parse::<OutgoingId>().is_err(), "{text}");
        }
    }
}
