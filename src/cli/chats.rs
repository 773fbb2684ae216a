//! `hearth chats`.

use clap::{Args, Subcommand};
use serde::{Serialize, Serializer};

use super::configuration::{self, ChatEntry, Configuration};
use super::entity::{self, text, typed};
use super::listed::{self, Column, Listed};
use super::lookup::ChatRef;
use super::{Done, Failure, change, human_time, print};
use crate::config::Paths;
use crate::config::file::write::{Fields, Value};
use crate::model::address::Address;
use crate::model::configure::{Change, WiringSpec};

#[derive(Debug, Subcommand)]
pub(super) enum ChatsCommand {
    /// List the chats
    List,
    /// Show one chat and who listens in it
    Show {
        /// mg7, or channel/platform-id
        chat: ChatRef,
    },
    /// Add a chat
    Add {
        /// channel/platform-id
        chat: ChatRef,
        #[command(flatten)]
        keys: ChatKeys,
    },
    /// Change a chat; keys that are not given keep their values
    Set {
        /// mg7, or channel/platform-id
        chat: ChatRef,
        #[command(flatten)]
        keys: ChatKeys,
    },
    /// Remove a chat and its wirings
    Remove {
        /// mg7, or channel/platform-id
        chat: ChatRef,
    },
    /// Undo `deny`
    Allow {
        /// mg7, or channel/platform-id
        chat: ChatRef,
    },
    /// Ignore a chat without agents, seen or not: approvers are not asked about it
    Deny {
        /// mg7, or channel/platform-id
        chat: ChatRef,
    },
}

/// The keys of `[[chats]]`; what they accept is what hearth.toml accepts.
#[derive(Debug, Args)]
pub(super) struct ChatKeys {
    /// Its display name
    #[arg(long)]
    name: Option<String>,
    /// Whether more than one person talks there
    #[arg(long, value_name = "true|false", num_args = 0..=1, default_missing_value = "true")]
    group: Option<String>,
    /// `strict`, `request_approval` or `public`
    #[arg(long, value_name = "POLICY")]
    unknown_senders: Option<String>,
}

/// Lists, shows and changes chats.
pub(super) fn chats(paths: &Paths, command: &ChatsCommand, json: bool) -> Done {
    let known = configuration::read(paths)?;
    match command {
        ChatsCommand::List => listed::list(&known.chats, json, "no chats"),
        ChatsCommand::Show { chat } => listed::show(find(&known, chat)?, json),
        ChatsCommand::Add { chat, keys } => {
            if find(&known, chat).is_ok() {
                return Err(entity::exists("chat", &chat.to_string(), "chats"));
            }
            let ChatRef::Place(channel, platform_id) = chat else {
                return Err(Failure::Failed(format!(
                    "{chat} is an id; give the address of the new chat, like telegram/123"
                )));
            };
            let mut fields = Fields::default();
            fields.set("channel", Value::Text(channel.to_string()));
            fields.set("platform_id", Value::Text(platform_id.to_string()));
            keys.put(&mut fields);
            change::put(paths, &known, entity::toml(&[("[[chats]]", &fields)]), json)
        }
        ChatsCommand::Set { chat, keys } => {
            let mut fields = Fields::of_chat(&find(&known, chat)?.spec);
            keys.put(&mut fields);
            change::put(paths, &known, entity::toml(&[("[[chats]]", &fields)]), json)
        }
        ChatsCommand::Remove { chat } => {
            let at = address(&known, chat)?;
            change::edit(paths, Change::RemoveChat(at.channel, at.platform_id), json)
        }
        ChatsCommand::Allow { chat } => {
            let at = address(&known, chat)?;
            change::edit(paths, Change::AllowChat(at.channel, at.platform_id), json)
        }
        ChatsCommand::Deny { chat } => {
            // This includes chats in which the bot was never addressed.
            let (channel, platform_id) = match chat {
                ChatRef::Id(_) => address(&known, chat).map(|at| (at.channel, at.platform_id))?,
                ChatRef::Place(channel, platform_id) => (channel.clone(), platform_id.clone()),
            };
            change::edit(paths, Change::DenyChat(channel, platform_id), json)?;
            if let Ok(entry) = find(&known, chat) {
                note_listeners(entry);
            }
            Ok(())
        }
    }
}

/// Notes that agents in a denied chat keep listening.
fn note_listeners(chat: &ChatEntry) {
    for WiringSpec { agent, .. } in &chat.spec.wirings {
        let chat = label(chat);
        print::warning(&format!(
            "{agent} still listens in {chat}: `deny` only ends approval requests for chats without agents; `hearth wirings remove \
             {chat} {agent}` ends that"
        ));
    }
}

impl ChatKeys {
    fn put(&self, fields: &mut Fields) {
        let given = vec![
            ("name", text(self.name.as_ref())),
            ("group", typed(self.group.as_ref())),
            ("unknown_senders", text(self.unknown_senders.as_ref())),
        ];
        entity::overlay(fields, given, &[]);
    }
}

/// Finds a chat by its id or address.
pub(super) fn find<'c>(known: &'c Configuration, chat: &ChatRef) -> Result<&'c ChatEntry, Failure> {
    let same = |entry: &&ChatEntry| match chat {
        ChatRef::Id(id) => entry.id == *id,
        ChatRef::Place(channel, platform_id) => {
            entry.spec.channel == *channel && entry.spec.platform_id == *platform_id
        }
    };
    known.chats.iter().find(same).ok_or_else(|| entity::missing("chat", &chat.to_string()))
}

pub(super) fn address(known: &Configuration, chat: &ChatRef) -> Result<Address, Failure> {
    let spec = &find(known, chat)?.spec;
    Ok(Address { channel: spec.channel.clone(), platform_id: spec.platform_id.clone(), thread: None })
}

/// A chat's name in lists.
pub(super) fn label(chat: &ChatEntry) -> String {
    format!("{}/{}", chat.spec.channel, chat.spec.platform_id)
}

fn facts(chat: &ChatEntry) -> Vec<(&'static str, Option<String>)> {
    vec![
        ("id", Some(chat.id.to_string())),
        ("origin", Some(configuration::origin(chat.origin).to_owned())),
        ("created", Some(chat.created.to_string())),
        ("denied", chat.denied.map(|at| at.to_string())),
    ]
}

impl ChatEntry {
    fn agents(&self) -> Vec<&str> {
        self.spec.wirings.iter().map(|wiring| wiring.agent.as_str()).collect()
    }
}

impl Serialize for ChatEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut json = entity::json(&facts(self), &Fields::of_chat(&self.spec));
        if let Some(map) = json.as_object_mut() {
            map.insert("chat".to_owned(), label(self).into());
            map.insert("agents".to_owned(), self.agents().into());
        }
        json.serialize(serializer)
    }
}

impl Listed for ChatEntry {
    const PLURAL: &'static str = "chats";
    const COLUMNS: &'static [Column<Self>] = &[
        ("ID", |one| one.id.to_string()),
        ("CHAT", label),
        ("NAME", |one| entity::cell(&Fields::of_chat(&one.spec), "name")),
        ("STRANGERS", |one| entity::cell(&Fields::of_chat(&one.spec), "unknown_senders")),
        ("AGENTS", |one| one.agents().join(", ")),
        ("DENIED", |one| one.denied.map(|at| human_time::age(&at.to_string())).unwrap_or_default()),
        ("ORIGIN", |one| configuration::origin(one.origin).to_owned()),
    ];

    fn print(&self) -> Done {
        entity::show(&facts(self), &Fields::of_chat(&self.spec))?;
        listed::print(&[("agents", Some(self.agents().join(", ")))])
    }
}
