//! The texts of a segment: what they are, when they were said, and how long they are.

use super::packed::{put, put_signed, take, take_signed, take_u32, to_u64};
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
    /// The texts.
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

    /// Their bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut coder = Coder::default();
        put(&mut coder.out, u64::from(self.first));
        put(&mut coder.out, to_u64(self.list.len()));
        self.list.iter().for_each(|document| coder.put(*document));
        coder.out
    }

    /// The number of the first text, without reading the others.
    #[must_use]
    pub fn first_of(mut bytes: &[u8]) -> Option<u32> {
        take_u32(&mut bytes)
    }

    /// Reads a row. A damaged one ends early.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut rest = bytes;
        let first = take_u32(&mut rest).unwrap_or_default();
        let count = take(&mut rest).unwrap_or_default();
        // A document has at least three bytes.
        let room = usize::try_from(count).unwrap_or(usize::MAX).min(rest.len() / 3);
        let mut read = Self { first, list: Vec::with_capacity(room) };
        let (mut id, mut at) = (0_u64, 0_i64);
        for _ in 0..count {
            let Some((step, after, length)) =
                take(&mut rest).zip(take_signed(&mut rest)).zip(take(&mut rest)).map(|((a, b), c)| (a, b, c))
            else {
                break;
            };
            (id, at) = (id.saturating_add(step), at.saturating_add(after));
            let length = length.checked_sub(1).map(|length| u32::try_from(length).unwrap_or(u32::MAX));
            read.list.push(Document { id, at, length });
        }
        read
    }
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
