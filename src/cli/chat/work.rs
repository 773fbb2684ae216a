//! What an agent does while its answer is awaited, for a person at a terminal.

use std::time::Duration;

use crate::cli::print;
use crate::clock;
use crate::model::time::Timestamp;

/// Interval of updates.
pub(super) const TICK: Duration = Duration::from_secs(1);

/// The work on the messages of a conversation.
pub(super) struct Work {
    /// Name of the agent.
    agent: String,
    /// Since when messages are open; none while there are none.
    since: Option<Timestamp>,
    /// The tool in use.
    tool: Option<String>,
    /// The end of the text that it is writing; empty if it writes none.
    writes: String,
}

impl Work {
    pub(super) const fn of(agent: String) -> Self {
        Self { agent, since: None, tool: None, writes: String::new() }
    }

    /// The agent uses a tool, or none any more.
    pub(super) fn tool(&mut self, name: Option<String>) {
        // The name is the agent's, who may have chosen any text.
        self.tool = name.map(|name| on_one_line(&name));
    }

    /// The agent writes this text, or, if it is empty, none any more.
    pub(super) fn writes(&mut self, text: &str) {
        self.writes = on_one_line(text);
    }

    /// The line to show while messages are open, in at most so many columns. Empty in the first second, unless the agent
    /// writes already. Begins anew when there were no messages.
    pub(super) fn text(&mut self, open: bool, columns: usize) -> Option<String> {
        if !open {
            *self = Self::of(std::mem::take(&mut self.agent));
            return None;
        }
        let now = clock::wall();
        let since = *self.since.get_or_insert(now);
        let seconds = now.millis().saturating_sub(since.millis()).max(0) / 1_000;
        if !self.writes.is_empty() {
            let line = format!("{} is writing, {seconds} s: ", self.agent);
            let room = columns.saturating_sub(width(&line));
            return Some(line + &tail(&self.writes, room));
        }
        if seconds == 0 {
            return None;
        }
        let tool = self.tool.as_ref().map(|tool| format!(", using {tool}")).unwrap_or_default();
        Some(head(&format!("{} is working, {seconds} s{tool}", self.agent), columns))
    }
}

/// A text that may be longer than a line and may command the terminal, on one line.
fn on_one_line(text: &str) -> String {
    print::plain(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The beginning of a text that fits into so many columns.
fn head(text: &str, columns: usize) -> String {
    let mut left = columns;
    let fits = text.chars().take_while(|c| take(&mut left, *c));
    fits.collect()
}

/// The end of a text that fits into so many columns, with `…` where it was cut.
fn tail(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut left = columns.saturating_sub(1);
    let backwards: Vec<char> = text.chars().rev().take_while(|c| take(&mut left, *c)).collect();
    std::iter::once('…').chain(backwards.into_iter().rev()).collect()
}

/// Takes the columns of a character from those that are left.
fn take(left: &mut usize, c: char) -> bool {
    let rest = left.checked_sub(columns_of(c));
    *left = rest.unwrap_or(0);
    rest.is_some()
}

pub(super) fn width(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

/// Columns that a character takes at most: a line that is shorter than expected does no harm.
fn columns_of(c: char) -> usize {
    if c < '\u{1100}' || c == '…' { 1 } else { 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_end_of_the_text_and_never_more_columns_than_the_terminal() {
        let mut work = Work::of("main".to_owned());
        assert_eq!(work.text(true, 80), None);
        work.writes("one\n\x1b[2Jtwo\u{202e}  three");
        assert_eq!(work.text(true, 80).unwrap(), "main is writing, 0 s: one [2Jtwo three");
        assert_eq!(work.text(true, 30).unwrap(), "main is writing, 0 s: …o three");
        work.writes(&"日本語".repeat(100));
        for columns in 0..60 {
            let line = work.text(true, columns).unwrap();
            assert!(width(&line) <= columns.max("main is writing, 0 s: …".chars().count()), "{columns}: {line:?}");
        }
        work.writes("");
        assert_eq!(work.text(true, 80), None);
        work.writes("more");
        assert_eq!(work.text(false, 80), None);
        assert_eq!(work.text(true, 80), None, "the text of an ended message is gone");
        assert_eq!(head("abc日", 4), "abc");
    }
}
