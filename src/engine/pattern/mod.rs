//! Engage patterns: JavaScript regular expressions by meaning, as `new RegExp(pattern).test(text)` without flags has it.
//!
//! They are translated, checked when saved, compiled once and searched in linear time. Patterns and texts are UTF-16
//! code units, as in JavaScript: `.` is half of a character beyond U+FFFF. What JavaScript refuses is refused, and so are
//! look-around, back-references and what is too large; [`check`] says where and what to do.

use std::collections::HashMap;
use std::sync::Mutex;

use regex::{Error, Regex, RegexBuilder};

mod class;
mod escape;
mod translate;
mod units;

use units::spread;

/// Sizes of patterns: bytes that a compiled one of this size may use, and bytes that a search with it may remember of each
/// direction. A search that would remember more goes on slower, still in linear time. Nearly everything that people write
/// is of the first size; what is too large for the last one is refused.
const SIZES: [(usize, usize); 3] = [(1 << 13, 1 << 18), (1 << 17, 1 << 20), (COMPILED_MAX_BYTES, 1 << 21)];
/// Bytes a compiled pattern may use: far above what people write, far below what hurts.
const COMPILED_MAX_BYTES: usize = 1 << 20;
/// Bytes of patterns kept compiled, at most; beyond that the memory starts anew.
const KEPT_MAX_BYTES: usize = 64 << 20;
/// Bytes of remembering anything about a pattern, about.
const ENTRY_BYTES: usize = 256;
/// Groups within groups, far above what people write and far below what the compiler stands.
const NEST_MAX: u32 = 2_000;

/// Compiled patterns by their source. A memory, not state: losing it costs time only.
#[derive(Debug, Default)]
pub struct Patterns {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// What does not compile is kept too: it is not tried again with every message.
    compiled: HashMap<String, Option<Regex>>,
    bytes: usize,
}

impl Patterns {
    /// Whether a text matches anywhere. `.` matches every text, even none. A stored pattern that does not compile (it was
    /// valid when saved) matches nothing: NanoClaw engages on everything then, which lets strangers in.
    #[must_use]
    pub fn matches(&self, pattern: &str, text: &str) -> bool {
        if pattern == "." {
            return true;
        }
        // Not `is_match`: it stops at the first end of a match, which for `\B` may be within a character that only the
        // leftmost match is about to take.
        self.regex(pattern).is_some_and(|regex| regex.find(&spread(text)).is_some())
    }

    fn regex(&self, pattern: &str) -> Option<Regex> {
        let mut kept = self.kept.lock().ok()?;
        if let Some(regex) = kept.compiled.get(pattern) {
            return regex.clone();
        }
        let compiled = compile(pattern).ok();
        let bytes = ENTRY_BYTES + pattern.len() + compiled.as_ref().map_or(0, |(_, bytes)| *bytes);
        if kept.bytes + bytes > KEPT_MAX_BYTES {
            *kept = Kept::default();
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
/// What is wrong with it, where, and what to do.
pub fn check(pattern: &str) -> Result<(), String> {
    compile(pattern).map(drop)
}

/// The pattern compiled, and the bytes that it and a search with it use at most.
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

#[cfg(test)]
mod tests;
