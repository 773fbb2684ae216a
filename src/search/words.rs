//! The counted words of a text, as the bytes that an index stores.

use std::borrow::Cow;

use super::packed::{put, put_text, take, take_text, to_u64};
use super::{terms, tokens};

/// The counted terms of one text, sorted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words {
    bytes: Vec<u8>,
}

/// Most terms of one text. A write of them has to fit into one transaction together with everything else.
pub const TERMS_MAX: usize = 1_000;

impl Words {
    /// The words of a text. `marks` are terms that are not words of it.
    #[must_use]
    pub fn of(text: &str, marks: &[String]) -> Self {
        let mut all: Vec<Cow<'_, str>> = marks.iter().map(|mark| mark.as_str().into()).collect();
        all.sort_unstable();
        all.dedup();
        let marks = all.len();
        tokens::each(text, &mut |token| {
            all.extend(terms::term(token.word));
            true
        });
        let length = all.len().saturating_sub(marks);
        let mut counts = counts(&all);
        let left_out = leave_out(&mut counts);
        let mut bytes = Vec::with_capacity(counts.len().saturating_mul(8));
        [left_out, to_u64(length), to_u64(counts.len())].into_iter().for_each(|number| put(&mut bytes, number));
        let mut before = "";
        for Counted { term, count, .. } in &counts {
            put_text(&mut bytes, before, term);
            put(&mut bytes, *count);
            before = term;
        }
        Self { bytes }
    }

    /// Words from an index. Anything else reads as no words, or as fewer.
    #[must_use]
    pub const fn from_bytes(bytes: Vec<u8>) -> Self {
        Self { bytes }
    }

    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.head().is_none_or(|(.., terms, _)| terms == 0)
    }

    /// Words of the text that are not among the terms, because it has too many different ones.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.head().map_or(0, |(left_out, ..)| left_out)
    }

    /// Number of words of the text.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.head().map_or(0, |(_, length, ..)| length)
    }

    /// Calls `each` for every term and its count, in order.
    pub fn each(&self, each: &mut impl FnMut(&str, u64)) {
        let Some((.., terms, mut rest)) = self.head() else { return };
        let mut term = String::new();
        for _ in 0..terms {
            let Some(count) = take_text(&mut rest, &mut term).and_then(|()| take(&mut rest)) else { return };
            each(&term, count);
        }
    }

    /// How often a term is there.
    #[must_use]
    pub fn count(&self, term: &str) -> u64 {
        let mut found = 0;
        self.each(&mut |other, count| {
            if other == term {
                found = count;
            }
        });
        found
    }

    fn head(&self) -> Option<(u64, u64, u64, &[u8])> {
        let mut rest = self.bytes.as_slice();
        let (left_out, length, terms) = (take(&mut rest)?, take(&mut rest)?, take(&mut rest)?);
        Some((left_out, length, terms, rest))
    }
}

/// A term of a text.
struct Counted<'t> {
    term: &'t str,
    /// Its first place among all terms.
    first: usize,
    count: u64,
}

/// Counts terms. The result is sorted.
fn counts<'t>(all: &'t [Cow<'_, str>]) -> Vec<Counted<'t>> {
    let mut counts: Vec<Counted<'t>> =
        all.iter().enumerate().map(|(first, term)| Counted { term, first, count: 1 }).collect();
    counts.sort_unstable_by_key(|one| (one.term, one.first));
    counts.dedup_by(|next, kept| {
        let is_same = next.term == kept.term;
        kept.count = kept.count.saturating_add(u64::from(is_same));
        is_same
    });
    counts
}

/// Leaves out the terms that come last in the text, if there are too many. Returns how many words these are.
fn leave_out(counts: &mut Vec<Counted<'_>>) -> u64 {
    if counts.len() <= TERMS_MAX {
        return 0;
    }
    counts.sort_unstable_by_key(|one| one.first);
    let left_out = counts.drain(TERMS_MAX..).map(|one| one.count).sum();
    counts.sort_unstable_by_key(|one| one.term);
    left_out
}
