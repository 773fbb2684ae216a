//! A string type for short texts.

/// A string that is stored inline up to 24 bytes. Every message has several names and ids, and they are copied often.
pub type Short = compact_str::CompactString;
