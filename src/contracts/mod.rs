//! EDGE: the file contracts other than the mailbox: what lies in an agent's folder and home, the allow-list of mounts.
//!
//! [`home`] prepares the files of an agent before an incarnation of it starts and says what it is to see of the machine;
//! [`allowlist`] judges what the operator declared; [`memory`] and [`transcript`] read what agents and their providers
//! keep there; [`skips`] finds and removes what their skills report, and [`tile`] judges such skills before they are
//! published; [`state_file`] is the session state of an agent group; [`watch`] tells when the files of a group change;
//! [`workspace`] looks at directories with sessions, and [`claw`] reads and writes the session files of another program;
//! [`nanoclaw`] reads what another host kept; [`answer`] hears a program out.
//! Agents own most of these directories: nothing here follows a link of theirs.

pub mod allowlist;
pub mod answer;
pub mod claw;
mod dir;
mod error;
pub mod git;
pub mod home;
pub mod memory;
pub mod nanoclaw;
pub mod process;
pub mod skips;
pub mod state_file;
pub mod tile;
pub mod transcript;
pub mod watch;
pub mod workspace;

pub use dir::Stamp;
pub use error::Error;
