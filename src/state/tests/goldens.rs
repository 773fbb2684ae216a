//! Golden tests of the on-disk format, byte by byte. A failure means that the store's format changed: that needs a new
//! version of the record with the old type frozen in `legacy`, or a new format of the store with a migration step.

use std::fmt::Write as _;

use crate::hex::hex;
use crate::tests::{samples, store};
use crate::{Error, Tables};

#[test]
fn every_byte_of_a_small_world() {
    let (_dir, store) = store();
    store.write(samples::fill).unwrap();
    let (text, empty) = store
        .read(|db, txn| {
            let (mut text, mut empty) = (String::new(), Vec::new());
            for (about, rows) in db.all() {
                let what = rows.record().map(|(name, version)| format!("{name} version {version}"));
                writeln!(text, "{} ({})", about.name, what.unwrap_or_else(|| "index".to_owned())).unwrap();
                let slice = rows.bytes().slice(txn, None, usize::MAX, usize::MAX)?;
                if slice.is_empty() {
                    empty.push(about.name);
                }
                for (key, value) in slice {
                    writeln!(text, "  {} = {}", hex(&key), hex(&value)).unwrap();
                    assert_eq!(Tables::rewrite_key(about.name, &key).unwrap().unwrap().0, key);
                }
            }
            Ok::<_, Error>((text, empty))
        })
        .unwrap();
    assert!(empty.is_empty(), "the small world has no rows in {empty:?}");
    insta::assert_snapshot!("bytes", text);
}

#[test]
fn the_list_of_tables() {
    let list: Vec<String> = Tables::ABOUT
        .iter()
        .map(|about| format!("{} {}, keys up to {} bytes", about.kind.as_str(), about.name, about.max_key_bytes))
        .collect();
    insta::assert_snapshot!("tables", list.join("\n"));
}
