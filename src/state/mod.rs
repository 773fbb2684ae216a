//! WHERE facts live: typed tables in one LMDB environment. The only folder that names heed.
//!
//! [`schema`] is the list of all tables, [`Store`] opens them and runs transactions, [`Table`] and [`Index`] read and
//! write rows. A process that holds a store must not open and close the store's `lock.mdb` or `data.mdb` through the
//! file system: any close of `lock.mdb` drops the process's POSIX locks, and committed writes are lost. `pages` reads
//! `data.mdb` only before LMDB opens it.

#![warn(missing_docs)]

#[macro_use]
mod tables;

pub mod backup;
mod bytes;
pub mod check;
mod counters;
pub mod derived;
mod digest;
pub mod dump;
mod env;
pub mod envelope;
pub mod error;
mod files;
mod filesystem;
pub mod held_bytes;
mod hex;
pub mod indexed;
pub mod key;
pub mod keys;
mod legacy;
pub mod lines;
pub mod list_keys;
mod location;
mod lock;
pub mod meta;
pub mod migrate;
pub mod options;
mod pages;
mod progress;
mod range;
pub mod reader;
pub mod recall;
pub mod records;
pub mod references;
pub mod room;
pub mod schema;
pub mod scope_key;
mod spare;
pub mod store;
pub mod table;
pub mod text_key;
pub mod touched;
mod untyped;
mod write;

pub use check::Violation;
pub use error::{Error, Result};
pub use indexed::Indexed;
pub use key::{KeyPart, Prefix};
pub use keys::{
    AgentChatKey, AgentRouteKey, AgentThreadKey, ApproverKey, BaseKey, ChatKey, DestinationKey, GrantKey, HeldKey,
    HolderKey, HostKey, ImportKey, InboxKey, LabelKey, MemberKey, OccurrenceId, PendingResponseKey, PersonApprovalKey,
    PersonKey, PromptKey, QueueKey, RecallKey, RecallSegmentKey, RecallTermKey, RecencyKey, RecordKey, ReplyKey,
    RevisionBaseKey, RevisionKey, RoleHolderKey, SeenIdKey, SeenKey, SeenPositionKey, SenderKey, SentKey, SessionKey,
    SkillKey, SpendKey, SpendTotalKey, StateFieldKey, StateMuteKey, ThreadKey, WireKey, WiringKey, WorkspaceDigestKey,
    WorkspaceEventKey,
};
pub use list_keys::{Owned, Timed};
pub use location::{copy_into, exists, installation, look_at_place};
pub use lock::{Writer, holder, last_writer};
pub use meta::{Meta, Number};
pub use options::{Missing, Options};
pub use reader::Reader;
pub use room::{Admission, NoRoom, Usage};
pub use schema::Tables;
pub use scope_key::ScopeKey;
pub use store::Store;
pub use table::{Index, Table};
pub use tables::{About, Kind};
pub use text_key::{BadText, Digest, ForeignKey, RouteKey, Text};
pub use write::{Basis, Write};

/// A read transaction. A write transaction can be used in its place.
pub type Read<'t> = heed::RoTxn<'t>;

/// An open environment. Read transactions are not bound to threads, so that pools of threads can read.
type Env = heed::Env<heed::WithoutTls>;

use hearth_base::{crash, model, search};

#[cfg(test)]
mod tests;
