//! Old record versions: one frozen type per version, and the conversion from each to the next.
//!
//! A frozen type never changes. It uses only other frozen types and plain ones (ids, times and names count as plain),
//! because the meaning of old bytes must not follow changes of the model. A record's `upgrade` decodes the type of the
//! version it finds and converts step by step. The example shows the shape, and its tests verify the chain.

use serde::de::DeserializeOwned;

use super::envelope::{Unreadable, decode};

pub(super) mod agent;
pub(super) mod bridge;
pub(super) mod channel;
pub(super) mod console;
pub(super) mod console_session;
pub(super) mod drop;
pub(super) mod hold_off;
pub(super) mod meta;
pub(super) mod session_settings;
pub(super) mod settings;
pub(super) mod wiring;

/// Upgrades a record with one older version.
fn first<Old: DeserializeOwned, New: From<Old>>(version: u16, body: &[u8]) -> Result<New, Unreadable> {
    match version {
        1 => decode::<Old>(body).map(New::from),
        _ => Err(unknown(version)),
    }
}

fn unknown(version: u16) -> Unreadable {
    Unreadable::Damaged(format!("version {version} never existed"))
}

/// A frozen enum, and its conversion to the model's enum, variant by variant.
macro_rules! frozen_enum {
    ($($frozen:ident => $model:path { $($variant:ident),+ })+) => {$(
        #[derive(serde::Serialize, serde::Deserialize)]
        pub(crate) enum $frozen {
            $($variant),+
        }

        impl From<$frozen> for $model {
            fn from(old: $frozen) -> Self {
                match old {
                    $($frozen::$variant => Self::$variant),+
                }
            }
        }
    )+};
}
use frozen_enum;

/// A record with two older versions: one chat became a list, then the list got a flag.
#[cfg(test)]
pub(super) mod example {
    use serde::{Deserialize, Serialize};

    use crate::envelope::{Record, Unreadable, decode};
    use crate::legacy::unknown;
    use crate::model::id::ChatId;

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub(crate) struct Note {
        pub(crate) chats: Vec<ChatId>,
        pub(crate) loud: bool,
    }

    #[derive(Serialize, Deserialize)]
    pub(crate) struct NoteV1 {
        pub(crate) chat: ChatId,
    }

    #[derive(Serialize, Deserialize)]
    pub(crate) struct NoteV2 {
        pub(crate) chats: Vec<ChatId>,
    }

    impl From<NoteV1> for NoteV2 {
        fn from(old: NoteV1) -> Self {
            Self { chats: vec![old.chat] }
        }
    }

    impl From<NoteV2> for Note {
        fn from(old: NoteV2) -> Self {
            Self { chats: old.chats, loud: true }
        }
    }

    impl Record for Note {
        const NAME: &'static str = "note";
        const VERSION: u16 = 3;

        fn upgrade(version: u16, body: &[u8]) -> Result<Self, Unreadable> {
            match version {
                1 => decode::<NoteV1>(body).map(NoteV2::from).map(Self::from),
                2 => decode::<NoteV2>(body).map(Self::from),
                _ => Err(unknown(version)),
            }
        }

        fn redact(&mut self) {}
    }
}
