//! `hearth-networks`: bridges to networks that need no more than HTTP, WebSocket or lines of JSON, each with a subcommand.
//!
//! They use threads that block, as all bridges of Hearth, and types of their own for the few things that they need of a
//! network's protocol: the libraries for these networks bring an async runtime, and hide when a request left.

mod discord;
#[cfg(test)]
mod hostile;
mod signal;
mod slack;
mod web;
mod websocket;
mod whatsapp;

use std::io;

use hearth_bridge::program::Daemon;

/// A bridge, with the word after its name, if there is one.
type Run = fn(Daemon, Option<&str>) -> io::Result<()>;

struct Network {
    name: &'static str,
    /// The most words of its command.
    words: usize,
    run: Run,
}

const NETWORKS: [Network; 4] = [
    Network { name: "discord", words: 1, run: |daemon, _| discord::run(daemon) },
    // The second word is the program that speaks with Signal.
    Network { name: "signal", words: 2, run: signal::run },
    Network { name: "slack", words: 1, run: |daemon, _| slack::run(daemon) },
    Network { name: "whatsapp", words: 1, run: |daemon, _| whatsapp::run(daemon) },
];

/// Runs the bridge that the arguments name until the daemon ends it or is gone.
///
/// # Errors
/// If there is none of that name, and faults of this machine.
pub fn run(words: &[String]) -> io::Result<()> {
    let is_named = |network: &&Network| words.first().is_some_and(|word| word == network.name);
    let Some(network) = NETWORKS.iter().find(is_named).filter(|network| words.len() <= network.words) else {
        let names: Vec<&str> = NETWORKS.iter().map(|network| network.name).collect();
        return Err(io::Error::other(format!("name one network: {}", names.join(", "))));
    };
    (network.run)(Daemon::inherited()?, words.get(1).map(String::as_str))
}
