//! An approval as the console shows it.

use super::{ShownJson, show};
use crate::console::view::{Choice, Held, Prompt};
use crate::model::id::ApprovalId;
use crate::model::visible::block;
use crate::state::{self, Read, Tables};

/// Options that need a text, by their values, and what it is.
const ASKING: [(&str, &str); 2] = [("new_agent", "Name of the new agent"), ("reject_why", "Reason")];

/// An approval, and the folders of the agents that it concerns.
pub(in crate::cli) fn prompt(
    db: &Tables,
    txn: &Read<'_>,
    id: ApprovalId,
) -> Result<Option<(Prompt, Vec<String>)>, state::Error> {
    Ok(show(db, txn, id)?.map(|shown| {
        let agents = shown.approval.agents.clone();
        (view(shown), agents)
    }))
}

fn view(shown: ShownJson) -> Prompt {
    let ShownJson { approval, options, messages } = shown;
    let open = matches!(approval.state, "unsent" | "pending" | "naming");
    let state = match (open, &approval.words) {
        (true, _) => None,
        (false, Some(words)) => Some(format!("{} {words}", approval.state)),
        (false, None) => Some(approval.state.to_owned()),
    };
    let facts = [
        ("Agents", Some(approval.agents.join(", ")).filter(|agents| !agents.is_empty())),
        ("Chat", approval.chat),
        ("From", approval.sender),
        ("Asked", approval.approver),
        ("Note", approval.words.filter(|_| open)),
    ];
    let held = messages.into_iter().map(|held| Held {
        said: held.said,
        text: block(&held.text).collect::<Vec<_>>().join("\n"),
        files: held.files,
    });
    Prompt {
        id: approval.approval,
        kind: "Approval",
        state,
        about: approval.about,
        facts: facts.into_iter().filter_map(|(label, text)| Some((label, text?))).collect(),
        created: approval.created,
        expires: Some(approval.expires),
        options: options
            .into_iter()
            .map(|option| {
                let asks = ASKING.iter().find(|(value, _)| *value == option.value).map(|(_, what)| *what);
                Choice { asks, label: option.label, value: option.value }
            })
            .collect(),
        held: held.collect(),
    }
}
