//! Hearth: a host daemon for personal AI agents.
pub mod channel;
pub mod config;
pub mod model;
