//! Digest of the whole configuration, to detect changes.

use sha2::{Digest as _, Sha256};

use super::Read;
use super::error::{Error, Result};
use super::schema::Tables;
use super::untyped::Untyped;

impl Tables {
    /// Digest of everything an operator can configure, as stored. Equal digests mean equal rows.
    ///
    /// # Errors
    /// [`Error::Lmdb`].
    pub fn configuration_digest(&self, txn: &Read<'_>) -> Result<u64> {
        let mut sum = Sha256::new();
        add(&mut sum, txn, &self.settings)?;
        add(&mut sum, txn, self.agents.rows())?;
        add(&mut sum, txn, &self.users)?;
        add(&mut sum, txn, self.roles.rows())?;
        add(&mut sum, txn, &self.members)?;
        add(&mut sum, txn, self.chats.rows())?;
        add(&mut sum, txn, self.wirings.rows())?;
        add(&mut sum, txn, &self.destinations)?;
        add(&mut sum, txn, &self.channels)?;
        add(&mut sum, txn, &self.console)?;
        let first = sum.finalize().first_chunk::<8>().copied().unwrap_or_default();
        Ok(u64::from_be_bytes(first))
    }
}

/// Hashes the length of each part, so that adjacent parts cannot be confused.
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
