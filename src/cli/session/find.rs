//! Resolves references to sessions, in this directory's workspace unless all workspaces are requested.

use serde_json::Value;

use super::place::CommandDir;
use crate::cli::workspace::error::WorkspaceError;
use crate::engine::workspaces::{Located, view};
use crate::model::id::SessionId;
use crate::model::session::{Recency, Session, SessionLabel};
use crate::model::session_command::SessionRefusal;
use crate::model::session_ref::Reference;
use crate::model::time::Timestamp;
use crate::model::workspace::{Workspace, WorkspaceKey, key_text};
use crate::socket::command::RequestRefused;
use crate::state::{LabelKey, Read, SessionKey, Tables, Text, Timed};

type Result<T> = std::result::Result<T, WorkspaceError>;

/// Maximum number of empty sessions that are counted if there are no others.
const EMPTY_COUNTED: usize = 1_000;

/// A session that was found.
#[derive(Debug)]
pub(super) struct ResolvedSession {
    pub(super) workspace: WorkspaceKey,
    pub(super) id: SessionId,
    pub(super) session: Session,
}

impl ResolvedSession {
    /// The id that resolves to it.
    pub(super) fn name(&self) -> String {
        name(self.id, &self.session)
    }

    pub(super) fn messages(&self) -> u64 {
        self.session.messages()
    }
}

/// The id that resolves to a session.
pub(super) fn name(id: SessionId, session: &Session) -> String {
    match session {
        Session::Chat(_) => id.to_string(),
        Session::Workspace(own) => own.label.to_string(),
    }
}

/// Read access to the store from one directory.
pub(super) struct SessionLookup<'a> {
    pub(super) place: &'a CommandDir,
    pub(super) db: &'a Tables,
    pub(super) txn: &'a Read<'a>,
    /// The directory's state in the store.
    pub(super) located: Located,
}

/// Adds the usual fields to an error of a change. The store must not be open in this process.
pub(super) fn with_fields(place: &CommandDir, trouble: WorkspaceError) -> WorkspaceError {
    if trouble.kind != "workspace_moved" {
        return trouble;
    }
    let Ok(Some(reader)) = place.reader() else { return trouble };
    let moved = reader.read(|db, txn| Ok::<_, WorkspaceError>(SessionLookup::new(place, db, txn)?.moved()));
    moved.ok().flatten().unwrap_or(trouble)
}

impl<'a> SessionLookup<'a> {
    pub(super) fn new(place: &'a CommandDir, db: &'a Tables, txn: &'a Read<'a>) -> Result<Self> {
        let located = place.locate(db, txn)?;
        Ok(Self { place, db, txn, located })
    }

    /// The workspace of the directory, if it has one.
    pub(super) const fn workspace(&self) -> Option<WorkspaceKey> {
        match &self.located {
            Located::Known(key) => Some(*key),
            Located::Unknown | Located::Moved { .. } | Located::Alias { .. } | Located::Replaced { .. } => None,
        }
    }

    /// The workspace's row.
    pub(super) fn row(&self) -> Result<Option<Workspace>> {
        match self.workspace() {
            Some(key) => Ok(self.db.workspaces.get(self.txn, &key)?),
            None => Ok(None),
        }
    }

    /// Resolves a reference here. Without one, the current session or else the newest.
    pub(super) fn resolve(&self, reference: Option<&str>, exclude: Option<&str>) -> Result<ResolvedSession> {
        let Some(text) = reference else {
            if let Some(found) = self.current()? {
                return Ok(found);
            }
            return self.latest(exclude);
        };
        match Reference::read(text) {
            Reference::Latest => self.latest(exclude),
            Reference::Label(label) => self.label(&label)?.ok_or_else(|| self.missing(text)),
            Reference::Key(id) => self.key(id, text),
            Reference::File | Reference::Nothing => Err(self.missing(text)),
        }
    }

    /// The current session, set by `switch`.
    pub(super) fn current(&self) -> Result<Option<ResolvedSession>> {
        let (Some(workspace), Some(row)) = (self.workspace(), self.row()?) else { return Ok(None) };
        row.current.map(|id| self.load(workspace, id)).transpose().map(Option::flatten)
    }

    pub(super) fn load(&self, workspace: WorkspaceKey, id: SessionId) -> Result<Option<ResolvedSession>> {
        let session = self.db.sessions.get(self.txn, &SessionKey { workspace, session: id })?;
        Ok(session.map(|session| ResolvedSession { workspace, id, session }))
    }

    fn label(&self, label: &SessionLabel) -> Result<Option<ResolvedSession>> {
        let Some(workspace) = self.workspace() else { return Ok(None) };
        self.label_in(workspace, label)
    }

    fn label_in(&self, workspace: WorkspaceKey, label: &SessionLabel) -> Result<Option<ResolvedSession>> {
        let Ok(text) = Text::new(label.as_str()) else { return Ok(None) };
        match self.db.session_labels.get(self.txn, &LabelKey { workspace, label: text })? {
            Some(id) => self.load(workspace, id),
            None => Ok(None),
        }
    }

    /// Finds a session by the store's id. A session of another workspace is an error.
    fn key(&self, id: SessionId, text: &str) -> Result<ResolvedSession> {
        let Some(workspace) = self.db.sessions_by_id.get(self.txn, &id)? else { return Err(self.missing(text)) };
        if self.workspace() == Some(workspace) {
            let found = self.load(workspace, id)?.filter(|found| !found.session.is_trashed());
            return found.ok_or_else(|| self.missing(text));
        }
        let actual = self.root_of(workspace)?;
        let expected = self.place.root();
        let hint = format!(
            "open it in {actual}, or fork it here with `hearth workspace sessions fork {text} --any-workspace`"
        );
        Err(WorkspaceError::new(
            "workspace_mismatch",
            format!("session workspace mismatch: expected {expected}, found {actual}"),
            hint,
        )
        .with("session_id", text)
        .with("expected_workspace_root", expected)
        .with("expected_fingerprint", self.place.name(self.workspace()))
        .with("actual_workspace_root", actual)
        .with("actual_fingerprint", key_text(workspace)))
    }

    /// The newest session with messages.
    pub(super) fn latest(&self, exclude: Option<&str>) -> Result<ResolvedSession> {
        let Some(workspace) = self.workspace() else { return Err(self.none()) };
        if let Some(found) = self.newest(workspace, exclude)? {
            return Ok(found);
        }
        let passed_over = exclude.map(|text| self.named(workspace, text)).transpose()?.flatten();
        let others = view::count(self.db, self.txn, workspace, EMPTY_COUNTED)?;
        match others.saturating_sub(usize::from(passed_over.is_some())) {
            0 => Err(self.none()),
            count => Err(self.all_empty(count)),
        }
    }

    /// The newest session of a workspace with messages.
    fn newest(&self, workspace: WorkspaceKey, exclude: Option<&str>) -> Result<Option<ResolvedSession>> {
        let passed = |id, session: &Session| exclude == Some(name(id, session).as_str());
        let newest = view::latest(self.db, self.txn, workspace, passed)?;
        Ok(newest.map(|(id, session)| ResolvedSession { workspace, id, session }))
    }

    /// Finds a session of a workspace by its displayed id.
    fn named(&self, workspace: WorkspaceKey, text: &str) -> Result<Option<ResolvedSession>> {
        match Reference::read(text) {
            Reference::Label(label) => self.label_in(workspace, &label),
            Reference::Key(id) => self.load(workspace, id),
            Reference::Latest | Reference::File | Reference::Nothing => Ok(None),
        }
    }

    /// Resolves a reference here first, then in other workspaces.
    pub(super) fn resolve_anywhere(&self, reference: Option<&str>, exclude: Option<&str>) -> Result<ResolvedSession> {
        let here = self.resolve(reference, exclude);
        let wanted = reference.map_or(Reference::Latest, Reference::read);
        match (here, &wanted) {
            (Ok(found), _) => Ok(found),
            (Err(trouble), Reference::File | Reference::Nothing) => Err(trouble),
            (Err(trouble), Reference::Key(id)) => {
                let Some(workspace) = self.db.sessions_by_id.get(self.txn, id)? else { return Err(trouble) };
                self.load(workspace, *id)?.filter(|found| !found.session.is_trashed()).ok_or(trouble)
            }
            (Err(trouble), Reference::Latest) => self.newest_anywhere()?.ok_or(trouble),
            (Err(trouble), Reference::Label(label)) => {
                let mut all = Vec::new();
                for row in self.db.workspaces.iter(self.txn)? {
                    let (key, _) = row?;
                    all.extend(self.label_in(key, label)?);
                }
                match all.len() {
                    0 => Err(trouble),
                    1 => all.pop().ok_or(trouble),
                    _ => Err(self.ambiguous(label, &all)?),
                }
            }
        }
    }

    fn newest_anywhere(&self) -> Result<Option<ResolvedSession>> {
        let mut best: Option<(Recency, ResolvedSession)> = None;
        for row in self.db.workspaces.iter(self.txn)? {
            let (key, _) = row?;
            let Some(found) = self.newest(key, None)? else { continue };
            let recency = found.session.recency();
            if best.as_ref().is_none_or(|(than, _)| recency > *than) {
                best = Some((recency, found));
            }
        }
        Ok(best.map(|(_, found)| found))
    }

    /// Other workspaces that have sessions.
    pub(super) fn others(&self) -> Result<u64> {
        let own = self.workspace();
        let mut count = 0;
        for row in self.db.workspaces.iter(self.txn)? {
            let (key, _) = row?;
            if Some(key) != own && self.db.sessions_by_update.first_in(self.txn, &key)?.is_some() {
                count += 1;
            }
        }
        Ok(count)
    }

    /// The directory of a workspace, for people.
    pub(super) fn root_of(&self, key: WorkspaceKey) -> Result<String> {
        let row = self.db.workspaces.get(self.txn, &key)?;
        Ok(row.map_or_else(|| key_text(key), |row| String::from_utf8_lossy(&row.path).into_owned()))
    }

    /// Adds the workspace and related information to an error.
    fn about(&self, trouble: WorkspaceError) -> WorkspaceError {
        let others = self.others().unwrap_or(0);
        self.place.about(trouble, self.workspace(), others)
    }

    /// The error for an unknown session.
    pub(super) fn missing(&self, text: &str) -> WorkspaceError {
        if let Some(moved) = self.moved() {
            return moved;
        }
        let branch = Reference::read(text).branch();
        let hint = match branch {
            "file" => {
                "import a file with `hearth workspace sessions import`; sessions are named by the ids that `hearth \
                       session list` shows"
                    .to_owned()
            }
            _ => self.place.hint(self.workspace(), self.others().unwrap_or(0)),
        };
        let trouble = WorkspaceError::new("session_not_found", format!("session not found: {text}"), hint);
        self.about(trouble.with("requested", text).with("branch", branch))
    }

    fn none(&self) -> WorkspaceError {
        if let Some(moved) = self.moved() {
            return moved;
        }
        let message = self.place.nothing(self.workspace());
        let mut hint = self.place.hint(self.workspace(), self.others().unwrap_or(0));
        if let Some(replaced) = self.replaced() {
            hint = format!("{replaced}\n{hint}");
        }
        self.about(WorkspaceError::new("no_managed_sessions", message, hint))
    }

    fn all_empty(&self, count: usize) -> WorkspaceError {
        let (name, root) = (self.place.name(self.workspace()), self.place.root());
        let more = if count < EMPTY_COUNTED { "" } else { " or more" };
        let message =
            format!("all sessions are empty (0 messages) in workspace {name} ({root}), {count}{more} of them");
        let hint = "a new session may still be in its first turn: wait and retry, or specify a session by its id";
        self.about(WorkspaceError::new("all_sessions_empty", message, hint).with("empty_sessions", count))
    }

    /// A note for people about a directory without sessions.
    pub(super) fn note(&self) -> Option<String> {
        self.moved().map(|moved| format!("{}: {}", moved.message, moved.hint.as_str())).or_else(|| self.replaced())
    }

    fn replaced(&self) -> Option<String> {
        let Located::Replaced { key } = &self.located else { return None };
        Some(format!(
            "another directory was at this path before: its sessions are kept as workspace {}, `hearth workspace adopt` \
             attaches them",
            key_text(*key)
        ))
    }

    fn moved(&self) -> Option<WorkspaceError> {
        let Located::Moved { key, from } = &self.located else { return None };
        let from = String::from_utf8_lossy(from).into_owned();
        let message =
            format!("{} was at {from} when its sessions were stored (workspace {})", self.place.root(), key_text(*key));
        let trouble = WorkspaceError::new("workspace_moved", message, "`hearth workspace adopt` continues them here")
            .with("moved_from", from)
            .with("moved_workspace", key_text(*key));
        Some(self.about(trouble))
    }

    fn ambiguous(&self, label: &SessionLabel, all: &[ResolvedSession]) -> Result<WorkspaceError> {
        let mut places = Vec::new();
        for found in all {
            places.push(format!("{} in {}", found.id, self.root_of(found.workspace)?));
        }
        let hint = format!("specify one by the store's id: {}", places.join(", "));
        let keys: Vec<Value> = all.iter().map(|found| Value::from(found.id.to_string())).collect();
        let message = format!("{label} is the id of {} sessions of other workspaces", all.len());
        Ok(WorkspaceError::new("session_ambiguous", message, hint).with("candidates", keys))
    }

    /// Finds the newest session in the trash with an id, either its former one or the store's.
    pub(super) fn trashed(&self, text: &str) -> Result<ResolvedSession> {
        let Some(workspace) = self.workspace() else { return Err(self.missing(text)) };
        let mut best = None;
        for row in self.db.sessions_by_deletion.iter(self.txn)? {
            let (Timed { at: since, id }, ()) = row?;
            if since == Timestamp::from_millis(0) || self.db.sessions_by_id.get(self.txn, &id)? != Some(workspace) {
                continue;
            }
            best = self.load(workspace, id)?.filter(|found| found.name() == text || id.to_string() == text).or(best);
        }
        match best {
            Some(found) => Ok(found),
            None if self.named(workspace, text)?.is_some_and(|found| !found.session.is_trashed()) => {
                let refusal = SessionRefusal::NotInTrash { session: text.to_owned() };
                Err(self.about(RequestRefused::from(refusal).into()))
            }
            None => Err(self.missing(text)),
        }
    }
}
