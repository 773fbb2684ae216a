//! How many segments become a larger one: in small steps, each of them beside new texts, so that no commit takes long.
//!
//! What is under way is in the rows of the segments themselves. A larger segment begins with its texts, and a row that says
//! that it has none: it is not searched. Each step adds terms, in order, so its last term says how far it is. At last its
//! row says what it has, and those of the segments in it say that they have no texts, and that they are of the smallest
//! size. Their rows are removed in further steps. Until then, a removed text is taken out of all of them.

use super::keys::{KINDS, kind, said};
use super::segments::{FAN, LEVEL_MAX, Segment, SegmentText, all, forget, texts, write_terms, write_texts};
use super::terms::{self, Reader, Sortable};
use crate::model::recall::{RecallScope, SaidId};
use crate::search::documents::Documents;
use crate::search::packed::to_u64;
use crate::search::segment::{Posting, Row, Writer};
use crate::{Read, RecallSegmentKey, Result, Tables, Write};

/// What merging a term costs, in postings.
pub(super) const fn cost(texts: usize) -> usize {
    texts.saturating_add(4)
}

/// How much is done in a step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    /// What is merged, in postings, and then the rest of a term.
    pub(crate) postings: usize,
    /// Rows of merged segments that are removed.
    pub(crate) rows: usize,
}

/// The next terms of a segment that grows. Making them needs only to read, so it may be done before the transaction that
/// writes them.
#[derive(Debug)]
pub(super) struct Terms {
    of: RecallSegmentKey,
    sources: Vec<(RecallSegmentKey, Segment)>,
    before: Option<String>,
    rows: Vec<Row>,
    are_all: bool,
}

/// Merges the next terms of the segment of a scope that grows, if there is one.
pub(super) fn prepare(db: &Tables, txn: &Read<'_>, scope: RecallScope, postings: usize) -> Result<Option<Terms>> {
    let segments = all(db, txn, scope)?;
    let Some(merge) = Merge::of(&segments) else { return Ok(None) };
    let before = terms::last(db, txn, merge.of)?;
    let (rows, are_all) = merged(db, txn, merge, before.as_deref(), postings)?;
    Ok(Some(Terms { of: merge.of, sources: merge.sources().cloned().collect(), before, rows, are_all }))
}

/// Does some more for the segments of a scope. Merges at most one group of segments at a time. Terms that were prepared
/// before something changed are not written: they are prepared again with the next ones.
pub(super) fn advance(
    db: &Tables,
    txn: &mut Write<'_>,
    scope: RecallScope,
    terms: Option<Terms>,
    cleared: usize,
) -> Result<()> {
    let segments = all(db, txn, scope)?;
    clear(db, txn, &segments, cleared)?;
    let Some(merge) = Merge::of(&segments) else { return begin(db, txn, &segments) };
    let is_current = |terms: &Terms| {
        // Segments that lost a text have fewer.
        let is_same = terms.of == merge.of && merge.sources().eq(&terms.sources);
        Ok::<_, crate::Error>(is_same && terms::last(db, txn, merge.of)? == terms.before)
    };
    match terms {
        Some(terms) if is_current(&terms)? => {
            write_terms(db, txn, merge.of, terms.rows)?;
            if terms.are_all { finish(db, txn, merge) } else { Ok(()) }
        }
        _ => Ok(()),
    }
}

/// Begins to merge the segments of the first size of which there are many.
fn begin(db: &Tables, txn: &mut Write<'_>, segments: &[(RecallSegmentKey, Segment)]) -> Result<()> {
    let Some((last, _)) = segments.last() else { return Ok(()) };
    let of = RecallSegmentKey { segment: last.segment.saturating_add(1), ..*last };
    for level in 0..LEVEL_MAX {
        let same = of_level(segments, level);
        if same.clone().count() < FAN {
            continue;
        }
        let mut list: Vec<SegmentText> = Vec::new();
        for (segment, _) in same {
            list.extend(texts(db, txn, *segment)?.into_iter().flatten());
        }
        list.sort_by_key(|text| text.id);
        let whole = write_texts(db, txn, of, &list)?;
        let growing = Segment { level: level.saturating_add(1), texts: 0, words: 0, ..whole };
        return db.recall_segments.put(txn, &of, &growing.to_packed());
    }
    Ok(())
}

/// The segments of a size that are searched.
fn of_level(
    segments: &[(RecallSegmentKey, Segment)],
    level: u8,
) -> impl Iterator<Item = &(RecallSegmentKey, Segment)> + Clone {
    segments.iter().filter(move |(_, segment)| segment.is_whole() && segment.level == level)
}

/// A merge that is under way.
#[derive(Clone, Copy)]
struct Merge<'a> {
    of: RecallSegmentKey,
    growing: &'a Segment,
    segments: &'a [(RecallSegmentKey, Segment)],
}

impl<'a> Merge<'a> {
    fn of(segments: &'a [(RecallSegmentKey, Segment)]) -> Option<Self> {
        let (of, growing) = segments.iter().find(|(_, segment)| segment.is_growing())?;
        Some(Self { of: *of, growing, segments })
    }

    /// Segments that were there when it began. There are no newer ones of this size with lower numbers, because merges follow
    /// each other.
    fn sources(self) -> impl Iterator<Item = &'a (RecallSegmentKey, Segment)> {
        let below = self.growing.level.saturating_sub(1);
        of_level(self.segments, below).filter(move |(key, _)| key.segment < self.of.segment)
    }
}

/// Segments of which one that grows is made.
///
/// # Errors
/// Those of reading rows.
pub(crate) fn sources(
    db: &Tables,
    txn: &Read<'_>,
    of: RecallSegmentKey,
    growing: &Segment,
) -> Result<Vec<RecallSegmentKey>> {
    let segments = all(db, txn, of.scope)?;
    Ok(Merge { of, growing, segments: &segments }.sources().map(|(key, _)| *key).collect())
}

/// The rows of the next terms, and whether these are all.
fn merged(
    db: &Tables,
    txn: &Read<'_>,
    merge: Merge<'_>,
    before: Option<&str>,
    postings: usize,
) -> Result<(Vec<Row>, bool)> {
    let ids = ids(db, txn, merge.of)?;
    let mut sources = Vec::new();
    for (segment, _) in merge.sources() {
        let numbers = renumber(&texts(db, txn, *segment)?, &ids);
        sources.push((Reader::after(db, txn, *segment, before)?, numbers));
    }
    let (mut writer, mut done) = (Writer::default(), 0_usize);
    let (mut term, mut list) = (String::new(), Vec::new());
    while let Some(least) = sources.iter().filter_map(|(reader, _)| reader.term()).min() {
        if done >= postings {
            return Ok((writer.finish(), false));
        }
        least.term.clone_into(&mut term);
        list.clear();
        let same = Sortable::of(&term);
        for (reader, numbers) in &mut sources {
            while reader.term() == Some(same) {
                list.extend(reader.postings().filter_map(|posting| {
                    let at = numbers.get(usize::try_from(posting.at).ok()?)?.as_ref()?;
                    Some(Posting { at: *at, ..posting })
                }));
                reader.advance()?;
            }
        }
        if !list.is_empty() {
            done = done.saturating_add(cost(list.len()));
        }
        if !list.is_sorted() {
            list.sort_unstable();
        }
        writer.add(&term, &list);
    }
    Ok((writer.finish(), true))
}

/// Searches the new segment from now on, and no longer those in it.
fn finish(db: &Tables, txn: &mut Write<'_>, merge: Merge<'_>) -> Result<()> {
    let list: Vec<SegmentText> = texts(db, txn, merge.of)?.into_iter().flatten().collect();
    if list.is_empty() {
        forget(db, txn, merge.of)?;
    } else {
        let words = list.iter().map(|text| u64::from(text.length)).sum();
        let whole = Segment { texts: to_u64(list.len()), words, ..merge.growing.clone() };
        db.recall_segments.put(txn, &merge.of, &whole.to_packed())?;
    }
    for (key, segment) in merge.sources() {
        let left = Segment { level: 0, texts: 0, words: 0, ..segment.clone() };
        db.recall_segments.put(txn, key, &left.to_packed())?;
    }
    Ok(())
}

/// Removes rows of merged segments, their texts last.
fn clear(db: &Tables, txn: &mut Write<'_>, segments: &[(RecallSegmentKey, Segment)], rows: usize) -> Result<()> {
    let mut left = segments.iter().filter(|(_, segment)| segment.is_merged());
    let mut next = left.next();
    for _ in 0..rows {
        let Some((of, _)) = next else { break };
        if let Some((key, _)) = db.recall_terms.first_in(txn, of)? {
            db.recall_terms.delete(txn, &key)?;
        } else if let Some((key, _)) = db.recall_texts.first_in(txn, of)? {
            db.recall_texts.delete(txn, &key)?;
        } else {
            db.recall_segments.delete(txn, of)?;
            next = left.next();
        }
    }
    Ok(())
}

/// The ids of the texts of a segment by number, also of those that were removed.
fn ids(db: &Tables, txn: &Read<'_>, of: RecallSegmentKey) -> Result<Vec<Option<SaidId>>> {
    let mut ids = Vec::new();
    for row in db.recall_texts.prefix(txn, &of)? {
        let (key, row) = row?;
        let tag = KINDS.into_iter().find(|tag| *tag == kind(key.id));
        ids.extend(Documents::from_bytes(&row.0).list.iter().map(|text| said(tag?, text.id)));
    }
    Ok(ids)
}

/// The new numbers of texts by their old ones; none for removed texts.
fn renumber(texts: &[Option<SegmentText>], ids: &[Option<SaidId>]) -> Vec<Option<u32>> {
    let mut next = 0_usize;
    let number = |text: &Option<SegmentText>| {
        let id = Some(text.as_ref()?.id);
        // Texts of one segment usually follow each other in the new one, too.
        let at = if ids.get(next) == Some(&id) { next } else { ids.binary_search(&id).ok()? };
        next = at.saturating_add(1);
        u32::try_from(at).ok()
    };
    texts.iter().map(number).collect()
}
