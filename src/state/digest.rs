//! One number for the whole configuration: it differs when anything in it does.

use sha2::{Digest as _, Sha256};

use super::Read;
use super::error::{Error, Result};
use super::schema::Tables;
use super::untyped::Untyped;

impl Tables {
    /// Digest of everything an operator may configure, as it is stored. Two that are equal were made of the same rows.
    ///
    /// # Errors
    /// [`Error::Lmdb`].
    pub fn configuration_digest(&self, txn: &Read<'_>) -> Result<u64> {
        let mut sum = Sha256::new();
        add(&mut sum, txn, &self.settings)?;
        add(&mut sum, txn, &self.agents)?;
        add(&mut sum, txn, &self.users)?;
        add(&mut sum, txn, &self.roles)?;
        add(&mut sum, txn, &self.members)?;
        add(&mut sum, txn, &self.chats)?;
        add(&mut sum, txn, &self.wirings)?;
        add(&mut sum, txn, &self.destinations)?;
        add(&mut sum, txn, &self.channels)?;
        let first = sum.finalize().first_chunk::<8>().copied().unwrap_or_default();
        Ok(u64::from_be_bytes(first))
    }
}

/// Lengths keep neighbours apart.
fn add(sum: &mut Sha256, txn: &Read<'_>, rows: &dyn Untyped) -> Result<()> {
    let rows = rows.bytes();
    sum.update(rows.len(txn)?.to_be_bytes());
    for row in rows.all(txn)? {
        let (key, value) = row.map_err(Error::lmdb("reading a row"))?;
        for part in [key, value] {
            sum.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            sum.update(part);
        }
    }
    Ok(())
}
