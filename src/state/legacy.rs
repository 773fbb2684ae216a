//! Records as they once were: one frozen type per older version, and the way from each to the next.
//!
//! A frozen type is never changed, and uses only frozen types and plain ones: what old bytes mean must not follow what
//! the model means today. A record's `upgrade` decodes the type of the version it finds and converts step by step. There
//! are none yet: every record is of its first version. The example shows the shape, and its tests prove the chain.

/// A record that was changed twice: one chat became a list of them, then the list got a flag.
#[cfg(test)]
pub(super) mod example {
    use serde::{Deserialize, Serialize};

    use crate::model::id::ChatId;
    use crate::state::envelope::{Record, Unreadable, decode};

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub(in crate::state) struct Note {
        pub(in crate::state) chats: Vec<ChatId>,
        pub(in crate::state) loud: bool,
    }

    #[derive(Serialize, Deserialize)]
    pub(in crate::state) struct NoteV1 {
        pub(in crate::state) chat: ChatId,
    }

    #[derive(Serialize, Deserialize)]
    pub(in crate::state) struct NoteV2 {
        pub(in crate::state) chats: Vec<ChatId>,
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
                _ => Err(Unreadable::Damaged(format!("there never was a version {version}"))),
            }
        }

        fn redact(&mut self) {}
    }
}
