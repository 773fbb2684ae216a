//! The texts of a segment: what they are, when they were said, and how long they are.

use super::packed::{put, put_signed, skip, take, take_signed, take_u32, to_u64};
use super::segment::ROW_MAX;

/// A text of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Document {
    /// The number of its id.
    pub id: u64,
    /// When it was said, in seconds since 1970.
    pub at: i64,
    /// How many words it has; none if it was removed.
    pub length: Option<u32>,
}

/// The texts of one kind with ascending ids, which have consecutive numbers in their segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Documents {
    /// The number of the first one.
    pub first: u32,
    pub list: Vec<Document>,
}

/// Upper bound of a document's bytes.
const DOCUMENT_MAX: usize = 25;

impl Documents {
    /// Splits texts of one kind into rows.
    #[must_use]
    pub fn rows(first: u32, list: &[Document]) -> Vec<Self> {
        let mut rows = Vec::new();
        let (mut number, mut row, mut bytes) = (first, Self { first, list: Vec::new() }, Coder::default());
        for document in list {
            bytes.put(*document);
            row.list.push(*document);
            number = number.saturating_add(1);
            if bytes.out.len() > ROW_MAX.saturating_sub(DOCUMENT_MAX * 2) {
                rows.push(std::mem::replace(&mut row, Self { first: number, list: Vec::new() }));
                bytes = Coder::default();
            }
        }
        if !row.list.is_empty() {
            rows.push(row);
        }
        rows
    }

    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut coder = Coder::default();
        put(&mut coder.out, u64::from(self.first));
        put(&mut coder.out, to_u64(self.list.len()));
        self.list.iter().for_each(|document| coder.put(*document));
        coder.out
    }

    /// Reads a row. A damaged one ends early.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let row = DocumentRow::of(bytes);
        let mut list = Vec::with_capacity(row.count);
        list.extend(row.documents());
        Self { first: row.first, list }
    }
}

/// A row of texts as it is stored.
#[derive(Debug, Clone, Copy)]
pub struct DocumentRow<'a> {
    /// The number of the first one.
    pub first: u32,
    /// How many there are.
    pub count: usize,
    bytes: &'a [u8],
}

impl<'a> DocumentRow<'a> {
    /// A row, of which nothing but the beginning is read.
    #[must_use]
    pub fn of(bytes: &'a [u8]) -> Self {
        let mut rest = bytes;
        let first = take_u32(&mut rest).unwrap_or_default();
        let count = take(&mut rest).and_then(|count| usize::try_from(count).ok()).unwrap_or_default();
        // A document has at least three bytes.
        Self { first, count: count.min(rest.len() / 3), bytes: rest }
    }

    /// The texts in order.
    #[must_use]
    pub const fn documents(self) -> DocumentWalk<'a> {
        DocumentWalk { rest: self.bytes, left: self.count, id: 0, at: 0 }
    }

    #[must_use]
    pub const fn lengths(self) -> Lengths<'a> {
        Lengths { rest: self.bytes, next: self.first }
    }
}

/// Reads the texts of a row in order.
#[derive(Debug, Clone, Copy)]
pub struct DocumentWalk<'a> {
    rest: &'a [u8],
    left: usize,
    id: u64,
    at: i64,
}

impl Iterator for DocumentWalk<'_> {
    type Item = Document;

    #[inline]
    fn next(&mut self) -> Option<Document> {
        self.left = self.left.checked_sub(1)?;
        self.id = self.id.saturating_add(take(&mut self.rest)?);
        self.at = self.at.saturating_add(take_signed(&mut self.rest)?);
        Some(Document { id: self.id, at: self.at, length: take_length(&mut self.rest)? })
    }
}

/// Looks up lengths of texts of a row, in ascending order, without reading the texts between them.
#[derive(Debug, Clone, Copy)]
pub struct Lengths<'a> {
    rest: &'a [u8],
    next: u32,
}

impl Lengths<'_> {
    /// The length of a text; none if it was removed.
    #[inline]
    pub fn of(&mut self, number: u32) -> Option<u32> {
        let texts = usize::try_from(number.checked_sub(self.next)?).ok()?;
        // Before the length are the id and the time.
        self.rest = skip(self.rest, texts.saturating_mul(3).saturating_add(2));
        self.next = number.saturating_add(1);
        take_length(&mut self.rest)?
    }
}

/// Takes a length off the front, which is none for a removed text.
#[inline]
fn take_length(bytes: &mut &[u8]) -> Option<Option<u32>> {
    let length = take(bytes)?.checked_sub(1);
    Some(length.map(|length| u32::try_from(length).unwrap_or(u32::MAX)))
}

#[derive(Default)]
struct Coder {
    out: Vec<u8>,
    id: u64,
    at: i64,
}

impl Coder {
    fn put(&mut self, Document { id, at, length }: Document) {
        put(&mut self.out, id.saturating_sub(self.id));
        put_signed(&mut self.out, at.saturating_sub(self.at));
        put(&mut self.out, length.map_or(0, |length| u64::from(length).saturating_add(1)));
        (self.id, self.at) = (id, at);
    }
}
