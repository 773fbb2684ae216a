//! Reads and writes single records, one file per record. No decisions.

pub(crate) mod agents;
pub(crate) mod approvals;
pub(crate) mod budgets;
pub(crate) mod channels;
pub(crate) mod chats;
pub(crate) mod destinations;
pub(crate) mod direct;
pub(crate) mod host_grants;
pub(crate) mod journal;
pub(crate) mod messages;
pub(crate) mod notes;
pub(crate) mod people;
pub(crate) mod questions;
pub(crate) mod recall;
pub(crate) mod recent_turns;
pub(crate) mod session_files;
pub(crate) mod session_providers;
pub(crate) mod sessions;
pub(crate) mod settings;
pub(crate) mod speeches;
pub(crate) mod spend;
pub(crate) mod threads;
pub(crate) mod tool_grants;
pub(crate) mod transcripts;
