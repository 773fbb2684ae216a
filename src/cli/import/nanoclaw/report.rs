//! What became of everything: counts of each kind, then whatever there is something to say about.

use std::path::Path;

use serde::Serialize;

use super::super::super::{Done, out};
use super::counts;
use crate::contracts::nanoclaw::{Item, Kind, Outcome, Version};

/// What was looked at.
pub(super) struct Source<'a> {
    pub(super) path: &'a Path,
    pub(super) version: Version,
    pub(super) rehearsal: bool,
}

#[derive(Serialize)]
struct ReportJson<'a> {
    path: String,
    version: &'static str,
    dry_run: bool,
    kinds: Vec<KindJson>,
    items: Vec<ItemJson<'a>>,
}

#[derive(Serialize)]
struct KindJson {
    kind: &'static str,
    taken: u64,
    unchanged: u64,
    left_out: u64,
}

#[derive(Serialize)]
struct ItemJson<'a> {
    kind: &'static str,
    name: &'a str,
    count: u64,
    outcome: &'static str,
    note: Option<&'a str>,
}

impl<'a> From<&'a Item> for ItemJson<'a> {
    fn from(item: &'a Item) -> Self {
        Self {
            kind: item.kind.as_str(),
            name: &item.name,
            count: item.count,
            outcome: item.outcome.as_str(),
            note: item.note.as_deref(),
        }
    }
}

/// Prints the report.
pub(super) fn print(source: &Source<'_>, items: &[Item], (all, json): (bool, bool)) -> Done {
    let kinds = kinds(items);
    if json {
        return out::json(&ReportJson {
            path: source.path.display().to_string(),
            version: source.version.as_str(),
            dry_run: source.rehearsal,
            kinds,
            items: items.iter().map(ItemJson::from).collect(),
        });
    }
    let would = if source.rehearsal { "would be taken over; nothing was changed" } else { "was taken over" };
    out::line(&format!("NanoClaw {} in {}: this {would}", source.version.as_str(), source.path.display()))?;
    let rows = kinds.iter().map(|kind| {
        let number = |count: u64| count.to_string();
        vec![kind.kind.to_owned(), number(kind.taken), number(kind.unchanged), number(kind.left_out)]
    });
    out::table(&["KIND", "TAKEN", "UNCHANGED", "LEFT OUT"], rows.collect())?;
    for item in items.iter().filter(|item| all || item.note.is_some() || item.outcome == Outcome::LeftOut) {
        let times = if item.count == 1 { String::new() } else { format!(" ({})", item.count) };
        let note = item.note.as_ref().map_or_else(String::new, |note| format!(": {note}"));
        let outcome = item.outcome.as_str().replace('_', " ");
        out::line(&format!("{:9} {:12} {}{times}{note}", outcome, item.kind.as_str(), item.name))?;
    }
    Ok(())
}

/// Kinds of which there is anything.
fn kinds(items: &[Item]) -> Vec<KindJson> {
    let counts = counts(items);
    let of = |kind: &Kind| {
        let counts = counts.get(kind)?;
        let number = |outcome| counts.get(&outcome).copied().unwrap_or(0);
        Some(KindJson {
            kind: kind.as_str(),
            taken: number(Outcome::Taken),
            unchanged: number(Outcome::Unchanged),
            left_out: number(Outcome::LeftOut),
        })
    };
    Kind::ALL.iter().filter_map(of).collect()
}
