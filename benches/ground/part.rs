//! A part of the results table, kept in a file until all parts exist.

use std::time::Duration;

use super::asked::{Asked, target};

/// One part: a table of its own.
pub(crate) struct Part {
    name: &'static str,
    lines: Vec<String>,
}

impl Part {
    /// A table with these columns.
    pub(crate) fn new(name: &'static str, columns: &[String]) -> Self {
        let line = "|---".repeat(columns.len()) + "|";
        Self { name, lines: vec![row(columns), line] }
    }

    /// One whose rows are times that were measured often.
    pub(crate) fn of_times(name: &'static str, what: &str) -> Self {
        Self::new(name, &[what, "p50", "p90", "p99", "times"].map(str::to_owned))
    }

    /// Adds a row.
    pub(crate) fn add(&mut self, cells: &[String]) {
        println!("{}", cells.join("  "));
        self.lines.push(row(cells));
    }

    /// Adds what was measured often. The slowest of a few would be no more than chance: nothing is said of them.
    pub(crate) fn add_times(&mut self, what: &str, mut measured: Vec<Duration>) {
        measured.sort_unstable();
        let beyond = |hundredths: usize| measured.len() * (100 - hundredths) / 100;
        let parts = [50, 90, 99].map(|hundredths| match beyond(hundredths) {
            0 => String::new(),
            _ => ms(part(&measured, hundredths)),
        });
        let mut cells = vec![what.to_owned()];
        cells.extend(parts);
        cells.push(measured.len().to_string());
        self.add(&cells);
    }

    /// Leaves it for the table.
    pub(crate) fn keep(self, asked: &Asked) {
        if asked.is_real() {
            std::fs::create_dir_all(place()).unwrap();
            std::fs::write(place().join(format!("{}.md", self.name)), self.lines.join("\n") + "\n").unwrap();
        }
    }

    /// One that was left.
    pub(crate) fn kept(name: &str) -> Option<String> {
        std::fs::read_to_string(place().join(format!("{name}.md"))).ok()
    }
}

/// Where parts are left.
pub(crate) fn place() -> std::path::PathBuf {
    target().join("bench-parts")
}

fn row(cells: &[String]) -> String {
    format!("| {} |", cells.join(" | "))
}

/// A time as people read it.
pub(crate) fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

pub(crate) fn middle<T: Ord + Copy>(mut measured: Vec<T>) -> T {
    measured.sort_unstable();
    measured[measured.len() / 2]
}

/// So many hundredths of what was measured, in order, are not above this.
fn part(sorted: &[Duration], hundredths: usize) -> Duration {
    sorted[(sorted.len() * hundredths / 100).min(sorted.len() - 1)]
}
