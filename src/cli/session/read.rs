//! Read-only session commands. They change and create nothing.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::files::{self, SessionFiles};
use super::find::{ResolvedSession, SessionLookup};
use super::place::CommandDir;
use super::shape::{self, DirectoryState, RecordJson, SessionJson};
use super::{OptionalSessionArg, lifecycle};
use crate::cli::workspace::error::WorkspaceError;
use crate::cli::workspace::put_path;
use crate::cli::{human_time, print};
use crate::contracts::git;
use crate::contracts::workspace::path_of;
use crate::engine::workspaces::view::{self, Cut};
use crate::model::session::Session;
use crate::model::session_ref::Reference;
use crate::model::time::Timestamp;
use crate::state::{Reader, Timed};

type SessionResult = Result<(), WorkspaceError>;

/// Number of records read at once.
const PIECE: usize = 1_000;
/// Number of newest records that are searched for the history. A session may have any number of records.
const HISTORY_LOOK: usize = 5_000;

/// The current state of a place's directory.
pub(super) fn surroundings(place: &CommandDir) -> DirectoryState {
    let dir = path_of(&place.sight.path);
    DirectoryState { present: place.sight.witness.is_some(), changes: git::changes(dir) }
}

/// The workspace in JSON output.
pub(super) fn workspace_json(place: &CommandDir, name: String) -> Value {
    let mut shape = Map::new();
    shape.insert("fingerprint".to_owned(), json!(name));
    put_path(&mut shape, "root", &place.sight.path);
    Value::Object(shape)
}

/// Lists the sessions of the directory.
pub(super) fn list(place: &CommandDir, limit: usize, trash: bool, json: bool) -> SessionResult {
    let around = surroundings(place);
    let beside = if trash { SessionFiles::default() } else { SessionFiles::look(place)? };
    let mut listed = match place.reader()? {
        None => Listed::default(),
        Some(reader) => stored(place, &reader, limit, trash, &around)?,
    };
    listed.shown.extend(beside.files.iter().map(|file| files::shape(file, &around)));
    listed.shown.sort_by_key(|one| std::cmp::Reverse(one.updated_at_ms));
    listed.shown.truncate(limit);
    listed.refused = beside.refused();
    tell_list(place, &listed, beside.note(), json)
}

/// The sessions of the store.
fn stored(
    place: &CommandDir,
    reader: &Reader,
    limit: usize,
    trash: bool,
    around: &DirectoryState,
) -> Result<Listed, WorkspaceError> {
    reader.read(|db, txn| {
        let look = SessionLookup::new(place, db, txn)?;
        let current = look.row()?.and_then(|row| row.current);
        let mut shown = Vec::new();
        for found in if trash { trashed(&look, limit)? } else { newest(&look, limit)? } {
            shown.push(shape::session(&look, found.id, &found.session, around, current == Some(found.id))?);
        }
        let name = Some(place.name(look.workspace()));
        Ok(Listed { name, others: look.others()?, note: look.note(), shown, refused: BTreeMap::new() })
    })
}

/// Content of a list.
#[derive(Default)]
struct Listed {
    /// Name of the workspace, if there is a store.
    name: Option<String>,
    /// Other workspaces with sessions.
    others: u64,
    /// A note for people about the directory.
    note: Option<String>,
    shown: Vec<SessionJson>,
    /// Number of hidden files by reason.
    refused: BTreeMap<&'static str, usize>,
}

/// The newest sessions of the workspace.
fn newest(look: &SessionLookup<'_>, limit: usize) -> Result<Vec<ResolvedSession>, WorkspaceError> {
    let Some(workspace) = look.workspace() else { return Ok(Vec::new()) };
    let newest = view::newest(look.db, look.txn, workspace, limit)?;
    Ok(newest.into_iter().map(|(id, session)| ResolvedSession { workspace, id, session }).collect())
}

/// Sessions of the workspace in the trash, newest first.
fn trashed(look: &SessionLookup<'_>, limit: usize) -> Result<Vec<ResolvedSession>, WorkspaceError> {
    let Some(workspace) = look.workspace() else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for row in look.db.sessions_by_deletion.iter(look.txn)? {
        let (Timed { at: since, id }, ()) = row?;
        if since != Timestamp::from_millis(0) && look.db.sessions_by_id.get(look.txn, &id)? == Some(workspace) {
            all.extend(look.load(workspace, id)?);
        }
    }
    all.reverse();
    all.truncate(limit);
    Ok(all)
}

fn tell_list(place: &CommandDir, listed: &Listed, beside: Option<String>, json: bool) -> SessionResult {
    let Listed { name, others, note, shown, refused } = listed;
    let name = name.clone().unwrap_or_else(|| place.name(None));
    if json {
        let ids: Vec<&str> = shown.iter().map(|one| one.id.as_str()).collect();
        let active = shown.iter().find(|one| one.current).map(|one| one.id.as_str());
        return Ok(print::json(&json!({
            "kind": "sessions",
            "action": "list",
            "status": "ok",
            "workspace": workspace_json(place, name),
            "sessions": ids,
            "session_details": shown,
            "active": active,
            "other_partitions": others,
            "note": note,
            "files_refused": refused,
        }))?);
    }
    if let Some(beside) = beside {
        print::note(&beside);
    }
    print::line(&format!("workspace {name} ({})", place.root()))?;
    if shown.is_empty() {
        print::line("no sessions")?;
        if let Some(note) = note {
            print::line(note)?;
        }
        if *others > 0 {
            print::line(&format!("{others} other workspaces have sessions: they are not seen here"))?;
        }
        return Ok(());
    }
    let row = |one: &SessionJson| {
        vec![
            one.id.clone(),
            mark(one).to_owned(),
            lifecycle::signal(one.lifecycle.state, one.lifecycle.abandoned_reason, one.lifecycle.workspace_dirty),
            one.message_count.to_string(),
            human_time::age(&one.updated),
            from(one),
            one.title.clone().unwrap_or_default(),
        ]
    };
    let headings = ["SESSION", "", "STATE", "MESSAGES", "CHANGED", "FROM", "TITLE"];
    Ok(print::table(&headings, shown.iter().map(row).collect())?)
}

const fn mark(one: &SessionJson) -> &'static str {
    match (one.current, one.file.is_some()) {
        (true, _) => "current",
        (false, true) => "file",
        (false, false) => "",
    }
}

fn from(one: &SessionJson) -> String {
    let branch = one.branch_name.as_ref().map(|branch| format!("{branch} of ")).unwrap_or_default();
    one.parent_session_id.as_ref().map(|parent| format!("{branch}{parent}")).unwrap_or_default()
}

/// Shows which session is the newest.
pub(super) fn latest(place: &CommandDir, exclude: Option<&str>, json: bool) -> SessionResult {
    let shown = one(place, |look| look.latest(exclude), None)?;
    if json {
        return Ok(print::json(&json!({
            "kind": "session",
            "action": "latest",
            "status": "ok",
            "workspace": workspace_json(place, shown.name),
            "session": shown.session,
        }))?);
    }
    Ok(print::line(&shown.session.id)?)
}

struct NamedSession {
    name: String,
    session: SessionJson,
}

fn one(
    place: &CommandDir,
    find: impl FnOnce(&SessionLookup<'_>) -> Result<ResolvedSession, WorkspaceError>,
    reference: Option<&str>,
) -> Result<NamedSession, WorkspaceError> {
    let Some(reader) = place.reader()? else { return Err(place.no_store(reference)) };
    let around = surroundings(place);
    reader.read(|db, txn| {
        let look = SessionLookup::new(place, db, txn)?;
        let found = find(&look)?;
        let current = look.row()?.and_then(|row| row.current) == Some(found.id);
        let session = shape::session(&look, found.id, &found.session, &around, current)?;
        Ok(NamedSession { name: place.name(look.workspace()), session })
    })
}

/// Reports whether a session with this id exists. A missing session is a valid answer, not an error.
pub(super) fn exists(place: &CommandDir, text: &str, json: bool) -> SessionResult {
    let heard = match place.reader()? {
        None => Err(place.no_store(Some(text))),
        Some(reader) => reader.read(|db, txn| {
            let look = SessionLookup::new(place, db, txn)?;
            let found = look.resolve(Some(text), None)?;
            let active = look.row()?.and_then(|row| row.current) == Some(found.id);
            Ok::<_, WorkspaceError>((found.name(), active, place.name(look.workspace())))
        }),
    };
    let heard = match heard {
        Err(missing) => match files::find(place, text, missing) {
            Ok(file) => Ok((file.session.head.label.to_string(), false, place.name(None))),
            // A file that does not belong to this workspace is not a session of it.
            Err(why) if why.kind != "failed" && why.fields.contains_key("session_id") => {
                Err(place.no_store(Some(text)).with("refused", why.kind))
            }
            Err(why) => Err(why),
        },
        heard => heard,
    };
    let (found, name) = match heard {
        Ok((id, active, name)) => (Some((id, active)), name),
        Err(trouble) if is_absence(&trouble.kind) => {
            let name = trouble.fields.get("fingerprint").and_then(Value::as_str).map(str::to_owned);
            (None, name.unwrap_or_else(|| place.name(None)))
        }
        Err(trouble) => return Err(trouble),
    };
    if json {
        return Ok(print::json(&json!({
            "kind": "session_exists",
            "action": "exists",
            "status": "ok",
            "workspace": workspace_json(place, name),
            "requested": text,
            "branch": Reference::read(text).branch(),
            "exists": found.is_some(),
            "session_id": found.as_ref().map(|(id, _)| id),
            "active": found.as_ref().is_some_and(|(_, active)| *active),
        }))?);
    }
    Ok(print::line(if found.is_some() { "yes" } else { "no" })?)
}

fn is_absence(kind: &str) -> bool {
    ["session_not_found", "no_managed_sessions", "all_sessions_empty", "workspace_mismatch"].contains(&kind)
}

/// What part of a session is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutputFormat {
    /// The part for people, also as JSON.
    Shown,
    Loaded,
}

/// Shows a session with its records.
pub(super) fn show(
    place: &CommandDir,
    text: &str,
    revision: Option<u32>,
    limit: usize,
    form: OutputFormat,
    json: bool,
) -> SessionResult {
    let around = surroundings(place);
    let mut note = None;
    let shown = match kept(place, text, revision, limit, &around) {
        Err(missing) => {
            let file = files::find(place, text, missing)?;
            let taken = if form == OutputFormat::Loaded { files::take_in(place, &file).map(Some) } else { Ok(None) };
            match taken {
                Ok(Some(label)) => kept(place, &label, revision, limit, &around)?,
                Ok(None) => seen(place, file, revision, limit, &around)?,
                Err(why) => {
                    note = Some(format!("shown from its file, not imported: {}", why.message));
                    seen(place, file, revision, limit, &around)?
                }
            }
        }
        shown => shown?,
    };
    let (name, session, records, revision) = shown;
    if json || form == OutputFormat::Loaded {
        return Ok(print::json(&json!({
            "kind": "session",
            "action": if form == OutputFormat::Loaded { "load" } else { "show" },
            "status": "ok",
            "workspace": workspace_json(place, name),
            "session": session,
            "revision": revision,
            "records": records,
            "note": note,
        }))?);
    }
    print(&session, &records, revision)
}

/// Workspace name, session, records, and the revision of the records.
type Shown = (String, SessionJson, Vec<RecordJson>, u32);

/// Reads a session from its file.
fn seen(
    place: &CommandDir,
    file: files::File,
    revision: Option<u32>,
    limit: usize,
    around: &DirectoryState,
) -> Result<Shown, WorkspaceError> {
    if revision.is_some_and(|number| number > 0) {
        let message = format!("{} is a file, and has no revisions", file.path.display());
        return Err(WorkspaceError::new("no_such_revision", message, "omit --revision to see its current content"));
    }
    let session = files::shape(&file, around);
    Ok((place.name(None), session, files::records(file, limit), 0))
}

/// Reads a session from the store.
fn kept(
    place: &CommandDir,
    text: &str,
    revision: Option<u32>,
    limit: usize,
    around: &DirectoryState,
) -> Result<Shown, WorkspaceError> {
    let Some(reader) = place.reader()? else { return Err(place.no_store(Some(text))) };
    reader.read(|db, txn| {
        let look = SessionLookup::new(place, db, txn)?;
        let found = look.resolve(Some(text), None)?;
        let current = look.row()?.and_then(|row| row.current) == Some(found.id);
        let session = shape::session(&look, found.id, &found.session, around, current)?;
        let (records, number) = records(&look, &found, revision, limit)?;
        Ok((place.name(look.workspace()), session, records, number))
    })
}

/// The newest records of a session, up to a limit, and their revision.
pub(super) fn records(
    look: &SessionLookup<'_>,
    found: &ResolvedSession,
    revision: Option<u32>,
    limit: usize,
) -> Result<(Vec<RecordJson>, u32), WorkspaceError> {
    let own = match &found.session {
        Session::Chat(_) => {
            let rows = view::conversation(look.db, look.txn, found.id, limit)?;
            return Ok((rows.into_iter().map(shape::chat_record).collect(), 0));
        }
        Session::Workspace(own) => own,
    };
    let cut = match revision {
        None => Cut::current(found.id, own),
        Some(number) => view::revision(look.db, look.txn, found.id, number)?.ok_or_else(|| {
            let message = format!("session {} has no revision {number}: the newest is {}", own.label, own.revision);
            WorkspaceError::new("no_such_revision", message, "omit --revision to see its current content")
        })?,
    };
    let parts = view::segments(look.db, look.txn, cut)?;
    let mut after = cut.records.saturating_sub(u64::try_from(limit).unwrap_or(u64::MAX));
    let mut all = Vec::new();
    loop {
        let some = view::records(look.db, look.txn, &parts, after, PIECE)?;
        let Some((last, _)) = some.last() else { return Ok((all, cut.revision)) };
        after = *last;
        all.extend(some.into_iter().map(|(number, row)| shape::record(number, row)));
    }
}

fn print(session: &SessionJson, records: &[RecordJson], revision: u32) -> SessionResult {
    let state = lifecycle::signal(
        session.lifecycle.state,
        session.lifecycle.abandoned_reason,
        session.lifecycle.workspace_dirty,
    );
    let mut lines = vec![
        ("session", session.id.clone()),
        ("state", state),
        ("messages", session.message_count.to_string()),
        ("created", human_time::local_with_age(&session.created)),
        ("changed", human_time::local_with_age(&session.updated)),
    ];
    lines.extend(session.file.clone().map(|file| ("file", file)));
    lines.extend(session.title.clone().map(|title| ("title", title)));
    lines.extend(session.model.clone().map(|model| ("model", model)));
    lines.extend(Some(from(session)).filter(|from| !from.is_empty()).map(|from| ("forked from", from)));
    if revision != session.revision {
        lines.push(("revision", format!("{revision}, and {} is the newest", session.revision)));
    }
    if let Some(done) = session.compaction.as_ref().filter(|_| revision == session.revision) {
        let text = done.get("summary").and_then(Value::as_str).unwrap_or_default();
        lines.push(("before", text.to_owned()));
    }
    for (key, value) in lines {
        print::line(&format!("{key:12} {value}"))?;
    }
    for record in records {
        let who = record.speaker.as_deref().or(record.role).unwrap_or(record.kind);
        let text = if record.expired { "expired" } else { record.text.as_deref().unwrap_or("(not shown)") };
        print::line(&format!("\n#{} {who}, {}", record.number, human_time::local(&record.at)))?;
        text.lines().try_for_each(|line| print::line(&format!("  {line}")))?;
    }
    Ok(())
}

/// Shows the prompt history. Without one, shows the messages of people.
pub(super) fn history(place: &CommandDir, which: &OptionalSessionArg, count: u32, json: bool) -> SessionResult {
    let reference = which.session.as_deref();
    let Some(reader) = place.reader()? else { return Err(place.no_store(reference)) };
    let (id, mut all) = reader.read(|db, txn| {
        let look = SessionLookup::new(place, db, txn)?;
        let found = look.resolve(reference, which.exclude.as_deref())?;
        // Reads one record more than is searched, to find out whether there are more.
        let (records, _) = records(&look, &found, None, HISTORY_LOOK + 1)?;
        Ok::<_, WorkspaceError>((found.name(), records))
    })?;
    let older = all.len().saturating_sub(HISTORY_LOOK);
    all.drain(..older);
    let cut = older > 0;
    let typed: Vec<&RecordJson> = all.iter().filter(|record| record.kind == "prompt_history").collect();
    let said = || all.iter().filter(|record| record.role == Some("user") && record.text.is_some()).collect();
    let mut entries = if typed.is_empty() { said() } else { typed };
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let total = entries.len();
    entries.drain(..total.saturating_sub(count));
    if json {
        let shape = |one: &&RecordJson| json!({ "number": one.number, "timestamp_ms": one.at_ms, "text": one.text });
        return Ok(print::json(&json!({
            "kind": "history",
            "action": "history",
            "status": "ok",
            "session_id": id,
            "total": total,
            "cut": cut,
            "entries": entries.iter().map(shape).collect::<Vec<_>>(),
        }))?);
    }
    for one in entries {
        print::line(&format!("{}  {}", human_time::local(&one.at), one.text.as_deref().unwrap_or_default()))?;
    }
    if cut {
        print::note(&format!("the session has older records: only its newest {HISTORY_LOOK} were searched"));
    }
    Ok(())
}
