//! The counted words of a text, as the bytes that an index stores.

use std::borrow::Cow;
use std::ops::Range;

use super::order::sorted;
use super::packed::{put, put_text, take, take_term, take_text, to_u64};
use super::{terms, tokens};

/// The counted terms of one text, sorted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words {
    bytes: Vec<u8>,
}

/// Bytes of a word and a space, about, to have enough memory for the words of a text.
const WORD: usize = 6;

/// Most terms of one text. A write of them has to fit into one transaction together with everything else.
pub const TERMS_MAX: usize = 1_000;

impl Words {
    /// The words of a text. `marks` are terms that are not words of it.
    #[must_use]
    pub fn of(text: &str, marks: &[String]) -> Self {
        let mut known: Vec<&str> = marks.iter().map(String::as_str).collect();
        known.sort_unstable();
        known.dedup();
        let marks = known.len();
        let mut all: Vec<Cow<'_, str>> = Vec::with_capacity(marks.saturating_add(text.len() / WORD));
        all.extend(known.into_iter().map(Cow::Borrowed));
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

    /// Their bytes.
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

    /// Appends every term to `out` and calls `each` with its place there and its count, in order. This is quicker than
    /// [`Self::each`], but does not check that terms of a damaged row are text.
    pub fn unpack(&self, out: &mut Vec<u8>, each: &mut impl FnMut(Range<usize>, u64)) {
        let Some((.., terms, mut rest)) = self.head() else { return };
        let mut last = out.len()..out.len();
        for _ in 0..terms {
            let Some((at, count)) = take_term(&mut rest, out, last).zip(take(&mut rest)) else { return };
            each(at.clone(), count);
            last = at;
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
    let term = |place: usize| all.get(place).map_or("", |term| term);
    let mut counts: Vec<Counted<'t>> = Vec::with_capacity(all.len());
    for first in sorted(all.len(), |place| term(place).as_bytes()) {
        match counts.last_mut().filter(|last| last.term == term(first)) {
            Some(last) => last.count = last.count.saturating_add(1),
            None => counts.push(Counted { term: term(first), first, count: 1 }),
        }
    }
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
