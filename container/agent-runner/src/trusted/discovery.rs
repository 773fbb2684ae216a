//! `append-daily-discovery`: records a finding that may be worth remembering.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::append::{AppendError, Piece, append, normal};
use super::files::LockError;
use super::json::{Json, Text};
use super::options::{Options, ParsedArgs, Usage};
use super::places::{Places, variable};
use super::{End, breaks_line, is_space, time};
use crate::clock;

/// The command line of `append-daily-discovery`.
pub(crate) const OPTIONS: Options = Options {
    tool: "append-daily-discovery",
    usage: "usage: append-daily-discovery --what TEXT --context TEXT --promote-to TEXT [--timestamp 'YYYY-MM-DD HH:MM UTC']\n\
        \x20                             [--discoveries-file PATH]",
    values: &["--what", "--context", "--promote-to", "--timestamp", "--discoveries-file"],
    flags: &[],
};

const HEADER: &str = "# Daily Discoveries\n\n";
const TIME: &str = "%Y-%m-%d %H:%M UTC";

/// Appends a finding, unless it is already recorded with any time.
pub(crate) fn main(words: &[String]) -> Result<Json, End> {
    let given = OPTIONS.read(words)?;
    let fields = [("--what", "What"), ("--context", "Context"), ("--promote-to", "Promote to")];
    for (option, _) in fields {
        given.required(option)?;
    }
    let timestamp = timestamp(&given)?;
    let mut body = Vec::new();
    for (option, label) in fields {
        body.push(format!("**{label}:** {}", field(&given, option)?));
    }
    let body = body.join("\n");
    let piece = Piece { text: format!("## {timestamp}\n{body}"), key: normal(&body) };
    let path = file(&given)?;
    let done = append(&path, HEADER, vec![piece], known)
        .map_err(|why| End::Failed(format!("{why}\n  fix: {}", remedy(&why, &path))))?;
    let appended = !done.kept.is_empty();
    Ok(Json::object([
        ("path", Json::Text(Text::of_system(path.as_os_str()))),
        ("appended", Json::Bool(appended)),
        ("dropped_duplicate", Json::Bool(!appended)),
        ("created", Json::Bool(done.created)),
        ("timestamp", if appended { Json::text(&timestamp) } else { Json::Null }),
    ]))
}

/// The script's advice after an error.
fn remedy(error: &AppendError, path: &Path) -> String {
    let dir = path.parent().unwrap_or(path).display();
    let elsewhere =
        "override with --discoveries-file <path> or set the NANOCLAW_DISCOVERIES_FILE env var to a writable path.";
    match error {
        AppendError::Lock(LockError::Open { .. }) => format!(
            "verify {dir} exists and is writable for this process; if the canonical mount is unavailable, {elsewhere}"
        ),
        AppendError::Lock(LockError::Failed { .. } | LockError::Busy { .. }) => {
            "another writer is likely holding the lock; retry in a few seconds.".to_owned()
        }
        AppendError::Io { .. } | AppendError::NotText { .. } => format!(
            "check disk space and that {dir} is writable for this process. If the canonical mount is unavailable, {elsewhere}"
        ),
    }
}

/// Checks that a value is a single line, and trims it. The file is read as trusted memory, so a value must not add
/// headings.
fn field<'a>(given: &'a ParsedArgs, option: &str) -> Result<&'a str, Usage> {
    let value = given.required(option)?;
    let trimmed = value.trim_matches(is_space);
    if trimmed.is_empty() {
        return Err(Usage::wrong(format!("{option} must be non-empty")));
    }
    if value.contains(breaks_line) {
        return Err(Usage::wrong(format!("{option} must be a single line (no CR/LF characters)")));
    }
    Ok(trimmed)
}

fn timestamp(given: &ParsedArgs) -> Result<String, Usage> {
    match given.value("--timestamp") {
        None => Ok(time::shown(i64::try_from(clock::now_ms() / 1000).unwrap_or_default(), TIME)),
        Some(text) if time::is(text, TIME) => Ok(text.to_owned()),
        Some(text) => Err(Usage::wrong(format!("--timestamp '{text}' must match `YYYY-MM-DD HH:MM UTC`"))),
    }
}

fn file(given: &ParsedArgs) -> Result<PathBuf, End> {
    let told = given.value("--discoveries-file").map(PathBuf::from).or_else(|| variable("NANOCLAW_DISCOVERIES_FILE"));
    let own = || Places::of_process(OPTIONS.tool).trusted("memory/daily_discoveries.md");
    told.or_else(own).ok_or_else(super::not_trusted)
}

/// The content of the file by blocks, without their time lines.
fn known(text: &str) -> HashSet<String> {
    let body = |block: &str| {
        let lines: Vec<&str> = block.lines().filter(|line| !is_stamp(line)).collect();
        normal(&lines.join("\n"))
    };
    text.split("\n\n").map(body).collect()
}

/// Whether a line is the heading of a block, with its time.
fn is_stamp(line: &str) -> bool {
    line.strip_prefix("## ").is_some_and(|stamp| time::is(stamp.trim_end_matches(is_space), TIME))
}
