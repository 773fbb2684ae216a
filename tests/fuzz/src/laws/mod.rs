//! Laws for parsers of outside bytes: one function per parser, which panics if its law is broken.
//!
//! A law never requires that bytes are accepted. It requires that they are accepted, or refused with a reason, the same
//! way every time, and that accepted input is unambiguous: written and read again it is the same.

#![allow(unreachable_pub, reason = "this module is part of two crates")]

mod agents;
mod asked;
mod disk;
mod files;
mod gateway;
mod mail;
mod nanoclaw;
mod network;
mod opened;
mod programs;
mod store;
mod talk;
mod tool_rules;
mod turns;
mod words;

pub use disk::{manifest_of, mutant};

pub type Law = fn(&[u8]);

/// All laws, by the names of their targets and of their directories in `corpus/`.
pub const LAWS: &[(&str, Law)] = &[
    ("wire", files::wire),
    ("session_state", files::session_state),
    ("json", files::json),
    ("skips", files::skips),
    ("claw", files::claw),
    ("allowlist", files::allowlist),
    ("nanoclaw", files::nanoclaw),
    ("installation", nanoclaw::installation),
    ("approvals", asked::approvals),
    ("manifest", disk::manifest),
    ("pages", disk::pages),
    ("stores", disk::stores),
    ("command", programs::command),
    ("script", programs::script),
    ("podman", programs::podman),
    ("records", store::records),
    ("keys", store::keys),
    ("lines", store::lines),
    ("config", words::config),
    ("cron", words::cron),
    ("times", words::times),
    ("patterns", words::patterns),
    ("prompts", turns::prompts),
    ("tools", agents::tools),
    ("cli", agents::cli),
    ("events", talk::events),
    ("telegram", talk::telegram),
    ("webhook", talk::webhook),
    ("bridge", talk::bridge),
    ("mail", mail::mail),
    ("socket", talk::socket),
    ("model_requests", gateway::model_requests),
    ("usage", gateway::usage),
    ("placeholder", gateway::placeholder),
    ("hello", network::hello),
    ("way_out", network::way_out),
    ("plain_requests", network::plain_requests),
    ("hosts", network::hosts),
    ("opened_requests", opened::requests),
    ("chunks", opened::chunks),
    ("echoes", opened::echoes),
    ("sockets", opened::sockets),
    ("secret_rules", opened::secret_rules),
    ("tool_rules", tool_rules::tool_rules),
];

/// The first line as text, and the rest.
fn headed(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let at = bytes.iter().position(|byte| *byte == b'\n')?;
    Some((std::str::from_utf8(&bytes[..at]).ok()?, &bytes[at + 1..]))
}

/// Checks that a text is JSON that other parsers can read.
fn is_json(text: &str) {
    serde_json::from_str::<serde_json::Value>(text).unwrap_or_else(|error| panic!("{error}: {text}"));
}
