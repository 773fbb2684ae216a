//! Asks a person for a text: the name of an agent that is created from a card, or why a tool may not be used. Their next
//! message where they were asked is the text.

use crate::Result;
use crate::approvals::texts::{self, NEW_AGENT, REJECT_WHY};
use crate::decisions::outcome::{Choice, DecisionReply};
use crate::decisions::{channels, tools};
use crate::delivery::{notice, prompts};
use crate::entities::agents;
use crate::model::address::{Address, UserId};
use crate::model::approval::{Approval, ApprovalState, Decider};
use crate::model::card::PromptSubject;
use crate::model::entity::{AgentSettings, Folder, Origin, normalize_name};
use crate::model::id::{AgentId, ApprovalId, OutboundId};
use crate::model::tool::{ToolPreset, ToolSettings};
use crate::rows::approvals;
use crate::state::PersonKey;
use crate::tx::Tx;

/// Maximum length of an agent's name in characters.
const NAME_MAX: usize = 64;

/// Maximum length of a folder name in characters, without its number.
const FOLDER_MAX: usize = 56;

/// Asks the person who chose for the agent's name. Only one name per person is asked for at a time, so that it is clear
/// which agent it belongs to.
pub(crate) fn begin(tx: &mut Tx<'_, '_>, choice: Choice) -> Result<DecisionReply> {
    let (Decider::Person(by), Some(at)) = (choice.by, choice.at) else {
        return Ok(Err(format!("Say the name of the new agent as well: {NEW_AGENT}:NAME")));
    };
    if owes(tx, &by)? {
        return Ok(Err("You are already creating an agent: reply with its name first.".to_owned()));
    }
    let text = "Reply with the name for your new agent:".to_owned();
    await_text(tx, Awaited { id: choice.id, card: choice.approval.card, said: choice.option.chosen, by, at, text })
}

/// Asks the person who chose why a tool may not be used. Their next message is the reason.
pub(crate) fn begin_reason(tx: &mut Tx<'_, '_>, choice: Choice) -> Result<DecisionReply> {
    let (Decider::Person(by), Some(at)) = (choice.by, choice.at) else {
        return Ok(Err(format!("Say the reason as well: {REJECT_WHY}:REASON")));
    };
    if owes(tx, &by)? {
        return Ok(Err("You were asked for another text already: reply with that first.".to_owned()));
    }
    let text = "Reply with the reason; the agent reads it:".to_owned();
    await_text(tx, Awaited { id: choice.id, card: choice.approval.card, said: choice.option.chosen, by, at, text })
}

/// A text that a person is asked for.
struct Awaited {
    id: ApprovalId,
    card: Option<OutboundId>,
    /// What the card shows from then on.
    said: String,
    by: UserId,
    at: Address,
    text: String,
}

fn await_text(tx: &mut Tx<'_, '_>, awaited: Awaited) -> Result<DecisionReply> {
    let Awaited { id, card, said, by, at, text } = awaited;
    if let Some(card) = card {
        prompts::close(tx, card, &said)?;
    }
    let prompt = prompts::prompt(tx, PromptSubject::Approval(id), at.clone(), text)?;
    let until = tx.now.wall.plus(tx.policy.naming_max);
    let nonce = tx.cx.entropy.nonce();
    approvals::update(tx, id, |approval| {
        approval.state = ApprovalState::Naming { by, at, until };
        approval.card = Some(prompt);
        approval.nonce = nonce;
        approval.due = until;
    })?;
    Ok(Ok(said))
}

/// Uses a text as the requested name or reason. For a name: creates the agent and wires it to the chat. If the text cannot be a name, the
/// person is asked again.
pub(crate) fn named(tx: &mut Tx<'_, '_>, id: ApprovalId, approval: &Approval, by: &UserId, text: &str) -> Result<()> {
    let ApprovalState::Naming { at, .. } = &approval.state else { return Ok(()) };
    let by = Decider::Person(by.clone());
    let done = if tools::is_tool(approval) {
        tools::reject(tx, id, by, Some(text))?
    } else {
        create(tx, id, approval, text, by)?
    };
    match done {
        // Closing the prompt confirms it.
        Ok(_) => Ok(()),
        Err(why) => notice::say_to(tx, at.clone(), None, why).map(drop),
    }
}

/// Creates an agent of this name and wires it to the chat of the approval.
pub(crate) fn create(
    tx: &mut Tx<'_, '_>,
    id: ApprovalId,
    approval: &Approval,
    name: &str,
    by: Decider,
) -> Result<DecisionReply> {
    let name = match decide_name(name) {
        Ok(name) => name,
        Err(why) => return Ok(Err(why)),
    };
    if channels::is_gone(tx, approval)? {
        return channels::superseded(tx, id, "the chat was removed");
    }
    let Some(folder) = free_folder(tx, &name)? else {
        return Ok(Err("No folder is free for an agent of that name: reply with another one.".to_owned()));
    };
    let settings = AgentSettings::named(name.clone());
    let (network, tools) = (settings.default_network(), ToolSettings::of(ToolPreset::Careful));
    let settings = AgentSettings { network, tools, ..settings };
    let agent = agents::insert(tx, &folder, settings, Origin::Runtime)?;
    let said = format!("✅ Agent \"{name}\" created and connected.");
    channels::connect(tx, id, approval, agent, by, said)
}

/// Whether a person was already asked for a name.
fn owes(tx: &Tx<'_, '_>, user: &UserId) -> Result<bool> {
    tx.db.approvals_naming.contains(tx, &PersonKey::of(user))
}

/// Whether this approval waits for a name from this person.
pub(crate) fn is_owed_by(approval: &Approval, user: &UserId) -> bool {
    matches!(&approval.state, ApprovalState::Naming { by, .. } if by == user)
}

fn decide_name(text: &str) -> std::result::Result<String, String> {
    let name = texts::one_line(text, NAME_MAX + 1);
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

/// A folder named after the agent that no agent has or had: `-2`, `-3` … are tried until one is free.
fn free_folder(tx: &Tx<'_, '_>, name: &str) -> Result<Option<Folder>> {
    let mut taken = std::collections::BTreeSet::new();
    for row in tx.db.agents.iter(tx)? {
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
    use crate::decisions::naming::*;
    use crate::model::address::{ChannelName, ForeignId};
    use crate::model::approval::ApprovalSubject;
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
        let matter =
            || ApprovalSubject::Sender { chat: ChatId::new(1), sender: person("net:eve"), name: None, agents: vec![] };
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
