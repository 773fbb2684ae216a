//! What the bridge knows of channels: whether one is a direct chat, a thread, or an ordinary one. Asked when it is needed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;

use super::rest::{Rest, Trouble};
use super::snowflake::Snowflake;

/// Channels that are remembered.
const REMEMBERED: usize = 10_000;

/// A channel as Discord describes it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Channel {
    pub(crate) id: Snowflake,
    #[serde(default, rename = "type")]
    kind: u64,
    #[serde(default)]
    parent_id: Option<Snowflake>,
    #[serde(default)]
    pub(crate) last_message_id: Option<Snowflake>,
}

impl Channel {
    pub(crate) fn place(&self) -> Place {
        match (self.kind, self.parent_id) {
            (1, _) => Place::Direct(self.id),
            (10..=12, Some(parent)) => Place::Thread { parent, thread: self.id },
            _ => Place::Group(self.id),
        }
    }
}

/// Where a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// A chat with one person.
    Direct(Snowflake),
    /// A channel of a server, or a group.
    Group(Snowflake),
    /// A thread, which is a channel of its own.
    Thread { parent: Snowflake, thread: Snowflake },
}

impl Place {
    pub(crate) const fn is_direct(self) -> bool {
        matches!(self, Self::Direct(_))
    }

    pub(crate) const fn chat(self) -> Snowflake {
        match self {
            Self::Direct(chat) | Self::Group(chat) | Self::Thread { parent: chat, .. } => chat,
        }
    }

    pub(crate) const fn thread(self) -> Option<Snowflake> {
        match self {
            Self::Direct(_) | Self::Group(_) => None,
            Self::Thread { thread, .. } => Some(thread),
        }
    }
}

#[derive(Clone)]
pub(crate) struct Channels {
    rest: Rest,
    known: Arc<Mutex<BTreeMap<Snowflake, Place>>>,
}

impl Channels {
    pub(crate) fn new(rest: Rest) -> Self {
        Self { rest, known: Arc::default() }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Snowflake, Place>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() > REMEMBERED {
            known.clear();
        }
        known
    }

    pub(crate) fn learn(&self, channel: &Channel) {
        self.known().insert(channel.id, channel.place());
    }

    /// Where a channel is. One that Discord does not show is taken for an ordinary one.
    pub(crate) fn place(&self, id: Snowflake) -> Result<Place, Trouble> {
        if let Some(place) = self.known().get(&id) {
            return Ok(*place);
        }
        let place = match self.rest.get(format!("channels/{id}"), "get channel", &id.to_string()) {
            Ok(found) => serde_json::from_value::<Channel>(found).map_or(Place::Group(id), |channel| channel.place()),
            Err(Trouble::Refused { .. }) => Place::Group(id),
            Err(trouble) => return Err(trouble),
        };
        self.known().insert(id, place);
        Ok(place)
    }
}
