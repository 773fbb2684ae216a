//! Texts about skips, for people and agents.

use crate::model::card::CardOption;
use crate::model::skip::{SkipAnswer, SkipKind, SkipSummary};

/// Maximum number of items shown.
const SHOWN_MAX: usize = 20;

/// Maximum length of an item in characters.
const ITEM_MAX: usize = 100;

/// The notice about a skip that needs no decision.
pub(crate) fn information(agent: &str, skip: &SkipSummary) -> String {
    format!(
        "{agent}: {} skipped {}: {}{}\n\nIt looks temporary: the next run tries again.",
        skip.skill,
        step(skip),
        skip.report.reason,
        items(skip)
    )
}

/// Title and body of the question about a skip.
pub(crate) fn question(agent: &str, skip: &SkipSummary) -> (String, String) {
    let again = match skip.report.kind {
        SkipKind::Technical => format!("\n\nIt failed {} times in a row.", skip.repeats),
        SkipKind::Policy => String::new(),
    };
    let body = format!(
        "{agent} skipped {}: {}{}{again}\n\nWhat is to be done about it?",
        step(skip),
        skip.report.reason,
        items(skip)
    );
    (format!("Skipped by {}", skip.skill), body)
}

/// The options of the question. "Do it now" is offered only for a skip in a conversation.
pub(crate) fn options(conversation: bool) -> Vec<CardOption> {
    let option = |label: &str, chosen: &str, answer: SkipAnswer| CardOption {
        label: label.to_owned(),
        chosen: chosen.to_owned(),
        value: answer.as_str().to_owned(),
    };
    let now = option("Do it now", "▶️ To be done now", SkipAnswer::DoNow);
    let leave = option("Leave it", "✅ Left as it is", SkipAnswer::Leave);
    if conversation { vec![now, leave] } else { vec![leave] }
}

/// The instruction to an agent to do now what it skipped.
pub(crate) fn order(skip: &SkipSummary) -> String {
    format!(
        "The skill {} skipped {}: {}{}\n\nThe owner was asked and wants it done now. If that cannot be, say so here.",
        skip.skill,
        step(skip),
        skip.report.reason,
        items(skip)
    )
}

fn step(skip: &SkipSummary) -> String {
    format!("step {}", skip.report.step)
}

fn items(skip: &SkipSummary) -> String {
    let items = &skip.report.items;
    let mut text = String::new();
    for item in items.iter().take(SHOWN_MAX) {
        text.push_str("\n- ");
        text.push_str(&shortened(item));
    }
    if items.len() > SHOWN_MAX {
        text.push_str(&format!("\n- and {} more", items.len() - SHOWN_MAX));
    }
    text
}

fn shortened(item: &str) -> String {
    // An item with several lines would look like several items.
    let line: String = item.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match line.char_indices().nth(ITEM_MAX) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}
