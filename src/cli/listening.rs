//! `hearth mutes` and `hearth sticky`: muted threads, and threads that an agent follows.

use clap::{Args, Subcommand};
use serde_json::Value as Json;

use super::configuration::{self, ChatEntry, Configuration};
use super::lookup::{self, ChatRef};
use super::{Done, Failure, change, chats, entity};
use crate::config::Paths;
use crate::model::address::{Address, ForeignId};
use crate::model::configure::Change;
use crate::model::content::RawJson;
use crate::model::entity::Folder;
use crate::model::group::{FieldName, StatePart};
use crate::model::id::AgentId;
use crate::model::time::Timestamp;
use crate::state::{self, AgentThreadKey, Read, Reader, StateFieldKey, Tables};

#[derive(Debug, Subcommand)]
pub(super) enum MutesCommand {
    /// List mutes
    List {
        /// Only for this agent
        agent: Option<String>,
    },
    /// Mute a thread, or a whole chat, for an agent
    Add(AddMute),
    /// Unmute a thread or a whole chat, even if the agent muted it
    Remove(MuteTarget),
}

#[derive(Debug, Subcommand)]
pub(super) enum StickyCommand {
    /// List threads that agents follow
    List {
        /// Only this agent
        agent: Option<String>,
    },
    /// Stop an agent from following a thread or a whole chat
    End(ThreadArgs),
}

/// An agent and a place.
#[derive(Debug, Args)]
pub(super) struct ThreadArgs {
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
pub(super) struct MuteTarget {
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
    what: MuteTarget,
    /// Note for the mute
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
            let agent = Folder::new(what.agent.as_str())?;
            let edit = match what.muted(&known)? {
                Muted::Name(name) => Change::MuteName(agent, name, note.clone()),
                Muted::Place(place) => Change::Mute(agent, place),
            };
            change::edit(paths, edit, json)
        }
        MutesCommand::Remove(what) => {
            let agent = Folder::new(what.agent.as_str())?;
            let edit = match what.muted(&known)? {
                Muted::Name(name) => Change::UnmuteName(agent, name),
                Muted::Place(place) => Change::Unmute(agent, place),
            };
            change::edit(paths, edit, json)
        }
    }
}

/// Lists followed threads, and stops following them.
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
            let (agent, place) = (Folder::new(at.agent.as_str())?, place(&known, (&at.place, at.thread.as_deref()))?);
            change::edit(paths, Change::EndSticky(agent, place), json)
        }
    }
}

/// The target of a mute or unmute.
enum Muted {
    /// A name that the agent's programs use.
    Name(String),
    /// A thread, or a chat.
    Place(Address),
}

impl MuteTarget {
    fn muted(&self, known: &Configuration) -> Result<Muted, Failure> {
        if let Some(name) = &self.name {
            return Ok(Muted::Name(name.clone()));
        }
        let at = self.place.as_deref().unwrap_or_default();
        place(known, (at, self.thread.as_deref())).map(Muted::Place)
    }
}

/// Parses a place: the chat whose name equals it, or else the chat with the longest name that is a prefix, followed by
/// the thread. Names of chats may contain `/`.
fn place(known: &Configuration, (at, wanted): (&str, Option<&str>)) -> Result<Address, Failure> {
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
        let what = format!("{at} includes the thread {inner}, but --thread says {thread}; give only one");
        return Err(Failure::Failed(what));
    }
    let ChatEntry { spec, .. } = chat;
    let thread = ForeignId::optional("the thread", inner.or_else(|| wanted.map(str::to_owned)))?;
    Ok(Address { channel: spec.channel.clone(), platform_id: spec.platform_id.clone(), thread })
}

fn muted(db: &Tables, txn: &Read<'_>, wanted: Option<&str>) -> Result<Vec<Json>, state::Error> {
    let mut all = Vec::new();
    for row in db.mutes.iter(txn)? {
        let (key, mute) = row?;
        if let Some(mut json) = line(db, txn, (key.agent, wanted), &mute.address, &[("since", mute.since)])? {
            put(&mut json, &[("name", Json::Null), ("origin", "operator".into()), ("note", note(&mute.note))]);
            all.push(json);
        }
    }
    for row in db.state_mutes.iter(txn)? {
        let ((agent, key), ()) = row?;
        let field = db.state_fields.get(txn, &StateFieldKey { agent, part: StatePart::Muted, name: key })?;
        let agent = lookup::folder(db, txn, agent)?;
        let (Some(field), true) = (field, wanted.is_none_or(|wanted| wanted == agent)) else { continue };
        let mut json = serde_json::json!({ "agent": agent, "chat": null, "thread": null });
        let since = Json::String(field.changed.to_string());
        let note = field.value.as_ref().map_or(Json::Null, note);
        put(&mut json, &[("since", since), ("name", named(&field.name)), ("origin", "agent".into()), ("note", note)]);
        all.push(json);
    }
    Ok(all)
}

/// The note of a mute.
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
    for row in db.thread_follows.iter(txn)? {
        let (AgentThreadKey { agent, .. }, sticky) = row?;
        // An expired entry counts as removed, even before a sweep removes it.
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
    let agent = lookup::folder(db, txn, agent)?;
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
