//! Proof that the file of a store is a whole tree of pages, before LMDB maps it.
//!
//! LMDB believes every number in its file: one flipped bit, or a file that was cut off, ends the process by a signal. So
//! where there is a reason for doubt, the pages are walked here first, with reads that can fail. Records have checksums of
//! their own (`envelope`); this is about what holds them.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::error::{Error, Result as Stored};
use super::lock::Holder;

/// Why a file is none that LMDB may map.
#[derive(Debug, thiserror::Error)]
enum Broken {
    /// What is wrong, and where.
    #[error("page {page} {what}")]
    Page { page: u64, what: String },
    /// It cannot be read.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// Somebody writes it at the same time, so that nothing can be said.
    #[error("it is being written")]
    Moving,
}

/// Bytes of a page's header.
const HEADER: usize = 16;
/// Bytes of a node's header.
const NODE: usize = 8;
/// Bytes of the description of a tree.
const TREE: usize = 48;
/// What every file of LMDB has.
const MAGIC: u32 = 0xBEEF_C0DE;
/// Version of its format.
const VERSION: u32 = 1;
/// LMDB's own bound of a tree's depth.
const DEPTH_MAX: u16 = 32;
/// No tree: it is empty.
const NO_PAGE: u64 = u64::MAX;
/// Pages before the first one of a tree.
const METAS: u64 = 2;

const BRANCH: u16 = 1;
const LEAF: u16 = 2;
const OVERFLOW: u16 = 4;
const META: u16 = 8;

const BIG: u16 = 1;
const TREE_WITHIN: u16 = 2;

/// Pages that are walked where there is doubt: 512 MiB of tables, without long values.
const IN_DOUBT: usize = 1 << 17;
/// Pages that are always walked, in a few milliseconds.
const ALWAYS: usize = 1 << 10;

/// Refuses a store's file that LMDB must not map. It is looked at closely where there is doubt, as after a sudden end, and
/// not at all beside somebody who has it and looked then.
pub(super) fn trust(dir: &Path, holder: Holder) -> Stored<()> {
    match holder {
        Holder::Lives => Ok(()),
        Holder::GaveUp if !is_short(&dir.join("data.mdb")) => look(dir, ALWAYS),
        Holder::GaveUp | Holder::Died => look(dir, IN_DOUBT),
    }
}

/// Refuses a store's file that LMDB must not map, after a look at all of it.
pub(super) fn look(dir: &Path, most: usize) -> Stored<()> {
    let path = dir.join("data.mdb");
    match prove(&path, most) {
        Ok(()) | Err(Broken::Moving) => Ok(()),
        Err(Broken::Io(source)) => Err(Error::Io { path, source }),
        Err(broken @ Broken::Page { .. }) => Err(Error::Broken { path, reason: broken.to_string() }),
    }
}

/// Walks all pages of the newest snapshot, at most `most` of them.
fn prove(path: &Path, most: usize) -> Result<(), Broken> {
    let file = File::open(path)?;
    let snapshot = Snapshot::newest(&file)?;
    // Only now: a file that grows has the pages of a snapshot before it has the snapshot.
    let bytes = file.metadata()?.len();
    let pages = bytes / snapshot.page_bytes;
    let size = usize::try_from(pages).unwrap_or(usize::MAX);
    let mut walk = Walk { file, page_bytes: snapshot.page_bytes, pages, left: most, seen: vec![false; size] };
    let walked = walk.tree(&snapshot.free, Kind::Free).and_then(|()| walk.tree(&snapshot.main, Kind::Rows));
    let still = Snapshot::newest(&walk.file).is_ok_and(|now| now.number == snapshot.number);
    match walked {
        // Pages of a snapshot are used again only after the next one is there.
        Err(_) if !still => Err(Broken::Moving),
        walked => walked,
    }
}

/// Whether the file is shorter than its newest snapshot says. That may be harmless: pages at its end that are free are
/// not always written.
fn is_short(path: &Path) -> bool {
    let looked = File::open(path).and_then(|file| {
        // In this order, as in `prove`.
        let newest = Snapshot::newest(&file);
        Ok((newest, file.metadata()?.len()))
    });
    match looked {
        Ok((Ok(snapshot), bytes)) => bytes / snapshot.page_bytes <= snapshot.last,
        Ok((Err(_), _)) => true,
        Err(_) => false,
    }
}

/// A root page and how deep it goes.
struct Root {
    page: u64,
    depth: u16,
}

/// What a meta page says.
struct Snapshot {
    page_bytes: u64,
    number: u64,
    last: u64,
    free: Root,
    main: Root,
}

impl Snapshot {
    fn newest(file: &File) -> Result<Self, Broken> {
        let first = Self::read(file, 0, 0)?;
        let second = Self::read(file, 1, first.page_bytes)?;
        Ok(if second.number > first.number { second } else { first })
    }

    fn read(file: &File, page: u64, at: u64) -> Result<Self, Broken> {
        let mut bytes = [0; 152];
        let broken = |what: &str| Broken::Page { page, what: what.to_owned() };
        file.read_exact_at(&mut bytes, at).map_err(|_| broken("is not there"))?;
        let page_bytes = u64::from(u32_at(&bytes, 40));
        let whole = u16_at(&bytes, 10) & META != 0
            && (u32_at(&bytes, 16), u32_at(&bytes, 20)) == (MAGIC, VERSION)
            && page_bytes.is_power_of_two()
            && (512..=65_536).contains(&page_bytes);
        if !whole {
            return Err(broken("is not the beginning of a store"));
        }
        let (free, main) = (root(&bytes, 40), root(&bytes, 40 + TREE));
        Ok(Self { page_bytes, number: u64_at(&bytes, 144), last: u64_at(&bytes, 136), free, main })
    }
}

fn root(bytes: &[u8], at: usize) -> Root {
    Root { depth: u16_at(bytes, at + 6), page: u64_at(bytes, at + 40) }
}

/// What is in a tree.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Lists of free pages; keys are numbers.
    Free,
    Rows,
}

struct Walk {
    file: File,
    page_bytes: u64,
    pages: u64,
    left: usize,
    /// Pages that something refers to.
    seen: Vec<bool>,
}

impl Walk {
    fn tree(&mut self, root: &Root, kind: Kind) -> Result<(), Broken> {
        if root.page == NO_PAGE {
            return Ok(());
        }
        if root.depth == 0 || root.depth > DEPTH_MAX {
            return Err(broken(root.page, format!("is said to be the root of a tree {} pages deep", root.depth)));
        }
        let mut ahead = vec![(root.page, root.depth)];
        while let Some((number, depth)) = ahead.pop() {
            let Some(left) = self.left.checked_sub(1) else { return Ok(()) };
            self.left = left;
            let page = self.page(number, if depth > 1 { BRANCH } else { LEAF })?;
            if depth > 1 {
                let children = page.children(kind)?;
                ahead.extend(children.into_iter().map(|child| (child, depth - 1)));
                continue;
            }
            for node in page.nodes(kind)? {
                let far = if node.flags & BIG != 0 { Some(self.overflow(&page, &node)?) } else { None };
                if kind == Kind::Free {
                    self.free(&page, &node, far)?;
                } else if node.flags & TREE_WITHIN != 0 {
                    self.tree(&root_within(&page, &node)?, Kind::Rows)?;
                }
            }
        }
        Ok(())
    }

    /// A page that is referred to once, and is what it has to be.
    fn page(&mut self, number: u64, flags: u16) -> Result<Page, Broken> {
        self.take(number, 1)?;
        let size = usize::try_from(self.page_bytes).unwrap_or(usize::MAX);
        let mut bytes = vec![0; size];
        self.file.read_exact_at(&mut bytes, number.saturating_mul(self.page_bytes))?;
        let page = Page { number, bytes };
        if u64_at(&page.bytes, 0) != number || u16_at(&page.bytes, 10) != flags {
            let kind = if flags == BRANCH { "a branch" } else { "a leaf" };
            return Err(broken(number, format!("should be {kind} of a tree, and is something else")));
        }
        Ok(page)
    }

    /// Marks pages as being used.
    fn take(&mut self, first: u64, count: u64) -> Result<(), Broken> {
        let end = first.saturating_add(count);
        if first < METAS || end > self.pages {
            return Err(broken(first, format!("is used, but the file ends at page {}", self.pages)));
        }
        for number in first..end {
            let at = usize::try_from(number).unwrap_or(usize::MAX);
            match self.seen.get_mut(at) {
                Some(seen) if !*seen => *seen = true,
                _ => return Err(broken(number, "is used twice".to_owned())),
            }
        }
        Ok(())
    }

    /// The first page of a long value.
    fn overflow(&mut self, page: &Page, node: &Node) -> Result<u64, Broken> {
        let first = u64_at(&page.bytes, node.value);
        let bytes = u64::from(node.bytes).saturating_add(u64::try_from(HEADER).unwrap_or_default());
        let count = bytes.div_ceil(self.page_bytes);
        self.take(first, count)?;
        let mut header = [0; HEADER];
        self.file.read_exact_at(&mut header, first.saturating_mul(self.page_bytes))?;
        let said = (u64_at(&header, 0), u16_at(&header, 10), u64::from(u32_at(&header, 12)));
        if said.0 != first || said.1 != OVERFLOW || said.2 < count {
            return Err(broken(first, format!("should begin a value of {count} pages, and does not")));
        }
        Ok(first)
    }

    /// Pages that are free are in no tree: LMDB would write over them.
    fn free(&mut self, page: &Page, node: &Node, far: Option<u64>) -> Result<(), Broken> {
        let size = usize::try_from(node.bytes).unwrap_or(usize::MAX);
        let list = match far {
            None => page.bytes.get(node.value..node.value.saturating_add(size)).unwrap_or_default().to_vec(),
            Some(first) => {
                let mut list = vec![0; size];
                let begin = u64::try_from(HEADER).unwrap_or_default();
                self.file.read_exact_at(&mut list, first.saturating_mul(self.page_bytes).saturating_add(begin))?;
                list
            }
        };
        let count = usize::try_from(u64_at(&list, 0)).unwrap_or(usize::MAX);
        if count >= list.len() / 8 {
            return Err(page.broken("has a list of free pages that is cut off"));
        }
        for at in 1..=count {
            let number = u64_at(&list, at * 8);
            // One at the end may never have been written.
            if number < self.pages {
                self.take(number, 1)?;
            }
        }
        Ok(())
    }
}

/// The tree that a node describes.
fn root_within(page: &Page, node: &Node) -> Result<Root, Broken> {
    if usize::try_from(node.bytes).unwrap_or(usize::MAX) != TREE {
        return Err(broken(page.number, "describes a table in too few bytes".to_owned()));
    }
    Ok(root(&page.bytes, node.value))
}

struct Page {
    number: u64,
    bytes: Vec<u8>,
}

/// What a leaf has of a row.
struct Node {
    flags: u16,
    /// Of its value.
    bytes: u32,
    /// Where its value begins, or the number of the page that has it.
    value: usize,
}

impl Page {
    /// Where the nodes begin, in the order of their keys.
    fn places(&self) -> Result<Vec<usize>, Broken> {
        let (lower, upper) = (usize::from(u16_at(&self.bytes, 12)), usize::from(u16_at(&self.bytes, 14)));
        if lower < HEADER || lower > upper || upper > self.bytes.len() || lower % 2 != 0 {
            return Err(self.broken("has impossible bounds"));
        }
        let count = (lower - HEADER) / 2;
        let place = |at: usize| usize::from(u16_at(&self.bytes, HEADER + 2 * at));
        let places: Vec<usize> = (0..count).map(place).collect();
        let fits = |place: &usize| *place >= upper && place.saturating_add(NODE) <= self.bytes.len();
        if places.iter().all(fits) { Ok(places) } else { Err(self.broken("has a row outside of itself")) }
    }

    fn children(&self, kind: Kind) -> Result<Vec<u64>, Broken> {
        let places = self.places()?;
        if places.len() < 2 && kind == Kind::Rows || places.is_empty() {
            return Err(self.broken("leads to too few pages"));
        }
        let keys: Vec<&[u8]> = places.iter().map(|place| self.key(*place)).collect::<Result<_, _>>()?;
        // The first one stands for everything before the second.
        self.in_order(keys.get(1..).unwrap_or_default(), kind)?;
        let child = |place: &usize| {
            let (low, high) = (u32_at(&self.bytes, *place), u16_at(&self.bytes, *place + 4));
            u64::from(low) | u64::from(high) << 32
        };
        Ok(places.iter().map(child).collect())
    }

    fn nodes(&self, kind: Kind) -> Result<Vec<Node>, Broken> {
        let places = self.places()?;
        let keys: Vec<&[u8]> = places.iter().map(|place| self.key(*place)).collect::<Result<_, _>>()?;
        self.in_order(&keys, kind)?;
        let mut nodes = Vec::with_capacity(places.len());
        for (place, key) in places.iter().zip(keys) {
            let flags = u16_at(&self.bytes, place + 4);
            let node = Node { flags, bytes: u32_at(&self.bytes, *place), value: place + NODE + key.len() };
            let within = if flags & BIG != 0 { 8 } else { usize::try_from(node.bytes).unwrap_or(usize::MAX) };
            if flags & !(BIG | TREE_WITHIN) != 0 || node.value.saturating_add(within) > self.bytes.len() {
                return Err(self.broken("has a row that is cut off"));
            }
            nodes.push(node);
        }
        Ok(nodes)
    }

    fn key(&self, place: usize) -> Result<&[u8], Broken> {
        let (begin, bytes) = (place + NODE, usize::from(u16_at(&self.bytes, place + 6)));
        self.bytes.get(begin..begin.saturating_add(bytes)).ok_or_else(|| self.broken("has a key that is cut off"))
    }

    fn in_order(&self, keys: &[&[u8]], kind: Kind) -> Result<(), Broken> {
        let sorted = match kind {
            Kind::Rows => keys.is_sorted_by(|a, b| a < b),
            Kind::Free => keys.iter().all(|key| key.len() == 8),
        };
        if sorted { Ok(()) } else { Err(self.broken("has keys that are out of order")) }
    }

    fn broken(&self, what: &str) -> Broken {
        broken(self.number, what.to_owned())
    }
}

fn broken(page: u64, what: String) -> Broken {
    Broken::Page { page, what }
}

/// Bytes from a place on; nothing is there beyond the end.
fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk::<N>());
    found.copied().unwrap_or([0; N])
}

#[expect(clippy::host_endian_bytes, reason = "LMDB writes numbers as its machine has them")]
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes(bytes_at(bytes, at))
}

#[expect(clippy::host_endian_bytes, reason = "LMDB writes numbers as its machine has them")]
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes_at(bytes, at))
}

#[expect(clippy::host_endian_bytes, reason = "LMDB writes numbers as its machine has them")]
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes_at(bytes, at))
}
