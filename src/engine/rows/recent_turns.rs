//! What the last turns of an agent used, from the newest entries of the ledger. These are kept in memory, because each
//! message of an agent with a budget asks for them.

use crate::Result;
use crate::model::id::{AgentId, MessageId};
use crate::model::spend::{ModelUse, Spend};
use crate::rules::budgets::RECENT;
use crate::state::{Basis, SpendKey};
use crate::tx::Tx;
use std::sync::Arc;

/// Messages whose turns are searched for recent ones of an agent.
const MESSAGES_MAX: usize = 200;
/// Entries of the ledger that are read for that. A turn has one for each call that the gateway counted.
const ENTRIES_MAX: usize = 2_000;
/// Entries that are kept in memory, and that are read at once.
const AT_ONCE: usize = 64;

/// What a turn used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecentTurn {
    message: MessageId,
    incarnation: u32,
    /// Money in millionths of a dollar.
    pub(crate) money: u64,
    /// Tokens.
    pub(crate) tokens: u64,
}

/// An entry of the ledger.
#[derive(Debug, Clone, Copy)]
struct Entry {
    key: SpendKey,
    agent: AgentId,
    counted: bool,
    money: u64,
    tokens: u64,
}

impl Entry {
    fn of(key: SpendKey, entry: &Spend) -> Self {
        let sum = |one: fn(&ModelUse) -> u64| entry.uses.iter().map(one).fold(0, u64::saturating_add);
        Self {
            key,
            agent: entry.agent,
            counted: entry.counted && !entry.uses.is_empty(),
            money: sum(|used| used.cost.as_micros()),
            tokens: sum(|used| used.tokens.total()),
        }
    }
}

/// The newest entries of the ledger, the newest first.
#[derive(Clone)]
pub(crate) struct NewestEntries(Vec<Entry>);

/// The newest entries, if they are in memory. An entry is stored next.
pub(crate) fn known(tx: &Tx<'_, '_>) -> Option<Arc<NewestEntries>> {
    tx.known(Basis::Spend, &())
}

/// Counts an entry that was stored.
pub(crate) fn stored(tx: &Tx<'_, '_>, known: Option<Arc<NewestEntries>>, key: &SpendKey, entry: &Spend) {
    let Some(mut known) = known else { return };
    let NewestEntries(all) = Arc::make_mut(&mut known);
    let entry = Entry::of(*key, entry);
    match all.binary_search_by(|one| key.cmp(&one.key)) {
        Ok(at) => all.get_mut(at).into_iter().for_each(|one| *one = entry),
        Err(at) => all.insert(at, entry),
    }
    all.truncate(AT_ONCE);
    tx.keep(Basis::Spend, &(), known);
}

/// What the last turns of an agent used, the newest first.
pub(crate) fn recent(tx: &Tx<'_, '_>, agent: AgentId) -> Result<Vec<RecentTurn>> {
    let newest = tx.once(Basis::Spend, &(), || {
        let rows = tx.db.spend.collect_last_of(tx, .., AT_ONCE)?;
        Ok(NewestEntries(rows.iter().map(|(key, entry)| Entry::of(*key, entry)).collect()))
    })?;
    let mut search = Search { agent, turns: Vec::new(), messages: 0, newest: None };
    let mut more = search.take(&newest.0);
    let (mut entries, mut oldest) = (newest.0.len(), newest.0.last().map(|entry| entry.key));
    while let Some(before) = oldest.filter(|_| more && entries < ENTRIES_MAX) {
        let rows = tx.db.spend.collect_last_of(tx, ..before, AT_ONCE)?;
        let rows: Vec<Entry> = rows.iter().map(|(key, entry)| Entry::of(*key, entry)).collect();
        more = search.take(&rows);
        entries += rows.len();
        oldest = rows.last().map(|entry| entry.key);
    }
    Ok(search.turns)
}

struct Search {
    agent: AgentId,
    turns: Vec<RecentTurn>,
    messages: usize,
    newest: Option<MessageId>,
}

impl Search {
    /// Adds entries to the turns. Returns whether older ones are wanted.
    fn take(&mut self, entries: &[Entry]) -> bool {
        for Entry { key: SpendKey { message, incarnation, .. }, agent, counted, money, tokens } in
            entries.iter().copied()
        {
            self.messages += usize::from(self.newest.replace(message) != Some(message));
            if self.messages > MESSAGES_MAX {
                return false;
            }
            if agent != self.agent || !counted {
                continue;
            }
            let is_same = |turn: &&mut RecentTurn| (turn.message, turn.incarnation) == (message, incarnation);
            if let Some(turn) = self.turns.last_mut().filter(is_same) {
                turn.money = turn.money.saturating_add(money);
                turn.tokens = turn.tokens.saturating_add(tokens);
            } else if self.turns.len() == RECENT {
                return false;
            } else {
                self.turns.push(RecentTurn { message, incarnation, money, tokens });
            }
        }
        true
    }
}
