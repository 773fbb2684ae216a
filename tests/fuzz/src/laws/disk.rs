//! Files of a store and of its backups that were changed by a failing disk or an attacker.

use std::path::Path;
use std::sync::OnceLock;

use hearth::model::Timestamp;
use hearth::state::backup::{Manifest, Proof, Restore, Unwatched, restore};
use hearth::state::check::check_in_parts;
use hearth::state::dump::{Format, Options, dump};
use hearth::state::lines::{Import, import};
use hearth::state::{self, Reader, Store};
use sha2::{Digest as _, Sha256};

use super::store::{directory, whole};

/// The manifest of a backup. An accepted manifest is written again with the same meaning.
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

/// Changes of a store's file, four bytes each: the position, then three bytes to put there. Remaining bytes set the
/// length of the file. LMDB trusts its file, so Hearth may give it only verified pages: an opened file can be read to
/// its end without a signal, whatever else is wrong with it.
pub fn pages(bytes: &[u8]) {
    let mut file = store().0.clone();
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
    match Reader::open_proved(dir.path(), &Unwatched) {
        Ok(reader) => match check_in_parts(&reader) {
            Ok(found) => assert!(found.iter().all(|one| !one.what.is_empty())),
            Err(error) => assert!(!error.to_string().is_empty()),
        },
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Opens complete store files as an attacker or a failing disk leaves them (`mutant`), with everything that opens
/// stores. Each file is refused or served, and no signal ends the process.
pub fn stores(bytes: &[u8]) {
    let (whole, rows) = store();
    let file = mutant(whole, bytes);
    let dir = directory();
    let (data, backup) = (dir.path().join("data"), dir.path().join("backup"));
    for place in [&data.join("store"), &backup, &dir.path().join("new")] {
        std::fs::create_dir_all(place).expect("a directory can be made");
    }
    std::fs::write(data.join("store/data.mdb"), &file).expect("a file can be written");
    let options = Options { format: Format::Json, table: None, bodies: true };
    let read = Reader::open(&data).and_then(|reader| dump(&reader, &options, &mut std::io::sink()));
    told(read.err().map(|error| error.to_string()));
    std::fs::write(backup.join("data.mdb"), &file).expect("a file can be written");
    std::fs::write(backup.join("manifest.json"), manifest_of(&file, *rows)).expect("a file can be written");
    let now = Timestamp::from_millis(1_800_000_000_000);
    let (replace, keep_id, proof) = (false, false, Proof::Sound);
    let request = Restore { backup, data: dir.path().join("new"), replace, keep_id, install: 7, epoch: 9, now, proof };
    told(restore(&request, &|_| Ok(()), &Unwatched).err().map(|error| error.to_string()));
    let small = state::Options { reserve_bytes: 0, ..state::Options::new(1) };
    let written = Store::open(&data, small).and_then(|store| store.begin_run());
    told(written.err().map(|error| error.to_string()));
}

fn told(error: Option<String>) {
    assert!(error.is_none_or(|words| !words.is_empty()), "a refusal has a reason");
}

/// A manifest that an attacker wrote to match the changed file.
#[must_use]
pub fn manifest_of(file: &[u8], rows: u64) -> String {
    let sha256 = Sha256::digest(file).iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    serde_json::json!({
        "hearth_backup": 1, "hearth": "0.1.0", "format": 1, "install": "00000000000000ff",
        "made": "2026-11-23T00:00:00.000Z", "data": "/elsewhere", "rows": rows, "bytes": file.len(), "sha256": sha256,
    })
    .to_string()
}

/// Bytes of one change: the operation, a page, an offset in it or another page, and a value.
const CHANGE: usize = 6;

/// A store's file after the changes that the bytes describe, `CHANGE` of them each: changed bits and numbers in pages,
/// mostly in headers, and swapped, duplicated, emptied or truncated pages.
#[must_use]
pub fn mutant(whole: &[u8], changes: &[u8]) -> Vec<u8> {
    const PAGE: usize = 4_096;
    let mut file = whole.to_vec();
    for change in changes.as_chunks::<CHANGE>().0.iter().take(64) {
        let [what, high, low, within_high, within_low, value] = change.map(usize::from);
        let pages = (file.len() / PAGE).max(1);
        let (page, place) = ((high << 8 | low) % pages * PAGE, within_high << 8 | within_low);
        let other = place % pages * PAGE;
        if page + PAGE > file.len() || other + PAGE > file.len() {
            continue;
        }
        let byte = u8::try_from(value).unwrap_or_default();
        match what % 8 {
            0 => file[page + place % PAGE] = byte,
            1 => file[page + place % PAGE] ^= 1 << (value % 8),
            2 => file[page + place % 16] = byte, // the header
            3 => {
                let number = [0_u64, 1, 2, u64::MAX, 1 << 40, 1 << 20, u64::from(u32::MAX), 7][value % 8].swap_bytes();
                let at = page + place % (PAGE / 8) * 8;
                file[at..at + 8].copy_from_slice(&number.to_be_bytes());
            }
            4 => {
                let kept = file[page..page + PAGE].to_vec();
                file.copy_within(other..other + PAGE, page);
                file[other..other + PAGE].copy_from_slice(&kept);
            }
            5 => {
                // The copy gets the page number of its new place, so the number does not give it away.
                file.copy_within(other + 8..other + PAGE, page + 8);
            }
            6 => file[page + 16..page + PAGE].fill(byte),
            _ => file.truncate(page + place % PAGE),
        }
    }
    file
}

/// The file of a store with some rows in most tables, and the number of rows.
fn store() -> &'static (Vec<u8>, u64) {
    static STORE: OnceLock<(Vec<u8>, u64)> = OnceLock::new();
    STORE.get_or_init(|| {
        let dir = directory();
        let lines = whole(include_str!("../../corpus/lines/world"));
        let request = Import { data: dir.path(), install: None, epoch: 9 };
        let imported =
            import(request, &mut lines.as_bytes(), &|_| Ok(()), &Unwatched).expect("these lines are a store");
        let file = std::fs::read(Path::new(dir.path()).join("store/data.mdb")).expect("a store has a file");
        (file, imported.rows)
    })
}
