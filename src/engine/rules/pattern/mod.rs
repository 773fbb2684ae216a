//! Engage patterns: JavaScript regular expressions with the semantics of `new RegExp(pattern).test(text)` without
//! flags.
//!
//! Patterns are translated, checked when saved, compiled once and searched in linear time. Patterns and texts are
//! UTF-16 code units, as in JavaScript: `.` matches half of a character above U+FFFF. Patterns that JavaScript rejects
//! are rejected, and so are look-around, back-references and patterns that are too large. [`check`] reports where and
//! what to do.

use regex::{Error, Regex, RegexBuilder};
use std::collections::HashMap;
use std::sync::Mutex;

pub(crate) mod class;
pub(crate) mod escape;
#[cfg(test)]
mod tests;
pub(crate) mod translate;
pub(crate) mod units;

/// Size classes of patterns: the maximum bytes of the compiled pattern, and of the search cache for each direction. A
/// search that exceeds its cache gets slower but stays linear. Nearly all real patterns fit the first class. A pattern
/// that does not fit the last one is rejected.
const SIZES: [(usize, usize); 3] = [(1 << 13, 1 << 18), (1 << 17, 1 << 20), (COMPILED_MAX_BYTES, 1 << 21)];

/// Maximum bytes of a compiled pattern: far above real patterns, far below what would cause harm.
const COMPILED_MAX_BYTES: usize = 1 << 20;

/// Maximum bytes of compiled patterns kept. Beyond it the cache is emptied.
const KEPT_MAX_BYTES: usize = 64 << 20;

/// Approximate overhead of one cache entry in bytes.
const ENTRY_BYTES: usize = 256;

/// Maximum nesting of groups: far above real patterns, far below the compiler's limit.
const NEST_MAX: u32 = 2_000;

/// Cache of compiled patterns by source. Losing it only costs time.
#[derive(Debug, Default)]
pub struct Patterns {
    kept: Mutex<CompiledPatterns>,
}

#[derive(Debug, Default)]
struct CompiledPatterns {
    /// Patterns that do not compile are kept too, so that they are not compiled again for every message.
    compiled: HashMap<String, Option<Regex>>,
    bytes: usize,
}

impl Patterns {
    /// Whether a text matches anywhere. `.` matches every text, even the empty one. A stored pattern that does not
    /// compile, although it was valid when saved, matches nothing. NanoClaw would engage on everything then, which lets
    /// unknown senders in.
    #[must_use]
    pub fn matches(&self, pattern: &str, text: &str) -> bool {
        if pattern == "." {
            return true;
        }
        // Not `is_match`: it stops at the first end of a match, which for `\B` may be inside a character that only the
        // leftmost match consumes.
        self.regex(pattern).is_some_and(|regex| regex.find(&units::spread(text)).is_some())
    }

    fn regex(&self, pattern: &str) -> Option<Regex> {
        let mut kept = self.kept.lock().ok()?;
        if let Some(regex) = kept.compiled.get(pattern) {
            return regex.clone();
        }
        let compiled = compile(pattern).ok();
        let bytes = ENTRY_BYTES + pattern.len() + compiled.as_ref().map_or(0, |(_, bytes)| *bytes);
        if kept.bytes + bytes > KEPT_MAX_BYTES {
            *kept = CompiledPatterns::default();
        }
        kept.bytes += bytes;
        let regex = compiled.map(|(regex, _)| regex);
        kept.compiled.insert(pattern.to_owned(), regex.clone());
        regex
    }
}

/// Checks a pattern before it is saved.
///
/// # Errors
/// Says what is wrong, where, and what to do.
pub fn check(pattern: &str) -> Result<(), String> {
    compile(pattern).map(drop)
}

/// Compiles a pattern. Also returns the maximum bytes that it and a search with it use.
fn compile(pattern: &str) -> Result<(Regex, usize), String> {
    let translated = translate::translate(pattern)?;
    let mut builder = RegexBuilder::new(&translated);
    let mut problem = String::new();
    for (compiled, search) in SIZES {
        match builder.size_limit(compiled).dfa_size_limit(search).nest_limit(NEST_MAX).build() {
            Ok(regex) => return Ok((regex, compiled + 2 * search)),
            Err(Error::CompiledTooBig(limit)) => {
                problem = format!("it needs more than {limit} bytes; shorten it or write smaller numbers in braces");
            }
            Err(error) => problem = format!("it cannot be compiled ({error}); write it simpler"),
        }
    }
    Err(problem)
}
