//! `hearth spend`: what agents use of models, and what it costs. Reads the store beside the daemon.

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::budgets::BudgetJson;
use super::listed::{self, Column, Listed};
use super::time_args::{self, Since};
use super::{Done, budgets, lookup, print};
use crate::clock;
use crate::config::Paths;
use crate::model::Timestamp;
use crate::model::address::UserId;
use crate::model::id::MessageId;
use crate::model::spend::{Amounts, CostBasis, ModelUse, Money, Spend, SpendScope, SpendSource, Tokens};
use crate::model::time::Day;
use crate::state::{self, PersonKey, Read, Reader, ScopeKey, Tables};
use crate::time::local;

mod today;

pub(super) use today::{tables, words as today};

#[derive(Debug, Args)]
pub(super) struct SpendArgs {
    /// What each line is about
    #[arg(long, value_name = "WHAT", default_value = "agent")]
    by: By,
    /// Only since then: a date like 2026-04-20, or an age like 7d; by default since the first of the month
    #[arg(long, value_name = "TIME", value_parser = time_args::parse)]
    since: Option<Since>,
    /// Show at most this many lines
    #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = listed::limit)]
    limit: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum By {
    Agent,
    Person,
    Chat,
    Task,
    Model,
    Day,
}

/// The answer of `hearth spend --json`.
#[derive(Debug, Serialize)]
struct SpendJson {
    by: By,
    /// The first day.
    since: String,
    /// The most expensive first; days in order.
    spend: Vec<LineJson>,
    total: AmountsJson,
    /// Whether there are more lines.
    cut: bool,
    /// Budgets in their present period.
    budgets: Vec<BudgetJson>,
}

#[derive(Debug, Serialize)]
pub(super) struct LineJson {
    /// Folder, person, chat, id of the task, model, or day.
    name: String,
    #[serde(flatten)]
    amounts: AmountsJson,
}

/// What was used of models.
#[derive(Debug, Serialize)]
pub(super) struct AmountsJson {
    /// Turns, or calls that the gateway counted.
    turns: u64,
    input_tokens: u64,
    output_tokens: u64,
    cache_read_tokens: u64,
    cache_write_tokens: u64,
    reasoning_tokens: u64,
    /// Known costs in millionths of a US dollar.
    cost_micros: u64,
    /// What the tokens of models without a price cost at most.
    unpriced_micros: u64,
}

impl AmountsJson {
    const fn of(amounts: Amounts) -> Self {
        let Amounts { turns, tokens, cost, unpriced } = amounts;
        let Tokens { input, output, cache_read, cache_write, reasoning } = tokens;
        Self {
            turns,
            input_tokens: input,
            output_tokens: output,
            cache_read_tokens: cache_read,
            cache_write_tokens: cache_write,
            reasoning_tokens: reasoning,
            cost_micros: cost.as_micros(),
            unpriced_micros: unpriced.as_micros(),
        }
    }

    fn cost(&self) -> String {
        match (self.cost_micros, self.unpriced_micros) {
            (known, 0) => Money::micros(known).to_string(),
            (0, most) => format!("unknown, at most {}", Money::micros(most)),
            (known, most) => format!("{} and at most {} more", Money::micros(known), Money::micros(most)),
        }
    }
}

/// What the turns of a message used; none if nothing is known.
pub(super) fn of_message(
    db: &Tables,
    txn: &Read<'_>,
    id: MessageId,
) -> Result<Option<(AmountsJson, Vec<Spend>)>, state::Error> {
    let entries = db.spend.collect_prefix(txn, &id, ENTRIES_MAX)?;
    let counted: Vec<Spend> =
        entries.into_iter().map(|(_, entry)| entry).filter(|entry| entry.counted && !entry.uses.is_empty()).collect();
    let all = counted.iter().flat_map(Spend::amounts).filter(|(scope, _)| *scope == SpendScope::All);
    let sum = all.fold(Amounts::default(), |sum, (_, amounts)| sum.plus(amounts));
    Ok((!counted.is_empty()).then(|| (AmountsJson::of(sum), counted)))
}

/// An entry of the ledger, for people.
pub(super) fn entry_words(entry: &Spend) -> String {
    let used = |used: &ModelUse| {
        let cost = match used.basis {
            CostBasis::Stated | CostBasis::Priced => used.cost.to_string(),
            CostBasis::Unknown => format!("cost unknown, at most {}", used.cost),
        };
        let model = used.model.as_deref().unwrap_or("an unknown model");
        format!("{} tokens of {model} ({cost})", count(used.tokens.total()))
    };
    let uses: Vec<String> = entry.uses.iter().map(used).collect();
    let by = match entry.source {
        SpendSource::Gateway => "the gateway counted",
        SpendSource::Reported | SpendSource::Unreported => "the agent reports",
    };
    format!("{by} {}", uses.join(", "))
}

/// Entries of the ledger that are read for one message.
const ENTRIES_MAX: usize = 1_000;

impl Listed for LineJson {
    const PLURAL: &'static str = "spend";
    const COLUMNS: &'static [Column<Self>] = &[
        ("NAME", |line| line.name.clone()),
        ("TURNS", |line| line.amounts.turns.to_string()),
        ("READ", |line| count(line.amounts.input_tokens)),
        ("CACHED", |line| count(line.amounts.cache_read_tokens.saturating_add(line.amounts.cache_write_tokens))),
        ("WRITTEN", |line| count(line.amounts.output_tokens)),
        ("COST", |line| line.amounts.cost()),
    ];
}

/// Tokens, rounded: `950`, `12.4k`, `3.1M`.
fn count(tokens: u64) -> String {
    let rounded = |unit: u64, letter: char| {
        let tenths = tokens.saturating_add(unit / 20) / (unit / 10);
        format!("{}.{}{letter}", tenths / 10, tenths % 10)
    };
    match tokens {
        0..1_000 => tokens.to_string(),
        1_000..999_950 => rounded(1_000, 'k'),
        _ => rounded(1_000_000, 'M'),
    }
}

pub(super) fn spend(paths: &Paths, args: &SpendArgs, json: bool) -> Done {
    let answer = Reader::open(paths.data())?.read(|db, txn| collect(db, txn, args))?;
    if json {
        return print::json(&answer);
    }
    if answer.spend.is_empty() {
        print_budgets(&answer.budgets)?;
        return print::line(&format!("no model was used since {}, as far as agents report it", answer.since));
    }
    listed::table(&answer.spend)?;
    let AmountsJson { turns, .. } = answer.total;
    print::line(&format!("total since {}: {turns} turns, {}", answer.since, answer.total.cost()))?;
    if answer.cut {
        print::note("there are more lines: see --limit");
    }
    print_budgets(&answer.budgets)
}

fn print_budgets(budgets: &[BudgetJson]) -> Done {
    if budgets.is_empty() {
        return Ok(());
    }
    print::line("")?;
    listed::table(budgets)
}

fn collect(db: &Tables, txn: &Read<'_>, args: &SpendArgs) -> Result<SpendJson, state::Error> {
    let zone = budgets::zone_of(db.settings.get(txn, &())?.as_ref());
    let day_of = |at: Timestamp| local::day(at, &zone);
    let since = match args.since {
        Some(Since::Day(day)) => day,
        Some(since) => day_of(since.start()),
        None => day_of(clock::wall()).month(),
    };
    let (mut total, mut sums) = (Amounts::default(), BTreeMap::<String, Amounts>::new());
    for row in db.spend_totals.iter(txn)? {
        let (key, row) = row?;
        if key.day < since {
            continue;
        }
        if key.scope == ScopeKey::All {
            total = total.plus(row.sum());
        }
        if let Some(name) = name(db, txn, args.by, &key.scope, key.day)? {
            let sum = sums.entry(name).or_default();
            *sum = sum.plus(row.sum());
        }
    }
    let mut lines: Vec<(String, Amounts)> = sums.into_iter().collect();
    if args.by != By::Day {
        lines.sort_by_key(|(_, sum)| std::cmp::Reverse((sum.cost.plus(sum.unpriced), sum.tokens.total())));
    }
    let cut = lines.len() > args.limit;
    let spend = lines.into_iter().take(args.limit);
    let spend = spend.map(|(name, sum)| LineJson { name, amounts: AmountsJson::of(sum) }).collect();
    let budgets = budgets::all(db, txn)?;
    Ok(SpendJson { by: args.by, since: since.to_string(), spend, total: AmountsJson::of(total), cut, budgets })
}

/// The name of the line that a total belongs to, if it is about what was asked for.
fn name(db: &Tables, txn: &Read<'_>, by: By, scope: &ScopeKey, day: Day) -> Result<Option<String>, state::Error> {
    Ok(match (by, scope) {
        (By::Day, ScopeKey::All) => Some(day.to_string()),
        (By::Agent, ScopeKey::Agent(agent)) => Some(lookup::folder(db, txn, *agent)?),
        (By::Chat, ScopeKey::Chat(chat)) => Some(match db.chats.get(txn, chat)? {
            Some(row) => row.name.unwrap_or_else(|| format!("{}/{}", row.channel, row.platform_id)),
            None => chat.to_string(),
        }),
        (By::Task, ScopeKey::Task(task)) => Some(task.to_string()),
        (By::Model, ScopeKey::Model(model)) if model.as_str().is_empty() => Some("unknown".to_owned()),
        (By::Model, ScopeKey::Model(model)) => Some(model.as_str().to_owned()),
        (By::Person, ScopeKey::Person(person)) => Some(person_name(db, txn, person)?),
        _ => None,
    })
}

fn person_name(db: &Tables, txn: &Read<'_>, person: &PersonKey) -> Result<String, state::Error> {
    let Some(user) = db.users.get(txn, person)? else { return Ok(state::KeyPart::shown(person)) };
    let named = |id: UserId, name: Option<String>| name.map_or_else(|| id.to_string(), |name| format!("{name} ({id})"));
    Ok(named(user.id, user.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_rounded() {
        for (tokens, shown) in
            [(0, "0"), (999, "999"), (1_000, "1.0k"), (12_365, "12.4k"), (999_949, "999.9k"), (999_950, "1.0M")]
        {
            assert_eq!(count(tokens), shown);
        }
    }
}
