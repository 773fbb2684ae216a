//! Older versions of a store's identity row.

use serde::{Deserialize, Serialize};

use crate::state::envelope::Unreadable;
use crate::state::meta::Meta;

#[derive(Serialize, Deserialize)]
pub(in crate::state) struct MetaV1 {
    pub(in crate::state) format: u32,
    pub(in crate::state) install: u64,
    pub(in crate::state) runs: u64,
}

/// Ids that went out before there were epochs stay as they are.
impl From<MetaV1> for Meta {
    fn from(old: MetaV1) -> Self {
        Self { format: old.format, install: old.install, runs: old.runs, epochs: Vec::new() }
    }
}

pub(in crate::state) fn upgrade(version: u16, body: &[u8]) -> Result<Meta, Unreadable> {
    super::first::<MetaV1, Meta>(version, body)
}
