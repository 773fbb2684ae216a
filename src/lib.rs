//! Hearth: a host daemon for personal AI agents.

pub mod cli;

pub use hearth_base::{model, search, time};
pub use hearth_edges::{
    channel, clock, config, connections, console, contracts, egress, gateway, mailbox, provider, runtime, socket,
};
pub use hearth_host::daemon;
pub use {hearth_engine as engine, hearth_state as state};

use hearth_base::crash;
