//! `hearth sessions transcript|memory|du`: data that providers and agents keep outside the store. Agents can write to
//! all of it, so it is shown but never trusted.

use std::io::{BufRead as _, BufReader, Read as _};

use serde::Serialize;
use serde_json::Value as Json;

use super::listed::{self, Column, Listed};
use super::{Done, Failure, entity, human_size, human_time, lookup, print, sessions};
use crate::config::Paths;
use crate::contracts::transcript::{self, COUNTED_MAX, TranscriptFile, Usage};
use crate::contracts::{Error, memory};
use crate::model::entity::Folder;
use crate::model::id::SessionId;
use crate::model::session::{ChatSession, Session, SessionStatus};
use crate::state::{self, Read, Reader, SessionKey, Tables};

/// Longest line of a transcript that is shown, in bytes.
const LINE_MAX: u64 = 32 << 20;
/// Maximum characters shown of a tool's input or output.
const EXCERPT_CHARS: usize = 300;
/// Length from which on a conversation should be reset, in messages and bytes.
///
/// From NanoClaw's advice on keeping sessions small, and what it measured of a thousand messages.
const LONG_MESSAGES: u64 = 500;
const LONG_BYTES: u64 = 10_000_000;
/// Maximum number of sessions that `hearth status` looks at, most recently active first.
const LOOKED_AT: usize = 200;

/// Shows the provider's record of a session.
pub(super) fn transcript(paths: &Paths, reader: &Reader, session: SessionId, json: bool) -> Done {
    let folder = folder_of(reader, session)?;
    let file = match transcript::find_transcript(paths, session, &folder)? {
        TranscriptFile::Transcript { file, .. } => file,
        TranscriptFile::None(why) => {
            let advice = "`hearth sessions show` shows the session itself";
            return Err(Failure::Failed(format!("no transcript of {session}: {why}; {advice}")));
        }
    };
    let mut lines = BufReader::new(file);
    let mut strange = 0_usize;
    loop {
        let mut line = Vec::new();
        if lines.by_ref().take(LINE_MAX).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        match serde_json::from_slice::<Json>(&line) {
            Ok(_) if json => print::verbatim(String::from_utf8_lossy(&line).trim_end())?,
            Ok(value) => turn(&value)?,
            // The last line may be incomplete, and the agent may have written any line.
            Err(_) => strange += usize::from(!line.trim_ascii().is_empty()),
        }
    }
    if strange > 0 {
        print::note(&format!("{strange} lines are not JSON and were skipped"));
    }
    Ok(())
}

/// Prints a line of a transcript if it belongs to a turn.
fn turn(line: &Json) -> Done {
    let message = line.get("message").unwrap_or(line);
    let Some(role) = message.get("role").and_then(Json::as_str) else { return Ok(()) };
    let at = line.get("timestamp").and_then(Json::as_str).map(human_time::local).unwrap_or_default();
    let side = if line.get("isSidechain").and_then(Json::as_bool) == Some(true) { " (subagent)" } else { "" };
    for text in said(message.get("content").unwrap_or(&Json::Null)) {
        print::line(&escaped(format!("{at} {role}{side}:").trim_start()))?;
        text.lines().try_for_each(|line| print::line(&format!("  {}", escaped(line))))?;
    }
    Ok(())
}

/// The texts of a message's parts.
fn said(content: &Json) -> Vec<String> {
    match content {
        Json::String(text) => vec![text.clone()],
        Json::Array(parts) => parts.iter().filter_map(part).collect(),
        _ => Vec::new(),
    }
}

fn part(part: &Json) -> Option<String> {
    let text = |key: &str| part.get(key).and_then(Json::as_str);
    match text("type")? {
        "text" => text("text").map(str::to_owned),
        "tool_use" => {
            let input = part.get("input").map(Json::to_string).unwrap_or_default();
            Some(format!("[{} {}]", text("name").unwrap_or("a tool"), excerpt(&input)))
        }
        "tool_result" => {
            let result = said(part.get("content")?).join(" ");
            Some(format!("[result: {}]", excerpt(&result)))
        }
        // A model's thinking is not part of its message.
        _ => None,
    }
}

fn excerpt(text: &str) -> String {
    let mut cut: String = text.chars().take(EXCERPT_CHARS).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    cut
}

/// Escapes control characters.
fn escaped(line: &str) -> String {
    let one = |c: char| if c.is_control() && c != '\t' { c.escape_unicode().to_string() } else { c.to_string() };
    line.chars().map(one).collect()
}

/// One file of `hearth sessions memory --json`.
#[derive(Debug, Serialize)]
struct MemoryFile {
    file: String,
    bytes: u64,
    /// Null if it is not shown.
    text: Option<String>,
    /// Why it is not shown.
    refused: Option<String>,
}

/// Shows the memory files of an agent.
pub(super) fn memory(paths: &Paths, agent: &str, json: bool) -> Done {
    let folder = Folder::new(agent)?;
    if !paths.group(&folder).is_dir() && !paths.home(&folder).is_dir() {
        return Err(entity::missing("agent", agent));
    }
    let notes = memory::notes(paths, &folder)?.into_iter().map(|note| {
        let (text, refused) = match note.text {
            Ok(text) => (Some(text), None),
            Err(why) => (None, Some(why)),
        };
        MemoryFile { file: note.file, bytes: note.bytes, text, refused }
    });
    let notes: Vec<MemoryFile> = notes.collect();
    if json {
        return print::json(&serde_json::json!({ "memory": notes }));
    }
    if notes.is_empty() {
        return print::line("no memory");
    }
    for note in &notes {
        print::line(&format!("{} ({})", escaped(&note.file), human_size::decimal(note.bytes)))?;
        match (&note.text, &note.refused) {
            (Some(text), _) => text.lines().try_for_each(|line| print::line(&format!("  {}", escaped(line))))?,
            (None, why) => print::line(&format!("  (not shown: {})", why.as_deref().unwrap_or_default()))?,
        }
    }
    Ok(())
}

/// Disk usage of a session, in bytes.
#[derive(Debug, Serialize)]
struct SessionUse {
    session: String,
    agent: String,
    transcript: u64,
    mailbox: u64,
}

/// Disk usage of an agent, in bytes.
#[derive(Debug, Serialize)]
struct AgentUse {
    agent: String,
    folder: u64,
    /// Its home, including transcripts.
    home: u64,
    /// Its memory files, which are part of both.
    memory: u64,
}

impl Listed for SessionUse {
    const PLURAL: &'static str = "sessions";
    const COLUMNS: &'static [Column<Self>] = &[
        ("SESSION", |one| one.session.clone()),
        ("AGENT", |one| one.agent.clone()),
        ("TRANSCRIPT", |one| human_size::decimal(one.transcript)),
        ("MAILBOX", |one| human_size::decimal(one.mailbox)),
    ];
}

impl Listed for AgentUse {
    const PLURAL: &'static str = "agents";
    const COLUMNS: &'static [Column<Self>] = &[
        ("AGENT", |one| one.agent.clone()),
        ("FOLDER", |one| human_size::decimal(one.folder)),
        ("HOME", |one| human_size::decimal(one.home)),
        ("MEMORY", |one| human_size::decimal(one.memory)),
    ];
}

/// Shows the disk usage of sessions and agents.
pub(super) fn du(paths: &Paths, reader: &Reader, json: bool) -> Done {
    let mut cut = false;
    let mut count = |usage: Usage| {
        cut |= usage.cut;
        usage.bytes
    };
    let mut sessions = Vec::new();
    for (id, folder, _) in reader.read(all)? {
        sessions.push(SessionUse {
            session: id.to_string(),
            transcript: bytes(paths, id, &folder)?,
            mailbox: count(transcript::usage(&paths.session(id), COUNTED_MAX)?),
            agent: folder.to_string(),
        });
    }
    sessions.sort_by_key(|one| std::cmp::Reverse(one.transcript.saturating_add(one.mailbox)));
    let mut agents = Vec::new();
    for agent in reader.read(super::configuration::collect)?.agents {
        let folder = agent.folder;
        agents.push(AgentUse {
            folder: count(transcript::usage_below(&paths.groups(), folder.as_str(), COUNTED_MAX)?),
            home: count(transcript::usage_below(&paths.homes(), folder.as_str(), COUNTED_MAX)?),
            memory: memory::notes(paths, &folder)?.iter().map(|note| note.bytes).sum(),
            agent: folder.to_string(),
        });
    }
    if cut {
        print::warning("a directory has more or deeper files than Hearth counts: it uses more space than shown");
    }
    if json {
        return print::json(&serde_json::json!({ "sessions": sessions, "agents": agents }));
    }
    listed::table(&agents)?;
    if sessions.is_empty() {
        return Ok(());
    }
    print::line("")?;
    listed::table(&sessions)
}

/// Messages about conversations that should be reset, with the folders of their agents. Only the most recent ones are
/// looked at: one that no one uses costs nothing, and reading all would take longer with every conversation.
pub(super) fn long(paths: &Paths, db: &Tables, txn: &Read<'_>) -> Result<Vec<(Folder, String)>, state::Error> {
    let mut long = Vec::new();
    for (id, session) in sessions::newest_of(db, txn, None, LOOKED_AT)? {
        let Some(agent) = db.agents.get(txn, &session.agent)?.filter(|_| session.status == SessionStatus::Active)
        else {
            continue;
        };
        let folder = agent.folder;
        let what = if session.messages > LONG_MESSAGES {
            format!("{} messages", session.messages)
        } else {
            match bytes(paths, id, &folder).unwrap_or(0) {
                bytes if bytes > LONG_BYTES => format!("a transcript of {} MB", bytes / 1_000_000),
                _ => continue,
            }
        };
        let words = format!(
            "session {id} of {folder} has {what}, which makes it slow and unreliable; `hearth sessions \
         reset {id}` resets it"
        );
        long.push((folder, words));
    }
    Ok(long)
}

fn bytes(paths: &Paths, session: SessionId, folder: &Folder) -> Result<u64, Error> {
    Ok(match transcript::find_transcript(paths, session, folder)? {
        TranscriptFile::Transcript { bytes, .. } => bytes,
        TranscriptFile::None(_) => 0,
    })
}

pub(super) fn all(db: &Tables, txn: &Read<'_>) -> Result<Vec<(SessionId, Folder, ChatSession)>, state::Error> {
    let mut all = Vec::new();
    for row in db.sessions.iter(txn)? {
        let (SessionKey { session: id, .. }, Session::Chat(session)) = row? else { continue };
        if let Some(agent) = db.agents.get(txn, &session.agent)? {
            all.push((id, agent.folder, session));
        }
    }
    Ok(all)
}

fn folder_of(reader: &Reader, session: SessionId) -> Result<Folder, Failure> {
    let found = reader.read(|db, txn| {
        let Some(found) = lookup::session(db, txn, session)? else { return Ok(None) };
        Ok::<_, state::Error>(db.agents.get(txn, &found.agent)?.map(|agent| agent.folder))
    })?;
    found.ok_or_else(|| entity::missing("session", &session.to_string()))
}
