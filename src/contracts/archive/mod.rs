//! Backups of everything: one tar archive with a snapshot of the store and what it names.
//!
//! Agents own most of what is copied, so their directories are hostile in both directions. [`write()`] follows no link,
//! opens only regular files, and bounds what it takes of each directory. [`Archive::open`] checks a whole archive before
//! [`Archive::unpack`] creates anything, and an archive may contain nothing that [`write()`] would not have written.
//!
//! The first entry is `backup.json`, which says what the archive is. The last one is `contents.json`, with the SHA-256 of
//! all headers and data before it. The entries between have the paths of the data directory.

mod error;
mod format;
mod names;
mod read;
mod report;
mod tree;
mod unpack;
mod write;

pub use error::Error;
pub use read::{Archive, identity};
pub use report::{Contents, Identity, Listed, Skipped};
pub use unpack::{PARTS, Part, Unpacking};
pub use write::{Source, write};

#[cfg(test)]
mod tests;
