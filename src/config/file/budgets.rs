//! `[[budgets]]`, `caps` and `fallback`: what agents may use of models.

use super::agents::providers;
use super::section::{Keys, Problems, Section, excerpt, with_article};
use super::write::{Fields, Value};
use super::{Once, section};
use crate::model::budget::{Budget, BudgetPeriod, BudgetScope, Caps, Fallback, OnLimit};
use crate::model::configure::Settings;
use crate::model::entity::ProviderKind;
use crate::model::spend::Money;

const BUDGET: Keys = Keys { place: "[[budgets]]", known: &["scope", "per", "usd", "tokens"], later: &[] };
const CAPS: Keys = Keys {
    place: "`caps`",
    known: &["tokens", "calls", "minutes", "unattended_turns", "at_once", "per_minute"],
    later: &[],
};
const FALLBACK: Keys = Keys { place: "`fallback`", known: &["provider", "command", "model"], later: &[] };

/// Most budgets of an installation. Each is compared with every message.
const BUDGETS_MAX: usize = 100;
/// Highest budget in dollars.
const USD_MAX: f64 = 10_000_000.0;
/// Most messages of a person and day that pass although a budget is spent.
const GRACE_MAX: i64 = 1_000;
/// Most providers that follow the first one.
const FALLBACKS_MAX: usize = 8;
/// Upper limit of counts of requests, turns and minutes.
const CAP_MAX: i64 = 1_000_000;

const PERIODS: [(&str, BudgetPeriod); 2] =
    [(BudgetPeriod::Day.as_str(), BudgetPeriod::Day), (BudgetPeriod::Month.as_str(), BudgetPeriod::Month)];
pub(super) const ON_LIMIT: [(&str, OnLimit); 3] = [
    (OnLimit::Ask.as_str(), OnLimit::Ask),
    (OnLimit::Hold.as_str(), OnLimit::Hold),
    (OnLimit::Warn.as_str(), OnLimit::Warn),
];

pub(super) fn read(problems: &mut Problems<'_>, top: &Section<'_>) -> Vec<Budget> {
    let mut budgets: Vec<Budget> = Vec::new();
    let mut once = Once::default();
    let sections = top.tables(problems, "budgets", &BUDGET);
    if sections.len() > BUDGETS_MAX {
        problems.add(top.at(), format!("there are {} budgets; write at most {BUDGETS_MAX}", sections.len()));
    }
    for section in sections {
        let scope = section.needed(problems, "scope");
        let per = section.needed(problems, "per").and_then(|_| section.word(problems, "per", &PERIODS));
        let money = usd(problems, &section);
        let tokens = section.number(problems, "tokens", 0..=i64::MAX);
        if section.get("usd").is_none() && section.get("tokens").is_none() {
            problems.add(section.at(), "a budget has no amount; add `usd`, `tokens` or both");
        }
        let Some((at, text)) = scope else { continue };
        let scope = match BudgetScope::parse(text) {
            Ok(scope) => scope,
            Err(what) => {
                problems.add(at, format!("`scope`: \"{}\" {what}", excerpt(text)));
                continue;
            }
        };
        let Some(per) = per else { continue };
        let budget = Budget { scope, per, money, tokens };
        if once.note(problems, at, format!("the budget `{}`", excerpt(&budget.name()))) {
            budgets.push(budget);
        }
    }
    budgets
}

fn usd(problems: &mut Problems<'_>, section: &Section<'_>) -> Option<Money> {
    let dollars = section.decimal(problems, "usd")?;
    if !(0.0..=USD_MAX).contains(&dollars) {
        problems.add(section.at(), format!("`usd` cannot be {dollars}; write dollars from 0 to {USD_MAX}"));
        return None;
    }
    Some(Money::micros((dollars * 1e6).round() as u64))
}

pub(super) fn grace(problems: &mut Problems<'_>, top: &Section<'_>) -> Option<u32> {
    top.number(problems, "grace", 0..=GRACE_MAX)
}

/// `caps = { tokens, … }`.
pub(super) fn caps(problems: &mut Problems<'_>, section: &Section<'_>) -> Caps {
    let Some(section) = section.table(problems, "caps", &CAPS) else { return Caps::default() };
    let mut count = |key| section.number(problems, key, 1..=CAP_MAX);
    let [calls, minutes] = ["calls", "minutes"].map(&mut count);
    let [unattended_turns, at_once, per_minute] = ["unattended_turns", "at_once", "per_minute"].map(count);
    let tokens = section.number(problems, "tokens", 1..=i64::MAX);
    Caps { tokens, calls, minutes, unattended_turns, at_once, per_minute }
}

/// `fallback = ["codex", { provider = "command", command = ["…"] }]`.
pub(super) fn fallback(problems: &mut Problems<'_>, section: &Section<'_>) -> Vec<Fallback> {
    let Some(value) = section.get("fallback") else { return Vec::new() };
    let Some(list) = value.get_ref().as_array() else {
        section.wrong_type(problems, "fallback", "a list of providers, in brackets");
        return Vec::new();
    };
    if list.len() > FALLBACKS_MAX {
        let what = format!("`fallback` has {} providers; write at most {FALLBACKS_MAX}", list.len());
        problems.add(value.span().start, what);
    }
    let mut found = Vec::new();
    for item in list {
        let at = item.span().start;
        let value = item.get_ref();
        if let Some(name) = value.as_str() {
            let provider = providers().into_iter().find(|(known, _)| *known == name);
            let Some((_, provider)) = provider else {
                let known = providers().map(|(word, _)| word).join(", ");
                problems.add(at, format!("`fallback`: \"{}\" is no provider; write one of {known}", excerpt(name)));
                continue;
            };
            found.push((at, Fallback { provider, command: Vec::new(), model: None }));
        } else if let Some(table) = value.as_table() {
            let section = Section::new(&FALLBACK, at, table);
            section.check_keys(problems);
            section.needed(problems, "provider");
            let Some(provider) = section.word(problems, "provider", &providers()) else { continue };
            let command = section.texts(problems, "command").into_iter().map(|(_, word)| word.to_owned()).collect();
            found.push((at, Fallback { provider, command, model: section.line(problems, "model") }));
        } else {
            let found = with_article(value.type_str());
            problems.add(at, format!("`fallback` contains {found}; write names of providers, or tables in braces"));
        }
    }
    for (at, fallback) in &found {
        let needs = matches!(fallback.provider, ProviderKind::Command | ProviderKind::Acp);
        let first = fallback.command.first();
        if needs && first.is_none() || first.is_some_and(|program| program.trim().is_empty()) {
            let name = fallback.provider.as_str();
            let what = format!(
                "the provider `{name}` in `fallback` needs a program; write {{ provider = \"{name}\", command = [\"program\"] }}"
            );
            problems.add(*at, what);
        }
        if fallback.command.iter().any(|word| word.contains('\0')) {
            problems.add(*at, "`command` contains a NUL character, which no program can be given; remove it");
        }
    }
    found.into_iter().map(|(_, fallback)| fallback).collect()
}

/// The inverse of reading the budgets.
pub(super) fn write(fields: &mut Fields, settings: &Settings) {
    let budget = |budget: &Budget| {
        let mut fields = Fields::default();
        fields.set("scope", Value::Text(budget.scope.to_string()));
        fields.set("per", Value::Text(budget.per.as_str().to_owned()));
        if let Some(money) = budget.money {
            fields.plain("usd", money.as_micros() as f64 / 1e6);
        }
        if let Some(tokens) = budget.tokens {
            fields.plain("tokens", tokens);
        }
        fields.into_list()
    };
    if !settings.budgets.is_empty() {
        fields.set("budgets", Value::Tables(settings.budgets.iter().map(budget).collect()));
    }
    if let Some(grace) = settings.grace {
        fields.plain("grace", grace);
    }
}

/// The inverse of reading the caps.
pub(super) fn write_caps(caps: Caps) -> Vec<(String, Value)> {
    let Caps { tokens, calls, minutes, unattended_turns, at_once, per_minute } = caps;
    let counts = [
        ("calls", calls),
        ("minutes", minutes),
        ("unattended_turns", unattended_turns),
        ("at_once", at_once),
        ("per_minute", per_minute),
    ];
    let mut fields = Fields::default();
    if let Some(tokens) = tokens {
        fields.plain("tokens", tokens);
    }
    for (key, count) in counts {
        if let Some(count) = count {
            fields.plain(key, count);
        }
    }
    fields.into_list()
}

/// The inverse of reading the fallbacks.
pub(super) fn write_fallback(fallback: &[Fallback]) -> Option<Value> {
    let table = |one: &Fallback| {
        let mut fields = Fields::default();
        fields.set("provider", Value::Text(one.provider.as_str().to_owned()));
        if !one.command.is_empty() {
            fields.set("command", Value::Texts(one.command.clone()));
        }
        if let Some(model) = one.model.as_deref().filter(|model| section::is_line(model)) {
            fields.set("model", Value::Text(model.to_owned()));
        }
        fields.into_list()
    };
    (!fallback.is_empty()).then(|| Value::Tables(fallback.iter().map(table).collect()))
}
