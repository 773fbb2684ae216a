//! Checks the store for consistency: every row can be read, every index matches its records, every reference has a
//! target.
//!
//! Checks only read, and they continue after a finding, because errors often come in groups. Each one streams over its
//! tables and remembers only findings and counts.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Read;
use super::envelope::Record;
use super::error::{Error, Result, readable};
use super::hex::hex;
use super::indexed::{Indexed, Rederive, VisitIndexed};
use super::key::KeyPart;
use super::reader::Reader;
use super::schema::Tables;
use super::table::{Codec, Index, Rows};
use super::untyped::{RowFormat, Untyped};

mod approvals;
mod entities;
mod groups;
mod messages;
mod network;
mod outbound;
mod recall;
mod requests;
mod rows;
mod spend;
mod workspaces;

/// An inconsistency.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// Table.
    pub table: &'static str,
    /// Key of the row, in text form.
    pub key: String,
    /// What is wrong with it.
    pub what: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}: {}", self.table, self.key, self.what)
    }
}

/// Maximum number of findings; a store with more of them cannot be repaired row by row.
const MAX_FOUND: usize = 1_000;

/// Rows that belong together: a check of one family needs one view of the store.
type Family = fn(&mut Check<'_, '_>) -> Result<()>;

/// The longest check comes first, so that processors that check side by side end at about the same time.
const FAMILIES: &[Family] = &[
    recall::index,
    rows::every_row_is_readable,
    rows::counters_are_ahead,
    rows::epochs_ascend,
    derived_indexes,
    groups::state_files,
    workspaces::references,
    workspaces::records,
    entities::references,
    entities::sessions,
    entities::incarnations,
    approvals::waitlists,
    approvals::held,
    approvals::asked,
    approvals::tool_grants,
    messages::fetches,
    outbound::speeches,
    messages::session_files,
    messages::backlog,
    messages::refusals,
    messages::references,
    messages::seen,
    outbound::references,
    outbound::lane_heads,
    requests::references,
    requests::between_agents,
    network::connections,
    network::decisions,
    spend::totals,
    spend::reservations,
];

/// Checks everything in one transaction.
///
/// # Errors
/// [`Error::Lmdb`]. Problems of rows are returned as findings.
pub fn check(db: &Tables, txn: &Read<'_>) -> Result<Vec<Violation>> {
    let mut check = Check { db, txn, found: Vec::new() };
    for family in FAMILIES {
        family(&mut check)?;
    }
    Ok(check.found)
}

/// Checks everything with a transaction per family of tables, so that none is open for long beside a running daemon.
/// Each processor checks a family.
///
/// # Errors
/// As for [`check`].
pub fn check_in_parts(reader: &Reader) -> Result<Vec<Violation>> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut found = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(family) = FAMILIES.get(number) else { return Ok(found) };
            let of_family = reader.read(|db, txn| {
                let mut check = Check { db, txn, found: Vec::new() };
                family(&mut check)?;
                Ok::<_, Error>(check.found)
            })?;
            found.push((number, of_family));
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(FAMILIES.len());
    let mut found: Vec<(usize, Vec<Violation>)> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..workers).map(|_| scope.spawn(work)).collect();
        let mut found: Result<Vec<_>> = work();
        for other in others {
            let other = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            found = found.and_then(|found| Ok([found, other?].concat()));
        }
        found
    })?;
    found.sort_by_key(|(number, _)| *number);
    Ok(found.into_iter().flat_map(|(_, of_family)| of_family).take(MAX_FOUND).collect())
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

    /// Calls `look` for every readable row. A separate check reports the others.
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

    /// A row, if it exists and is readable.
    fn look_up<K: KeyPart, V, C: Codec<V>>(&self, table: &Rows<K, V, C>, key: &K) -> Result<Option<V>> {
        readable(table.get(self.txn, key))
    }

    /// Reports a row of `from` that refers to a missing row.
    fn refers<K: KeyPart, V, C, RK: KeyPart, RV, RC: Codec<RV>>(
        &mut self,
        from: &Rows<K, V, C>,
        key: &K,
        to: &Rows<RK, RV, RC>,
        target: &RK,
    ) -> Result<()> {
        if !to.contains(self.txn, target)? {
            let what = format!("refers to {} {}, which is not there", to.name(), target.shown());
            self.report(from, key, what);
        }
        Ok(())
    }

    /// Compares records with an index that is written by hand, in both directions: `derive` gives the index row of a
    /// record, `owner` the record of an index row.
    fn agree<K: KeyPart, V, C: Codec<V>, IK: KeyPart, IV: KeyPart>(
        &mut self,
        records: &Rows<K, V, C>,
        index: &Index<IK, IV>,
        derive: impl Fn(&K, &V) -> Option<(IK, IV)>,
        owner: impl Fn(&IK) -> K,
    ) -> Result<()> {
        self.each(records, |check, key, row| match derive(&key, &row) {
            Some((index_key, expected)) if check.look_up(index, &index_key)?.as_ref() != Some(&expected) => {
                let what = format!("does not say {} for {} {}", expected.shown(), records.name(), key.shown());
                check.report(index, &index_key, what);
                Ok(())
            }
            _ => Ok(()),
        })?;
        self.each(index, |check, index_key, _| {
            let key = owner(&index_key);
            let derived = check.look_up(records, &key)?.and_then(|row| derive(&key, &row));
            if derived.map(|(key, _)| key).as_ref() != Some(&index_key) {
                check.report(index, &index_key, format!("left over: no row of {} has it", records.name()));
            }
            Ok(())
        })
    }

    /// Compares the derived indexes of a table with its records.
    fn derived<K: KeyPart, V: Record, D: Rederive<K, V>>(&mut self, table: &Indexed<K, V, D>) -> Result<()> {
        let mut agreeing: BTreeMap<&'static str, u64> = BTreeMap::new();
        self.each(table, |check, key, row| {
            table.indexes().rows(&key, &row, &mut |index, index_key, expected| {
                let name = index.bytes().name();
                let what = match index.bytes().get(check.txn, index_key)? {
                    Some(found) if found == expected => {
                        *agreeing.entry(name).or_default() += 1;
                        return Ok(());
                    }
                    Some(found) => {
                        let (found, expected) = (shown(index, index_key, found), shown(index, index_key, expected));
                        format!("says {found} where {} {} says {expected}", table.name(), key.shown())
                    }
                    None => format!("missing for {} {}", table.name(), key.shown()),
                };
                check.report_text(name, shown_key(index, index_key), what);
                Ok(())
            })
        })?;
        let mut excess = Vec::new();
        table.indexes().indexes(&mut |index| {
            let name = index.bytes().name();
            if index.bytes().len(self.txn)? != agreeing.get(name).copied().unwrap_or_default() {
                excess.push(name);
            }
            Ok(())
        })?;
        excess.into_iter().try_for_each(|name| self.left_over(table, name))
    }

    /// Reports the rows of an index that no record has.
    fn left_over<K: KeyPart, V: Record, D: Rederive<K, V>>(
        &mut self,
        table: &Indexed<K, V, D>,
        name: &'static str,
    ) -> Result<()> {
        let mut derived = HashSet::new();
        self.each(table, |_, key, row| {
            table.indexes().rows(&key, &row, &mut |index, index_key, expected| {
                if index.bytes().name() == name {
                    derived.insert((index_key.to_vec(), expected.to_vec()));
                }
                Ok(())
            })
        })?;
        table.indexes().indexes(&mut |index| {
            if index.bytes().name() != name {
                return Ok(());
            }
            for row in index.bytes().all(self.txn)? {
                let (key, value) = row.map_err(Error::lmdb("reading a row"))?;
                if index.read(key, value).is_ok() && !derived.contains(&(key.to_vec(), value.to_vec())) {
                    let what = format!("left over: no row of {} has it", table.name());
                    self.report_text(name, shown_key(index, key), what);
                }
            }
            Ok(())
        })
    }
}

/// Every derived index has exactly the rows that its records have.
fn derived_indexes(check: &mut Check<'_, '_>) -> Result<()> {
    check.db.visit_indexed(check)
}

impl VisitIndexed for Check<'_, '_> {
    fn visit<K: KeyPart, V: Record, D: Rederive<K, V>>(&mut self, table: &Indexed<K, V, D>) -> Result<()> {
        self.derived(table)
    }
}

/// A key of an index in text form.
fn shown_key(index: &dyn Untyped, key: &[u8]) -> String {
    index.key(key).map_or_else(|_| hex(key), |parts| if parts.is_empty() { "()".to_owned() } else { parts.join("/") })
}

/// A value of an index in text form.
fn shown(index: &dyn Untyped, key: &[u8], value: &[u8]) -> String {
    index.show(key, value, RowFormat::Text, true).map_or_else(|_| hex(value), |shown| shown.value)
}
