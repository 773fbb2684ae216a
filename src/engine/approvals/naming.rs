//! Somebody chose to make a new agent for a chat: they owe its name, and their next message where they were asked is it.

use super::outcome::{Choice, Told};
use super::texts::{NEW_AGENT, one_line};
use super::{channels, rows};
use crate::engine::{Cx, Result, agents, cards, notice};
use crate::model::address::UserId;
use crate::model::approval::{Approval, ApprovalState, Decider};
use crate::model::card::Matter;
use crate::model::effect::Effect;
use crate::model::entity::{AgentSettings, Folder, Origin, normalize_name};
use crate::model::id::{AgentId, ApprovalId};
use crate::state::Write;

/// Characters of an agent's name.
const NAME_MAX: usize = 64;
/// Characters of a folder before its number.
const FOLDER_MAX: usize = 56;
/// Approvals that are looked through for a name that is owed.
const OWED_MAX: usize = 1_000;

/// Asks whoever chose for the name. They owe one name at a time, so that it is clear which agent a name is for.
pub(super) fn begin(cx: &Cx<'_>, txn: &mut Write<'_>, choice: Choice, effects: &mut Vec<Effect>) -> Result<Told> {
    let (Decider::Person(by), Some(at)) = (choice.by, choice.at) else {
        return Ok(Err(format!("Say the name of the new agent as well: {NEW_AGENT}:NAME")));
    };
    if owes(cx, txn, &by)? {
        return Ok(Err("First name the agent you are making already: reply with its name.".to_owned()));
    }
    if let Some(card) = choice.approval.card {
        cards::close(cx, txn, card, &choice.option.chosen, effects)?;
    }
    let text = "Reply with the name for your new agent:".to_owned();
    let prompt = cards::prompt(cx, txn, (Matter::Approval(choice.id), at.clone()), text, effects)?;
    let until = cx.now.wall.plus(cx.policy.naming_max);
    let nonce = cx.entropy.nonce();
    rows::update(cx, txn, choice.id, |approval| {
        approval.state = ApprovalState::Naming { by, at, until };
        approval.card = Some(prompt);
        approval.nonce = nonce;
        approval.due = until;
    })?;
    Ok(Ok(choice.option.chosen))
}

/// Takes a text for the name that somebody owes: the agent is made and listens in the chat. A text that cannot be a name
/// is asked for again.
pub(super) fn named(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, approval): (ApprovalId, &Approval),
    (by, text): (&UserId, &str),
    effects: &mut Vec<Effect>,
) -> Result<()> {
    let ApprovalState::Naming { at, .. } = &approval.state else { return Ok(()) };
    match create(cx, txn, (id, approval), (text, Decider::Person(by.clone())), effects)? {
        // The end of what was asked says it.
        Ok(_) => Ok(()),
        Err(why) => notice::say_to(cx, txn, (at.clone(), None), why, effects).map(drop),
    }
}

/// Makes an agent of this name and has it listen in the chat that was asked about.
pub(super) fn create(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, approval): (ApprovalId, &Approval),
    (name, by): (&str, Decider),
    effects: &mut Vec<Effect>,
) -> Result<Told> {
    let name = match decide_name(name) {
        Ok(name) => name,
        Err(why) => return Ok(Err(why)),
    };
    if channels::is_gone(cx, txn, approval)? {
        return channels::superseded(cx, txn, id, "the chat was removed", effects);
    }
    let Some(folder) = free_folder(cx, txn, &name)? else {
        return Ok(Err("No folder is free for an agent of that name: reply with another one.".to_owned()));
    };
    let settings = AgentSettings::named(name.clone());
    let agent = agents::insert(cx, txn, &folder, settings, Origin::Runtime)?;
    let said = format!("✅ Agent \"{name}\" created and connected.");
    channels::connect(cx, txn, (id, approval), (agent, by, said), effects)
}

/// Whether somebody owes a name already.
fn owes(cx: &Cx<'_>, txn: &Write<'_>, user: &UserId) -> Result<bool> {
    for ((_, id), ()) in cx.db.approvals_due.collect_range(txn, .., OWED_MAX)? {
        let approval = rows::open(cx, txn, id)?;
        if approval.is_some_and(|approval| is_owed_by(&approval, user)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether it is somebody who owes the name. It is asked for in one place only.
pub(super) fn is_owed_by(approval: &Approval, user: &UserId) -> bool {
    matches!(&approval.state, ApprovalState::Naming { by, .. } if by == user)
}

fn decide_name(text: &str) -> std::result::Result<String, String> {
    let name = one_line(text, NAME_MAX + 1);
    if name.is_empty() {
        return Err("That is not a name: reply with the name for your new agent.".to_owned());
    }
    if name.chars().count() > NAME_MAX || text.trim().lines().count() > 1 {
        return Err(format!("A name is one line of at most {NAME_MAX} characters: reply with a shorter one."));
    }
    if name.starts_with('/') {
        return Err("A name does not begin with `/`: reply with another one.".to_owned());
    }
    Ok(name)
}

/// A folder named after the agent that no agent has or had: `-2`, `-3` … until one is free.
fn free_folder(cx: &Cx<'_>, txn: &Write<'_>, name: &str) -> Result<Option<Folder>> {
    let mut taken = std::collections::BTreeSet::new();
    for row in cx.db.agents.iter(txn)? {
        let (_, agent): (AgentId, _) = row?;
        taken.insert(agent.folder.to_string().to_ascii_lowercase());
    }
    Ok(decide_folder(name, |folder| taken.contains(folder)))
}

fn decide_folder(name: &str, taken: impl Fn(&str) -> bool) -> Option<Folder> {
    let base: String = normalize_name(name).chars().take(FOLDER_MAX).collect();
    let base = base.trim_end_matches('-');
    let names = (1_u32..10_000).map(|n| if n == 1 { base.to_owned() } else { format!("{base}-{n}") });
    names.filter(|name| !taken(name)).find_map(|name| Folder::new(name).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::address::{Address, ChannelName, ForeignId};
    use crate::model::approval::Matters;
    use crate::model::id::ChatId;
    use crate::model::time::Timestamp;

    #[test]
    fn folders_are_named_after_the_agent() {
        let taken = ["research-bot", "unnamed", "unnamed-2"];
        for (name, folder) in [
            ("Research Bot", "research-bot-2"),
            ("Andy", "andy"),
            ("日本語", "unnamed-3"),
            ("Global", "global-2"),
            ("../../etc", "etc"),
            ("x".repeat(64).as_str(), "x".repeat(56).as_str()),
        ] {
            let found = decide_folder(name, |folder| taken.contains(&folder)).map(|folder| folder.to_string());
            assert_eq!(found.as_deref(), Some(folder), "{name}");
        }
    }

    #[test]
    fn names_are_one_short_line() {
        assert_eq!(decide_name("  Research Bot \n"), Ok("Research Bot".to_owned()));
        let longest = "x".repeat(NAME_MAX);
        assert_eq!(decide_name(&format!("{longest} ")), Ok(longest));
        for text in ["", "   ", "\u{200b}\u{202e}", "/clear", "two\nlines", &"x".repeat(65)] {
            assert!(decide_name(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_name_is_owed_by_one_person() {
        let person = |id| UserId::parse(id).unwrap();
        let chat = Address {
            channel: ChannelName::new("net").unwrap(),
            platform_id: ForeignId::new("chat", "C").unwrap(),
            thread: None,
        };
        let at = Timestamp::from_millis(0);
        let naming = ApprovalState::Naming { by: person("net:ann"), at: chat, until: at };
        let matter = || Matters::Sender { chat: ChatId::new(1), sender: person("net:eve"), name: None, agents: vec![] };
        let asked = |state| Approval {
            about: matter(),
            state,
            approver: None,
            nonce: 1,
            options: vec![],
            card: None,
            due: at,
            expires: at,
            created: at,
        };
        let (naming, pending) = (asked(naming), asked(ApprovalState::Pending));
        for (id, owes) in [("net:ann", true), ("net:bob", false), ("other:ann", false)] {
            assert_eq!((is_owed_by(&naming, &person(id)), is_owed_by(&pending, &person(id))), (owes, false), "{id}");
        }
    }
}
