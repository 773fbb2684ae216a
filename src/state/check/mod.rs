//! Proof that the store agrees with itself: every row can be read, every index says what its records say, every
//! reference leads somewhere.
//!
//! Checks only read and never stop at a finding, because what is wrong often comes in groups. Each one streams over its
//! tables and remembers nothing but its findings and counts.

use super::Read;
use super::error::{Error, Result};
use super::key::KeyPart;
use super::schema::Tables;
use super::store::Reader;
use super::table::{Codec, Index, Rows};

mod approvals;
mod entities;
mod groups;
mod indexes;
mod messages;
mod outbound;
mod requests;
mod rows;
mod workspaces;

/// Something that must not be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// Table.
    pub table: &'static str,
    /// Key of the row, as people write it.
    pub key: String,
    /// What is wrong with it.
    pub what: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}: {}", self.table, self.key, self.what)
    }
}

/// Findings that are kept; a store with more of them is not mended row by row.
const MAX_FOUND: usize = 1_000;

/// Rows that belong together: a check of one family needs one view of the store.
type Family = fn(&mut Check<'_, '_>) -> Result<()>;

const FAMILIES: &[Family] = &[
    rows::every_row_is_readable,
    rows::counters_are_ahead,
    indexes::of_entities,
    indexes::of_sessions,
    indexes::of_dates,
    indexes::of_journal,
    groups::state_files,
    groups::skips,
    workspaces::indexes,
    workspaces::sessions,
    workspaces::records,
    entities::references,
    entities::sessions,
    entities::incarnations,
    approvals::indexes,
    approvals::held,
    approvals::asked,
    messages::states,
    messages::bodies,
    messages::backlog,
    messages::references,
    messages::seen,
    outbound::indexes,
    outbound::lane_heads,
    requests::references,
    requests::between_agents,
];

/// Checks everything in one transaction.
///
/// # Errors
/// [`Error::Lmdb`]; what is wrong with rows is the answer.
pub fn check(db: &Tables, txn: &Read<'_>) -> Result<Vec<Violation>> {
    let mut check = Check { db, txn, found: Vec::new() };
    for family in FAMILIES {
        family(&mut check)?;
    }
    Ok(check.found)
}

/// Checks everything with a transaction per family of tables, so that none is open for long beside a running daemon.
///
/// # Errors
/// As for [`check`].
pub fn check_in_parts(reader: &Reader) -> Result<Vec<Violation>> {
    let mut found = Vec::new();
    for family in FAMILIES {
        found = reader.read(|db, txn| {
            let mut check = Check { db, txn, found };
            family(&mut check)?;
            Ok::<_, Error>(check.found)
        })?;
    }
    Ok(found)
}

struct Check<'a, 't> {
    db: &'a Tables,
    txn: &'a Read<'t>,
    found: Vec<Violation>,
}

impl<'a> Check<'a, '_> {
    fn report<K: KeyPart, V, C>(&mut self, table: &Rows<K, V, C>, key: &K, what: impl Into<String>) {
        self.report_text(table.name(), key.shown(), what.into());
    }

    fn report_text(&mut self, table: &'static str, key: String, what: String) {
        if self.found.len() < MAX_FOUND {
            self.found.push(Violation { table, key, what });
        }
    }

    /// Shows every row that can be read to `look`; the others are the business of one check alone.
    fn each<K: KeyPart, V, C: Codec<V>>(
        &mut self,
        table: &Rows<K, V, C>,
        mut look: impl FnMut(&mut Self, K, V) -> Result<()>,
    ) -> Result<()> {
        for row in table.iter(self.txn)? {
            match row {
                Ok((key, value)) => look(self, key, value)?,
                Err(Error::Damaged { .. } | Error::TooNew { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// A row, if there is one that can be read.
    fn look_up<K: KeyPart, V, C: Codec<V>>(&self, table: &Rows<K, V, C>, key: &K) -> Result<Option<V>> {
        readable(table.get(self.txn, key))
    }

    /// Reports a row of `from` that refers to a row that is not there.
    fn refers<K: KeyPart, V, C, RK: KeyPart, RV, RC: Codec<RV>>(
        &mut self,
        from: (&Rows<K, V, C>, &K),
        to: (&Rows<RK, RV, RC>, &RK),
    ) -> Result<()> {
        if !to.0.contains(self.txn, to.1)? {
            let what = format!("refers to {} {}, which is not there", to.0.name(), to.1.shown());
            self.report(from.0, from.1, what);
        }
        Ok(())
    }

    /// Both directions between records and one of their indexes: `derive` says which row of the index a record has,
    /// `owner` which record a row of the index is of.
    fn agree<K: KeyPart, V, C: Codec<V>, IK: KeyPart, IV: KeyPart>(
        &mut self,
        records: &Rows<K, V, C>,
        index: &Index<IK, IV>,
        derive: impl Fn(&K, &V) -> Option<(IK, IV)>,
        owner: impl Fn(&IK, &IV) -> K,
    ) -> Result<()> {
        self.agree_through(records, index, derive, |_, key, value| Ok(Some(owner(key, value))))
    }

    /// As [`Self::agree`], where finding the record of a row takes a look at another table.
    fn agree_through<K: KeyPart, V, C: Codec<V>, IK: KeyPart, IV: KeyPart>(
        &mut self,
        records: &Rows<K, V, C>,
        index: &Index<IK, IV>,
        derive: impl Fn(&K, &V) -> Option<(IK, IV)>,
        owner: impl Fn(&Self, &IK, &IV) -> Result<Option<K>>,
    ) -> Result<()> {
        self.each(records, |check, key, value| {
            let Some((index_key, expected)) = derive(&key, &value) else { return Ok(()) };
            match check.look_up(index, &index_key)? {
                Some(found) if found == expected => {}
                Some(found) => {
                    let what = format!(
                        "says {} where {} {} says {}",
                        found.shown(),
                        records.name(),
                        key.shown(),
                        expected.shown()
                    );
                    check.report(index, &index_key, what);
                }
                None => check.report(index, &index_key, format!("missing for {} {}", records.name(), key.shown())),
            }
            Ok(())
        })?;
        self.each(index, |check, index_key, index_value| {
            let record = match owner(check, &index_key, &index_value)? {
                Some(key) => check.look_up(records, &key)?.map(|value| (key, value)),
                None => None,
            };
            let derived = record.as_ref().and_then(|(key, value)| derive(key, value));
            if derived.as_ref() != Some(&(index_key.clone(), index_value)) {
                check.report(index, &index_key, format!("left over: no row of {} has it", records.name()));
            }
            Ok(())
        })
    }
}

/// A row that cannot be read counts as none: it is reported as such elsewhere.
fn readable<T>(row: Result<Option<T>>) -> Result<Option<T>> {
    match row {
        Err(Error::Damaged { .. } | Error::TooNew { .. }) => Ok(None),
        row => row,
    }
}
