//! Finds texts. Every step is bounded, so that a search over a million texts takes milliseconds. Only a search for what is
//! old counts all texts with a word.
//!
//! The lists of all words are looked up first, because the weight of a word depends on how many texts have it. Then the texts
//! of one place after the other are added up, those of the newest place first.

use super::best::Best;
use super::place::{Place, Postings, Texts};
use super::segments::SegmentText;
use super::tally::{Part, Scale, Tally, Weighted};
use super::terms::Expansion;
use crate::model::Timestamp;
use crate::model::recall::{RecallScope, SaidId};
use crate::search::excerpt::{PART_MIN, is_part};
use crate::search::terms::{BY_AGENT, HAS_FILE, LONG_MARK, term as term_of, who, word as word_of};
use crate::search::tokens::is_unspaced;
use crate::search::{Clause, Query, rank};
use crate::{Read, Result, Tables};

/// Texts with a word that count, the newest first, if the word is very common. The same for texts with all words of phrases.
const COMMON: u64 = 20_000;
/// A word with fewer texts is also searched as the beginning and as a part of words.
const RARE: u64 = 20;
/// How much such a match counts.
const PART_WEIGHT: f64 = 0.4;
/// Words of a segment that one beginning or part stands for.
const EXPANSIONS: usize = 64;
/// Terms that are read for all beginnings and parts together.
const EXPANSION_BUDGET: usize = 60_000;

/// What is searched, and where.
#[derive(Debug, Clone)]
pub struct Search<'a> {
    /// The words.
    pub query: &'a Query,
    /// Where the asker may find something.
    pub scopes: &'a [RecallScope],
    /// The chat of the asker. What was said there counts more.
    pub own: Option<RecallScope>,
    /// Not before this time, to the second.
    pub after: Option<Timestamp>,
    /// Not after this time, to the second.
    pub before: Option<Timestamp>,
    /// The present.
    pub now: Timestamp,
    /// How many texts at most.
    pub most: usize,
}

/// A text that was found. Whether it contains the phrases of the query is not checked yet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// Where.
    pub scope: RecallScope,
    /// The text.
    pub id: SaidId,
    /// How well it matches.
    pub score: f64,
}

/// Finds texts, the best first.
///
/// # Errors
/// Those of reading rows.
pub fn find(db: &Tables, txn: &Read<'_>, search: &Search<'_>) -> Result<Vec<Hit>> {
    let mut places = Vec::new();
    for scope in search.scopes {
        Place::of_scope(db, txn, *scope, &mut places)?;
    }
    places.sort_by_key(|place| std::cmp::Reverse(place.newest));
    let mut lookup = Lookup { db, txn, places: &places, budget: EXPANSION_BUDGET };
    let mut sought = lookup.filters(search.query)?;
    let filters = sought.len();
    sought.extend(lookup.words(search.query)?);
    let has_words = sought.len() > filters;
    let has_phrases = sought.iter().any(|one| one.required && one.scale.is_some());
    // The newest ones may all be too new.
    let common = if search.before.is_some() { u64::MAX } else { COMMON };
    let (mut best, mut tally, mut matched) = (Best::new(search.most), Tally::default(), 0_u64);
    for (number, place) in places.iter().enumerate() {
        if (best.is_full() && !has_words) || (has_phrases && matched >= common) {
            break; // the rest is older
        }
        let parts: Vec<Part<'_>> = sought.iter_mut().map(|one| one.part(number, common)).collect();
        let mut words = parts.iter().filter(|part| part.scale.is_some());
        if parts.iter().any(|part| part.required && part.lists.is_empty())
            || (has_words && words.all(|part| part.lists.is_empty()))
        {
            continue;
        }
        let texts = place.texts(db, txn)?;
        tally.add_up(&texts, &parts);
        matched = matched.saturating_add(tally.matched());
        search.rank(place, &texts, &tally, has_words, &mut best);
    }
    Ok(best.hits())
}

impl Search<'_> {
    /// Offers the texts of a place that match.
    fn rank(&self, place: &Place, texts: &Texts<'_>, tally: &Tally, has_words: bool, best: &mut Best) {
        let weight = |at| {
            let age = self.now.millis().div_euclid(1_000).saturating_sub(at);
            // Without words, the newest are the best.
            if has_words { rank::weight(age, self.own == Some(place.scope)) } else { -seconds(age) }
        };
        let newest = weight(place.newest);
        let mut walk = texts.walk();
        for (number, sum) in tally.sums() {
            let sum = if has_words { sum } else { 1.0 };
            // Even the newest text of this place would not be among the best.
            if sum <= 0.0 || best.is_beaten(sum * newest) {
                continue;
            }
            if let Some(SegmentText { id, at, .. }) = walk(number).filter(|text| self.has_time(text.at)) {
                best.offer(Hit { scope: place.scope, id, score: sum * weight(at) });
            }
        }
    }

    fn has_time(&self, at: i64) -> bool {
        self.after.is_none_or(|after| at >= after.millis().div_euclid(1_000))
            && self.before.is_none_or(|before| at <= before.millis().div_euclid(1_000))
    }
}

fn seconds(age: i64) -> f64 {
    f64::from(u32::try_from(age.max(0)).unwrap_or(u32::MAX))
}

/// A word or a filter of a query.
struct Sought<'t> {
    /// What each place has of it.
    by_place: Vec<Vec<Weighted<'t>>>,
    required: bool,
    scale: Option<Scale>,
    /// Texts that counted so far.
    counted: u64,
}

impl Sought<'_> {
    /// What counts in a place. Places are asked in order, because only the newest texts with a common word count.
    fn part(&mut self, place: usize, common: u64) -> Part<'_> {
        let (required, scale) = (self.required, self.scale);
        let mut lists = self.by_place.get(place).map_or(&[][..], Vec::as_slice);
        if !required {
            let counts = |one: &&Weighted<'_>| {
                let counts = self.counted < common;
                self.counted = self.counted.saturating_add(one.postings.texts());
                counts
            };
            lists = lists.get(..lists.iter().take_while(counts).count()).unwrap_or_default();
        }
        Part { lists, required, scale }
    }
}

/// Looks up the lists of words in all places.
struct Lookup<'a, 't> {
    db: &'a Tables,
    txn: &'t Read<'a>,
    places: &'a [Place],
    budget: usize,
}

impl<'t> Lookup<'_, 't> {
    /// The filters of a query.
    fn filters(&self, query: &Query) -> Result<Vec<Sought<'t>>> {
        let mark = |name: &String| if name == "agent" || name == "me" { BY_AGENT.to_owned() } else { who(name) };
        let marks = query.who.iter().map(mark).chain(query.has_file.then(|| HAS_FILE.to_owned()));
        marks.map(|mark| Ok(Sought { by_place: self.exact(&mark)?, required: true, scale: None, counted: 0 })).collect()
    }

    /// The words of a query.
    fn words(&mut self, query: &Query) -> Result<Vec<Sought<'t>>> {
        let all: u64 = self.places.iter().map(|place| place.texts).sum();
        let mean = rank::mean(self.places.iter().map(|place| place.words).sum(), all);
        let mut sought = Vec::new();
        for clause in &query.clauses {
            let words: &[String] = match clause {
                Clause::Word(word) | Clause::Beginning(word) => std::slice::from_ref(word),
                Clause::Phrase(words) => words,
            };
            for word in words {
                let by_place = self.word(clause, word)?;
                let mean = if word.starts_with(is_unspaced) { self.mean_of(&by_place)? } else { mean };
                let scale = Some(Scale { rarity: rank::rarity(texts(&by_place), all), mean });
                sought.push(Sought { by_place, required: matches!(clause, Clause::Phrase(_)), scale, counted: 0 });
            }
        }
        Ok(sought)
    }

    /// The texts with a word, by place.
    fn word(&mut self, clause: &Clause, word: &str) -> Result<Vec<Vec<Weighted<'t>>>> {
        let is_beginning = matches!(clause, Clause::Beginning(_));
        let term = term_of(word.into()).filter(|_| !is_beginning);
        let mut by_place = match term {
            Some(term) => self.exact(&term)?,
            None => self.places.iter().map(|_| Vec::new()).collect(),
        };
        let is_rare =
            matches!(clause, Clause::Word(_)) && word.chars().nth(PART_MIN - 1).is_some() && texts(&by_place) < RARE;
        if is_beginning || is_rare {
            let weight = if is_beginning { 1.0 } else { PART_WEIGHT };
            for (place, lists) in self.places.iter().zip(&mut by_place) {
                let more = self.related(place, word, is_beginning)?;
                lists.extend(more.into_iter().map(|postings| Weighted { postings, weight }));
            }
        }
        Ok(by_place)
    }

    fn exact(&self, term: &str) -> Result<Vec<Vec<Weighted<'t>>>> {
        let in_place = |place: &Place| {
            let found = place.exact(self.db, self.txn, term)?;
            Ok(found.into_iter().map(|postings| Weighted { postings, weight: 1.0 }).collect())
        };
        self.places.iter().map(in_place).collect()
    }

    /// Words that begin with a word, and long words that contain it.
    fn related(&mut self, place: &Place, word: &str, is_beginning: bool) -> Result<Vec<Postings<'t>>> {
        let fits = |found: &str| {
            word_of(found).is_some_and(|found| {
                (found != word || is_beginning) && (found.starts_with(word) || (!is_beginning && is_part(word, found)))
            })
        };
        let long = if is_beginning { format!("{LONG_MARK}{word}") } else { LONG_MARK.to_string() };
        let expansion = |beginning| Expansion { beginning, fits: &fits, most: EXPANSIONS };
        place.expand(self.db, self.txn, [word, &long].map(expansion), &mut self.budget)
    }

    /// The mean length of texts with a word without spaces. Such texts have a word for each pair of characters, so all of them
    /// are long beside others.
    fn mean_of(&self, by_place: &[Vec<Weighted<'_>>]) -> Result<f64> {
        let (mut sum, mut counted) = (0_u64, 0_u64);
        for (place, lists) in self.places.iter().zip(by_place).filter(|(_, lists)| !lists.is_empty()) {
            let texts = place.texts(self.db, self.txn)?;
            for Weighted { postings, .. } in lists {
                if counted >= COMMON {
                    return Ok(rank::mean(sum, counted));
                }
                let mut length = texts.lengths();
                postings.each(|posting| sum = sum.saturating_add(u64::from(length(posting.at))));
                counted = counted.saturating_add(postings.texts());
            }
        }
        Ok(rank::mean(sum, counted))
    }
}

/// How many texts lists have.
fn texts(by_place: &[Vec<Weighted<'_>>]) -> u64 {
    by_place.iter().flatten().map(|one| one.postings.texts()).sum()
}
