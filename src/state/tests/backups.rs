//! Tests of backup, restore and compaction.

use std::path::{Path, PathBuf};

use crate::backup::{
    BackupPath, Error, FinishedBackup, Manifest, Proof, Request, Restore, Unwatched, backup, compact, default_dir,
    frozen, restore,
};
use crate::dump::to_text;
use crate::migrate::{FORMAT, Step};
use crate::model::Timestamp;
use crate::model::id::{AgentId, ApprovalId, OutboundId};
use crate::tests::{samples, small, store};
use crate::{Number, Options, Reader, Result, Store, Tables, Text, Write, check};

fn request(data: &Path, minute: i64) -> Request {
    let now = Timestamp::from_millis(1_767_225_600_000 + minute * 60_000);
    let place = BackupPath::In(default_dir(data));
    Request { data: data.to_owned(), place, now, keep: None, proof: Proof::Sound }
}

fn filled() -> (tempfile::TempDir, Store) {
    let (dir, store) = store();
    store.write(samples::fill).unwrap();
    (dir, store)
}

fn made(store: &Store, request: &Request) -> FinishedBackup {
    backup(store.reader(), request, &Unwatched).unwrap()
}

fn back(backup: &Path, data: &Path) -> Restore {
    std::fs::create_dir_all(data).unwrap();
    Restore {
        backup: backup.to_owned(),
        data: data.canonicalize().unwrap(),
        replace: false,
        keep_id: false,
        install: 0xbeef,
        epoch: 9,
        now: Timestamp::from_millis(0),
        proof: Proof::Sound,
    }
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

#[test]
fn a_backup_has_every_row_and_says_what_it_is() {
    let (dir, store) = filled();
    let FinishedBackup { path, manifest, removed } = made(&store, &request(dir.path(), 0));
    assert_eq!(names(&default_dir(dir.path())), ["20260101T000000.000Z.hearth"]);
    assert_eq!(names(&path), ["data.mdb", "manifest.json"]);
    assert_eq!(Manifest::read(&path).unwrap(), manifest);
    assert_eq!((manifest.format, manifest.install.as_str()), (FORMAT, "0000000000c0ffee"));
    assert_eq!(manifest.made, "2026-01-01T00:00:00.000Z");
    assert!(removed.is_empty());
    let copy = Reader::open_copy(&path).unwrap();
    assert_eq!(to_text(&copy, true).unwrap(), to_text(store.reader(), true).unwrap());
    assert_eq!(names(&path), ["data.mdb", "manifest.json"], "reading a backup makes nothing in it");
}

/// A store as text, without the rows that a restore changes when it begins an epoch: the identity, and the counters of
/// ids that people and agents write down.
fn rows(text: &str) -> Vec<&str> {
    let epoch = ["(): Meta", "ap: Number", "qu: Number", "sk: Number", "ta: Number"];
    text.lines().filter(|line| !epoch.iter().any(|row| line.starts_with(row))).collect()
}

/// A restore repeats the next number, but never an outgoing id: not if the same backup is restored twice, not
/// elsewhere, and not where the installation keeps its id.
#[test]
fn an_outgoing_id_is_never_used_again_after_a_restore() {
    let (dir, store) = filled();
    let data = dir.path().canonicalize().unwrap();
    let made = made(&store, &request(&data, 0));
    let (last, next) = (OutboundId::new(10), OutboundId::new(11));
    let ids = |data: &Path| {
        let store = Store::open(data, small()).unwrap();
        let meta = store.read(|db, txn| db.meta.require(txn, &())).unwrap();
        let asked: ApprovalId = store.write(|db, txn| db.allocate(txn)).unwrap();
        (meta.outgoing(last), (meta.outgoing(next), asked), meta.epochs.len())
    };
    drop(store);
    let (shown, lost, _) = ids(&data);
    let (elsewhere, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut used = vec![lost];
    for (number, request) in (100..).zip([
        Restore { replace: true, ..back(&made.path, &data) },
        Restore { replace: true, now: Timestamp::from_millis(1), ..back(&made.path, &data) },
        back(&made.path, elsewhere.path()),
        Restore { keep_id: true, ..back(&made.path, kept.path()) },
    ]) {
        let restored = Restore { epoch: number, ..request };
        restore(&restored, &|_| Ok(()), &Unwatched).unwrap();
        let (before, after, epochs) = ids(&restored.data);
        assert_eq!((before, epochs), (shown, 2), "what the backup has keeps its id");
        assert!(used.iter().all(|(id, asked)| (*id != after.0) && (*asked != after.1)), "{after:?} was used: {used:?}");
        used.push(after);
    }
}

#[test]
fn a_restored_store_is_the_same_one_only_where_it_was() {
    let (dir, store) = filled();
    let data = dir.path().canonicalize().unwrap();
    let made = made(&store, &request(&data, 0));
    let text = to_text(store.reader(), true).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let restored = restore(&back(&made.path, elsewhere.path()), &|_| Ok(()), &Unwatched).unwrap();
    assert_eq!((restored.install, restored.aside), (0xbeef, None));
    let other = Store::open(elsewhere.path(), small()).unwrap();
    assert_eq!(other.install(), 0xbeef);
    assert_eq!(rows(&to_text(other.reader(), true).unwrap()), rows(&text));
    let kept = tempfile::tempdir().unwrap();
    let keep = Restore { keep_id: true, ..back(&made.path, kept.path()) };
    assert_eq!(restore(&keep, &|_| Ok(()), &Unwatched).unwrap().install, 0x00c0_ffee);
    // Restored in its own place, it stays the same installation.
    store.write(|db, txn| db.counters.put(txn, &Text::new("later")?, &Number(1))).unwrap();
    drop(store);
    let mailbox = |of: &Path| of.join("se1/agent/ack/2.1.completed.json");
    std::fs::create_dir_all(mailbox(&data.join("sessions")).parent().unwrap()).unwrap();
    std::fs::write(mailbox(&data.join("sessions")), "{}").unwrap();
    let again = Restore { replace: true, ..back(&made.path, &data) };
    let restored = restore(&again, &|_| Ok(()), &Unwatched).unwrap();
    assert!(mailbox(&restored.mailboxes_aside.unwrap()).exists() && !data.join("sessions").exists());
    assert_eq!(restored.install, 0x00c0_ffee);
    let aside = restored.aside.unwrap();
    assert!(names(&aside).contains(&"data.mdb".to_owned()), "the old store was moved aside");
    assert_eq!(rows(&to_text(Store::open(&data, small()).unwrap().reader(), true).unwrap()), rows(&text));
    assert!(!data.join("store.next").exists());
}

#[test]
fn a_store_is_replaced_only_when_asked_and_never_under_a_daemon() {
    let (dir, store) = filled();
    let made = made(&store, &request(dir.path(), 0));
    let running = Restore { replace: true, ..back(&made.path, dir.path()) };
    let message = restore(&running, &|_| Ok(()), &Unwatched).unwrap_err().to_string();
    assert!(message.contains("in use by process"), "{message}");
    assert!(compact(dir.path(), &Unwatched).unwrap_err().to_string().contains("in use by process"));
    drop(store);
    let message = restore(&back(&made.path, dir.path()), &|_| Ok(()), &Unwatched).unwrap_err().to_string();
    assert!(message.contains("use --replace to move it aside"), "{message}");
    assert_eq!(names(dir.path()), ["backups", "hearth.lock", "store"]);
}

#[test]
fn what_is_no_backup_changes_nothing() {
    let (dir, store) = filled();
    let FinishedBackup { path, manifest, .. } = made(&store, &request(dir.path(), 0));
    let target = tempfile::tempdir().unwrap();
    let refused = |wanted: &str| {
        let message = restore(&back(&path, target.path()), &|_| Ok(()), &Unwatched).unwrap_err().to_string();
        assert!(message.contains(wanted), "{message}");
        assert!(!target.path().join("store").exists() && !target.path().join("store.next").exists(), "{wanted}");
    };
    let file = path.join("data.mdb");
    let good = std::fs::read(&file).unwrap();
    let mut bytes = good.clone();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    refused("its checksum is wrong");
    std::fs::write(&file, &good[..good.len() - 4_096]).unwrap();
    refused("bytes instead of");
    std::fs::remove_file(&file).unwrap();
    refused("data.mdb");
    std::fs::write(&file, &good).unwrap();
    let say = |text: String| std::fs::write(path.join("manifest.json"), text).unwrap();
    say(serde_json::to_string(&Manifest { format: FORMAT + 1, ..manifest.clone() }).unwrap());
    refused(&format!("has format {}, but this Hearth supports formats only up to {FORMAT}", FORMAT + 1));
    say(serde_json::to_string(&Manifest { hearth_backup: 2, ..manifest.clone() }).unwrap());
    refused("its manifest has version 2");
    say(serde_json::to_string(&Manifest { rows: 7, ..manifest }).unwrap());
    refused("rows instead of 7");
    say("{}".to_owned());
    refused("does not belong to a backup");
    std::fs::remove_file(path.join("manifest.json")).unwrap();
    refused("manifest.json cannot be read");
}

/// A backup of a damaged store fails before it gets its name, unless the caller asks only for `Readable`.
#[test]
fn what_is_broken_is_not_kept_unasked() {
    let (dir, store) = filled();
    store.write(|db, txn| db.agents.put_bytes(txn, &AgentId::new(1), b"rubbish!")).unwrap();
    let failed = backup(store.reader(), &request(dir.path(), 0), &Unwatched);
    assert!(matches!(failed, Err(Error::Unsound { .. })), "{failed:?}");
    assert_eq!(names(&default_dir(dir.path())), [""; 0]);
    let anyway = Request { proof: Proof::Readable, ..request(dir.path(), 0) };
    let made = made(&store, &anyway);
    let target = tempfile::tempdir().unwrap();
    let back = back(&made.path, target.path());
    assert!(matches!(restore(&back, &|_| Ok(()), &Unwatched), Err(Error::Unsound { .. })));
    restore(&Restore { proof: Proof::Readable, ..back }, &|_| Ok(()), &Unwatched).unwrap();
}

#[test]
fn the_oldest_go_and_nothing_else() {
    let (dir, store) = filled();
    let backups = default_dir(dir.path());
    let keep = |minute, keep| Request { keep: Some(keep), ..request(dir.path(), minute) };
    for minute in 1..=3 {
        made(&store, &keep(minute, 9));
    }
    // Files that are not Hearth's, unfinished backups, and backups of other installations.
    let name = |minute: i64| format!("20260101T000{minute}00.000Z.hearth");
    std::fs::create_dir(backups.join("20250101T000000.000Z.hearth")).unwrap();
    std::fs::create_dir(backups.join("photos")).unwrap();
    std::fs::write(backups.join("20240101T000000.000Z.hearth"), "a file").unwrap();
    let foreign = backups.join("20230101T000000.000Z.hearth");
    std::fs::rename(backups.join(name(1)), &foreign).unwrap();
    let text = std::fs::read_to_string(foreign.join("manifest.json")).unwrap();
    std::fs::write(foreign.join("manifest.json"), text.replace("c0ffee", "c0ffe0")).unwrap();
    let made = made(&store, &keep(4, 2));
    assert_eq!(made.removed, [backups.join(name(2))]);
    // The clock was set back: the new backup is the oldest, and is kept.
    let made = backup(store.reader(), &keep(0, 1), &Unwatched).unwrap();
    assert_eq!(made.removed, [backups.join(name(3)), backups.join(name(4))]);
    let expected = [
        "20230101T000000.000Z.hearth",
        "20240101T000000.000Z.hearth",
        "20250101T000000.000Z.hearth",
        &name(0),
        "photos",
    ];
    assert_eq!(names(&backups), expected);
}

#[test]
fn half_backups_have_no_name_and_go_with_the_next_one() {
    let (dir, store) = filled();
    let backups = default_dir(dir.path());
    let half = backups.join(".20260101T000000.000Z.hearth.part");
    std::fs::create_dir_all(&half).unwrap();
    std::fs::write(half.join("data.mdb"), "half").unwrap();
    std::fs::create_dir(backups.join(".mine.part")).unwrap();
    made(&store, &request(dir.path(), 5));
    assert_eq!(names(&backups), [".mine.part", "20260101T000500.000Z.hearth"]);
    let again = backup(store.reader(), &request(dir.path(), 5), &Unwatched);
    assert!(matches!(again, Err(Error::Exists { .. })), "{again:?}");
    let copy = frozen(store.reader(), dir.path(), Timestamp::from_millis(0), &Unwatched).unwrap();
    assert_eq!(names(&backups), [".mine.part", "20260101T000500.000Z.hearth"], "a frozen copy has no name at all");
    assert_eq!(to_text(&copy, true).unwrap(), to_text(store.reader(), true).unwrap());
}

#[test]
fn compacting_keeps_the_rows_and_gives_back_the_rest() {
    let (dir, store) = filled();
    let key = |n: u64| Text::new(format!("{n:0400}")).unwrap();
    store.write(|db, txn| (0..5_000).try_for_each(|n| db.counters.put(txn, &key(n), &Number(n)))).unwrap();
    store.write(|db, txn| (0..5_000).try_for_each(|n| db.counters.delete(txn, &key(n)).map(drop))).unwrap();
    let text = to_text(store.reader(), true).unwrap();
    drop(store);
    std::fs::create_dir_all(dir.path().join("store.next/half")).unwrap();
    let done = compact(dir.path(), &Unwatched).unwrap();
    assert!(done.after < done.before / 2, "{done:?}");
    assert_eq!(names(dir.path()), ["hearth.lock", "store"]);
    let store = Store::open(dir.path(), small()).unwrap();
    assert_eq!(to_text(store.reader(), true).unwrap(), text);
    store.begin_run().unwrap();
}

/// An interrupted restore leaves useless files. They must not take up space until the next restore.
#[test]
fn what_was_never_put_in_place_goes_at_the_next_start() {
    let (dir, store) = filled();
    drop(store);
    std::fs::create_dir_all(dir.path().join("store.next/half")).unwrap();
    Store::open(dir.path(), small()).unwrap();
    assert_eq!(names(dir.path()), ["hearth.lock", "store"]);
}

fn marks(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    db.counters.put(txn, &Text::new("migrated")?, &Number(2))
}

fn fails(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    marks(db, txn)?;
    db.agents.require(txn, &AgentId::new(99)).map(drop)
}

/// Migration steps cannot be undone once they are committed, but the previous store can be restored.
#[test]
fn a_migration_begins_with_a_backup() {
    let dir = tempfile::tempdir().unwrap();
    let now = Some(Timestamp::from_millis(1_767_225_600_000));
    let store = Store::open(dir.path(), Options { now, ..small() }).unwrap();
    store.write(samples::fill).unwrap();
    assert!(!default_dir(dir.path()).exists(), "a new store and one of this format need none");
    let before = to_text(store.reader(), true).unwrap();
    store.migrate(dir.path(), &[Step { to: FORMAT + 1, run: fails }], FORMAT + 1).unwrap_err();
    assert_eq!(to_text(store.reader(), true).unwrap(), before);
    let meta = store.migrate(dir.path(), &[Step { to: FORMAT + 1, run: marks }], FORMAT + 1).unwrap();
    assert_eq!(meta.format, FORMAT + 1);
    let path: PathBuf =
        default_dir(dir.path()).join(format!("20260101T000000.000Z-before-format-{}.hearth", FORMAT + 1));
    assert_eq!(Manifest::read(&path).unwrap().format, FORMAT);
    let copy = Reader::open_copy(&path).unwrap();
    assert_eq!(to_text(&copy, true).unwrap(), before);
    assert!(copy.read(check::check).unwrap().is_empty());
}

#[test]
fn without_its_backup_no_migration_begins() {
    let (dir, store) = filled();
    let before = to_text(store.reader(), true).unwrap();
    std::fs::write(default_dir(dir.path()), "in the way").unwrap();
    let failed = store.migrate(dir.path(), &[Step { to: FORMAT + 1, run: marks }], FORMAT + 1).unwrap_err();
    assert!(failed.to_string().contains("the backup before its migration failed, so nothing was changed"), "{failed}");
    assert_eq!(to_text(store.reader(), true).unwrap(), before);
}
