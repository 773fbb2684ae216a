//! Texts that are mostly short.

/// A text that needs no memory of its own up to 24 bytes: every message has several names and ids, and they are copied
/// often.
pub type Short = compact_str::CompactString;
