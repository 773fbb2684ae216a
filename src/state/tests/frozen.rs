//! Stores of released formats open, for ever. Each fixture is a store as that release wrote it; none is ever written
//! again, and what is read from it is what was in it.

use std::path::{Path, PathBuf};

use crate::state::check::check;
use crate::state::dump::to_text;
use crate::state::tests::{samples, small, store};
use crate::state::{Error, Store};

/// Formats of which there are fixtures.
const RELEASED: &[u32] = &[1];

fn fixture(format: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/store/format-{format}.mdb"))
}

/// A copy, because opening a store counts its run.
fn copy(format: u32) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("store")).unwrap();
    std::fs::copy(fixture(format), dir.path().join("store/data.mdb")).unwrap();
    dir
}

/// Everything in it is read as it was, everything in it agrees, and it takes new rows.
#[test]
fn stores_of_every_released_format_open() {
    for format in RELEASED {
        let dir = copy(*format);
        let store = Store::open(dir.path(), small()).unwrap();
        let found = store.read(check).unwrap();
        assert!(found.is_empty(), "format {format}: {found:?}");
        insta::assert_snapshot!(format!("format-{format}"), to_text(store.reader(), true).unwrap());
        store
            .write(|db, txn| {
                let next: crate::model::id::MessageId = db.allocate(txn)?;
                assert!(next.number() > 1, "numbers go on");
                Ok::<_, Error>(())
            })
            .unwrap();
    }
}

/// Writes the fixture of the present format where there is none: once, before its release.
#[test]
fn the_present_format_has_a_fixture() {
    let path = fixture(crate::state::migrate::FORMAT);
    if path.exists() {
        return;
    }
    let (_dir, store) = store();
    store.write(samples::fill).unwrap();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    store.reader().copy_into(&mut std::fs::File::create(&path).unwrap()).unwrap();
    panic!("{} was made: commit it, and never write it again", path.display());
}
