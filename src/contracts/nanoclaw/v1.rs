//! Version 1: `store/messages.db`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::database::{Database, Row};
use super::error::Error;
use super::found::{FoundEvent, FoundSession, FoundTask, Inventory, Kind, Tree, TreeKind, Version, Wishes};
use super::names::{self, Jid};
use super::secrets;
use super::sessions::time;
use super::settings::{Config, settings};
use super::v2::add_chat;
use crate::contracts::dir::Dir;
use crate::model::address::Address;
use crate::model::configure::{ChatSpec, WiringSpec};
use crate::model::entity::{AgentSettings, Engage, Folder, Ignored, SenderScope, SessionMode, Trust};
use crate::model::time::Timestamp;

/// Tables and columns without which the database is not NanoClaw's.
const NEEDED: [(&str, &[&str]); 1] = [("registered_groups", &["jid", "folder"])];

/// Required columns of messages.
const MESSAGES: [&str; 5] = ["id", "chat_jid", "sender", "content", "timestamp"];

/// Maximum number of queued messages in one chat.
const WAITING_MAX: usize = 1_000;

/// Default name of the assistant.
const ASSISTANT: &str = "Andy";

/// A registered chat.
struct Registered {
    jid: Jid,
    agent: Folder,
}

/// Reads the whole installation.
pub(super) fn read(root: &Dir, db: &Database, wishes: &Wishes<'_>) -> Result<Inventory, Error> {
    db.need(&NEEDED)?;
    let mut found = Inventory::nothing(Version::V1);
    let registered = groups(db, wishes, &mut found)?;
    if db.has("messages")
        && MESSAGES.iter().all(|column| db.columns("messages").is_ok_and(|there| there.contains(*column)))
    {
        people(db, &registered, &mut found)?;
        messages(db, root, &registered, &mut found)?;
    } else {
        found.leave(Kind::Other, "messages", "the table is missing or unknown; people and messages are not imported");
    }
    sessions(db, &registered, &mut found)?;
    for row in db.rows("scheduled_tasks")? {
        match task(&row, &registered, wishes, &found) {
            Ok(task) => found.tasks.push(task),
            Err(why) => found.leave(Kind::Task, row.name("id"), why),
        }
    }
    let chats = db.rows("chats")?.iter().filter(|row| !registered.contains_key(&row.name("jid"))).count();
    let chats = u64::try_from(chats).unwrap_or(u64::MAX);
    found.leave_all(Kind::Chat, "chats", chats, "not registered: no agent listens there");
    found.leave_all(
        Kind::Other,
        "task_run_logs",
        db.count("task_run_logs")?,
        "Hearth keeps its own records of task runs",
    );
    trees(&mut found);
    Ok(found)
}

/// Agents, their chats and wirings. All chats of a folder belong to one agent.
fn groups(db: &Database, wishes: &Wishes<'_>, found: &mut Inventory) -> Result<BTreeMap<String, Registered>, Error> {
    let mut registered = BTreeMap::new();
    for row in db.rows("registered_groups")? {
        let (text, name) = (row.name("jid"), row.name("folder"));
        let folder = match Folder::new(name.as_str()) {
            Ok(folder) => folder,
            Err(error) => {
                found.leave(Kind::Agent, name, error.to_string());
                continue;
            }
        };
        if !found.agents.contains_key(&folder) {
            let settings = agent(&row, &folder, found);
            found.agents.insert(folder.clone(), settings);
        }
        let jid = match names::jid(&text) {
            Ok(jid) => jid,
            Err(why) => {
                found.leave(Kind::Chat, text, why);
                continue;
            }
        };
        let wiring = WiringSpec {
            agent: folder.clone(),
            engage: engage(&row),
            senders: SenderScope::All,
            ignored: Ignored::Drop,
            session: SessionMode::Shared,
            priority: 0,
            context_from: None,
        };
        if let Engage::Pattern(pattern) = &wiring.engage
            && let Err(why) = (wishes.pattern)(pattern)
        {
            found.leave(Kind::Wiring, text, format!("its trigger cannot be converted to a pattern: {why}"));
            continue;
        }
        if found.chat(&jid.place).is_none() {
            let Address { channel, platform_id, .. } = jid.place.clone();
            let name = row.filled("name");
            let chat = ChatSpec {
                channel,
                platform_id,
                name,
                group: jid.group,
                unknown_senders: wishes.strangers,
                wirings: Vec::new(),
            };
            add_chat(chat, found);
        }
        if let Some(chat) = found.chat(&jid.place)
            && !chat.wirings.iter().any(|known| known.agent == wiring.agent)
        {
            chat.wirings.push(wiring);
        }
        registered.insert(text, Registered { jid, agent: folder });
    }
    Ok(registered)
}

fn agent(row: &Row, folder: &Folder, found: &mut Inventory) -> AgentSettings {
    let mut notes = Vec::new();
    let config = row.filled("container_config").map(|text| Config::of_json(&text, &mut notes)).unwrap_or_default();
    let name = row.filled("name").unwrap_or_else(|| folder.to_string());
    let mut settings = settings(folder, &name, &config, &mut notes);
    if row.is_set("is_main") {
        // This was the owner's own chat, whose agent saw everything.
        settings.trust = Trust::Main;
    }
    for note in notes {
        found.leave(Kind::Other, format!("of agent {folder}"), note);
    }
    settings
}

/// When an agent of version 1 responded. Its main chat never needed a trigger.
fn engage(row: &Row) -> Engage {
    let trigger = row.filled("trigger_pattern");
    let everything = || Engage::Pattern(".".to_owned());
    match trigger.as_deref().map(str::trim) {
        Some("." | ".*") => everything(),
        _ if row.number("requires_trigger") == Some(0) || row.is_set("is_main") => everything(),
        Some(text) => Engage::Pattern(names::trigger(text)),
        None => Engage::Mention,
    }
}

/// Every sender in a registered chat was admitted there. They become members of its agent.
fn people(db: &Database, registered: &BTreeMap<String, Registered>, found: &mut Inventory) -> Result<(), Error> {
    let columns = db.columns("messages")?;
    let has = |column: &str| columns.contains(column);
    let name = if has("sender_name") { "max(sender_name)" } else { "NULL" };
    let mine: Vec<&str> = ["is_from_me", "is_bot_message"].into_iter().filter(|column| has(column)).collect();
    let others = mine.iter().map(|column| format!(" AND coalesce({column}, 0) = 0")).collect::<String>();
    let sql = format!(
        "SELECT chat_jid, sender, {name} AS name FROM messages WHERE sender IS NOT NULL AND sender <> ''{others} \
         GROUP BY chat_jid, sender"
    );
    for row in db.query("messages", &sql, &[])? {
        let Some(chat) = registered.get(&row.name("chat_jid")) else { continue };
        let sender = row.name("sender");
        match names::sender(chat.jid.place.channel.as_str(), &sender) {
            Ok(id) => {
                let user = found.user(&id);
                user.name = user.name.take().or_else(|| row.filled("name").map(|name| name.trim().to_owned()));
                if !user.member_of.contains(&chat.agent) {
                    user.member_of.push(chat.agent.clone());
                }
                if super::settings::check(&crate::model::configure::Change::PutUser(user.clone())).is_err() {
                    user.name = None;
                }
            }
            Err(why) => found.leave(Kind::User, sender, why),
        }
    }
    Ok(())
}

/// The last answered and the last checked message of each chat.
struct Cursors {
    answered: BTreeMap<String, String>,
    seen: Option<String>,
}

fn cursors(db: &Database, found: &mut Inventory) -> Result<Cursors, Error> {
    let mut cursors = Cursors { answered: BTreeMap::new(), seen: None };
    for row in db.rows("router_state")? {
        match row.name("key").as_str() {
            "last_timestamp" => cursors.seen = row.filled("value"),
            "last_agent_timestamp" => match serde_json::from_str(&row.name("value")) {
                Ok(answered) => cursors.answered = answered,
                Err(_) => found.leave(Kind::Other, "router_state", "the record of answered messages is not JSON"),
            },
            _ => {}
        }
    }
    Ok(cursors)
}

/// The messages since the last answer of a chat's agent.
fn messages(
    db: &Database,
    root: &Dir,
    registered: &BTreeMap<String, Registered>,
    found: &mut Inventory,
) -> Result<(), Error> {
    let cursors = cursors(db, found)?;
    let columns = db.columns("messages")?;
    let assistant = format!("@{}", assistant(root)?).to_lowercase();
    for (text, chat) in registered {
        let Some(after) = cursors.answered.get(text).or(cursors.seen.as_ref()) else {
            found.leave(
                Kind::Message,
                text.clone(),
                "the last answered message of this chat is unknown; none of its messages are imported as waiting",
            );
            continue;
        };
        let own = ["is_from_me", "is_bot_message"].into_iter().filter(|column| columns.contains(*column));
        let others = own.map(|column| format!(" AND coalesce({column}, 0) = 0")).collect::<String>();
        let sql = format!(
            "SELECT * FROM messages WHERE chat_jid = ?1 AND timestamp > ?2 AND coalesce(content, '') <> ''{others} \
             ORDER BY timestamp, id"
        );
        let rows = db.query("messages", &sql, &[text, after])?;
        let beyond = rows.len().saturating_sub(WAITING_MAX);
        let why = format!("more than the newest {WAITING_MAX} messages wait in this chat");
        found.leave_all(Kind::Message, text, u64::try_from(beyond).unwrap_or(0), &why);
        for row in rows.iter().skip(beyond) {
            found.events.push(event(row, &chat.jid, &assistant));
        }
    }
    Ok(())
}

fn event(row: &Row, chat: &Jid, assistant: &str) -> FoundEvent {
    let place = &chat.place;
    let sender = row.filled("sender").and_then(|id| names::sender(place.channel.as_str(), &id).ok());
    let (id, text) = (row.name("id"), row.name("content"));
    let name = row.filled("sender_name");
    let content = json!({
        "text": text,
        "senderId": sender.as_ref().map(|sender| sender.handle().as_str().to_owned()),
        "senderName": name,
        "sender": name,
    });
    let json = json!({
        "channelType": place.channel.as_str(),
        "platformId": place.platform_id.as_str(),
        "message": {
            "id": id,
            "kind": "chat",
            "content": content,
            "timestamp": time(row, "timestamp").map(|at| at.to_string()),
            "isMention": !chat.group || text.trim_start().to_lowercase().starts_with(assistant),
            "isGroup": chat.group,
        },
    });
    FoundEvent { name: id, json: json.to_string() }
}

/// The assistant's name, the only setting whose value is used.
fn assistant(root: &Dir) -> Result<String, Error> {
    let text = secrets::text(root)?;
    let mut lines = text.lines().filter_map(|line| line.trim().strip_prefix("ASSISTANT_NAME="));
    let name = lines.next_back().map(|name| name.trim().trim_matches(['"', '\''])).unwrap_or_default();
    Ok(if name.is_empty() { ASSISTANT.to_owned() } else { name.to_owned() })
}

/// All chats of a folder share one conversation.
fn sessions(db: &Database, registered: &BTreeMap<String, Registered>, found: &mut Inventory) -> Result<(), Error> {
    for row in db.rows("sessions")? {
        let (folder, id) = (row.name("group_folder"), row.name("session_id"));
        let plain = !id.is_empty()
            && id.len() <= 100
            && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
        if !plain {
            found.leave(Kind::Session, folder, "what was noted is not the id of a conversation");
            continue;
        }
        let here: BTreeSet<&Address> =
            registered.values().filter(|chat| chat.agent.as_str() == folder).map(|chat| &chat.jid.place).collect();
        if here.is_empty() {
            found.leave(Kind::Session, folder, "no chat of its agent is imported");
            continue;
        }
        for place in here {
            let Ok(agent) = Folder::new(folder.as_str()) else { continue };
            let continuations = BTreeMap::from([("claude".to_owned(), id.clone())]);
            found.sessions.push(FoundSession { name: folder.clone(), agent, place: place.clone(), continuations });
        }
    }
    Ok(())
}

fn task(
    row: &Row,
    registered: &BTreeMap<String, Registered>,
    wishes: &Wishes<'_>,
    found: &Inventory,
) -> Result<FoundTask, String> {
    let paused = match row.filled("status").as_deref() {
        None | Some("active") => false,
        Some("paused") => true,
        Some("completed") => return Err("it is over".to_owned()),
        Some(other) => return Err(format!("its state `{other}` is not known")),
    };
    let folder = row.name("group_folder");
    let (agent, _) =
        found.agents.iter().find(|(known, _)| known.as_str() == folder).ok_or("its agent is not imported")?;
    let place = registered.get(&row.name("chat_jid")).map(|chat| chat.jid.place.clone());
    let home = match row.filled("context_mode").as_deref() {
        Some("group") => place.clone().filter(|place| found.listens(agent, place)),
        _ => None,
    };
    let value = row.name("schedule_value").trim().to_owned();
    let next = row.filled("next_run");
    let next = match &next {
        None => None,
        Some(text) => {
            Some(Timestamp::parse(text.trim()).ok_or_else(|| format!("its time `{text}` is not a time"))?.to_string())
        }
    };
    let (first, recurrence) = match row.name("schedule_type").as_str() {
        // A number is milliseconds, as in NanoClaw.
        "cron" | "interval" => {
            (wishes.recurrence)(&value).map_err(|why| format!("its schedule cannot be one: {why}"))?;
            (next, Some(value))
        }
        "once" | "at" => {
            let at = next.or((!value.is_empty()).then_some(value)).ok_or("it has no time")?;
            (wishes.time)(&at)?;
            (Some(at), None)
        }
        other => return Err(format!("its kind of schedule `{other}` is not known")),
    };
    Ok(FoundTask {
        name: row.name("id"),
        agent: agent.clone(),
        reply: place.filter(|_| home.is_none()),
        home,
        prompt: row.filled("prompt").ok_or("it has no prompt")?,
        script: row.filled("script"),
        first,
        recurrence,
        paused,
    })
}

fn trees(found: &mut Inventory) {
    let group = |name: &str| vec!["groups".to_owned(), name.to_owned()];
    found.trees.push(Tree::new(None, group("global"), TreeKind::Group));
    for folder in found.agents.keys() {
        found.trees.push(Tree::new(Some(folder), group(folder.as_str()), TreeKind::Group));
        let from = ["data", "sessions", folder.as_str(), ".claude", "projects"].map(str::to_owned).to_vec();
        found.trees.push(Tree::new(Some(folder), from, TreeKind::Projects));
    }
}
