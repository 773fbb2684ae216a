//! Keys of tables that list records: by time, and by what they belong to.

use super::key::{BadKey, KeyPart, Prefix};
use crate::model::Timestamp;

/// A row of a table that is ordered by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timed<T, A = Timestamp> {
    /// The time.
    pub at: A,
    /// The key of the record.
    pub id: T,
}

impl<T: KeyPart, A: KeyPart> KeyPart for Timed<T, A> {
    const MAX_BYTES: usize = A::MAX_BYTES + T::MAX_BYTES;

    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        self.at.encode(out);
        self.id.encode(out);
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, BadKey> {
        Ok(Self { at: A::decode(bytes)?, id: T::decode(bytes)? })
    }

    fn show(&self, parts: &mut Vec<String>) {
        self.at.show(parts);
        self.id.show(parts);
    }
}

impl<T: KeyPart> Prefix<Timed<T>> for Timestamp {}

/// A row of a table that lists records by what they belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owned<O, T> {
    /// What the record belongs to.
    pub owner: O,
    /// The key of the record.
    pub id: T,
}

impl<O: KeyPart, T: KeyPart> KeyPart for Owned<O, T> {
    const MAX_BYTES: usize = O::MAX_BYTES + T::MAX_BYTES;

    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        self.owner.encode(out);
        self.id.encode(out);
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, BadKey> {
        Ok(Self { owner: O::decode(bytes)?, id: T::decode(bytes)? })
    }

    fn show(&self, parts: &mut Vec<String>) {
        self.owner.show(parts);
        self.id.show(parts);
    }
}

impl<O: KeyPart, T: KeyPart> Prefix<Owned<O, T>> for O {}
