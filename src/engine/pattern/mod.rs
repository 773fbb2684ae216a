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

/// Bytes a compiled pattern may use; far above what people write, far below what hurts.
const COMPILED_MAX_BYTES: usize = 1 << 20;
/// Bytes that nearly every pattern compiles within. Larger ones count as the largest.
const USUAL_BYTES: usize = 1 << 15;
/// Bytes a search may remember of each direction; with less it is slower, still in linear time.
const SEARCH_BYTES: usize = 1 << 18;
/// Bytes of patterns kept compiled, at most; beyond that the memory starts anew.
const KEPT_MAX_BYTES: usize = 64 << 20;
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
    /// valid when saved) matches nothing: the peer engages on everything then, which lets strangers in.
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
        let bytes = pattern.len() + compiled.as_ref().map_or(0, |(_, bytes)| bytes + 2 * SEARCH_BYTES);
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

/// The pattern compiled, and the bytes it needs at most.
fn compile(pattern: &str) -> Result<(Regex, usize), String> {
    let translated = translate::translate(pattern)?;
    let within = |bytes| {
        let mut builder = RegexBuilder::new(&translated);
        builder.size_limit(bytes).dfa_size_limit(SEARCH_BYTES).nest_limit(NEST_MAX);
        builder.build().map(|regex| (regex, bytes))
    };
    within(USUAL_BYTES).or_else(|_| within(COMPILED_MAX_BYTES)).map_err(|error| match error {
        Error::CompiledTooBig(_) => {
            format!("it needs more than {COMPILED_MAX_BYTES} bytes; shorten it or write smaller numbers in braces")
        }
        error => format!("it cannot be compiled ({error}); write it simpler"),
    })
}

#[cfg(test)]
mod tests;
