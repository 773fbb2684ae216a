//! What commands print: the only place that writes to standard output and standard error.

use std::io::{self, IsTerminal, Write};

use super::Failure;

/// Prints a line. A closed pipe ends the command quietly, as `head` expects.
pub(super) fn line(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::Told),
        done => Ok(done?),
    }
}

/// Prints a value as one line of JSON.
pub(super) fn json(value: &impl serde::Serialize) -> Result<(), Failure> {
    line(&serde_json::to_string(value)?)
}

/// Says what went wrong.
#[expect(clippy::print_stderr, reason = "errors go to people here")]
pub(super) fn error(message: &str) {
    eprintln!("hearth: {message}");
}

/// Says something that is not the answer itself.
#[expect(clippy::print_stderr, reason = "notes go to people here")]
pub(super) fn note(message: &str) {
    eprintln!("{message}");
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
        table.add_row(row);
    }
    for text in table.to_string().lines() {
        line(text.trim_end())?;
    }
    Ok(())
}
