//! The build context: a tar archive that is generated while it is sent, because one of its files may be hundreds of
//! megabytes. All timestamps are fixed, so Podman's cache rebuilds only what differs.

use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;

use super::Error;

/// Block size of tar.
const BLOCK: u64 = 512;
/// Bytes read at once.
const PIECE: usize = 64 * 1024;

/// Files and directories, in their order.
#[derive(Debug, Default)]
pub(super) struct Context {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    name: &'static str,
    mode: u32,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Directory,
    Bytes(Vec<u8>),
    File(PathBuf, u64),
}

impl Content {
    fn length(&self) -> u64 {
        match self {
            Self::Directory => 0,
            Self::Bytes(bytes) => u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            Self::File(_, length) => *length,
        }
    }
}

impl Context {
    pub(super) fn directory(mut self, name: &'static str) -> Self {
        self.entries.push(Entry { name, mode: 0o755, content: Content::Directory });
        self
    }

    pub(super) fn bytes(mut self, name: &'static str, bytes: impl Into<Vec<u8>>) -> Self {
        self.entries.push(Entry { name, mode: 0o644, content: Content::Bytes(bytes.into()) });
        self
    }

    /// A program of the host.
    pub(super) fn program(mut self, name: &'static str, path: PathBuf) -> Result<Self, Error> {
        let length = match std::fs::metadata(&path) {
            Ok(file) => file.len(),
            Err(source) => return Err(Error::File { path, source }),
        };
        self.entries.push(Entry { name, mode: 0o755, content: Content::File(path, length) });
        Ok(self)
    }

    /// Bytes of the archive.
    pub(super) fn length(&self) -> u64 {
        let blocks: u64 = self.entries.iter().map(|entry| 1 + entry.content.length().div_ceil(BLOCK)).sum();
        (blocks + 2) * BLOCK
    }

    /// Writes the archive piece by piece.
    pub(super) fn write(&self, put: &mut dyn FnMut(&[u8]) -> Result<(), Error>) -> Result<(), Error> {
        for entry in &self.entries {
            put(&header(entry))?;
            match &entry.content {
                Content::Directory => {}
                Content::Bytes(bytes) => put(bytes)?,
                Content::File(path, length) => copy(path, *length, put)?,
            }
            let beyond = entry.content.length() % BLOCK;
            if beyond > 0 {
                put(&vec![0; usize::try_from(BLOCK - beyond).unwrap_or(0)])?;
            }
        }
        put(&[0; 2 * 512])
    }
}

/// Copies exactly `length` bytes; a file that became shorter meanwhile is an error.
fn copy(path: &PathBuf, length: u64, put: &mut dyn FnMut(&[u8]) -> Result<(), Error>) -> Result<(), Error> {
    let failed = |source| Error::File { path: path.clone(), source };
    let mut file = File::open(path).map_err(failed)?.take(length);
    let mut piece = vec![0; PIECE];
    let mut left = length;
    while left > 0 {
        let count = file.read(&mut piece).map_err(failed)?;
        if count == 0 {
            return Err(failed(std::io::ErrorKind::UnexpectedEof.into()));
        }
        put(piece.get(..count).unwrap_or_default())?;
        left = left.saturating_sub(u64::try_from(count).unwrap_or(left));
    }
    Ok(())
}

/// The header of an entry in the form `ustar`: octal numbers in ASCII, each ended by a zero.
fn header(entry: &Entry) -> Vec<u8> {
    let kind = if matches!(entry.content, Content::Directory) { "5" } else { "0" };
    let fields: [(&str, usize); 11] = [
        (entry.name, 100),
        (&format!("{:07o}", entry.mode), 8),
        ("0000000", 8), // owner
        ("0000000", 8), // group
        (&format!("{:011o}", entry.content.length()), 12),
        ("00000000000", 12), // time
        ("        ", 8),     // where the checksum goes
        (kind, 1),
        ("", 100),
        ("ustar\x0000", 8),
        ("", 247),
    ];
    let mut header = Vec::with_capacity(512);
    for (text, length) in fields {
        let end = header.len() + length;
        header.extend(text.bytes().take(length));
        header.resize(end, 0);
    }
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    let checksum = format!("{sum:06o}\0 ");
    header.splice(148..156, checksum.bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `tar` of the system reads what was written.
    #[test]
    #[allow(clippy::disallowed_methods, reason = "the test asks another program")]
    fn the_archive_is_what_tar_understands() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("program");
        std::fs::write(&program, vec![7; 100_001]).unwrap();
        let context = Context::default().bytes("Containerfile", "FROM x\n").directory("cli/");
        let context = context.program("cli/claude", program.clone()).unwrap();
        let mut archive = Vec::new();
        context
            .write(&mut |bytes| {
                archive.extend_from_slice(bytes);
                Ok(())
            })
            .unwrap();
        assert_eq!(u64::try_from(archive.len()).unwrap(), context.length());
        let path = dir.path().join("archive");
        std::fs::write(&path, &archive).unwrap();
        let run = |arguments: &[&str]| {
            let output = std::process::Command::new("tar").args(arguments).arg(&path).output().unwrap();
            assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
            output.stdout
        };
        assert_eq!(String::from_utf8(run(&["-tf"])).unwrap(), "Containerfile\ncli/\ncli/claude\n");
        assert_eq!(run(&["-xO", "--wildcards", "*claude", "-f"]), vec![7; 100_001]);
        let listed = String::from_utf8(run(&["-tvf"])).unwrap();
        assert!(listed.contains("-rwxr-xr-x 0/0          100001 1970-01-01"), "{listed}");

        std::fs::write(&program, "shorter").unwrap();
        assert!(matches!(context.write(&mut |_| Ok(())), Err(Error::File { .. })));
    }
}
