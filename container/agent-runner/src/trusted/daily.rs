//! `append-to-daily-log`: appends lines to a day's log, of the group or of all trusted agents.

use std::io::{self, Read as _};
use std::path::PathBuf;

use super::append::{Piece, append, normal};
use super::json::{Json, Text};
use super::options::{Options, ParsedArgs, Usage};
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

/// The log to append to.
#[derive(Debug, Clone, Copy)]
enum LogOwner {
    Group,
    Trusted,
}

/// Appends lines without duplicates.
pub(crate) fn main(words: &[String]) -> Result<Json, End> {
    let given = OPTIONS.read(words)?;
    let target = match given.required("--target")? {
        "group" => LogOwner::Group,
        "trusted" => LogOwner::Trusted,
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
    let last = done.before.rsplit(breaks_line).find_map(hour_minute);
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

fn date(given: &ParsedArgs) -> Result<String, Usage> {
    let Some(date) = given.value("--date") else {
        return Ok(time::shown(i64::try_from(clock::now_ms() / 1000).unwrap_or_default(), "%Y-%m-%d"));
    };
    let wrong = || Usage::wrong(format!("--date '{date}' must be YYYY-MM-DD (ISO-8601 calendar date)"));
    if time::is(date, "%Y-%m-%d") { Ok(date.to_owned()) } else { Err(wrong()) }
}

fn directory(given: &ParsedArgs, target: LogOwner) -> Result<PathBuf, End> {
    let (option, name) = match target {
        LogOwner::Group => ("--group-daily", "NANOCLAW_GROUP_DAILY"),
        LogOwner::Trusted => ("--trusted-daily", "NANOCLAW_TRUSTED_DAILY"),
    };
    if let Some(dir) = given.value(option).map(PathBuf::from).or_else(|| variable(name)) {
        return Ok(dir);
    }
    let places = Places::of_process(OPTIONS.tool);
    let dir = match target {
        LogOwner::Group => Some(places.group("memory/daily")),
        LogOwner::Trusted => places.trusted("memory/daily"),
    };
    dir.ok_or_else(super::not_trusted)
}

/// The non-blank lines from `--line`, `--lines-file` or standard input.
fn lines(given: &ParsedArgs) -> Result<Vec<String>, End> {
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

/// `HH:MM` of a line that begins with `- HH:MM UTC`, with any white space between the parts.
fn hour_minute(line: &str) -> Option<&str> {
    let rest = after_space(line.strip_prefix('-')?)?;
    let (time, rest) = rest.split_at_checked(5)?;
    let [a, b, b':', c, d] = time.as_bytes() else { return None };
    let after = after_space(rest)?.strip_prefix("UTC")?;
    let in_word = after.starts_with(|next: char| next.is_alphanumeric() || next == '_');
    let digits = [a, b, c, d].into_iter().all(u8::is_ascii_digit);
    (digits && !in_word).then_some(time)
}

/// The text after its leading white space, if it has any.
fn after_space(text: &str) -> Option<&str> {
    let rest = text.trim_start_matches(is_space);
    (rest.len() < text.len()).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_line_is_read_as_the_script_reads_it() {
        for (line, time) in [
            ("- 09:30 UTC \u{2014} x", Some("09:30")),
            ("-  09:30\tUTC", Some("09:30")),
            ("- 09:30 UTC[main]", Some("09:30")),
            ("- 09:30 UTCx", None),
            ("- 09:30UTC x", None),
            ("-09:30 UTC x", None),
            ("- 9:30 UTC x", None),
            (" - 09:30 UTC x", None),
            ("- \u{e9}\u{e9}:30 UTC", None),
            ("-", None),
        ] {
            assert_eq!(hour_minute(line), time, "{line}");
        }
    }
}
