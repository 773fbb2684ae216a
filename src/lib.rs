//! Hearth: a host daemon for personal AI agents.
pub mod mailbox;
pub mod model;
