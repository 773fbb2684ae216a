//! Steps of an import: configuration, conversations, files, tasks. Waiting messages come last because they start
//! agents.

use std::collections::BTreeMap;
use std::path::Path;

use super::super::super::offline::{host, host_by};
use super::super::super::{Failure, change, inject, labels, tasks};
use super::{here, stopped};
use crate::channel::event;
use crate::config::Paths;
use crate::config::file::write::{self, role_word};
use crate::contracts::nanoclaw::plan::{Known, plan, task_name};
use crate::contracts::nanoclaw::{
    FoundEvent, FoundSession, FoundTask, Inventory, Item, Kind, Outcome, Tree, copy, offer, shown, survey,
};
use crate::daemon::opening::Opening;
use crate::mailbox::Mailboxes;
use crate::model::address::Address;
use crate::model::configure::Change;
use crate::model::entity::Folder;
use crate::model::id::SessionId;
use crate::model::report::Action;
use crate::model::task::{Missed, Overlap, TaskHome, TaskOrigin};
use crate::model::task_command::{NewTask, TaskCommand};
use crate::socket::change::ChangeRequest;

/// Maximum number of changes per transaction.
const BATCH: usize = 200;

/// Name of the changes' source in messages.
const SOURCE: &str = "NanoClaw";

/// Reports what would be imported.
pub(super) fn rehearse(paths: &Paths, root: &Path, found: &Inventory) -> Result<Vec<Item>, Failure> {
    let (known, _) = here::read(paths)?;
    let mut items = plan(found, &known).items;
    for session in &found.sessions {
        let outcome = if is_here(&known, &session.agent, &session.place) {
            let (id, made) = open(paths, &session.agent, &session.place, true)?;
            let noted = if made { None } else { Mailboxes::noted(&paths.sessions(), id)? };
            conversation(session, noted.as_ref())
        } else {
            Item::new(Kind::Session, &session.name, Outcome::Taken)
        };
        items.push(outcome);
    }
    for tree in &found.trees {
        items.extend(survey(root, paths, tree)?.items(&tree.path().display().to_string()));
    }
    for one in &found.events {
        items.push(match event::parse(one.json.as_bytes()) {
            Err(error) => Item::left_out(Kind::Message, &one.name, error.to_string()),
            Ok(event) if here::has_seen(paths, &event)? => Item::new(Kind::Message, &one.name, Outcome::Unchanged),
            Ok(_) => Item::new(Kind::Message, &one.name, Outcome::Taken),
        });
    }
    Ok(items)
}

pub(super) fn take(paths: &Paths, root: &Path, found: &Inventory) -> Result<Vec<Item>, Failure> {
    // An import may fill a new installation, so it may create the store. All later steps need an existing one.
    drop(host_by(paths, Opening::OrNew)?);
    let (known, _) = here::read(paths)?;
    let mut items = plan(found, &known).items;
    let refused = configure(paths, found).map_err(|failure| stopped("agents and chats", failure))?;
    let (now, _) = here::read(paths)?;
    for (what, why) in refused {
        settle(&mut items, &what, &why);
    }
    for session in &found.sessions {
        items.push(seed(paths, &now, session).map_err(|failure| stopped("conversations", failure))?);
    }
    for tree in found.trees.iter().filter(|tree| tree.agent.as_ref().is_none_or(|agent| has_agent(&now, agent))) {
        items.extend(files(paths, root, tree).map_err(|failure| stopped("files", failure))?);
    }
    for session in &found.sessions {
        for id in session.continuations.values() {
            offer(paths, &session.agent, id)?;
        }
    }
    for task in &found.tasks {
        if let Err(why) = one_task(paths, &known, &now, task) {
            settle(&mut items, &NotImported::One(Kind::Task, task.name.clone()), &why);
        }
    }
    let mut host = host(paths)?;
    for event in &found.events {
        items.push(message(&mut host, event).map_err(|failure| stopped("messages", failure))?);
    }
    Ok(items)
}

/// What could not be imported.
enum NotImported {
    One(Kind, String),
    /// All items whose name begins with this prefix.
    All(Kind, String),
}

/// Corrects the outcome of items that could not be imported.
fn settle(items: &mut [Item], what: &NotImported, why: &str) {
    let is_it = |item: &Item| match what {
        NotImported::All(kind, beginning) => item.kind == *kind && item.name.starts_with(beginning.as_str()),
        NotImported::One(kind, name) => item.kind == *kind && item.name == *name,
    };
    for item in items.iter_mut().filter(|item| item.outcome == Outcome::Taken && is_it(item)) {
        (item.outcome, item.note) = (Outcome::LeftOut, Some(why.to_owned()));
    }
}

fn has_agent(known: &Known, agent: &Folder) -> bool {
    known.agents.iter().any(|(here, _)| here == agent)
}

/// Whether an agent listens in a chat here.
fn is_here(known: &Known, agent: &Folder, place: &Address) -> bool {
    let chat = known.chats.iter().find(|chat| chat.channel == place.channel && chat.platform_id == place.platform_id);
    chat.is_some_and(|chat| chat.wirings.iter().any(|wiring| wiring.agent == *agent))
}

/// Creates the entities in batches. Each batch is computed from the current configuration. Returns rejected entities
/// with their reasons.
fn configure(paths: &Paths, found: &Inventory) -> Result<Vec<(NotImported, String)>, Failure> {
    let mut refused: Vec<(Change, String)> = Vec::new();
    let mut collisions = 0;
    loop {
        let (known, expected) = here::read(paths)?;
        let mut left = plan(found, &known).changes;
        left.retain(|change| !refused.iter().any(|(known, _)| known == change));
        let batch = batch(&left);
        if batch.is_empty() {
            return Ok(refused.iter().map(|(change, why)| (gone(change), why.clone())).collect());
        }
        match change::submit(paths, &request(batch, expected), SOURCE) {
            Ok(_) => {}
            Err(Failure::Changed(_)) if collisions < change::LOOKS => collisions += 1,
            Err(Failure::Failed(why)) => {
                // One rejected change must not block the others.
                if let [one] = batch {
                    refused.push((one.clone(), why));
                    continue;
                }
                for one in batch {
                    match change::submit(paths, &request(std::slice::from_ref(one), None), SOURCE) {
                        Err(Failure::Failed(why)) => refused.push((one.clone(), why)),
                        done => done.map(drop)?,
                    }
                }
            }
            Err(other) => return Err(other),
        }
    }
}

/// The first changes that fit into one transaction in their order: those that a file can express come before edits.
fn batch(changes: &[Change]) -> &[Change] {
    let puts = changes.iter().take_while(|change| is_put(change)).count();
    let edits = changes.iter().skip(puts).take_while(|change| !is_put(change)).count();
    changes.get(..(puts + edits).min(BATCH)).unwrap_or_default()
}

fn request(changes: &[Change], expected: Option<u64>) -> ChangeRequest {
    let (puts, edits): (Vec<Change>, Vec<Change>) = changes.iter().cloned().partition(is_put);
    let toml = if puts.is_empty() { String::new() } else { write::write(&puts) };
    ChangeRequest { toml, edits, expected, ..ChangeRequest::default() }
}

/// Whether a file can express the change.
const fn is_put(change: &Change) -> bool {
    matches!(change, Change::PutAgent(..) | Change::PutUser(_) | Change::PutChat(_))
}

/// The items that a rejected change concerns.
fn gone(change: &Change) -> NotImported {
    match change {
        Change::PutAgent(folder, _) => NotImported::One(Kind::Agent, folder.to_string()),
        Change::PutUser(user) => NotImported::One(Kind::User, user.id.to_string()),
        Change::PutChat(chat) if chat.wirings.is_empty() => {
            NotImported::One(Kind::Chat, format!("{}/{}", chat.channel, chat.platform_id))
        }
        Change::PutChat(chat) => NotImported::All(Kind::Wiring, format!("{}/{} -> ", chat.channel, chat.platform_id)),
        Change::AddDestination(folder, name, _) => NotImported::One(Kind::Destination, format!("{folder} -> {name}")),
        Change::Grant(user, role) => NotImported::One(Kind::Right, format!("{user} is {}", role_word(role))),
        Change::AddMember(folder, user) => NotImported::One(Kind::Right, format!("{user} may talk to {folder}")),
        _ => NotImported::One(Kind::Other, String::new()),
    }
}

/// The session of an agent in a chat, and whether it was created just now, or would be.
fn open(paths: &Paths, agent: &Folder, place: &Address, dry_run: bool) -> Result<(SessionId, bool), Failure> {
    let edit = Change::OpenSession(agent.clone(), place.clone());
    let request = ChangeRequest { edits: vec![edit], dry_run, ..ChangeRequest::default() };
    let done = change::submit(paths, &request, SOURCE)?;
    let told = done.changes.first().map(|change| (change.entity.as_str(), change.action == Action::Created));
    let id = told.and_then(|(entity, made)| Some((entity.split_whitespace().nth(1)?.parse().ok()?, made)));
    id.ok_or_else(|| Failure::Failed("an unexpected answer".to_owned()))
}

/// Sets up a session to continue its provider's conversation.
fn seed(paths: &Paths, now: &Known, session: &FoundSession) -> Result<Item, Failure> {
    if !is_here(now, &session.agent, &session.place) {
        let why = format!("{} does not listen in {}", session.agent, shown(&session.place));
        return Ok(Item::left_out(Kind::Session, &session.name, why));
    }
    let (id, _) = open(paths, &session.agent, &session.place, false)?;
    if Mailboxes::seed(&paths.sessions(), id, session.continuations.clone())? {
        return Ok(Item::new(Kind::Session, &session.name, Outcome::Taken));
    }
    Ok(conversation(session, Mailboxes::noted(&paths.sessions(), id)?.as_ref()))
}

fn conversation(session: &FoundSession, noted: Option<&BTreeMap<String, String>>) -> Item {
    match noted {
        None => Item::new(Kind::Session, &session.name, Outcome::Taken),
        Some(noted) => {
            let other = (*noted != session.continuations)
                .then(|| "the session already has a conversation, which is kept".to_owned());
            Item::new(Kind::Session, &session.name, Outcome::Unchanged).noting(other)
        }
    }
}

fn files(paths: &Paths, root: &Path, tree: &Tree) -> Result<Vec<Item>, Failure> {
    Ok(copy(root, paths, tree)?.items(&tree.path().display().to_string()))
}

fn one_task(paths: &Paths, before: &Known, now: &Known, task: &FoundTask) -> Result<(), String> {
    let name = task_name(&task.name);
    if before.tasks.contains(&TaskOrigin::imported(&name)) {
        return Ok(());
    }
    let told = |failure: Failure| match failure {
        Failure::Failed(why) | Failure::Changed(why) | Failure::Store(_, why) => why,
        Failure::Told | Failure::Exit(_) => "it was refused".to_owned(),
    };
    if !has_agent(now, &task.agent) {
        return Err("its agent was not imported".to_owned());
    }
    let agent = here::agent_id(paths, &task.agent).map_err(|error| error.to_string())?;
    let agent = agent.ok_or("its agent was not imported")?;
    let home = task.home.as_ref().filter(|place| is_here(now, &task.agent, place));
    let session = home.map(|place| open(paths, &task.agent, place, false)).transpose().map_err(told)?;
    let chat = |place: &Address| Address { thread: None, ..place.clone() };
    let new = NewTask {
        agent,
        home: session.map_or(TaskHome::Maintenance, |(id, _)| TaskHome::Session(id)),
        prompt: task.prompt.clone(),
        script: task.script.clone(),
        reply: task.reply.as_ref().or(task.home.as_ref().filter(|_| session.is_none())).map(chat),
        first: task.first.clone(),
        recurrence: task.recurrence.clone(),
        missed: Missed::default(),
        overlap: Overlap::default(),
        origin: TaskOrigin::imported(&name),
        allow: Vec::new(),
    };
    let command = if task.paused { TaskCommand::AddPaused } else { TaskCommand::Add };
    tasks::submit(paths, command(Box::new(new))).map(drop).map_err(told)
}

fn message(host: &mut super::super::super::offline::Host, event: &FoundEvent) -> Result<Item, Failure> {
    let routed = inject::one(host, event.json.as_bytes(), false)?;
    let item = |outcome| Item::new(Kind::Message, &event.name, outcome);
    Ok(match (routed.error, routed.outcome.as_str()) {
        (Some(error), _) => Item::left_out(Kind::Message, &event.name, error),
        (None, "duplicate") => item(Outcome::Unchanged),
        (None, "routed" | "consumed") => item(Outcome::Taken),
        (None, "held") => {
            item(Outcome::Taken).noting(Some("waiting for a decision; see `hearth approvals`".to_owned()))
        }
        (None, _) => {
            let why = routed.reason.map_or_else(|| "no agent engages with it".to_owned(), |code| labels::reason(&code));
            Item::left_out(Kind::Message, &event.name, why)
        }
    })
}
