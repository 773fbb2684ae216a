//! EDGE: the file contracts other than the mailbox: what lies in an agent's folder and home, the allow-list of mounts.
//!
//! [`home`] prepares the files of an agent before an incarnation of it starts and says what it is to see of the machine;
//! [`allowlist`] judges what the operator declared; [`memory`] and [`transcript`] read what agents and their providers
//! keep there; [`nanoclaw`] reads what another host kept. Agents own most of these directories: nothing here follows a link of theirs.

pub mod allowlist;
mod dir;
mod error;
pub mod home;
pub mod memory;
pub mod nanoclaw;
pub mod transcript;

pub use error::Error;
