//! Hearth: a host daemon for personal AI agents.

pub mod clock;
pub mod engine;
pub mod model;
pub mod state;
