//! Dumps show everything, redact private data, and name damage.

use crate::dump::{Changes, Follow, Format, Options, Summary, dump, to_text};
use crate::model::id::{AgentId, BodyId};
use crate::tests::{samples, store};
use crate::{Error, InboxKey, Number, Reader, Store, Text};

fn lines(store: &Store, options: &Options) -> (Vec<serde_json::Value>, Summary) {
    let mut out = Vec::new();
    let summary = dump(store.reader(), options, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    (text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), summary)
}

fn json(table: Option<&str>) -> Options {
    Options { format: Format::Json, table: table.map(str::to_owned), bodies: false }
}

#[test]
fn a_small_world_as_text() {
    let (_dir, store) = store();
    store.write(samples::fill).unwrap();
    insta::assert_snapshot!("world", to_text(store.reader(), true).unwrap());
}

/// A dump is attached to bug reports, so people's texts and names must be redacted.
#[test]
fn nothing_private_is_shown_unasked() {
    let (_dir, store) = store();
    store.write(samples::fill).unwrap();
    let shown = to_text(store.reader(), false).unwrap();
    let (lines, _) = lines(&store, &json(None));
    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    for private in [
        "dinner",
        "An answer",
        "Ada",
        "Family",
        "Gustava",
        "plan.pdf",
        "plants",
        "Pizza",
        "unused",
        "0123\"",
        "nonce: 77",
        "calm",
    ] {
        assert!(!shown.contains(private), "{private}");
        assert!(!lines.join("\n").contains(private), "{private}");
    }
    assert!(shown.contains("<24 bytes>"), "sizes stay");
}

#[test]
fn rows_as_json() {
    let (_dir, store) = store();
    store.write(samples::fill).unwrap();
    let (ready, summary) = lines(&store, &json(Some("ready")));
    assert_eq!(ready, [serde_json::json!({"table": "ready", "key": ["se1", "4"], "value": ["ms2"]})]);
    assert_eq!(summary, Summary { tables: 1, rows: 1, unreadable: 0 });
    let (chats, _) = lines(&store, &json(Some("chats")));
    assert_eq!(chats[0]["value"]["platform_id"], "-100");
}

#[test]
fn damage_is_shown_and_the_walk_goes_on() {
    let (_dir, store) = store();
    store.write(samples::fill).unwrap();
    store.write(|db, txn| db.agents.put_bytes(txn, &AgentId::new(1), b"rubbish!")).unwrap();
    let (agents, summary) = lines(&store, &json(Some("agents")));
    assert_eq!(summary, Summary { tables: 1, rows: 1, unreadable: 1 });
    assert!(agents[0]["unreadable"].as_str().unwrap().contains("the row ag1 of table agents is damaged"), "{agents:?}");
    assert_eq!(agents[1]["key"], serde_json::json!(["ag2"]));
}

#[test]
fn long_tables_are_walked_in_slices() {
    let (dir, store) = store();
    let key = |n: u64| Text::new(format!("{n:05}")).unwrap();
    store.write(|db, txn| (0..1_234).try_for_each(|n| db.counters.put(txn, &key(n), &Number(n)))).unwrap();
    let (rows, summary) = lines(&store, &json(Some("counters")));
    assert_eq!(summary.rows, 1_234);
    assert_eq!(rows.last().unwrap()["key"], serde_json::json!(["01233"]));
    drop(store);
    let reader = Reader::open(dir.path()).unwrap();
    assert_eq!(to_text(&reader, false).unwrap().lines().count(), 1_234 + 3);
}

/// Large rows one after the other: a slice also ends at its byte limit.
#[test]
fn large_rows_are_walked_one_by_one() {
    let (_dir, store) = store();
    store.write(samples::fill).unwrap();
    store
        .write(|db, txn| {
            let mut body = db.bodies.require(txn, &BodyId::new(1))?;
            body.content.text = "x".repeat(3 << 20);
            (2..6).try_for_each(|n| db.bodies.put(txn, &BodyId::new(n), &body))
        })
        .unwrap();
    let (bodies, _) = lines(&store, &json(Some("bodies")));
    assert_eq!(bodies.len(), 5);
    let too_large = store.write(|db, txn| {
        let mut body = db.bodies.require(txn, &BodyId::new(1))?;
        body.content.text = "x".repeat(17 << 20);
        db.bodies.put(txn, &BodyId::new(9), &body)
    });
    assert!(matches!(too_large, Err(Error::TooLarge { table: "bodies", .. })), "{too_large:?}");
}

#[test]
fn rows_are_shown_as_they_change() {
    let (_dir, store) = store();
    store.write(samples::fill).unwrap();
    let text = Options { format: Format::Text, table: None, bodies: false };
    let mut follow = Follow::start(store.reader(), text).unwrap();
    let mut json = Follow::start(store.reader(), self::json(Some("counters"))).unwrap();
    let look = |follow: &mut Follow<'_>| {
        let mut out = Vec::new();
        let changes = follow.changes(&mut out).unwrap();
        (String::from_utf8(out).unwrap(), changes)
    };
    assert_eq!(look(&mut follow), (String::new(), Changes::default()), "what is there is not news");
    let key = |text: &str| Text::new(text).unwrap();
    store
        .write(|db, txn| {
            db.counters.put(txn, &key("new"), &Number(1))?;
            db.ready_messages.remove(txn, &InboxKey { session: samples::SESSION, seq: 4 })?;
            let mut body = db.bodies.require(txn, &BodyId::new(1))?;
            body.content.text = "a secret".to_owned();
            db.bodies.put(txn, &BodyId::new(1), &body)?;
            db.agents.put_bytes(txn, &AgentId::new(1), b"rubbish!")
        })
        .unwrap();
    let (shown, changes) = look(&mut follow);
    assert_eq!(changes, Changes { rows: 4, unreadable: 1 });
    assert!(!shown.contains("secret"), "{shown}");
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], "+ counters new: Number(1)");
    assert!(lines[1].starts_with("~ agents 0x0000000000000001: !! the row ag1 of table agents is damaged"), "{shown}");
    assert!(lines[2].starts_with("~ bodies mb1: Body {") && lines[2].contains("<8 bytes>"), "{shown}");
    assert_eq!(lines[3], "- ready se1/4");
    assert_eq!(look(&mut json).0, "{\"table\":\"counters\",\"change\":\"added\",\"key\":[\"new\"],\"value\":1}\n");
    assert_eq!(look(&mut follow).1, Changes::default());
}
