//! Which keys a file names.

use std::collections::{BTreeMap, BTreeSet};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The keys that a file names for each entity, by the entity's name in reports. Reads as much as it can of an invalid
/// file.
#[must_use]
pub fn named_keys(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let (top, _) = DeTable::parse_recoverable(text);
    let top = top.get_ref();
    let mut named = Named::default();
    for agent in tables(top, "agents") {
        named.add(word(agent, "folder").map(|folder| format!("agent {folder}")), agent);
    }
    for user in tables(top, "users") {
        named.add(word(user, "id").map(|id| format!("user {id}")), user);
    }
    for chat in tables(top, "chats") {
        let (Some(channel), Some(id)) = (word(chat, "channel"), word(chat, "platform_id")) else { continue };
        let place = format!("{channel}/{id}");
        named.add(Some(format!("chat {place}")), chat);
        for wiring in tables(chat, "wirings") {
            named.add(word(wiring, "agent").map(|agent| format!("wiring {place} -> {agent}")), wiring);
        }
    }
    if let Some(DeValue::Table(channels)) = value(top, "channels") {
        for (name, channel) in channels.iter() {
            if let DeValue::Table(channel) = channel.get_ref() {
                let entity = format!("channel {}", name.get_ref());
                named.add(Some(entity.clone()), channel);
                // A bridge by its name is short for its command.
                if value(channel, "bridge").is_some() {
                    named.0.entry(entity).or_default().insert("command".to_owned());
                }
            }
        }
    }
    named.add(Some("settings".to_owned()), top);
    named.0
}

#[derive(Default)]
struct Named(BTreeMap<String, BTreeSet<String>>);

impl Named {
    /// Adds the keys of a table, those of tables inside of it also as `retention.bodies`.
    fn add(&mut self, entity: Option<String>, table: &DeTable<'_>) {
        let Some(entity) = entity else { return };
        let keys = self.0.entry(entity).or_default();
        for (key, value) in table.iter() {
            if let DeValue::Table(inner) = value.get_ref() {
                keys.extend(inner.keys().map(|inner| format!("{}.{}", key.get_ref(), inner.get_ref())));
            }
            keys.insert(key.get_ref().to_string());
        }
    }
}

fn value<'a, 'i>(table: &'a DeTable<'i>, key: &str) -> Option<&'a DeValue<'i>> {
    table.get(key).map(Spanned::get_ref)
}

fn word(table: &DeTable<'_>, key: &str) -> Option<String> {
    match value(table, key)? {
        DeValue::String(text) => Some(text.to_string()),
        _ => None,
    }
}

/// The tables of a list.
fn tables<'a, 'i>(table: &'a DeTable<'i>, key: &str) -> impl Iterator<Item = &'a DeTable<'i>> {
    let list = match value(table, key) {
        Some(DeValue::Array(list)) => Some(list),
        _ => None,
    };
    list.into_iter().flat_map(|list| list.iter()).filter_map(|entry| match entry.get_ref() {
        DeValue::Table(table) => Some(table),
        _ => None,
    })
}
