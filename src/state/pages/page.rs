//! A page of a tree, as its bytes say.

use super::{Broken, HEADER, TREE};

/// Bytes of a node's header.
const NODE: usize = 8;

const BIG: u16 = 1;
const TREE_WITHIN: u16 = 2;

/// What is in a tree.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Lists of free pages; keys are numbers.
    Free,
    Rows,
}

/// A root page and how deep it goes.
pub(super) struct Root {
    pub(super) page: u64,
    pub(super) depth: u16,
}

pub(super) fn root(bytes: &[u8], at: usize) -> Root {
    Root { depth: u16_at(bytes, at + 6), page: u64_at(bytes, at + 40) }
}

pub(super) struct Page<'a> {
    pub(super) number: u64,
    bytes: &'a [u8],
}

/// What a leaf has of a row.
pub(super) struct Node<'a> {
    flags: u16,
    /// Of its value.
    pub(super) bytes: u32,
    /// Its value, or the number of the page that has it.
    pub(super) value: &'a [u8],
}

impl Node<'_> {
    /// The first page of its value, if that has pages of its own.
    pub(super) fn far(&self) -> Option<u64> {
        (self.flags & BIG != 0).then(|| u64_at(self.value, 0))
    }

    /// The tree that it describes, if it does.
    pub(super) fn tree_within(&self, page: &Page<'_>) -> Result<Option<Root>, Broken> {
        match (self.flags & TREE_WITHIN != 0, self.value.len()) {
            (false, _) => Ok(None),
            (true, TREE) => Ok(Some(root(self.value, 0))),
            (true, _) => Err(page.broken("describes a table in too few bytes")),
        }
    }
}

impl<'a> Page<'a> {
    /// A page that is what it has to be.
    pub(super) fn new(number: u64, bytes: &'a [u8], flags: u16) -> Result<Self, Broken> {
        if u64_at(bytes, 0) == number && u16_at(bytes, 10) == flags {
            return Ok(Self { number, bytes });
        }
        let kind = if flags == super::BRANCH { "a branch" } else { "a leaf" };
        Err(broken(number, format!("should be {kind} of a tree, and is something else")))
    }

    /// Where the nodes begin, in the order of their keys.
    fn places(&self) -> Result<impl Iterator<Item = usize>, Broken> {
        let (lower, upper) = (usize::from(u16_at(self.bytes, 12)), usize::from(u16_at(self.bytes, 14)));
        if lower < HEADER || lower > upper || upper > self.bytes.len() || lower % 2 != 0 {
            return Err(self.broken("has impossible bounds"));
        }
        let (places, _) = self.bytes.get(HEADER..lower).unwrap_or_default().as_chunks::<2>();
        let fits = |place: &usize| *place >= upper && place.saturating_add(NODE) <= self.bytes.len();
        let places = places.iter().map(|place| usize::from(u16_at(place, 0)));
        if places.clone().all(|place| fits(&place)) {
            Ok(places)
        } else {
            Err(self.broken("has a row outside of itself"))
        }
    }

    /// Shows the pages that a branch leads to.
    pub(super) fn each_child(&self, kind: Kind, mut show: impl FnMut(u64)) -> Result<(), Broken> {
        let (mut count, mut before) = (0_usize, None);
        for place in self.places()? {
            let key = self.key(place)?;
            // The first one stands for everything before the second.
            if count > 0 {
                self.in_order(before.replace(key), key, kind)?;
            }
            let (low, high) = (u32_at(self.bytes, place), u16_at(self.bytes, place + 4));
            show(u64::from(low) | u64::from(high) << 32);
            count += 1;
        }
        if count < 2 && kind == Kind::Rows || count == 0 {
            return Err(self.broken("leads to too few pages"));
        }
        Ok(())
    }

    /// Shows the rows of a leaf.
    pub(super) fn each_node(
        &self,
        kind: Kind,
        mut show: impl FnMut(Node<'a>) -> Result<(), Broken>,
    ) -> Result<(), Broken> {
        let mut before = None;
        for place in self.places()? {
            let key = self.key(place)?;
            self.in_order(before.replace(key), key, kind)?;
            let (flags, bytes) = (u16_at(self.bytes, place + 4), u32_at(self.bytes, place));
            let begin = place + NODE + key.len();
            let within = if flags & BIG != 0 { 8 } else { usize::try_from(bytes).unwrap_or(usize::MAX) };
            let value = self.bytes.get(begin..begin.saturating_add(within));
            match value {
                Some(value) if flags & !(BIG | TREE_WITHIN) == 0 => show(Node { flags, bytes, value })?,
                _ => return Err(self.broken("has a row that is cut off")),
            }
        }
        Ok(())
    }

    fn key(&self, place: usize) -> Result<&'a [u8], Broken> {
        let (begin, bytes) = (place + NODE, usize::from(u16_at(self.bytes, place + 6)));
        self.bytes.get(begin..begin.saturating_add(bytes)).ok_or_else(|| self.broken("has a key that is cut off"))
    }

    fn in_order(&self, before: Option<&[u8]>, key: &[u8], kind: Kind) -> Result<(), Broken> {
        let sorted = match kind {
            Kind::Rows => before.is_none_or(|before| before < key),
            Kind::Free => key.len() == 8,
        };
        if sorted { Ok(()) } else { Err(self.broken("has keys that are out of order")) }
    }

    fn broken(&self, what: &str) -> Broken {
        broken(self.number, what.to_owned())
    }
}

pub(super) fn broken(page: u64, what: String) -> Broken {
    Broken::Page { page, what }
}

/// Bytes from a place on; nothing is there beyond the end.
fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk::<N>());
    found.copied().unwrap_or([0; N])
}

#[expect(clippy::host_endian_bytes, reason = "LMDB writes numbers as its machine has them")]
pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes(bytes_at(bytes, at))
}

#[expect(clippy::host_endian_bytes, reason = "LMDB writes numbers as its machine has them")]
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes_at(bytes, at))
}

#[expect(clippy::host_endian_bytes, reason = "LMDB writes numbers as its machine has them")]
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes_at(bytes, at))
}
