//! Prepares the compaction of a conversation: archives its text for people, and tells the summary what to keep.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};

use hearth_wire::{Context, Destination};
use serde_json::Value;

use crate::clock::{Local, local_now};
use crate::roots::Roots;

/// Directory of archives, in the agent's working directory, or in its home if that is read-only.
const DIRECTORY: &str = "conversations";
/// Maximum length of an archived message in characters.
const MESSAGE_LETTERS: usize = 2000;
/// Maximum length of a file name derived from a summary.
const NAME_LETTERS: usize = 50;
/// Size limit of a transcript in bytes; of a longer one only the beginning is archived.
const TRANSCRIPT_BYTES: u64 = 256 * 1024 * 1024;
/// Maximum number of archives with the same name on one day.
const SAME_NAMES: u32 = 1000;

/// Instructions for the summary, which the CLI adds to its own.
pub(super) fn instructions(destinations: &[Destination]) -> String {
    let names: Vec<String> = destinations.iter().map(|destination| format!("`{}`", destination.name)).collect();
    let names = if names.is_empty() { "(none)".to_owned() } else { format!("{}.", names.join(", ")) };
    format!(
        "Keep the recent messages with their full XML structure: `<message from sender time>`, `<task from time>` and \
         `<webhook from source event>` with all attributes. Keep messages and the replies to them in their order, so \
         that it stays clear what was answered and where. End the summary with this reminder, word for word:\n\n\
         Text without a block goes to the chat that you answer; to write elsewhere, wrap it in \
         <message to=\"name\">...</message>.\nAvailable destinations: {names}"
    )
}

/// `Context compacted (19,146 tokens compacted).`
pub(super) fn notice(tokens: Option<u64>) -> String {
    match tokens {
        Some(tokens) => format!("Context compacted ({} tokens compacted).", grouped(tokens)),
        None => "Context compacted.".to_owned(),
    }
}

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// Writes the transcript as a page for people and returns its path; `None` if there is nothing to write.
pub(super) fn archive(transcript: &Path, context: &Context, roots: &Roots) -> Result<Option<PathBuf>, String> {
    let failed = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let said = read(transcript).map_err(|error| failed(transcript, &error))?;
    if said.messages.is_empty() {
        return Ok(None);
    }
    let now = local_now(&context.timezone);
    let assistant = if context.agent_name.is_empty() { "Assistant" } else { &context.agent_name };
    let page = page(&said, &now, assistant);
    let name = file_name(said.summary.as_deref(), &now);
    let mut refusals = Vec::new();
    for root in [&roots.group, &roots.home] {
        let dir = root.join(DIRECTORY);
        match write_new(&dir, &name, page.as_bytes()) {
            Ok(path) => return Ok(Some(path)),
            Err(error) => refusals.push(failed(&dir, &error)),
        }
    }
    Err(refusals.join("; "))
}

/// The readable content of a transcript.
#[derive(Debug, Default, PartialEq)]
struct TranscriptText {
    summary: Option<String>,
    /// Whether the user wrote it, and the text.
    messages: Vec<(bool, String)>,
}

fn read(transcript: &Path) -> io::Result<TranscriptText> {
    let mut said = TranscriptText::default();
    for line in BufReader::new(File::open(transcript)?.take(TRANSCRIPT_BYTES)).split(b'\n') {
        // New CLI versions add kinds of lines, and the last line may be truncated.
        if let Ok(line) = serde_json::from_slice::<Value>(&line?) {
            take(&line, &mut said);
        }
    }
    Ok(said)
}

fn take(line: &Value, said: &mut TranscriptText) {
    let flag = |name: &str| line.get(name).and_then(Value::as_bool) == Some(true);
    let word = |name: &str| line.get(name).and_then(Value::as_str);
    let kind = word("type").unwrap_or_default();
    if kind == "summary" {
        said.summary = word("summary").map(str::to_owned).filter(|summary| !summary.trim().is_empty());
    }
    if !["user", "assistant"].contains(&kind) || flag("isSidechain") || flag("isMeta") || flag("isCompactSummary") {
        return;
    }
    let text = match line.pointer("/message/content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => {
            let texts = blocks.iter().filter(|block| block.get("type").and_then(Value::as_str) == Some("text"));
            texts.filter_map(|block| block.get("text").and_then(Value::as_str)).collect::<Vec<_>>().join("\n")
        }
        _ => return,
    };
    if !text.trim().is_empty() {
        said.messages.push((kind == "user", text.trim().to_owned()));
    }
}

fn page(said: &TranscriptText, now: &Local, assistant: &str) -> String {
    let title = said.summary.as_deref().map_or("Conversation", str::trim);
    let mut page = format!("# {title}\n\nArchived: {}\n\n---\n\n", now.shown);
    for (is_user, text) in &said.messages {
        let who = if *is_user { "User" } else { assistant };
        let cut: String = text.chars().take(MESSAGE_LETTERS).collect();
        let more = if cut.len() < text.len() { "..." } else { "" };
        if writeln!(page, "**{who}**: {cut}{more}\n").is_err() {
            // Writing to a string cannot fail.
        }
    }
    page
}

/// The file name without its extension.
fn file_name(summary: Option<&str>, now: &Local) -> String {
    let slug: String = summary
        .unwrap_or_default()
        .to_lowercase()
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join("-")
        .chars()
        .take(NAME_LETTERS)
        .collect();
    let slug = slug.trim_end_matches('-');
    let name = if slug.is_empty() { format!("conversation-{}", now.hour_minute) } else { slug.to_owned() };
    format!("{}-{name}", now.date)
}

/// Writes a new file with this name, or a variant of it if the name exists.
fn write_new(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    fs::create_dir_all(dir)?;
    for number in 1..=SAME_NAMES {
        let ending = if number == 1 { String::new() } else { format!("-{number}") };
        let path = dir.join(format!("{name}{ending}.md"));
        match File::create_new(&path) {
            Ok(mut file) => return file.write_all(bytes).map(|()| path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other(format!("there are {SAME_NAMES} files named like {name} already")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Local {
        Local { date: "2026-01-02".to_owned(), hour_minute: "0304".to_owned(), shown: "Jan 2, 3:04 AM".to_owned() }
    }

    #[test]
    fn numbers_have_separators() {
        for (tokens, expected) in [
            (Some(0), "Context compacted (0 tokens compacted)."),
            (Some(999), "Context compacted (999 tokens compacted)."),
            (Some(19_146), "Context compacted (19,146 tokens compacted)."),
            (Some(1_234_567), "Context compacted (1,234,567 tokens compacted)."),
            (None, "Context compacted."),
        ] {
            assert_eq!(notice(tokens), expected);
        }
    }

    #[test]
    fn names_come_from_the_summary_or_the_clock() {
        for (summary, expected) in [
            (None, "2026-01-02-conversation-0304"),
            (Some("Plans for Zoë's trip!"), "2026-01-02-plans-for-zo-s-trip"),
            (Some("../../etc/passwd"), "2026-01-02-etc-passwd"),
            (Some("日本語"), "2026-01-02-conversation-0304"),
        ] {
            assert_eq!(file_name(summary, &now()), expected);
        }
        assert_eq!(file_name(Some(&"word ".repeat(40)), &now()).len(), "2026-01-02-".len() + 49);
    }

    #[test]
    fn only_what_people_can_read_is_kept() {
        let transcript = concat!(
            "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"hello\"}}\n",
            "{\"type\":\"summary\",\"summary\":\"A talk\"}\n",
            "half a li\n",
            "{\"type\":\"user\",\"isMeta\":true,\"message\":{\"content\":\"meta\"}}\n",
            "{\"type\":\"assistant\",\"isSidechain\":true,\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"side\"}]}}\n",
            "{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"tool_use\"},{\"type\":\"text\",\"text\":\"hi\"}]}}\n",
            "{\"type\":\"user\",\"message\":{\"content\":[{\"type\":\"tool_result\",\"content\":\"x\"}]}}\n",
            "{\"type\":\"queue-operation\"}\n",
        );
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.jsonl");
        fs::write(&path, transcript).unwrap();
        let said = read(&path).unwrap();
        assert_eq!(
            page(&said, &now(), "Andy"),
            "# A talk\n\nArchived: Jan 2, 3:04 AM\n\n---\n\n**User**: hello\n\n**Andy**: hi\n\n"
        );
        let long = TranscriptText { summary: None, messages: vec![(true, "ö".repeat(2001))] };
        let shown = page(&long, &now(), "Andy");
        assert!(shown.starts_with("# Conversation\n") && shown.ends_with("ö...\n\n"), "{shown}");
    }

    #[test]
    fn archives_do_not_replace_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let names: Vec<String> = (0..3)
            .map(|_| write_new(dir.path(), "a", b"x").unwrap().file_name().unwrap().to_str().unwrap().to_owned())
            .collect();
        assert_eq!(names, ["a.md", "a-2.md", "a-3.md"]);
    }

    #[test]
    fn the_summary_is_told_the_destinations() {
        assert!(instructions(&[]).ends_with("</message>.\nAvailable destinations: (none)"));
    }
}
