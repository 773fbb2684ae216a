//! What cards say. Names come from strangers and agents: they are one line, bounded, and cannot look like anything else.

use crate::engine::{Cx, Result, sessions};
use crate::model::address::UserId;
use crate::model::approval::Matters;
use crate::model::card::CardOption;
use crate::model::entity::{EnvValue, McpServer};
use crate::model::id::{AgentId, ChatId, SessionId};
use crate::state::Write;

/// Characters of a name on a card.
const NAME_MAX: usize = 64;
/// Characters of a longer text on a card.
const TEXT_MAX: usize = 600;
/// Agents that have a button of their own; a card with more of them is no choice any more.
pub(super) const AGENTS_MAX: usize = 10;

/// The value of yes.
pub(super) const APPROVE: &str = "approve";
/// The value of no.
pub(super) const REJECT: &str = "reject";
/// The value of making a new agent.
pub(super) const NEW_AGENT: &str = "new_agent";
/// The value of leaving a chat alone.
pub(super) const IGNORE: &str = "ignore";
/// What the value of an agent begins with; its id follows.
pub(super) const CONNECT: &str = "connect:";

/// A card without its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wording {
    pub(super) title: String,
    pub(super) body: String,
    pub(super) options: Vec<CardOption>,
}

/// The card of something that has to be decided, as things are now.
pub(super) fn card(cx: &Cx<'_>, txn: &Write<'_>, about: &Matters) -> Result<Wording> {
    Ok(match about {
        Matters::Sender { chat, sender, name, agents } => {
            let who = person(Some(sender), name.as_deref());
            let (place, agents) = (place(cx, txn, *chat)?, listed(&agent_names(cx, txn, agents)?));
            Wording {
                title: "👤 New sender".to_owned(),
                body: format!("{who} wants to talk to {agents} in {place}. Allow?"),
                options: vec![option("Allow", "✅ Allowed", APPROVE), option("Deny", "❌ Denied", REJECT)],
            }
        }
        Matters::Channel { chat, sender, name } => {
            let who = person(sender.as_ref(), name.as_deref());
            let place = place_on(cx, txn, *chat)?;
            let (options, more) = agent_options(cx, txn)?;
            Wording {
                title: "🔌 New channel — wire it?".to_owned(),
                body: format!("{who} is trying to reach you in {place}. Wire to which agent?{more}"),
                options,
            }
        }
        Matters::Packages { session, apt, npm, reason } => {
            let agent = agent_of(cx, txn, *session)?;
            let apt = apt.iter().map(|name| format!("apt: {}", one_line(name, NAME_MAX)));
            let npm = npm.iter().map(|name| format!("npm: {}", one_line(name, NAME_MAX)));
            let packages = apt.chain(npm).collect::<Vec<_>>().join(", ");
            let reason =
                reason.as_deref().map_or_else(String::new, |reason| format!("\nIt says: {}", quoted(reason, TEXT_MAX)));
            yes_or_no("Install Packages Request", format!("{agent} wants packages in its image:\n{packages}{reason}"))
        }
        Matters::McpServer { session, server } => {
            let agent = agent_of(cx, txn, *session)?;
            yes_or_no("Add MCP Request", format!("{agent} wants another MCP server:\n{}", server_lines(server)))
        }
        Matters::CreateAgent { session, name, instructions } => {
            let agent = agent_of(cx, txn, *session)?;
            let told = instructions
                .as_deref()
                .map_or_else(String::new, |text| format!("\nIt would be told: {}", quoted(text, TEXT_MAX)));
            yes_or_no(
                "Create Agent Request",
                format!(
                    "{agent} wants a new agent called {}. It would have the same provider, command and environment, \
                     and be untrusted.{told}",
                    quoted(name, NAME_MAX)
                ),
            )
        }
    })
}

fn yes_or_no(title: &str, body: String) -> Wording {
    let options = vec![option("Approve", "✅ Approved", APPROVE), option("Reject", "❌ Rejected", REJECT)];
    Wording { title: title.to_owned(), body, options }
}

fn option(label: &str, chosen: &str, value: &str) -> CardOption {
    CardOption { label: label.to_owned(), chosen: chosen.to_owned(), value: value.to_owned() }
}

/// One option per agent by name, as many as a card can bear, then a new one and none.
fn agent_options(cx: &Cx<'_>, txn: &Write<'_>) -> Result<(Vec<CardOption>, String)> {
    let mut agents = living_agents(cx, txn)?;
    let left_out = agents.len().saturating_sub(AGENTS_MAX);
    agents.truncate(AGENTS_MAX);
    let mut options: Vec<CardOption> = agents
        .iter()
        .map(|(id, name)| option(name, &format!("✅ Connected to {name}"), &format!("{CONNECT}{id}")))
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

/// Agents that are not archived, with names for a button, by name.
pub(super) fn living_agents(cx: &Cx<'_>, txn: &Write<'_>) -> Result<Vec<(AgentId, String)>> {
    let mut found = Vec::new();
    for (_, id) in cx.db.agents_by_folder.collect_range(txn, .., cx.policy.rows_per_input)? {
        let agent = cx.db.agents.require(txn, &id)?;
        let name = one_line(&agent.settings.name, NAME_MAX);
        found.push((id, if name.is_empty() { agent.folder.to_string() } else { name }));
    }
    found.sort_by(|(a, left), (b, right)| (left, a).cmp(&(right, b)));
    Ok(found)
}

/// What a server would be started with: all of it, since it is what is agreed to.
fn server_lines(server: &McpServer) -> String {
    let words = std::iter::once(&server.command).chain(&server.args);
    let command = words.map(|word| quoted(word, TEXT_MAX)).collect::<Vec<_>>().join(" ");
    let mut lines = format!("{}: {command}", one_line(&server.name, NAME_MAX));
    for (name, value) in &server.env {
        let value = match value {
            EnvValue::Plain(text) | EnvValue::Reference(text) => quoted(text, TEXT_MAX),
        };
        lines.push_str(&format!("\n{}={value}", one_line(name, NAME_MAX)));
    }
    lines
}

fn agent_of(cx: &Cx<'_>, txn: &Write<'_>, session: SessionId) -> Result<String> {
    let Some(session) = sessions::load(cx, txn, session)? else { return Ok("An agent".to_owned()) };
    let agent = cx.db.agents.require(txn, &session.agent)?;
    Ok(format!("Agent {}", quoted(&agent.settings.name, NAME_MAX)))
}

fn agent_names(cx: &Cx<'_>, txn: &Write<'_>, agents: &[AgentId]) -> Result<Vec<String>> {
    let mut names = Vec::with_capacity(agents.len());
    for agent in agents {
        names.extend(cx.db.agents.get(txn, agent)?.map(|agent| one_line(&agent.settings.name, NAME_MAX)));
    }
    Ok(names)
}

fn place(cx: &Cx<'_>, txn: &Write<'_>, chat: ChatId) -> Result<String> {
    let chat = cx.db.chats.require(txn, &chat)?;
    let channel = one_line(chat.channel.as_str(), NAME_MAX);
    Ok(chat.name.map_or_else(|| format!("a {channel} channel"), |name| quoted(&name, NAME_MAX)))
}

fn place_on(cx: &Cx<'_>, txn: &Write<'_>, chat: ChatId) -> Result<String> {
    let row = cx.db.chats.require(txn, &chat)?;
    let channel = one_line(row.channel.as_str(), NAME_MAX);
    Ok(match (row.group, row.name) {
        (_, Some(name)) => format!("{} on {channel}", quoted(&name, NAME_MAX)),
        (true, None) => format!("a group on {channel}"),
        (false, None) => format!("a direct message on {channel}"),
    })
}

/// A person: what they call themselves, and always who they are.
pub(super) fn person(id: Option<&UserId>, name: Option<&str>) -> String {
    let name = name.map(|name| quoted(name, NAME_MAX));
    match (id.map(|id| one_line(&id.to_string(), 2 * NAME_MAX)), name) {
        (Some(id), Some(name)) => format!("{name} ({id})"),
        (Some(id), None) => id,
        (None, Some(name)) => format!("Somebody who calls themselves {name}"),
        (None, None) => "Somebody".to_owned(),
    }
}

fn listed(names: &[String]) -> String {
    match names {
        [] => "your agent".to_owned(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// Text of somebody else in quotes that it cannot end.
fn quoted(text: &str, max: usize) -> String {
    let inner: String = one_line(text, max).chars().map(|c| if matches!(c, '“' | '”') { '"' } else { c }).collect();
    format!("“{inner}”")
}

/// Text on one line, bounded, without anything that is not seen or turns the direction of reading.
pub(super) fn one_line(text: &str, max: usize) -> String {
    let mut line = String::new();
    let mut count = 0;
    for c in text.chars().filter(|c| !is_unseen(*c)).map(|c| if c.is_whitespace() || c.is_control() { ' ' } else { c })
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

/// Marks of direction, joiners, fillers and tags: characters by which a text can show something it does not say.
fn is_unseen(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(quoted("Ann” (telegram:owner) wants “x", 64), "“Ann\" (telegram:owner) wants \"x”");
    }

    #[test]
    fn a_person_is_always_named_by_their_identity() {
        let id = UserId::parse("telegram:s1").unwrap();
        assert_eq!(person(Some(&id), Some("Ann")), "“Ann” (telegram:s1)");
        assert_eq!(person(Some(&id), None), "telegram:s1");
        assert_eq!(person(None, None), "Somebody");
        // Half of a long identity may be another one's.
        let long = format!("telegram:{}", "1".repeat(2 * NAME_MAX - "telegram:".len()));
        assert_eq!(person(Some(&UserId::parse(&long).unwrap()), None), long);
    }
}
