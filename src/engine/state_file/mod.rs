//! Session state of agent groups: files of a contract in their folders.
//!
//! The fields are rows, and the file is their export. Programs inside and outside of the group also edit the file, so
//! every look at it is a merge. A field that another program changed since Hearth last read or wrote it wins. Otherwise
//! Hearth's change stays. The file's lock is held during a look; the engine never waits for it.

pub(crate) mod forget;
pub(crate) mod merge;
pub(crate) mod own;
pub(crate) mod pending;
pub(crate) mod render;
pub(crate) mod state;
