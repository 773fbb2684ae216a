//! EDGE: the file contracts other than the mailbox: what lies in an agent's folder and home, the allow-list of mounts.
//!
//! [`home`] prepares the files of an agent before an incarnation of it starts and says what it is to see of the machine;
//! [`allowlist`] judges what the operator declared; [`memory`] and [`transcript`] read what agents and their providers
//! keep there; [`workspace`] looks at directories with sessions, and [`claw`] reads and writes the session files of
//! another program. Agents own most of these directories: nothing here follows a link of theirs.

pub mod allowlist;
pub mod claw;
mod dir;
mod error;
pub mod git;
pub mod home;
pub mod memory;
pub mod process;
pub mod transcript;
pub mod workspace;

pub use error::Error;
