//! Older versions of a store's identity row.

use serde::{Deserialize, Serialize};

use crate::envelope::Unreadable;
use crate::meta::Meta;

#[derive(Serialize, Deserialize)]
pub(crate) struct MetaV1 {
    pub(crate) format: u32,
    pub(crate) install: u64,
    pub(crate) runs: u64,
}

/// Ids that were sent before there were epochs do not change.
impl From<MetaV1> for Meta {
    fn from(old: MetaV1) -> Self {
        Self { format: old.format, install: old.install, runs: old.runs, epochs: Vec::new() }
    }
}

pub(crate) fn upgrade(version: u16, body: &[u8]) -> Result<Meta, Unreadable> {
    super::first::<MetaV1, Meta>(version, body)
}
