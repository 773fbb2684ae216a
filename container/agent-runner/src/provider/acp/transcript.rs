//! Keeps what this side sees of an agent's turns, because the agents' own records have formats of their own.
//!
//! The lines have the form of the Claude CLI's transcripts, and lie in the agent's home. The agent can change them.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use serde_json::{Value, json};

use super::words::Call;
use crate::clock;
use crate::log;

/// The directory below the agent's home.
const DIR: &str = ".hearth/transcripts";
/// Length from which on a file is begun anew. The one before it is kept.
const BYTES: u64 = 16 << 20;
/// Maximum length of the prompt and of the text in a line.
const TEXT_CHARS: usize = 200_000;

/// A turn that ended.
#[derive(Debug)]
pub(super) struct Record<'a> {
    pub(super) prompt: &'a str,
    pub(super) calls: &'a [Call],
    /// What the agent said, or why it failed.
    pub(super) said: &'a str,
}

/// Adds a turn to the transcript of a session. A transcript that cannot be written is no failure of the turn.
pub(super) fn add(home: &Path, session: &str, record: &Record<'_>) {
    if !is_name(session) {
        return;
    }
    if let Err(error) = append(&home.join(DIR), session, record) {
        log::note(format_args!("the transcript in {} cannot be written: {error}", home.join(DIR).display()));
    }
}

fn append(dir: &Path, session: &str, record: &Record<'_>) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let path = dir.join(format!("{session}.jsonl"));
    if fs::metadata(&path).is_ok_and(|file| file.len() > BYTES) {
        fs::rename(&path, dir.join(format!("{session}.before.jsonl")))?;
    }
    let tools =
        record.calls.iter().map(|Call { name, detail, .. }| json!({"type": "tool_use", "name": name, "input": detail}));
    let said = json!({"type": "text", "text": bounded(record.said)});
    let content: Vec<Value> = tools.chain([said]).collect();
    let now = clock::now_iso();
    let line = |role: &str, content: Value| json!({"timestamp": now, "message": {"role": role, "content": content}});
    let text = format!("{}\n{}\n", line("user", bounded(record.prompt).into()), line("assistant", content.into()));
    OpenOptions::new().create(true).append(true).open(path)?.write_all(text.as_bytes())
}

fn bounded(text: &str) -> String {
    text.chars().take(TEXT_CHARS).collect()
}

/// Whether an agent's id for a session can be the name of a file.
fn is_name(id: &str) -> bool {
    !id.is_empty() && id.len() <= 100 && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_transcript_begins_anew_and_no_id_leads_elsewhere() {
        let home = tempfile::tempdir().unwrap();
        let record = Record { prompt: "hi", calls: &[], said: "hello" };
        add(home.path(), "s1", &record);
        add(home.path(), "s1", &record);
        let dir = home.path().join(DIR);
        let path = dir.join("s1.jsonl");
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 4);
        OpenOptions::new().write(true).open(&path).unwrap().set_len(BYTES + 1).unwrap();
        add(home.path(), "s1", &record);
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 2);
        assert!(dir.join("s1.before.jsonl").exists());
        for id in ["", "../x", "a/b", ".x", &"x".repeat(101)] {
            add(home.path(), id, &record);
        }
        assert_eq!(fs::read_dir(dir).unwrap().count(), 2);
    }
}
