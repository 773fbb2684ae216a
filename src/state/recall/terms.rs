//! Reads and changes the terms of one segment.

use super::keys::{Packed, Term};
use crate::search::segment::{Entries, List, Posting, without};
use crate::{Read, RecallSegmentKey, RecallTermKey, Result, Tables, Write};

/// A row of terms as it is stored.
type StoredRow<'t> = Result<(RecallTermKey, &'t [u8])>;

/// The rows of a segment from the first one on that may contain a term, in order.
fn rows_from<'t>(
    db: &Tables,
    txn: &'t Read<'_>,
    of: RecallSegmentKey,
    term: &Term,
) -> Result<impl Iterator<Item = StoredRow<'t>> + use<'t>> {
    let first = RecallTermKey { of, term: term.clone(), at: 0 };
    let begin = RecallTermKey { of, term: Term::new("")?, at: 0 };
    // The row before may end with the term.
    let before = db.recall_terms.last_stored(txn, begin..first.clone())?;
    let rows = db.recall_terms.range(txn, first..)?.stored();
    let here = move |row: &StoredRow<'t>| row.as_ref().map_or(true, |(key, _)| key.of == of);
    Ok(before.map(Ok).into_iter().chain(rows.take_while(here)))
}

/// The texts of a segment that contain a term.
///
/// # Errors
/// Those of reading rows.
pub(super) fn lists<'t>(db: &Tables, txn: &'t Read<'_>, of: RecallSegmentKey, term: &str) -> Result<Vec<List<'t>>> {
    let mut found = Vec::new();
    let Ok(sought) = Term::new(term) else { return Ok(found) };
    for row in rows_from(db, txn, of, &sought)? {
        let (key, row) = row?;
        if key.term > sought {
            break;
        }
        let mut entries = Entries::of(row);
        if let Some(list) = entries.seek(term)
            && entries.term() == term
        {
            found.push(list);
        }
    }
    Ok(found)
}

/// Terms of a segment that a search looks for.
pub(super) struct Expansion<'a> {
    /// How they begin.
    pub(super) beginning: &'a str,
    /// Which of those.
    pub(super) fits: &'a dyn Fn(&str) -> bool,
    /// At most this many lists.
    pub(super) most: usize,
}

/// The lists of the terms that fit. Stops when `budget` terms were read.
pub(super) fn expand<'t>(
    db: &Tables,
    txn: &'t Read<'_>,
    of: RecallSegmentKey,
    what: &Expansion<'_>,
    budget: &mut usize,
) -> Result<Vec<List<'t>>> {
    let mut found = Vec::new();
    let Ok(beginning) = Term::new(what.beginning) else { return Ok(found) };
    for row in rows_from(db, txn, of, &beginning)? {
        let mut entries = Entries::of(row?.1);
        let mut next = entries.seek(what.beginning);
        while let Some(list) = next {
            let term = entries.term();
            if found.len() >= what.most || *budget == 0 || !term.starts_with(what.beginning) {
                return Ok(found);
            }
            *budget = budget.saturating_sub(1);
            if (what.fits)(term) {
                found.push(list);
            }
            next = entries.advance();
        }
    }
    Ok(found)
}

/// Removes a text from a term of a segment.
pub(super) fn remove(db: &Tables, txn: &mut Write<'_>, of: RecallSegmentKey, term: &str, at: u32) -> Result<()> {
    let Ok(sought) = Term::new(term) else { return Ok(()) };
    let mut changed = None;
    for row in rows_from(db, txn, of, &sought)? {
        let (key, row) = row?;
        if key.term > sought || changed.is_some() {
            break;
        }
        changed = without(row, term, at).map(|row| (key, row));
    }
    match changed {
        Some((key, row)) if row.is_empty() => db.recall_terms.delete(txn, &key).map(drop),
        Some((key, row)) => db.recall_terms.put(txn, &key, &Packed(row)),
        None => Ok(()),
    }
}

/// The last term of a segment.
pub(crate) fn last(db: &Tables, txn: &Read<'_>, of: RecallSegmentKey) -> Result<Option<String>> {
    let Some((_, row)) = db.recall_terms.last_in(txn, &of)? else { return Ok(None) };
    let mut entries = Entries::of(&row.0);
    while entries.advance().is_some() {}
    Ok(Some(entries.term().to_owned()))
}

/// A term beside its beginning as a number. These sort as terms do, and most terms differ in the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Sortable<'a> {
    beginning: u64,
    pub(super) term: &'a str,
}

impl<'a> Sortable<'a> {
    #[inline]
    pub(super) fn of(term: &'a str) -> Self {
        Self { beginning: beginning(term), term }
    }
}

fn beginning(term: &str) -> u64 {
    let byte = |at: usize| term.as_bytes().get(at).copied().unwrap_or_default();
    u64::from_be_bytes(std::array::from_fn(byte))
}

/// Reads the terms of a segment in order.
pub(super) struct Reader<'t> {
    rows: Box<dyn Iterator<Item = StoredRow<'t>> + 't>,
    entries: Entries<'t>,
    list: Option<List<'t>>,
    beginning: u64,
}

impl<'t> Reader<'t> {
    /// Begins after a term, or with the first one.
    pub(super) fn after(db: &Tables, txn: &'t Read<'_>, of: RecallSegmentKey, term: Option<&str>) -> Result<Self> {
        let sought = term.unwrap_or_default();
        let rows = Box::new(rows_from(db, txn, of, &Term::new(sought)?)?);
        let mut reader = Self { rows, entries: Entries::of(&[]), list: None, beginning: 0 };
        // Rows that begin with the term are its rest, and later terms.
        while reader.list.is_none() && reader.next_row()? {
            reader.list = reader.entries.seek(sought);
            if reader.list.is_some() && reader.entries.term() == sought {
                reader.list = reader.entries.advance();
            }
        }
        reader.beginning = beginning(reader.entries.term());
        Ok(reader)
    }

    /// The term at hand.
    pub(super) fn term(&self) -> Option<Sortable<'_>> {
        self.list.map(|_| Sortable { beginning: self.beginning, term: self.entries.term() })
    }

    /// Its texts in the row at hand. They may continue with the next entry.
    pub(super) fn postings(&self) -> impl Iterator<Item = Posting> + use<'t> {
        self.list.into_iter().flat_map(List::postings)
    }

    pub(super) fn advance(&mut self) -> Result<()> {
        self.list = self.entries.advance();
        while self.list.is_none() && self.next_row()? {
            self.list = self.entries.advance();
        }
        self.beginning = beginning(self.entries.term());
        Ok(())
    }

    fn next_row(&mut self) -> Result<bool> {
        let Some(row) = self.rows.next().transpose()? else { return Ok(false) };
        self.entries = Entries::of(row.1);
        Ok(true)
    }
}
