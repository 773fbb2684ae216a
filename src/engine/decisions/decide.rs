//! Decisions by command of the operator, and by people in the console.

use crate::approvals::approvers;
use crate::approvals::texts::{APPROVE, CONNECT, IGNORE, NEW_AGENT, REJECT, REJECT_WHY};
use crate::decisions::outcome::Choice;
use crate::decisions::{outcome, press};
use crate::entities::console;
use crate::model::approval::{Approval, ApprovalState, ApprovalSubject, Decider};
use crate::model::card::{CardOption, PromptSubject};
use crate::model::console::{ConsoleSession, Login};
use crate::model::id::{ApprovalId, ConsoleSessionId};
use crate::model::report::Reply;
use crate::requests::questions;
use crate::rows::sessions;
use crate::skips::answer;
use crate::tx::Tx;
use crate::{Result, approvals, rules};

/// Why a session that was signed in from a chat may not choose an option.
const LINK_NEEDED: &str = "You signed in from a chat. To let people in, change an agent or allow it something for longer, \
                           decide in the chat where it was asked, or sign in with a link from `hearth console`.";

/// Applies the operator's choice: the value of an option, its label, or its number.
pub(crate) fn decide(tx: &mut Tx<'_, '_>, matter: PromptSubject, value: &str) -> Result<Reply> {
    by(tx, matter, value, Decision { by: Decider::Operator, login: Login::Link })
}

/// Applies the choice of a person at the console, who must have authority over what it is about.
pub(crate) fn decide_as(
    tx: &mut Tx<'_, '_>,
    session: ConsoleSessionId,
    matter: PromptSubject,
    value: &str,
) -> Result<Reply> {
    let Some(ConsoleSession { user, login, .. }) = console::signed_in(tx, session)? else {
        return Ok(Reply::refused("unknown", rules::texts::missing("console session", session)));
    };
    let person = &user;
    let may = match matter {
        PromptSubject::Approval(id) => match tx.db.approvals.get(tx, &id)? {
            Some(approval) => {
                let scope = approvers::scope(tx, &approval.about)?;
                approvers::may_decide(tx, person, &scope)?
            }
            None => false,
        },
        PromptSubject::Question(id) => match tx.db.questions.get(tx, &id)? {
            Some(question) => match sessions::load(tx, question.session)? {
                Some(session) => approvers::administers(tx, person, session.agent)?,
                None => false,
            },
            None => false,
        },
        PromptSubject::Skip(id) => match tx.db.skips.get(tx, &id)? {
            Some(skip) => approvers::administers(tx, person, skip.agent)?,
            None => false,
        },
    };
    if !may {
        return Ok(Reply::refused("forbidden", format!("You may not decide {matter}.")));
    }
    by(tx, matter, value, Decision { by: Decider::Person(user), login })
}

/// Who decides, and how they proved who they are.
struct Decision {
    by: Decider,
    login: Login,
}

fn by(tx: &mut Tx<'_, '_>, matter: PromptSubject, value: &str, decision: Decision) -> Result<Reply> {
    match matter {
        PromptSubject::Approval(id) => on_approval(tx, id, value, decision),
        PromptSubject::Question(id) => questions::decide(tx, id, value, decision.by),
        PromptSubject::Skip(id) => answer::decide(tx, id, value, decision.by),
    }
}

fn on_approval(tx: &mut Tx<'_, '_>, id: ApprovalId, value: &str, decision: Decision) -> Result<Reply> {
    let Some(approval) = press::decidable(tx, id)? else {
        let state = tx.db.approvals.get(tx, &id)?.map(|approval| approval.state);
        return Ok(match state {
            Some(ApprovalState::Expired { .. }) => Reply::refused("decided", format!("{id} has already expired")),
            Some(state) => Reply::refused("decided", format!("{id} was already {}", state.as_str())),
            None => Reply::refused("unknown", rules::texts::missing("approval", id)),
        });
    };
    let option = match unlisted_agent(tx, &approval, value)? {
        Some(option) => option,
        None => match decide_option(&approval.options, value) {
            Ok(option) => option,
            Err(why) => return Ok(Reply::refused("invalid", format!("{id}: {why}"))),
        },
    };
    if decision.login == Login::Chat && approvers::needs_link(&approval.about, &option.value) {
        return Ok(Reply::refused("forbidden", LINK_NEEDED.to_owned()));
    }
    outcome::answer(tx, Choice { id, approval, option, by: decision.by, at: None })
}

/// The option of an agent that did not fit on the card.
fn unlisted_agent(tx: &Tx<'_, '_>, approval: &Approval, value: &str) -> Result<Option<CardOption>> {
    let chat = matches!(approval.about, ApprovalSubject::Channel { .. });
    let Some(id) = value.strip_prefix(CONNECT).and_then(|id| id.parse().ok()).filter(|_| chat) else { return Ok(None) };
    let agent = tx.db.agents.get(tx, &id)?.filter(|agent| agent.archived.is_none());
    Ok(agent.map(|agent| CardOption {
        label: approvals::texts::label(&agent),
        chosen: format!("✅ Connected to {}", approvals::texts::label(&agent)),
        value: value.to_owned(),
    }))
}

/// The option that the operator's input selects. Where agents can be chosen, `approve` means the only agent and
/// `reject` means none. `new_agent:NAME` creates an agent of that name at once.
fn decide_option(options: &[CardOption], value: &str) -> std::result::Result<CardOption, String> {
    let value = value.trim();
    if let Some(name) = value.strip_prefix(NEW_AGENT).and_then(|rest| rest.strip_prefix(':'))
        && options.iter().any(|option| option.value == NEW_AGENT)
    {
        let chosen = format!("🆕 Connected to a new agent: {name}");
        return Ok(CardOption { label: String::new(), chosen, value: value.to_owned() });
    }
    if value.strip_prefix(REJECT_WHY).is_some_and(|rest| rest.starts_with(':'))
        && let Some(option) = options.iter().find(|option| option.value == REJECT_WHY)
    {
        return Ok(CardOption { value: value.to_owned(), ..option.clone() });
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
    use crate::decisions::decide::*;

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
