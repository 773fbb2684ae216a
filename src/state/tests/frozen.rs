//! Stores of released formats can always be opened. Each fixture is a store written by that release and is never
//! rewritten. Its content is read back unchanged.

use std::path::{Path, PathBuf};

use crate::backup::{Manifest, default_dir};
use crate::check::check;
use crate::dump::to_text;
use crate::envelope::version_of;
use crate::model::id::OutboundId;
use crate::tests::{samples, small, store};
use crate::{Error, Store, records};

/// Formats of which there are fixtures.
const RELEASED: &[u32] = &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];

fn fixture(format: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../tests/fixtures/store/format-{format}.mdb"))
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

/// A program of the older format would not know their versions, and is kept away from them by the new format.
#[test]
fn an_upgrade_leaves_no_record_of_an_older_version() {
    for format in RELEASED {
        let dir = copy(*format);
        let store = Store::open(dir.path(), small()).unwrap();
        store
            .read(|db, txn| {
                for (about, rows) in db.all() {
                    let Some((name, version)) = rows.record() else { continue };
                    for (_, value) in rows.bytes().slice(txn, None, usize::MAX, usize::MAX)? {
                        let found = version_of(&value).unwrap();
                        assert_eq!(found, version, "{name} in {} after format {format}", about.name);
                    }
                }
                Ok::<_, Error>(())
            })
            .unwrap();
    }
}

/// A new version of a record needs a new format: a program without that version would find rows that it cannot read, and
/// no backup to go back to. These lists never change.
#[test]
fn versions_of_records_belong_to_their_format() {
    let list: Vec<String> = records::RECORDS.iter().map(|(name, version)| format!("{name} {version}")).collect();
    insta::assert_snapshot!(format!("records-{}", crate::migrate::FORMAT), list.join("\n"));
}

/// One transaction, with a backup before it. What went out under an id before the upgrade keeps that id.
#[test]
fn a_store_of_format_1_is_upgraded() {
    let dir = copy(1);
    let store = Store::open(dir.path(), small()).unwrap();
    let meta = store.read(|db, txn| db.meta.require(txn, &())).unwrap();
    assert_eq!(meta.format, crate::migrate::FORMAT);
    assert_eq!(meta.outgoing(OutboundId::new(10)).to_string(), "mo10");
    assert_eq!(meta.outgoing(OutboundId::new(11)).to_string(), "00c0ffee-mo11");
    let backup = default_dir(dir.path()).join(format!("before-format-{}.hearth", meta.format));
    assert_eq!(Manifest::read(&backup).unwrap().format, 1);
}

/// The format whose tables may still change: its fixture is made once, before its release.
const UNRELEASED: Option<u32> = None;

/// Writes the fixture of the present format where there is none.
#[test]
fn the_present_format_has_a_fixture() {
    let path = fixture(crate::migrate::FORMAT);
    if path.exists() || UNRELEASED == Some(crate::migrate::FORMAT) {
        return;
    }
    let (_dir, store) = store();
    store.write(samples::fill).unwrap();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    store.reader().copy_into(&mut std::fs::File::create(&path).unwrap()).unwrap();
    panic!("{} was made: commit it, and never write it again", path.display());
}
