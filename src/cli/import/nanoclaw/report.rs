//! Report of a NanoClaw import: counts of each kind, then the items that need an explanation.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Serialize;

use super::super::super::{Done, print};
use super::counts;
use super::grants::{Grant, grants};
use crate::contracts::nanoclaw::{Inventory, Item, Kind, Outcome};
use crate::model::entity::ProviderKind;

/// The imported installation.
pub(super) struct Source<'a> {
    pub(super) path: &'a Path,
    pub(super) found: &'a Inventory,
    pub(super) rehearsal: bool,
}

#[derive(Serialize)]
struct ReportJson<'a> {
    path: String,
    version: &'static str,
    dry_run: bool,
    kinds: Vec<KindJson>,
    grants: Vec<Grant<'a>>,
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
pub(super) fn print(source: &Source<'_>, items: &[Item], all: bool, json: bool) -> Done {
    let kinds = kinds(items);
    let grants = grants(source.found, items);
    let version = source.found.version.as_str();
    if json {
        return print::json(&ReportJson {
            path: source.path.display().to_string(),
            version,
            dry_run: source.rehearsal,
            kinds,
            grants,
            items: items.iter().map(ItemJson::from).collect(),
        });
    }
    let would = if source.rehearsal { "would be imported; nothing was changed" } else { "was imported" };
    print::line(&format!("NanoClaw {} in {}: this {would}", version, source.path.display()))?;
    let rows = kinds.iter().map(|kind| {
        let number = |count: u64| count.to_string();
        vec![kind.kind.to_owned(), number(kind.taken), number(kind.unchanged), number(kind.left_out)]
    });
    print::table(&["KIND", "IMPORTED", "UNCHANGED", "SKIPPED"], rows.collect())?;
    if !grants.is_empty() {
        print::line("imported agents run and reach this:")?;
        grants.iter().try_for_each(|grant| print::line(&format!("  {}", grant.shown)))?;
    }
    for item in items.iter().filter(|item| all || item.note.is_some() || item.outcome == Outcome::LeftOut) {
        let times = if item.count == 1 { String::new() } else { format!(" ({})", item.count) };
        let note = item.note.as_ref().map_or_else(String::new, |note| format!(": {}", visible(note)));
        let outcome = item.outcome.as_str().replace('_', " ");
        print::line(&format!("{:9} {:12} {}{times}{note}", outcome, item.kind.as_str(), visible(&item.name)))?;
    }
    print::line("next steps:")?;
    steps(source).iter().try_for_each(|step| print::line(&format!("  {step}")))
}

/// What to do after the import.
fn steps(source: &Source<'_>) -> Vec<String> {
    if source.rehearsal {
        return vec!["repeat the command without --dry-run, with NanoClaw stopped".to_owned()];
    }
    let claude = source.found.agents.iter().find(|(_, settings)| settings.provider == ProviderKind::Claude);
    let key = claude.map(|(folder, _)| {
        format!(
            "give each agent the key of its model, as in `hearth agents set {folder} --env ANTHROPIC_API_KEY=env:ANTHROPIC_API_KEY`"
        )
    });
    let channels: BTreeSet<&str> = source.found.chats.iter().map(|chat| chat.channel.as_str()).collect();
    let channels = (!channels.is_empty()).then(|| {
        let named = channels.into_iter().map(|name| format!("[channels.{name}]")).collect::<Vec<_>>().join(", ");
        format!("write {named} into hearth.toml, if they are not configured, and run `hearth apply`")
    });
    let rest =
        ["run `hearth doctor`, which finds what is missing", "start Hearth: `hearth service install`, or `hearth run`"];
    key.into_iter().chain(channels).chain(rest.map(str::to_owned)).collect()
}

/// A text from NanoClaw on one line. Invisible characters are escaped, characters of all scripts stay.
fn visible(text: &str) -> String {
    let one = |c: char| if matches!(c, '"' | '\'' | '\\') { c.to_string() } else { c.escape_debug().to_string() };
    text.chars().map(one).collect()
}

/// Kinds with at least one item.
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
