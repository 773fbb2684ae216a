//! The list of attacks: tried by hostile agents in the runtimes that are there, by hostile senders with a real daemon, and
//! shown in docs/security.md.

mod agents;
mod rootless;
mod secrets;
mod self_test;
mod senders;
mod tables;
