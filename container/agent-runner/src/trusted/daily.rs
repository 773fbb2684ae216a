//! `append-to-daily-log`: lines for the log of a day, of the group's own or of all trusted agents.

use std::io::{self, Read as _};
use std::path::PathBuf;

use super::append::{Piece, append, normal};
use super::json::{Json, Text};
use super::options::{Given, Options, Usage};
use super::places::{Places, variable};
use super::{End, files, is_space, say, time};
use crate::clock;

/// The command line of `append-to-daily-log`.
pub(crate) const OPTIONS: Options = Options {
    tool: "append-to-daily-log",
    usage: "usage: append-to-daily-log --target {group,trusted} [--line TEXT]... [--lines-file PATH] [--date YYYY-MM-DD]\n\
        \x20                          [--group-daily DIR] [--trusted-daily DIR]\n\
        without --line and --lines-file, lines are read from standard input",
    values: &["--target", "--line", "--lines-file", "--date", "--group-daily", "--trusted-daily"],
    flags: &[],
};

/// Whose log it is.
#[derive(Debug, Clone, Copy)]
enum Target {
    Group,
    Trusted,
}

/// Adds lines; a line that is there already is not added again.
pub(crate) fn main(words: &[String]) -> Result<Json, End> {
    let given = OPTIONS.read(words)?;
    let target = match given.required("--target")? {
        "group" => Target::Group,
        "trusted" => Target::Trusted,
        other => {
            let message = format!("argument --target: invalid choice: '{other}' (choose from 'group', 'trusted')");
            return Err(Usage::wrong(message).into());
        }
    };
    let date = date(&given)?;
    let lines = lines(&given)?;
    let path = directory(&given, target)?.join(format!("{date}.md"));
    let pieces = lines.into_iter().map(|text| Piece { key: normal(&text), text }).collect();
    let header = format!("# Daily Summary \u{2014} {date}\n\n");
    let done = append(&path, &header, pieces, |text| text.split('\n').map(normal).collect())
        .map_err(|why| End::Failed(why.to_string()))?;
    let last = done.before.lines().rev().find_map(hour_minute);
    let first = done.kept.iter().find_map(|line| hour_minute(line));
    let out_of_order = matches!((first, last), (Some(first), Some(last)) if first < last);
    if out_of_order {
        say(
            OPTIONS.tool,
            format_args!(
                "out-of-order append on {} \u{2014} new entry's timestamp precedes the file's last timestamp. Likely a cross-group writer or a clock-skew retry; the line is appended at end-of-file regardless.",
                path.display()
            ),
        );
    }
    Ok(Json::object([
        ("path", Json::Text(Text::of_system(path.as_os_str()))),
        ("appended_lines", Json::count(done.kept.len())),
        ("dropped_duplicates", Json::count(done.dropped)),
        ("final_line_count", Json::count(done.lines)),
        ("created", Json::Bool(done.created)),
        ("out_of_order", Json::Bool(out_of_order)),
    ]))
}

fn date(given: &Given) -> Result<String, Usage> {
    let Some(date) = given.value("--date") else {
        return Ok(time::shown(i64::try_from(clock::now_ms() / 1000).unwrap_or_default(), "%Y-%m-%d"));
    };
    let wrong = || Usage::wrong(format!("--date '{date}' must be YYYY-MM-DD (ISO-8601 calendar date)"));
    if time::is(date, "%Y-%m-%d") { Ok(date.to_owned()) } else { Err(wrong()) }
}

fn directory(given: &Given, target: Target) -> Result<PathBuf, End> {
    let (option, name) = match target {
        Target::Group => ("--group-daily", "NANOCLAW_GROUP_DAILY"),
        Target::Trusted => ("--trusted-daily", "NANOCLAW_TRUSTED_DAILY"),
    };
    if let Some(dir) = given.value(option).map(PathBuf::from).or_else(|| variable(name)) {
        return Ok(dir);
    }
    let places = Places::of_process(OPTIONS.tool);
    let dir = match target {
        Target::Group => Some(places.group("memory/daily")),
        Target::Trusted => places.trusted("memory/daily"),
    };
    dir.ok_or_else(super::not_trusted)
}

/// Lines that are not blank, from where they are given.
fn lines(given: &Given) -> Result<Vec<String>, End> {
    let mut spoken = given.all("--line").peekable();
    let file = given.value("--lines-file");
    let text = match (spoken.peek().is_some(), file) {
        (true, Some(_)) => {
            let message = "specify --line OR --lines-file, not both (mixing is ambiguous)";
            return Err(Usage::wrong(message).into());
        }
        (true, None) => spoken.collect::<Vec<_>>().join("\n"),
        (false, Some(file)) => text_of_file(file)?,
        (false, None) => text_of_stdin()?,
    };
    let lines = text.split(breaks_line).filter(|line| !line.chars().all(is_space));
    let lines: Vec<String> = lines.map(str::to_owned).collect();
    if lines.is_empty() {
        let message = "no lines to append \u{2014} pass --line, --lines-file, or pipe non-empty content on stdin";
        return Err(Usage::wrong(message).into());
    }
    Ok(lines)
}

fn text_of_file(name: &str) -> Result<String, End> {
    let path = PathBuf::from(name);
    let unread =
        |error: &io::Error| Usage::wrong(format!("cannot read --lines-file {name}: {}", files::system(error, &path)));
    let bytes = match files::read(&path) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Err(unread(&rustix::io::Errno::NOENT.into()).into()),
        Err(error) => return Err(unread(&error).into()),
    };
    String::from_utf8(bytes).map_err(|error| End::Failed(format!("--lines-file {name}: {error}")))
}

fn text_of_stdin() -> Result<String, End> {
    let mut text = String::new();
    let read = io::stdin().lock().take(files::READ_BYTES).read_to_string(&mut text);
    read.map(|_| text).map_err(|error| End::Failed(format!("cannot read standard input: {error}")))
}

fn breaks_line(character: char) -> bool {
    super::breaks_line(character) || ('\u{1c}'..='\u{1e}').contains(&character)
}

/// `HH:MM` of a line that begins with `- HH:MM UTC`.
fn hour_minute(line: &str) -> Option<String> {
    let time = line.strip_prefix("- ")?.split(" UTC").next()?;
    let shaped = line.strip_prefix("- ")?.get(5..9) == Some(" UTC");
    let digits = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
    let (hour, minute) = time.split_once(':')?;
    if shaped && digits(hour) && digits(minute) { Some(time.to_owned()) } else { None }
}
