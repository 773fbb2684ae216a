//! What commands print: the only place that writes to standard output and standard error.
//!
//! Colours, wrapped tables and progress are for terminals; what is read by anything else is plain text.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::Failure;
use crate::config::env::env_lookup;

/// How a word is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Good,
    Warning,
    Bad,
}

/// Prints a line. A closed pipe ends the command quietly, as `head` expects.
pub(super) fn line(text: &str) -> Result<(), Failure> {
    raw(&plain(text))
}

/// Prints a line that begins with a word of some tone.
pub(super) fn toned(tone: Tone, word: &str, rest: &str) -> Result<(), Failure> {
    raw(&format!("{}{}", paint(tone, word, coloured(&io::stdout())), plain(rest)))
}

/// Prints a value as one line of JSON, which means the same on a terminal and does nothing else there.
pub(super) fn json(value: &impl serde::Serialize) -> Result<(), Failure> {
    raw(&escaped(&serde_json::to_string(value)?))
}

/// With what a terminal could obey as JSON writes it: such characters stand only within its strings.
pub(super) fn escaped(json: &str) -> Cow<'_, str> {
    if json.chars().all(is_harmless) {
        return json.into();
    }
    let code = |c: char| format!("\\u{:04x}", u32::from(c));
    json.chars().map(|c| if is_harmless(c) { c.to_string() } else { code(c) }).collect::<String>().into()
}

fn raw(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::UNREAD),
        done => Ok(done?),
    }
}

/// Prints what a program reads back: exactly as it is, except on a terminal.
pub(super) fn verbatim(text: &str) -> Result<(), Failure> {
    if io::stdout().is_terminal() { line(text) } else { raw(text) }
}

/// Says what went wrong.
pub(super) fn error(message: &str) {
    tell(&format!("{} {}", paint(Tone::Bad, "hearth:", coloured(&io::stderr())), plain(message)));
}

/// Says something that is not the answer itself.
pub(super) fn note(message: &str) {
    tell(&plain(message));
}

/// Says a line to whoever listens on standard error; nobody does any more where that cannot be written to.
fn tell(text: &str) {
    drop(writeln!(io::stderr().lock(), "{text}"));
}

/// Waits so long, or until nobody reads standard output any more; whether somebody still does.
pub(super) fn is_read_for(time: Duration) -> Result<bool, Failure> {
    let Ok(timeout) = Timespec::try_from(time) else { return Ok(true) };
    let out = io::stdout();
    // Only what is told unasked counts: an error, and that the other side hung up.
    let mut watched = [PollFd::new(&out, PollFlags::empty())];
    match poll(&mut watched, Some(&timeout)) {
        Ok(told) => Ok(told == 0),
        Err(Errno::INTR) => Ok(true),
        Err(error) => Err(io::Error::from(error).into()),
    }
}

/// Asks something at a terminal; the answer is typed behind it.
pub(super) fn question(text: &str) -> Result<(), Failure> {
    let mut screen = io::stderr().lock();
    Ok(write!(screen, "{}", plain(text)).and_then(|()| screen.flush())?)
}

/// Says what may become a trouble.
pub(super) fn warning(message: &str) {
    tell(&format!("{} {}", paint(Tone::Warning, "warning:", coloured(&io::stderr())), plain(message)));
}

/// Whether colours are wanted: on a terminal that has some, unless `NO_COLOR` is set.
pub(super) fn coloured(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && decide_colour(env_lookup("NO_COLOR").as_deref(), env_lookup("TERM").as_deref())
}

fn decide_colour(no_color: Option<&str>, term: Option<&str>) -> bool {
    no_color.is_none_or(str::is_empty) && term.is_some_and(|term| !term.is_empty() && term != "dumb")
}

fn paint(tone: Tone, word: &str, coloured: bool) -> Cow<'_, str> {
    let code = match tone {
        Tone::Good => 32,
        Tone::Warning => 33,
        Tone::Bad => 31,
    };
    if coloured { format!("\u{1b}[{code}m{word}\u{1b}[0m").into() } else { word.into() }
}

/// Names and texts of strangers are shown too, and must neither command the terminal nor turn what stands beside them;
/// line ends and tabs stay.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_harmless) { text.into() } else { text.chars().filter(|c| is_harmless(*c)).collect() }
}

/// Whether a character neither commands a terminal nor turns what stands beside it.
pub(super) fn is_harmless(c: char) -> bool {
    let turns = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !turns && (!c.is_control() || matches!(c, '\n' | '\t'))
}

/// A table that is readable with and without a terminal.
pub(super) fn table(headings: &[&str], rows: Vec<Vec<String>>) -> Result<(), Failure> {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_header(headings.iter().copied());
    if io::stdout().is_terminal() {
        // Cells wrap where the screen ends; programs that read get a line per row.
        table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic);
    }
    for row in rows {
        // A cell of several lines would look like several rows.
        let cell = |text: String| plain(&text.replace(['\n', '\t'], " ")).into_owned();
        table.add_row(row.into_iter().map(cell).collect::<Vec<_>>());
    }
    for text in table.to_string().lines() {
        line(text.trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_that_want_them() {
        for (no_color, term, expected) in [
            (None, Some("xterm"), true),
            (Some(""), Some("xterm"), true),
            (Some("1"), Some("xterm"), false),
            (None, Some("dumb"), false),
            (None, Some(""), false),
            (None, None, false),
        ] {
            assert_eq!(decide_colour(no_color, term), expected, "{no_color:?} {term:?}");
        }
        assert_eq!(paint(Tone::Bad, "FAIL", false), "FAIL");
        assert_eq!(paint(Tone::Bad, "FAIL", true), "\u{1b}[31mFAIL\u{1b}[0m");
    }

    #[test]
    fn json_means_the_same_and_commands_no_terminal() {
        let text = "a\u{9b}2J\u{7f}\u{202e}\u{1b}\"\\ ü\n\u{2069}";
        let written = serde_json::to_string(&[text]).unwrap();
        let escaped = escaped(&written);
        assert!(escaped.chars().all(|c| is_harmless(c) && c != '\n'), "{escaped}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&escaped).unwrap(), [text]);
        assert!(matches!(super::escaped("{\"a\":\"ü\"}"), Cow::Borrowed(_)));
    }

    #[test]
    fn strangers_do_not_command_the_terminal() {
        assert_eq!(plain("a\u{1b}]0;x\u{7}b\r\u{9b}c\n\td"), "a]0;xbc\n\td");
        assert_eq!(plain("Ann\u{202e} (me)\u{2066}\u{2069}"), "Ann (me)");
        assert!(matches!(plain("plain ü \u{200f}\n"), Cow::Borrowed(_)));
    }
}
