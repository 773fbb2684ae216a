//! `hearth workspace sessions export`: writes a session as a claw file, as JSON lines with all data, or as text for people.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::json;

use super::find::{ResolvedSession, SessionLookup};
use super::place::CommandDir;
use super::shape::RecordJson;
use super::{SessionArg, read};
use crate::cli::workspace::error::WorkspaceError;
use crate::cli::{Failure, print};
use crate::contracts::claw::{self, OverwriteRule};
use crate::engine::workspaces::view::{self, ChatRecord, Cut, Direction};
use crate::model::content::RawJson;
use crate::model::record::{RecordBody, SessionRecord, SpeakerRole};
use crate::model::session::{ChatSession, Session, SessionLabel, SessionSource, WorkspaceSession};
use crate::model::take_in::SessionHead;

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    #[command(flatten)]
    which: SessionArg,
    /// The file [default: standard output]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Which form
    #[arg(long, value_enum, value_name = "FORM", default_value_t = Layout::Claw)]
    layout: Layout,
    /// With --layout jsonl: leave secrets in, which are taken out otherwise
    #[arg(long)]
    raw: bool,
    /// Replace a file that is there
    #[arg(long, requires = "output")]
    force: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Layout {
    /// A session file of claw, which `hearth workspace sessions import` reads too
    Claw,
    /// One JSON object per record, as `hearth workspace sessions show --json` has them
    Jsonl,
    /// For people
    Markdown,
}

impl Layout {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Claw => "claw",
            Self::Jsonl => "jsonl",
            Self::Markdown => "markdown",
        }
    }
}

/// Writes a session.
pub(super) fn export(place: &CommandDir, args: &ExportArgs, json: bool) -> Result<(), WorkspaceError> {
    if args.raw && args.layout != Layout::Jsonl {
        let message = format!("--layout {} is always without secrets", args.layout.as_str());
        return Err(WorkspaceError::new("invalid_request", message, "`--layout jsonl --raw` leaves them in").usage());
    }
    let reference = args.which.session.as_str();
    let Some(reader) = place.reader()? else { return Err(place.no_store(Some(reference))) };
    let (name, text) = reader.read(|db, txn| {
        let look = SessionLookup::new(place, db, txn)?;
        let found = look.resolve(Some(reference), None)?;
        let text = match args.layout {
            Layout::Claw => as_claw(&look, &found)?,
            Layout::Jsonl => as_lines(&read::records(&look, &found, None, usize::MAX)?.0, args.raw)?,
            Layout::Markdown => as_markdown(&found, &read::records(&look, &found, None, usize::MAX)?.0),
        };
        Ok::<_, WorkspaceError>((found.name(), text))
    })?;
    // The output function adds the last line break.
    let Some(path) = &args.output else { return Ok(print::verbatim(text.strip_suffix('\n').unwrap_or(&text))?) };
    let target = if args.force { OverwriteRule::Any } else { OverwriteRule::New };
    claw::write(path, text.as_bytes(), target)
        .map_err(|error| WorkspaceError::of_kind("export_refused", error.to_string()))?;
    if !json {
        return Ok(print::line(&format!("wrote {name} to {}", path.display()))?);
    }
    Ok(print::json(&json!({
        "kind": "session_export",
        "action": "export",
        "status": "ok",
        "session_id": name,
        "layout": args.layout.as_str(),
        "output": path.to_string_lossy(),
        "bytes": text.len(),
    }))?)
}

fn as_claw(look: &SessionLookup<'_>, found: &ResolvedSession) -> Result<String, WorkspaceError> {
    let root = look.db.workspaces.get(look.txn, &found.workspace)?.map(|row| row.path);
    // The folder of an agent is kept relative to the data directory.
    let root = root.map(|path| if path.starts_with(b"/") { path } else { look.place.sight.path.clone() });
    let (head, records) = match &found.session {
        Session::Workspace(own) => {
            let cut = Cut::current(found.id, own);
            let segments = view::segments(look.db, look.txn, cut)?;
            let records = view::records(look.db, look.txn, &segments, 0, usize::MAX)?;
            (own_head(own, root), records.into_iter().map(|(_, record)| record).collect())
        }
        Session::Chat(chat) => {
            let rows = view::conversation(look.db, look.txn, found.id, usize::MAX)?;
            (chat_head(&found.name(), chat, root), rows.into_iter().filter_map(said).collect::<Vec<_>>())
        }
    };
    Ok(claw::encode(&head, &records))
}

fn own_head(own: &WorkspaceSession, root: Option<Vec<u8>>) -> SessionHead {
    let extra = own.source.as_ref().and_then(|source| source.extra.clone());
    SessionHead {
        label: own.label.clone(),
        model: own.model.clone(),
        created: own.created,
        updated: own.updated,
        parent: own.lineage.as_ref().map(|lineage| (lineage.parent.clone(), lineage.branch.clone())),
        compaction: own.compaction.clone(),
        source: SessionSource { root, extra, ..no_source() },
    }
}

fn chat_head(name: &str, chat: &ChatSession, root: Option<Vec<u8>>) -> SessionHead {
    SessionHead {
        label: SessionLabel::nearest(&format!("agent-{name}")),
        model: None,
        created: chat.created,
        updated: chat.active,
        parent: None,
        compaction: None,
        source: SessionSource { root, ..no_source() },
    }
}

fn no_source() -> SessionSource {
    SessionSource { path: Vec::new(), id: None, from_name: false, root: None, torn_tail: None, extra: None }
}

/// A message of an agent's session; none if its text has expired.
fn said(row: ChatRecord) -> Option<SessionRecord> {
    let blocks = json!([{ "text": row.text?, "type": "text" }]).to_string();
    let role = if row.way == Direction::In { SpeakerRole::User } else { SpeakerRole::Assistant };
    let body = RecordBody::Message { role, blocks: RawJson::trusted(blocks), usage: None, ends_turn: None };
    Some(SessionRecord { at: row.at, body, extra: None })
}

fn as_lines(records: &[RecordJson], raw: bool) -> Result<String, WorkspaceError> {
    let mut out = String::new();
    for record in records {
        let line = serde_json::to_string(record).map_err(Failure::from)?;
        out.push_str(&if raw { line } else { without_secrets(&line) });
        out.push('\n');
    }
    Ok(out)
}

/// Redacts secrets in the strings of a JSON text. Everything else stays as written, including very large numbers.
fn without_secrets(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some((before, text)) = rest.split_once('"') {
        let mut escaped = false;
        let end = text.bytes().position(|byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        });
        let (text, after) = text.split_at_checked(end.unwrap_or(text.len())).unwrap_or((text, ""));
        out.push_str(before);
        // An unpaired surrogate is not valid text.
        match serde_json::from_str::<String>(&format!("\"{text}\"")) {
            Err(_) => out.push_str("\"[unreadable]\""),
            Ok(plain) => {
                let clean = claw::redacted(&plain);
                let shown = if clean == plain { Ok(format!("\"{text}\"")) } else { serde_json::to_string(&clean) };
                out.push_str(&shown.unwrap_or_default());
            }
        }
        rest = after.strip_prefix('"').unwrap_or(after);
    }
    out + rest
}

fn as_markdown(found: &ResolvedSession, records: &[RecordJson]) -> String {
    let mut out = format!("# Session {}\n", found.name());
    let mut put = |text: &str| out.push_str(text);
    if let Session::Workspace(own) = &found.session {
        if let Some(title) = &own.title {
            put(&format!("\n{title}\n"));
        }
        let mut facts = format!("\n* created {}\n* changed {}\n", own.created, own.updated);
        if let Some(model) = &own.model {
            // Writing into a string cannot fail.
            writeln!(facts, "* model {model}").ok();
        }
        if let Some(lineage) = &own.lineage {
            let branch = lineage.branch.as_ref().map(|branch| format!(", branch {branch}")).unwrap_or_default();
            writeln!(facts, "* forked from {}{branch}", lineage.parent).ok();
        }
        put(&facts);
        if let Some(compaction) = &own.compaction {
            put(&format!("\n## Left out: {} messages\n\n{}\n", compaction.removed, compaction.summary));
        }
    }
    for record in records.iter().filter(|record| record.kind == "message") {
        let who = record.speaker.as_deref().or(record.role).unwrap_or("unknown");
        let text = if record.expired { "(removed by retention)" } else { record.text.as_deref().unwrap_or_default() };
        put(&format!("\n## {}. {who}, {}\n\n{}\n", record.number, record.at, claw::redacted(text)));
    }
    out
}
