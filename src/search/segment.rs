//! The sorted terms of many texts, each with the texts that contain it, as rows of a bounded size.
//!
//! The texts of a segment have numbers from 0. A row begins with any term; a term with many texts continues in the next rows.

use super::packed::{put, put_text, take, take_bytes, take_text, take_u32, to_u64};

/// Most bytes of a row. LMDB gives a value of this size exactly one page of its own.
pub const ROW_MAX: usize = 4_080;

/// The bytes of an entry besides its term and its texts, at most.
const ENTRY_HEAD: usize = 20;

/// Room in a row for which it is not worth beginning a list that has to continue in the next one.
const NARROW: usize = 512;

/// A text that contains a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Posting {
    /// The number of the text.
    pub at: u32,
    /// How often.
    pub count: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its first term.
    pub term: String,
    /// The first text of that term in this row.
    pub at: u32,
    pub bytes: Vec<u8>,
}

/// Builds rows from terms in order.
#[derive(Debug, Default)]
pub struct Writer {
    row: Option<Row>,
    last: String,
    rows: Vec<Row>,
    /// Memory for a list.
    list: Vec<u8>,
}

impl Writer {
    /// Adds a term, which follows all earlier ones, with its texts in order.
    pub fn add(&mut self, term: &str, postings: &[Posting]) {
        let (mut rest, mut list) = (postings, std::mem::take(&mut self.list));
        while let Some(first) = rest.first() {
            encode(&mut list, rest, usize::MAX);
            let used = self.row.as_ref().map_or(0, |row| row.bytes.len());
            let room = ROW_MAX.saturating_sub(used).saturating_sub(term.len()).saturating_sub(ENTRY_HEAD);
            if list.len() <= room {
                self.entry(term, first.at, rest.len(), &list);
                break;
            }
            if used > 0 && (room < NARROW || list.len() < ROW_MAX / 2) {
                self.end_row();
                continue;
            }
            let taken = encode(&mut list, rest, room);
            self.entry(term, first.at, taken, &list);
            self.end_row();
            rest = rest.get(taken.max(1)..).unwrap_or_default();
        }
        self.list = list;
    }

    fn entry(&mut self, term: &str, at: u32, texts: usize, list: &[u8]) {
        let row = self.row.get_or_insert_with(|| Row { term: term.to_owned(), at, bytes: Vec::with_capacity(ROW_MAX) });
        put_entry(&mut row.bytes, &self.last, term, to_u64(texts), list);
        term.clone_into(&mut self.last);
    }

    fn end_row(&mut self) {
        self.rows.extend(self.row.take());
        self.last.clear();
    }

    /// The rows that are full.
    pub fn take_rows(&mut self) -> Vec<Row> {
        std::mem::take(&mut self.rows)
    }

    /// All other rows.
    #[must_use]
    pub fn finish(mut self) -> Vec<Row> {
        self.end_row();
        self.rows
    }
}

fn put_entry(out: &mut Vec<u8>, before: &str, term: &str, texts: u64, list: &[u8]) {
    put_text(out, before, term);
    put(out, texts);
    put(out, to_u64(list.len()));
    out.extend_from_slice(list);
}

/// Encodes as many texts as fit into `room`, and says how many.
fn encode(bytes: &mut Vec<u8>, postings: &[Posting], room: usize) -> usize {
    bytes.clear();
    let (mut before, mut taken) = (0, 0_usize);
    for Posting { at, count } in postings {
        let end = bytes.len();
        let step = u64::from(at.saturating_sub(before));
        put(bytes, step << 1 | u64::from(*count != 1));
        if *count != 1 {
            put(bytes, u64::from(*count));
        }
        if bytes.len() > room {
            bytes.truncate(end);
            break;
        }
        before = *at;
        taken = taken.saturating_add(1);
    }
    taken
}

/// The entries of a row in order. A damaged row ends early.
#[derive(Debug, Clone)]
pub struct Entries<'a> {
    rest: &'a [u8],
    term: String,
}

/// The texts of a term in one row.
#[derive(Debug, Clone, Copy)]
pub struct List<'a> {
    /// How many there are.
    pub texts: u64,
    bytes: &'a [u8],
}

impl<'a> Entries<'a> {
    /// The entries of a row.
    #[must_use]
    pub const fn of(row: &'a [u8]) -> Self {
        Self { rest: row, term: String::new() }
    }

    /// The next entry; [`Self::term`] is its term then.
    pub fn advance(&mut self) -> Option<List<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let entry = self.read();
        if entry.is_none() {
            self.rest = &[];
        }
        entry
    }

    /// Goes to the first entry whose term is not less than one, in a row of which nothing was read yet. Terms before it are
    /// compared only where they can differ.
    pub fn seek(&mut self, term: &str) -> Option<List<'a>> {
        // How much of the beginning the term before has in common with the one that is sought.
        let mut same = 0;
        loop {
            let shared = usize::try_from(take(&mut self.rest)?).ok()?;
            let length = take(&mut self.rest)?;
            let ending = take_bytes(&mut self.rest, length)?;
            let list = self.read_list()?;
            if shared > same {
                continue;
            }
            let sought = term.as_bytes().get(shared..)?;
            if ending >= sought {
                self.term.clear();
                self.term.push_str(term.get(..shared)?);
                self.term.push_str(std::str::from_utf8(ending).ok()?);
                return Some(list);
            }
            same = shared.saturating_add(ending.iter().zip(sought).take_while(|(a, b)| a == b).count());
        }
    }

    fn read(&mut self) -> Option<List<'a>> {
        take_text(&mut self.rest, &mut self.term)?;
        self.read_list()
    }

    fn read_list(&mut self) -> Option<List<'a>> {
        let texts = take(&mut self.rest)?;
        let length = take(&mut self.rest)?;
        Some(List { texts, bytes: take_bytes(&mut self.rest, length)? })
    }

    /// The term of the entry that was read last.
    #[must_use]
    pub fn term(&self) -> &str {
        &self.term
    }
}

impl<'a> List<'a> {
    /// The texts, in order.
    #[inline]
    pub fn postings(self) -> impl Iterator<Item = Posting> + use<'a> {
        let (mut rest, mut at) = (self.bytes, 0_u32);
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let code = take(&mut rest)?;
            at = at.checked_add(u32::try_from(code >> 1).ok()?)?;
            let count = if code & 1 == 0 { 1 } else { take_u32(&mut rest)? };
            Some(Posting { at, count })
        })
    }
}

/// A row without one text of one term; none if it is not there. The result may be empty.
#[must_use]
pub fn without(row: &[u8], term: &str, at: u32) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(row.len());
    let (mut entries, mut last, mut found) = (Entries::of(row), String::new(), false);
    while let Some(list) = entries.advance() {
        let mut kept = (list.texts, list.bytes.to_vec());
        if entries.term() == term {
            let rest: Vec<Posting> = list.postings().filter(|posting| posting.at != at).collect();
            found |= to_u64(rest.len()) != list.texts;
            encode(&mut kept.1, &rest, usize::MAX);
            kept.0 = to_u64(rest.len());
        }
        if kept.0 > 0 {
            put_entry(&mut out, &last, entries.term(), kept.0, &kept.1);
            entries.term().clone_into(&mut last);
        }
    }
    found.then_some(out)
}
