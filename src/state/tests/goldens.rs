//! What lies on disk, byte by byte. A red line here is a change of the store's format: it takes a new version of the
//! record with the old type frozen in `legacy`, or a new format of the store with a step of migration.

use std::fmt::Write as _;

use crate::state::envelope::Record;
use crate::state::key::KeyPart;
use crate::state::table::{ByteRow, Codec, Index, Rows, Table, hex};
use crate::state::tables::{About, Visitor};
use crate::state::tests::{samples, store};
use crate::state::{Error, Read, Result, Tables};

struct Bytes<'a, 't> {
    txn: &'a Read<'t>,
    text: String,
    empty: Vec<&'static str>,
}

impl Bytes<'_, '_> {
    fn rows<K: KeyPart, V, C: Codec<V>>(&mut self, about: &About, rows: &Rows<K, V, C>, what: &str) -> Result<()> {
        let slice: Vec<ByteRow> = rows.slice(self.txn, None, usize::MAX, usize::MAX)?;
        if slice.is_empty() {
            self.empty.push(about.name);
        }
        writeln!(self.text, "{} ({what})", about.name).unwrap();
        for (key, value) in slice {
            writeln!(self.text, "  {} = {}", hex(&key), hex(&value)).unwrap();
            let (typed, _) = rows.decode(&key, &value)?;
            assert_eq!(typed.to_bytes(), key);
        }
        Ok(())
    }
}

impl Visitor for Bytes<'_, '_> {
    type Error = Error;

    fn table<K: KeyPart, V: Record>(&mut self, about: &About, table: &Table<K, V>) -> Result<()> {
        self.rows(about, table, &format!("{} version {}", V::NAME, V::VERSION))
    }

    fn index<K: KeyPart, V: KeyPart>(&mut self, about: &About, index: &Index<K, V>) -> Result<()> {
        self.rows(about, index, "index")
    }
}

#[test]
fn every_byte_of_a_small_world() {
    let (_dir, store) = store();
    store.write(samples::fill).unwrap();
    let (text, empty) = store
        .read(|db, txn| {
            let mut bytes = Bytes { txn, text: String::new(), empty: Vec::new() };
            db.visit(&mut bytes)?;
            Ok::<_, Error>((bytes.text, bytes.empty))
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
