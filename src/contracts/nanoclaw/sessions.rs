//! Reads sessions of version 2: continuations of providers, queued messages and scheduled tasks.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::database::{Database, Row};
use super::error::Error;
use super::found::{FoundEvent, FoundSession, FoundTask, Inventory, Kind, Wishes};
use super::v2::Ids;
use super::{below, names};
use crate::contracts::dir::{Dir, Kind as Thing};
use crate::model::address::Address;
use crate::model::entity::Folder;
use crate::model::time::Timestamp;

const INBOUND: [(&str, &[&str]); 1] = [("messages_in", &["id", "kind", "status", "content"])];

/// Maximum length of a session's directory name.
const NAME_MAX: usize = 200;

/// One session and its files.
struct Session<'a> {
    id: String,
    agent: &'a Folder,
    agent_id: String,
    /// Its chat or thread.
    place: Option<Address>,
    dir: Option<Dir>,
}

impl Session<'_> {
    /// Opens one of its databases; `None` if the file does not exist.
    fn open(&self, name: &str) -> Result<Option<Database>, Error> {
        let Some(dir) = &self.dir else { return Ok(None) };
        match dir.kind(name.as_ref())? {
            Thing::Nothing => Ok(None),
            _ => Database::open(dir, name).map(Some),
        }
    }
}

/// Reads all sessions.
pub(super) fn read(
    db: &Database,
    root: &Dir,
    ids: &Ids,
    wishes: &Wishes<'_>,
    found: &mut Inventory,
) -> Result<(), Error> {
    for row in db.rows("sessions")? {
        let (id, agent_id) = (row.name("id"), row.name("agent_group_id"));
        let Some(agent) = ids.agents.get(&agent_id) else {
            found.leave(Kind::Session, id, "its agent is not imported");
            continue;
        };
        if !is_plain(&id) || !is_plain(&agent_id) {
            found.leave(Kind::Session, id, "its id names no directory");
            continue;
        }
        if row.text("status").is_some_and(|status| status != "active") {
            found.leave(Kind::Session, id, "it is closed");
            continue;
        }
        let chat = row.filled("messaging_group_id");
        let mut place = chat.as_ref().and_then(|chat| ids.chats.get(chat)).cloned();
        if let (Some(place), Some(thread)) = (&mut place, row.filled("thread_id")) {
            let (channel, chat) = (place.channel.as_str(), place.platform_id.as_str());
            if let Ok(threaded) = names::place(channel, chat, Some(&thread)) {
                *place = threaded;
            }
        }
        let dir = below(root, &["data", "v2-sessions", &agent_id, &id])?;
        let session = Session { id, agent, agent_id, place, dir };
        match one(&session, ids, wishes, found) {
            // The agent could write there. Manipulated files cost it only its own session.
            Err(Error::Refused { path, why }) => {
                found.leave(Kind::Session, session.id, format!("{}: {why}", path.display()));
            }
            done => done?,
        }
    }
    Ok(())
}

/// Whether a name is a single path component.
fn is_plain(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b':');
    !name.is_empty() && name.len() <= NAME_MAX && name.bytes().all(plain) && name != "." && name != ".."
}

fn one(session: &Session<'_>, ids: &Ids, wishes: &Wishes<'_>, found: &mut Inventory) -> Result<(), Error> {
    let (inbound, outbound) = (session.open("inbound.db")?, session.open("outbound.db")?);
    let mut over = BTreeSet::new();
    if let Some(outbound) = &outbound {
        for row in outbound.rows("processing_ack")? {
            if matches!(row.name("status").as_str(), "completed" | "failed") {
                over.insert(row.name("message_id"));
            }
        }
        continuations(outbound, session, found)?;
        undelivered(outbound, inbound.as_ref(), session, found)?;
    } else {
        found.leave(Kind::Session, session.id.clone(), "it has no outbound.db, so there is nothing to continue");
    }
    let Some(inbound) = inbound else { return Ok(()) };
    inbound.need(&INBOUND)?;
    let mut rows = inbound.rows("messages_in")?;
    rows.sort_by_key(|row| row.number("seq").unwrap_or(0));
    let mut done = 0;
    let mut tasks = Vec::new();
    for row in rows {
        let status = row.name("status");
        if over.contains(&row.name("id")) || !matches!(status.as_str(), "pending" | "paused" | "processing") {
            done += 1;
        } else if row.name("kind") == "task" {
            tasks.push(row);
        } else {
            message(&row, session, ids, found);
        }
    }
    found.leave_all(Kind::Message, &session.id, done, "NanoClaw is done with them");
    series(&tasks, session, wishes, found);
    Ok(())
}

/// The continuations of a session's providers.
fn continuations(outbound: &Database, session: &Session<'_>, found: &mut Inventory) -> Result<(), Error> {
    let mut continuations = BTreeMap::new();
    let mut other = Vec::new();
    for row in outbound.rows("session_state")? {
        let (key, value) = (row.name("key"), row.name("value"));
        let provider = key.strip_prefix("continuation:").or((key == "sdk_session_id").then_some("claude"));
        match provider {
            Some("claude") if is_plain(&value) => drop(continuations.entry("claude".to_owned()).or_insert(value)),
            Some(provider) => other.push(provider.to_owned()),
            None => {}
        }
    }
    for provider in other {
        let why = format!("the memory of provider `{provider}` cannot be used here");
        found.leave(Kind::Session, session.id.clone(), why);
    }
    match &session.place {
        _ if continuations.is_empty() => {
            found.leave(Kind::Session, session.id.clone(), "its provider has no memory of it; it starts over");
        }
        None => found.leave(Kind::Session, session.id.clone(), "it belongs to no chat that is imported"),
        Some(place) if !found.listens(session.agent, place) => {
            found.leave(Kind::Session, session.id.clone(), "its agent does not listen in its chat any more");
        }
        Some(place) => found.sessions.push(FoundSession {
            name: session.id.clone(),
            agent: session.agent.clone(),
            place: place.clone(),
            continuations,
        }),
    }
    Ok(())
}

fn undelivered(
    outbound: &Database,
    inbound: Option<&Database>,
    session: &Session<'_>,
    found: &mut Inventory,
) -> Result<(), Error> {
    let delivered: BTreeSet<String> = match inbound {
        Some(inbound) => inbound.rows("delivered")?.iter().map(|row| row.name("message_out_id")).collect(),
        None => BTreeSet::new(),
    };
    let waiting = outbound.rows("messages_out")?.iter().filter(|row| !delivered.contains(&row.name("id"))).count();
    let why = "answers that NanoClaw had not sent; start NanoClaw once more to send them";
    found.leave_all(Kind::Message, &session.id, u64::try_from(waiting).unwrap_or(u64::MAX), why);
    Ok(())
}

/// Converts a queued message back to its event, under the platform's own id, so that duplicates count once.
fn message(row: &Row, session: &Session<'_>, ids: &Ids, found: &mut Inventory) {
    let id = row.name("id");
    let leave = |found: &mut Inventory, why: &str| found.leave(Kind::Message, id.clone(), why);
    let kind = row.name("kind");
    if !matches!(kind.as_str(), "chat" | "chat-sdk") {
        return leave(found, &format!("its kind `{kind}` is not a message of a person"));
    }
    if row.filled("source_session_id").is_some() || row.text("channel_type").as_deref() == Some(names::AGENT) {
        return leave(found, "another agent sent it");
    }
    let place = match (row.filled("channel_type"), row.filled("platform_id")) {
        (Some(channel), Some(platform)) => names::place(&channel, &platform, row.filled("thread_id").as_deref()),
        _ => session.place.clone().ok_or_else(|| "its chat is not imported".to_owned()),
    };
    let place = match place {
        Ok(place) => place,
        Err(why) => return leave(found, &why),
    };
    let Some(chat) = found.chat(&place) else { return leave(found, "its chat is not imported") };
    let group = chat.group;
    // Every agent that receives an event has its own row, whose id ends with the agent's id.
    let known = ids.agents.keys().find_map(|agent| id.strip_suffix(&format!(":{agent}")));
    let platform_id = known.unwrap_or(&id).to_owned();
    let content = row.name("content");
    let files = serde_json::from_str::<Value>(&content)
        .ok()
        .and_then(|content| content.get("attachments").and_then(Value::as_array).map(Vec::len));
    if let Some(files) = files.filter(|files| *files > 0) {
        let place = session.dir.as_ref().map(|dir| dir.path().join("inbox").join(&id)).unwrap_or_default();
        found.leave_all(
            Kind::File,
            &id,
            u64::try_from(files).unwrap_or(0),
            &format!("files of a message; they are at {}", place.display()),
        );
    }
    let event = json!({
        "channelType": place.channel.as_str(),
        "platformId": place.platform_id.as_str(),
        "threadId": place.thread.as_ref().map(|thread| thread.as_str().to_owned()),
        "message": {
            "id": platform_id,
            "kind": kind,
            // Passed as a string: if it is not an object, it is the message's text.
            "content": content,
            "timestamp": time(row, "timestamp").map(|at| at.to_string()),
            // If it was to wake the agent, it was addressed to it.
            "isMention": row.number("trigger").unwrap_or(1) != 0,
            "isGroup": group,
        },
    });
    let json = event.to_string();
    if !found.events.iter().any(|known| known.name == platform_id && known.json == json) {
        found.events.push(FoundEvent { name: platform_id, json });
    }
}

/// A time, in either of NanoClaw's formats.
pub(super) fn time(row: &Row, column: &str) -> Option<Timestamp> {
    row.filled(column).and_then(|text| Timestamp::parse(text.trim()))
}

/// Imports a message that waited for a decision about its sender or chat. Hearth asks for the decision again.
pub(super) fn held(row: &Row, table: &str, found: &mut Inventory) {
    let name = row.filled("id").unwrap_or_else(|| row.name("messaging_group_id"));
    let Ok(Value::Object(mut event)) = serde_json::from_str(&row.name("original_message")) else {
        return found.leave(Kind::Message, name, format!("its row in {table} is not an event"));
    };
    let text = |event: &serde_json::Map<String, Value>, key: &str| {
        event.get(key).and_then(Value::as_str).map(str::to_owned).unwrap_or_default()
    };
    let thread = text(&event, "threadId");
    let thread = Some(thread.as_str()).filter(|thread| !thread.is_empty());
    match names::place(&text(&event, "channelType"), &text(&event, "platformId"), thread) {
        Err(why) => found.leave(Kind::Message, name, why),
        Ok(place) if found.chat(&place).is_none() => found.leave(Kind::Message, name, "its chat is not imported"),
        Ok(place) => {
            event.insert("platformId".to_owned(), json!(place.platform_id.as_str()));
            event.insert("threadId".to_owned(), json!(place.thread.as_ref().map(|thread| thread.as_str().to_owned())));
            event.remove("replyTo");
            let id = event.get("message").and_then(|message| message.get("id")).and_then(Value::as_str);
            let name = id.map_or(name, str::to_owned);
            found.events.push(FoundEvent { name, json: Value::Object(event).to_string() });
        }
    }
}

/// The tasks of a session. A series has one next occurrence; if there are several, the newest one counts.
fn series(rows: &[Row], session: &Session<'_>, wishes: &Wishes<'_>, found: &mut Inventory) {
    let mut newest: BTreeMap<String, &Row> = BTreeMap::new();
    for row in rows {
        let series = row.filled("series_id").unwrap_or_else(|| row.name("id"));
        if newest.insert(series.clone(), row).is_some() {
            found.leave(Kind::Task, series, "another occurrence of the same series is also waiting");
        }
    }
    for (series, row) in newest {
        match task(&series, row, session, wishes, found) {
            Ok(task) => found.tasks.push(task),
            Err(why) => found.leave(Kind::Task, series, why),
        }
    }
}

fn task(
    series: &str,
    row: &Row,
    session: &Session<'_>,
    wishes: &Wishes<'_>,
    found: &Inventory,
) -> Result<FoundTask, String> {
    let content =
        serde_json::from_str::<Value>(&row.name("content")).map_err(|_| "its content is not JSON".to_owned())?;
    let text = |key: &str| content.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    let prompt = text("prompt").ok_or("it has no prompt")?.to_owned();
    let recurrence = row.filled("recurrence").map(|text| text.trim().to_owned());
    if let Some(recurrence) = &recurrence {
        (wishes.recurrence)(recurrence).map_err(|why| format!("its recurrence is invalid: {why}"))?;
    }
    let said = match (row.filled("channel_type"), row.filled("platform_id")) {
        (Some(channel), Some(platform)) => names::place(&channel, &platform, row.filled("thread_id").as_deref()).ok(),
        _ => None,
    };
    let home = session.place.clone().filter(|place| found.listens(session.agent, place));
    let known = |place: &Address| {
        found.chats.iter().any(|chat| chat.channel == place.channel && chat.platform_id == place.platform_id)
    };
    let reply = said.or_else(|| session.place.clone()).filter(|place| known(place) && home.as_ref() != Some(place));
    let at = match row.filled("process_after") {
        None => None,
        Some(text) => Some(Timestamp::parse(text.trim()).ok_or_else(|| format!("its time `{text}` is not a time"))?),
    };
    // A task without a time has been due since its creation, unless it recurs.
    let at = at.or_else(|| time(row, "timestamp").filter(|_| recurrence.is_none()));
    if at.is_none() && recurrence.is_none() {
        return Err("it has no time".to_owned());
    }
    Ok(FoundTask {
        name: format!("{}/{series}", session.agent_id),
        agent: session.agent.clone(),
        home,
        reply,
        prompt,
        script: text("script").map(str::to_owned),
        first: at.map(|at| at.to_string()),
        recurrence,
        paused: row.name("status") == "paused",
    })
}
