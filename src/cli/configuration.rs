//! The configuration in the store, in the form of hearth.toml.

use std::collections::{BTreeMap, HashMap};

use crate::config::Paths;
use crate::config::file::write::{self, Fields, Value};
use crate::model::Timestamp;
use crate::model::channel::ChannelInstance;
use crate::model::configure::{Change, ChannelSpec, ChatSpec, RoleSpec, Settings, UserSpec, WiringSpec};
use crate::model::console::ConsoleSettings;
use crate::model::entity::{AgentSettings, Chat, EnvValue, Folder, Origin, Role, User};
use crate::model::id::{AgentId, ChatId};
use crate::model::report::FieldChange;
use crate::state::{self, GrantKey, MemberKey, PersonKey, Read, Reader, Tables, WiringKey};

/// Everything that hearth.toml can describe, with its origin.
#[derive(Debug, Default)]
pub(super) struct Configuration {
    /// Digest of the rows; none if there is no store.
    pub(super) digest: Option<u64>,
    pub(super) settings: Option<Settings>,
    pub(super) agents: Vec<AgentEntry>,
    pub(super) users: Vec<UserEntry>,
    pub(super) chats: Vec<ChatEntry>,
    pub(super) channels: Vec<ChannelInstance>,
    pub(super) console: Option<ConsoleSettings>,
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
    /// The chat with its wirings.
    pub(super) spec: ChatSpec,
    /// Origin of each wiring.
    pub(super) wired_by: Vec<Origin>,
    pub(super) origin: Origin,
    pub(super) denied: Option<Timestamp>,
    pub(super) created: Timestamp,
}

impl Configuration {
    /// The names of all agents, channels, chats, users or wirings.
    pub(super) fn names(&self, what: &str) -> Vec<String> {
        match what {
            "agent" => self.agents.iter().map(|agent| agent.folder.to_string()).collect(),
            "channel" => self.channels.iter().map(|channel| channel.name.to_string()).collect(),
            "chat" => {
                self.chats.iter().map(|chat| format!("{}/{}", chat.spec.channel, chat.spec.platform_id)).collect()
            }
            "user" => self.users.iter().map(|user| user.spec.id.to_string()).collect(),
            "wiring" => self.chats.iter().flat_map(ChatEntry::wirings).collect(),
            _ => Vec::new(),
        }
    }
}

impl ChatEntry {
    /// Its wirings by name.
    fn wirings(&self) -> impl Iterator<Item = String> {
        let ChatSpec { channel, platform_id, wirings, .. } = &self.spec;
        wirings.iter().map(move |wiring| format!("{channel}/{platform_id} -> {}", wiring.agent))
    }
}

/// Reads the configuration of a data directory. It is empty if there is no store.
pub(super) fn read(paths: &Paths) -> Result<Configuration, state::Error> {
    match Reader::open(paths.data()) {
        Ok(reader) => reader.read(collect),
        Err(state::Error::NoStore { .. }) => Ok(Configuration::default()),
        Err(error) => Err(error),
    }
}

/// Collects the configuration from the tables.
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
            chats.push(chat_entry(db, txn, id, chat, &folders)?);
        }
    }
    let channels = db.channels.iter(txn)?.map(|row| row.map(|(_, channel)| channel)).collect::<Result<_, _>>()?;
    let digest = Some(db.configuration_digest(txn)?);
    let (settings, console) = (db.settings.get(txn, &())?, db.console.get(txn, &())?);
    Ok(Configuration { digest, settings, agents, users, chats, channels, console })
}

fn users(db: &Tables, txn: &Read<'_>, folders: &HashMap<AgentId, Folder>) -> Result<Vec<UserEntry>, state::Error> {
    let mut member_of: HashMap<PersonKey, Vec<Folder>> = HashMap::new();
    for row in db.members.iter(txn)? {
        let (MemberKey { agent, person }, _) = row?;
        if let Some(folder) = folders.get(&agent) {
            member_of.entry(person).or_default().push(folder.clone());
        }
    }
    let mut users = Vec::new();
    for row in db.users.iter(txn)? {
        let (key, User { id, name, origin, created }) = row?;
        let mut roles = Vec::new();
        for (GrantKey { role, .. }, _) in db.roles.collect_prefix(txn, &key, usize::MAX)? {
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
    id: ChatId,
    chat: Chat,
    folders: &HashMap<AgentId, Folder>,
) -> Result<ChatEntry, state::Error> {
    let mut wirings = Vec::new();
    let mut wired_by = Vec::new();
    for (WiringKey { agent, .. }, wiring) in db.wirings.collect_prefix(txn, &id, usize::MAX)? {
        let Some(agent) = folders.get(&agent).cloned() else { continue };
        wired_by.push(wiring.origin);
        wirings.push(WiringSpec {
            agent,
            engage: wiring.engage,
            senders: wiring.senders,
            ignored: wiring.ignored,
            session: wiring.session,
            priority: wiring.priority,
            context_from: wiring.context_from,
        });
    }
    let Chat { channel, platform_id, name, group, unknown_senders, denied, origin, created, .. } = chat;
    let spec = ChatSpec { channel, platform_id, name, group, unknown_senders, wirings };
    Ok(ChatEntry { id, spec, wired_by, origin, denied, created })
}

impl Configuration {
    /// The changes that would create this configuration. Skips what hearth.toml cannot express.
    pub(super) fn changes(&self) -> Vec<Change> {
        let agents = self.agents.iter().map(|agent| Change::PutAgent(agent.folder.clone(), agent.settings.clone()));
        let users = self.users.iter().map(|user| Change::PutUser(user.spec.clone()));
        let nameable = |chat: &&ChatEntry| !chat.spec.platform_id.as_str().is_empty();
        let chats = self.chats.iter().filter(nameable).map(|chat| Change::PutChat(chat.spec.clone()));
        let channels = self.channels.iter().map(|channel| Change::PutChannel(ChannelSpec::from(channel)));
        let settings = self.settings.clone().filter(|settings| *settings != Settings::default());
        let console = self.console.clone().map(Change::PutConsole);
        agents
            .chain(users)
            .chain(chats)
            .chain(channels)
            .chain(console)
            .chain(settings.map(Change::PutSettings))
            .collect()
    }

    /// All entities with their keys, by their name in reports.
    pub(super) fn entities(&self) -> BTreeMap<String, Fields> {
        let settings = self.settings.clone().unwrap_or_default();
        let mut changes = self.changes();
        changes.push(Change::PutSettings(settings));
        entities(&changes)
    }

    /// The effect of changes on each existing entity. For new entities only references, because they make the machine
    /// act.
    pub(super) fn diff(&self, changes: &[Change]) -> BTreeMap<String, Vec<FieldChange>> {
        let before = self.entities();
        let mut diff = BTreeMap::new();
        for (entity, after) in entities(changes) {
            let changes = match before.get(&entity) {
                Some(before) => compare(before, &after),
                None => references(&after),
            };
            diff.insert(entity, changes);
        }
        diff
    }
}

fn entities(changes: &[Change]) -> BTreeMap<String, Fields> {
    write::tables(changes).into_iter().map(|table| (table.entity, table.fields)).collect()
}

fn compare(before: &Fields, after: &Fields) -> Vec<FieldChange> {
    let mut keys: Vec<&str> = before.iter().map(|(key, _)| key).collect();
    keys.extend(after.iter().map(|(key, _)| key).filter(|key| before.get(key).is_none()));
    let mut changes = Vec::new();
    for key in keys {
        let (old, new) = (before.get(key), after.get(key));
        // An absent name leaves the current one unchanged.
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

/// Keys whose values are references.
fn references(fields: &Fields) -> Vec<FieldChange> {
    let found = fields.iter().filter(|(key, value)| refers(key, value));
    found.map(|(key, value)| FieldChange { field: key.to_owned(), before: None, after: Some(shown(value)) }).collect()
}

fn refers(key: &str, value: &Value) -> bool {
    match value {
        Value::Env(variables) => variables.iter().any(|(_, value)| matches!(value, EnvValue::Reference(_))),
        Value::Table(fields) => fields.iter().any(|(key, value)| refers(key, value)),
        Value::Text(text) => matches!(key, "token" | "secret" | "value") && EnvValue::is_reference(text),
        Value::Plain(_) | Value::Texts(_) | Value::Tables(_) => false,
    }
}

/// A value in a list of differences. Plain environment values are hidden, because they may be secrets.
fn shown(value: &Value) -> String {
    let variables = match value {
        Value::Env(variables) => variables,
        Value::Table(fields) => {
            let field = |(name, value): &(String, Value)| format!("{name}: {}", shown(value));
            return fields.iter().map(field).collect::<Vec<_>>().join("; ");
        }
        Value::Text(_) | Value::Plain(_) | Value::Texts(_) | Value::Tables(_) => return value.to_string(),
    };
    let pair = |(name, value): &(String, EnvValue)| match value {
        EnvValue::Reference(reference) => format!("{name}={reference}"),
        EnvValue::Plain(_) => format!("{name}=…"),
    };
    variables.iter().map(pair).collect::<Vec<_>>().join(", ")
}

/// Like [`shown`], for the new value. Hidden plain text that has changed is marked as changed.
fn shown_after(before: Option<&Value>, after: &Value) -> String {
    let (Some(Value::Env(before)), Value::Env(variables)) = (before, after) else { return shown(after) };
    let one = |variable: &(String, EnvValue)| {
        let text = shown(&Value::Env(vec![variable.clone()]));
        let other = before.iter().any(|(name, value)| *name == variable.0 && *value != variable.1);
        let hidden = matches!(variable.1, EnvValue::Plain(_));
        if other && hidden { format!("{text} (another one)") } else { text }
    };
    variables.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The word for an entity's origin.
pub(super) const fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::File => "file",
        Origin::Runtime => "runtime",
    }
}

#[cfg(test)]
mod tests;
