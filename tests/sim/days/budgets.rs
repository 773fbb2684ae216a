//! Budgets: what was used of one never exceeds it by more than turns under way used above what was set aside for them,
//! and what passed by right.

use std::collections::{BTreeMap, BTreeSet};

use hearth::model::budget::Reservation;
use hearth::model::configure::{Change, Configure};
use hearth::model::entity::Origin;
use hearth::model::id::MessageId;
use hearth::model::journal::Event;
use hearth::model::message::{Due, MessageState};
use hearth::model::spend::Spend;
use hearth::model::time::Day;
use hearth::model::{Input, Timestamp};
use hearth::state::SpendKey;

use super::Sim;
use super::plan::Setting;
use crate::world::{World, configuration};

/// Tokens of all agents in a day.
const LIMIT: u64 = 60_000;

/// The top of a configuration with budgets.
const TOML: &str = r#"
grace = 1
[[budgets]]
scope = "all"
per = "day"
tokens = 60000
[[budgets]]
scope = "agent:main"
per = "day"
usd = 0
[[budgets]]
scope = "person:net:ann"
per = "month"
tokens = 200000
"#;

/// Adds budgets to the settings.
pub(super) fn set(world: &mut World) {
    let mut settings = world.read(|db, txn| db.settings.get(txn, &())).unwrap_or_default();
    for change in configuration(TOML).changes {
        let Change::PutSettings(wanted) = change else { continue };
        (settings.budgets, settings.grace) = (wanted.budgets, wanted.grace);
    }
    world.configure(vec![Change::PutSettings(settings)]).unwrap();
}

/// What was seen of budgets.
#[derive(Default, Clone)]
pub(super) struct Seen {
    /// The newest reservation of each message.
    reserved: BTreeMap<MessageId, Reservation>,
    /// Messages that were claimed while they waited for a budget: their agents had them already.
    late: BTreeSet<MessageId>,
    waiting: BTreeSet<MessageId>,
    /// Tokens that people added, by day.
    added: BTreeMap<Day, u64>,
    /// Days on which a person let everything pass.
    open: BTreeSet<Day>,
}

impl Sim {
    /// Whether this run has budgets.
    pub(super) fn has_budgets(&self) -> bool {
        self.plan.setting == Setting::Full && self.plan.seed % 3 == 1
    }

    /// What waits for a budget goes on without one.
    pub(super) fn remove_budgets(&mut self) {
        let mut settings = self.world.read(|db, txn| db.settings.get(txn, &())).unwrap_or_default();
        settings.budgets.clear();
        self.put(Input::Configure(Configure::new(vec![Change::PutSettings(settings)], Origin::File)));
    }

    /// Follows what is set aside and what people allow.
    pub(super) fn note_budgets(&mut self) {
        if !self.has_budgets() {
            return;
        }
        let now = self.world.now().wall;
        let (rows, waiting, state) = self.world.read(|db, txn| {
            let rows = db.reservations.iter(txn)?.collect::<Result<Vec<_>, _>>()?;
            let waiting =
                db.budget_waits.iter(txn)?.map(|row| row.map(|(_, id)| id)).collect::<Result<BTreeSet<_>, _>>()?;
            Ok((rows, waiting, db.budget_states.get(txn, &hearth::state::Text::new("all/day").unwrap())?))
        });
        let seen = &mut self.memory.budgets;
        let ready = |id: &MessageId| matches!(self.world.state_of(*id), MessageState::Pending(Due::Now));
        seen.late.extend(seen.waiting.difference(&waiting).filter(|id| !ready(id)));
        seen.waiting = waiting;
        seen.reserved.extend(rows.into_iter().map(|(_, row)| (row.message, row)));
        if let Some(state) = state {
            let added = seen.added.entry(state.from).or_default();
            *added = (*added).max(state.tokens);
            if state.open_until.is_some_and(|until| now < until) {
                seen.open.insert(state.from);
            }
        }
        if !seen.reserved.is_empty() {
            *self.happened.entry("things set aside").or_default() += 1;
        }
    }

    /// Checks the totals of all days.
    pub(super) fn budgets_hold(&self) {
        if !self.has_budgets() {
            return;
        }
        let seen = &self.memory.budgets;
        let entries: Vec<(SpendKey, Spend)> = self.world.read(|db, txn| db.spend.iter(txn)?.collect());
        let mut planned: BTreeMap<Day, u64> = BTreeMap::new();
        for (key, entry) in entries {
            let Some(reservation) = seen.reserved.get(&key.message) else { continue };
            let same_day = day(reservation.at) == entry.day;
            if !same_day || seen.late.contains(&key.message) || self.passed(key.message) {
                continue;
            }
            let used: u64 = entry.uses.iter().map(|used| used.tokens.total()).sum();
            *planned.entry(entry.day).or_default() += used.min(reservation.tokens);
        }
        for (day, used) in planned.into_iter().filter(|(day, _)| !seen.open.contains(day)) {
            let limit = LIMIT + seen.added.get(&day).copied().unwrap_or_default();
            assert!(used <= limit, "{used} tokens were planned on {day}, and {limit} were allowed");
        }
    }

    fn passed(&self, message: MessageId) -> bool {
        self.world.read(|db, txn| {
            for row in db.journal_by_message.prefix(txn, &message)? {
                let (key, ()) = row?;
                if matches!(db.journal.require(txn, &key.id)?.event, Event::PassedBudget { .. }) {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }
}

fn day(at: Timestamp) -> Day {
    Day::of(at, 0)
}
