//! The configuration as the store has it, in the form in which files describe it.

use std::collections::{BTreeMap, HashMap};

use crate::config::Paths;
use crate::config::file::write::{Fields, Value};
use crate::model::Timestamp;
use crate::model::channel::ChannelInstance;
use crate::model::configure::{Change, ChannelSpec, ChatSpec, RoleSpec, Settings, UserSpec, WiringSpec};
use crate::model::entity::{AgentSettings, Chat, Folder, Origin, Role, User};
use crate::model::id::{AgentId, ChatId};
use crate::state::{self, ForeignKey, Read, Reader, Tables};

/// Everything that a file can describe, and where it came from.
#[derive(Debug, Default)]
pub(super) struct Configuration {
    /// Of the rows it was read from; none if there is no store.
    pub(super) digest: Option<u64>,
    pub(super) settings: Option<Settings>,
    pub(super) agents: Vec<AgentEntry>,
    pub(super) users: Vec<UserEntry>,
    pub(super) chats: Vec<ChatEntry>,
    pub(super) channels: Vec<ChannelInstance>,
}

/// An agent that is not archived.
#[derive(Debug)]
pub(super) struct AgentEntry {
    pub(super) id: AgentId,
    pub(super) folder: Folder,
    pub(super) settings: AgentSettings,
    pub(super) origin: Origin,
    pub(super) created: Timestamp,
}

/// A person.
#[derive(Debug)]
pub(super) struct UserEntry {
    pub(super) spec: UserSpec,
    pub(super) origin: Origin,
    pub(super) created: Timestamp,
}

/// A chat that is not archived.
#[derive(Debug)]
pub(super) struct ChatEntry {
    pub(super) id: ChatId,
    /// With its wirings.
    pub(super) spec: ChatSpec,
    /// Of each wiring.
    pub(super) wired_by: Vec<Origin>,
    pub(super) origin: Origin,
    pub(super) denied: Option<Timestamp>,
    pub(super) created: Timestamp,
}

/// How one key of an entity changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FieldChange {
    pub(super) field: String,
    pub(super) before: Option<String>,
    pub(super) after: Option<String>,
}

/// Reads the configuration of a data directory; there is none if there is no store.
pub(super) fn read(paths: &Paths) -> Result<Configuration, state::Error> {
    match Reader::open(paths.data()) {
        Ok(reader) => reader.read(collect),
        Err(state::Error::NoStore { .. }) => Ok(Configuration::default()),
        Err(error) => Err(error),
    }
}

/// Puts the configuration together.
pub(super) fn collect(db: &Tables, txn: &Read<'_>) -> Result<Configuration, state::Error> {
    let mut agents = Vec::new();
    for row in db.agents.iter(txn)? {
        let (id, agent) = row?;
        if agent.archived.is_none() {
            let (origin, created) = (agent.origin, agent.created);
            agents.push(AgentEntry { id, folder: agent.folder, settings: agent.settings, origin, created });
        }
    }
    let folders: HashMap<AgentId, Folder> = agents.iter().map(|agent| (agent.id, agent.folder.clone())).collect();
    let users = users(db, txn, &folders)?;
    let mut chats = Vec::new();
    for row in db.chats.iter(txn)? {
        let (id, chat) = row?;
        if chat.archived.is_none() {
            chats.push(chat_entry(db, txn, (id, chat), &folders)?);
        }
    }
    let channels = db.channels.iter(txn)?.map(|row| row.map(|(_, channel)| channel)).collect::<Result<_, _>>()?;
    let digest = Some(db.configuration_digest(txn)?);
    Ok(Configuration { digest, settings: db.settings.get(txn, &())?, agents, users, chats, channels })
}

fn users(db: &Tables, txn: &Read<'_>, folders: &HashMap<AgentId, Folder>) -> Result<Vec<UserEntry>, state::Error> {
    let mut member_of: HashMap<(ForeignKey, ForeignKey), Vec<Folder>> = HashMap::new();
    for row in db.members.iter(txn)? {
        let ((agent, channel, handle), _) = row?;
        if let Some(folder) = folders.get(&agent) {
            member_of.entry((channel, handle)).or_default().push(folder.clone());
        }
    }
    let mut users = Vec::new();
    for row in db.users.iter(txn)? {
        let (key, User { id, name, origin, created }) = row?;
        let mut roles = Vec::new();
        for ((_, _, role), _) in db.roles.collect_prefix(txn, &key, usize::MAX)? {
            roles.extend(match role {
                Role::Owner => Some(RoleSpec::Owner),
                Role::GlobalAdmin => Some(RoleSpec::Admin),
                Role::AdminOf(agent) => folders.get(&agent).cloned().map(RoleSpec::AdminOf),
            });
        }
        let member_of = member_of.remove(&key).unwrap_or_default();
        users.push(UserEntry { spec: UserSpec { id, name, roles, member_of }, origin, created });
    }
    Ok(users)
}

fn chat_entry(
    db: &Tables,
    txn: &Read<'_>,
    (id, chat): (ChatId, Chat),
    folders: &HashMap<AgentId, Folder>,
) -> Result<ChatEntry, state::Error> {
    let mut wirings = Vec::new();
    let mut wired_by = Vec::new();
    for ((_, agent), wiring) in db.wirings.collect_prefix(txn, &id, usize::MAX)? {
        let Some(agent) = folders.get(&agent).cloned() else { continue };
        wired_by.push(wiring.origin);
        wirings.push(WiringSpec {
            agent,
            engage: wiring.engage,
            senders: wiring.senders,
            ignored: wiring.ignored,
            session: wiring.session,
            priority: wiring.priority,
        });
    }
    let Chat { channel, platform_id, name, group, unknown_senders, denied, origin, created, .. } = chat;
    let spec = ChatSpec { channel, platform_id, name, group, unknown_senders, wirings };
    Ok(ChatEntry { id, spec, wired_by, origin, denied, created })
}

impl Configuration {
    /// The changes that would make all this. What no file can say is left out.
    pub(super) fn changes(&self) -> Vec<Change> {
        let agents = self.agents.iter().map(|agent| Change::PutAgent(agent.folder.clone(), agent.settings.clone()));
        let users = self.users.iter().map(|user| Change::PutUser(user.spec.clone()));
        let nameable = |chat: &&ChatEntry| !chat.spec.platform_id.as_str().is_empty();
        let chats = self.chats.iter().filter(nameable).map(|chat| Change::PutChat(chat.spec.clone()));
        let channels = self.channels.iter().map(|channel| Change::PutChannel(ChannelSpec::from(channel)));
        let settings = self.settings.clone().filter(|settings| *settings != Settings::default());
        agents.chain(users).chain(chats).chain(channels).chain(settings.map(Change::PutSettings)).collect()
    }

    /// Every entity by the name that reports give it, with its keys.
    fn entities(&self) -> BTreeMap<String, Fields> {
        let settings = self.settings.clone().unwrap_or_default();
        let mut changes = self.changes();
        changes.push(Change::PutSettings(settings));
        entities(&changes)
    }

    /// How changes would change each entity that there is.
    pub(super) fn diff(&self, changes: &[Change]) -> BTreeMap<String, Vec<FieldChange>> {
        let before = self.entities();
        let mut diff = BTreeMap::new();
        for (entity, after) in entities(changes) {
            if let Some(before) = before.get(&entity) {
                diff.insert(entity, compare(before, &after));
            }
        }
        diff
    }
}

fn entities(changes: &[Change]) -> BTreeMap<String, Fields> {
    let mut entities = BTreeMap::new();
    for change in changes {
        match change {
            Change::PutAgent(folder, settings) => {
                entities.insert(format!("agent {folder}"), Fields::of_agent(folder, settings));
            }
            Change::PutUser(user) => {
                entities.insert(format!("user {}", user.id), Fields::of_user(user));
            }
            Change::PutChat(chat) => {
                let place = format!("{}/{}", chat.channel, chat.platform_id);
                entities.insert(format!("chat {place}"), Fields::of_chat(chat));
                for wiring in &chat.wirings {
                    entities.insert(format!("wiring {place} -> {}", wiring.agent), Fields::of_wiring(wiring));
                }
            }
            Change::PutChannel(channel) => {
                entities.insert(format!("channel {}", channel.name), Fields::of_channel(channel));
            }
            Change::PutSettings(settings) => {
                entities.insert("settings".to_owned(), Fields::of_settings(settings));
            }
            _ => {}
        }
    }
    entities
}

fn compare(before: &Fields, after: &Fields) -> Vec<FieldChange> {
    let mut keys: Vec<&str> = before.iter().map(|(key, _)| key).collect();
    keys.extend(after.iter().map(|(key, _)| key).filter(|key| before.get(key).is_none()));
    let mut changes = Vec::new();
    for key in keys {
        let (old, new) = (before.get(key), after.get(key));
        // A name that is not said stays as it is.
        if old == new || (key == "name" && new.is_none()) {
            continue;
        }
        changes.push(FieldChange {
            field: key.to_owned(),
            before: old.map(shown),
            after: new.map(|new| shown_after(old, new)),
        });
    }
    changes
}

/// A value in a list of differences. Plain text of the environment may be a secret that should have been a reference.
fn shown(value: &Value) -> String {
    let pairs = match value {
        Value::Pairs(pairs) => pairs,
        Value::Table(fields) => {
            let field = |(name, value): &(String, Value)| format!("{name}: {}", shown(value));
            return fields.iter().map(field).collect::<Vec<_>>().join("; ");
        }
        Value::Text(_) | Value::Plain(_) | Value::Texts(_) | Value::Tables(_) => return value.to_string(),
    };
    let pair = |(name, text): &(String, String)| {
        let reference = ["env:", "file:", "cmd:"].iter().any(|kind| text.starts_with(kind));
        format!("{name}={}", if reference { text } else { "…" })
    };
    pairs.iter().map(pair).collect::<Vec<_>>().join(", ")
}

/// The same for what follows: plain text that is another one looks the same, and is said to be another one.
fn shown_after(before: Option<&Value>, after: &Value) -> String {
    let (Some(Value::Pairs(before)), Value::Pairs(pairs)) = (before, after) else { return shown(after) };
    let one = |pair: &(String, String)| {
        let text = shown(&Value::Pairs(vec![pair.clone()]));
        let other = before.iter().any(|(name, text)| *name == pair.0 && *text != pair.1);
        if other && text.ends_with('…') { format!("{text} (another one)") } else { text }
    };
    pairs.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The word for who made an entity.
pub(super) const fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::File => "file",
        Origin::Runtime => "runtime",
    }
}

#[cfg(test)]
mod tests;
