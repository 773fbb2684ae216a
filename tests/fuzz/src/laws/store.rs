//! Bytes of the store, and the lines that a store is exchanged as.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use hearth::model::message::Message;
use hearth::state::backup::Unwatched;
use hearth::state::check::check;
use hearth::state::envelope::{self, Unreadable};
use hearth::state::lines::{Import, export, import};
use hearth::state::records::{RECORDS, rewrite};
use hearth::state::{Reader, Tables};
use sha2::{Digest as _, Sha256};

use super::headed;

/// Name and version of a record in a line, then its body. There is one encoding: a record that is read and written
/// again has the same bytes. A flipped bit is detected.
pub fn records(bytes: &[u8]) {
    let Some((head, body)) = headed(bytes) else { return };
    let Some((name, version)) = head.split_once(' ') else { return };
    let Ok(version) = version.parse() else { return };
    let Some(rewritten) = rewrite(name, version, body) else { return };
    let Ok(sealed) = rewritten else { return };
    let (_, newest) = RECORDS.iter().find(|(known, _)| *known == name).expect("it was read");
    let body = sealed.get(ENVELOPE..).expect("an envelope has a head");
    let again = rewrite(name, *newest, body).expect("it was read");
    assert_eq!(again.as_ref(), Ok(&sealed));
    for at in 0..sealed.len().min(40) {
        let mut damaged = sealed.clone();
        damaged[at] ^= 1 << (at % 8);
        assert!(matches!(envelope::open::<Message>(&damaged), Err(Unreadable::Damaged(_))), "{name}: byte {at}");
    }
}

/// Name of a table in a line, then one of its keys. A key has one spelling.
pub fn keys(bytes: &[u8]) {
    let Some((table, key)) = headed(bytes) else { return };
    match Tables::rewrite_key(table, key) {
        Some(Ok((again, shown))) => assert_eq!(again, key, "{shown}"),
        Some(Err(bad)) => assert!(!bad.to_string().is_empty()),
        None => {}
    }
}

/// Bytes of an envelope before the body.
const ENVELOPE: usize = 7;

pub(super) fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory")
}

/// Lines without their checksums and the final line, which are added here. An import that succeeds gives a consistent
/// store. Its export can be imported again with the same result, except for counters that an import advances. A refused
/// import leaves nothing.
pub fn lines(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Some(first) = taken(&whole(text)) else { return };
    let second = taken(&first).expect("what was exported can be imported");
    assert_eq!(lasting(&second), lasting(&first));
}

/// The rows that every import keeps as they are.
fn lasting(lines: &str) -> Vec<&str> {
    let moves = |line: &&str| line.starts_with("{\"table\":\"counters\"") || line.starts_with("{\"end\"");
    lines.lines().filter(|line| !moves(line)).collect()
}

/// The export of the store that is imported from lines; none if they are refused.
fn taken(lines: &str) -> Option<String> {
    let dir = directory();
    let request = Import { data: dir.path(), install: None, epoch: 9 };
    if let Err(error) = import(request, &mut lines.as_bytes(), &|_| Ok(()), &Unwatched) {
        assert!(!error.to_string().is_empty());
        assert!(Reader::open(dir.path()).is_err(), "refused, and a store is left: {error}");
        return None;
    }
    let reader = Reader::open(dir.path()).expect("what was imported opens");
    let found = reader.read(|tables: &Tables, txn| check(tables, txn)).expect("it can be checked");
    assert!(found.is_empty(), "{found:?}");
    let mut out = Vec::new();
    export(&reader, &mut out, &Unwatched).expect("it can be exported");
    Some(String::from_utf8(out).expect("lines are text"))
}

/// Adds the checksums and the final line.
pub(super) fn whole(text: &str) -> String {
    let (mut out, mut rows, mut tables) = (String::new(), 0_u64, BTreeMap::<String, u64>::new());
    for (at, line) in text.lines().enumerate() {
        let row: Option<serde_json::Value> = serde_json::from_str(line).ok();
        let table = row.as_ref().and_then(|row| row.get("table")?.as_str());
        if let Some(table) = table.filter(|_| at > 0) {
            *tables.entry(table.to_owned()).or_default() += 1;
            rows += 1;
        }
        out.push_str(&sealed(line));
    }
    let sha256 = Sha256::digest(out.as_bytes()).iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("text takes text");
        hex
    });
    let tables = serde_json::to_string(&tables).expect("counts are JSON");
    out.push_str(&sealed(&format!("{{\"end\":true,\"rows\":{rows},\"tables\":{tables},\"sha256\":\"{sha256}\"}}")));
    out
}

fn sealed(line: &str) -> String {
    let open = line.strip_suffix('}').unwrap_or(line);
    format!("{open},\"sum\":\"{:08x}\"}}\n", crc32fast::hash(open.as_bytes()))
}
