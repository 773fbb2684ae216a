//! The list of attacks: tried by hostile agents in the runtimes that are there, by hostile senders with a real daemon, and
//! shown in the README.

mod agents;
mod readme;
mod rootless;
mod secrets;
mod senders;
