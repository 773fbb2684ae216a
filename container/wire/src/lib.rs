//! The wire contract, version 1: every file that Hearth and a session's agent exchange.
//!
//! A session has one directory with two halves. `host/` is written by Hearth and read-only for the agent, `agent/` is
//! written by the agent's runner. Files are written as temp + fsync + rename under a name that is their identity and are
//! immutable from then on: a second state is a second file. The only files that are overwritten (again by rename) are
//! [`CONTEXT_FILE`], [`STATE_FILE`], [`SESSION_FILE`] and [`HEARTBEAT_FILE`].
//!
//! Both sides depend on this crate, it depends on neither. `fixtures/` holds one golden file per type; an agent in
//! another language needs nothing but those and the rules in `README.md` beside them.

#![warn(missing_docs)]

mod files;
mod messages;
mod names;
pub mod watch;

pub use files::{
    AlreadySent, Context, Destination, DestinationTarget, Heartbeat, Limits, McpServer, Permissions, Provider,
    RecapLine, SessionFile, State, Tool, Verbosity, Writing,
};
pub use messages::{Ack, AckStatus, Address, Gated, InMessage, OutKind, OutMessage, Reply, Retry, Usage};
pub use names::{
    ACK_DIR, AGENT_DIR, AckName, CONTEXT_FILE, FILES_DIR, HEARTBEAT_FILE, HOST_DIR, IN_DIR, InName, OUT_DIR, OutId,
    REPLY_DIR, SESSION_FILE, STATE_FILE, finished_name, is_safe_file_name, is_temporary, temporary_name,
};

/// Version of this contract; every file carries it as `v`. A reader refuses files of a higher version.
pub const WIRE_VERSION: u32 = 1;

/// Version of a `host/context.json` with rules about tool calls. Readers that do not know them refuse it.
pub const RULES_VERSION: u32 = 2;

/// Bounds of what the host reads from the agent's half; larger files are refused, whatever they contain.
pub mod limits {
    /// Bytes of one JSON file of either side.
    pub const JSON_BYTES: u64 = 1024 * 1024;
    /// Bytes of one file sent with an answer.
    pub const FILE_BYTES: u64 = 64 * 1024 * 1024;
    /// Files sent with one answer.
    pub const FILES_PER_MESSAGE: usize = 32;
    /// Messages that one ack ends beside its own.
    pub const ENDS_PER_ACK: usize = 1_000;
    /// Entries of usage in one ack.
    pub const USAGES_PER_ACK: usize = 32;
    /// Names of tools in a state file.
    pub const TOOLS: usize = 32;
    /// Characters of a text that is not complete; the host shows only the last ones.
    pub const WRITING_CHARS: usize = 2_000;
    /// Bytes of a file name chosen by a platform or an agent.
    pub const NAME_BYTES: usize = 200;
}
