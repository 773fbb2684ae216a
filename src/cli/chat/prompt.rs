//! Input and output of a conversation: line editing with history on a terminal, plain lines otherwise.

use std::path::Path;
use std::sync::mpsc::Sender;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};

use super::Event;
use crate::cli::{Done, Failure, print, read_line};

/// The input prompt.
const PROMPT: &str = "> ";
/// Longest line that is read from a pipe, in bytes.
const LINE_MAX: usize = 256 * 1024;

/// Where messages are shown.
pub(super) enum Screen {
    /// Standard output.
    Plain,
    /// A terminal, with messages above the input line.
    Interactive {
        /// Prints above the input line.
        printer: Box<dyn rustyline::ExternalPrinter>,
        /// Restores the terminal when dropped at the end of the conversation.
        _before: Restored,
    },
}

/// Restores the terminal's mode on drop. The thread that reads lines cannot be stopped and leaves it in raw mode.
pub(super) struct Restored(Termios);

impl Drop for Restored {
    fn drop(&mut self) {
        if let Err(error) = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.0) {
            tracing::debug!(%error, "the terminal could not be given back as it was");
        }
    }
}

/// Switches off bracketed paste, which line editing switches on.
const NO_PASTE_MARKS: &str = "\u{1b}[?2004l";

impl Screen {
    /// Standard output.
    pub(super) const fn plain() -> Self {
        Self::Plain
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

    /// Reports that typed input was not accepted.
    pub(super) fn complain(&mut self, message: &str) -> Done {
        match self {
            Self::Plain => {
                print::error(message);
                Ok(())
            }
            Self::Interactive { printer, .. } => printer.print(format!("hearth: {message}\n")).map_err(Failure::from),
        }
    }

    /// Shows a message. The speaker is shown only if there can be several.
    pub(super) fn show(&mut self, speaker: Option<&str>, text: &str, files: &[String]) -> Done {
        let mut shown = print::plain(text).into_owned();
        for file in files {
            shown.push_str(&format!("\n[file] {}", print::plain(file)));
        }
        match self {
            Self::Plain => print::line(&shown),
            Self::Interactive { printer, .. } => {
                let speaker = print::plain(speaker.unwrap_or("hearth"));
                printer.print(format!("{speaker}: {shown}\n")).map_err(Failure::from)
            }
        }
    }
}

/// Reads lines from a terminal, with editing and a persistent history.
pub(super) fn interactive(history: &Path, events: Sender<Event>) -> Result<Screen, Failure> {
    let before = Restored(tcgetattr(std::io::stdin()).map_err(std::io::Error::from)?);
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
    Ok(Screen::Interactive { printer: Box::new(printer), _before: before })
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
    Screen::Plain
}
