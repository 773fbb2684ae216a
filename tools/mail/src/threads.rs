//! The conversations that the bridge knows, so that answers have their subject and come below what they answer. Kept in
//! a file; what is lost costs a subject.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// Conversations that are remembered.
const REMEMBERED: usize = 5_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Thread {
    pub(crate) subject: String,
    /// The id of its last mail.
    pub(crate) last: String,
}

/// All of them, by the id of their first mail.
#[derive(Debug)]
pub(crate) struct Threads {
    path: PathBuf,
    known: BTreeMap<String, Thread>,
    order: VecDeque<String>,
    file: File,
    lines: usize,
}

impl Threads {
    pub(crate) fn open(directory: &Path) -> io::Result<Self> {
        let path = directory.join("threads");
        let text = match std::fs::read(&path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        let file = File::options().create(true).append(true).open(&path)?;
        let mut threads = Self { path, known: BTreeMap::new(), order: VecDeque::new(), file, lines: 0 };
        for value in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            let word = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
            if let (Some(id), Some(subject), Some(last)) = (word("thread"), word("subject"), word("last")) {
                threads.remember(&id, Thread { subject, last });
            }
        }
        threads.rewrite()?;
        Ok(threads)
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Thread> {
        self.known.get(id)
    }

    pub(crate) fn learn(&mut self, id: &str, thread: Thread) -> io::Result<()> {
        if self.known.get(id) == Some(&thread) {
            return Ok(());
        }
        let line = line(id, &thread);
        self.remember(id, thread);
        self.lines += 1;
        if self.lines > 2 * REMEMBERED { self.rewrite() } else { self.file.write_all(line.as_bytes()) }
    }

    fn remember(&mut self, id: &str, thread: Thread) {
        if self.known.insert(id.to_owned(), thread).is_none() {
            self.order.push_back(id.to_owned());
        }
        while self.order.len() > REMEMBERED {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }

    fn rewrite(&mut self) -> io::Result<()> {
        let lines = self.order.iter().filter_map(|id| self.known.get(id).map(|thread| line(id, thread)));
        let new = self.path.with_extension("new");
        std::fs::write(&new, lines.collect::<String>())?;
        std::fs::rename(&new, &self.path)?;
        self.file = File::options().append(true).open(&self.path)?;
        self.lines = self.order.len();
        Ok(())
    }
}

fn line(id: &str, thread: &Thread) -> String {
    let value = json!({ "thread": id, "subject": thread.subject, "last": thread.last });
    format!("{value}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_remembered() {
        let directory = tempfile::tempdir().unwrap();
        let thread = |subject: &str| Thread { subject: subject.to_owned(), last: "b@x".to_owned() };
        let mut threads = Threads::open(directory.path()).unwrap();
        threads.learn("a@x", thread("one")).unwrap();
        threads.learn("a@x", thread("two\nlines")).unwrap();
        std::fs::OpenOptions::new()
            .append(true)
            .open(directory.path().join("threads"))
            .unwrap()
            .write_all(b"{\"thr")
            .unwrap();
        let mut threads = Threads::open(directory.path()).unwrap();
        assert_eq!(threads.get("a@x"), Some(&thread("two\nlines")));
        (0..=REMEMBERED).for_each(|number| threads.remember(&format!("{number}"), thread("x")));
        assert_eq!((threads.get("a@x"), threads.get("0"), threads.get("1")), (None, None, Some(&thread("x"))));
    }
}
