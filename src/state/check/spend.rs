//! Checks of the ledger of costs, and of what is set aside for messages under way.

use std::collections::BTreeMap;

use super::Check;
use crate::error::Result;
use crate::keys::{InboxKey, SpendTotalKey};
use crate::model::message::Waits;
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

/// What is set aside belongs to a message that a run works on, or that its session's run was given.
pub(super) fn reservations(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    check.each(&db.reservations, |check, key, reservation| {
        let message = check.look_up(&db.messages, &reservation.message)?;
        let Some(message) = message.filter(|message| InboxKey::of(message) == key) else {
            check.report(&db.reservations, &key, format!("{} is not there", reservation.message));
            return Ok(());
        };
        if !matches!(message.waits(), Some(Waits::Agent | Waits::Turn)) || !message.trigger {
            check.report(&db.reservations, &key, format!("{} is not under way", reservation.message));
        }
        if !db.live_incarnations.contains(check.txn, &key.session)? {
            check.report(&db.reservations, &key, "its session has no run");
        }
        Ok(())
    })
}
