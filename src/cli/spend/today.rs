//! What was spent, for the console.

use super::{AmountsJson, By, LineJson, SpendArgs, collect};
use crate::cli::budgets;
use crate::clock;
use crate::model::spend::Amounts;
use crate::state::{self, Read, ScopeKey, Tables};
use crate::time::local;

/// The sum of all agents, in words.
pub(in crate::cli) fn words(db: &Tables, txn: &Read<'_>) -> Result<String, state::Error> {
    let zone = budgets::zone_of(db.settings.get(txn, &())?.as_ref());
    let (today, mut total) = (local::day(clock::wall(), &zone), Amounts::default());
    for row in db.spend_totals.iter(txn)? {
        let (key, row) = row?;
        if key.day == today && key.scope == ScopeKey::All {
            total = total.plus(row.sum());
        }
    }
    let amounts = AmountsJson::of(total);
    Ok(if amounts.turns == 0 {
        "Nothing, as far as agents report it.".to_owned()
    } else {
        format!("{} in {}.", amounts.cost(), crate::cli::labels::count(amounts.turns, "turn", "turns"))
    })
}

/// Lines of each table.
const LINES_MAX: usize = 50;

/// What was spent since the first of the month, by several things.
pub(in crate::cli) fn tables(db: &Tables, txn: &Read<'_>) -> Result<Vec<(&'static str, Vec<LineJson>)>, state::Error> {
    let by = [("By day", By::Day), ("By agent", By::Agent), ("By person", By::Person), ("By model", By::Model)];
    by.into_iter()
        .map(|(title, by)| {
            let args = SpendArgs { by, since: None, limit: LINES_MAX };
            Ok((title, collect(db, txn, &args)?.spend))
        })
        .collect()
}
