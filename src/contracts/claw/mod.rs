//! Session files of claw: one JSON object per line, or one object for the whole session.
//!
//! ```text
//! <workspace>/.claw/sessions/                 sessions of older versions
//! <workspace>/.claw/sessions/<fingerprint>/   the workspace's own
//! <data directory>/sessions/<fingerprint>/    the same in a place of its own
//!     <id>.jsonl, <id>.json                   a session
//!     <id>.rot-<ms>.jsonl                     what it was before it was saved
//!     <id>.jsonl.before-clear-<ms>.bak        what it was before it was cleared
//! ```
//!
//! [`decode()`] reads what such a file holds and [`encode()`] writes it; `judge` says whether a file may be taken in
//! by a workspace, before anything is done; [`find()`] and [`read()`] look for files and open them, [`write()`] makes
//! one. Files are only read: none is ever changed or removed.

mod decode;
mod encode;
mod files;
mod json;
mod judge;
mod names;
mod parts;
mod sanitize;
#[cfg(test)]
mod tests;

pub use decode::{Damage, FILE_MAX, LINE_MAX, decode};
pub use encode::encode;
pub use files::{Found, SessionFile, Target, Trouble, find, read, write};
pub use judge::{Home, Unfit};
pub use names::Part;

/// A text without the secrets that are never written into a session file.
#[must_use]
pub fn redacted(text: &str) -> String {
    sanitize::redact(text)
}

/// The version of the form that is read and written; a newer one is only looked at.
pub const VERSION: u32 = 1;
