//! Which keys a file names.

use std::collections::{BTreeMap, BTreeSet};

use super::{AGENT_KEYS, TOP, backup, channels, chats, console, retention, users, voice};
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
            named.add_wiring(format!("wiring {place} -> "), wiring);
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
    if let Some(DeValue::Table(console)) = value(top, "console") {
        named.add(Some("console".to_owned()), console);
    }
    named.add(Some("settings".to_owned()), top);
    named.0
}

/// The keys that files can omit, as [`named_keys`] calls them, each with the first word of its entity's name.
#[must_use]
pub fn known_keys() -> Vec<(&'static str, String)> {
    // What names an entity, what is an entity of its own, and other forms of keys.
    const OTHERS: [&str; 13] = [
        "folder",
        "id",
        "channel",
        "platform_id",
        "agent",
        "bridge",
        "trigger_rules",
        "response_scope",
        "wirings",
        "schema",
        "agents",
        "users",
        "chats",
    ];
    let places = [
        ("agent", "", AGENT_KEYS),
        ("user", "", users::USERS.known),
        ("chat", "", chats::CHATS.known),
        ("wiring", "", chats::WIRINGS.known),
        ("channel", "", channels::CHANNELS.known),
        ("console", "", console::KEYS.known),
        ("settings", "", TOP.known),
        ("settings", "retention.", retention::KEYS.known),
        ("settings", "backup.", backup::KEYS.known),
        ("settings", "voice.transcribe.", voice::TRANSCRIBE.known),
        ("settings", "voice.speak.", voice::SPEAK.known),
    ];
    let tables = ["channels", "console", "retention", "backup", "voice"];
    let known = places.into_iter().flat_map(|(kind, place, keys)| {
        let keys = keys.iter().filter(move |key| kind != "settings" || !place.is_empty() || !tables.contains(key));
        keys.filter(|key| !OTHERS.contains(key)).map(move |key| (kind, format!("{place}{key}")))
    });
    known.collect()
}

#[derive(Default)]
struct Named(BTreeMap<String, BTreeSet<String>>);

impl Named {
    /// Adds the keys of a table, those of tables inside of it also as `retention.bodies`.
    fn add(&mut self, entity: Option<String>, table: &DeTable<'_>) {
        let Some(entity) = entity else { return };
        add_keys(self.0.entry(entity).or_default(), "", table);
    }

    /// Adds the keys of a wiring. The form of NanoClaw's version 1 decides four keys of the other form.
    fn add_wiring(&mut self, of_chat: String, wiring: &DeTable<'_>) {
        let Some(agent) = word(wiring, "agent") else { return };
        let entity = of_chat + &agent;
        self.add(Some(entity.clone()), wiring);
        if value(wiring, "trigger_rules").is_some() || value(wiring, "response_scope").is_some() {
            let keys = ["engage", "pattern", "senders", "ignored"].map(str::to_owned);
            self.0.entry(entity).or_default().extend(keys);
        }
    }
}

/// `place` is that of the table, with a dot at its end.
fn add_keys(keys: &mut BTreeSet<String>, place: &str, table: &DeTable<'_>) {
    for (key, value) in table.iter() {
        let key = format!("{place}{}", key.get_ref());
        if let DeValue::Table(inner) = value.get_ref() {
            add_keys(keys, &format!("{key}."), inner);
        }
        keys.insert(key);
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
