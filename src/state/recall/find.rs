//! Finds texts. Every step is bounded, so that a search over a million texts takes milliseconds.

use std::cell::OnceCell;

use super::NewText;
use super::best::Best;
use super::keys::{Packed, kind};
use super::segments::{self, Segment, SegmentText, text_of};
use super::terms::{self, Expansion};
use crate::model::Timestamp;
use crate::model::recall::{RecallScope, SaidId};
use crate::search::documents::Documents;
use crate::search::excerpt::{PART_MIN, is_part};
use crate::search::packed::to_u64;
use crate::search::segment::OwnedList;
use crate::search::terms::{BY_AGENT, HAS_FILE, LONG_MARK, term as term_of, who, word as word_of};
use crate::search::tokens::is_unspaced;
use crate::search::{Clause, Query, rank};
use crate::{Read, RecallSegmentKey, Result, Tables};

/// Texts with a word that count, the newest first, if the word is very common.
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
    /// Not before this time.
    pub after: Option<Timestamp>,
    /// Before this time.
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
    let all: u64 = places.iter().map(|place| place.texts).sum();
    let words: u64 = places.iter().map(|place| place.words).sum();
    let mut scorer = Scorer { db, txn, all, mean: rank::mean(words, all), budget: EXPANSION_BUDGET };
    let mut scores: Vec<Scores> = places.iter().map(Scores::of).collect();
    scorer.require(&places, &mut scores, search.query)?;
    let mut has_words = false;
    for clause in &search.query.clauses {
        let words: &[String] = match clause {
            Clause::Word(word) | Clause::Beginning(word) => std::slice::from_ref(word),
            Clause::Phrase(words) => words,
        };
        for word in words {
            has_words = true;
            let lists = scorer.lists(&places, clause, word)?;
            let counts = scorer.counts(&places, &lists, word);
            count(&places, &mut scores, &lists, Counts { required: matches!(clause, Clause::Phrase(_)), ..counts });
        }
    }
    let mut best = Best::new(search.most);
    for (place, scores) in places.iter().zip(&scores) {
        if best.is_full() && !has_words {
            break; // the rest is older
        }
        place.rank(scores, search, has_words, &mut best);
    }
    Ok(best.hits())
}

/// A segment, or the new texts of a scope.
struct Place {
    scope: RecallScope,
    newest: i64,
    texts: u64,
    words: u64,
    content: Content,
}

enum Content {
    New(Vec<(SegmentText, NewText)>),
    Segment(RecallSegmentKey, Vec<TextRow>),
}

/// A row of texts, read when one of them is needed.
struct TextRow {
    tag: u8,
    packed: Packed,
    read: OnceCell<Documents>,
}

impl TextRow {
    /// Its texts, which are decoded once in a search.
    fn documents(&self) -> &Documents {
        self.read.get_or_init(|| Documents::from_bytes(&self.packed.0))
    }
}

impl Place {
    fn of_scope(db: &Tables, txn: &Read<'_>, scope: RecallScope, places: &mut Vec<Self>) -> Result<()> {
        let mut new = Vec::new();
        for (key, row) in db.recall_new.collect_prefix(txn, &scope, usize::MAX)? {
            let text = NewText::of(&row.0);
            let length = u32::try_from(text.words.length()).unwrap_or(u32::MAX);
            new.push((SegmentText { id: key.id, at: text.at, length }, text));
        }
        if !new.is_empty() {
            places.push(Self {
                scope,
                newest: new.iter().map(|(text, _)| text.at).max().unwrap_or_default(),
                texts: to_u64(new.len()),
                words: new.iter().map(|(text, _)| u64::from(text.length)).sum(),
                content: Content::New(new),
            });
        }
        for (key, segment) in segments::all(db, txn, scope)? {
            if !segment.is_whole() {
                continue;
            }
            let Segment { texts, words, newest, .. } = segment;
            let mut rows = Vec::new();
            for row in db.recall_texts.prefix(txn, &key)? {
                let (key, packed) = row?;
                rows.push(TextRow { tag: kind(key.id), packed, read: OnceCell::new() });
            }
            places.push(Self { scope, newest, texts, words, content: Content::Segment(key, rows) });
        }
        Ok(())
    }

    /// The number of texts, with those that were removed.
    fn size(&self) -> usize {
        match &self.content {
            Content::New(texts) => texts.len(),
            Content::Segment(_, rows) => rows.last().map_or(0, |row| {
                let first = usize::try_from(segments::first_of(&row.packed)).unwrap_or(0);
                first.saturating_add(row.documents().list.len())
            }),
        }
    }

    /// The texts that contain one of some terms, with the weight of each.
    fn text(&self, number: usize) -> Option<SegmentText> {
        match &self.content {
            Content::New(texts) => texts.get(number).map(|(text, _)| *text),
            Content::Segment(_, rows) => {
                let at = rows.partition_point(|row| {
                    usize::try_from(segments::first_of(&row.packed)).is_ok_and(|first| first <= number)
                });
                let row = rows.get(at.checked_sub(1)?)?;
                let read = row.documents();
                let first = usize::try_from(read.first).ok()?;
                text_of(row.tag, read.list.get(number.checked_sub(first)?)?)
            }
        }
    }

    /// Offers the texts of this place that match.
    fn rank(&self, scores: &Scores, search: &Search<'_>, has_words: bool, best: &mut Best) {
        let same_chat = search.own == Some(self.scope);
        for number in 0..scores.sums.len() {
            let sum = scores.sums.get(number).copied().unwrap_or_default();
            if (has_words && sum <= 0.0) || scores.met.get(number) != Some(&scores.required) {
                continue;
            }
            // Even a text of this moment in the same chat would not be among the best.
            if best.is_beaten(sum * rank::weight(0, same_chat)) && has_words {
                continue;
            }
            let Some(SegmentText { id, at, .. }) = self.text(number) else { continue };
            let in_time = search.after.is_none_or(|after| at >= after.millis().div_euclid(1_000))
                && search.before.is_none_or(|before| at <= before.millis().div_euclid(1_000));
            if in_time {
                let age = search.now.millis().div_euclid(1_000).saturating_sub(at);
                let score = if has_words { sum } else { 1.0 } * rank::weight(age, same_chat);
                // Without words, the newest are the best.
                let score = if has_words { score } else { -f64::from(u32::try_from(age.max(0)).unwrap_or(u32::MAX)) };
                best.offer(Hit { scope: self.scope, id, score });
            }
        }
    }
}

/// The scores of the texts of a place, and how many required terms each contains.
struct Scores {
    sums: Vec<f64>,
    met: Vec<u8>,
    required: u8,
}

impl Scores {
    fn of(place: &Place) -> Self {
        let size = place.size();
        Self { sums: vec![0.0; size], met: vec![0; size], required: 0 }
    }

    /// Counts a text that contains the next required term.
    fn meet(&mut self, number: usize) {
        let required = self.required;
        if let Some(met) = self.met.get_mut(number).filter(|met| **met == required) {
            *met = required.saturating_add(1);
        }
    }
}

/// Lists of a word in one place, each with its weight.
type Lists = Vec<(OwnedOrNew, f64)>;

enum OwnedOrNew {
    List(OwnedList),
    New(Vec<(usize, u64)>),
}

impl OwnedOrNew {
    fn texts(&self) -> u64 {
        match self {
            Self::List(list) => list.texts,
            Self::New(list) => to_u64(list.len()),
        }
    }

    fn each(&self, each: &mut dyn FnMut(usize, u64)) {
        match self {
            Self::List(list) => list.postings().for_each(|posting| {
                each(usize::try_from(posting.at).unwrap_or(usize::MAX), u64::from(posting.count));
            }),
            Self::New(list) => list.iter().for_each(|(number, count)| each(*number, *count)),
        }
    }
}

struct Scorer<'a, 't> {
    db: &'a Tables,
    txn: &'a Read<'t>,
    all: u64,
    mean: f64,
    budget: usize,
}

impl Scorer<'_, '_> {
    /// Marks the texts that have all filters of a query.
    fn require(&self, places: &[Place], scores: &mut [Scores], query: &Query) -> Result<()> {
        let mut marks: Vec<String> = Vec::new();
        for name in &query.who {
            let is_agent = name == "agent" || name == "me";
            marks.push(if is_agent { BY_AGENT.to_owned() } else { who(name) });
        }
        marks.extend(query.has_file.then(|| HAS_FILE.to_owned()));
        for mark in marks {
            for (place, scores) in places.iter().zip(scores.iter_mut()) {
                for list in self.exact(place, &mark)? {
                    list.each(&mut |number, _| scores.meet(number));
                }
                scores.required = scores.required.saturating_add(1);
            }
        }
        Ok(())
    }

    /// The lists of a word by place.
    fn lists(&mut self, places: &[Place], clause: &Clause, word: &str) -> Result<Vec<Lists>> {
        let mut lists = Vec::with_capacity(places.len());
        let mut with = 0_u64;
        let is_beginning = matches!(clause, Clause::Beginning(_));
        for place in places {
            let found = match term_of(word.to_owned()) {
                Some(term) if !is_beginning => self.exact(place, &term)?,
                _ => Vec::new(),
            };
            with = found.iter().fold(with, |sum, list| sum.saturating_add(list.texts()));
            lists.push(found.into_iter().map(|list| (list, 1.0)).collect::<Lists>());
        }
        let is_rare = with < RARE && word.chars().nth(PART_MIN - 1).is_some() && matches!(clause, Clause::Word(_));
        if is_beginning || is_rare {
            let weight = if is_beginning { 1.0 } else { PART_WEIGHT };
            for (place, lists) in places.iter().zip(&mut lists) {
                let more = self.related(place, word, is_beginning)?;
                lists.extend(more.into_iter().map(|list| (list, weight)));
            }
        }
        Ok(lists)
    }

    fn exact(&self, place: &Place, term: &str) -> Result<Vec<OwnedOrNew>> {
        match &place.content {
            Content::New(texts) => Ok(new_lists(texts, &|found| found == term)),
            Content::Segment(of, _) => {
                let lists = terms::lists(self.db, self.txn, *of, term)?;
                Ok(lists.into_iter().map(OwnedOrNew::List).collect())
            }
        }
    }

    /// Lists of the words that begin with a word, and of the long words that contain it.
    fn related(&mut self, place: &Place, word: &str, is_beginning: bool) -> Result<Vec<OwnedOrNew>> {
        let fits = |found: &str| {
            let other = word_of(found).is_some_and(|found| found != word || is_beginning);
            other
                && word_of(found)
                    .is_some_and(|found| found.starts_with(word) || (!is_beginning && is_part(word, found)))
        };
        let of = match &place.content {
            Content::New(texts) => return Ok(new_lists(texts, &fits)),
            Content::Segment(of, _) => *of,
        };
        let long = if is_beginning { format!("{LONG_MARK}{word}") } else { LONG_MARK.to_string() };
        let mut found = Vec::new();
        for beginning in [word, long.as_str()] {
            let what = Expansion { beginning, fits: &fits, most: EXPANSIONS };
            let lists = terms::expand(self.db, self.txn, of, &what, &mut self.budget)?;
            found.extend(lists.into_iter().map(OwnedOrNew::List));
        }
        Ok(found)
    }

    fn counts(&self, places: &[Place], lists: &[Lists], word: &str) -> Counts {
        let with: u64 = lists.iter().flatten().map(|(list, _)| list.texts()).sum();
        let mean = if word.starts_with(is_unspaced) { mean_of(places, lists) } else { self.mean };
        Counts { rarity: rank::rarity(with, self.all), mean, required: false }
    }
}

/// How much a word counts.
#[derive(Clone, Copy)]
struct Counts {
    rarity: f64,
    mean: f64,
    /// Texts without it do not count.
    required: bool,
}

/// The mean length of texts with a word without spaces. Such texts have a word for each pair of characters, so all of them
/// are long beside others.
fn mean_of(places: &[Place], lists: &[Lists]) -> f64 {
    let (mut sum, mut texts) = (0_u64, 0_u64);
    for (place, lists) in places.iter().zip(lists) {
        let lengths = Lengths::of(place);
        for (list, _) in lists {
            if texts >= COMMON {
                return rank::mean(sum, texts);
            }
            let mut lengths = lengths.walk();
            list.each(&mut |number, _| sum = sum.saturating_add(lengths.at(number)));
            texts = texts.saturating_add(list.texts());
        }
    }
    rank::mean(sum, texts)
}

/// Adds the scores of a word.
fn count(places: &[Place], scores: &mut [Scores], lists: &[Lists], Counts { rarity, mean, required }: Counts) {
    let mut counted = 0_u64;
    for ((place, scores), lists) in places.iter().zip(scores.iter_mut()).zip(lists) {
        let lengths = Lengths::of(place);
        for (list, weight) in lists {
            if counted >= COMMON && !required {
                return;
            }
            counted = counted.saturating_add(list.texts());
            let mut lengths = lengths.walk();
            list.each(&mut |number, count| {
                if let Some(sum) = scores.sums.get_mut(number) {
                    *sum += weight * rank::term(rarity, count, lengths.at(number), mean);
                }
                if required {
                    scores.meet(number);
                }
            });
        }
        if required {
            scores.required = scores.required.saturating_add(1);
        }
    }
}

/// The new texts with a term that fits, and how often.
fn new_lists(texts: &[(SegmentText, NewText)], fits: &dyn Fn(&str) -> bool) -> Vec<OwnedOrNew> {
    let mut found = Vec::new();
    for (number, (_, text)) in texts.iter().enumerate() {
        let mut count = 0_u64;
        text.words.each(&mut |term, times| {
            if fits(term) {
                count = count.saturating_add(times);
            }
        });
        if count > 0 {
            found.push((number, count));
        }
    }
    if found.is_empty() { Vec::new() } else { vec![OwnedOrNew::New(found)] }
}

/// The lengths of the texts of a place.
enum Lengths<'a> {
    New(&'a [(SegmentText, NewText)]),
    Rows(&'a [TextRow]),
}

impl<'a> Lengths<'a> {
    fn of(place: &'a Place) -> Self {
        match &place.content {
            Content::New(texts) => Self::New(texts),
            Content::Segment(_, rows) => Self::Rows(rows),
        }
    }

    fn walk(&self) -> LengthWalk<'a, '_> {
        LengthWalk { lengths: self, next: 0, row: None }
    }
}

/// Looks lengths up in order.
struct LengthWalk<'a, 'l> {
    lengths: &'l Lengths<'a>,
    next: usize,
    row: Option<&'a Documents>,
}

impl<'a> LengthWalk<'a, '_> {
    fn at(&mut self, number: usize) -> u64 {
        match self.lengths {
            Lengths::New(texts) => texts.get(number).map_or(0, |(text, _)| u64::from(text.length)),
            Lengths::Rows(rows) => {
                let number = u32::try_from(number).unwrap_or(u32::MAX);
                while let Some(row) = rows.get(self.next).filter(|row| segments::first_of(&row.packed) <= number) {
                    self.next = self.next.saturating_add(1);
                    let goes_on = rows.get(self.next).is_some_and(|next| segments::first_of(&next.packed) <= number);
                    if !goes_on {
                        self.row = Some(row.documents());
                    }
                }
                let place = |row: &Documents| usize::try_from(number.checked_sub(row.first)?).ok();
                let text = self.row.and_then(|row| row.list.get(place(row)?));
                text.and_then(|text| text.length).map_or(0, u64::from)
            }
        }
    }
}
