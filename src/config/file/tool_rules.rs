//! Parses what decides about an agent's tool calls.

use super::section::{Keys, Problems, Section, excerpt, with_article};
use crate::model::tool::{RULES_MAX, ToolPattern, ToolPreset, ToolRule, ToolSettings, ToolVerdict};

const TOOLS: Keys = Keys { place: "`tools`", known: &["preset", "rules", "approval_wait"], later: &[] };
const RULE: Keys = Keys { place: "`rules` of `tools`", known: &["allow", "ask", "deny"], later: &[] };

fn presets() -> [(&'static str, ToolPreset); 3] {
    ToolPreset::ALL.map(|preset| (preset.as_str(), preset))
}

/// `tools = "careful"`, or `tools = { preset = "careful", rules = [{ deny = "WebFetch" }] }`.
pub(super) fn read(problems: &mut Problems<'_>, section: &Section<'_>) -> ToolSettings {
    let Some(value) = section.get("tools") else { return ToolSettings::default() };
    if value.get_ref().as_str().is_some() {
        return ToolSettings::of(section.word(problems, "tools", &presets()).unwrap_or_default());
    }
    if value.get_ref().as_table().is_none() {
        section.wrong_type(problems, "tools", "\"open\", \"careful\" or \"locked\", or a table, in braces");
        return ToolSettings::default();
    }
    let Some(section) = section.table(problems, "tools", &TOOLS) else { return ToolSettings::default() };
    let preset = section.word(problems, "preset", &presets()).unwrap_or_default();
    let approval_wait = section.number(problems, "approval_wait", 1..=ToolSettings::WAIT_MAX.into());
    ToolSettings { preset, rules: rules(problems, &section), approval_wait }
}

fn rules(problems: &mut Problems<'_>, section: &Section<'_>) -> Vec<ToolRule> {
    let Some(value) = section.get("rules") else { return Vec::new() };
    let Some(list) = value.get_ref().as_array() else {
        section.wrong_type(problems, "rules", "a list of tables like { ask = \"Bash(git push:*)\" }");
        return Vec::new();
    };
    if list.len() > RULES_MAX {
        let what = format!("`rules` has {} rules; write at most {RULES_MAX}", list.len());
        problems.add(value.span().start, what);
    }
    let mut found = Vec::new();
    for item in list {
        let at = item.span().start;
        let Some(table) = item.get_ref().as_table() else {
            let what = with_article(item.get_ref().type_str());
            problems.add(at, format!("`rules` contains {what}; write tables like {{ ask = \"Bash(git push:*)\" }}"));
            continue;
        };
        let section = Section::new(&RULE, at, table);
        section.check_keys(problems);
        let given = ToolVerdict::ALL.into_iter().filter(|verdict| section.get(verdict.as_str()).is_some());
        let given: Vec<ToolVerdict> = given.collect();
        let [verdict] = given.as_slice() else {
            problems.add(at, "a rule of `tools` has one of `allow`, `ask` and `deny`; write one rule for each");
            continue;
        };
        let Some((at, pattern)) = section.text(problems, verdict.as_str()) else { continue };
        match ToolPattern::parse(pattern) {
            Ok(_) => found.push(ToolRule { verdict: *verdict, pattern: pattern.to_owned() }),
            Err(why) => problems.add(at, format!("`{}` is not a pattern of tool calls: {why}", excerpt(pattern))),
        }
    }
    found
}
