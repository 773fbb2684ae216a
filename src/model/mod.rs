//! WHAT Hearth knows: plain data types without I/O, clocks or storage.
//!
//! Stored records are encoded without field names. Commands of clients and their answers travel over the socket as JSON:
//! names that come as text are validated, those of a record are trusted, and ids are text ([`as_text`]). Inputs and
//! effects are the two ends of the engine.

#![warn(missing_docs)]

pub mod access;
pub mod address;
pub mod agent;
pub mod approval;
pub mod approval_text;
pub mod as_text;
pub mod attack;
pub mod backoff;
pub mod backup_plan;
pub mod bound_secret;
pub mod budget;
pub mod card;
pub mod channel;
pub mod configure;
pub mod connection;
pub mod console;
pub mod console_command;
pub mod content;
pub mod delivery;
pub mod effect;
pub mod entity;
pub mod fnv;
pub mod folder;
pub mod gateway;
pub mod group;
pub mod halt;
pub mod hold;
pub mod host;
pub mod host_grant;
pub mod id;
pub mod incarnation;
pub mod input;
pub mod ip_scope;
pub mod journal;
pub mod mailbox;
pub mod message;
pub mod mount;
pub mod network;
pub mod origin;
pub mod policy;
pub mod rate_limit;
pub mod reason_text;
pub mod recall;
pub mod record;
pub mod refusal;
pub mod report;
pub mod request;
pub mod retention;
pub mod routed;
pub mod secrets;
pub mod session;
pub mod session_command;
pub mod session_providers;
pub mod session_ref;
pub mod short;
pub mod skip;
pub mod spend;
pub mod starting_hosts;
pub mod take_in;
pub mod task;
pub mod task_command;
pub mod thread;
pub mod time;
pub mod tool;
pub mod tool_settings;
pub mod turn;
pub mod visible;
pub mod voice;
pub mod workspace;
pub mod workspace_command;
pub mod workspace_sight;

pub use address::{Address, ChannelName, ForeignId, UserId};
pub use content::{Content, RawJson};
pub use effect::Effect;
pub use input::Input;
pub use time::{Awake, Millis, Moment, Timestamp};
pub use turn::Turn;
