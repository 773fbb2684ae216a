//! Output of commands. No other module writes to standard output or standard error.
//!
//! Colours, wrapped tables and progress are only for terminals. Other readers get plain text.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::Failure;
use crate::config::env::env_lookup;

/// Meaning of a word, for its colour. The word itself says the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Quiet,
    Good,
    Warning,
    Bad,
}

/// A part of a line, with the meaning of its colour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) text: String,
    pub(super) tone: Tone,
    pub(super) bold: bool,
}

impl Piece {
    pub(super) const fn of(text: String, tone: Tone) -> Self {
        Self { text, tone, bold: false }
    }

    pub(super) const fn plain(text: String) -> Self {
        Self::of(text, Tone::Plain)
    }

    pub(super) fn bold(self) -> Self {
        Self { bold: true, ..self }
    }

    fn painted(&self, coloured: bool) -> String {
        let text = plain(&self.text);
        let painted = paint(self.tone, &text, coloured);
        if coloured && self.bold { format!("\u{1b}[1m{painted}\u{1b}[0m") } else { painted.into_owned() }
    }
}

/// Prints a line. A closed pipe ends the command quietly, as `head` expects.
pub(super) fn line(text: &str) -> Result<(), Failure> {
    raw(&plain(text))
}

/// Prints a line that begins with a coloured word.
pub(super) fn toned(tone: Tone, word: &str, rest: &str) -> Result<(), Failure> {
    raw(&format!("{}{}", paint(tone, word, coloured(&io::stdout())), plain(rest)))
}

/// Prints a line of several parts.
pub(super) fn pieces(line: &[Piece]) -> Result<(), Failure> {
    raw(&painted(line, coloured(&io::stdout())))
}

/// A line of several parts as text.
pub(super) fn painted(line: &[Piece], coloured: bool) -> String {
    let text: String = line.iter().map(|piece| piece.painted(coloured)).collect();
    text.trim_end().to_owned()
}

/// Columns and rows of the terminal; none without one.
pub(super) fn screen() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then(|| (usize::from(size.ws_col), usize::from(size.ws_row)))
}

/// Prints a value as one line of JSON. On a terminal, control characters are escaped.
pub(super) fn json(value: &impl serde::Serialize) -> Result<(), Failure> {
    raw(&escaped(&serde_json::to_string(value)?))
}

/// Prints a value as one line of ASCII JSON, so that look-alike characters can be told apart.
pub(super) fn json_ascii(value: &impl serde::Serialize) -> Result<(), Failure> {
    let json = serde_json::to_string(value)?;
    let code = |unit: &mut u16| format!("\\u{unit:04x}");
    let shown = |c: char| match c {
        ' '..='~' => c.to_string(),
        _ => c.encode_utf16(&mut [0; 2]).iter_mut().map(code).collect(),
    };
    raw(&json.chars().map(shown).collect::<String>())
}

/// Escapes characters that could command a terminal. In JSON they occur only within strings.
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

/// Prints text that a program reads back. It is unchanged except on a terminal.
pub(super) fn verbatim(text: &str) -> Result<(), Failure> {
    if io::stdout().is_terminal() { line(text) } else { raw(text) }
}

/// Prints an error.
pub(super) fn error(message: &str) {
    tell(&format!("{} {}", paint(Tone::Bad, "hearth:", coloured(&io::stderr())), plain(message)));
}

/// Prints a note that is not part of the command's output.
pub(super) fn note(message: &str) {
    tell(&plain(message));
}

/// Writes a line to standard error. A write error is ignored, because there is no reader to tell.
fn tell(text: &str) {
    drop(writeln!(io::stderr().lock(), "{text}"));
}

/// Waits for `time`, or until the reader of standard output is gone. Returns whether there is still a reader.
pub(super) fn is_read_for(time: Duration) -> Result<bool, Failure> {
    let Ok(timeout) = Timespec::try_from(time) else { return Ok(true) };
    let out = io::stdout();
    // No events are requested: `poll` reports errors and hang-ups anyway.
    let mut watched = [PollFd::new(&out, PollFlags::empty())];
    match poll(&mut watched, Some(&timeout)) {
        Ok(told) => Ok(told == 0),
        Err(Errno::INTR) => Ok(true),
        Err(error) => Err(io::Error::from(error).into()),
    }
}

/// Prints a question at a terminal, without a line break.
pub(super) fn question(text: &str) -> Result<(), Failure> {
    let mut screen = io::stderr().lock();
    Ok(write!(screen, "{}", plain(text)).and_then(|()| screen.flush())?)
}

/// Asks a question at a terminal. Returns whether the answer is yes.
pub(super) fn agreed(text: &str) -> bool {
    let mut answer = String::new();
    let heard = question(text).is_ok() && io::stdin().read_line(&mut answer).is_ok();
    heard && ["y", "yes"].contains(&answer.trim().to_lowercase().as_str())
}

/// Prints a warning.
pub(super) fn warning(message: &str) {
    tell(&format!("{} {}", paint(Tone::Warning, "warning:", coloured(&io::stderr())), plain(message)));
}

/// Whether to use colours: on a terminal that supports them, unless `NO_COLOR` is set.
pub(super) fn coloured(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && decide_colour(env_lookup("NO_COLOR").as_deref(), env_lookup("TERM").as_deref())
}

fn decide_colour(no_color: Option<&str>, term: Option<&str>) -> bool {
    no_color.is_none_or(str::is_empty) && term.is_some_and(|term| !term.is_empty() && term != "dumb")
}

fn paint(tone: Tone, word: &str, coloured: bool) -> Cow<'_, str> {
    let code = match tone {
        Tone::Plain => return word.into(),
        Tone::Quiet => 2,
        Tone::Good => 32,
        Tone::Warning => 33,
        Tone::Bad => 31,
    };
    if coloured { format!("\u{1b}[{code}m{word}\u{1b}[0m").into() } else { word.into() }
}

/// Escapes foreign names and texts, so that they cannot send terminal commands or reorder adjacent text. Line breaks
/// and tabs stay.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_harmless) { text.into() } else { text.chars().filter(|c| is_harmless(*c)).collect() }
}

/// Whether a character neither commands a terminal nor reorders adjacent text.
pub(super) fn is_harmless(c: char) -> bool {
    let turns = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !turns && (!c.is_control() || matches!(c, '\n' | '\t'))
}

/// A table that is readable with and without a terminal.
pub(super) fn table(headings: &[&str], rows: Vec<Vec<String>>) -> Result<(), Failure> {
    // A cell of several lines would look like several rows.
    let cell = |text: String| plain(&text.replace(['\n', '\t'], " ")).into_owned();
    let rows: Vec<Vec<String>> = rows.into_iter().map(|row| row.into_iter().map(cell).collect()).collect();
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_header(headings.iter().copied());
    // Programs get one line per row.
    if io::stdout().is_terminal() {
        let widths = column_widths(headings, &rows);
        let padded: usize = widths.iter().map(|width| width + 2).sum();
        if table.width().is_some_and(|screen| padded > usize::from(screen)) {
            return blocks(headings, &rows);
        }
        table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic);
        for (column, width) in table.column_iter_mut().zip(widths) {
            let width = comfy_table::Width::Fixed(u16::try_from(width + 2).unwrap_or(u16::MAX));
            column.set_constraint(comfy_table::ColumnConstraint::LowerBoundary(width));
        }
    }
    for row in rows {
        table.add_row(row);
    }
    for text in table.to_string().lines() {
        line(text.trim_end())?;
    }
    Ok(())
}

/// The minimum width of each column at which none of its words is broken.
fn column_widths(headings: &[&str], rows: &[Vec<String>]) -> Vec<usize> {
    let longest = |text: &str| text.split(' ').map(|word| word.chars().count()).max().unwrap_or_default();
    let mut widths: Vec<usize> = headings.iter().map(|heading| longest(heading)).collect();
    for row in rows {
        for (width, text) in widths.iter_mut().zip(row) {
            *width = longest(text).max(*width);
        }
    }
    widths
}

/// Prints a line per cell, for screens on which a table would break words.
fn blocks(headings: &[&str], rows: &[Vec<String>]) -> Result<(), Failure> {
    let name = headings.iter().map(|heading| heading.chars().count()).max().unwrap_or_default();
    for (at, row) in rows.iter().enumerate() {
        if at > 0 {
            line("")?;
        }
        for (heading, text) in headings.iter().zip(row).filter(|(_, text)| !text.is_empty()) {
            line(&format!("{heading:name$}  {text}"))?;
        }
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
    fn the_longest_word_determines_the_least_width_of_a_column() {
        let rows = [["terminal/main", "two words"].map(str::to_owned).to_vec()];
        assert_eq!(column_widths(&["CHAT", "CONTEXT FROM"], &rows), [13, 7]);
        assert_eq!(column_widths(&["CHAT"], &[]), [4]);
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
