//! Entries of the archive, as GNU tar writes them. The digest of an archive covers headers and data, but no padding.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use tar::{EntryType, Header};

use super::error::Error;
use super::names::PATH_MAX;
use crate::crash;

/// Block size of tar.
const BLOCK: usize = 512;
/// Bytes of a path in a header. A longer one has an entry of its own before it.
const SHORT: usize = 100;
/// Bytes that are read at once.
const CHUNK: usize = 1 << 17;
/// Number of bytes after which the free space is checked again.
const LOOK: u64 = 16 << 20;

/// Kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Kind {
    #[default]
    File,
    Directory,
    Link,
}

/// Header of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Head {
    pub(super) path: Vec<u8>,
    pub(super) kind: Kind,
    /// Target of a link.
    pub(super) target: Vec<u8>,
    pub(super) mode: u32,
    /// Seconds since 1970.
    pub(super) modified: u64,
    /// Bytes of data.
    pub(super) size: u64,
}

/// How much of a file's announced size was copied.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Copied {
    Whole,
    /// The rest is zeros. The reason is for people.
    Partly(String),
}

/// Writes an archive.
pub(super) struct Writer {
    file: BufWriter<File>,
    path: PathBuf,
    digest: Sha256,
    entries: u64,
    bytes: u64,
    /// Bytes written since the free space was checked.
    unchecked: u64,
    /// Bytes that stay free on the disk.
    reserve: u64,
}

impl Writer {
    /// Creates the file, for its owner alone.
    pub(super) fn create(path: &Path, reserve: u64) -> Result<Self, Error> {
        use std::os::unix::fs::OpenOptionsExt as _;
        crash::point("archive-make");
        let mut options = std::fs::OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(path).map_err(Error::io("create", path))?;
        let file = BufWriter::with_capacity(1 << 20, file);
        let (digest, path) = (Sha256::new(), path.to_owned());
        let writer = Self { file, path, digest, entries: 0, bytes: 0, unchecked: 0, reserve };
        writer.check_room()?;
        Ok(writer)
    }

    /// Entries, bytes of files and digest so far.
    pub(super) fn summary(&self) -> Summary {
        Summary { entries: self.entries, bytes: self.bytes, sha256: hex(self.digest.clone()) }
    }

    /// Bytes that can still be written.
    pub(super) fn room(&self) -> Result<u64, Error> {
        let disk = rustix::fs::fstatvfs(self.file.get_ref().as_fd()).map_err(|e| self.fault(e.into()))?;
        Ok(disk.f_bavail.saturating_mul(disk.f_frsize).saturating_sub(self.reserve))
    }

    fn check_room(&self) -> Result<(), Error> {
        if self.room()? == 0 { Err(Error::NoRoom { path: self.path.clone() }) } else { Ok(()) }
    }

    /// Writes an entry. A file that is shorter than announced is filled up with zeros.
    pub(super) fn put(&mut self, head: &Head, data: &mut dyn Read) -> Result<Copied, Error> {
        for (kind, text) in [(EntryType::GNULongName, &head.path), (EntryType::GNULongLink, &head.target)] {
            if text.len() > SHORT {
                let long = Head { path: b"././@LongLink".to_vec(), size: text.len() as u64 + 1, ..Head::default() };
                self.header(&long, kind)?;
                self.data(long.size, &mut text.chain(&[0_u8][..]))?;
            }
        }
        let kind = match head.kind {
            Kind::File => EntryType::Regular,
            Kind::Directory => EntryType::Directory,
            Kind::Link => EntryType::Symlink,
        };
        crash::point("archive-entry");
        self.header(head, kind)?;
        self.entries = self.entries.saturating_add(1);
        self.bytes = self.bytes.saturating_add(head.size);
        self.data(head.size, data)
    }

    fn header(&mut self, head: &Head, kind: EntryType) -> Result<(), Error> {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(head.mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(head.modified);
        header.set_size(head.size);
        let fields = header.as_old_mut();
        for (field, text) in [(&mut fields.name, &head.path), (&mut fields.linkname, &head.target)] {
            field.iter_mut().zip(text).for_each(|(to, from)| *to = *from);
        }
        header.set_cksum();
        let block = header.as_bytes();
        self.digest.update(block);
        self.file.write_all(block).map_err(|e| Error::io("write", &self.path)(e))
    }

    fn data(&mut self, size: u64, data: &mut dyn Read) -> Result<Copied, Error> {
        let (mut left, mut copied, mut buffer) = (size, Copied::Whole, vec![0; CHUNK]);
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
            let chunk = buffer.get_mut(..most).unwrap_or_default();
            let read = if copied == Copied::Whole { read_some(data, chunk) } else { Ok(0) };
            let read = match read {
                Ok(0) => {
                    if copied == Copied::Whole {
                        copied = Copied::Partly(format!("it became shorter by {left} bytes while it was read"));
                    }
                    chunk.fill(0);
                    chunk.len()
                }
                Ok(read) => read,
                Err(error) => {
                    copied = Copied::Partly(format!("the last {left} bytes cannot be read: {error}"));
                    continue;
                }
            };
            let chunk = buffer.get(..read).unwrap_or_default();
            self.digest.update(chunk);
            self.file.write_all(chunk).map_err(|e| Error::io("write", &self.path)(e))?;
            left = left.saturating_sub(chunk.len() as u64);
            self.unchecked = self.unchecked.saturating_add(chunk.len() as u64);
            if self.unchecked >= LOOK {
                self.unchecked = 0;
                self.check_room()?;
            }
        }
        let rest = [0; BLOCK];
        let rest = rest.get(..padding(size)).unwrap_or_default();
        self.file.write_all(rest).map_err(|e| Error::io("write", &self.path)(e))?;
        Ok(copied)
    }

    /// Ends the archive and syncs it.
    pub(super) fn finish(mut self) -> Result<(), Error> {
        self.file.write_all(&[0; 2 * BLOCK]).map_err(|e| Error::io("write", &self.path)(e))?;
        let Self { file, path, .. } = self;
        let file = file.into_inner().map_err(|e| Error::io("write", &path)(e.into_error()))?;
        crash::point("archive-sync");
        file.sync_all().map_err(Error::io("sync", &path))
    }

    fn fault(&self, error: io::Error) -> Error {
        Error::io("check the disk of", &self.path)(error)
    }
}

/// Entries, bytes of files, and digest of headers and data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) entries: u64,
    pub(super) bytes: u64,
    pub(super) sha256: String,
}

/// Reads an archive.
pub(super) struct Reader {
    file: BufReader<File>,
    path: PathBuf,
    digest: Sha256,
    /// The digest before the header of the current entry.
    before: Summary,
    entries: u64,
    bytes: u64,
    /// Bytes of the current entry that were not read yet, and its padding.
    left: u64,
    padding: usize,
}

impl Reader {
    /// Reads from the beginning of the file.
    pub(super) fn new(file: File, path: &Path) -> Self {
        let before = Summary { entries: 0, bytes: 0, sha256: String::new() };
        let (file, path, digest) = (BufReader::with_capacity(1 << 20, file), path.to_owned(), Sha256::new());
        Self { file, path, digest, before, entries: 0, bytes: 0, left: 0, padding: 0 }
    }

    /// The summary of everything before the current entry.
    pub(super) const fn before(&self) -> &Summary {
        &self.before
    }

    /// The next entry; none at the end. Data of the last one that was not read is passed over.
    pub(super) fn next(&mut self) -> Result<Option<Head>, Error> {
        self.each(|_| Ok(()))?;
        let (mut long_path, mut long_target) = (None, None);
        loop {
            let block = self.block()?;
            if block.iter().all(|byte| *byte == 0) {
                return self.end().map(|()| None);
            }
            let header = Header::from_byte_slice(&block);
            self.check_sum(header, &block)?;
            let damaged = |_| Error::damaged(&self.path, "a header has a number that cannot be read");
            let size = header.entry_size().map_err(damaged)?;
            let mode = header.mode().map_err(damaged)?;
            let modified = header.mtime().map_err(damaged)?;
            self.before = Summary { entries: self.entries, bytes: self.bytes, sha256: hex(self.digest.clone()) };
            self.digest.update(block);
            (self.left, self.padding) = (size, padding(size));
            match header.entry_type() {
                EntryType::GNULongName => {
                    long_path = Some(self.long()?);
                    continue;
                }
                EntryType::GNULongLink => {
                    long_target = Some(self.long()?);
                    continue;
                }
                _ => {}
            }
            let path = long_path.unwrap_or_else(|| until_zero(&header.as_old().name));
            let to = long_target.unwrap_or_else(|| until_zero(&header.as_old().linkname));
            let kind = self.kind(header.entry_type(), &path)?;
            if kind != Kind::File && size > 0 {
                return Err(Error::refused(&self.path, &path, "has data and is not a file"));
            }
            self.entries = self.entries.saturating_add(1);
            self.bytes = self.bytes.saturating_add(size);
            let target = if kind == Kind::Link { to } else { Vec::new() };
            return Ok(Some(Head { path, kind, target, mode, modified, size }));
        }
    }

    fn kind(&self, kind: EntryType, path: &[u8]) -> Result<Kind, Error> {
        let reason = match kind {
            EntryType::Regular => return Ok(Kind::File),
            EntryType::Directory => return Ok(Kind::Directory),
            EntryType::Symlink => return Ok(Kind::Link),
            EntryType::Link => "is a hard link",
            EntryType::Char | EntryType::Block => "is a device",
            EntryType::Fifo => "is a FIFO",
            _ => "is of a kind that Hearth never writes",
        };
        Err(Error::refused(&self.path, path, reason))
    }

    /// Reads what is left of the current entry.
    pub(super) fn each(&mut self, mut with: impl FnMut(&[u8]) -> Result<(), Error>) -> Result<(), Error> {
        let mut buffer = vec![0; CHUNK.min(usize::try_from(self.left).unwrap_or(CHUNK))];
        while self.left > 0 {
            let most = usize::try_from(self.left).unwrap_or(CHUNK).min(buffer.len());
            let chunk = buffer.get_mut(..most).unwrap_or_default();
            self.fill(chunk)?;
            let chunk = buffer.get(..most).unwrap_or_default();
            self.digest.update(chunk);
            with(chunk)?;
            self.left = self.left.saturating_sub(chunk.len() as u64);
        }
        let mut rest = [0; BLOCK];
        let padding = std::mem::take(&mut self.padding);
        self.fill(rest.get_mut(..padding).unwrap_or_default())
    }

    /// Reads a short file.
    pub(super) fn whole(&mut self, head: &Head, max: u64) -> Result<Vec<u8>, Error> {
        if head.size > max {
            return Err(Error::refused(&self.path, &head.path, format!("has more than {max} bytes")));
        }
        let mut bytes = Vec::new();
        self.each(|chunk| {
            bytes.extend_from_slice(chunk);
            Ok(())
        })?;
        Ok(bytes)
    }

    /// A path that is longer than the field of a header.
    fn long(&mut self) -> Result<Vec<u8>, Error> {
        let head = Head { path: b"././@LongLink".to_vec(), size: self.left, ..Head::default() };
        let mut text = self.whole(&head, PATH_MAX as u64 + 1)?;
        text.pop_if(|last| *last == 0);
        Ok(text)
    }

    fn block(&mut self) -> Result<[u8; BLOCK], Error> {
        let mut block = [0; BLOCK];
        self.fill(&mut block)?;
        Ok(block)
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), Error> {
        self.file.read_exact(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Error::damaged(&self.path, "it ends too early"),
            _ => Error::io("read", &self.path)(error),
        })
    }

    fn check_sum(&self, header: &Header, block: &[u8; BLOCK]) -> Result<(), Error> {
        let own = 148..156;
        let value = |(at, byte): (usize, &u8)| if own.contains(&at) { 32 } else { u32::from(*byte) };
        let sum: u32 = block.iter().enumerate().map(value).sum();
        if header.cksum().is_ok_and(|said| said == sum) {
            return Ok(());
        }
        Err(Error::damaged(&self.path, "the checksum of a header is wrong"))
    }

    /// Only zeros follow the end.
    fn end(&mut self) -> Result<(), Error> {
        let mut rest = Vec::new();
        let more = (&mut self.file).take(CHUNK as u64).read_to_end(&mut rest);
        more.map_err(|error| Error::io("read", &self.path)(error))?;
        if rest.len() >= BLOCK && rest.len() < CHUNK && rest.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        Err(Error::damaged(&self.path, "its end is invalid"))
    }
}

/// Bytes that fill the last block.
fn padding(size: u64) -> usize {
    let over = usize::try_from(size % BLOCK as u64).unwrap_or(0);
    if over == 0 { 0 } else { BLOCK - over }
}

fn until_zero(field: &[u8]) -> Vec<u8> {
    field.iter().copied().take_while(|byte| *byte != 0).collect()
}

fn read_some(data: &mut dyn Read, chunk: &mut [u8]) -> io::Result<usize> {
    loop {
        match data.read(chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// A digest as people compare it.
pub(super) fn hex(digest: Sha256) -> String {
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
