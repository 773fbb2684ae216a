//! Tests of all rules of the mailbox, and of every attack that an agent can make in its half.

mod collect;
mod discard;
mod export;
#[cfg(target_os = "linux")]
mod faults;
mod files;
mod laws;
mod observe;
mod paths;
mod replies;
mod rest;
mod secrets;
mod tricks;
mod watch;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::model::effect::Discard;
use crate::model::id::SessionId;
use crate::model::mailbox::{Answer, CollectedRecord, Collection, Record};

use super::{Blobs, Collected, Mailboxes};

/// An installation with one session, and files outside of it that must not change.
pub(super) struct Place {
    root: tempfile::TempDir,
    pub(super) mailboxes: Mailboxes,
    pub(super) blobs: Arc<Blobs>,
    before: BTreeMap<PathBuf, String>,
}

pub(super) const SESSION: SessionId = SessionId::new(12);
pub(super) const SECRET: &str = r#"{"v":1,"secret":"nobody reads this"}"#;

impl Place {
    pub(super) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let outside = root.path().join("outside");
        fs::create_dir_all(outside.join("directory")).unwrap();
        fs::write(outside.join("secret.json"), SECRET).unwrap();
        fs::write(outside.join("directory/4.1.completed.json"), ack(4, 1, "completed", &[])).unwrap();
        fs::write(outside.join("directory/a.json"), said("a", 1, 5, false)).unwrap();
        let blobs = Arc::new(Blobs::open(&root.path().join("files")).unwrap());
        let mailboxes = Mailboxes::open(&root.path().join("sessions"), Arc::clone(&blobs), "in1").unwrap();
        mailboxes.prepare(SESSION).unwrap();
        let before = snapshot(&outside);
        Self { root, mailboxes, blobs, before }
    }

    pub(super) fn outside(&self) -> PathBuf {
        self.root.path().join("outside")
    }

    pub(super) fn host(&self, path: &str) -> PathBuf {
        self.mailboxes.path(SESSION).join("host").join(path)
    }

    pub(super) fn agent(&self, path: &str) -> PathBuf {
        self.mailboxes.path(SESSION).join("agent").join(path)
    }

    pub(super) fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.agent(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    pub(super) fn collect(&self) -> Collected {
        self.mailboxes.collect(SESSION, u32::MAX).unwrap()
    }

    pub(super) fn found(&self) -> Vec<CollectedRecord> {
        let collected = self.collect();
        assert!(collected.faults.is_empty(), "{:?}", collected.faults);
        collected.collection.found
    }

    pub(super) fn rest(&self, incarnation: u32) -> Collected {
        self.mailboxes.collect_rest(SESSION, incarnation, u32::MAX).unwrap()
    }

    /// Acts like the engine after it accepted a complete collection.
    pub(super) fn discard(&self, collection: &Collection) {
        let agent_files = collection.found.iter().flat_map(|found| found.files.clone()).collect();
        self.mailboxes
            .discard(&Discard { session: SESSION, seqs: Vec::new(), files: Vec::new(), agent_files })
            .unwrap();
    }

    /// Asserts that nothing outside was written, removed, or changed in its metadata.
    pub(super) fn assert_outside_untouched(&self) {
        assert_eq!(snapshot(&self.outside()), self.before);
    }

    /// Asserts that a hostile file causes one report, and is never seen again after the discard.
    pub(super) fn assert_reported_once(&self, file: &str, reason: &str) {
        let collected = self.collect();
        assert!(collected.faults.is_empty(), "{:?}", collected.faults);
        let reports = unreadable(&collected.collection.found);
        assert_eq!(reports, [(file.to_owned(), reason.to_owned())]);
        self.discard(&collected.collection);
        assert_eq!(self.found(), [], "reported again");
        self.assert_outside_untouched();
    }
}

pub(super) fn unreadable(found: &[CollectedRecord]) -> Vec<(String, String)> {
    let report = |found: &CollectedRecord| match &found.record {
        Record::Unreadable { file, reason } => Some((file.clone(), reason.clone())),
        _ => None,
    };
    found.iter().filter_map(report).collect()
}

/// One line per record, for comparison.
pub(super) fn lines(found: &[CollectedRecord]) -> Vec<String> {
    found
        .iter()
        .map(|found| match &found.record {
            Record::Claim { seq, incarnation } => format!("claim {seq} by {incarnation}"),
            Record::Said(said) => format!("said {} {}", said.number, said.wire_id),
            Record::Leftover(said) => format!("leftover {} {}", said.number, said.wire_id),
            Record::Unreadable { file, .. } => format!("unreadable {file}"),
            Record::Hidden(hidden) => format!("hidden {:?}", hidden.names),
            Record::Tools(names) => format!("tools {names:?}"),
            Record::Used { seq, incarnation, used } => {
                format!("used for {seq} by {incarnation}: {} models", used.len())
            }
            Record::End { seq, incarnation, failure, answers, .. } => {
                let answers: Vec<String> = answers.iter().map(answer_line).collect();
                let error = failure.as_ref().map(|failure| format!(" failed: {}", failure.error)).unwrap_or_default();
                format!("end {seq} by {incarnation}{error} [{}]", answers.join(", "))
            }
        })
        .collect()
}

fn answer_line(answer: &Answer) -> String {
    match answer {
        Answer::Read(said) => format!("{} {:?}", said.wire_id, said.text),
        Answer::Missing(id) => format!("{id} missing"),
        Answer::Refused { id, reason } => format!("{id} refused: {reason}"),
    }
}

pub(super) fn ack(seq: u64, incarnation: u32, status: &str, out: &[&str]) -> String {
    json!({ "v": 1, "seq": seq, "incarnation": incarnation, "status": status, "at": "2026-04-20T12:00:00.000Z", "out": out })
        .to_string()
}

pub(super) fn said(id: &str, incarnation: u32, number: u64, is_final: bool) -> String {
    said_with(id, incarnation, number, json!({ "final": is_final }))
}

/// An outgoing message with changed values for some keys; `null` removes a key.
pub(super) fn said_with(id: &str, incarnation: u32, number: u64, other: Value) -> String {
    let mut value = json!({
        "v": 1, "id": id, "incarnation": incarnation, "number": number, "final": false, "kind": "chat",
        "content": { "text": format!("text of {id}") },
    });
    for (key, other) in other.as_object().unwrap() {
        if other.is_null() {
            value.as_object_mut().unwrap().remove(key);
        } else {
            value[key] = other.clone();
        }
    }
    value.to_string()
}

/// Everything about a directory tree except access times.
fn snapshot(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut all = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(path) = open.pop() {
        let meta = fs::symlink_metadata(&path).unwrap();
        let content = if meta.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            String::new()
        } else {
            fs::read_to_string(&path).unwrap()
        };
        let line = format!("{:o} {} {}.{} {content}", meta.mode(), meta.uid(), meta.mtime(), meta.mtime_nsec());
        all.insert(path, line);
    }
    all
}

pub(super) fn names(path: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

pub(super) fn fifo(path: &Path) {
    let mode = rustix::fs::Mode::from_raw_mode(0o644);
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
}

pub(super) fn os(name: &str) -> &OsStr {
    OsStr::new(name)
}
