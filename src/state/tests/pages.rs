//! Tests of the page check.

use super::store;
use crate::{Error, Number, Result, Store, Text, pages};

fn key(number: u64) -> Text {
    Text::new(format!("{number:0300}")).unwrap()
}

fn put(store: &Store, numbers: impl IntoIterator<Item = u64>) {
    let put = |number: u64| (key(number), Number(number));
    let rows: Vec<_> = numbers.into_iter().map(put).collect();
    let written: Result<()> =
        store.write(|db, txn| rows.iter().try_for_each(|(key, number)| db.counters.put(txn, key, number)));
    written.unwrap();
}

fn remove(store: &Store, numbers: impl IntoIterator<Item = u64>) {
    let keys: Vec<Text> = numbers.into_iter().map(key).collect();
    let removed: Result<()> =
        store.write(|db, txn| keys.iter().try_for_each(|key| db.counters.delete(txn, key).map(drop)));
    removed.unwrap();
}

fn refusal<T: std::fmt::Debug>(looked: Result<T>) -> String {
    match looked {
        Err(Error::Broken { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

/// The page check accepts every file that LMDB writes.
#[test]
fn a_store_that_is_whole_is_never_refused() {
    let (dir, store) = store();
    let place = dir.path().join("store");
    pages::look(&place, usize::MAX).unwrap();
    for round in 0..60_u64 {
        put(&store, (0..80).map(|number| number * 7 + round * 13));
        pages::look(&place, usize::MAX).unwrap();
        remove(&store, (0..80).map(|number| number * 5 + round * 11));
        pages::look(&place, usize::MAX).unwrap();
    }
    // A transaction that allocates pages and frees them again leaves a file that may be shorter than its header says.
    let undone: Result<()> = store.write(|db, txn| {
        (0..3_000).try_for_each(|number| db.counters.put(txn, &key(number), &Number(number)))?;
        (0..3_000).try_for_each(|number| db.counters.delete(txn, &key(number)).map(drop))
    });
    undone.unwrap();
    pages::look(&place, usize::MAX).unwrap();
    drop(store);
    pages::trust(&place, crate::lock::Writer::Died).unwrap();
    pages::trust(&place, crate::lock::Writer::GaveUp).unwrap();
}

#[test]
fn a_file_that_is_not_whole_is_refused() {
    const PAGE: usize = 4096;
    let (dir, store) = store();
    put(&store, 0..600);
    remove(&store, 100..200);
    drop(store);
    let place = dir.path().join("store");
    let file = place.join("data.mdb");
    let whole = std::fs::read(&file).unwrap();
    for cut in [0, 100, PAGE, PAGE + 100, 2 * PAGE, whole.len() / 2] {
        std::fs::write(&file, &whole[..cut]).unwrap();
        refusal(pages::look(&place, usize::MAX));
        refusal(pages::trust(&place, crate::lock::Writer::GaveUp));
        assert!(matches!(Store::open(dir.path(), super::small()), Err(Error::Broken { .. })), "cut off at {cut}");
        assert_eq!(std::fs::read(&file).unwrap(), &whole[..cut], "it was written to");
    }
    let changed = |at: usize, bytes: &[u8]| {
        let mut all = whole.clone();
        all[at..at + bytes.len()].copy_from_slice(bytes);
        std::fs::write(&file, all).unwrap();
        pages::look(&place, usize::MAX).map(drop)
    };
    // A free page may contain anything, so the damaged page must be one that the walk visits.
    let used = |page: usize| changed(page * PAGE + 10, &[0]).is_err();
    let last =
        |flags: u8| (2..whole.len() / PAGE).rfind(|page| whole[page * PAGE + 10] == flags && used(*page)).unwrap();
    let (branch, leaf) = (last(1), last(2));
    let page = branch * PAGE;
    let first_row = page + usize::from(whole[page + 16]) + (usize::from(whole[page + 17]) << 8);
    for (what, at, bytes) in [
        ("should be a branch", page + 10, &[2_u8][..]),
        ("should be a branch", page, &[255]),
        ("impossible bounds", page + 12, &[255, 255]),
        ("a row outside", page + 16, &[1, 0]),
        ("the store ends", first_row, &[255, 255, 255]),
    ] {
        let told = refusal(changed(at, bytes));
        assert!(told.contains(what), "{what}: {told}");
    }
    assert!(!used(leaf) || refusal(changed(leaf * PAGE + 12, &[0, 0])).contains("impossible bounds"));
}

/// `check` runs beside the daemon that writes: a growing file must not look truncated.
#[test]
fn a_store_that_is_being_written_is_never_refused() {
    let (dir, store) = store();
    let place = dir.path().join("store");
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| (0..400_u64).for_each(|round| put(&store, round * 20..round * 20 + 20)));
        while !writing.is_finished() {
            pages::look(&place, usize::MAX).unwrap();
        }
    });
}
