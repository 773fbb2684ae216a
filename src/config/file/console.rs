//! `[console]`: the console in the browser.

use std::net::SocketAddr;

use super::section::{Keys, Problems, Section, excerpt};
use crate::model::configure::Change;
use crate::model::console::ConsoleSettings;

const KEYS: Keys = Keys { place: "[console]", known: &["enabled", "listen"], later: &["names", "tls_cert", "tls_key"] };

pub(super) fn read(problems: &mut Problems<'_>, top: &Section<'_>) -> Option<Change> {
    let section = top.table(problems, "console", &KEYS)?;
    let enabled = section.flag(problems, "enabled").unwrap_or(true);
    let listen = match section.text(problems, "listen") {
        Some((at, text)) => listen(problems, at, text)?,
        None => ConsoleSettings::LISTEN,
    };
    Some(Change::PutConsole(ConsoleSettings { enabled, listen }))
}

/// An address of this machine alone: without TLS, others could read along.
fn listen(problems: &mut Problems<'_>, at: usize, text: &str) -> Option<SocketAddr> {
    match text.parse::<SocketAddr>() {
        Ok(address) if address.ip().is_loopback() && address.port() != 0 => return Some(address),
        Ok(address) if address.port() == 0 => problems.add(
            at,
            format!("`console.listen` cannot be \"{}\"; write a port, like 127.0.0.1:18790", excerpt(text)),
        ),
        Ok(_) => problems.add(
            at,
            format!(
                "`console.listen` cannot be \"{}\": the console has no TLS yet, so others could read what is shown and take \
                 over the session; write an address of this machine alone, like 127.0.0.1:18790, and reach it from \
                 elsewhere through an SSH tunnel",
                excerpt(text)
            ),
        ),
        Err(_) => problems.add(
            at,
            format!(
                "`console.listen` cannot be \"{}\"; write an address and a port, like 127.0.0.1:18790",
                excerpt(text)
            ),
        ),
    }
    None
}
