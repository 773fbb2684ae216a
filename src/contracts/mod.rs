//! EDGE: file contracts other than the mailbox: agents' folders and homes, the allow-list of mounts, session files.
//!
//! [`home`] prepares an agent's files before an incarnation starts and determines its mounts. [`allowlist`] checks the
//! mounts that the operator declared. [`memory`] and [`transcript`] read the files of agents and their providers.
//! [`memory_files`] corrects lines of them.
//! [`skips`] finds and removes the skip summaries of skills, and [`tile`] checks such skills before they are published.
//! [`state_file`] is the session state of an agent group, and [`watch`] notices changes in a group's folder.
//! [`workspace`] inspects directories with sessions, and [`claw`] reads and writes claw's session files. [`nanoclaw`]
//! reads an installation of NanoClaw. [`answer`] collects a program's output. [`archive`] is a backup of everything.
//! Agents own most of these directories, so no link in them is followed.

pub mod allowlist;
pub mod answer;
pub mod archive;
pub mod claw;
mod dir;
mod error;
pub mod git;
pub mod home;
pub mod memory;
pub mod memory_files;
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
