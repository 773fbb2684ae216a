//! Hearth: a host daemon for personal AI agents.

pub mod channel;
pub mod cli;
pub mod clock;
pub mod config;
pub mod connections;
pub mod contracts;
mod crash;
pub mod daemon;
pub mod engine;
pub mod mailbox;
pub mod model;
pub mod runtime;

pub mod socket;
pub mod state;
pub mod time;
