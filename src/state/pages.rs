//! Checks that the file of a store is a complete tree of pages, before LMDB maps it.
//!
//! LMDB trusts every number in its file: one flipped bit, or a truncated file, ends the process with a signal. So if
//! there is a reason for doubt, the pages are walked here first, with reads that can fail. Records have checksums of
//! their own (`envelope`); this check is about the structure that holds them.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use super::error::{Error, Result as Stored};
use super::files;
use super::lock::Writer;
use super::progress::{Progress, Step};

mod page;

use page::{Kind, Node, Page, Root, broken, root, u16_at, u32_at, u64_at};

/// Address space that the map asks for, and so the maximum size of a file.
pub(super) const MAP_BYTES: u64 = 1 << 40;

/// Why LMDB must not map a file.
#[derive(Debug, thiserror::Error)]
enum Broken {
    /// What is wrong, and where.
    #[error("page {page} {what}")]
    Page { page: u64, what: String },
    /// The file is larger than any store.
    #[error("its header states {0} pages, which is more than any store has")]
    Sized(u64),
    /// It cannot be read.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// Another process is writing it at the same time, so the check has no result.
    #[error("it is being written")]
    Moving,
}

/// Bytes of a page's header.
const HEADER: usize = 16;
/// Bytes of the description of a tree.
const TREE: usize = 48;
/// The number that every LMDB file contains.
const MAGIC: u32 = 0xBEEF_C0DE;
/// Version of its format.
const VERSION: u32 = 1;
/// LMDB's limit for the depth of a tree.
const DEPTH_MAX: u16 = 32;
/// Marks an empty tree.
const NO_PAGE: u64 = u64::MAX;
/// Pages before the first one of a tree.
const METAS: u64 = 2;

/// Page sizes that LMDB may use, depending on the machine.
const PAGE_BYTES: std::ops::RangeInclusive<u64> = 4_096..=32_768;
/// Transaction numbers below this one can still be incremented.
const NUMBER_MAX: u64 = 1 << 62;
/// Time after which a check that found damage is repeated.
const AGAIN: Duration = Duration::from_millis(20);

const BRANCH: u16 = 1;
const LEAF: u16 = 2;
const OVERFLOW: u16 = 4;
const META: u16 = 8;

/// Pages that are checked if there is doubt: 512 MiB of tables, without long values.
const IN_DOUBT: usize = 1 << 17;
/// Pages that are always checked, in a few milliseconds.
const ALWAYS: usize = 1 << 10;
/// Pages that are read at once.
const AT_ONCE: u64 = 64;
/// A gap between pages up to this size is read, because skipping it would cost a second read.
const READ_ALONG: u64 = 4;
/// Number of leaves below which one thread checks them all.
const ALONE: usize = 1 << 9;
/// Maximum number of threads that check leaves.
const THREADS_MAX: usize = 4;

/// A directory whose store files LMDB may open. All environments are opened through this type, so no caller can forget
/// the check.
#[derive(Debug)]
pub(super) struct Proved<'a>(&'a Path);

impl<'a> Proved<'a> {
    /// A directory without a store file, in which one is to be created.
    pub(super) fn vacant(dir: &'a Path) -> Stored<Self> {
        match files::look(&files::store_file(dir)) {
            Ok(files::EntryKind::Nothing) => Ok(Self(dir)),
            Ok(_) => Err(Error::Broken { path: files::store_file(dir), reason: "it exists already".to_owned() }),
            Err(source) => Err(Error::Unopened { path: dir.to_owned(), source }),
        }
    }

    pub(super) const fn dir(&self) -> &'a Path {
        self.0
    }
}

/// Refuses a store's file that LMDB must not map. Checks all of it if there is doubt, as after a crash, and no pages if
/// a running process has it open and checked it then.
pub(super) fn trust(dir: &Path, holder: Writer) -> Stored<Proved<'_>> {
    are_regular(dir)?;
    match holder {
        Writer::Lives => Ok(Proved(dir)),
        Writer::GaveUp if !is_short(&files::store_file(dir)) => look(dir, ALWAYS),
        Writer::GaveUp | Writer::Died => look(dir, IN_DOUBT),
    }
}

/// Refuses a store's file that LMDB must not map, after checking all of its pages.
pub(super) fn whole<'a>(dir: &'a Path, progress: &dyn Progress) -> Stored<Proved<'a>> {
    progress.begin(Step::Checking, None);
    look(dir, usize::MAX)
}

/// Checks at most `most` pages.
pub(super) fn look(dir: &Path, most: usize) -> Stored<Proved<'_>> {
    are_regular(dir)?;
    let path = files::store_file(dir);
    let mut looked = prove(&path, most);
    if matches!(looked, Err(Broken::Page { .. })) {
        // Another process may have been writing the bytes that were read. Real damage is still there a moment later.
        std::thread::sleep(AGAIN);
        looked = prove(&path, most);
    }
    match looked {
        Ok(()) | Err(Broken::Moving) => Ok(Proved(dir)),
        Err(Broken::Io(source)) if source.kind() == std::io::ErrorKind::PermissionDenied => {
            Err(Error::Unopened { path: dir.to_owned(), source })
        }
        Err(Broken::Io(source)) => Err(Error::Io { path, source }),
        Err(broken @ (Broken::Page { .. } | Broken::Sized(_))) => {
            Err(Error::Broken { path, reason: broken.to_string() })
        }
    }
}

/// LMDB opens both of its files itself: it would block on a FIFO, and follow links.
fn are_regular(dir: &Path) -> Stored<()> {
    for path in [files::store_file(dir), files::lock_file(dir)] {
        match files::look(&path) {
            Ok(files::EntryKind::Regular | files::EntryKind::Nothing) => {}
            Ok(files::EntryKind::Other(what)) => {
                let reason = format!("it is {what}, and has to be a regular file");
                return Err(Error::Broken { path, reason });
            }
            Err(source) => return Err(Error::Unopened { path: dir.to_owned(), source }),
        }
    }
    Ok(())
}

/// Walks all pages of the newest snapshot, at most `most` of them.
fn prove(path: &Path, most: usize) -> Result<(), Broken> {
    let file = files::open(path)?;
    let snapshot = Snapshot::newest(&file)?;
    // Read the size only now: a growing file has the pages of a snapshot before it has the snapshot.
    let bytes = file.metadata()?.len();
    let pages = (bytes / snapshot.page_bytes).min(snapshot.last.saturating_add(1));
    let seen = Pages::new(pages);
    let mut walk = Walk { file, page_bytes: snapshot.page_bytes, last: snapshot.last, pages, left: most, seen };
    let walked = walk.all(&snapshot);
    let still = Snapshot::newest(&walk.file).is_ok_and(|now| now.number == snapshot.number);
    match walked {
        // Pages of a snapshot are reused only after the next one exists.
        Err(_) if !still => Err(Broken::Moving),
        walked => walked,
    }
}

/// Whether the file is shorter than its newest snapshot says. This may be harmless, because free pages at its end are
/// not always written.
fn is_short(path: &Path) -> bool {
    let looked = files::open(path).and_then(|file| {
        // The order is the same as in `prove`.
        let newest = Snapshot::newest(&file);
        Ok((newest, file.metadata()?.len()))
    });
    match looked {
        Ok((Ok(snapshot), bytes)) => bytes / snapshot.page_bytes <= snapshot.last,
        Ok((Err(_), _)) => true,
        Err(_) => false,
    }
}

/// Content of a meta page.
struct Snapshot {
    page_bytes: u64,
    number: u64,
    last: u64,
    free: Root,
    main: Root,
}

impl Snapshot {
    /// The snapshot that LMDB uses. Each is in the page given by its number, and the larger number wins.
    fn newest(file: &File) -> Result<Self, Broken> {
        let first = Self::read(file, 0, 0)?;
        let second = Self::read(file, 1, first.page_bytes)?;
        if first.page_bytes != second.page_bytes {
            return Err(broken(1, "has another size of pages than page 0".to_owned()));
        }
        let (page, newest) = if second.number > first.number { (1, second) } else { (0, first) };
        if newest.number % METAS != page || newest.number >= NUMBER_MAX {
            return Err(broken(page, format!("cannot have the snapshot {}", newest.number)));
        }
        match newest.last.checked_add(1).and_then(|pages| pages.checked_mul(newest.page_bytes)) {
            Some(bytes) if bytes <= MAP_BYTES => Ok(newest),
            _ => Err(Broken::Sized(newest.last)),
        }
    }

    fn read(file: &File, page: u64, at: u64) -> Result<Self, Broken> {
        let mut bytes = [0; 152];
        let broken = |what: &str| Broken::Page { page, what: what.to_owned() };
        file.read_exact_at(&mut bytes, at).map_err(|_| broken("is not there"))?;
        let page_bytes = u64::from(u32_at(&bytes, 40));
        let whole = u16_at(&bytes, 10) & META != 0
            && (u32_at(&bytes, 16), u32_at(&bytes, 20)) == (MAGIC, VERSION)
            && page_bytes.is_power_of_two()
            && PAGE_BYTES.contains(&page_bytes);
        if !whole {
            return Err(broken("is not the beginning of a store"));
        }
        let (free, main) = (root(&bytes, 40), root(&bytes, 40 + TREE));
        Ok(Self { page_bytes, number: u64_at(&bytes, 144), last: u64_at(&bytes, 136), free, main })
    }
}

/// A set of pages, a bit each.
struct Pages(Vec<u64>);

impl Pages {
    fn new(pages: u64) -> Self {
        Self(vec![0; usize::try_from(pages.div_ceil(64)).unwrap_or(0)])
    }

    /// Adds a page. Returns false if it was already in the set or is out of range.
    fn add(&mut self, page: u64) -> bool {
        let bit = 1_u64 << (page % 64);
        match usize::try_from(page / 64).ok().and_then(|at| self.0.get_mut(at)) {
            Some(word) if *word & bit == 0 => {
                *word |= bit;
                true
            }
            _ => false,
        }
    }
}

struct Walk {
    file: File,
    page_bytes: u64,
    /// The last page that was ever used.
    last: u64,
    /// Pages of the file up to that one.
    pages: u64,
    left: usize,
    /// Pages that something refers to.
    seen: Pages,
}

/// References found in leaves.
#[derive(Default)]
struct PageRefs {
    rows: u64,
    /// Trees described by rows.
    within: Vec<Root>,
    /// Values with pages of their own.
    far: Vec<Far>,
    /// Lists of free pages, each with the page it is in.
    lists: Vec<(u64, Vec<u8>)>,
}

/// A value with pages of its own.
struct Far {
    /// The page of the row that the value belongs to.
    of: u64,
    first: u64,
    bytes: u32,
}

impl Walk {
    /// Follows branches from the roots, and checks the leaves together, in file order.
    fn all(&mut self, snapshot: &Snapshot) -> Result<(), Broken> {
        self.trees(std::slice::from_ref(&snapshot.free), Kind::Free)?;
        let tables = self.trees(std::slice::from_ref(&snapshot.main), Kind::Tables)?;
        self.trees(&tables, Kind::Rows).map(drop)
    }

    /// Checks trees, and returns the trees that their rows describe.
    fn trees(&mut self, roots: &[Root], kind: Kind) -> Result<Vec<Root>, Broken> {
        let mut leaves = Vec::new();
        for root in roots {
            if !self.leaves(root, kind, &mut leaves)? {
                return Ok(Vec::new());
            }
        }
        leaves.sort_unstable();
        let found = self.look_at(&leaves, kind)?;
        let stated = roots.iter().fold(0_u64, |rows, root| rows.saturating_add(root.rows));
        if let (Some(root), true) = (roots.first(), stated != found.rows) {
            return Err(broken(
                root.page,
                format!("and its like should lead to {stated} rows, and lead to {}", found.rows),
            ));
        }
        for far in &found.far {
            self.overflow(far, kind)?;
        }
        for (page, list) in &found.lists {
            self.free(*page, list)?;
        }
        Ok(found.within)
    }

    /// Follows the branches of a tree to its leaves, and returns whether it reached all of them.
    fn leaves(&mut self, root: &Root, kind: Kind, leaves: &mut Vec<u64>) -> Result<bool, Broken> {
        if !root.is_filled(kind, DEPTH_MAX)? {
            return Ok(true);
        }
        let mut bytes = vec![0; usize::try_from(self.page_bytes).unwrap_or(usize::MAX)];
        let mut ahead = vec![(root.page, root.depth)];
        while let Some((number, depth)) = ahead.pop() {
            let Some(left) = self.left.checked_sub(1) else { return Ok(false) };
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
        Ok(true)
    }

    /// Checks leaves, with several threads if there are many.
    fn look_at(&self, leaves: &[u64], kind: Kind) -> Result<PageRefs, Broken> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
        if leaves.len() < ALONE || threads == 1 {
            return self.look_at_some(leaves, kind);
        }
        let parts = leaves.chunks(leaves.len().div_ceil(threads));
        let looked: Vec<Result<PageRefs, Broken>> = std::thread::scope(|scope| {
            let looking: Vec<_> = parts.map(|part| (part, scope.spawn(|| self.look_at_some(part, kind)))).collect();
            // If a thread could not be started, its work is done here.
            let end = |(part, thread): (&[u64], std::thread::ScopedJoinHandle<'_, _>)| {
                thread.join().unwrap_or_else(|_| self.look_at_some(part, kind))
            };
            looking.into_iter().map(end).collect()
        });
        let mut all = PageRefs::default();
        for found in looked {
            let PageRefs { rows, within, far, lists } = found?;
            all.rows = all.rows.saturating_add(rows);
            all.within.extend(within);
            all.far.extend(far);
            all.lists.extend(lists);
        }
        Ok(all)
    }

    fn look_at_some(&self, leaves: &[u64], kind: Kind) -> Result<PageRefs, Broken> {
        let mut found = PageRefs::default();
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

    /// Marks pages as used.
    fn take(&mut self, first: u64, count: u64) -> Result<(), Broken> {
        let end = first.saturating_add(count);
        if first < METAS || end > self.pages {
            return Err(broken(first, format!("is used, but the store ends at page {}", self.pages)));
        }
        match (first..end).find(|number| !self.seen.add(*number)) {
            Some(number) => Err(broken(number, "is used twice".to_owned())),
            None => Ok(()),
        }
    }

    /// Checks the first page of a long value. In the tree of free pages, such a value is a list of free pages.
    fn overflow(&mut self, far: &Far, kind: Kind) -> Result<(), Broken> {
        let first = far.first;
        let header_bytes = u64::try_from(HEADER).unwrap_or_default();
        let count = u64::from(far.bytes).saturating_add(header_bytes).div_ceil(self.page_bytes);
        if first >= self.pages {
            return Err(broken(first, format!("is used, but the store ends at page {}", self.pages)));
        }
        let at = first.saturating_mul(self.page_bytes);
        let mut header = [0; HEADER];
        self.file.read_exact_at(&mut header, at)?;
        let pages = u64::from(u32_at(&header, 12));
        if u64_at(&header, 0) != first || u16_at(&header, 10) != OVERFLOW || pages < count {
            return Err(broken(first, format!("should begin a value of {count} pages, and does not")));
        }
        // All of them, because LMDB will free as many pages as the header says.
        self.take(first, pages)?;
        if kind != Kind::Free {
            return Ok(());
        }
        let mut list = vec![0; usize::try_from(far.bytes).unwrap_or(usize::MAX)];
        self.file.read_exact_at(&mut list, at.saturating_add(header_bytes))?;
        self.free(far.of, &list)
    }

    /// Free pages are in no tree: LMDB would overwrite them. It requires the largest first.
    fn free(&mut self, page: u64, list: &[u8]) -> Result<(), Broken> {
        let count = usize::try_from(u64_at(list, 0)).unwrap_or(usize::MAX);
        if count >= list.len() / 8 {
            return Err(broken(page, "has a list of free pages that is cut off".to_owned()));
        }
        let mut before = self.last.saturating_add(1);
        for at in 1..=count {
            let number = u64_at(list, at * 8);
            if number >= before || number < METAS {
                return Err(broken(page, "has a list of free pages that is out of order".to_owned()));
            }
            before = number;
            // A free page at the end may never have been written.
            if number < self.pages {
                self.take(number, 1)?;
            }
        }
        Ok(())
    }
}

impl PageRefs {
    fn note(&mut self, page: &Page<'_>, kind: Kind, node: &Node<'_>) -> Result<(), Broken> {
        self.rows = self.rows.saturating_add(1);
        if kind == Kind::Tables {
            self.within.push(node.table(page)?);
            return Ok(());
        }
        match (node.far(), kind) {
            (Some(first), _) => self.far.push(Far { of: page.number, first, bytes: node.bytes }),
            (None, Kind::Free) => self.lists.push((page.number, node.value.to_vec())),
            (None, _) => {}
        }
        Ok(())
    }
}
