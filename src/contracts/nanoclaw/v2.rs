//! Version 2: `data/v2.db`, and two databases for each session.

use std::collections::BTreeMap;

use super::database::{Database, Row};
use super::error::Error;
use super::found::{ConfigFile, Inventory, Kind, Tree, TreeKind, Version, Wishes};
use super::settings::{Config, check, settings};
use super::{below, names, sessions};
use crate::config::file::wiring_of_row;
use crate::contracts::dir::{Content, Dir};
use crate::model::address::Address;
use crate::model::configure::{Change, ChatSpec, DestinationSpec, RoleSpec, WiringSpec};
use crate::model::entity::{Engage, Folder, Ignored, SenderScope, SessionMode, UnknownSenders, normalize_name};

/// Tables and columns without which the database is not NanoClaw's.
const NEEDED: [(&str, &[&str]); 3] = [
    ("agent_groups", &["id", "folder"]),
    ("messaging_groups", &["id", "channel_type", "platform_id"]),
    ("messaging_group_agents", &["messaging_group_id", "agent_group_id"]),
];

/// The container configuration that older hosts keep in an agent's folder, and its maximum length in bytes.
pub(super) const CONFIG_FILE: &str = "container.json";
const CONFIG_MAX: u64 = 1 << 20;

/// Tables that are not imported, with reasons.
const LEFT: [(&str, &str); 4] = [
    ("pending_questions", "they wait in cards that NanoClaw sent; the agent has to ask again"),
    ("pending_approvals", "approvals wait in cards that NanoClaw sent; agents ask again for what they need"),
    ("unregistered_senders", "it lists what NanoClaw refused; `hearth dropped` lists what Hearth refuses"),
    ("user_dms", "Hearth opens direct messages again when needed"),
];

/// Ids by which rows refer to each other.
pub(super) struct Ids {
    pub(super) agents: BTreeMap<String, Folder>,
    pub(super) chats: BTreeMap<String, Address>,
}

/// Reads the whole installation.
pub(super) fn read(root: &Dir, db: &Database, wishes: &Wishes<'_>) -> Result<Inventory, Error> {
    db.need(&NEEDED)?;
    let mut found = Inventory::nothing(Version::V2);
    let agents = agents(db, root, &mut found)?;
    let chats = chats(db, &mut found)?;
    let ids = Ids { agents, chats };
    wirings(db, &ids, wishes, &mut found)?;
    people(db, &ids, &mut found)?;
    destinations(db, &ids, &mut found)?;
    sessions::read(db, root, &ids, wishes, &mut found)?;
    for table in ["pending_sender_approvals", "pending_channel_approvals"] {
        for row in db.rows(table)? {
            sessions::held(&row, table, &mut found);
        }
    }
    for (table, why) in LEFT {
        let count = db.count(table)?;
        found.leave_all(Kind::Other, table, count, why);
    }
    trees(&ids, &mut found);
    Ok(found)
}

fn agents(db: &Database, root: &Dir, found: &mut Inventory) -> Result<BTreeMap<String, Folder>, Error> {
    let mut configs: BTreeMap<String, Row> =
        db.rows("container_configs")?.into_iter().map(|row| (row.name("agent_group_id"), row)).collect();
    let mut ids = BTreeMap::new();
    for row in db.rows("agent_groups")? {
        let (id, name) = (row.name("id"), row.name("folder"));
        let folder = match Folder::new(name.as_str()) {
            Ok(folder) => folder,
            Err(error) => {
                found.leave(Kind::Agent, name, error.to_string());
                continue;
            }
        };
        let mut notes = Vec::new();
        let config = match configs.remove(&id) {
            Some(row) => Config::of_row(&row, &mut notes),
            // Older hosts keep the container configuration in the agent's folder.
            None => config_file(root, &folder, found, &mut notes)?,
        };
        let config = config.or_provider(row.filled("agent_provider"));
        let settings = settings(&folder, &row.name("name"), &config, &mut notes);
        for note in notes {
            found.leave(Kind::Other, format!("of agent {folder}"), note);
        }
        if found.agents.insert(folder.clone(), settings).is_some() {
            found.leave(Kind::Agent, folder.to_string(), "another agent has the same folder");
        }
        ids.insert(id, folder);
    }
    Ok(ids)
}

/// Reads the container configuration in an agent's folder. The agent could have changed it.
fn config_file(root: &Dir, folder: &Folder, found: &mut Inventory, notes: &mut Vec<String>) -> Result<Config, Error> {
    let group = below(root, &["groups", folder.as_str()])?;
    match group.map(|group| group.read(CONFIG_FILE.as_ref(), CONFIG_MAX)).transpose()? {
        None | Some(Content::Absent) => Ok(Config::default()),
        Some(Content::Refused(why)) => {
            notes.push(format!("its {CONFIG_FILE} is not read: {why}"));
            Ok(Config::default())
        }
        Some(Content::Whole(bytes)) => {
            found.config_files.insert(folder.clone());
            Ok(Config::of_json(&String::from_utf8_lossy(&bytes), notes))
        }
    }
}

fn chats(db: &Database, found: &mut Inventory) -> Result<BTreeMap<String, Address>, Error> {
    let mut ids = BTreeMap::new();
    for row in db.rows("messaging_groups")? {
        let (channel, platform_id) = (row.name("channel_type"), row.name("platform_id"));
        let name = format!("{channel}/{platform_id}");
        let place = match names::place(&channel, &platform_id, None) {
            Ok(place) => place,
            Err(why) => {
                found.leave(Kind::Chat, name, why);
                continue;
            }
        };
        ids.insert(row.name("id"), place.clone());
        if found.chat(&place).is_some() {
            found.leave(Kind::Chat, name, "it is the same chat as another one; its wirings are imported");
            continue;
        }
        let policy = row.name("unknown_sender_policy");
        let unknown_senders = match policy.as_str() {
            "public" => UnknownSenders::Public,
            "request_approval" => UnknownSenders::RequestApproval,
            _ => UnknownSenders::Strict,
        };
        if !matches!(policy.as_str(), "public" | "request_approval" | "strict") {
            let why = format!("`{policy}` is not a rule for unknown senders; their messages are refused");
            found.leave(Kind::Other, format!("of chat {name}"), why);
        }
        let chat = ChatSpec {
            channel: place.channel.clone(),
            platform_id: place.platform_id.clone(),
            name: row.filled("name"),
            group: row.is_set("is_group"),
            unknown_senders,
            wirings: Vec::new(),
        };
        add_chat(chat, found);
        if row.filled("denied_at").is_some() {
            found.denied.push(place);
        }
    }
    Ok(ids)
}

/// Adds a chat, without its name if that is invalid.
pub(super) fn add_chat(mut chat: ChatSpec, found: &mut Inventory) {
    if check(&Change::PutChat(chat.clone())).is_err() {
        chat.name = None;
    }
    found.chats.push(chat);
}

fn wirings(db: &Database, ids: &Ids, wishes: &Wishes<'_>, found: &mut Inventory) -> Result<(), Error> {
    for row in db.rows("messaging_group_agents")? {
        let (chat, agent) = (row.name("messaging_group_id"), row.name("agent_group_id"));
        let name = row.filled("id").unwrap_or_else(|| format!("{chat} -> {agent}"));
        let (Some(place), Some(agent)) = (ids.chats.get(&chat), ids.agents.get(&agent)) else {
            found.leave(Kind::Wiring, name, "its chat or its agent is not imported");
            continue;
        };
        let wiring = match wiring(&row, agent, wishes) {
            Ok(wiring) => wiring,
            Err(why) => {
                found.leave(Kind::Wiring, name, why);
                continue;
            }
        };
        let Some(chat) = found.chat(place) else { continue };
        if chat.wirings.iter().any(|known| known.agent == wiring.agent) {
            found.leave(Kind::Wiring, name, "another wiring already makes the agent listen there");
        } else {
            chat.wirings.push(wiring);
        }
    }
    Ok(())
}

fn wiring(row: &Row, agent: &Folder, wishes: &Wishes<'_>) -> Result<WiringSpec, String> {
    let (engage, senders) = match row.filled("engage_mode").as_deref() {
        Some("pattern") => {
            (Engage::Pattern(row.text("engage_pattern").filter(|p| !p.is_empty()).unwrap_or(".".into())), None)
        }
        Some("mention") => (Engage::Mention, None),
        Some("mention-sticky") => (Engage::MentionSticky, None),
        Some(other) => {
            return Err(format!("its engage mode `{other}` is unknown, and NanoClaw never answered with it"));
        }
        // In these rows, older hosts use the rules of version 1.
        None if row.text("trigger_rules").is_some() || row.text("response_scope").is_some() => {
            let (rules, scope) = (row.text("trigger_rules"), row.text("response_scope"));
            let (engage, senders) = wiring_of_row(rules.as_deref(), scope.as_deref());
            (engage, Some(senders))
        }
        None => return Err("it has no engage mode, and NanoClaw never answered without one".to_owned()),
    };
    if let Engage::Pattern(pattern) = &engage {
        (wishes.pattern)(pattern).map_err(|why| format!("its pattern is invalid here: {why}"))?;
    }
    let all = row.text("sender_scope").as_deref() == Some("all");
    Ok(WiringSpec {
        agent: agent.clone(),
        engage,
        senders: senders.unwrap_or(if all { SenderScope::All } else { SenderScope::Known }),
        ignored: match row.text("ignored_message_policy").as_deref() {
            Some("accumulate") => Ignored::Accumulate,
            _ => Ignored::Drop,
        },
        session: match row.text("session_mode").as_deref() {
            Some("per-thread") => SessionMode::PerThread,
            Some("agent-shared") => SessionMode::AgentShared,
            _ => SessionMode::Shared,
        },
        priority: row
            .number("priority")
            .map_or(0, |number| i32::try_from(number).unwrap_or(if number < 0 { i32::MIN } else { i32::MAX })),
        context_from: None,
    })
}

fn people(db: &Database, ids: &Ids, found: &mut Inventory) -> Result<(), Error> {
    for row in db.rows("users")? {
        let id = row.name("id");
        match names::person(&id) {
            Ok(person) => {
                let user = found.user(&person);
                user.name = row.filled("display_name").map(|name| name.trim().to_owned());
                if check(&Change::PutUser(user.clone())).is_err() {
                    user.name = None;
                }
            }
            Err(why) => found.leave(Kind::User, id, why),
        }
    }
    for row in db.rows("user_roles")? {
        let (user, word) = (row.name("user_id"), row.name("role"));
        let name = format!("{user} {word}");
        let group = row.filled("agent_group_id");
        let role = match (word.as_str(), group.as_ref().map(|id| ids.agents.get(id))) {
            ("owner", None) => RoleSpec::Owner,
            ("admin", None) => RoleSpec::Admin,
            ("admin", Some(Some(folder))) => RoleSpec::AdminOf(folder.clone()),
            ("owner", Some(_)) => {
                found.leave(Kind::Right, name, "an owner owns everything, not one agent");
                continue;
            }
            (_, Some(None)) => {
                found.leave(Kind::Right, name, "its agent is not imported");
                continue;
            }
            _ => {
                found.leave(Kind::Right, name, "there is no such role");
                continue;
            }
        };
        match names::person(&user) {
            Ok(person) => {
                let user = found.user(&person);
                if !user.roles.contains(&role) {
                    user.roles.push(role);
                }
            }
            Err(why) => found.leave(Kind::Right, name, why),
        }
    }
    for row in db.rows("agent_group_members")? {
        let (user, agent) = (row.name("user_id"), row.name("agent_group_id"));
        let name = format!("{user} of {agent}");
        let Some(folder) = ids.agents.get(&agent) else {
            found.leave(Kind::Right, name, "its agent is not imported");
            continue;
        };
        match names::person(&user) {
            Ok(person) => {
                let user = found.user(&person);
                if !user.member_of.contains(folder) {
                    user.member_of.push(folder.clone());
                }
            }
            Err(why) => found.leave(Kind::Right, name, why),
        }
    }
    Ok(())
}

fn destinations(db: &Database, ids: &Ids, found: &mut Inventory) -> Result<(), Error> {
    for row in db.rows("agent_destinations")? {
        let (agent, local, target) = (row.name("agent_group_id"), row.name("local_name"), row.name("target_id"));
        let name = format!("{agent} -> {local}");
        let Some(folder) = ids.agents.get(&agent) else {
            found.leave(Kind::Destination, name, "its agent is not imported");
            continue;
        };
        let name = format!("{folder} -> {local}");
        let to = match row.name("target_type").as_str() {
            "channel" => ids
                .chats
                .get(&target)
                .map(|place| DestinationSpec::Chat(place.channel.clone(), place.platform_id.clone())),
            "agent" => ids.agents.get(&target).cloned().map(DestinationSpec::Agent),
            _ => None,
        };
        match to {
            None => found.leave(Kind::Destination, name, "its target is not imported"),
            Some(_) if local != normalize_name(&local) => {
                let why =
                    format!("names have lower-case letters, digits and `-` here, like `{}`", normalize_name(&local));
                found.leave(Kind::Destination, name, why);
            }
            Some(to) => found.destinations.push((folder.clone(), local, to)),
        }
    }
    Ok(())
}

fn trees(ids: &Ids, found: &mut Inventory) {
    let group = |name: &str| vec!["groups".to_owned(), name.to_owned()];
    found.trees.push(Tree::new(None, group("global"), TreeKind::Group));
    for (id, folder) in &ids.agents {
        let mut tree = Tree::new(Some(folder), group(folder.as_str()), TreeKind::Group);
        if found.config_files.contains(folder) {
            tree.config = ConfigFile::Read;
        }
        found.trees.push(tree);
        let from = ["data", "v2-sessions", id, ".claude-shared", "projects"].map(str::to_owned).to_vec();
        found.trees.push(Tree::new(Some(folder), from, TreeKind::Projects));
    }
}
