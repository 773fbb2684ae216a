//! Reads many rows: shows progress if that takes long, and skips rows that cannot be read.

use std::time::Duration;

use crate::cli::print;
use crate::cli::progress::Spinner;
use crate::clock::Stopwatch;
use crate::state;

/// Duration after which progress is shown.
const LONG: Duration = Duration::from_secs(1);
/// Number of rows between two looks at the clock.
const LOOK: u64 = 4_096;

/// Counts the rows of a search.
pub(super) struct Rows {
    pub(super) read: u64,
    /// Number of rows that could not be read.
    pub(super) unreadable: u64,
    since: Stopwatch,
    spinner: Option<Spinner>,
}

impl Rows {
    /// Begins now.
    pub(super) fn new() -> Self {
        Self { read: 0, unreadable: 0, since: Stopwatch::start(), spinner: None }
    }

    /// Counts a row. Returns none if it cannot be read: the search goes on without it.
    pub(super) fn readable<T>(&mut self, row: Result<T, state::Error>) -> Result<Option<T>, state::Error> {
        self.count();
        match row {
            Ok(row) => Ok(Some(row)),
            Err(error) if error.is_damage() => {
                self.unreadable = self.unreadable.saturating_add(1);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn count(&mut self) {
        self.read = self.read.saturating_add(1);
        if !self.read.is_multiple_of(LOOK) || self.since.elapsed() < LONG || !print::coloured(&std::io::stderr()) {
            return;
        }
        self.spinner.get_or_insert_with(Spinner::new).say(&format!("searching the store: {} rows read", self.read));
    }
}
