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
//! [`decode()`] parses such a file and [`encode()`] writes one. `judge` checks whether a workspace may import a file,
//! before anything is done. [`find()`] and [`read()`] find files and open them, [`write()`] creates one. Existing
//! session files are never changed or removed.

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
pub use files::{OverwriteRule, SessionFile, Trouble, WorkspaceScan, find, read, write};
pub use judge::{Home, Unfit};
pub use names::Part;

/// A text without the secrets that must not be written into a session file.
#[must_use]
pub fn redacted(text: &str) -> String {
    sanitize::redact(text)
}

/// The supported format version; files of a newer one can only be viewed.
pub const VERSION: u32 = 1;
