//! WHAT Hearth knows: plain data without I/O, clocks or storage.
//!
//! Records (stored) carry no serde attributes, because they are encoded without field names; whatever is written as JSON
//! has its own type at the edge that writes it. Inputs and effects are the two ends of the engine.

pub mod address;
pub mod agent;
pub mod approval;
pub mod attack;
pub mod card;
pub mod channel;
pub mod configure;
pub mod content;
pub mod delivery;
pub mod effect;
pub mod entity;
pub mod fnv;
pub mod group;
pub mod hold;
pub mod hold_off;
pub mod id;
pub mod incarnation;
pub mod input;
pub mod journal;
pub mod mailbox;
pub mod message;
pub mod mount;
pub mod policy;
pub mod record;
pub mod report;
pub mod request;
pub mod retention;
pub mod session;
pub mod session_command;
pub mod session_ref;
pub mod short;
pub mod skip;
pub mod take_in;
pub mod task;
pub mod thread;
pub mod time;
pub mod workspace;

pub use address::{Address, ChannelName, ForeignId, UserId};
pub use content::{Content, RawJson};
pub use effect::Effect;
pub use input::Input;
pub use time::{Awake, Millis, Moment, Timestamp};
