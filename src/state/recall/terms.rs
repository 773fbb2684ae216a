//! Reads and changes the terms of one segment.

use super::keys::{Packed, Term};
use crate::search::segment::{Entries, OwnedList, Posting, without};
use crate::{Read, RecallSegmentKey, RecallTermKey, Result, Tables, Write};

/// Calls `each` for the rows of a segment that may contain a term, in order.
fn rows(
    db: &Tables,
    txn: &Read<'_>,
    of: RecallSegmentKey,
    term: &str,
    mut each: impl FnMut(RecallTermKey, Packed) -> Result<()>,
) -> Result<()> {
    let Ok(text) = Term::new(term) else { return Ok(()) };
    let first = RecallTermKey { of, term: text.clone(), at: 0 };
    let begin = RecallTermKey { of, term: Term::new("")?, at: 0 };
    // The row before may end with the term.
    if let Some((key, row)) = db.recall_terms.last(txn, begin..first.clone())? {
        each(key, row)?;
    }
    let last = RecallTermKey { of, term: text, at: u32::MAX };
    for row in db.recall_terms.range(txn, first..=last)? {
        let (key, row) = row?;
        each(key, row)?;
    }
    Ok(())
}

/// The texts of a segment that contain a term.
///
/// # Errors
/// Those of reading rows.
pub(super) fn lists(db: &Tables, txn: &Read<'_>, of: RecallSegmentKey, term: &str) -> Result<Vec<OwnedList>> {
    let mut found = Vec::new();
    rows(db, txn, of, term, |_, row| {
        let mut entries = Entries::of(&row.0);
        while let Some(list) = entries.advance() {
            if entries.term() == term {
                found.push(list.to_owned());
                break;
            }
            if entries.term() > term {
                break;
            }
        }
        Ok(())
    })?;
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
pub(super) fn expand(
    db: &Tables,
    txn: &Read<'_>,
    of: RecallSegmentKey,
    what: &Expansion<'_>,
    budget: &mut usize,
) -> Result<Vec<OwnedList>> {
    let mut found = Vec::new();
    let mut see = |row: &Packed| {
        let mut entries = Entries::of(&row.0);
        while let Some(list) = entries.advance() {
            let term = entries.term();
            let fits = term.starts_with(what.beginning);
            if found.len() >= what.most || *budget == 0 || (!fits && term > what.beginning) {
                return false;
            }
            if fits {
                *budget = budget.saturating_sub(1);
                if (what.fits)(term) {
                    found.push(list.to_owned());
                }
            }
        }
        true
    };
    let Ok(text) = Term::new(what.beginning) else { return Ok(found) };
    let first = RecallTermKey { of, term: text, at: 0 };
    let begin = RecallTermKey { of, term: Term::new("")?, at: 0 };
    let before = db.recall_terms.last(txn, begin..first.clone())?;
    if before.is_none_or(|(_, row)| see(&row)) {
        for row in db.recall_terms.range(txn, first..)? {
            let (key, row) = row?;
            if key.of != of || !see(&row) {
                break;
            }
        }
    }
    Ok(found)
}

/// Removes a text from a term of a segment.
pub(super) fn remove(db: &Tables, txn: &mut Write<'_>, of: RecallSegmentKey, term: &str, at: u32) -> Result<()> {
    let mut changed = None;
    rows(db, txn, of, term, |key, row| {
        if changed.is_none() {
            changed = without(&row.0, term, at).map(|row| (key, row));
        }
        Ok(())
    })?;
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

/// Reads the terms of a segment in order. The table may be changed meanwhile, but not this segment.
pub(super) struct Reader {
    of: RecallSegmentKey,
    at: Option<RecallTermKey>,
    /// The entries of the row that is being read, the next one last.
    entries: Vec<(String, Vec<Posting>)>,
}

impl Reader {
    /// Begins after a term, or with the first one.
    pub(super) fn after(db: &Tables, txn: &Read<'_>, of: RecallSegmentKey, term: Option<&str>) -> Result<Self> {
        let mut reader = Self { of, at: None, entries: Vec::new() };
        if let Some(term) = term {
            let begin = RecallTermKey { of, term: Term::new("")?, at: 0 };
            let end = RecallTermKey { of, term: Term::new(term)?, at: u32::MAX };
            // The last row that begins with the term or an earlier one may have later terms.
            if let Some((key, row)) = db.recall_terms.last(txn, begin..=end)? {
                reader.take(key, &row, |found| found > term);
            }
        }
        if reader.entries.is_empty() {
            reader.fill(db, txn)?;
        }
        Ok(reader)
    }

    /// The term at hand.
    pub(super) fn term(&self) -> Option<&str> {
        self.entries.last().map(|(term, _)| term.as_str())
    }

    /// Its texts in the row at hand. They may continue with the next entry.
    pub(super) fn postings(&self) -> impl Iterator<Item = Posting> {
        self.entries.last().into_iter().flat_map(|(_, list)| list.iter().copied())
    }

    pub(super) fn advance(&mut self, db: &Tables, txn: &Read<'_>) -> Result<()> {
        self.entries.pop();
        if self.entries.is_empty() { self.fill(db, txn) } else { Ok(()) }
    }

    fn fill(&mut self, db: &Tables, txn: &Read<'_>) -> Result<()> {
        while self.entries.is_empty() {
            let next = match &self.at {
                Some(key) => db.recall_terms.after(txn, key)?,
                None => db.recall_terms.first_in(txn, &self.of)?,
            };
            let Some((key, row)) = next.filter(|(key, _)| key.of == self.of) else { return Ok(()) };
            self.take(key, &row, |_| true);
        }
        Ok(())
    }

    fn take(&mut self, key: RecallTermKey, row: &Packed, fits: impl Fn(&str) -> bool) {
        self.at = Some(key);
        let mut entries = Entries::of(&row.0);
        while let Some(list) = entries.advance() {
            if fits(entries.term()) {
                self.entries.push((entries.term().to_owned(), list.postings().collect()));
            }
        }
        self.entries.reverse();
    }
}
