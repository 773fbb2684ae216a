//! The list of attacks: tried by hostile agents in the available runtimes, and by hostile senders against a real
//! daemon. docs/security.md shows it.

mod agents;
mod rootless;
mod secrets;
mod self_test;
mod senders;
mod tables;
