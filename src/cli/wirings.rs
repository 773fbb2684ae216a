//! `hearth wirings`: which agent listens in which chat.

use clap::{Args, Subcommand};
use serde::{Serialize, Serializer};

use super::configuration::{self, ChatEntry, Configuration};
use super::entity::{self, text, typed};
use super::listed::{self, Column, Listed};
use super::lookup::ChatRef;
use super::{Done, change, chats};
use crate::config::Paths;
use crate::config::file::write::{Fields, Value};
use crate::model::configure::Change;
use crate::model::configure::WiringSpec;
use crate::model::entity::{Folder, Origin};

#[derive(Debug, Subcommand)]
pub(super) enum WiringsCommand {
    /// List the wirings
    List,
    /// Let an agent listen in a chat
    Add {
        /// mg7, or channel/platform-id
        chat: ChatRef,
        /// The agent's folder
        agent: String,
        #[command(flatten)]
        keys: WiringKeys,
    },
    /// Change a wiring; keys that are not given keep their values
    Set {
        /// mg7, or channel/platform-id
        chat: ChatRef,
        /// The agent's folder
        agent: String,
        #[command(flatten)]
        keys: WiringKeys,
    },
    /// Let an agent no longer listen in a chat
    Remove {
        /// mg7, or channel/platform-id
        chat: ChatRef,
        /// The agent's folder
        agent: String,
    },
}

/// The keys of `[[chats.wirings]]`; what they accept is what hearth.toml accepts.
#[derive(Debug, Args)]
pub(super) struct WiringKeys {
    /// Which messages it answers: `mention`, `mention-sticky` or `pattern`
    #[arg(long)]
    engage: Option<String>,
    /// Regular expression searched in the text; `.` matches every message. Implies `--engage pattern`
    #[arg(long, allow_hyphen_values = true)]
    pattern: Option<String>,
    /// Whose messages it answers: `all`, or those of `known` people
    #[arg(long)]
    senders: Option<String>,
    /// Other messages: `drop` them, or `accumulate` them as context of the next turn
    #[arg(long)]
    ignored: Option<String>,
    /// Which messages share a session: `shared`, `per-thread` or `agent-shared`
    #[arg(long)]
    session: Option<String>,
    /// Wirings with a higher number are evaluated first
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true)]
    priority: Option<String>,
    /// Whose messages become context: those of `known` people, of `anyone`, or `default` for the chat's rule
    #[arg(long)]
    context_from: Option<String>,
}

/// Lists and changes wirings.
pub(super) fn wirings(paths: &Paths, command: &WiringsCommand, json: bool) -> Done {
    let known = configuration::read(paths)?;
    match command {
        WiringsCommand::List => list(&known, json),
        WiringsCommand::Add { chat, agent, keys } => {
            let entry = chats::find(&known, chat)?;
            if find(entry, agent).is_some() {
                return Err(entity::exists("wiring", &name(entry, agent), "wirings"));
            }
            entity::known_agent(&known, agent)?;
            let mut fields = Fields::default();
            fields.set("agent", Value::Text(agent.clone()));
            keys.put(&mut fields);
            put(paths, &known, entry, &fields, json)
        }
        WiringsCommand::Set { chat, agent, keys } => {
            let entry = chats::find(&known, chat)?;
            let wiring = find(entry, agent).ok_or_else(|| entity::missing("wiring", &name(entry, agent)))?;
            let mut fields = Fields::of_wiring(wiring);
            keys.put(&mut fields);
            put(paths, &known, entry, &fields, json)
        }
        WiringsCommand::Remove { chat, agent } => {
            let at = chats::address(&known, chat)?;
            let edit = Change::RemoveWiring(at.channel, at.platform_id, Folder::new(agent.as_str())?);
            change::edit(paths, edit, json)
        }
    }
}

impl WiringKeys {
    fn put(&self, fields: &mut Fields) {
        let engage = match (&self.engage, &self.pattern) {
            (None, Some(_)) => Some(Value::Text("pattern".to_owned())),
            (engage, _) => text(engage.as_ref()),
        };
        if matches!(self.engage.as_deref(), Some("mention" | "mention-sticky")) {
            fields.clear("pattern");
        }
        let default = self.context_from.as_deref() == Some("default");
        if default {
            fields.clear("context_from");
        }
        let given = vec![
            ("engage", engage),
            ("pattern", text(self.pattern.as_ref())),
            ("senders", text(self.senders.as_ref())),
            ("ignored", text(self.ignored.as_ref())),
            ("session", text(self.session.as_ref())),
            ("priority", typed(self.priority.as_ref())),
            ("context_from", text(self.context_from.as_ref().filter(|_| !default))),
        ];
        entity::overlay(fields, given, &[]);
    }
}

fn put(paths: &Paths, known: &Configuration, chat: &ChatEntry, wiring: &Fields, json: bool) -> Done {
    let fields = Fields::of_chat(&chat.spec);
    change::put(paths, known, entity::toml(&[("[[chats]]", &fields), ("[[chats.wirings]]", wiring)]), json)
}

fn find<'c>(chat: &'c ChatEntry, agent: &str) -> Option<&'c WiringSpec> {
    chat.spec.wirings.iter().find(|wiring| wiring.agent.as_str() == agent)
}

fn name(chat: &ChatEntry, agent: &str) -> String {
    format!("{} -> {agent}", chats::label(chat))
}

/// A wiring with its chat.
#[derive(Debug)]
struct WiringEntry {
    chat: String,
    origin: &'static str,
    keys: Fields,
}

impl Serialize for WiringEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let facts = [("chat", Some(self.chat.clone())), ("origin", Some(self.origin.to_owned()))];
        entity::json(&facts, &self.keys).serialize(serializer)
    }
}

impl Listed for WiringEntry {
    const PLURAL: &'static str = "wirings";
    const COLUMNS: &'static [Column<Self>] = &[
        ("CHAT", |one| one.chat.clone()),
        ("AGENT", |one| entity::cell(&one.keys, "agent")),
        ("ENGAGE", |one| entity::cell(&one.keys, "engage")),
        ("PATTERN", |one| entity::cell(&one.keys, "pattern")),
        ("SENDERS", |one| entity::cell(&one.keys, "senders")),
        ("IGNORED", |one| entity::cell(&one.keys, "ignored")),
        ("SESSION", |one| entity::cell(&one.keys, "session")),
        ("PRIORITY", |one| entity::cell(&one.keys, "priority")),
        ("CONTEXT FROM", |one| entity::cell(&one.keys, "context_from")),
        ("ORIGIN", |one| one.origin.to_owned()),
    ];
}

fn list(known: &Configuration, json: bool) -> Done {
    let of_chat = |chat: &ChatEntry| -> Vec<WiringEntry> {
        let wirings = chat.spec.wirings.iter().zip(&chat.wired_by);
        let one = |(wiring, origin): (&WiringSpec, &Origin)| WiringEntry {
            chat: chats::label(chat),
            origin: configuration::origin(*origin),
            keys: Fields::of_wiring(wiring),
        };
        wirings.map(one).collect()
    };
    let all: Vec<WiringEntry> = known.chats.iter().flat_map(of_chat).collect();
    listed::list(&all, json, "no wirings")
}
