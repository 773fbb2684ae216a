//! Input and output of a conversation: line editing with history on a terminal, plain lines otherwise.

use std::path::Path;
use std::sync::mpsc::Sender;

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};

use super::{Event, work};
use crate::cli::progress::Spinner;
use crate::cli::tty::Restored;
use crate::cli::{Done, Failure, print, read_line};

/// The input prompt.
const PROMPT: &str = "> ";
/// Columns of a terminal that does not say how many it has.
const COLUMNS: usize = 80;
/// Columns of the narrowest terminal for which lines are cut.
const COLUMNS_MIN: usize = 30;
/// Columns at the end of a line that are left free, for a spinner and the cursor.
const SPINNER: usize = 4;
/// Longest line that is read from a pipe, in bytes.
const LINE_MAX: usize = 256 * 1024;

/// Where messages are shown.
pub(super) enum Screen {
    /// Standard output, with a moving line on standard error while the agent works.
    Plain(Option<Spinner>),
    /// A list for the caller, with the same line.
    Collecting(Vec<String>, Option<Spinner>),
    /// A terminal, with messages above the input line.
    Interactive {
        /// Prints above the input line.
        printer: Box<dyn rustyline::ExternalPrinter>,
        /// Whether the line above the input line says that the agent works.
        working: bool,
        /// Restores the terminal at the end of the conversation: the thread that reads lines cannot be stopped and
        /// leaves it in raw mode.
        _before: Restored,
    },
}

/// Goes one line up.
const UP: &str = "\u{1b}[1A";
/// Clears the line above the input line.
const CLEAR_ABOVE: &str = "\u{1b}[1A\u{1b}[2K";
/// Switches off bracketed paste, which line editing switches on.
const NO_PASTE_MARKS: &str = "\u{1b}[?2004l";

impl Screen {
    pub(super) const fn plain() -> Self {
        Self::Plain(None)
    }

    /// A list for the caller.
    pub(super) const fn collecting() -> Self {
        Self::Collecting(Vec::new(), None)
    }

    /// The messages so far, if they are collected.
    pub(super) fn collected(&mut self) -> Vec<String> {
        if let Self::Collecting(texts, _) = self { std::mem::take(texts) } else { Vec::new() }
    }

    /// Whether the user types at a terminal.
    pub(super) const fn is_interactive(&self) -> bool {
        matches!(self, Self::Interactive { .. })
    }

    /// Leaves an unfinished input line when the conversation ends.
    pub(super) fn break_off(&self) {
        if self.is_interactive() {
            print::note(NO_PASTE_MARKS);
        }
    }

    /// Shows what the agent does, or that it does nothing any more.
    pub(super) fn work(&mut self, text: Option<String>) -> Done {
        match (self, text) {
            (Self::Plain(spinner) | Self::Collecting(_, spinner), Some(text)) => {
                spinner.get_or_insert_with(Spinner::new).say(&text);
                Ok(())
            }
            (Self::Plain(spinner) | Self::Collecting(_, spinner), None) => {
                *spinner = None;
                Ok(())
            }
            (screen @ Self::Interactive { .. }, Some(text)) => {
                screen.above(&print::plain(&text))?;
                screen.keep(true);
                Ok(())
            }
            (Self::Interactive { printer, working: working @ true, .. }, None) => {
                *working = false;
                printer.print(format!("{CLEAR_ABOVE}{UP}\n")).map_err(Failure::from)
            }
            (Self::Interactive { .. }, None) => Ok(()),
        }
    }

    /// The person typed a line, which is now above the input line. Removes the line that says that the agent works from
    /// above it: that would stay there with a part of the answer.
    pub(super) fn typed(&mut self, text: &str) -> Done {
        let Self::Interactive { printer, working, .. } = self else { return Ok(()) };
        if !std::mem::take(working) {
            return Ok(());
        }
        let up = rows(text, columns()) + 1;
        let down = if up > 2 { format!("\u{1b}[{}B", up - 2) } else { String::new() };
        printer.print(format!("\u{1b}[{up}A\u{1b}[M{down}\n")).map_err(Failure::from)
    }

    const fn keep(&mut self, is_working: bool) {
        if let Self::Interactive { working, .. } = self {
            *working = is_working;
        }
    }

    /// Prints a line above the input line, in place of the one that says that the agent works.
    fn above(&mut self, text: &str) -> Done {
        let Self::Interactive { printer, working, .. } = self else { return Ok(()) };
        let clear = if std::mem::take(working) { CLEAR_ABOVE } else { "" };
        printer.print(format!("{clear}{text}\n")).map_err(Failure::from)
    }

    /// Reports that typed input was not accepted.
    pub(super) fn complain(&mut self, message: &str) -> Done {
        if self.is_interactive() {
            return self.above(&format!("hearth: {message}"));
        }
        self.work(None)?;
        print::error(message);
        Ok(())
    }

    /// Shows a message. The speaker is shown only if there can be several.
    pub(super) fn show(&mut self, speaker: Option<&str>, text: &str, files: &[String]) -> Done {
        let mut shown = print::plain(text).into_owned();
        for file in files {
            shown.push_str(&format!("\n[file] {}", print::plain(file)));
        }
        if !self.is_interactive() {
            self.work(None)?;
        }
        match self {
            Self::Plain(_) => print::line(&shown),
            Self::Collecting(texts, _) => {
                texts.push(shown);
                Ok(())
            }
            Self::Interactive { .. } => {
                let speaker = print::plain(speaker.unwrap_or("hearth"));
                self.above(&format!("{speaker}: {shown}"))
            }
        }
    }
}

/// Columns of the terminal, if there is one.
fn columns() -> usize {
    rustix::termios::tcgetwinsize(std::io::stdout()).map_or(COLUMNS, |size| usize::from(size.ws_col)).max(1)
}

/// Columns for the line that says that the agent works. It must not need a second row.
pub(super) fn line_columns() -> usize {
    columns().saturating_sub(SPINNER).max(COLUMNS_MIN)
}

/// Rows that a typed line takes.
fn rows(text: &str, columns: usize) -> usize {
    text.split('\n').map(|line| (PROMPT.len() + work::width(line)) / columns + 1).sum()
}

/// Reads lines from a terminal, with editing and a persistent history.
pub(super) fn interactive(history: &Path, events: Sender<Event>) -> Result<Screen, Failure> {
    let before = Restored::now()?;
    let config = Config::builder().max_history_size(1_000)?.auto_add_history(true).build();
    let mut editor: Editor<(), FileHistory> = Editor::with_history(config, FileHistory::new())?;
    // The first conversation has no history yet.
    drop(editor.load_history(history));
    let printer = editor.create_external_printer()?;
    let history = history.to_owned();
    std::thread::spawn(move || {
        loop {
            let event = match editor.readline(PROMPT) {
                Ok(text) => Event::Typed(text),
                Err(ReadlineError::Interrupted | ReadlineError::Eof) => Event::InputOver,
                Err(error) => Event::Closed(error.to_string()),
            };
            let over = !matches!(event, Event::Typed(_));
            if let Err(error) = editor.save_history(&history) {
                tracing::debug!(%error, "the history could not be saved");
            }
            if events.send(event).is_err() || over {
                return;
            }
        }
    });
    Ok(Screen::Interactive { printer: Box::new(printer), working: false, _before: before })
}

/// Reads lines from a pipe or a file.
pub(super) fn piped(events: Sender<Event>) -> Screen {
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        loop {
            let event = match read_line::read(&mut input, LINE_MAX) {
                Ok(Some(Ok(text))) => Event::Typed(String::from_utf8_lossy(&text).into_owned()),
                Ok(Some(Err(reason))) => Event::Closed(reason),
                Ok(None) => Event::InputOver,
                Err(error) => Event::Closed(error.to_string()),
            };
            let over = !matches!(event, Event::Typed(_));
            if events.send(event).is_err() || over {
                return;
            }
        }
    });
    Screen::plain()
}
