//! Files of a store and of its backups that a disk, or somebody, has changed.

use std::path::Path;
use std::sync::OnceLock;

use hearth::state::Reader;
use hearth::state::backup::{Manifest, Unwatched};
use hearth::state::check::check_in_parts;
use hearth::state::lines::{Import, import};

use super::store::{directory, whole};

/// The file that says what a backup is. One that is taken is written as one that says the same.
pub fn manifest(bytes: &[u8]) {
    let dir = directory();
    let read = |bytes: &[u8]| {
        std::fs::write(dir.path().join("manifest.json"), bytes).expect("a file can be written");
        Manifest::read(dir.path())
    };
    match read(bytes) {
        Ok(manifest) => {
            let written = serde_json::to_vec(&manifest).expect("what was read can be written");
            assert_eq!(read(&written).expect("what was written can be read"), manifest);
        }
        Err(error) => assert!(error.to_string().contains(&*dir.path().to_string_lossy()), "{error}"),
    }
}

/// Changes of a store's file, four bytes each: where, three of them, and what is there then; what is left over is where
/// the file ends. LMDB believes its file, so that it may only have one whose pages are proved: what is opened can be read
/// to its end without a signal, whatever else is wrong with it.
pub fn pages(bytes: &[u8]) {
    let mut file = store().to_vec();
    let (changes, rest) = bytes.as_chunks::<4>();
    for [high, middle, low, value] in changes {
        let at = u32::from_be_bytes([0, *high, *middle, *low]);
        let at = usize::try_from(at).expect("a number of 24 bits") % file.len();
        file[at] = *value;
    }
    if let [high, low, ..] = rest {
        file.truncate(usize::from(u16::from_be_bytes([*high, *low])) * file.len() / usize::from(u16::MAX));
    }
    let dir = directory();
    std::fs::create_dir(dir.path().join("store")).expect("a directory can be made");
    std::fs::write(dir.path().join("store/data.mdb"), &file).expect("a file can be written");
    match Reader::open_proved(dir.path()) {
        Ok(reader) => match check_in_parts(&reader) {
            Ok(found) => assert!(found.iter().all(|one| !one.what.is_empty())),
            Err(error) => assert!(!error.to_string().is_empty()),
        },
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// The file of a store with some rows in most tables.
fn store() -> &'static [u8] {
    static STORE: OnceLock<Vec<u8>> = OnceLock::new();
    STORE.get_or_init(|| {
        let dir = directory();
        let lines = whole(include_str!("../../corpus/lines/world"));
        let request = Import { data: dir.path(), install: None };
        import(request, &mut lines.as_bytes(), &Unwatched).expect("these lines are a store");
        std::fs::read(Path::new(dir.path()).join("store/data.mdb")).expect("a store has a file")
    })
}
