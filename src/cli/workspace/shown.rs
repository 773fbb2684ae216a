//! `hearth workspace status` and `hearth workspace list`. Read the store beside the daemon. Without a store, the result
//! is empty.

use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{WorkspaceError, put_path, sight, store};
use crate::cli::listed::{self, Column, Listed};
use crate::cli::{Failure, human_time, labels, lookup, print};
use crate::config::Paths;
use crate::contracts::workspace as directory;
use crate::daemon::groups_path;
use crate::engine::workspaces::{Located, Relations, relations};
use crate::model::workspace::{Fingerprint, Workspace, WorkspaceEvent, WorkspaceFact, WorkspaceKey, key_text};
use crate::model::workspace_sight::WorkspaceSight;
use crate::state::{self, Read, Tables};

struct CountedWorkspace {
    key: WorkspaceKey,
    row: Workspace,
    /// Folder of the agent that owns it.
    agent: Option<String>,
    sessions: u64,
}

/// State of a directory, read in one transaction.
struct Status {
    relations: Relations,
    own: Option<CountedWorkspace>,
    events: Vec<WorkspaceEvent>,
    /// Related workspaces, each with the kind of relation.
    related: Vec<(&'static str, CountedWorkspace)>,
    /// All workspaces of the same project, itself included.
    project: Vec<CountedWorkspace>,
}

/// Shows the state of a directory in the store.
pub(super) fn status(paths: &Paths, dir: &Path, json: bool) -> Result<(), WorkspaceError> {
    let sight = sight(paths, dir)?;
    let status = match store(paths)? {
        Some(reader) => reader.read(|db, txn| collect(db, txn, &groups_path(paths), &sight))?,
        None => Status {
            relations: Relations { located: Located::Unknown, earlier: Vec::new(), alike: Vec::new() },
            own: None,
            events: Vec::new(),
            related: Vec::new(),
            project: Vec::new(),
        },
    };
    let told = match json {
        true => print::json(&answer(paths, dir, &sight, &status)),
        false => print(paths, dir, &sight, &status),
    };
    Ok(told?)
}

fn collect(db: &Tables, txn: &Read<'_>, groups: &[u8], sight: &WorkspaceSight) -> state::Result<Status> {
    let relations = relations(db, txn, groups, sight)?;
    let look = |key: &WorkspaceKey| known(db, txn, *key, db.workspaces.require(txn, key)?);
    let mut related: Vec<(&'static str, CountedWorkspace)> = Vec::new();
    match &relations.located {
        Located::Moved { key, .. } => related.push(("moved_here", look(key)?)),
        Located::Alias { key, .. } => related.push(("same_directory", look(key)?)),
        Located::Known(_) | Located::Unknown | Located::Replaced { .. } => {}
    }
    for key in &relations.earlier {
        related.push(("earlier", look(key)?));
    }
    for (key, _) in &relations.alike {
        related.push(("same_directory", look(key)?));
    }
    let own = match &relations.located {
        Located::Known(key) => Some(look(key)?),
        _ => None,
    };
    let own_key = own.as_ref().map(|own| own.key);
    for row in db.workspaces.prefix(txn, &Fingerprint::of_path(&sight.path))? {
        let (key, row) = row?;
        related.push(("same_fingerprint", known(db, txn, key, row)?));
    }
    let mut seen: Vec<WorkspaceKey> = own_key.into_iter().collect();
    related.retain(|(_, other)| {
        let new = !seen.contains(&other.key);
        seen.push(other.key);
        new
    });
    let events = match own_key {
        Some(key) => db.workspace_events.prefix(txn, &key)?.map(|row| Ok(row?.1)).collect::<state::Result<_>>()?,
        None => Vec::new(),
    };
    let mut project = Vec::new();
    if let Some(top) = &sight.project {
        for row in db.workspaces.iter(txn)? {
            let (key, row) = row?;
            if row.project.as_ref() == Some(top) {
                project.push(known(db, txn, key, row)?);
            }
        }
    }
    Ok(Status { relations, own, events, related, project })
}

fn known(db: &Tables, txn: &Read<'_>, key: WorkspaceKey, row: Workspace) -> state::Result<CountedWorkspace> {
    let sessions = db.sessions_by_update.count_prefix(txn, &key)?;
    let agent = row.agent.map(|agent| lookup::folder(db, txn, agent)).transpose()?;
    Ok(CountedWorkspace { key, row, agent, sessions })
}

impl CountedWorkspace {
    /// Where it is now.
    fn path(&self, paths: &Paths) -> Vec<u8> {
        let whole = || paths.data().join(directory::path_of(&self.row.path)).into_os_string().into_encoded_bytes();
        if self.agent.is_some() { whole() } else { self.row.path.clone() }
    }

    fn state(&self, paths: &Paths) -> &'static str {
        if self.row.replaced.is_some() {
            return "earlier";
        }
        match (directory::witness(directory::path_of(&self.path(paths))), &self.row.witness) {
            (None, _) => "missing",
            (Some(found), Some(known)) if self.agent.is_none() && !found.is_of_same(known) => "replaced",
            (Some(_), _) => "here",
        }
    }

    fn shown(&self, paths: &Paths) -> String {
        format!(
            "{} at {}, {}",
            key_text(self.key),
            lossy(&self.path(paths)),
            labels::count(self.sessions, "session", "sessions")
        )
    }

    fn object(&self, paths: &Paths) -> Map<String, Value> {
        let mut object = Map::new();
        object.insert("workspace".to_owned(), json!(key_text(self.key)));
        put_path(&mut object, "root", &self.path(paths));
        object.insert("agent".to_owned(), json!(self.agent));
        object.insert("sessions".to_owned(), json!(self.sessions));
        object
    }
}

fn lossy(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

const fn state(located: &Located) -> &'static str {
    match located {
        Located::Known(_) => "known",
        Located::Unknown => "unknown",
        Located::Moved { .. } => "moved",
        Located::Alias { .. } => "alias",
        Located::Replaced { .. } => "replaced",
    }
}

fn answer(paths: &Paths, dir: &Path, sight: &WorkspaceSight, status: &Status) -> Map<String, Value> {
    let mut object = Map::new();
    put_path(&mut object, "directory", dir.as_os_str().as_encoded_bytes());
    put_path(&mut object, "root", &sight.path);
    object.insert("exists".to_owned(), json!(sight.witness.is_some()));
    object.insert("fingerprint".to_owned(), json!(Fingerprint::of_path(&sight.path).to_string()));
    object.insert("workspace".to_owned(), json!(status.own.as_ref().map(|own| key_text(own.key))));
    object.insert("state".to_owned(), json!(state(&status.relations.located)));
    object.insert("agent".to_owned(), json!(status.own.as_ref().and_then(|own| own.agent.as_ref())));
    object.insert("sessions".to_owned(), json!(status.own.as_ref().map_or(0, |own| own.sessions)));
    match &sight.project {
        Some(top) => put_path(&mut object, "project", top),
        None => drop(object.insert("project".to_owned(), Value::Null)),
    }
    let path_list = |list: Option<&Vec<Vec<u8>>>| -> Vec<Value> {
        let one = |path: &Vec<u8>| {
            let mut one = Map::new();
            put_path(&mut one, "path", path);
            Value::Object(one)
        };
        list.into_iter().flatten().map(one).collect()
    };
    let row = status.own.as_ref().map(|own| &own.row);
    object.insert("former_paths".to_owned(), json!(path_list(row.map(|row| &row.former_paths))));
    object.insert("aliases".to_owned(), json!(path_list(row.map(|row| &row.aliases))));
    let related = status.related.iter().map(|(relation, other)| {
        let mut one = other.object(paths);
        one.insert("relation".to_owned(), json!(relation));
        one
    });
    object.insert("related".to_owned(), json!(related.collect::<Vec<_>>()));
    let partitions: Vec<_> = status.project.iter().map(|other| other.object(paths)).collect();
    object.insert("project_workspaces".to_owned(), json!(partitions));
    object.insert("events".to_owned(), json!(status.events.iter().map(event_object).collect::<Vec<_>>()));
    object.insert("notes".to_owned(), json!(notes(paths, sight, status)));
    object
}

fn print(paths: &Paths, dir: &Path, sight: &WorkspaceSight, status: &Status) -> Result<(), Failure> {
    let key = status.own.as_ref().map_or_else(|| "none yet".to_owned(), |own| key_text(own.key));
    let line = |name: &str, text: &str| print::line(&format!("{name:<12} {text}"));
    line("workspace", &key)?;
    if dir.as_os_str().as_encoded_bytes() != sight.path {
        line("directory", &dir.display().to_string())?;
    }
    line("root", &lossy(&sight.path))?;
    line("fingerprint", &Fingerprint::of_path(&sight.path).to_string())?;
    if let Some(top) = &sight.project {
        line("project", &lossy(top))?;
        let sessions: u64 = status.project.iter().map(|other| other.sessions).sum();
        let workspaces = status.project.len();
        line(
            "",
            &format!("{} in {workspaces} workspaces of this project", labels::count(sessions, "session", "sessions")),
        )?;
    }
    if let Some(own) = &status.own {
        line("sessions", &own.sessions.to_string())?;
        if let Some(agent) = &own.agent {
            line("agent", agent)?;
        }
        for path in &own.row.former_paths {
            line("was at", &lossy(path))?;
        }
        for path in &own.row.aliases {
            line("also at", &lossy(path))?;
        }
    }
    for event in &status.events {
        line("event", &format!("{} {}", human_time::local(&event.at.to_string()), event_words(&event.what)))?;
    }
    for note in notes(paths, sight, status) {
        line("note", &note)?;
    }
    Ok(())
}

/// Notes for people, and what they can do.
fn notes(paths: &Paths, sight: &WorkspaceSight, status: &Status) -> Vec<String> {
    let mut notes = Vec::new();
    if sight.witness.is_none() {
        notes.push("the directory does not exist now".to_owned());
    }
    match &status.relations.located {
        Located::Moved { from, .. } => notes.push(format!(
            "moved? This directory was at {}: `hearth workspace adopt` continues its sessions here",
            lossy(from)
        )),
        Located::Alias { at, .. } => notes.push(format!(
            "this is the directory {} under another path: its sessions are separate until `hearth workspace adopt` \
             joins them",
            lossy(at)
        )),
        Located::Replaced { .. } => notes.push(
            "another directory was here before: its sessions are kept, but not resumed here until `hearth workspace \
             adopt` adopts them"
                .to_owned(),
        ),
        Located::Known(_) | Located::Unknown => {}
    }
    for (relation, other) in &status.related {
        let what = match *relation {
            "moved_here" => "it was",
            "earlier" => "another directory that was here:",
            "same_directory" => "the same directory under another path:",
            _ => "another directory with the same fingerprint, kept apart:",
        };
        notes.push(format!("{what} {}", other.shown(paths)));
    }
    notes
}

fn event_words(what: &WorkspaceFact) -> String {
    match what {
        WorkspaceFact::Made => "it was first seen".to_owned(),
        WorkspaceFact::Adopted { from } => format!("adopted, it was {}", lossy(from)),
        WorkspaceFact::Replaced => "another directory replaced it".to_owned(),
        WorkspaceFact::Returned => "its directory is back".to_owned(),
        WorkspaceFact::Attached => "another directory was adopted at its path".to_owned(),
        WorkspaceFact::Aliased { path } => format!("adopted under its other path, {}", lossy(path)),
        WorkspaceFact::Restored => "the data directory was copied or restored, and its folder with it".to_owned(),
        WorkspaceFact::MismatchRefused { file, root } => format!("{file} was refused: it belongs to {root}"),
        WorkspaceFact::HandedOver { session, fork, to } => {
            format!("{session} is continued in workspace {} as {fork}", key_text(*to))
        }
        WorkspaceFact::TakenOver { session, parent, from } => {
            format!("{session} continues {parent} of workspace {}", key_text(*from))
        }
        WorkspaceFact::Imported { sessions } => {
            format!("{} imported from files", labels::count(*sessions, "session", "sessions"))
        }
    }
}

fn event_object(event: &WorkspaceEvent) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("at".to_owned(), json!(event.at.to_string()));
    let word = match &event.what {
        WorkspaceFact::Made => "made",
        WorkspaceFact::Adopted { from } => {
            put_path(&mut object, "from", from);
            "adopted"
        }
        WorkspaceFact::Replaced => "replaced",
        WorkspaceFact::Returned => "returned",
        WorkspaceFact::Attached => "attached",
        WorkspaceFact::Aliased { path } => {
            put_path(&mut object, "path", path);
            "aliased"
        }
        WorkspaceFact::Restored => "restored",
        WorkspaceFact::MismatchRefused { file, root } => {
            object.insert("file".to_owned(), json!(file));
            object.insert("root".to_owned(), json!(root));
            "mismatch_refused"
        }
        WorkspaceFact::HandedOver { session, fork, to } => {
            object.insert("session".to_owned(), json!(session.to_string()));
            object.insert("fork".to_owned(), json!(fork.to_string()));
            object.insert("to".to_owned(), json!(key_text(*to)));
            "handed_over"
        }
        WorkspaceFact::TakenOver { session, parent, from } => {
            object.insert("session".to_owned(), json!(session.to_string()));
            object.insert("parent".to_owned(), json!(parent.to_string()));
            object.insert("from".to_owned(), json!(key_text(*from)));
            "taken_over"
        }
        WorkspaceFact::Imported { sessions } => {
            object.insert("sessions".to_owned(), json!(sessions));
            "imported"
        }
    };
    object.insert("event".to_owned(), json!(word));
    object.insert("words".to_owned(), json!(event_words(&event.what)));
    object
}

/// Lists the workspaces by their keys.
pub(super) fn list(paths: &Paths, json: bool) -> Result<(), WorkspaceError> {
    let all = match store(paths)? {
        Some(reader) => reader.read(|db, txn| {
            let mut all = Vec::new();
            for row in db.workspaces.iter(txn)? {
                let (key, row) = row?;
                all.push(known(db, txn, key, row)?);
            }
            Ok::<_, state::Error>(all)
        })?,
        None => Vec::new(),
    };
    let all: Vec<ListedWorkspace> = all.iter().map(|known| ListedWorkspace::new(known, paths)).collect();
    Ok(listed::list(&all, json, "no workspaces")?)
}

/// A workspace in a list. A path that is not text has a second key in JSON, so this is a map.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct ListedWorkspace(Map<String, Value>);

impl ListedWorkspace {
    fn new(known: &CountedWorkspace, paths: &Paths) -> Self {
        let mut object = known.object(paths);
        object.insert("state".to_owned(), json!(known.state(paths)));
        object.insert("created".to_owned(), json!(known.row.created.to_string()));
        match &known.row.project {
            Some(top) => put_path(&mut object, "project", top),
            None => drop(object.insert("project".to_owned(), Value::Null)),
        }
        Self(object)
    }

    fn cell(&self, key: &str) -> String {
        match self.0.get(key) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        }
    }
}

impl Listed for ListedWorkspace {
    const PLURAL: &'static str = "workspaces";
    const COLUMNS: &'static [Column<Self>] = &[
        ("WORKSPACE", |one| one.cell("workspace")),
        ("SESSIONS", |one| one.cell("sessions")),
        ("STATE", |one| one.cell("state")),
        ("AGENT", |one| one.cell("agent")),
        ("ROOT", |one| one.cell("root")),
    ];
}
