//! The bridge to Discord.

use std::io;

use hearth_bridge::program::Daemon;
use hearth_bridge::program::run::{failed, greet};

/// Runs the bridge until the daemon ends it or is gone.
///
/// # Errors
/// Faults of this machine.
pub(crate) fn run(mut daemon: Daemon) -> io::Result<()> {
    let Some(_hello) = greet(&mut daemon, "hearth-networks discord")? else { return Ok(()) };
    daemon.send(&failed("it is being built".to_owned(), None))
}
