//! For arbitrary bytes in the files: nothing panics, and only a valid file makes a claim, an end or an answer.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use proptest::prelude::*;
use serde_json::Value;

use crate::model::mailbox::{Answer, CollectedRecord, Record};

use super::super::text;
use super::{Place, ack, lines, said};

/// Valid files of a mailbox, and their records as lines.
fn sane() -> Vec<(&'static str, String)> {
    vec![
        ("ack/4.1.processing.json", ack(4, 1, "processing", &[])),
        ("ack/4.1.completed.json", ack(4, 1, "completed", &["a"])),
        ("out/a.json", said("a", 1, 5, true)),
        ("out/b.json", said("b", 1, 7, false)),
    ]
}

/// Bytes, or a valid file with a few bytes changed, cut off or repeated.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let damaged =
        (0..4_usize, any::<prop::sample::Index>(), any::<u8>(), any::<bool>()).prop_map(|(n, at, byte, cut)| {
            let mut bytes = sane()[n].1.clone().into_bytes();
            let at = at.index(bytes.len());
            if cut {
                bytes.truncate(at);
            } else {
                bytes[at] = byte;
            }
            bytes
        });
    prop_oneof![prop::collection::vec(any::<u8>(), 0..200), damaged]
}

/// A file is valid if a plain parser of the contract accepts it.
fn is_valid(name: &str, bytes: &[u8]) -> bool {
    let Ok(value) = serde_json::from_slice::<Value>(bytes) else { return false };
    if value["v"] != 1 {
        return false;
    }
    if name.starts_with("ack/") {
        let Ok(ack) = serde_json::from_value::<hearth_wire::Ack>(value) else { return false };
        return name == format!("ack/{}.{}.{}.json", ack.seq, ack.incarnation, ack.status.as_str());
    }
    let Ok(out) = serde_json::from_value::<hearth_wire::OutMessage>(value) else { return false };
    name == format!("out/{}.json", out.id) && out.number % 2 == 1 && out.content.is_object()
}

fn sources(found: &[CollectedRecord]) -> BTreeSet<String> {
    let mut sources = BTreeSet::new();
    for found in found {
        match &found.record {
            Record::Unreadable { .. } | Record::Hidden(_) | Record::Tools(_) | Record::Used { .. } => {}
            Record::Claim { .. } => sources.extend(found.files.last().cloned()),
            Record::Said(said) | Record::Leftover(said) => {
                sources.insert(format!("out/{}.json", said.wire_id));
            }
            Record::End { answers, .. } => {
                sources.extend(found.files.last().cloned());
                for answer in answers {
                    if let Answer::Read(said) = answer {
                        sources.insert(format!("out/{}.json", said.wire_id));
                    }
                }
            }
        }
    }
    sources
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn only_valid_files_count(files in prop::collection::vec((0..4_usize, bytes()), 1..4), rest in any::<bool>()) {
        let place = Place::new();
        for (n, bytes) in &files {
            place.write(sane()[*n].0, bytes);
        }
        let collected = if rest { place.rest(1) } else { place.collect() };
        prop_assert!(collected.faults.is_empty());
        for source in sources(&collected.collection.found) {
            let bytes = fs::read(place.agent(&source)).unwrap();
            prop_assert!(is_valid(&source, &bytes), "{source}: {}", String::from_utf8_lossy(&bytes));
        }
        place.discard(&collected.collection);
        if rest {
            prop_assert_eq!(place.rest(1).collection.found, vec![]);
        } else {
            prop_assert_eq!(place.found(), vec![]);
        }
        place.assert_outside_untouched();
    }

    #[test]
    fn any_name_is_reported_once_and_goes(name in prop::collection::vec(1..=255_u8, 1..80)) {
        let name = OsStr::from_bytes(&name);
        prop_assume!(super::super::dir::is_component(name));
        let place = Place::new();
        fs::write(place.agent("ack").join(name), b"{}").unwrap();
        let collected = place.rest(1);
        place.discard(&collected.collection);
        prop_assert!(fs::symlink_metadata(place.agent("ack").join(name)).is_err());
        let shown = text::escape(name);
        prop_assert_eq!(text::unescape(&shown), Some(name.to_owned()));
        prop_assert!(shown.is_ascii() && !shown.chars().any(char::is_control));
    }

    #[test]
    fn rewritten_files_never_panic(bytes in bytes()) {
        let place = Place::new();
        for name in ["state.json", "session.json", "heartbeat"] {
            place.write(name, &bytes);
        }
        place.mailboxes.observe(super::SESSION, 1).unwrap();
        place.mailboxes.continuations(super::SESSION).unwrap();
    }
}

#[test]
fn the_valid_files_are_valid() {
    let place = Place::new();
    for (name, text) in sane() {
        place.write(name, &text);
        assert!(is_valid(name, text.as_bytes()), "{name}");
    }
    assert_eq!(lines(&place.found()), ["claim 4 by 1", "said 7 b", "end 4 by 1 [a \"text of a\"]"]);
}
