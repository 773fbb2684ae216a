//! `hearth-networks`: bridges to networks that need no more than HTTP and WebSocket, each with a subcommand.
//!
//! They use threads that block, as all bridges of Hearth, and types of their own for the few things that they need of a
//! network's protocol: the libraries for these networks bring an async runtime, and hide when a request left.

mod discord;
mod slack;
mod web;
mod websocket;

use std::io;

use hearth_bridge::program::Daemon;

/// A bridge.
type Run = fn(Daemon) -> io::Result<()>;

/// The networks by the names of their subcommands.
const NETWORKS: [(&str, Run); 2] = [("discord", discord::run), ("slack", slack::run)];

/// Runs the bridge that the arguments name until the daemon ends it or is gone.
///
/// # Errors
/// If there is none of that name, and faults of this machine.
pub fn run(words: &[String]) -> io::Result<()> {
    let named = |(name, _): &&(&str, Run)| matches!(words, [word] if word == name);
    let Some((_, bridge)) = NETWORKS.iter().find(named) else {
        let names: Vec<&str> = NETWORKS.iter().map(|(name, _)| *name).collect();
        return Err(io::Error::other(format!("name one network: {}", names.join(", "))));
    };
    bridge(Daemon::inherited()?)
}
