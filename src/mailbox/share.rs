//! Limits of one collection.

/// Records of one kind (ends; everything else) in one collection: an input touches about a thousand rows at most.
const RECORDS: usize = 250;
/// Bytes of files behind the records of one kind; the last one may go beyond.
const BYTES: u64 = 8 * 1024 * 1024;

/// Remaining capacity of one collection.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) records: usize,
    pub(super) bytes: u64,
}

impl Room {
    pub(super) const WHOLE: Self = Self { records: RECORDS, bytes: BYTES };

    pub(super) fn is_full(&self) -> bool {
        self.records == 0 || self.bytes == 0
    }

    pub(super) fn take(&mut self, records: usize, bytes: usize) {
        self.records = self.records.saturating_sub(records);
        self.bytes = self.bytes.saturating_sub(bytes as u64);
    }
}
