//! An installation of NanoClaw: its databases and the files of its agents.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use hearth::config::file::{parse, write::write};
use hearth::contracts::nanoclaw::{Inventory, Wishes, read};
use hearth::model::configure::Change;
use hearth::model::entity::{AgentSettings, EnvValue, Folder, UnknownSenders};
use rusqlite::Connection;
use rusqlite::types::Value as Cell;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::store::directory;

/// Columns that describe tool servers.
const CONFIG_COLUMNS: [&str; 2] = ["mcp_servers", "container_config"];

/// A line of the input: a row of a database, or a file.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Row { db: Db, table: String, row: BTreeMap<String, Value> },
    File { file: FileName, text: String },
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Db {
    #[serde(rename = "v1")]
    V1,
    #[serde(rename = "v2")]
    V2,
    #[serde(rename = "in")]
    Inbound,
    #[serde(rename = "out")]
    Outbound,
}

#[derive(Deserialize, Clone, Copy)]
enum FileName {
    #[serde(rename = "config")]
    Config,
    #[serde(rename = "env")]
    Env,
    #[serde(rename = "journal")]
    Journal,
    #[serde(rename = "wal")]
    Wal,
}

impl Db {
    const fn path(self) -> &'static str {
        match self {
            Self::V1 => "store/messages.db",
            Self::V2 => "data/v2.db",
            Self::Inbound => "data/v2-sessions/ag/s/inbound.db",
            Self::Outbound => "data/v2-sessions/ag/s/outbound.db",
        }
    }
}

impl FileName {
    const fn path(self) -> &'static str {
        match self {
            Self::Config => "groups/andy/container.json",
            Self::Env => ".env",
            Self::Journal => "data/v2.db-journal",
            Self::Wal => "data/v2.db-wal",
        }
    }
}

/// Lines of JSON. Whatever an installation contains, no byte of a reference comes from one of its values, and no value
/// of a variable named like a secret is kept. What is imported can be written in `hearth.toml` with the same meaning.
pub fn installation(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let marks = ["hush-0", "hush-1", "hush-2", "hush-3"];
    let Some(mark) = marks.into_iter().find(|mark| !text.contains(mark)) else { return };
    let lines: Vec<Line> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let dir = directory();
    if lines.iter().try_for_each(|line| put(dir.path(), line, mark)).is_none() {
        return;
    }
    let wishes = Wishes {
        strangers: UnknownSenders::RequestApproval,
        pattern: &|_| Ok(()),
        recurrence: &|_| Ok(()),
        time: &|_| Ok(()),
    };
    match read(dir.path(), &wishes) {
        Ok(found) => keeps(&found, mark),
        Err(error) => assert!(!error.to_string().is_empty() && !error.to_string().contains(mark)),
    }
}

fn keeps(found: &Inventory, mark: &str) {
    assert!(!format!("{found:?}").contains(mark), "{found:#?}");
    for (folder, settings) in &found.agents {
        references(folder, settings);
        let change = Change::PutAgent(folder.clone(), settings.clone());
        let written = write(std::slice::from_ref(&change));
        let again = parse("written", &written).unwrap_or_else(|bad| panic!("{bad}\n{written}"));
        assert_eq!(again.changes, [change], "{written}");
    }
}

/// References are made of names only, and differ if their names differ.
fn references(folder: &Folder, settings: &AgentSettings) {
    let mut all = BTreeSet::new();
    assert!(settings.env.is_empty());
    for server in &settings.mcp_servers {
        for (name, value) in &server.env {
            let EnvValue::Reference(reference) = value else { continue };
            let own = format!("env:HEARTH_IMPORT_{}_{}_{name}", capitals(folder.as_str()), capitals(&server.name));
            assert_eq!(*reference, own);
            assert!(all.insert(reference.clone()), "{reference}");
        }
    }
}

fn capitals(name: &str) -> String {
    let one = |c: char| match c {
        'a'..='z' | '0'..='9' => c.to_ascii_uppercase().to_string(),
        other => format!("x{:02x}", u32::from(other)),
    };
    name.chars().map(one).collect()
}

/// Stores a line in its database or file. Tool servers get a secret with the mark. None ends the case.
fn put(root: &Path, line: &Line, mark: &str) -> Option<()> {
    match line {
        Line::File { file, text } => {
            let path = root.join(file.path());
            std::fs::create_dir_all(path.parent()?).ok()?;
            let text = if matches!(file, FileName::Config) { marked(text, mark) } else { text.clone() };
            std::fs::write(path, text).ok()
        }
        Line::Row { db, table, row } => {
            let path = root.join(db.path());
            std::fs::create_dir_all(path.parent()?).ok()?;
            insert(&Connection::open(path).ok()?, table, row, mark).ok()
        }
    }
}

fn insert(db: &Connection, table: &str, row: &BTreeMap<String, Value>, mark: &str) -> rusqlite::Result<()> {
    db.execute_batch("PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY")?;
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let columns: Vec<String> = row.keys().map(|name| quoted(name)).collect();
    db.execute(&format!("CREATE TABLE IF NOT EXISTS {} ({})", quoted(table), columns.join(", ")), [])?;
    let places = vec!["?"; columns.len()].join(", ");
    let sql = format!("INSERT INTO {} ({}) VALUES ({places})", quoted(table), columns.join(", "));
    let cells = row.iter().map(|(name, value)| match value {
        Value::Null => Cell::Null,
        Value::String(text) if CONFIG_COLUMNS.contains(&name.as_str()) => Cell::Text(marked(text, mark)),
        Value::String(text) => Cell::Text(text.clone()),
        other => other.as_i64().map_or_else(|| Cell::Text(other.to_string()), Cell::Integer),
    });
    db.execute(&sql, rusqlite::params_from_iter(cells)).map(drop)
}

/// A text. If it describes tool servers, each gets one more secret.
fn marked(text: &str, mark: &str) -> String {
    let Ok(Value::Object(mut top)) = serde_json::from_str::<Value>(text) else { return text.to_owned() };
    // A column holds only the servers.
    let servers = match matches!(top.get("mcpServers"), Some(Value::Object(_))) {
        true => top.get_mut("mcpServers").and_then(Value::as_object_mut),
        false if top.values().all(|server| server.get("command").is_some()) => Some(&mut top),
        false => None,
    };
    let Some(servers) = servers else { return text.to_owned() };
    for server in servers.values_mut().filter_map(Value::as_object_mut) {
        if let Value::Object(env) = server.entry("env").or_insert_with(|| Value::Object(Map::new())) {
            env.insert("A_KEY".to_owned(), Value::String(format!("cmd:{mark}")));
            env.insert("some_password".to_owned(), Value::String(mark.to_owned()));
        }
    }
    Value::Object(top).to_string()
}
