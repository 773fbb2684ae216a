//! Segments: how new texts gather in one, and how a text leaves them.

use std::ops::{Range, RangeInclusive};

use super::keys::{KINDS, Packed, Term, kind, said};
use super::merge::{self, Step};
use super::terms::{self, Sortable};
use super::{NewText, version};
use crate::model::recall::{RecallScope, SaidId};
use crate::search::Words;
use crate::search::documents::{Document, Documents};
use crate::search::packed::{put, take, to_u64};
use crate::search::segment::{Posting, Row, Writer};
use crate::{Owned, Read, RecallKey, RecallSegmentKey, RecallTermKey, Result, Tables, Write};

/// How texts gather and segments are merged.
const PACE: Pace = Pace { new: 128, every: 4, step: Step { postings: 64_000, rows: 256 } };
/// How much more is merged than gathered, at least. Most texts are merged twice.
const AHEAD: usize = 3;
/// Most texts that are taken at once. With so many new ones, a segment is made in the transaction.
const NEW_MAX: usize = 512;
/// Most bytes of words that are taken at once.
const NEW_BYTES: usize = 512 << 10;
/// Segments of a size that become one of the next size.
pub(super) const FAN: usize = 16;
/// The largest size: 128 * 16 * 16 texts.
pub(super) const LEVEL_MAX: u8 = 2;

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

    /// Whether it is searched. One without texts is removed, or [`merge`] has more to do for it.
    pub(crate) const fn is_whole(&self) -> bool {
        self.texts > 0
    }

    /// Whether smaller segments are being merged into it.
    pub(crate) const fn is_growing(&self) -> bool {
        self.texts == 0 && self.level > 0
    }

    /// Whether it was merged into a larger one, and its rows are being removed.
    pub(crate) const fn is_merged(&self) -> bool {
        self.texts == 0 && self.level == 0
    }

    pub(super) fn to_packed(&self) -> Packed {
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

/// The segments of a scope, also those that are not searched.
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
fn read_texts(tag: u8, row: &Documents) -> impl Iterator<Item = Option<SegmentText>> {
    row.list.iter().map(move |document| text_of(tag, document))
}

/// A text of a row; none if it was removed.
pub(super) fn text_of(tag: u8, document: &Document) -> Option<SegmentText> {
    Some(SegmentText { id: said(tag, document.id)?, at: document.at, length: document.length? })
}

/// When texts become a segment, and how quickly segments are merged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// New texts that become a segment.
    pub(crate) new: usize,
    /// Of how many new segments one merges others. Each time, the texts of all that are merged are read.
    pub(crate) every: u32,
    /// What is done then.
    pub(crate) step: Step,
}

/// A segment of the new texts of a scope. Making it needs only to read, so it may be done before the transaction that
/// writes it.
#[derive(Debug)]
pub struct Prepared {
    /// Where its texts are found.
    pub scope: RecallScope,
    /// Its texts as they are stored.
    stored: Vec<StoredText>,
    texts: Vec<SegmentText>,
    terms: Vec<Row>,
    /// What is merged beside it.
    merged: Option<merge::Terms>,
    pace: Pace,
}

/// The row of a new text.
type StoredText = (SaidId, Vec<u8>);

/// The new texts of one kind. Later ones of another kind may follow them.
struct OfKind<'a> {
    texts: &'a [StoredText],
    keys: RangeInclusive<RecallKey>,
}

impl Prepared {
    fn ranges(&self) -> impl Iterator<Item = OfKind<'_>> {
        let scope = self.scope;
        self.stored.chunk_by(|(one, _), (other, _)| kind(*one) == kind(*other)).filter_map(move |texts| {
            let ((first, _), (last, _)) = (texts.first()?, texts.last()?);
            Some(OfKind { texts, keys: RecallKey { scope, id: *first }..=RecallKey { scope, id: *last } })
        })
    }
}

/// Does what is due for the new texts of a scope. Few become no segment, and many become one later, if a thread prepares
/// it. Only if that does not happen, it is made here.
pub(super) fn gather(db: &Tables, txn: &mut Write<'_>, scope: RecallScope) -> Result<()> {
    let count = db.recall_new.prefix(txn, &scope)?.stored().take(NEW_MAX).count();
    match count {
        NEW_MAX.. => gather_at(db, txn, scope, PACE),
        _ if count >= PACE.new => {
            txn.note_crowded(scope);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Makes a segment of the new texts of a scope if there are many, and merges some more of the others.
pub(crate) fn gather_at(db: &Tables, txn: &mut Write<'_>, scope: RecallScope, pace: Pace) -> Result<()> {
    match prepare_at(db, txn, scope, pace)? {
        Some(prepared) => write_unchanged(db, txn, prepared),
        None => Ok(()),
    }
}

/// Makes a segment of the new texts of a scope, if there are many.
///
/// # Errors
/// Those of reading rows.
pub fn prepare(db: &Tables, txn: &Read<'_>, scope: RecallScope) -> Result<Option<Prepared>> {
    prepare_at(db, txn, scope, PACE)
}

/// Writes a segment, unless its texts changed since it was made.
///
/// # Errors
/// Those of reading and writing rows.
pub fn write(db: &Tables, txn: &mut Write<'_>, prepared: Prepared) -> Result<()> {
    for OfKind { texts, keys } in prepared.ranges() {
        let now = db.recall_new.range(txn, keys)?.stored();
        let same = now
            .zip(texts)
            .take_while(|(row, (id, bytes))| matches!(row, Ok((key, row)) if key.id == *id && row == bytes));
        if same.count() < texts.len() {
            return Ok(());
        }
    }
    if version::is_clearing(db, txn)? { Ok(()) } else { write_unchanged(db, txn, prepared) }
}

/// Prepares segments at another pace.
pub(crate) fn prepare_at(db: &Tables, txn: &Read<'_>, scope: RecallScope, pace: Pace) -> Result<Option<Prepared>> {
    let mut content = Content::default();
    let (mut stored, mut bytes) = (Vec::new(), 0_usize);
    for row in db.recall_new.prefix(txn, &scope)?.stored().take(NEW_MAX) {
        let (key, row) = row?;
        bytes = bytes.saturating_add(row.len());
        if bytes > NEW_BYTES && !stored.is_empty() {
            break;
        }
        content.add(key.id, &NewText::of(row));
        stored.push((key.id, row.to_vec()));
    }
    let are_few = stored.len() < pace.new && bytes <= NEW_BYTES;
    // The rows of old segments may still be there under numbers that a new one would get.
    if are_few || version::is_clearing(db, txn)? {
        return Ok(None);
    }
    let (terms, cost) = content.rows();
    let merged = match is_turn(next_key(db, txn, scope)?, pace) {
        true => {
            let every = usize::try_from(pace.every).unwrap_or(1);
            let ahead = cost.saturating_mul(AHEAD).saturating_mul(every);
            merge::prepare(db, txn, scope, pace.step.postings.max(ahead))?
        }
        false => None,
    };
    Ok(Some(Prepared { scope, stored, texts: content.texts, terms, merged, pace }))
}

/// Whether others are merged beside a new segment.
fn is_turn(of: RecallSegmentKey, pace: Pace) -> bool {
    of.segment.checked_rem(pace.every).is_none_or(|rest| rest == 0)
}

fn write_unchanged(db: &Tables, txn: &mut Write<'_>, prepared: Prepared) -> Result<()> {
    for OfKind { keys, .. } in prepared.ranges() {
        db.recall_new.delete_range(txn, keys)?;
    }
    let Prepared { scope, texts, terms, merged, pace, .. } = prepared;
    let of = next_key(db, txn, scope)?;
    write_terms(db, txn, of, terms)?;
    let segment = write_texts(db, txn, of, &texts)?;
    db.recall_segments.put(txn, &of, &segment.to_packed())?;
    if is_turn(of, pace) { merge::advance(db, txn, scope, merged, pace.step.rows) } else { Ok(()) }
}

/// Texts that become a segment.
#[derive(Default)]
struct Content {
    texts: Vec<SegmentText>,
    /// Their terms, one after the other.
    terms: String,
    /// Where each of them is, and in which text.
    places: Vec<(Range<usize>, Posting)>,
}

impl Content {
    /// Adds a text with a greater id than all others.
    fn add(&mut self, id: SaidId, new: &NewText) {
        let at = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        let length = u32::try_from(new.words.length()).unwrap_or(u32::MAX - 1);
        self.texts.push(SegmentText { id, at: new.at, length });
        new.words.each(&mut |term, count| {
            let begin = self.terms.len();
            self.terms.push_str(term);
            let posting = Posting { at, count: u32::try_from(count).unwrap_or(u32::MAX) };
            self.places.push((begin..self.terms.len(), posting));
        });
    }

    /// The rows of the terms, and what merging them costs.
    fn rows(&self) -> (Vec<Row>, usize) {
        let term = |range: &Range<usize>| self.terms.get(range.clone()).unwrap_or_default();
        let place = |(at, posting): &(Range<usize>, Posting)| (Sortable::of(term(at)), *posting);
        let mut sorted: Vec<(Sortable<'_>, Posting)> = self.places.iter().map(place).collect();
        sorted.sort_unstable();
        let (mut writer, mut list, mut cost) = (Writer::default(), Vec::new(), 0_usize);
        for same in sorted.chunk_by(|(one, _), (other, _)| one == other) {
            list.clear();
            list.extend(same.iter().map(|(_, posting)| *posting));
            same.first().iter().for_each(|(sortable, _)| writer.add(sortable.term, &list));
            cost = cost.saturating_add(merge::cost(list.len()));
        }
        (writer.finish(), cost)
    }
}

fn next_key(db: &Tables, txn: &Read<'_>, scope: RecallScope) -> Result<RecallSegmentKey> {
    let last = db.recall_segments.last_in(txn, &scope)?.map_or(0, |(key, _)| key.segment);
    Ok(RecallSegmentKey { scope, segment: last.saturating_add(1) })
}

pub(super) fn write_terms(db: &Tables, txn: &mut Write<'_>, of: RecallSegmentKey, rows: Vec<Row>) -> Result<()> {
    for Row { term, at, bytes } in rows {
        db.recall_terms.put(txn, &RecallTermKey { of, term: Term::new(&term)?, at }, &Packed(bytes))?;
    }
    Ok(())
}

/// Writes the texts of a segment, which are sorted. Returns a segment with them.
pub(super) fn write_texts(
    db: &Tables,
    txn: &mut Write<'_>,
    of: RecallSegmentKey,
    all: &[SegmentText],
) -> Result<Segment> {
    let newest = all.iter().map(|text| text.at).max().unwrap_or_default();
    let words = all.iter().map(|text| u64::from(text.length)).sum();
    let mut segment = Segment { level: 0, texts: to_u64(all.len()), words, ranges: [(0, 0); 4], newest };
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
    Ok(segment)
}

/// Removes all rows of a segment.
pub(super) fn forget(db: &Tables, txn: &mut Write<'_>, of: RecallSegmentKey) -> Result<()> {
    while let Some((key, _)) = db.recall_terms.first_in(txn, &of)? {
        db.recall_terms.delete(txn, &key)?;
    }
    while let Some((key, _)) = db.recall_texts.first_in(txn, &of)? {
        db.recall_texts.delete(txn, &key)?;
    }
    db.recall_segments.delete(txn, &of).map(drop)
}

/// Removes a text from its segment, and from those that are not searched. Returns whether it was in one.
pub(super) fn remove(db: &Tables, txn: &mut Write<'_>, scope: RecallScope, id: SaidId, words: &Words) -> Result<bool> {
    let segments = all(db, txn, scope)?;
    let (mut found, mut is_last) = (false, false);
    for (of, segment) in &segments {
        if !segment.may_have(id) || (found && segment.is_whole()) {
            continue;
        }
        let Some((number, length)) = take_out(db, txn, *of, id)? else { continue };
        let mut terms = Vec::new();
        words.each(&mut |term, _| terms.push(term.to_owned()));
        for term in terms {
            terms::remove(db, txn, *of, &term, number)?;
        }
        if !segment.is_whole() {
            continue;
        }
        found = true;
        let texts = segment.texts.saturating_sub(1);
        let words = segment.words.saturating_sub(u64::from(length));
        is_last = texts == 0;
        if is_last {
            forget(db, txn, *of)?;
        } else {
            db.recall_segments.put(txn, of, &Segment { texts, words, ..segment.clone() }.to_packed())?;
        }
    }
    // Segments that are not searched have the texts of others.
    if is_last && segments.iter().filter(|(_, segment)| segment.is_whole()).count() == 1 {
        segments.iter().try_for_each(|(of, _)| forget(db, txn, *of))?;
    }
    Ok(found)
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
