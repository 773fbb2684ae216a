//! Output shapes of sessions and records, for programs and people.

use std::path::Path;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::find::{SessionLookup, name};
use super::lifecycle::{self, LifecycleJson, SessionFacts, SessionHolder};
use crate::cli::workspace::error::WorkspaceError;
use crate::clock;
use crate::contracts::process;
use crate::engine::workspaces::view::{self, ChatRecord, Cut, Direction};
use crate::model::content::RawJson;
use crate::model::id::SessionId;
use crate::model::record::{Lease, RecordBody, SessionRecord, SpeakerRole};
use crate::model::session::{Compaction, Session, WorkspaceSession};
use crate::model::take_in::FileSession;
use crate::state::{Read, Tables};

/// Number of last records that are searched for the last message.
const LAST_MAX: usize = 8;

#[derive(Debug, Serialize)]
pub(super) struct SessionJson {
    pub(super) id: String,
    /// The store's id; none for a file that is not imported.
    pub(super) key: Option<String>,
    /// The file, if it is not imported.
    pub(super) file: Option<String>,
    /// `workspace`, or `agent` for a conversation of an agent.
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) title: Option<String>,
    pub(super) model: Option<String>,
    pub(super) created_at_ms: i64,
    pub(super) updated_at_ms: i64,
    pub(super) created: String,
    pub(super) updated: String,
    pub(super) revision: u32,
    pub(super) records: u64,
    pub(super) message_count: u64,
    pub(super) parent_session_id: Option<String>,
    /// Key of the parent's workspace, if it is another one.
    pub(super) parent_workspace: Option<String>,
    pub(super) branch_name: Option<String>,
    pub(super) compaction: Option<Value>,
    /// Whether it is the session that is resumed by default.
    pub(super) current: bool,
    /// When it was moved to the trash.
    pub(super) deleted: Option<String>,
    pub(super) lifecycle: LifecycleJson,
}

/// State of the directory whose sessions are shown.
#[derive(Debug, Clone, Default)]
pub(super) struct DirectoryState {
    pub(super) present: bool,
    /// Changed files: their number and some names. None if unknown.
    pub(super) changes: Option<(u64, Vec<String>)>,
}

/// One session for programs.
pub(super) fn session(
    look: &SessionLookup<'_>,
    id: SessionId,
    row: &Session,
    around: &DirectoryState,
    current: bool,
) -> Result<SessionJson, WorkspaceError> {
    let lifecycle = lifecycle(look.db, look.txn, id, row, around)?;
    let id_text = name(id, row);
    let key = id.to_string();
    Ok(match row {
        Session::Chat(chat) => SessionJson {
            id: id_text,
            key: Some(key),
            file: None,
            kind: "agent",
            title: None,
            model: None,
            created_at_ms: chat.created.millis(),
            updated_at_ms: chat.active.millis(),
            created: chat.created.to_string(),
            updated: chat.active.to_string(),
            revision: 0,
            records: chat.last_number,
            message_count: chat.messages,
            parent_session_id: None,
            parent_workspace: None,
            branch_name: None,
            compaction: None,
            current,
            deleted: None,
            lifecycle,
        },
        Session::Workspace(own) => workspace_session(look, own, id_text, key, lifecycle, current),
    })
}

fn workspace_session(
    look: &SessionLookup<'_>,
    own: &WorkspaceSession,
    id: String,
    key: String,
    lifecycle: LifecycleJson,
    current: bool,
) -> SessionJson {
    let lineage = own.lineage.as_ref();
    let elsewhere = lineage
        .and_then(|lineage| lineage.session)
        .filter(|(workspace, _)| Some(*workspace) != look.workspace())
        .map(|(workspace, _)| crate::model::workspace::key_text(workspace));
    SessionJson {
        id,
        key: Some(key),
        file: None,
        kind: "workspace",
        title: own.title.clone(),
        model: own.model.clone(),
        created_at_ms: own.created.millis(),
        updated_at_ms: own.updated.millis(),
        created: own.created.to_string(),
        updated: own.updated.to_string(),
        revision: own.revision,
        records: own.records,
        message_count: own.messages,
        parent_session_id: lineage.map(|lineage| lineage.parent.clone()),
        parent_workspace: elsewhere,
        branch_name: lineage.and_then(|lineage| lineage.branch.clone()),
        compaction: own.compaction.as_ref().map(compaction),
        current,
        deleted: own.deleted.map(|at| at.to_string()),
        lifecycle,
    }
}

/// The current state of a session's holder.
pub(super) fn holding(lease: &Lease) -> SessionHolder {
    let alive = !process::is_dead(lease.pid, lease.started, &lease.boot);
    SessionHolder { alive, silent: clock::wall().since(lease.beat) }
}

fn lifecycle(
    db: &Tables,
    txn: &Read<'_>,
    id: SessionId,
    row: &Session,
    around: &DirectoryState,
) -> Result<LifecycleJson, WorkspaceError> {
    let lease = db.leases.get(txn, &id)?;
    let dirty = around.changes.as_ref().is_some_and(|(count, _)| *count > 0);
    let facts = match row {
        Session::Workspace(own) => SessionFacts {
            holder: lease.as_ref().map(holding),
            messages: own.messages,
            last: last_said(db, txn, Cut::current(id, own))?,
            present: around.present,
            dirty,
        },
        Session::Chat(chat) => {
            let holder = chat.live.map(|_| SessionHolder { alive: true, silent: crate::model::Millis::ZERO });
            SessionFacts { holder, messages: chat.last_number, last: None, present: true, dirty }
        }
    };
    Ok(told(facts, lease.as_ref(), around))
}

pub(super) fn file_session(session: &FileSession, path: &Path, around: &DirectoryState) -> SessionJson {
    let FileSession { head, records, .. } = session;
    let said = |record: &SessionRecord| match record.body {
        RecordBody::Message { role, ends_turn, .. } => Some((role, ends_turn)),
        RecordBody::Prompt(_) | RecordBody::Foreign(_) => None,
    };
    let count = |many: usize| u64::try_from(many).unwrap_or(u64::MAX);
    let messages = count(records.iter().filter_map(said).count());
    let last = records.iter().rev().find_map(said);
    let dirty = around.changes.as_ref().is_some_and(|(count, _)| *count > 0);
    let facts = SessionFacts { holder: None, messages, last, present: around.present, dirty };
    SessionJson {
        id: head.label.to_string(),
        key: None,
        file: Some(path.to_string_lossy().into_owned()),
        kind: "workspace",
        title: None,
        model: head.model.clone(),
        created_at_ms: head.created.millis(),
        updated_at_ms: head.updated.millis(),
        created: head.created.to_string(),
        updated: head.updated.to_string(),
        revision: 0,
        records: count(records.len()),
        message_count: messages,
        parent_session_id: head.parent.as_ref().map(|(parent, _)| parent.clone()),
        parent_workspace: None,
        branch_name: head.parent.as_ref().and_then(|(_, branch)| branch.clone()),
        compaction: head.compaction.as_ref().map(compaction),
        current: false,
        deleted: None,
        lifecycle: told(facts, None, around),
    }
}

fn compaction(done: &Compaction) -> Value {
    json!({ "count": done.count, "removed_message_count": done.removed, "summary": done.summary })
}

fn told(facts: SessionFacts, lease: Option<&Lease>, around: &DirectoryState) -> LifecycleJson {
    let (state, reason) = lifecycle::decide(facts);
    LifecycleJson {
        state,
        abandoned_reason: reason,
        kind: state.kind(),
        abandoned: state == lifecycle::State::Abandoned,
        workspace_dirty: facts.dirty,
        dirty_file_count: around.changes.as_ref().map(|(count, _)| *count),
        dirty_files: around.changes.as_ref().map(|(_, some)| some.clone()).unwrap_or_default(),
        pid: lease.map(|lease| lease.pid),
        lease_epoch: lease.map(|lease| lease.epoch),
        pane_id: None,
        pane_command: None,
        pane_path: None,
        panes: Vec::new(),
        observed_at_ms: clock::wall().millis(),
    }
}

/// The last message of a session, if it is among its last records.
fn last_said(db: &Tables, txn: &Read<'_>, cut: Cut) -> Result<Option<(SpeakerRole, Option<bool>)>, WorkspaceError> {
    let after = cut.records.saturating_sub(u64::try_from(LAST_MAX).unwrap_or(u64::MAX));
    let parts = view::segments(db, txn, cut)?;
    let rows = view::records(db, txn, &parts, after, LAST_MAX)?;
    Ok(rows.into_iter().rev().find_map(|(_, row)| match row.body {
        RecordBody::Message { role, ends_turn, .. } => Some((role, ends_turn)),
        RecordBody::Prompt(_) | RecordBody::Foreign(_) => None,
    }))
}

#[derive(Debug, Serialize)]
pub(super) struct RecordJson {
    pub(super) number: u64,
    pub(super) at: String,
    pub(super) at_ms: i64,
    /// `message`, `prompt_history`, or `foreign` for a record type that only its writer knows.
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) role: Option<&'static str>,
    /// The sender, in a conversation of an agent.
    pub(super) speaker: Option<String>,
    pub(super) blocks: Option<Box<RawValue>>,
    pub(super) usage: Option<Box<RawValue>>,
    pub(super) text: Option<String>,
    /// Whether its text has expired.
    pub(super) expired: bool,
    pub(super) json: Option<Box<RawValue>>,
}

/// A record of a workspace session.
pub(super) fn record(number: u64, row: SessionRecord) -> RecordJson {
    let mut shape = RecordJson {
        number,
        at: row.at.to_string(),
        at_ms: row.at.millis(),
        kind: "message",
        role: None,
        speaker: None,
        blocks: None,
        usage: None,
        text: None,
        expired: false,
        json: None,
    };
    match row.body {
        RecordBody::Message { role, blocks, usage, .. } => {
            shape.role = Some(role.as_str());
            shape.text = Some(words(&blocks));
            shape.blocks = raw(blocks);
            shape.usage = usage.and_then(raw);
        }
        RecordBody::Prompt(text) => (shape.kind, shape.text) = ("prompt_history", Some(text)),
        RecordBody::Foreign(json) => (shape.kind, shape.json) = ("foreign", raw(json)),
    }
    shape
}

/// A message of an agent's session.
pub(super) fn chat_record(row: ChatRecord) -> RecordJson {
    RecordJson {
        number: row.number,
        at: row.at.to_string(),
        at_ms: row.at.millis(),
        kind: "message",
        role: Some(if row.way == Direction::In { "user" } else { "assistant" }),
        speaker: row.speaker,
        blocks: None,
        usage: None,
        expired: row.text.is_none(),
        text: row.text,
        json: None,
    }
}

fn raw(json: RawJson) -> Option<Box<RawValue>> {
    RawValue::from_string(json.as_str().to_owned()).ok()
}

/// The text of message blocks.
pub(super) fn words(blocks: &RawJson) -> String {
    let Ok(Value::Array(blocks)) = serde_json::from_str(blocks.as_str()) else { return String::new() };
    let text = |block: &Value, field: &str| block.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let line = |block: &Value| match block.get("type").and_then(Value::as_str).unwrap_or_default() {
        "text" => text(block, "text"),
        "thinking" => format!("({})", text(block, "thinking")),
        "tool_use" => format!("-> {} {}", text(block, "name"), text(block, "input")),
        "tool_result" => format!("<- {} {}", text(block, "tool_name"), text(block, "output")),
        other => format!("[{other}]"),
    };
    blocks.iter().map(line).collect::<Vec<_>>().join("\n")
}
