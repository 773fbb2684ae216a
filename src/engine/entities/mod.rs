//! Creates, changes and removes configured entities: agents, chats, wirings, people, channels,
//! destinations, the console.

pub(crate) mod agents;
pub(crate) mod change;
pub(crate) mod channels;
pub(crate) mod console;
pub(crate) mod destinations;
pub(crate) mod halt;
pub(crate) mod hosts;
pub(crate) mod mutes;
pub(crate) mod people;
pub(crate) mod restart;
pub(crate) mod roles;
pub(crate) mod sessions;
pub(crate) mod threads;
pub(crate) mod tool_rules;
pub(crate) mod wirings;
