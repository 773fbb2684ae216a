//! An unofficial bridge to WhatsApp: a linked device, which speaks the protocol of WhatsApp Web.
//!
//! The library of the protocol is asynchronous; everything else uses threads that block, as all bridges of Hearth.
//! `session.rs` begins a session, `watch.rs` hears what becomes of it, `received.rs` reads messages and stores them in the
//! spool, one thread passes on messages from there (`inbox.rs`), some send (`outbox.rs`), and one asks for what came without
//! being stored (`store.rs`).

mod acks;
mod aside;
mod chat;
mod device;
mod files;
mod inbox;
mod library_log;
mod link;
mod outbox;
mod pace;
mod received;
mod run;
mod server;
mod session;
mod settings;
mod store;
mod verdict;
mod watch;
mod written;

use std::io;
use std::path::Path;

/// What the program is called with.
const USAGE: &str = "usage: hearth-whatsapp, which Hearth starts, or hearth-whatsapp link DIRECTORY [NUMBER]";

/// Runs the bridge until the daemon ends it or is gone, or links the device.
///
/// # Errors
/// Unknown arguments, and faults of this machine.
pub fn run(words: &[String]) -> io::Result<()> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => run::run(),
        ["link", directory, rest @ ..] => link::link(Path::new(directory), rest),
        _ => Err(io::Error::other(USAGE)),
    }
}
