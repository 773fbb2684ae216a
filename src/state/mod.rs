//! WHERE facts live: typed tables in one LMDB environment. The only folder that names heed.
//!
//! [`schema`] is the list of all tables, [`Store`] opens them and runs transactions, [`Table`] and [`Index`] read and
//! write rows. Nothing in a process that holds a store may open and close the store's `lock.mdb` or `data.mdb` through
//! the file system: any close of `lock.mdb` drops the process's POSIX locks, and committed writes are lost. What is looked
//! at in `data.mdb` (`pages`) is looked at before LMDB has it.

#[macro_use]
mod tables;

pub mod backup;
mod bytes;
pub mod check;
mod digest;
pub mod dump;
mod env;
pub mod envelope;
pub mod error;
mod filesystem;
pub mod key;
mod late;
mod legacy;
pub mod lines;
mod lock;
pub mod meta;
pub mod migrate;
mod pages;
mod range;
pub mod records;
pub mod room;
pub mod schema;
mod spare;
pub mod store;
pub mod table;
pub mod text_key;
mod untyped;
mod write;

pub use check::Violation;
pub use error::{Error, Result};
pub use key::{KeyPart, Prefix};
pub use lock::{Writer, last_writer};
pub use meta::{Meta, Number};
pub use room::{Admission, NoRoom, Usage};
pub use schema::Tables;
pub use store::{Options, Reader, Store, look_at_place};
pub use table::{Index, Table};
pub use tables::{About, Kind};
pub use text_key::{BadText, Digest, ForeignKey, RouteKey, Text};
pub use write::Write;

/// A transaction that reads; a write transaction can be used wherever one is expected.
pub type Read<'t> = heed::RoTxn<'t>;

#[cfg(test)]
mod tests;
