//! Proof that the file of a store is a whole tree of pages, before LMDB maps it.
//!
//! LMDB believes every number in its file: one flipped bit, or a file that was cut off, ends the process by a signal. So
//! where there is a reason for doubt, the pages are walked here first, with reads that can fail. Records have checksums of
//! their own (`envelope`); this is about what holds them.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::error::{Error, Result as Stored};
use super::lock::Writer;

mod page;

use page::{Kind, Node, Page, Root, broken, root, u16_at, u32_at, u64_at};

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

/// Pages that are walked where there is doubt: 512 MiB of tables, without long values.
const IN_DOUBT: usize = 1 << 17;
/// Pages that are always walked, in a few milliseconds.
const ALWAYS: usize = 1 << 10;
/// Pages that are read at once.
const AT_ONCE: u64 = 64;
/// Pages that are read along to get from one to the next: that costs less than a read of its own.
const READ_ALONG: u64 = 4;
/// Leaves below which one thread looks at them all.
const ALONE: usize = 1 << 9;
/// Threads that look at leaves.
const THREADS_MAX: usize = 4;

/// Refuses a store's file that LMDB must not map. It is looked at closely where there is doubt, as after a sudden end, and
/// not at all beside somebody who has it and looked then.
pub(super) fn trust(dir: &Path, holder: Writer) -> Stored<()> {
    match holder {
        Writer::Lives => Ok(()),
        Writer::GaveUp if !is_short(&dir.join("data.mdb")) => look(dir, ALWAYS),
        Writer::GaveUp | Writer::Died => look(dir, IN_DOUBT),
    }
}

/// Refuses a store's file that LMDB must not map, after a look at all of it.
pub(super) fn look(dir: &Path, most: usize) -> Stored<()> {
    let path = dir.join("data.mdb");
    match prove(&path, most) {
        Ok(()) | Err(Broken::Moving) => Ok(()),
        Err(Broken::Io(source)) if source.kind() == std::io::ErrorKind::PermissionDenied => {
            Err(Error::Unopened { path: dir.to_owned(), source })
        }
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
    let walked = walk.all(&snapshot);
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

struct Walk {
    file: File,
    page_bytes: u64,
    pages: u64,
    left: usize,
    /// Pages that something refers to.
    seen: Vec<bool>,
}

/// What leaves refer to besides rows.
#[derive(Default)]
struct Found {
    /// Trees that rows describe.
    within: Vec<Root>,
    /// Values with pages of their own.
    far: Vec<Far>,
    /// Lists of free pages, each with the page it is in.
    lists: Vec<(u64, Vec<u8>)>,
}

/// A value with pages of its own.
struct Far {
    /// The page of its row.
    of: u64,
    first: u64,
    bytes: u32,
}

impl Walk {
    /// Branches are followed from the roots, and the leaves looked at together, in the order in which they lie.
    fn all(&mut self, snapshot: &Snapshot) -> Result<(), Broken> {
        self.trees(&[&snapshot.free], Kind::Free)?;
        let mut within = self.trees(&[&snapshot.main], Kind::Rows)?;
        while !within.is_empty() {
            within = self.trees(&within.iter().collect::<Vec<_>>(), Kind::Rows)?;
        }
        Ok(())
    }

    /// Looks at trees; returns those that are described in them.
    fn trees(&mut self, roots: &[&Root], kind: Kind) -> Result<Vec<Root>, Broken> {
        let mut leaves = Vec::new();
        for root in roots {
            self.leaves(root, kind, &mut leaves)?;
        }
        leaves.sort_unstable();
        let found = self.look_at(&leaves, kind)?;
        for far in &found.far {
            self.overflow(far, kind)?;
        }
        for (page, list) in &found.lists {
            self.free(*page, list)?;
        }
        Ok(found.within)
    }

    /// Follows the branches of a tree to its leaves.
    fn leaves(&mut self, root: &Root, kind: Kind, leaves: &mut Vec<u64>) -> Result<(), Broken> {
        if root.page == NO_PAGE {
            return Ok(());
        }
        if root.depth == 0 || root.depth > DEPTH_MAX {
            return Err(broken(root.page, format!("is said to be the root of a tree {} pages deep", root.depth)));
        }
        let mut bytes = vec![0; usize::try_from(self.page_bytes).unwrap_or(usize::MAX)];
        let mut ahead = vec![(root.page, root.depth)];
        while let Some((number, depth)) = ahead.pop() {
            let Some(left) = self.left.checked_sub(1) else { return Ok(()) };
            self.left = left;
            self.take(number, 1)?;
            if depth == 1 {
                leaves.push(number);
                continue;
            }
            self.file.read_exact_at(&mut bytes, number.saturating_mul(self.page_bytes))?;
            let page = Page::new(number, &bytes, BRANCH)?;
            page.each_child(kind, |child| ahead.push((child, depth - 1)))?;
        }
        Ok(())
    }

    /// Looks at leaves, several threads at many.
    fn look_at(&self, leaves: &[u64], kind: Kind) -> Result<Found, Broken> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
        if leaves.len() < ALONE || threads == 1 {
            return self.look_at_some(leaves, kind);
        }
        let parts = leaves.chunks(leaves.len().div_ceil(threads));
        let looked: Vec<Result<Found, Broken>> = std::thread::scope(|scope| {
            let looking: Vec<_> = parts.map(|part| (part, scope.spawn(|| self.look_at_some(part, kind)))).collect();
            // A thread that ended in another way is done again here.
            let end = |(part, thread): (&[u64], std::thread::ScopedJoinHandle<'_, _>)| {
                thread.join().unwrap_or_else(|_| self.look_at_some(part, kind))
            };
            looking.into_iter().map(end).collect()
        });
        let mut all = Found::default();
        for found in looked {
            let Found { within, far, lists } = found?;
            all.within.extend(within);
            all.far.extend(far);
            all.lists.extend(lists);
        }
        Ok(all)
    }

    fn look_at_some(&self, leaves: &[u64], kind: Kind) -> Result<Found, Broken> {
        let mut found = Found::default();
        let mut bytes = Vec::new();
        let size = usize::try_from(self.page_bytes).unwrap_or(usize::MAX);
        let mut rest = leaves;
        while let Some(first) = rest.first().copied() {
            let near = |pair: &&[u64; 2]| pair[1] - pair[0] <= READ_ALONG && pair[1] - first < AT_ONCE;
            let count = 1 + rest.array_windows().take_while(near).count();
            let (run, after) = rest.split_at(count);
            let last = run.last().copied().unwrap_or(first);
            bytes.resize(size.saturating_mul(usize::try_from(last - first + 1).unwrap_or(usize::MAX)), 0);
            self.file.read_exact_at(&mut bytes, first.saturating_mul(self.page_bytes))?;
            for number in run {
                let begin = usize::try_from(number - first).unwrap_or(usize::MAX).saturating_mul(size);
                let page = Page::new(*number, bytes.get(begin..begin + size).unwrap_or_default(), LEAF)?;
                page.each_node(kind, |node| found.note(&page, kind, &node))?;
            }
            rest = after;
        }
        Ok(found)
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

    /// Looks at the beginning of a long value; one of the free pages' tree is a list of them.
    fn overflow(&mut self, far: &Far, kind: Kind) -> Result<(), Broken> {
        let first = far.first;
        let header_bytes = u64::try_from(HEADER).unwrap_or_default();
        let count = u64::from(far.bytes).saturating_add(header_bytes).div_ceil(self.page_bytes);
        self.take(first, count)?;
        let at = first.saturating_mul(self.page_bytes);
        let mut header = [0; HEADER];
        self.file.read_exact_at(&mut header, at)?;
        let said = (u64_at(&header, 0), u16_at(&header, 10), u64::from(u32_at(&header, 12)));
        if said.0 != first || said.1 != OVERFLOW || said.2 < count {
            return Err(broken(first, format!("should begin a value of {count} pages, and does not")));
        }
        if kind == Kind::Rows {
            return Ok(());
        }
        let mut list = vec![0; usize::try_from(far.bytes).unwrap_or(usize::MAX)];
        self.file.read_exact_at(&mut list, at.saturating_add(header_bytes))?;
        self.free(far.of, &list)
    }

    /// Pages that are free are in no tree: LMDB would write over them.
    fn free(&mut self, page: u64, list: &[u8]) -> Result<(), Broken> {
        let count = usize::try_from(u64_at(list, 0)).unwrap_or(usize::MAX);
        if count >= list.len() / 8 {
            return Err(broken(page, "has a list of free pages that is cut off".to_owned()));
        }
        for at in 1..=count {
            let number = u64_at(list, at * 8);
            // One at the end may never have been written.
            if number < self.pages {
                self.take(number, 1)?;
            }
        }
        Ok(())
    }
}

impl Found {
    fn note(&mut self, page: &Page<'_>, kind: Kind, node: &Node<'_>) -> Result<(), Broken> {
        if kind == Kind::Rows {
            self.within.extend(node.tree_within(page)?);
        }
        match (node.far(), kind) {
            (Some(first), _) => self.far.push(Far { of: page.number, first, bytes: node.bytes }),
            (None, Kind::Free) => self.lists.push((page.number, node.value.to_vec())),
            (None, Kind::Rows) => {}
        }
        Ok(())
    }
}
