//! Plans the changes that import an installation. Existing entries are never changed: differences are only reported.

use std::collections::BTreeSet;

use super::found::{Inventory, Item, Kind, Outcome};
use super::v2::CONFIG_FILE;
use crate::config::file::write::{Fields, role_word};
use crate::model::address::{ChannelName, ForeignId};
use crate::model::configure::{Change, ChatSpec, DestinationSpec, UserSpec};
use crate::model::entity::{AgentSettings, Folder};
use crate::model::task::TaskOrigin;

/// The current configuration of Hearth.
#[derive(Debug, Clone, Default)]
pub struct Known {
    pub agents: Vec<(Folder, AgentSettings)>,
    /// People with their roles and memberships.
    pub users: Vec<UserSpec>,
    /// Chats with their wirings.
    pub chats: Vec<ChatSpec>,
    /// Chats that were denied.
    pub denied: Vec<(ChannelName, ForeignId)>,
    /// Channels that are configured.
    pub channels: BTreeSet<ChannelName>,
    /// Destinations of agents.
    pub destinations: Vec<(Folder, String, DestinationSpec)>,
    /// Tasks that were imported before.
    pub tasks: Vec<TaskOrigin>,
}

/// The planned changes, and the result for every item.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ImportPlan {
    /// Changes, ordered so that references point to earlier ones.
    pub changes: Vec<Change>,
    /// One entry for each thing except conversations, messages and files, whose results are known only after the
    /// import.
    pub items: Vec<Item>,
}

/// The name that marks a task as imported.
#[must_use]
pub fn task_name(name: &str) -> String {
    format!("nanoclaw:{name}")
}

#[must_use]
pub fn plan(found: &Inventory, known: &Known) -> ImportPlan {
    let mut plan = ImportPlan::default();
    agents(found, known, &mut plan);
    users(found, known, &mut plan);
    chats(found, known, &mut plan);
    destinations(found, known, &mut plan);
    wirings(found, known, &mut plan);
    for task in &found.tasks {
        let taken = known.tasks.contains(&TaskOrigin::imported(&task_name(&task.name)));
        let rests = task.paused.then(|| "it is paused, as it was there; `hearth tasks resume` resumes it".to_owned());
        let item = match taken {
            true => Item::new(Kind::Task, &task.name, Outcome::Unchanged),
            false => Item::new(Kind::Task, &task.name, Outcome::Taken).noting(rests),
        };
        plan.items.push(item);
    }
    plan
}

impl ImportPlan {
    fn say(&mut self, kind: Kind, name: String, outcome: Outcome, note: Option<String>) {
        self.items.push(Item::new(kind, name, outcome).noting(note));
    }
}

fn agents(found: &Inventory, known: &Known, plan: &mut ImportPlan) {
    for (folder, settings) in &found.agents {
        let here = known.agents.iter().find(|(here, _)| here == folder);
        let Some((_, here)) = here else {
            plan.changes.push(Change::PutAgent(folder.clone(), settings.clone()));
            let mut note = format!(
                "it can write to its own folder and reach the whole network, as it could there; `hearth agents set {folder} \
                 --network ask` has a person asked about new hosts"
            );
            if found.config_files.contains(folder) {
                note +=
                    &format!("; its settings are those of groups/{folder}/{CONFIG_FILE}, which it could write as well");
            }
            plan.say(Kind::Agent, folder.to_string(), Outcome::Taken, Some(note));
            continue;
        };
        let note = (here != settings).then(|| {
            let keys = differing(&Fields::of_agent(folder, here), &Fields::of_agent(folder, settings));
            format!("this agent already exists with a different {}; it is not changed", keys.join(", "))
        });
        plan.say(Kind::Agent, folder.to_string(), Outcome::Unchanged, note);
    }
}

/// The keys with different values.
fn differing(here: &Fields, there: &Fields) -> Vec<String> {
    let keys: BTreeSet<&str> = here.iter().chain(there.iter()).map(|(key, _)| key).collect();
    keys.into_iter().filter(|key| here.get(key) != there.get(key)).map(str::to_owned).collect()
}

fn users(found: &Inventory, known: &Known, plan: &mut ImportPlan) {
    for user in &found.users {
        let here = known.users.iter().find(|here| here.id == user.id);
        let id = &user.id;
        match here {
            None => {
                plan.changes.push(Change::PutUser(user.clone()));
                plan.say(Kind::User, id.to_string(), Outcome::Taken, None);
            }
            Some(_) => plan.say(Kind::User, id.to_string(), Outcome::Unchanged, None),
        }
        for role in &user.roles {
            let has = here.is_some_and(|here| here.roles.contains(role));
            if here.is_some() && !has {
                plan.changes.push(Change::Grant(id.clone(), role.clone()));
            }
            let outcome = if has { Outcome::Unchanged } else { Outcome::Taken };
            plan.say(Kind::Right, format!("{id} is {}", role_word(role)), outcome, None);
        }
        for folder in &user.member_of {
            let has = here.is_some_and(|here| here.member_of.contains(folder));
            if here.is_some() && !has {
                plan.changes.push(Change::AddMember(folder.clone(), id.clone()));
            }
            let outcome = if has { Outcome::Unchanged } else { Outcome::Taken };
            plan.say(Kind::Right, format!("{id} may talk to {folder}"), outcome, None);
        }
    }
}

fn same_chat(chat: &ChatSpec, other: &ChatSpec) -> bool {
    chat.channel == other.channel && chat.platform_id == other.platform_id
}

/// What to do about a channel that is not configured.
fn missing_channel(channel: &ChannelName) -> String {
    if channel.as_str() == "telegram" {
        return "no channel `telegram` is configured; add [channels.telegram] with `token` to hearth.toml".to_owned();
    }
    let page = match channel.as_str() {
        known @ ("discord" | "matrix" | "signal" | "slack" | "whatsapp") => known,
        _ => "bridges",
    };
    format!(
        "no channel `{channel}` is configured: {channel} needs a bridge; add [channels.{channel}] with `type = \"bridge\"` and its \
         command, see docs/{page}.md"
    )
}

/// Adds chats without wirings: agents first get names for their destinations.
fn chats(found: &Inventory, known: &Known, plan: &mut ImportPlan) {
    for chat in &found.chats {
        let place = format!("{}/{}", chat.channel, chat.platform_id);
        let up = known.channels.contains(&chat.channel);
        let note = (!up).then(|| missing_channel(&chat.channel));
        match known.chats.iter().find(|here| same_chat(here, chat)) {
            None => {
                plan.changes.push(Change::PutChat(ChatSpec { wirings: Vec::new(), ..chat.clone() }));
                plan.say(Kind::Chat, place, Outcome::Taken, note);
            }
            Some(here) => {
                let differs = (here.unknown_senders != chat.unknown_senders).then(|| {
                    "this chat already exists with a different rule for unknown senders; it is not changed".to_owned()
                });
                plan.say(Kind::Chat, place, Outcome::Unchanged, differs.or(note));
            }
        }
    }
    for place in &found.denied {
        let names = (place.channel.clone(), place.platform_id.clone());
        if !known.denied.contains(&names) {
            plan.changes.push(Change::DenyChat(names.0, names.1));
        }
    }
}

fn destinations(found: &Inventory, known: &Known, plan: &mut ImportPlan) {
    for (folder, name, to) in &found.destinations {
        let here = known.destinations.iter().find(|(of, known, _)| of == folder && known == name);
        let named = format!("{folder} -> {name}");
        match here {
            None => {
                plan.changes.push(Change::AddDestination(folder.clone(), name.clone(), to.clone()));
                plan.say(Kind::Destination, named, Outcome::Taken, None);
            }
            Some((_, _, here)) if here == to => plan.say(Kind::Destination, named, Outcome::Unchanged, None),
            Some(_) => {
                let why = "the agent already has a different destination of this name";
                plan.items.push(Item::left_out(Kind::Destination, named, why));
            }
        }
    }
}

fn wirings(found: &Inventory, known: &Known, plan: &mut ImportPlan) {
    for chat in &found.chats {
        let here = known.chats.iter().find(|here| same_chat(here, chat));
        let mut missing = Vec::new();
        for wiring in &chat.wirings {
            let name = format!("{}/{} -> {}", chat.channel, chat.platform_id, wiring.agent);
            let known = here.and_then(|here| here.wirings.iter().find(|known| known.agent == wiring.agent));
            match known {
                None => {
                    missing.push(wiring.clone());
                    plan.say(Kind::Wiring, name, Outcome::Taken, None);
                }
                Some(known) => {
                    let note = (known != wiring)
                        .then(|| "it already listens there with different settings, which are kept".to_owned());
                    plan.say(Kind::Wiring, name, Outcome::Unchanged, note);
                }
            }
        }
        if !missing.is_empty() {
            let chat = here.unwrap_or(chat).clone();
            plan.changes.push(Change::PutChat(ChatSpec { wirings: missing, ..chat }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contracts::nanoclaw::{FoundTask, Version};
    use crate::model::address::{Address, UserId};
    use crate::model::configure::{RoleSpec, WiringSpec};
    use crate::model::entity::{Engage, Ignored, SenderScope, SessionMode, UnknownSenders};

    fn folder() -> Folder {
        Folder::new("a").unwrap()
    }

    fn address() -> Address {
        let platform_id = ForeignId::new("chat", "1").unwrap();
        Address { channel: ChannelName::new("net").unwrap(), platform_id, thread: None }
    }

    fn wiring(priority: i32) -> WiringSpec {
        let (engage, senders, ignored, session) =
            (Engage::Mention, SenderScope::All, Ignored::Drop, SessionMode::Shared);
        WiringSpec { agent: folder(), engage, senders, ignored, session, priority, context_from: None }
    }

    fn chat(wirings: Vec<WiringSpec>) -> ChatSpec {
        let Address { channel, platform_id, .. } = address();
        ChatSpec { channel, platform_id, name: None, group: true, unknown_senders: UnknownSenders::Strict, wirings }
    }

    fn user(roles: Vec<RoleSpec>, member_of: Vec<Folder>) -> UserSpec {
        UserSpec { id: UserId::parse("net:7").unwrap(), name: None, roles, member_of }
    }

    fn to_chat() -> DestinationSpec {
        DestinationSpec::Chat(address().channel, address().platform_id)
    }

    fn found() -> Inventory {
        let task = FoundTask {
            name: "t".to_owned(),
            agent: folder(),
            home: None,
            reply: None,
            prompt: "p".to_owned(),
            script: None,
            first: None,
            recurrence: None,
            paused: false,
        };
        let mut found = Inventory::nothing(Version::V2);
        found.agents.insert(folder(), AgentSettings::named("A".to_owned()));
        found.users.push(user(vec![RoleSpec::Admin], vec![folder()]));
        found.chats.push(chat(vec![wiring(1)]));
        found.denied.push(address());
        found.destinations.push((folder(), "home".to_owned(), to_chat()));
        found.tasks.push(task);
        found
    }

    /// An installation with everything that was found already imported; its other contents do not matter.
    fn known() -> Known {
        Known {
            agents: vec![(folder(), AgentSettings::named("A".to_owned()))],
            users: vec![user(vec![RoleSpec::Owner, RoleSpec::Admin], vec![folder()])],
            chats: vec![chat(vec![wiring(1)])],
            denied: vec![(address().channel, address().platform_id)],
            channels: BTreeSet::from([address().channel]),
            destinations: vec![(folder(), "home".to_owned(), to_chat())],
            tasks: vec![TaskOrigin::imported("nanoclaw:t")],
        }
    }

    #[test]
    fn everything_is_made_where_nothing_is() {
        let plan = plan(&found(), &Known::default());
        let Address { channel, platform_id, .. } = address();
        let expected = vec![
            Change::PutAgent(folder(), AgentSettings::named("A".to_owned())),
            Change::PutUser(user(vec![RoleSpec::Admin], vec![folder()])),
            Change::PutChat(chat(Vec::new())),
            Change::DenyChat(channel, platform_id),
            Change::AddDestination(folder(), "home".to_owned(), to_chat()),
            Change::PutChat(chat(vec![wiring(1)])),
        ];
        assert_eq!(plan.changes, expected);
        assert!(plan.items.iter().all(|item| item.outcome == Outcome::Taken), "{:#?}", plan.items);
    }

    #[test]
    fn nothing_is_made_where_everything_is() {
        let plan = plan(&found(), &known());
        assert_eq!(plan.changes, Vec::new());
        let silent = |item: &Item| item.outcome == Outcome::Unchanged && item.note.is_none();
        assert!(plan.items.iter().all(silent), "{:#?}", plan.items);
    }

    #[test]
    fn only_what_is_missing_is_made_and_what_differs_stays() {
        let other = AgentSettings { model: Some("m".to_owned()), ..AgentSettings::named("A".to_owned()) };
        let known = Known {
            agents: vec![(folder(), other)],
            users: vec![user(Vec::new(), Vec::new())],
            chats: vec![chat(vec![wiring(2)])],
            destinations: vec![(folder(), "home".to_owned(), DestinationSpec::Agent(folder()))],
            ..known()
        };
        let plan = plan(&found(), &known);
        let id = UserId::parse("net:7").unwrap();
        let rights = [Change::Grant(id.clone(), RoleSpec::Admin), Change::AddMember(folder(), id)];
        assert_eq!(plan.changes, rights);
        let note = |kind: Kind| plan.items.iter().find(|item| item.kind == kind).unwrap();
        assert!(note(Kind::Agent).note.as_ref().unwrap().contains("a different model"));
        assert!(note(Kind::Wiring).note.is_some() && note(Kind::Wiring).outcome == Outcome::Unchanged);
        assert_eq!(note(Kind::Destination).outcome, Outcome::LeftOut);
    }
}
