//! `hearth mutes` and `hearth sticky`: muted threads, and threads that an agent follows.

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::Value as Json;

use super::configuration::{self, ChatEntry, Configuration};
use super::listed::{self, Column, Listed, or_empty};
use super::lookup::{self, ChatRef};
use super::{Done, Failure, change, chats, entity, human_time};
use crate::config::Paths;
use crate::model::address::{Address, ForeignId};
use crate::model::configure::Change;
use crate::model::content::RawJson;
use crate::model::entity::Folder;
use crate::model::group::{FieldName, StatePart};
use crate::model::time::Timestamp;
use crate::state::{self, AgentThreadKey, Read, Reader, StateFieldKey, StateMuteKey, Tables};

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
            agent.as_ref().map_or(Ok(()), |agent| entity::known_agent(&known, agent))?;
            let all = Reader::open(paths.data())?.read(|db, txn| muted(db, txn, agent.as_deref()))?;
            listed::list(&all, json, "no mutes")
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
            let known = configuration::read(paths)?;
            agent.as_ref().map_or(Ok(()), |agent| entity::known_agent(&known, agent))?;
            let now = crate::clock::wall();
            let all = Reader::open(paths.data())?.read(|db, txn| followed(db, txn, agent.as_deref(), now))?;
            listed::list(&all, json, "no followed threads")
        }
        StickyCommand::End(at) => {
            let known = configuration::read(paths)?;
            let (agent, place) = (Folder::new(at.agent.as_str())?, place(&known, &at.place, at.thread.as_deref())?);
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
        place(known, at, self.thread.as_deref()).map(Muted::Place)
    }
}

/// Parses a place: the chat whose name equals it, or else the chat with the longest name that is a prefix, followed by
/// the thread. Names of chats may contain `/`.
fn place(known: &Configuration, at: &str, wanted: Option<&str>) -> Result<Address, Failure> {
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

#[derive(Debug, Serialize)]
struct MuteEntry {
    agent: String,
    /// Null for a mute by name.
    chat: Option<String>,
    /// What the agent's programs call the thread.
    name: Json,
    note: Json,
    /// `operator` or `agent`.
    origin: &'static str,
    since: String,
    thread: Option<String>,
}

impl Listed for MuteEntry {
    const PLURAL: &'static str = "mutes";
    const COLUMNS: &'static [Column<Self>] = &[
        ("AGENT", |one| one.agent.clone()),
        ("CHAT", |one| or_empty(one.chat.as_ref())),
        ("THREAD", |one| or_empty(one.thread.as_ref())),
        ("NAME", |one| one.name.as_str().unwrap_or_default().to_owned()),
        ("ORIGIN", |one| one.origin.to_owned()),
        ("SINCE", |one| human_time::age(&one.since)),
    ];
}

fn muted(db: &Tables, txn: &Read<'_>, wanted: Option<&str>) -> Result<Vec<MuteEntry>, state::Error> {
    let is_wanted = |folder: &String| wanted.is_none_or(|wanted| wanted == folder);
    let mut all = Vec::new();
    for row in db.mutes.iter(txn)? {
        let (key, mute) = row?;
        let agent = lookup::folder(db, txn, key.agent)?;
        all.extend(is_wanted(&agent).then(|| MuteEntry {
            agent,
            chat: Some(chat(&mute.address)),
            name: Json::Null,
            note: note(&mute.note),
            origin: "operator",
            since: mute.since.to_string(),
            thread: mute.address.thread.map(|thread| thread.to_string()),
        }));
    }
    for row in db.state_mutes.iter(txn)? {
        let (StateMuteKey { agent, name: key }, ()) = row?;
        let field = db.state_fields.get(txn, &StateFieldKey { agent, part: StatePart::Muted, name: key })?;
        let agent = lookup::folder(db, txn, agent)?;
        let Some(field) = field.filter(|_| is_wanted(&agent)) else { continue };
        all.push(MuteEntry {
            agent,
            chat: None,
            name: named(&field.name),
            note: field.value.as_ref().map_or(Json::Null, note),
            origin: "agent",
            since: field.changed.to_string(),
            thread: None,
        });
    }
    Ok(all)
}

fn note(note: &RawJson) -> Json {
    serde_json::from_str(note.as_str()).unwrap_or_default()
}

/// The name of a thread as a program in the agent's group wrote it.
fn named(name: &FieldName) -> Json {
    serde_json::from_str(&format!("\"{}\"", name.as_str())).unwrap_or_else(|_| name.as_str().into())
}

fn chat(address: &Address) -> String {
    format!("{}/{}", address.channel, address.platform_id)
}

/// A thread that an agent follows.
#[derive(Debug, Serialize)]
struct FollowEntry {
    agent: String,
    chat: String,
    since: String,
    thread: Option<String>,
    until: String,
}

impl Listed for FollowEntry {
    const PLURAL: &'static str = "sticky";
    const COLUMNS: &'static [Column<Self>] = &[
        ("AGENT", |one| one.agent.clone()),
        ("CHAT", |one| one.chat.clone()),
        ("THREAD", |one| or_empty(one.thread.as_ref())),
        ("SINCE", |one| human_time::age(&one.since)),
        ("UNTIL", |one| human_time::age(&one.until)),
    ];
}

fn followed(
    db: &Tables,
    txn: &Read<'_>,
    wanted: Option<&str>,
    now: Timestamp,
) -> Result<Vec<FollowEntry>, state::Error> {
    let mut all = Vec::new();
    for row in db.thread_follows.iter(txn)? {
        let (AgentThreadKey { agent, .. }, follow) = row?;
        let agent = lookup::folder(db, txn, agent)?;
        // An expired entry counts as removed, even before a sweep removes it.
        if now < follow.until && wanted.is_none_or(|wanted| wanted == agent) {
            all.push(FollowEntry {
                agent,
                chat: chat(&follow.address),
                since: follow.since.to_string(),
                thread: follow.address.thread.map(|thread| thread.to_string()),
                until: follow.until.to_string(),
            });
        }
    }
    Ok(all)
}
