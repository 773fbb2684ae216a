//! Checks of the ledger of costs.

use std::collections::BTreeMap;

use super::Check;
use crate::error::Result;
use crate::keys::SpendTotalKey;
use crate::model::spend::Amounts;
use crate::scope_key::ScopeKey;

/// Totals are the sums of the entries that they stand for.
pub(super) fn totals(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    let mut sums: BTreeMap<SpendTotalKey, Amounts> = BTreeMap::new();
    check.each(&db.spend, |check, key, entry| {
        check.refers(&db.spend, &key, &db.messages, &key.message)?;
        for (scope, amounts) in entry.amounts() {
            match ScopeKey::of(&scope) {
                Ok(scope) => {
                    let sum = sums.entry(SpendTotalKey { scope, day: entry.day }).or_default();
                    *sum = sum.plus(amounts);
                }
                Err(error) => check.report(&db.spend, &key, error.to_string()),
            }
        }
        Ok(())
    })?;
    check.each(&db.spend_totals, |check, key, total| {
        let sum = sums.remove(&key).unwrap_or_default();
        if total.kept != sum {
            check.report(&db.spend_totals, &key, format!("says {:?}, its entries have {sum:?}", total.kept));
        }
        Ok(())
    })?;
    for key in sums.into_keys() {
        check.report(&db.spend_totals, &key, "the total of a day with entries is missing");
    }
    Ok(())
}
