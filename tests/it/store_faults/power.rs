//! Power cuts: synced pages survive, and any of the others may. All acknowledged changes are in the remaining store,
//! and the store is consistent.

use std::path::Path;

use hearth::state::check::check_in_parts;
use hearth::state::{Options, Store};

use super::{Shim, is_stored, stored};
use crate::host::Host;
use crate::world::chance::Chance;

/// An event on the file, and the length of the recorded changes at that time.
enum Noted {
    Written { place: usize, bytes: Vec<u8> },
    Synced { at: usize },
}

/// Parses the shim's records.
fn read(notes: &[u8]) -> Vec<Noted> {
    let number = |at: usize| usize::try_from(u64::from_be_bytes(notes[at..at + 8].try_into().unwrap())).unwrap();
    let (mut all, mut at) = (Vec::new(), 0);
    while at < notes.len() {
        if notes[at] == b'S' {
            at += 1;
            all.push(Noted::Synced { at });
        } else {
            let (place, length) = (number(at + 1), number(at + 9));
            all.push(Noted::Written { place, bytes: notes[at + 17..at + 17 + length].to_vec() });
            at += 17 + length;
        }
    }
    all
}

fn put(image: &mut Vec<u8>, place: usize, bytes: &[u8]) {
    if image.len() < place + bytes.len() {
        image.resize(place + bytes.len(), 0);
    }
    image[place..place + bytes.len()].copy_from_slice(bytes);
}

/// Only some of the possible images of each moment are examined: all of them would take minutes.
const EVERY: usize = 7;

#[test]
fn what_was_acknowledged_survives_a_power_cut_at_any_moment() {
    let Some(shim) = Shim::compile() else { return };
    let mut host = Host::with_echo();
    let mut durable = std::fs::read(host.data().join("store/data.mdb")).unwrap();
    let path = host.path("notes");
    host.env = shim.variables(&[("DISK_NOTES", path.to_str().unwrap())]);
    host.start();
    let mut accepted = Vec::new();
    for number in 0..24 {
        let id = format!("m{number}");
        let text = format!("hello {}", "and more ".repeat(number * 40));
        let outcome = host.inject(&id, &text)["outcome"].clone();
        assert_eq!(outcome, "routed");
        accepted.push((id, usize::try_from(std::fs::metadata(&path).unwrap().len()).unwrap()));
        if number == 12 {
            host.done(&["agents", "add", "second"], b"");
        }
    }
    host.wait_settled();
    host.kill();
    let noted = read(&std::fs::read(&path).unwrap());
    let syncs = noted.iter().filter(|noted| matches!(noted, Noted::Synced { .. })).count();
    assert!(syncs > 100, "only {syncs} syncs were noted");
    let (mut open, mut seen, mut chance) = (Vec::new(), 0, Chance(0x0ff0_0ff0));
    for noted in noted {
        match noted {
            Noted::Written { place, bytes } => open.push((place, bytes)),
            Noted::Synced { at } => {
                seen += 1;
                if seen % EVERY == 0 && !open.is_empty() {
                    // Before the sync: any subset of the writes since the last one.
                    let before = at - 1;
                    judge(&torn(&durable, &open, &mut chance), &accepted, before, "torn");
                }
                for (place, bytes) in open.drain(..) {
                    put(&mut durable, place, &bytes);
                }
                if seen % EVERY == 1 {
                    judge(&durable, &accepted, at, "synced");
                }
            }
        }
    }
    judge(&durable, &accepted, usize::MAX, "in the end");
}

/// Applies some of the sectors that were written and not synced.
fn torn(durable: &[u8], open: &[(usize, Vec<u8>)], chance: &mut Chance) -> Vec<u8> {
    const SECTOR: usize = 512;
    let mut image = durable.to_vec();
    // LMDB's writes to the first two pages are smaller than a sector: they survive completely or not at all.
    for (place, bytes) in open {
        for (number, sector) in bytes.chunks(SECTOR).enumerate() {
            if chance.index(2) == 0 {
                put(&mut image, place + number * SECTOR, sector);
            }
        }
    }
    image
}

fn judge(image: &[u8], accepted: &[(String, usize)], at: usize, what: &str) {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    std::fs::create_dir(&store).unwrap();
    std::fs::write(store.join("data.mdb"), image).unwrap();
    // The previous owner did not release it.
    std::fs::write(dir.path().join("hearth.lock"), "2147483647").unwrap();
    open(dir.path(), what);
    let all = stored(dir.path());
    for (id, _) in accepted.iter().filter(|(_, noted)| *noted <= at) {
        assert!(is_stored(&all, id), "{what} at {at}: {id} was acknowledged and is lost");
    }
}

fn open(data: &Path, what: &str) {
    let options = Options { reserve_bytes: 0, map_bytes: Some(1 << 30), ..Options::new(1) };
    let store = Store::open(data, options).unwrap_or_else(|error| panic!("{what}: {error}"));
    let found = check_in_parts(store.reader()).unwrap();
    assert!(found.is_empty(), "{what}: {found:#?}");
}
