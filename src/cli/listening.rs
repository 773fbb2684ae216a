//! `hearth mutes` and `hearth sticky`: threads that do not wake an agent, and threads in which one goes on listening.

use clap::{Args, Subcommand};
use serde_json::Value as Json;

use super::configuration::{self, ChatEntry, Configuration};
use super::rows::{self, ChatRef};
use super::{Done, Failure, change, chats, entity};
use crate::config::Paths;
use crate::model::address::{Address, ForeignId};
use crate::model::content::RawJson;
use crate::model::group::{FieldName, StatePart};
use crate::model::id::AgentId;
use crate::model::time::Timestamp;
use crate::socket::change::{EditJson, PlaceJson, ThreadJson};
use crate::state::{self, Read, Reader, Tables};

#[derive(Debug, Subcommand)]
pub(super) enum MutesCommand {
    /// List what is muted
    List {
        /// Only for this agent
        agent: Option<String>,
    },
    /// Mute a thread, or a whole chat, for an agent
    Add(AddMute),
    /// Unmute a thread, or a whole chat, whoever muted it
    Remove(What),
}

#[derive(Debug, Subcommand)]
pub(super) enum StickyCommand {
    /// List threads in which agents keep listening
    List {
        /// Only this agent
        agent: Option<String>,
    },
    /// Let an agent stop listening in a thread, or in a whole chat
    End(Where),
}

/// An agent and a place.
#[derive(Debug, Args)]
pub(super) struct Where {
    /// The agent's folder
    agent: String,
    /// mg7, or channel/platform-id; a thread may follow after a further `/`
    #[arg(value_name = "CHAT[/THREAD]")]
    place: String,
    /// The thread, if it is not given as part of the place
    #[arg(long, allow_hyphen_values = true)]
    thread: Option<String>,
}

/// An agent, and a place or what the agent's programs call it.
#[derive(Debug, Args)]
pub(super) struct What {
    /// The agent's folder
    agent: String,
    /// mg7, or channel/platform-id; a thread may follow after a further `/`
    #[arg(value_name = "CHAT[/THREAD]", required_unless_present = "name")]
    place: Option<String>,
    /// The thread, if it is not given as part of the place
    #[arg(long, allow_hyphen_values = true)]
    thread: Option<String>,
    /// The thread by the name that the agent's programs have for it
    #[arg(long, allow_hyphen_values = true, conflicts_with_all = ["place", "thread"])]
    name: Option<String>,
}

/// What is to be muted.
#[derive(Debug, Args)]
pub(super) struct AddMute {
    #[command(flatten)]
    what: What,
    /// What is noted with the name
    #[arg(long, allow_hyphen_values = true, conflicts_with_all = ["place", "thread"])]
    note: Option<String>,
}

/// Lists and changes mutes.
pub(super) fn mutes(paths: &Paths, command: &MutesCommand, json: bool) -> Done {
    let known = configuration::read(paths)?;
    match command {
        MutesCommand::List { agent } => {
            let all = Reader::open(paths.data())?.read(|db, txn| muted(db, txn, agent.as_deref()))?;
            entity::list(
                "mutes",
                json,
                all,
                &[
                    ("AGENT", "agent"),
                    ("CHAT", "chat"),
                    ("THREAD", "thread"),
                    ("NAME", "name"),
                    ("ORIGIN", "origin"),
                    ("SINCE", "since"),
                ],
            )
        }
        MutesCommand::Add(AddMute { what, note }) => {
            let agent = what.agent.clone();
            let edit = match what.muted(&known)? {
                Muted::Name(name) => EditJson::MuteName { agent, name, note: note.clone() },
                Muted::Place(place) => EditJson::Mute { agent, place },
            };
            change::edit(paths, edit, json)
        }
        MutesCommand::Remove(what) => {
            let agent = what.agent.clone();
            let edit = match what.muted(&known)? {
                Muted::Name(name) => EditJson::UnmuteName { agent, name },
                Muted::Place(place) => EditJson::Unmute { agent, place },
            };
            change::edit(paths, edit, json)
        }
    }
}

/// Lists and ends stickiness.
pub(super) fn sticky(paths: &Paths, command: &StickyCommand, json: bool) -> Done {
    match command {
        StickyCommand::List { agent } => {
            let now = crate::clock::wall();
            let all = Reader::open(paths.data())?.read(|db, txn| sticking(db, txn, (agent.as_deref(), now)))?;
            let columns =
                [("AGENT", "agent"), ("CHAT", "chat"), ("THREAD", "thread"), ("SINCE", "since"), ("UNTIL", "until")];
            entity::list("sticky", json, all, &columns)
        }
        StickyCommand::End(at) => {
            let known = configuration::read(paths)?;
            let (agent, place) = (at.agent.clone(), place(&known, (&at.place, at.thread.as_deref()))?);
            change::edit(paths, EditJson::EndSticky { agent, place }, json)
        }
    }
}

/// What is muted, or not any more.
enum Muted {
    /// What the agent's programs call so.
    Name(String),
    /// A thread, or a chat.
    Place(ThreadJson),
}

impl What {
    fn muted(&self, known: &Configuration) -> Result<Muted, Failure> {
        if let Some(name) = &self.name {
            return Ok(Muted::Name(name.clone()));
        }
        let at = self.place.as_deref().unwrap_or_default();
        place(known, (at, self.thread.as_deref())).map(Muted::Place)
    }
}

/// What a place means: the chat whose name is all of it, else the chat with the longest name that it begins with, and the
/// thread after that. Names of chats may have `/` in them.
fn place(known: &Configuration, (at, wanted): (&str, Option<&str>)) -> Result<ThreadJson, Failure> {
    let whole: Result<ChatRef, String> = at.parse();
    let found = whole.as_ref().ok().and_then(|chat| chats::find(known, chat).ok()).map(|chat| (chat, None));
    let cuts = at.rmatch_indices('/').filter_map(|(cut, _)| {
        let (chat, thread) = (at.get(..cut)?, at.get(cut + 1..)?);
        let chat = chats::find(known, &chat.parse().ok()?).ok()?;
        (!thread.is_empty()).then_some((chat, Some(thread.to_owned())))
    });
    let Some((chat, inner)) = found.or_else(|| cuts.into_iter().next()) else {
        let what = whole.map_err(Failure::Failed)?;
        return Err(entity::missing("chat", &what.to_string()));
    };
    if let (Some(inner), Some(thread)) = (&inner, wanted) {
        let what = format!("{at} names the thread {inner}, and --thread {thread} another one; name one");
        return Err(Failure::Failed(what));
    }
    let ChatEntry { spec, .. } = chat;
    let chat = PlaceJson { channel: spec.channel.to_string(), platform_id: spec.platform_id.to_string() };
    Ok(ThreadJson { chat, thread: inner.or_else(|| wanted.map(str::to_owned)) })
}

fn muted(db: &Tables, txn: &Read<'_>, wanted: Option<&str>) -> Result<Vec<Json>, state::Error> {
    let mut all = Vec::new();
    for row in db.mutes.iter(txn)? {
        let ((agent, ..), mute) = row?;
        if let Some(mut json) = line(db, txn, (agent, wanted), &mute.address, &[("since", mute.since)])? {
            put(&mut json, &[("name", Json::Null), ("origin", "operator".into()), ("note", note(&mute.note))]);
            all.push(json);
        }
    }
    for row in db.state_mutes.iter(txn)? {
        let ((agent, key), ()) = row?;
        let field = db.state_fields.get(txn, &(agent, StatePart::Muted, key))?;
        let agent = rows::folder(db, txn, agent)?;
        let (Some(field), true) = (field, wanted.is_none_or(|wanted| wanted == agent)) else { continue };
        let mut json = serde_json::json!({ "agent": agent, "chat": null, "thread": null });
        let since = Json::String(field.changed.to_string());
        let note = field.value.as_ref().map_or(Json::Null, note);
        put(&mut json, &[("since", since), ("name", named(&field.name)), ("origin", "agent".into()), ("note", note)]);
        all.push(json);
    }
    Ok(all)
}

/// What was noted with a mute.
fn note(note: &RawJson) -> Json {
    serde_json::from_str(note.as_str()).unwrap_or_default()
}

/// The name of a thread as a program in the agent's group wrote it.
fn named(name: &FieldName) -> Json {
    serde_json::from_str(&format!("\"{}\"", name.as_str())).unwrap_or_else(|_| name.as_str().into())
}

fn put(json: &mut Json, fields: &[(&str, Json)]) {
    if let Some(map) = json.as_object_mut() {
        map.extend(fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    }
}

fn sticking(db: &Tables, txn: &Read<'_>, (wanted, now): (Option<&str>, Timestamp)) -> Result<Vec<Json>, state::Error> {
    let mut all = Vec::new();
    for row in db.sticky.iter(txn)? {
        let ((agent, ..), sticky) = row?;
        // What has lapsed is over, whether a sweep removed it or not.
        if now < sticky.until {
            let times = [("since", sticky.since), ("until", sticky.until)];
            all.extend(line(db, txn, (agent, wanted), &sticky.address, &times)?);
        }
    }
    Ok(all)
}

fn line(
    db: &Tables,
    txn: &Read<'_>,
    (agent, wanted): (AgentId, Option<&str>),
    address: &Address,
    times: &[(&str, Timestamp)],
) -> Result<Option<Json>, state::Error> {
    let agent = rows::folder(db, txn, agent)?;
    if wanted.is_some_and(|wanted| wanted != agent) {
        return Ok(None);
    }
    let chat = format!("{}/{}", address.channel, address.platform_id);
    let thread = address.thread.as_ref().map(ForeignId::as_str);
    let mut json = serde_json::json!({ "agent": agent, "chat": chat, "thread": thread });
    if let Some(map) = json.as_object_mut() {
        map.extend(times.iter().map(|(name, time)| ((*name).to_owned(), Json::String(time.to_string()))));
    }
    Ok(Some(json))
}
