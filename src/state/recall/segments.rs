//! Segments: how new texts gather in one, how several become a larger one, and how a text leaves them.

use std::collections::{BTreeMap, HashMap};

use super::keys::{KINDS, Packed, Term, kind, said};
use super::{NewText, terms, version};
use crate::model::recall::{RecallScope, SaidId};
use crate::search::Words;
use crate::search::documents::{Document, Documents};
use crate::search::packed::{put, take, take_u32, to_u64};
use crate::search::segment::{Posting, Row, Writer};
use crate::{Owned, Read, RecallSegmentKey, RecallTermKey, Result, Tables, Write};

/// New texts that become a segment.
const NEW_MIN: usize = 128;
/// Most texts that are taken at once.
const NEW_MAX: usize = 512;
/// Most bytes of words that are taken at once.
const NEW_BYTES: usize = 512 << 10;
/// Segments of a size that become one of the next size.
const FAN: usize = 16;
/// The largest size: 128 * 16 * 16 texts.
const LEVEL_MAX: u8 = 2;

/// What is known of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// How often its texts were merged.
    pub level: u8,
    /// Texts that were not removed.
    pub texts: u64,
    /// Their words.
    pub words: u64,
    /// The least and the greatest number of each kind of text; 0 and 0 if there is none.
    pub ranges: [(u64, u64); 4],
    /// When the newest one was said, in seconds since 1970.
    pub newest: i64,
}

impl Segment {
    /// Reads a row.
    #[must_use]
    pub fn of(packed: &Packed) -> Option<Self> {
        let mut rest = packed.0.as_slice();
        let level = u8::try_from(take(&mut rest)?).ok()?;
        let (texts, words) = (take(&mut rest)?, take(&mut rest)?);
        let newest = crate::search::packed::take_signed(&mut rest)?;
        let mut ranges = [(0, 0); 4];
        for range in &mut ranges {
            let least = take(&mut rest)?;
            *range = (least, least.checked_add(take(&mut rest)?)?);
        }
        Some(Self { level, texts, words, ranges, newest })
    }

    fn to_packed(&self) -> Packed {
        let mut out = Vec::new();
        [u64::from(self.level), self.texts, self.words].into_iter().for_each(|number| put(&mut out, number));
        crate::search::packed::put_signed(&mut out, self.newest);
        for (least, most) in self.ranges {
            put(&mut out, least);
            put(&mut out, most.saturating_sub(least));
        }
        Packed(out)
    }

    /// Whether a text may be in it.
    fn may_have(&self, id: SaidId) -> bool {
        let range = KINDS.iter().zip(self.ranges).find(|(tag, _)| **tag == kind(id));
        range.is_some_and(|(_, (least, most))| (least..=most).contains(&id.number()) && most > 0)
    }
}

/// A text of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentText {
    /// What it is.
    pub id: SaidId,
    /// When it was said, in seconds since 1970.
    pub at: i64,
    /// How many words it has.
    pub length: u32,
}

/// The segments of a scope.
///
/// # Errors
/// Those of reading rows.
pub fn all(db: &Tables, txn: &Read<'_>, scope: RecallScope) -> Result<Vec<(RecallSegmentKey, Segment)>> {
    let rows = db.recall_segments.collect_prefix(txn, &scope, usize::MAX)?;
    Ok(rows.into_iter().filter_map(|(key, row)| Some((key, Segment::of(&row)?))).collect())
}

/// The texts of a segment by number; none where one was removed.
///
/// # Errors
/// Those of reading rows.
pub fn texts(db: &Tables, txn: &Read<'_>, of: RecallSegmentKey) -> Result<Vec<Option<SegmentText>>> {
    let mut texts = Vec::new();
    for row in db.recall_texts.prefix(txn, &of)? {
        let (key, row) = row?;
        texts.extend(read_texts(kind(key.id), &Documents::from_bytes(&row.0)));
    }
    Ok(texts)
}

/// The texts of a row.
pub(super) fn read_texts(tag: u8, row: &Documents) -> impl Iterator<Item = Option<SegmentText>> {
    row.list.iter().map(move |document| {
        Some(SegmentText { id: said(tag, document.id)?, at: document.at, length: document.length? })
    })
}

/// Makes a segment of the new texts of a scope if there are many, and a larger one of segments if there are many.
pub(super) fn gather(db: &Tables, txn: &mut Write<'_>, scope: RecallScope) -> Result<()> {
    gather_from(db, txn, scope, NEW_MIN)
}

/// The same with another number of new texts that are many.
pub(crate) fn gather_from(db: &Tables, txn: &mut Write<'_>, scope: RecallScope, least: usize) -> Result<()> {
    let new = db.recall_new.collect_prefix(txn, &scope, NEW_MAX)?;
    // The rows of old segments may still be there under numbers that a new one would get.
    if new.len() < least || version::is_clearing(db, txn)? {
        return Ok(());
    }
    let (mut content, mut bytes) = (Content::default(), 0_usize);
    let mut taken = Vec::new();
    for (key, row) in new {
        bytes = bytes.saturating_add(row.0.len());
        if bytes > NEW_BYTES && !taken.is_empty() {
            break;
        }
        content.add(key.id, &NewText::of(&row.0));
        taken.push(key);
    }
    for key in taken {
        db.recall_new.delete(txn, &key)?;
    }
    let mut lists: Vec<(String, Vec<Posting>)> = content.lists.into_iter().collect();
    lists.sort_unstable();
    let of = next_key(db, txn, scope)?;
    let mut writer = Writer::default();
    lists.iter().for_each(|(term, list)| writer.add(term, list));
    write_terms(db, txn, of, writer.finish())?;
    write_texts(db, txn, of, 0, &content.texts)?;
    merge_some(db, txn, scope)
}

#[derive(Default)]
struct Content {
    texts: Vec<SegmentText>,
    lists: HashMap<String, Vec<Posting>>,
}

impl Content {
    /// Adds a text with a greater id than all others.
    fn add(&mut self, id: SaidId, new: &NewText) {
        let at = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        let length = u32::try_from(new.words.length()).unwrap_or(u32::MAX - 1);
        self.texts.push(SegmentText { id, at: new.at, length });
        new.words.each(&mut |term, count| {
            let posting = Posting { at, count: u32::try_from(count).unwrap_or(u32::MAX) };
            match self.lists.get_mut(term) {
                Some(list) => list.push(posting),
                None => drop(self.lists.insert(term.to_owned(), vec![posting])),
            }
        });
    }
}

fn next_key(db: &Tables, txn: &Read<'_>, scope: RecallScope) -> Result<RecallSegmentKey> {
    let last = db.recall_segments.last_in(txn, &scope)?.map_or(0, |(key, _)| key.segment);
    Ok(RecallSegmentKey { scope, segment: last.saturating_add(1) })
}

fn write_terms(db: &Tables, txn: &mut Write<'_>, of: RecallSegmentKey, rows: Vec<Row>) -> Result<()> {
    for Row { term, at, bytes } in rows {
        db.recall_terms.put(txn, &RecallTermKey { of, term: Term::new(&term)?, at }, &Packed(bytes))?;
    }
    Ok(())
}

/// Writes the texts of a segment, which are sorted, and the segment itself.
fn write_texts(db: &Tables, txn: &mut Write<'_>, of: RecallSegmentKey, level: u8, all: &[SegmentText]) -> Result<()> {
    let newest = all.iter().map(|text| text.at).max().unwrap_or_default();
    let words = all.iter().map(|text| u64::from(text.length)).sum();
    let mut segment = Segment { level, texts: to_u64(all.len()), words, ranges: [(0, 0); 4], newest };
    let mut first = 0_u32;
    for (tag, range) in KINDS.into_iter().zip(&mut segment.ranges) {
        let of_kind = all.iter().filter(|text| kind(text.id) == tag);
        let list: Vec<Document> =
            of_kind.map(|text| Document { id: text.id.number(), at: text.at, length: Some(text.length) }).collect();
        let (Some(least), Some(most)) = (list.first(), list.last()) else { continue };
        *range = (least.id, most.id);
        for row in Documents::rows(first, &list) {
            let head = row.list.first().and_then(|document| said(tag, document.id));
            if let Some(id) = head {
                db.recall_texts.put(txn, &Owned { owner: of, id }, &Packed(row.to_bytes()))?;
            }
        }
        first = first.saturating_add(u32::try_from(list.len()).unwrap_or(u32::MAX));
    }
    db.recall_segments.put(txn, &of, &segment.to_packed())
}

/// Merges the segments of the first size of which there are many.
fn merge_some(db: &Tables, txn: &mut Write<'_>, scope: RecallScope) -> Result<()> {
    let segments = all(db, txn, scope)?;
    for level in 0..LEVEL_MAX {
        let same: Vec<RecallSegmentKey> =
            segments.iter().filter(|(_, segment)| segment.level == level).map(|(key, _)| *key).collect();
        if same.len() >= FAN {
            return merge(db, txn, &same, level.saturating_add(1));
        }
    }
    Ok(())
}

/// Merges segments of one scope into a new one.
fn merge(db: &Tables, txn: &mut Write<'_>, segments: &[RecallSegmentKey], level: u8) -> Result<()> {
    let Some(scope) = segments.first().map(|key| key.scope) else { return Ok(()) };
    let (numbers, texts) = renumber(db, txn, segments)?;
    let of = next_key(db, txn, scope)?;
    let mut sources = Vec::with_capacity(segments.len());
    for (segment, numbers) in segments.iter().zip(numbers) {
        sources.push((terms::Reader::new(db, txn, *segment)?, numbers));
    }
    let mut writer = Writer::default();
    while let Some(term) = sources.iter().filter_map(|(reader, _)| reader.term()).min().map(str::to_owned) {
        let mut list = Vec::new();
        for (reader, numbers) in &mut sources {
            while reader.term() == Some(term.as_str()) {
                list.extend(reader.postings().filter_map(|posting| {
                    let at = numbers.get(usize::try_from(posting.at).ok()?)?.as_ref()?;
                    Some(Posting { at: *at, ..posting })
                }));
                reader.advance(db, txn)?;
            }
        }
        if !list.is_sorted() {
            list.sort_unstable();
        }
        writer.add(&term, &list);
        write_terms(db, txn, of, writer.take_rows())?;
    }
    write_terms(db, txn, of, writer.finish())?;
    write_texts(db, txn, of, level, &texts)?;
    segments.iter().try_for_each(|segment| forget(db, txn, *segment))
}

/// New numbers of texts by their old ones; none for removed texts.
type Numbers = Vec<Option<u32>>;

/// The texts of segments together in order, and their new numbers by segment.
fn renumber(db: &Tables, txn: &Read<'_>, segments: &[RecallSegmentKey]) -> Result<(Vec<Numbers>, Vec<SegmentText>)> {
    let mut old = Vec::with_capacity(segments.len());
    let mut order: BTreeMap<SaidId, SegmentText> = BTreeMap::new();
    for segment in segments {
        let texts = texts(db, txn, *segment)?;
        order.extend(texts.iter().flatten().map(|text| (text.id, *text)));
        old.push(texts);
    }
    let new: HashMap<SaidId, u32> = order.keys().copied().zip(0_u32..).collect();
    let numbers =
        old.into_iter().map(|texts| texts.into_iter().map(|text| new.get(&text?.id).copied()).collect()).collect();
    Ok((numbers, order.into_values().collect()))
}

/// Removes all rows of a segment.
fn forget(db: &Tables, txn: &mut Write<'_>, of: RecallSegmentKey) -> Result<()> {
    while let Some((key, _)) = db.recall_terms.first_in(txn, &of)? {
        db.recall_terms.delete(txn, &key)?;
    }
    while let Some((key, _)) = db.recall_texts.first_in(txn, &of)? {
        db.recall_texts.delete(txn, &key)?;
    }
    db.recall_segments.delete(txn, &of).map(drop)
}

/// Removes a text from its segment. Returns whether it was in one.
pub(super) fn remove(db: &Tables, txn: &mut Write<'_>, scope: RecallScope, id: SaidId, words: &Words) -> Result<bool> {
    for (of, mut segment) in all(db, txn, scope)? {
        if !segment.may_have(id) {
            continue;
        }
        let Some((number, length)) = take_out(db, txn, of, id)? else { continue };
        let mut terms = Vec::new();
        words.each(&mut |term, _| terms.push(term.to_owned()));
        for term in terms {
            terms::remove(db, txn, of, &term, number)?;
        }
        segment.texts = segment.texts.saturating_sub(1);
        segment.words = segment.words.saturating_sub(u64::from(length));
        if segment.texts == 0 {
            forget(db, txn, of)?;
        } else {
            db.recall_segments.put(txn, &of, &segment.to_packed())?;
        }
        return Ok(true);
    }
    Ok(false)
}

/// Marks a text of a segment as removed. Returns its number and length.
fn take_out(db: &Tables, txn: &mut Write<'_>, of: RecallSegmentKey, id: SaidId) -> Result<Option<(u32, u32)>> {
    let from = said(kind(id), 0).unwrap_or(id);
    let range = Owned { owner: of, id: from }..=Owned { owner: of, id };
    let Some((key, row)) = db.recall_texts.last(txn, range)? else { return Ok(None) };
    let mut row = Documents::from_bytes(&row.0);
    let mut found = None;
    for (number, document) in (row.first..).zip(&mut row.list) {
        if document.id == id.number() {
            found = document.length.take().map(|length| (number, length));
        }
    }
    if found.is_some() {
        db.recall_texts.put(txn, &key, &Packed(row.to_bytes()))?;
    }
    Ok(found)
}

/// The number of the first text of a row.
pub(super) fn first_of(row: &Packed) -> u32 {
    let mut rest = row.0.as_slice();
    take_u32(&mut rest).unwrap_or_default()
}
