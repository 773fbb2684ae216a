//! Where a search looks: the new texts of a scope, or a segment.

use super::NewText;
use super::keys::kind;
use super::segments::{self, Segment, SegmentText, text_of};
use super::terms::{self, Expansion};
use crate::model::recall::RecallScope;
use crate::search::documents::{DocumentRow, DocumentWalk, Lengths};
use crate::search::packed::to_u64;
use crate::search::segment::{List, Posting};
use crate::{Read, RecallSegmentKey, Result, Tables};

/// New texts, or a segment.
pub(super) struct Place {
    pub(super) scope: RecallScope,
    /// When the newest text was said.
    pub(super) newest: i64,
    /// How many texts there are.
    pub(super) texts: u64,
    pub(super) words: u64,
    content: Content,
}

enum Content {
    New(Vec<(SegmentText, NewText)>),
    Segment(RecallSegmentKey),
}

/// The texts of a place that contain a term.
pub(super) enum Postings<'t> {
    Stored(List<'t>),
    New(Vec<Posting>),
}

impl Postings<'_> {
    /// How many there are.
    pub(super) fn texts(&self) -> u64 {
        match self {
            Self::Stored(list) => list.texts,
            Self::New(list) => to_u64(list.len()),
        }
    }

    /// Calls `each` for all of them in order.
    pub(super) fn each(&self, each: impl FnMut(Posting)) {
        match self {
            Self::Stored(list) => list.postings().for_each(each),
            Self::New(list) => list.iter().copied().for_each(each),
        }
    }
}

impl Place {
    /// Adds the places of a scope.
    pub(super) fn of_scope(db: &Tables, txn: &Read<'_>, scope: RecallScope, places: &mut Vec<Self>) -> Result<()> {
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
            if segment.is_whole() {
                let Segment { texts, words, newest, .. } = segment;
                places.push(Self { scope, newest, texts, words, content: Content::Segment(key) });
            }
        }
        Ok(())
    }

    /// The texts with a term.
    pub(super) fn exact<'t>(&self, db: &Tables, txn: &'t Read<'_>, term: &str) -> Result<Vec<Postings<'t>>> {
        match &self.content {
            Content::New(texts) => Ok(new_postings(texts, |text| text.words.count(term))),
            Content::Segment(of) => Ok(terms::lists(db, txn, *of, term)?.into_iter().map(Postings::Stored).collect()),
        }
    }

    /// The texts with terms that fit, of those with certain beginnings. Stops when `budget` terms were read.
    pub(super) fn expand<'t>(
        &self,
        db: &Tables,
        txn: &'t Read<'_>,
        all: [Expansion<'_>; 2],
        budget: &mut usize,
    ) -> Result<Vec<Postings<'t>>> {
        let of = match &self.content {
            Content::New(texts) => {
                let fits = |term: &str| all.iter().any(|one| (one.fits)(term));
                return Ok(new_postings(texts, |text| count_fitting(text, fits)));
            }
            Content::Segment(of) => *of,
        };
        let mut found = Vec::new();
        for one in all {
            found.extend(terms::expand(db, txn, of, &one, budget)?.into_iter().map(Postings::Stored));
        }
        Ok(found)
    }

    /// Begins to look texts up.
    pub(super) fn texts<'p>(&'p self, db: &Tables, txn: &'p Read<'_>) -> Result<Texts<'p>> {
        let of = match &self.content {
            Content::New(texts) => return Ok(Texts::New(texts)),
            Content::Segment(of) => of,
        };
        let mut rows = Vec::new();
        for row in db.recall_texts.prefix(txn, of)?.stored() {
            let (key, row) = row?;
            rows.push(TextRow { kind: kind(key.id), row: DocumentRow::of(row) });
        }
        Ok(Texts::Rows(rows))
    }
}

/// The new texts with terms, and how often each has them.
fn new_postings<'t>(texts: &[(SegmentText, NewText)], count: impl Fn(&NewText) -> u64) -> Vec<Postings<'t>> {
    let posting = |(at, (_, text)): (u32, &(SegmentText, NewText))| {
        let count = u32::try_from(count(text)).unwrap_or(u32::MAX);
        (count > 0).then_some(Posting { at, count })
    };
    let found: Vec<Posting> = (0..).zip(texts).filter_map(posting).collect();
    if found.is_empty() { Vec::new() } else { vec![Postings::New(found)] }
}

fn count_fitting(text: &NewText, fits: impl Fn(&str) -> bool) -> u64 {
    let mut count = 0_u64;
    text.words.each(&mut |term, times| {
        if fits(term) {
            count = count.saturating_add(times);
        }
    });
    count
}

pub(super) enum Texts<'p> {
    New(&'p [(SegmentText, NewText)]),
    Rows(Vec<TextRow<'p>>),
}

/// A row of texts of one kind.
pub(super) struct TextRow<'p> {
    kind: u8,
    row: DocumentRow<'p>,
}

impl Texts<'_> {
    /// The number of texts, with those that were removed.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::New(texts) => texts.len(),
            Self::Rows(rows) => rows.last().map_or(0, |TextRow { row, .. }| {
                usize::try_from(row.first).unwrap_or(usize::MAX).saturating_add(row.count)
            }),
        }
    }

    /// Looks up lengths, in ascending order.
    pub(super) fn lengths(&self) -> impl FnMut(u32) -> u32 {
        let mut rows = self.rows();
        let mut lengths: Option<Lengths<'_>> = None;
        move |number| {
            if let Self::New(texts) = self {
                return new_text(texts, number).map_or(0, |text| text.length);
            }
            if let Some(TextRow { row, .. }) = row_of(&mut rows, number) {
                lengths = Some(row.lengths());
            }
            lengths.as_mut().and_then(|lengths| lengths.of(number)).unwrap_or(0)
        }
    }

    /// Looks up texts, in ascending order; none for removed ones.
    pub(super) fn walk(&self) -> impl FnMut(u32) -> Option<SegmentText> {
        let mut rows = self.rows();
        let mut documents: Option<(u8, u32, DocumentWalk<'_>)> = None;
        move |number| {
            if let Self::New(texts) = self {
                return new_text(texts, number);
            }
            if let Some(TextRow { kind, row }) = row_of(&mut rows, number) {
                documents = Some((*kind, row.first, row.documents()));
            }
            let (kind, next, documents) = documents.as_mut()?;
            let skipped = usize::try_from(number.checked_sub(*next)?).ok()?;
            *next = number.saturating_add(1);
            text_of(*kind, &documents.nth(skipped)?)
        }
    }

    fn rows(&self) -> &[TextRow<'_>] {
        match self {
            Self::New(_) => &[],
            Self::Rows(rows) => rows,
        }
    }
}

fn new_text(texts: &[(SegmentText, NewText)], number: u32) -> Option<SegmentText> {
    texts.get(usize::try_from(number).ok()?).map(|(text, _)| *text)
}

/// The row of a text, if it is not among those that were passed.
fn row_of<'p>(rows: &mut &'p [TextRow<'p>], number: u32) -> Option<&'p TextRow<'p>> {
    rows.first().filter(|next| next.row.first <= number)?;
    let (passed, rest) = rows.split_at_checked(rows.partition_point(|next| next.row.first <= number))?;
    *rows = rest;
    passed.last()
}
