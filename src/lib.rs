//! Hearth: a host daemon for personal AI agents.
pub mod model;
pub mod runtime;
