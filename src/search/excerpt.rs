//! The part of a text that shows why it was found.

use std::ops::Range;

use super::query::{Clause, Match, Query};
use super::{terms, tokens};

/// A part of a text with the words that were searched for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Excerpt {
    /// The text in one line.
    pub text: String,
    /// The bytes of `text` that match, in order and apart.
    pub marks: Vec<Range<usize>>,
}

/// Stands for words that look like keys.
const HIDDEN: &str = "[hidden]";

/// Part of the excerpt before the first match.
const BEFORE: usize = 40;

/// Cuts the part around the first matches out of a text, of at most `max` characters, and marks them.
#[must_use]
pub fn cut(text: &str, query: &Query, max: usize) -> Excerpt {
    let found = tokens::all(text);
    let is_match = |word: &str| query.words().any(|(searched, how)| matches(searched, how, word));
    let first = found.iter().find(|token| is_match(&token.word)).map_or(0, |token| token.at.start);
    let start = text.get(..first).map_or(0, |before| before.char_indices().rev().nth(BEFORE).map_or(0, |(at, _)| at));
    // Not within a word.
    let start = found.iter().find(|token| token.at.contains(&start)).map_or(start, |token| token.at.start);
    let end = text
        .get(start..)
        .and_then(|rest| rest.char_indices().nth(max))
        .map_or(text.len(), |(at, _)| start.saturating_add(at));
    let mut out = Excerpt::default();
    if start > 0 {
        out.text.push('…');
    }
    let mut at = start;
    for token in found.iter().filter(|token| token.at.start >= start && token.at.end <= end) {
        let (hidden, matched) = (terms::is_left_out(&token.word), is_match(&token.word));
        if (!hidden && !matched) || token.at.end <= at {
            continue;
        }
        let from = token.at.start.max(at);
        out.push(text.get(at..from).unwrap_or_default());
        let begin = out.text.len();
        out.push(if hidden { HIDDEN } else { text.get(from..token.at.end).unwrap_or_default() });
        if matched {
            out.mark(begin);
        }
        at = token.at.end;
    }
    out.push(text.get(at..end).unwrap_or_default());
    if end < text.len() {
        out.text.push('…');
    }
    out
}

impl Excerpt {
    /// Appends text; white space becomes single spaces, and control characters are left out.
    fn push(&mut self, text: &str) {
        for c in text.chars() {
            let c = if c.is_whitespace() { ' ' } else { c };
            if c.is_control() || (c == ' ' && self.text.ends_with([' ', '…'])) || (c == ' ' && self.text.is_empty()) {
                continue;
            }
            self.text.push(c);
        }
    }

    fn mark(&mut self, begin: usize) {
        let end = self.text.len();
        match self.marks.last_mut() {
            Some(last) if last.end == begin => last.end = end,
            _ if begin < end => self.marks.push(begin..end),
            _ => {}
        }
    }
}

/// Whether a folded word of a text matches one of a query. Long words also match by a part of them.
#[must_use]
pub fn matches(searched: &str, how: Match, word: &str) -> bool {
    match how {
        Match::Word => word == searched || (word.len() >= terms::LONG && is_part(searched, word)),
        Match::Beginning => word.starts_with(searched),
    }
}

/// Shortest part by which a long word is found, in characters.
pub const PART_MIN: usize = 4;

/// Whether a long word contains a word.
#[must_use]
pub fn is_part(searched: &str, word: &str) -> bool {
    searched.chars().nth(PART_MIN - 1).is_some()
        && word.chars().nth(terms::LONG - 1).is_some()
        && word.contains(searched)
}

/// Whether a text contains all phrases of a query.
#[must_use]
pub fn has_phrases(text: &str, query: &Query) -> bool {
    let mut phrases = query.clauses.iter().filter_map(|clause| match clause {
        Clause::Phrase(words) => Some(words),
        _ => None,
    });
    let mut found = None;
    phrases.all(|phrase| {
        let words = found.get_or_insert_with(|| {
            let mut found = tokens::all(text);
            found.retain(|token| !token.last);
            found
        });
        words.windows(phrase.len()).any(|part| part.iter().map(|token| &token.word).eq(phrase))
    })
}
