//! Engage patterns: checked when saved, compiled once, matched in linear time.

use std::collections::HashMap;
use std::sync::Mutex;

use regex::{Regex, RegexBuilder};

/// Bytes a compiled pattern may use; far above what people write, far below what hurts.
const COMPILED_MAX_BYTES: usize = 1 << 20;
/// Patterns kept compiled; beyond that the memory starts anew.
const KEPT_MAX: usize = 4_096;

/// Compiled patterns by their source. A memory, not state: losing it costs time only.
#[derive(Debug, Default)]
pub struct Patterns {
    compiled: Mutex<HashMap<String, Regex>>,
}

impl Patterns {
    /// Whether a text matches anywhere. `.` matches every text, even none. A stored pattern that does not compile (it was
    /// valid when saved) matches nothing: the peer engages on everything then, which lets strangers in.
    #[must_use]
    pub fn matches(&self, pattern: &str, text: &str) -> bool {
        if pattern == "." {
            return true;
        }
        let Ok(mut compiled) = self.compiled.lock() else { return false };
        if let Some(regex) = compiled.get(pattern) {
            return regex.is_match(text);
        }
        let Ok(regex) = compile(pattern) else { return false };
        let answer = regex.is_match(text);
        if compiled.len() >= KEPT_MAX {
            compiled.clear();
        }
        compiled.insert(pattern.to_owned(), regex);
        answer
    }
}

/// Checks a pattern before it is saved.
///
/// # Errors
/// What is wrong with it, and where.
pub fn check(pattern: &str) -> Result<(), String> {
    compile(pattern).map(drop).map_err(|error| error.to_string())
}

fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).size_limit(COMPILED_MAX_BYTES).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_search_unanchored_and_case_sensitive() {
        let patterns = Patterns::default();
        for (pattern, text, expected) in [
            (".", "", true),
            ("^@Andy\\b", "@Andy hi", true),
            ("^@Andy\\b", "hey @Andy", false),
            ("^@Andy\\b", "@andy hi", false),
            ("deploy", "please deploy now", true),
            ("", "anything", true),
            ("\\d{3}", "abc", false),
            ("^$", "", true),
            ("x", "", false),
        ] {
            for _ in 0..2 {
                assert_eq!(patterns.matches(pattern, text), expected, "{pattern} on {text}");
            }
        }
    }

    #[test]
    fn a_broken_pattern_is_refused_when_saved_and_never_engages() {
        assert!(check("[").unwrap_err().contains("unclosed character class"));
        assert!(check("a(?=b)").unwrap_err().contains("look-around"));
        assert!(check("(a)\\1").unwrap_err().contains("backreferences"));
        assert!(check(&"(a{1000}){1000}".repeat(9)).is_err());
        assert!(!Patterns::default().matches("[", "anything"));
    }
}
