//! Tests of opening stores, transactions and space.

use crate::model::configure::Settings;
use crate::model::id::{AgentId, ChatId, Counted, MessageId, SessionId};
use crate::model::{Awake, Timestamp};
use crate::room::{Admission, NoRoom};
use crate::tests::{small, store};
use crate::{
    Error, InboxKey, Meta, Number, Options, Owned, Read, Reader, Result, Store, Tables, Text, Timed, Write, migrate,
};

fn text(text: &str) -> Text {
    Text::new(text).unwrap()
}

#[test]
fn a_store_is_made_once_and_counts_its_runs() {
    let dir = tempfile::tempdir().unwrap();
    {
        let store = Store::open(dir.path(), small()).unwrap();
        assert_eq!(store.install(), 0x00c0_ffee);
        assert_eq!((store.begin_run().unwrap(), store.begin_run().unwrap()), (1, 2));
        assert!(store.has_reserve());
    }
    let store = Store::open(dir.path(), Options { install: 7, ..small() }).unwrap();
    assert_eq!(store.install(), 0x00c0_ffee, "the identity stays");
    assert_eq!(store.begin_run().unwrap(), 3);
}

/// A file with its bytes, or a directory.
type Entry<'a> = (&'a str, Option<&'a [u8]>);

/// States that a crash leaves while the first store is being created: each state on disk in turn, with its file
/// truncated at many offsets. For readers it is no store or an empty one, and the next start completes it.
#[test]
fn a_death_while_the_store_is_made_leaves_no_half_of_it() {
    let whole = {
        let (dir, store) = store();
        drop(store);
        std::fs::read(dir.path().join("store").join("data.mdb")).unwrap()
    };
    let cuts = [0, 1, 16, 40, 136, 4095, 4096, 4097, 8191, 8192, 8193, 12_288, whole.len() / 2, whole.len() - 1];
    let mut states: Vec<Vec<Entry<'_>>> = vec![
        vec![],
        vec![("hearth.lock", Some(b""))],
        vec![("hearth.lock", Some(b"12")), ("store", None)],
        vec![("store", None), ("store.next", None)],
        vec![("store", None), ("store.next", None), ("store.next/lock.mdb", Some(b"half"))],
        vec![("store", None), ("store/data.mdb", Some(&whole)), ("store.next", None)],
        vec![
            ("store", None),
            ("store/data.mdb", Some(&whole)),
            ("store.next", None),
            ("store.next/lock.mdb", Some(b"")),
        ],
        vec![("store", None), ("store/data.mdb", Some(&whole)), ("store/reserve", Some(b"ha"))],
        vec![("store", None), ("store/lock.mdb", Some(b""))],
    ];
    for cut in cuts.into_iter().chain([whole.len()]) {
        states.push(vec![("store", None), ("store.next", None), ("store.next/data.mdb", Some(&whole[..cut]))]);
    }
    for state in states {
        let dir = tempfile::tempdir().unwrap();
        let shown: Vec<_> = state.iter().map(|(name, bytes)| (*name, bytes.map(<[u8]>::len))).collect();
        for (name, bytes) in &state {
            match bytes {
                None => std::fs::create_dir(dir.path().join(name)).unwrap(),
                Some(bytes) => std::fs::write(dir.path().join(name), bytes).unwrap(),
            }
        }
        let complete = state.iter().any(|(name, bytes)| *name == "store/data.mdb" && *bytes == Some(&whole));
        if complete {
            Reader::open(dir.path()).unwrap();
        } else if !state.iter().any(|(name, _)| *name == "store/data.mdb") {
            let read = Reader::open(dir.path());
            assert!(matches!(read, Err(Error::NoStore { .. })), "{shown:?}: {read:?}");
        }
        let store = Store::open(dir.path(), small()).unwrap_or_else(|error| panic!("{shown:?}: {error}"));
        let (found, meta) =
            store.read(|db, txn| Ok::<_, Error>((crate::check::check(db, txn)?, db.meta.require(txn, &())?))).unwrap();
        assert_eq!((found.len(), meta.install, store.begin_run().unwrap()), (0, 0x00c0_ffee, 1), "{shown:?}");
        assert!(store.has_reserve(), "{shown:?}");
        assert!(!dir.path().join("store.next").exists(), "{shown:?}");
        drop(store);
        Reader::open(dir.path()).unwrap();
    }
}

#[test]
fn the_second_writer_is_told_who_the_first_is() {
    let (dir, _store) = store();
    let message = Store::open(dir.path(), small()).unwrap_err().to_string();
    assert!(message.contains(&format!("in use by process {}", std::process::id())), "{message}");
}

#[test]
fn a_full_terabyte_is_reserved_and_takes_no_space() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options { map_bytes: None, ..small() }).unwrap();
    store.begin_run().unwrap();
    let bytes = std::fs::metadata(dir.path().join("store/data.mdb")).unwrap().len();
    assert!(bytes < 1 << 20, "{bytes}");
}

#[test]
fn what_fails_leaves_nothing() {
    let (_dir, store) = store();
    let failed: Result<()> = store.write(|db, txn| {
        db.counters.put(txn, &text("a"), &Number(1))?;
        db.agents.require(txn, &AgentId::new(9)).map(|_| ())
    });
    assert_eq!(
        failed.unwrap_err().to_string(),
        "the row ag9 of table agents is missing, and other rows refer to it: the store is damaged"
    );
    assert_eq!(store.read(|db, txn| db.counters.len(txn)).unwrap(), 0);
}

#[test]
fn one_failure_in_a_group_harms_nobody() {
    let undoable: [fn(&u64) -> bool; 4] = [|_| false, |_| true, |n| *n == 3, |n| *n == 2];
    for undoable in undoable {
        let (_dir, store) = store();
        let put = |db: &Tables, txn: &mut Write<'_>, n: &u64| {
            db.counters.put(txn, &text("last"), &Number(*n))?;
            db.counters.add(txn, &text(&format!("n{n}")), &Number(*n))?;
            if *n == 3 { db.agents.require(txn, &AgentId::new(*n)).map(|_| 0) } else { Ok(*n) }
        };
        let answers = store.write_batch(&[1, 2, 3, 4], put, undoable, Error::is_full).unwrap();
        let numbers: Vec<Option<u64>> = answers.into_iter().map(Result::ok).collect();
        assert_eq!(numbers, [Some(1), Some(2), None, Some(4)]);
        let alone = store.write_batch(&[3], put, undoable, Error::is_full).unwrap();
        assert!(matches!(alone.as_slice(), [Err(Error::Missing { .. })]), "{alone:?}");
        let keys =
            |db: &Tables, txn: &Read<'_>| db.counters.iter(txn)?.map(|row| Ok(row?.0)).collect::<Result<Vec<_>>>();
        assert_eq!(store.read(keys).unwrap(), [text("last"), text("n1"), text("n2"), text("n4")]);
    }
}

#[test]
fn rows_are_read_in_every_way() {
    let (_dir, store) = store();
    let (session, other) = (SessionId::new(1), SessionId::new(2));
    let at = |session, seq| InboxKey { session, seq };
    let row = |session, seq| (at(session, seq), MessageId::new(seq * 10));
    store
        .write(|db, txn| {
            // Rows in any order: the second one sorts before the first.
            for (key, value) in [row(session, 4), row(session, 2), row(other, 2)] {
                db.ready_messages.set(txn, &key, &value)?;
            }
            db.ready_messages.add(txn, &at(session, 6), &MessageId::new(60))?;
            assert!(matches!(db.ready_messages.add(txn, &at(other, 2), &MessageId::new(1)), Err(Error::Exists { .. })));
            // Collected rows allow changing the table during the walk.
            for (key, value) in db.ready_messages.collect_prefix(txn, &session, 2)? {
                db.ready_messages.set(txn, &key, &value)?;
            }
            Ok::<_, Error>(())
        })
        .unwrap();
    store
        .read(|db, txn| {
            let ready = db.ready_messages;
            assert_eq!(ready.get(txn, &at(session, 4))?, Some(MessageId::new(40)));
            assert_eq!(ready.first(txn, ..)?, Some(row(session, 2)));
            assert_eq!(ready.last(txn, ..)?, Some(row(other, 2)));
            assert_eq!(ready.first(txn, at(session, 3)..)?, Some(row(session, 4)));
            assert_eq!(ready.last(txn, ..at(session, 4))?, Some(row(session, 2)));
            assert_eq!(ready.first_in(txn, &other)?, Some(row(other, 2)));
            assert_eq!(ready.first_in(txn, &SessionId::new(0))?, None);
            assert_eq!(ready.last_in(txn, &session)?, Some(row(session, 6)));
            assert_eq!(ready.last_in(txn, &SessionId::new(u64::MAX))?, None);
            assert_eq!(ready.after(txn, &at(session, 6))?, Some(row(other, 2)));
            assert_eq!(ready.collect_range(txn, at(session, 4)..=at(other, 2), 9)?.len(), 3);
            assert_eq!(ready.collect_prefix(txn, &session, 2)?, [row(session, 2), row(session, 4)]);
            Ok::<_, Error>(())
        })
        .unwrap();
    assert!(store.write(|db, txn| db.ready_messages.remove(txn, &at(other, 2))).unwrap());
    assert!(!store.write(|db, txn| db.ready_messages.remove(txn, &at(other, 2))).unwrap());
}

#[test]
fn keys_of_one_row_and_rows_without_a_value() {
    let (_dir, store) = store();
    store
        .write(|db, txn| {
            db.settings.put(txn, &(), &Settings { max_containers: Some(3), ..Settings::default() })?;
            db.wirings_by_agent.set(txn, &Owned { owner: AgentId::new(1), id: ChatId::new(2) }, &())?;
            db.messages_in_backoff.set(txn, &Timed { at: Awake::new(1, 5), id: MessageId::new(1) }, &())?;
            db.scheduled_messages.set(txn, &Timed { at: Timestamp::from_millis(-1), id: MessageId::new(1) }, &())
        })
        .unwrap();
    store
        .read(|db, txn| {
            assert_eq!(db.settings.require(txn, &())?.max_containers, Some(3));
            assert_eq!(db.wirings_by_agent.first_in(txn, &AgentId::new(1))?.unwrap().0.id, ChatId::new(2));
            assert!(
                db.scheduled_messages
                    .first(txn, ..Timed { at: Timestamp::from_millis(0), id: MessageId::new(0) })?
                    .is_some()
            );
            Ok::<_, Error>(())
        })
        .unwrap();
}

#[test]
fn ids_are_given_out_once() {
    let (_dir, store) = store();
    let ids = store
        .write(|db, txn| Ok::<_, Error>([db.allocate::<AgentId>(txn)?, db.allocate(txn)?, AgentId::from_number(0)]))
        .unwrap();
    assert_eq!(ids, [AgentId::new(1), AgentId::new(2), AgentId::new(0)]);
    assert_eq!(store.read(|db, txn| db.counter::<ChatId>(txn)).unwrap(), 0);
}

/// A daemon that was downgraded must not change what it does not understand.
#[test]
fn a_newer_store_is_refused_and_left_alone() {
    let (dir, store) = store();
    let newer = Meta { format: migrate::FORMAT + 1, install: 1, runs: 1, epochs: Vec::new() };
    store.write(|db, txn| db.meta.put(txn, &(), &newer)).unwrap();
    drop(store);
    let bytes = std::fs::read(dir.path().join("store/data.mdb")).unwrap();
    for message in
        [Store::open(dir.path(), small()).unwrap_err().to_string(), Reader::open(dir.path()).unwrap_err().to_string()]
    {
        let known = migrate::FORMAT;
        let expected =
            format!("has format {}, this Hearth supports formats only up to {known}: install the newer", known + 1);
        assert!(message.contains(&expected), "{message}");
    }
    assert_eq!(std::fs::read(dir.path().join("store/data.mdb")).unwrap(), bytes);
}

#[test]
fn reading_makes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(Reader::open(dir.path()), Err(Error::NoStore { .. })));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    drop(Store::open(dir.path(), small()).unwrap());
    let reader = Reader::open(dir.path()).unwrap();
    assert_eq!(reader.read(|db, txn| db.meta.require(txn, &())).unwrap().install, 0x00c0_ffee);
}

/// Long keys of the nth hundred rows.
fn hundred(n: u64) -> impl Iterator<Item = Text> {
    (n * 100..(n + 1) * 100).map(|n| text(&format!("{n:0400}")))
}

fn put_hundred(store: &Store, n: u64) -> Result<()> {
    store.write(|db, txn| hundred(n).try_for_each(|key| db.counters.put(txn, &key, &Number(n))))
}

/// At the very end of the map LMDB refuses even removals, which need pages before they free any: so new work ends
/// early.
#[test]
fn new_work_is_refused_while_removals_find_room() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options { map_bytes: Some(4 << 20), ..small() }).unwrap();
    let mut full = 0;
    while store.admission().unwrap() == Admission::Open {
        put_hundred(&store, full).unwrap();
        full += 1;
    }
    for n in 0..full / 2 {
        put_hundred(&store, n).unwrap();
        let removed =
            store.write(|db, txn| hundred(n).map(|key| db.counters.delete(txn, &key)).collect::<Result<Vec<_>>>());
        assert!(removed.unwrap().into_iter().all(|there| there), "{n}");
    }
    assert_eq!(store.admission().unwrap(), Admission::Open);
}

#[test]
fn a_full_map_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { map_bytes: Some(2 << 20), ..small() };
    let store = Store::open(dir.path(), options.clone()).unwrap();
    let (full, error) = (0..).find_map(|n| put_hundred(&store, n).err().map(|e| (n, e))).unwrap();
    assert!(error.is_full(), "{error}");
    drop(store);
    let store = Store::open(dir.path(), options).unwrap();
    assert_eq!(store.read(|db, txn| db.counters.len(txn)).unwrap(), full * 100);
}

#[test]
fn a_group_survives_one_input_that_is_too_large() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options { map_bytes: Some(2 << 20), ..small() }).unwrap();
    let put = |db: &Tables, txn: &mut Write<'_>, rows: &u64| {
        for n in 0..*rows {
            db.counters.put(txn, &text(&format!("{rows}-{n:0390}")), &Number(n))?;
        }
        Ok::<_, Error>(())
    };
    // Either the whole group is undone, to be tried again one by one, or only what did not fit.
    let undone = store.write_batch(&[1, 100_000, 1], put, |_| false, Error::is_full);
    assert!(undone.is_err_and(|error| error.is_full()));
    assert_eq!(store.read(|db, txn| db.counters.len(txn)).unwrap(), 0);
    let answers = store.write_batch(&[1, 100_000, 1], put, |_| true, |_| false).unwrap();
    assert!(matches!(answers.as_slice(), [Ok(()), Err(Error::Full { .. }), Ok(())]), "{answers:?}");
    assert_eq!(store.read(|db, txn| db.counters.len(txn)).unwrap(), 1);
}

#[test]
fn a_full_disk_refuses_and_the_reserve_comes_and_goes() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options { margin_bytes: u64::MAX, ..small() }).unwrap();
    assert!(matches!(store.admission().unwrap(), Admission::Refuse(NoRoom::Disk { .. })));
    assert!(store.has_reserve());
    assert!(store.release_reserve().unwrap());
    assert!(!store.release_reserve().unwrap());
    assert!(!store.has_reserve());
    assert!(store.restore_reserve().unwrap());
    assert!(store.has_reserve());
}

#[test]
fn the_settings_limit_the_store() {
    let (_dir, store) = store();
    assert_eq!(store.admission().unwrap(), Admission::Open);
    let settings = Settings { store_max_bytes: Some(4_096), ..Settings::default() };
    store.write(|db, txn| db.settings.put(txn, &(), &settings)).unwrap();
    let Admission::Refuse(reason) = store.admission().unwrap() else { panic!("admitted") };
    assert!(reason.to_string().contains("of 4096 bytes: raise store_max_bytes"), "{reason}");
}
