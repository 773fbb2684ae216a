//! Adds up the scores of the texts of one place.

use super::place::{Postings, Texts};
use crate::search::rank;
use crate::search::segment::Posting;

/// Texts of a place with a term, and how much the term counts in them.
pub(super) struct Weighted<'t> {
    pub(super) postings: Postings<'t>,
    pub(super) weight: f64,
}

/// How much a word counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    pub(super) rarity: f64,
    /// Mean length of texts.
    pub(super) mean: f64,
}

/// What a place has of a part of a query.
pub(super) struct Part<'s> {
    pub(super) lists: &'s [Weighted<'s>],
    /// Whether texts without it are not found.
    pub(super) required: bool,
    /// None for a filter, which adds nothing to a score.
    pub(super) scale: Option<Scale>,
}

/// The texts of a place that match. It is used for one place after the other, so that its memory stays in the processor's
/// cache.
#[derive(Default)]
pub(super) struct Tally {
    /// A bit for each text.
    matching: Vec<u64>,
    with_part: Vec<u64>,
    /// What each required part has of the texts that have all rarer ones, so that no long list is read twice.
    required: Vec<Vec<Kept>>,
    texts: Vec<Text>,
}

/// That a text has a required part.
struct Kept {
    posting: Posting,
    weight: f64,
}

/// What is known of a matching text.
#[derive(Clone, Copy, Default)]
struct Text {
    length: u32,
    sum: f64,
}

impl Tally {
    /// Adds up the texts of a place.
    pub(super) fn add_up(&mut self, texts: &Texts<'_>, parts: &[Part<'_>]) {
        self.choose(texts.size(), parts);
        self.texts.resize(self.matching.len().saturating_mul(64), Text::default());
        let scored = || parts.iter().zip(&self.required).filter_map(|(part, kept)| Some((part, kept, part.scale?)));
        if scored().next().is_none() {
            return;
        }
        let mut length = texts.lengths();
        for number in ones(&self.matching) {
            if let Some(text) = at(&mut self.texts, number) {
                *text = Text { length: length(number), sum: 0.0 };
            }
        }
        for (part, kept, Scale { rarity, mean }) in scored() {
            let mut add = |Posting { at: number, count }, weight| {
                if is_set(&self.matching, number)
                    && let Some(text) = at(&mut self.texts, number)
                {
                    text.sum += weight * rank::term(rarity, u64::from(count), u64::from(text.length), mean);
                }
            };
            if part.required {
                kept.iter().for_each(|Kept { posting, weight }| add(*posting, *weight));
            } else {
                part.lists.iter().for_each(|one| one.postings.each(|posting| add(posting, one.weight)));
            }
        }
    }

    /// How many texts match.
    pub(super) fn matched(&self) -> u64 {
        self.matching.iter().map(|chunk| u64::from(chunk.count_ones())).sum()
    }

    /// The texts that match, in order, with their scores.
    pub(super) fn sums(&self) -> impl Iterator<Item = (u32, f64)> {
        let sum = |number| usize::try_from(number).ok().and_then(|at| self.texts.get(at)).map_or(0.0, |text| text.sum);
        ones(&self.matching).map(move |number| (number, sum(number)))
    }

    /// Finds the texts that have all that is required, and at least one of the words.
    fn choose(&mut self, size: usize, parts: &[Part<'_>]) {
        let chunks = size.div_ceil(64);
        self.matching.clear();
        if parts.iter().any(|part| part.scale.is_some())
            && !parts.iter().any(|part| part.required && part.scale.is_some())
        {
            self.matching.resize(chunks, 0);
            parts.iter().filter(|part| !part.required).for_each(|part| mark(&mut self.matching, part));
        } else {
            self.matching.resize(chunks, u64::MAX);
        }
        self.required.resize_with(parts.len(), Vec::new);
        let mut required: Vec<(&Part<'_>, &mut Vec<Kept>)> =
            parts.iter().zip(&mut self.required).filter(|(part, _)| part.required).collect();
        // The rarest first: of the others, only what they have in common with it is kept.
        required.sort_by_key(|(part, _)| part.lists.iter().map(|one| one.postings.texts()).sum::<u64>());
        for (part, kept) in required {
            kept.clear();
            self.with_part.clear();
            self.with_part.resize(chunks, 0);
            for Weighted { postings, weight } in part.lists {
                postings.each(|posting| {
                    if is_set(&self.matching, posting.at) {
                        set(&mut self.with_part, posting.at);
                        kept.push(Kept { posting, weight: *weight });
                    }
                });
            }
            std::mem::swap(&mut self.matching, &mut self.with_part);
        }
    }
}

fn at(texts: &mut [Text], number: u32) -> Option<&mut Text> {
    texts.get_mut(usize::try_from(number).ok()?)
}

/// Sets the bits of the texts with a part of a query.
fn mark(bits: &mut [u64], part: &Part<'_>) {
    for Weighted { postings, .. } in part.lists {
        postings.each(|posting| set(bits, posting.at));
    }
}

fn set(bits: &mut [u64], number: u32) {
    if let Some(chunk) = usize::try_from(number / 64).ok().and_then(|at| bits.get_mut(at)) {
        *chunk |= 1 << (number % 64);
    }
}

fn is_set(bits: &[u64], number: u32) -> bool {
    usize::try_from(number / 64).ok().and_then(|at| bits.get(at)).is_some_and(|chunk| chunk >> (number % 64) & 1 == 1)
}

/// The numbers of the bits that are set, in order.
fn ones(bits: &[u64]) -> impl Iterator<Item = u32> {
    (0_u32..).step_by(64).zip(bits).flat_map(|(first, chunk)| {
        let mut left = *chunk;
        std::iter::from_fn(move || {
            let low = left.checked_sub(1)?;
            let number = first.saturating_add(left.trailing_zeros());
            left &= low;
            Some(number)
        })
    })
}
