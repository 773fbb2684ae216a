//! Cards of approvals: their full text and their options.

use crate::Result;
use crate::delivery::prompts;
use crate::model::approval::ApprovalSubject;
use crate::model::approval_text::{AgentName, ApprovalText, NO_IMAGE, Names, Place, more, render};
use crate::model::card::CardOption;
use crate::model::entity::{Agent, Chat, normalize_name};
use crate::model::id::{AgentId, ApprovalId};
use crate::model::tool::ToolRequest;
use crate::model::visible::{free, is_unseen};
use crate::rows::sessions;
use crate::state::{Read, Tables};
use crate::tx::Tx;

/// Maximum length of an agent's label in characters. No channel cuts labels of this length.
const LABEL_MAX: usize = 60;

/// Maximum number of agents with a button on one card. More would be no real choice.
pub(crate) const AGENTS_MAX: usize = 10;

/// Option value: approve.
pub(crate) const APPROVE: &str = "approve";

/// Option value: reject.
pub(crate) const REJECT: &str = "reject";

/// Option value: a budget does not count until tomorrow.
pub(crate) const TOMORROW: &str = "tomorrow";

/// Option value: a host, or such tool calls, are allowed until that is revoked.
pub(crate) const ALWAYS: &str = "always";

/// Option value: a host is refused until that is revoked.
pub(crate) const NEVER: &str = "never";

/// Option value: allow such tool calls until the session is reset.
pub(crate) const SESSION: &str = "session";

/// Option value: reject, and say why in the next message.
pub(crate) const REJECT_WHY: &str = "reject_why";

/// Option value: create a new agent.
pub(crate) const NEW_AGENT: &str = "new_agent";

/// Option value: leave the chat alone.
pub(crate) const IGNORE: &str = "ignore";

/// Prefix of the option value for an existing agent. Its id follows.
pub(crate) const CONNECT: &str = "connect:";

/// The content of a card, without its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wording {
    pub(crate) title: String,
    pub(crate) body: String,
    pub(crate) options: Vec<CardOption>,
}

/// The complete card of an approval, in the current state of the store.
pub(crate) fn card(tx: &Tx<'_, '_>, about: &ApprovalSubject) -> Result<Wording> {
    let asker = match about.session() {
        Some(session) => sessions::load(tx, session)?.map(|session| session.agent),
        None => None,
    };
    let text = text(tx.db, tx, about, asker)?;
    let mut body = text.body();
    let options = match about {
        ApprovalSubject::Sender { .. } => {
            vec![option("Allow", "✅ Allowed", APPROVE), option("Deny", "❌ Denied", REJECT)]
        }
        ApprovalSubject::Channel { .. } => {
            let (options, more) = agent_options(tx)?;
            body.push_str(&more);
            options
        }
        ApprovalSubject::Packages { .. } | ApprovalSubject::McpServer { .. } | ApprovalSubject::CreateAgent { .. } => {
            if matches!(about, ApprovalSubject::Packages { .. }) && !tx.cx.builds {
                body = format!("{body}\n{NO_IMAGE}");
            }
            vec![option("Approve", "✅ Approved", APPROVE), option("Reject", "❌ Rejected", REJECT)]
        }
        ApprovalSubject::Host(_) => {
            vec![
                option("Once", "✅ Allowed for an hour", APPROVE),
                option("Always", "✅ Allowed always", ALWAYS),
                option("Never", "⛔ Refused for good", NEVER),
                option("Not now", "❌ Not allowed now", REJECT),
            ]
        }
        ApprovalSubject::Hosts(request) => hosts_options(request.hosts.len()),
        ApprovalSubject::Budget(request) => {
            let more = more(request);
            vec![
                option(&format!("Allow {more} more"), &format!("✅ Allowed {more} more"), APPROVE),
                option("Allow until tomorrow", "✅ Allowed until tomorrow", TOMORROW),
                option("Drop", "❌ Dropped", REJECT),
            ]
        }
        ApprovalSubject::Tool(request) => tool_options(request),
    };
    Ok(Wording { title: text.title.to_owned(), body, options })
}

/// The text of an approval, in the current state of the store. `asker` is the agent that made the request.
///
/// # Errors
/// The store's.
pub fn text(db: &Tables, txn: &Read<'_>, about: &ApprovalSubject, asker: Option<AgentId>) -> Result<ApprovalText> {
    let (chat, agents) = match about {
        ApprovalSubject::Sender { chat, agents, .. } => (Some(*chat), agents.clone()),
        ApprovalSubject::Channel { chat, .. } => (Some(*chat), Vec::new()),
        ApprovalSubject::Host(request) => (None, vec![request.agent]),
        ApprovalSubject::Hosts(request) => (None, vec![request.agent]),
        ApprovalSubject::Packages { .. }
        | ApprovalSubject::McpServer { .. }
        | ApprovalSubject::CreateAgent { .. }
        | ApprovalSubject::Tool(_) => (None, asker.into_iter().collect()),
        ApprovalSubject::Budget(request) => (None, vec![request.agent]),
    };
    let place = |chat: Chat| Place {
        channel: chat.channel.as_str().to_owned(),
        platform_id: chat.platform_id.as_str().to_owned(),
        name: chat.name,
        group: chat.group,
    };
    let chat = match chat {
        Some(chat) => db.chats.get(txn, &chat)?.map(place),
        None => None,
    };
    let agents = agents.into_iter().map(|id| agent_name(db, txn, id)).collect::<Result<_>>()?;
    Ok(render(about, &Names { agents, chat }))
}

fn agent_name(db: &Tables, txn: &Read<'_>, id: AgentId) -> Result<AgentName> {
    let row = db.agents.get(txn, &id)?;
    let (folder, name) = row.map(|row| (row.folder.to_string(), row.settings.name)).unzip();
    Ok(AgentName { id, folder, name: name.unwrap_or_default() })
}

/// Adapts a card to a channel whose messages hold at most `max` UTF-16 units. A card that is too long is not cut: it
/// can be rejected there, but approved only where its full text is shown. Options keep their numbers.
pub(crate) fn fit(card: Wording, id: ApprovalId, max: usize) -> Wording {
    let length = prompts::length(&card.title, &card.body, &card.options);
    if length <= max {
        return card;
    }
    let is_no = |option: &CardOption| [REJECT, REJECT_WHY, NEVER, IGNORE].contains(&choice(&option.value));
    let withheld = |option: CardOption| if is_no(&option) { option } else { option.withheld() };
    Wording {
        title: card.title,
        body: format!(
            "This request has {length} characters, and a message here has room for {max}. It cannot be approved here, \
             because a part of it would be hidden. `hearth approvals show {id}` shows all of it, and \
             `hearth approvals approve {id}` approves it. You can say no here."
        ),
        options: card.options.into_iter().map(withheld).collect(),
    }
}

/// A call that no pattern names can only be allowed once.
fn tool_options(request: &ToolRequest) -> Vec<CardOption> {
    let mut options = vec![option("Allow once", "✅ Allowed once", APPROVE)];
    if request.pattern.is_some() {
        options.push(option("For this session", "✅ Allowed for this session", SESSION));
        options.push(option("Always", "✅ Always allowed", ALWAYS));
    }
    options.push(option("No", "❌ Denied", REJECT));
    options.push(option("No, and say why", "❌ Denied, reason follows", REJECT_WHY));
    options
}

/// A choice about several hosts has their number in its value, so that it cannot be applied to hosts that were added
/// after people saw the question.
fn hosts_options(count: usize) -> Vec<CardOption> {
    let about = |label: &str, chosen: &str, value: &str| {
        option(label, &format!("{chosen} ({count} hosts)"), &format!("{value}:{count}"))
    };
    vec![
        about("All once", "✅ Allowed for an hour", APPROVE),
        about("All always", "✅ Allowed always", ALWAYS),
        about("None, never", "⛔ Refused for good", NEVER),
        option("Not now", "❌ Not allowed now", REJECT),
    ]
}

/// The choice in the value of an option, without a number or an id behind it.
pub(crate) fn choice(value: &str) -> &str {
    value.split_once(':').map_or(value, |(choice, _)| choice)
}

fn option(label: &str, chosen: &str, value: &str) -> CardOption {
    CardOption { label: label.to_owned(), chosen: chosen.to_owned(), value: value.to_owned() }
}

/// One option per agent, by name, up to [`AGENTS_MAX`], followed by "Create new" and "Ignore". Also returns a note
/// about agents without a button.
fn agent_options(tx: &Tx<'_, '_>) -> Result<(Vec<CardOption>, String)> {
    let mut agents = living_agents(tx)?;
    let left_out = agents.len().saturating_sub(AGENTS_MAX);
    agents.truncate(AGENTS_MAX);
    let mut options: Vec<CardOption> = agents
        .iter()
        .map(|(id, label)| option(label, &format!("✅ Connected to {label}"), &format!("{CONNECT}{id}")))
        .collect();
    options.push(option("➕ Create new", "🆕 Connecting a new agent…", NEW_AGENT));
    options.push(option("Ignore", "🙅 Ignored", IGNORE));
    let more = match left_out {
        0 => String::new(),
        n => format!(
            "\n({n} more agents have no button: connect one with `hearth wirings add`, and the message goes there.)"
        ),
    };
    Ok((options, more))
}

/// Agents that are not archived, with their button labels, sorted by label.
pub(crate) fn living_agents(tx: &Tx<'_, '_>) -> Result<Vec<(AgentId, String)>> {
    let mut found = Vec::new();
    for (_, id) in tx.db.agents_by_folder.collect_range(tx, .., tx.policy.rows_per_input)? {
        let agent = tx.db.agents.require(tx, &id)?;
        found.push((id, label(&agent)));
    }
    found.sort_by(|(a, left), (b, right)| (left, a).cmp(&(right, b)));
    Ok(found)
}

/// The unique label of an agent. Names may repeat, folders may not, so the label is the name alone only if the folder
/// follows from it.
pub(crate) fn label(agent: &Agent) -> String {
    let (name, folder) = (&agent.settings.name, agent.folder.as_str());
    let plain = name.is_ascii() && !name.chars().any(is_unseen) && name.len() <= LABEL_MAX;
    let says = name.chars().any(|c| c.is_ascii_alphanumeric());
    if plain && says && normalize_name(name) == folder.to_ascii_lowercase() {
        return name.trim().to_owned();
    }
    let both = format!("{} ({folder})", free(name));
    if both.chars().count() <= LABEL_MAX { both } else { folder.to_owned() }
}

/// Text on one line with a length limit, without invisible characters and characters that change the reading direction.
pub(crate) fn one_line(text: &str, max: usize) -> String {
    let mut line = String::new();
    let mut count = 0;
    for c in text.chars().map(|c| if c.is_whitespace() || c.is_control() { ' ' } else { c }).filter(|c| !is_unseen(*c))
    {
        if c == ' ' && (line.is_empty() || line.ends_with(' ')) {
            continue;
        }
        if count == max {
            line.push('…');
            break;
        }
        line.push(c);
        count += 1;
    }
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use crate::approvals::texts::*;
    use crate::model::entity::{AgentSettings, Folder, Origin};
    use crate::model::time::Timestamp;

    #[test]
    fn a_name_cannot_fake_a_card() {
        for (name, shown) in [
            ("Ann", "Ann"),
            ("  Ann\n\nAllowed ✅\r\n", "Ann Allowed ✅"),
            ("\u{202e}nnA\u{202c}", "nnA"),
            ("A\u{200b}n\u{2066}n\u{2069}\u{feff}", "Ann"),
            ("a\u{2028}b\u{2029}c\u{85}d\0e\u{1b}[2J", "a b c d e [2J"),
            ("\u{200f}\u{2067}", ""),
            ("日本語 🎉", "日本語 🎉"),
        ] {
            assert_eq!(one_line(name, 64), shown, "{name:?}");
        }
        assert_eq!(one_line(&"x".repeat(100), 5), "xxxxx…");
        assert_eq!(one_line("xxxxx", 5), "xxxxx");
    }

    fn agent(folder: &str, name: &str) -> Agent {
        Agent {
            folder: Folder::new(folder).unwrap(),
            settings: AgentSettings::named(name.to_owned()),
            origin: Origin::File,
            created: Timestamp::from_millis(0),
            archived: None,
            installs: Vec::new(),
        }
    }

    #[test]
    fn no_agent_can_take_the_label_of_another() {
        let long = "x".repeat(LABEL_MAX);
        for (folder, name, shown) in [
            ("andy", "Andy", "Andy"),
            ("family-chat", "Family Chat", "Family Chat"),
            ("Team_42", "team", "“team” (Team_42)"),
            ("andy-2", "Andy", "“Andy” (andy-2)"),
            ("ndy", "\u{410}ndy", "“\u{410}ndy” (ndy)"),
            ("andy-3", "Andy\u{200b}", "“Andy\\u{200b}” (andy-3)"),
            ("andy-4", "Andy” (andy)", "“Andy\\” (andy)” (andy-4)"),
            ("b", long.as_str(), "b"),
            ("unnamed", "", "“” (unnamed)"),
        ] {
            assert_eq!(label(&agent(folder, name)), shown, "{name}");
        }
    }

    #[test]
    fn a_card_that_is_too_long_offers_no_yes() {
        let id = ApprovalId::new(3);
        let choices = |values: &[&str]| values.iter().map(|value| option(value, "", value)).collect::<Vec<_>>();
        let whole = Wording { title: "T".into(), body: "é".repeat(100), options: choices(&[APPROVE, REJECT]) };
        let length = prompts::length(&whole.title, &whole.body, &whole.options);
        assert_eq!(fit(whole.clone(), id, length), whole);
        let short = fit(whole.clone(), id, length - 1);
        assert!(short.body.contains(&format!("has {length} characters")), "{}", short.body);
        assert!(short.body.contains("`hearth approvals show ap3`") && !short.body.contains('é'), "{}", short.body);
        let offered = |card: &Wording| -> Vec<bool> { card.options.iter().map(CardOption::is_offered).collect() };
        assert_eq!(offered(&short), [false, true]);
        let chat = Wording { options: choices(&["connect:ag1", NEW_AGENT, IGNORE]), ..whole };
        assert_eq!(offered(&fit(chat, id, 10)), [false, false, true]);
    }
}
