//! What a network reported and the daemon has not stored yet, a file for each report. The network forgets a report once it
//! was taken, so each is on disk before that.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::de::IgnoredAny;

/// How the name of a file ends while it is being written.
const NEW: &str = ".new";

/// The number of a report. Later ones have higher numbers.
pub type Number = u64;

/// The reports, for all threads.
#[derive(Debug, Clone)]
pub struct Spool {
    directory: PathBuf,
    last: Arc<AtomicU64>,
}

impl Spool {
    /// Opens the spool in a directory, with the reports that are in it, in their order.
    ///
    /// # Errors
    /// If the directory cannot be read or written.
    pub fn open(directory: &Path) -> io::Result<(Self, Vec<Number>)> {
        fs::create_dir_all(directory)?;
        let mut numbers = Vec::new();
        for entry in fs::read_dir(directory)? {
            let name = entry?.file_name();
            let name = name.to_string_lossy();
            let number = match (name.parse(), name.strip_suffix(NEW).map(str::parse)) {
                (Ok(number), _) => number,
                (Err(_), Some(Ok(number))) if recovered(directory, number)? => number,
                (Err(_), _) => continue,
            };
            numbers.push(number);
        }
        numbers.sort_unstable();
        let last = Arc::new(AtomicU64::new(numbers.last().copied().unwrap_or_default()));
        Ok((Self { directory: directory.to_owned(), last }, numbers))
    }

    /// Adds a report. It is on disk afterwards.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn add(&self, report: &[u8]) -> io::Result<Number> {
        let number = self.last.fetch_add(1, Ordering::SeqCst) + 1;
        let new = self.directory.join(format!("{number}{NEW}"));
        let mut file = File::create(&new)?;
        file.write_all(report)?;
        file.sync_all()?;
        fs::rename(&new, self.path(number))?;
        File::open(&self.directory)?.sync_all()?;
        Ok(number)
    }

    /// A report; none if it was removed.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn get(&self, number: Number) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.path(number)) {
            Ok(report) => Ok(Some(report)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes a report. After a crash it may be there again; the daemon recognises its messages then.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove(&self, number: Number) -> io::Result<()> {
        fs::remove_file(self.path(number))
    }

    fn path(&self, number: Number) -> PathBuf {
        self.directory.join(number.to_string())
    }
}

/// Keeps what was being written when the bridge died if it is whole, since the network may have forgotten it. What was cut
/// short is removed.
fn recovered(directory: &Path, number: Number) -> io::Result<bool> {
    let new = directory.join(format!("{number}{NEW}"));
    if serde_json::from_slice::<IgnoredAny>(&fs::read(&new)?).is_err() {
        return fs::remove_file(new).map(|()| false);
    }
    File::open(&new)?.sync_all()?;
    fs::rename(new, directory.join(number.to_string()))?;
    File::open(directory)?.sync_all()?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_stay_until_they_are_removed_and_keep_their_order() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("spool");
        let (spool, there) = Spool::open(&directory).unwrap();
        assert!(there.is_empty());
        let numbers: Vec<Number> =
            (0..12).map(|number| spool.add(format!("report {number}").as_bytes()).unwrap()).collect();
        spool.remove(numbers[1]).unwrap();
        fs::write(directory.join("99.new"), "cut").unwrap();
        fs::write(directory.join("strange"), "").unwrap();
        let (again, there) = Spool::open(&directory).unwrap();
        assert_eq!(there, [1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], "by number, and not by name");
        assert_eq!(again.get(numbers[2]).unwrap().as_deref(), Some(&b"report 2"[..]));
        assert_eq!(again.get(numbers[1]).unwrap(), None);
        assert_eq!(again.add(b"more").unwrap(), 13);
        assert!(!directory.join("99.new").exists());
    }

    /// The bridge is killed after a report was written, and before its file has its name.
    #[test]
    fn a_whole_report_without_its_name_is_kept() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path();
        Spool::open(directory).unwrap().0.add(b"{}").unwrap();
        fs::write(directory.join("2.new"), "{\"a\": [1]}").unwrap();
        fs::write(directory.join("3.new"), "{\"a\": [1").unwrap();
        let (again, there) = Spool::open(directory).unwrap();
        assert_eq!(there, [1, 2]);
        assert_eq!(again.get(2).unwrap().as_deref(), Some(&b"{\"a\": [1]}"[..]));
        assert_eq!(fs::read_dir(directory).unwrap().count(), 2, "what was cut short is removed");
    }
}
