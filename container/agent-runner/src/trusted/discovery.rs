//! `append-daily-discovery`: something that was learned and may be worth keeping.

use std::collections::HashSet;
use std::path::PathBuf;

use super::append::{Piece, append, normal};
use super::json::{Json, Text};
use super::options::{Given, Options, Usage};
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

/// Adds a discovery; one that was noted at another time is not added again.
pub(crate) fn main(words: &[String]) -> Result<Json, End> {
    let given = OPTIONS.read(words)?;
    let fields = [("--what", "What"), ("--context", "Context"), ("--promote-to", "Promote to")];
    let mut body = Vec::new();
    for (option, label) in fields {
        body.push(format!("**{label}:** {}", field(&given, option)?));
    }
    let timestamp = timestamp(&given)?;
    let body = body.join("\n");
    let piece = Piece { text: format!("## {timestamp}\n{body}"), key: normal(&body) };
    let path = file(&given)?;
    let done = append(&path, HEADER, vec![piece], known).map_err(|why| {
        End::Failed(format!(
            "{why}\n  fix: make {} a file that can be read and written, and run this again",
            path.display()
        ))
    })?;
    let appended = !done.kept.is_empty();
    Ok(Json::object([
        ("path", Json::Text(Text::of_system(path.as_os_str()))),
        ("appended", Json::Bool(appended)),
        ("dropped_duplicate", Json::Bool(!appended)),
        ("created", Json::Bool(done.created)),
        ("timestamp", if appended { Json::text(&timestamp) } else { Json::Null }),
    ]))
}

/// One line, without white space around it: this file is read as trusted memory, and nobody may add headings to it.
fn field<'a>(given: &'a Given, option: &str) -> Result<&'a str, Usage> {
    let value = given.required(option)?;
    if value.contains(breaks_line) {
        return Err(Usage::wrong(format!("{option} must be a single line")));
    }
    let value = value.trim_matches(is_space);
    if value.is_empty() { Err(Usage::wrong(format!("{option} must not be blank"))) } else { Ok(value) }
}

fn timestamp(given: &Given) -> Result<String, Usage> {
    match given.value("--timestamp") {
        None => Ok(time::shown(i64::try_from(clock::now_ms() / 1000).unwrap_or_default(), TIME)),
        Some(text) if time::is(text, TIME) => Ok(text.to_owned()),
        Some(text) => Err(Usage::wrong(format!("--timestamp '{text}' must be 'YYYY-MM-DD HH:MM UTC'"))),
    }
}

fn file(given: &Given) -> Result<PathBuf, End> {
    let told = given.value("--discoveries-file").map(PathBuf::from).or_else(|| variable("NANOCLAW_DISCOVERIES_FILE"));
    let own = || Places::of_process(OPTIONS.tool).trusted("memory/daily_discoveries.md");
    told.or_else(own).ok_or_else(super::not_trusted)
}

/// What is in the file, block by block without the lines that say when.
fn known(text: &str) -> HashSet<String> {
    let body = |block: &str| {
        let lines: Vec<&str> = block.lines().filter(|line| !line.trim_start().starts_with("## ")).collect();
        normal(&lines.join("\n"))
    };
    text.split("\n\n").map(body).collect()
}
