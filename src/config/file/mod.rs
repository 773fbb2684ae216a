//! Parses `hearth.toml` into configuration changes.
//!
//! All problems of a file are reported together, each with its line and what to do about it. Agents are referred to by
//! their folder. An agent that is not in the file may be in the store, which the transaction checks.

mod agents;
mod backup;
mod budgets;
mod channels;
mod chats;
mod console;
mod env;
mod named;
mod prices;
mod retention;
mod secrets;
mod section;
mod sight;
mod tool_rules;
mod tools;
mod trigger_rules;
mod users;
mod voice;
pub mod write;

pub use agents::AGENT_KEYS;
pub use named::{known_keys, named_keys};
pub use sight::is_skill_name;
pub use trigger_rules::wiring_of_row;

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::DeTable;

use crate::model::configure::{Change, Configure, RoleSpec, Settings};
use crate::model::entity::{Folder, Origin};
use section::{Keys, Problems, Section};

/// Schema version of the file that this Hearth reads.
const SCHEMA: i64 = 1;

/// Minimum size of a store: an empty one has a page for each table, and deletions need room too.
const STORE_BYTES_MIN: i64 = 4 * 1024 * 1024;

/// Maximum of settings that count agents' runs or messages.
const COUNT_MAX: i64 = 1_000;

const TOP: Keys = Keys {
    place: "the top of the file",
    known: &[
        "schema",
        "default_agent",
        "store_max_bytes",
        "session_files_max_bytes",
        "max_containers",
        "timezone",
        "retention",
        "backup",
        "prices",
        "budgets",
        "grace",
        "secrets",
        "voice",
        "agents",
        "users",
        "chats",
        "channels",
        "console",
        "runtime",
        "image",
    ],
    later: &[],
};

/// All problems of a file, in the order of its lines; one line of text each.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n"))]
pub struct BadFile {
    /// At least one.
    pub problems: Vec<Problem>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("{file}:{line}: {what}")]
pub struct Problem {
    /// The file, as it was named.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong, and after a semicolon what to do.
    pub what: String,
}

/// Parses a file. `name` is its name in messages.
///
/// The changes are ordered so that references come after their targets: agents, users, chats, channels, the
/// console, settings.
/// Settings are included only if the file has one of them, because missing settings change nothing.
///
/// # Errors
/// [`BadFile`] with all problems.
pub fn parse(name: &str, text: &str) -> Result<Configure, BadFile> {
    let mut problems = Problems::new(name, text);
    let (top, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let at = error.span().map_or(0, |span| span.start);
        problems.add(at, format!("{}; correct the TOML", error.message()));
    }
    let changes = if errors.is_empty() { changes(&mut problems, &top) } else { Vec::new() };
    problems.finish(Configure::new(changes, Origin::File))
}

fn changes(problems: &mut Problems<'_>, top: &Spanned<DeTable<'_>>) -> Vec<Change> {
    let top = Section::new(&TOP, 0, top.get_ref());
    if !schema(problems, &top) {
        return Vec::new();
    }
    top.check_keys(problems);
    let agents = agents::read(problems, &top);
    let users = users::read(problems, &top);
    let chats = chats::read(problems, &top);
    let channels = channels::read(problems, &top);
    let console = console::read(problems, &top);
    let settings = settings(problems, &top);
    agents.into_iter().chain(users).chain(chats).chain(channels).chain(console).chain(settings).collect()
}

/// Checks the schema version of the file.
fn schema(problems: &mut Problems<'_>, top: &Section<'_>) -> bool {
    let Some(value) = top.get("schema") else {
        problems.add(0, "`schema` is missing; write `schema = 1` at the top of the file");
        return true;
    };
    let Some(version) = top.integer(problems, "schema") else { return true };
    if version == SCHEMA {
        return true;
    }
    problems.add(
        value.span().start,
        if version > SCHEMA {
            format!("schema {version} is newer than this Hearth, which reads schema {SCHEMA}; use a newer Hearth")
        } else {
            format!("there is no schema {version}; write `schema = {SCHEMA}`")
        },
    );
    version < SCHEMA
}

fn settings(problems: &mut Problems<'_>, top: &Section<'_>) -> Option<Change> {
    let settings = Settings {
        default_agent: top.folder(problems, "default_agent").map(|(_, folder)| folder),
        store_max_bytes: top.number(problems, "store_max_bytes", STORE_BYTES_MIN..=i64::MAX),
        max_containers: top.number(problems, "max_containers", 1..=Settings::MAX_CONTAINERS.into()),
        retention: retention::read(problems, top),
        timezone: top.zone(problems, "timezone"),
        runtime: top.word(problems, "runtime", &sight::RUNTIMES),
        image: sight::image(problems, top),
        backup: backup::read(problems, top),
        session_files_max_bytes: top.number(problems, "session_files_max_bytes", 0..=i64::MAX),
        prices: prices::read(problems, top),
        budgets: budgets::read(problems, top),
        grace: budgets::grace(problems, top),
        secrets: secrets::read(problems, top),
        voice: voice::read(problems, top),
    };
    (settings != Settings::default()).then_some(Change::PutSettings(settings))
}

/// First positions of things, to report duplicates.
#[derive(Default)]
struct Once(BTreeMap<String, usize>);

impl Once {
    /// Records a thing at an offset. Returns whether it is new.
    fn note(&mut self, problems: &mut Problems<'_>, at: usize, thing: String) -> bool {
        let Some(first) = self.0.get(&thing) else {
            self.0.insert(thing, at);
            return true;
        };
        let lines = (problems.line(*first), problems.line(at));
        problems.add(at, format!("{thing} is defined twice, in lines {} and {}; keep one of them", lines.0, lines.1));
        false
    }
}

/// Reads a role: `owner`, `admin` or `admin:<folder>`.
///
/// # Errors
/// What is wrong with the text, and what to do.
pub fn role(text: &str) -> Result<RoleSpec, String> {
    users::role(text)
}

/// Reads a folder; its error is the problem's text.
fn folder(text: &str) -> Result<Folder, String> {
    Folder::new(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
