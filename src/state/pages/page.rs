//! Parses a page of a tree.

use super::{Broken, HEADER, NO_PAGE, TREE};

/// Bytes of a node's header.
const NODE: usize = 8;

const BIG: u16 = 1;
const TREE_WITHIN: u16 = 2;

/// Longest key that LMDB accepts.
const KEY_MAX: usize = 511;

/// Content of a tree.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Lists of free pages; keys are numbers of transactions.
    Free,
    /// The tables: every row describes a tree.
    Tables,
    /// The rows of a table.
    Rows,
}

impl Kind {
    /// LMDB's flags for exactly this kind of tree. With other flags, LMDB reads keys or values differently.
    const fn flags(self) -> u16 {
        match self {
            Self::Free => 8, // keys are integers
            Self::Tables | Self::Rows => 0,
        }
    }
}

/// Description of a tree.
pub(super) struct Root {
    flags: u16,
    pub(super) depth: u16,
    /// Rows of the tree.
    pub(super) rows: u64,
    pub(super) page: u64,
}

pub(super) fn root(bytes: &[u8], at: usize) -> Root {
    Root {
        flags: u16_at(bytes, at + 4),
        depth: u16_at(bytes, at + 6),
        rows: u64_at(bytes, at + 32),
        page: u64_at(bytes, at + 40),
    }
}

impl Root {
    /// Refuses a description that does not fit its kind. Returns whether the tree has pages.
    pub(super) fn is_filled(&self, kind: Kind, depth_max: u16) -> Result<bool, Broken> {
        let Self { flags, depth, rows, page } = *self;
        let is_empty = page == NO_PAGE;
        if flags != kind.flags() {
            return Err(broken(page, format!("is the root of a tree of an unknown kind, {flags:#x}")));
        }
        if is_empty != (depth == 0) || is_empty != (rows == 0) || depth > depth_max {
            return Err(broken(page, format!("is said to be the root of a tree with {rows} rows, {depth} pages deep")));
        }
        Ok(!is_empty)
    }
}

pub(super) struct Page<'a> {
    pub(super) number: u64,
    bytes: &'a [u8],
}

/// A row in a leaf.
pub(super) struct Node<'a> {
    flags: u16,
    /// Of its value.
    pub(super) bytes: u32,
    /// Its value, or the number of the page that has it.
    pub(super) value: &'a [u8],
}

impl Node<'_> {
    /// The first page of its value, if the value has pages of its own.
    pub(super) fn far(&self) -> Option<u64> {
        (self.flags & BIG != 0).then(|| u64_at(self.value, 0))
    }

    /// The tree that it describes.
    pub(super) fn table(&self, page: &Page<'_>) -> Result<Root, Broken> {
        match (self.flags, self.value.len()) {
            (TREE_WITHIN, TREE) => Ok(root(self.value, 0)),
            _ => Err(page.broken("has a row that should describe a table, and does not")),
        }
    }
}

/// Positions and sizes of nodes. LMDB moves nodes by their sizes, so they must not overlap or have gaps.
struct Packing(Vec<(usize, usize)>);

impl Packing {
    fn note(&mut self, place: usize, bytes: usize) {
        self.0.push((place, bytes.next_multiple_of(2)));
    }

    /// Whether the nodes fill the page from `upper` on.
    fn fills(mut self, upper: usize, page_bytes: usize) -> bool {
        self.0.sort_unstable();
        let end =
            self.0.iter().try_fold(upper, |at, (place, bytes)| (at == *place).then(|| place.saturating_add(*bytes)));
        end == Some(page_bytes)
    }
}

impl<'a> Page<'a> {
    /// Validates and wraps a page.
    pub(super) fn new(number: u64, bytes: &'a [u8], flags: u16) -> Result<Self, Broken> {
        if u64_at(bytes, 0) == number && u16_at(bytes, 10) == flags {
            return Ok(Self { number, bytes });
        }
        let kind = if flags == super::BRANCH { "a branch" } else { "a leaf" };
        Err(broken(number, format!("should be {kind} of a tree, and is something else")))
    }

    /// Offsets of the nodes, in the order of their keys.
    fn places(&self) -> Result<impl Iterator<Item = usize>, Broken> {
        let (lower, upper) = (usize::from(u16_at(self.bytes, 12)), usize::from(u16_at(self.bytes, 14)));
        if lower < HEADER || lower > upper || upper > self.bytes.len() || lower % 2 != 0 {
            return Err(self.broken("has impossible bounds"));
        }
        if lower == HEADER {
            return Err(self.broken("has no row"));
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

    /// Calls a function for the pages that a branch refers to.
    pub(super) fn each_child(&self, kind: Kind, mut show: impl FnMut(u64)) -> Result<(), Broken> {
        let (mut count, mut before, mut packing) = (0_usize, None, Packing(Vec::new()));
        for place in self.places()? {
            let key = self.key(place)?;
            // The first key stands for everything before the second.
            if count > 0 {
                self.in_order(before.replace(key), key, kind)?;
            }
            packing.note(place, NODE + key.len());
            let (low, high) = (u32_at(self.bytes, place), u16_at(self.bytes, place + 4));
            show(u64::from(low) | u64::from(high) << 32);
            count += 1;
        }
        if count < 2 && kind != Kind::Free {
            return Err(self.broken("leads to too few pages"));
        }
        self.packed(packing)
    }

    /// Calls a function for the rows of a leaf.
    pub(super) fn each_node(
        &self,
        kind: Kind,
        mut show: impl FnMut(Node<'a>) -> Result<(), Broken>,
    ) -> Result<(), Broken> {
        let (mut before, mut packing) = (None, Packing(Vec::new()));
        for place in self.places()? {
            let key = self.key(place)?;
            self.in_order(before.replace(key), key, kind)?;
            let (flags, bytes) = (u16_at(self.bytes, place + 4), u32_at(self.bytes, place));
            let begin = place + NODE + key.len();
            let within = if flags & BIG != 0 { 8 } else { usize::try_from(bytes).unwrap_or(usize::MAX) };
            let value = self.bytes.get(begin..begin.saturating_add(within));
            let known = flags == 0 || flags == BIG || flags == TREE_WITHIN && kind == Kind::Tables;
            match value {
                Some(value) if known => show(Node { flags, bytes, value })?,
                _ => return Err(self.broken("has a row that is cut off")),
            }
            packing.note(place, NODE + key.len() + within);
        }
        self.packed(packing)
    }

    fn packed(&self, packing: Packing) -> Result<(), Broken> {
        let upper = usize::from(u16_at(self.bytes, 14));
        if packing.fills(upper, self.bytes.len()) { Ok(()) } else { Err(self.broken("has rows that overlap")) }
    }

    fn key(&self, place: usize) -> Result<&'a [u8], Broken> {
        let (begin, bytes) = (place + NODE, usize::from(u16_at(self.bytes, place + 6)));
        self.bytes.get(begin..begin.saturating_add(bytes)).ok_or_else(|| self.broken("has a key that is cut off"))
    }

    fn in_order(&self, before: Option<&[u8]>, key: &[u8], kind: Kind) -> Result<(), Broken> {
        let sorted = match kind {
            Kind::Free => key.len() == 8 && before.is_none_or(|before| u64_at(before, 0) < u64_at(key, 0)),
            Kind::Tables | Kind::Rows => (1..=KEY_MAX).contains(&key.len()) && before.is_none_or(|before| before < key),
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

/// Bytes from an offset on; none beyond the end.
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
