//! Tests of the store as its users see it.

use super::{Options, Store};

mod backups;
mod checks;
mod documented;
mod dumps;
mod envelopes;
mod frozen;
mod goldens;
mod keys;
mod lines;
mod pages;
mod recall;
mod samples;
mod stores;
mod tidy;
mod upgrades;

/// A store in a directory of its own, with a small map.
pub(super) fn store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), small()).unwrap();
    (dir, store)
}

pub(super) fn small() -> Options {
    Options { map_bytes: Some(64 << 20), reserve_bytes: 1 << 16, margin_bytes: 1, ..Options::new(0x00c0_ffee) }
}
