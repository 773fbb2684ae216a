//! The operator decides by command.

use super::outcome::{self, Choice};
use super::press::decidable;
use super::texts::{APPROVE, CONNECT, IGNORE, NEW_AGENT, REJECT, one_line};
use crate::engine::{Applied, Cx, Result, requests, skips};
use crate::model::approval::{Approval, Decider, Matters};
use crate::model::card::{CardOption, Matter};
use crate::model::id::ApprovalId;
use crate::state::Write;

/// Takes in the operator's choice: the value of an option, its label, or its number.
pub(in crate::engine) fn decide(cx: &Cx<'_>, txn: &mut Write<'_>, matter: Matter, value: &str) -> Result<Applied> {
    match matter {
        Matter::Approval(id) => on_approval(cx, txn, id, value),
        Matter::Question(id) => requests::decide(cx, txn, id, value),
        Matter::Skip(id) => skips::decide(cx, txn, id, value),
    }
}

fn on_approval(cx: &Cx<'_>, txn: &mut Write<'_>, id: ApprovalId, value: &str) -> Result<Applied> {
    let Some(approval) = decidable(cx, txn, id)? else {
        let state = cx.db.approvals.get(txn, &id)?.map(|approval| approval.state);
        return Ok(match state {
            Some(state) => Applied::refused("decided", format!("{id} is {}: nothing to decide", state.as_str())),
            None => Applied::refused("unknown", crate::engine::configure::missing("approval", id)),
        });
    };
    let option = match unlisted_agent(cx, txn, &approval, value)? {
        Some(option) => option,
        None => match decide_option(&approval.options, value) {
            Ok(option) => option,
            Err(why) => return Ok(Applied::refused("invalid", format!("{id}: {why}"))),
        },
    };
    outcome::answer(cx, txn, Choice { id, approval, option, by: Decider::Operator, at: None })
}

/// An agent for which there was no room on the card.
fn unlisted_agent(cx: &Cx<'_>, txn: &Write<'_>, approval: &Approval, value: &str) -> Result<Option<CardOption>> {
    let chat = matches!(approval.about, Matters::Channel { .. });
    let Some(id) = value.strip_prefix(CONNECT).and_then(|id| id.parse().ok()).filter(|_| chat) else { return Ok(None) };
    let agent = cx.db.agents.get(txn, &id)?.filter(|agent| agent.archived.is_none());
    Ok(agent.map(|agent| CardOption {
        label: agent.settings.name.clone(),
        chosen: format!("✅ Connected to {}", one_line(&agent.settings.name, 64)),
        value: value.to_owned(),
    }))
}

/// The option that somebody means. `approve` means the only agent where agents are to choose from, `reject` none of them;
/// `new_agent:NAME` makes one of that name at once.
fn decide_option(options: &[CardOption], value: &str) -> std::result::Result<CardOption, String> {
    let value = value.trim();
    if let Some(name) = value.strip_prefix(NEW_AGENT).and_then(|rest| rest.strip_prefix(':'))
        && options.iter().any(|option| option.value == NEW_AGENT)
    {
        let chosen = format!("🆕 Connected to a new agent: {name}");
        return Ok(CardOption { label: String::new(), chosen, value: value.to_owned() });
    }
    let number = value.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    let exact = options.iter().find(|option| option.value == value);
    let named = || options.iter().find(|option| option.label.eq_ignore_ascii_case(value));
    let numbered = || number.and_then(|at| options.get(at));
    let connecting: Vec<&CardOption> = options.iter().filter(|option| option.value.starts_with(CONNECT)).collect();
    let meant = || match (value, connecting.as_slice()) {
        (REJECT, _) => options.iter().find(|option| option.value == IGNORE),
        (APPROVE, [only]) => Some(*only),
        _ => None,
    };
    exact.or_else(named).or_else(numbered).or_else(meant).cloned().ok_or_else(|| {
        let known: Vec<String> =
            options.iter().map(|option| format!("`{}` ({})", option.value, option.label)).collect();
        format!("`{value}` is not a choice; choose one of {}", known.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(all: &[(&str, &str)]) -> Vec<CardOption> {
        let option = |(label, value): &(&str, &str)| CardOption {
            label: (*label).to_owned(),
            chosen: String::new(),
            value: (*value).to_owned(),
        };
        all.iter().map(option).collect()
    }

    #[test]
    fn options_are_meant_by_value_label_number_or_plainly() {
        let sender = options(&[("Allow", "approve"), ("Deny", "reject")]);
        let one = options(&[("Andy", "connect:ag1"), ("➕ Create new", "new_agent"), ("Ignore", "ignore")]);
        let two = options(&[("Andy", "connect:ag1"), ("Bob", "connect:ag2"), ("Ignore", "ignore")]);
        for (options, value, expected) in [
            (&sender, "approve", Some("approve")),
            (&sender, "deny", Some("reject")),
            (&sender, "2", Some("reject")),
            (&sender, "0", None),
            (&sender, "3", None),
            (&sender, "maybe", None),
            (&one, "approve", Some("connect:ag1")),
            (&one, "reject", Some("ignore")),
            (&one, "new_agent:Research Bot", Some("new_agent:Research Bot")),
            (&two, "approve", None),
            (&two, "bob", Some("connect:ag2")),
            (&two, "new_agent:X", None),
        ] {
            let found = decide_option(options, value).ok().map(|option| option.value);
            assert_eq!(found.as_deref(), expected, "{value}");
        }
    }
}
