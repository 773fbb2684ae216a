//! `hearth memory`: the files in which agents remember things, what changed in them, and corrections of single lines.

use clap::Subcommand;
use serde::Serialize;
use serde_json::json;

use super::configuration::{AgentEntry, Configuration, collect};
use super::listed::{self, Column, Listed};
use super::{Done, Failure, entity, human_size, human_time, print, time_args};
use crate::config::Paths;
use crate::contracts::memory_files::{Correction, MemoryChange, MemoryFile, MemoryOf};
use crate::model::entity::Trust;
use crate::state::Reader;

#[derive(Debug, Subcommand)]
pub(super) enum MemoryCommand {
    /// List the memory files of all agents, or of one
    List {
        /// The agent's folder
        agent: Option<String>,
    },
    /// Show a file with the numbers of its lines
    Show {
        /// The agent's folder
        agent: String,
        /// The file, as `hearth memory list` names it
        file: String,
    },
    /// Show what agents noted and when, and when other files were changed last; the newest first
    Changes {
        /// The agent's folder
        agent: Option<String>,
        /// Only since then: a time like 2026-04-20T12:00, a day, or an age like 30m, 2h, 7d
        #[arg(long, value_name = "TIME", value_parser = time_args::parse)]
        since: Option<time_args::Since>,
        /// Show at most this many
        #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = listed::limit)]
        limit: usize,
    },
    /// Replace a line of a file
    Correct {
        /// The agent's folder
        agent: String,
        /// The file
        file: String,
        /// Number of the line, as `hearth memory show` shows it
        line: usize,
        /// What the line becomes
        #[arg(allow_hyphen_values = true)]
        text: String,
        /// Do nothing unless the line is this
        #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
        was: Option<String>,
    },
    /// Remove a line of a file
    Remove {
        /// The agent's folder
        agent: String,
        /// The file
        file: String,
        /// Number of the line, as `hearth memory show` shows it
        line: usize,
        /// Do nothing unless the line is this
        #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
        was: Option<String>,
    },
}

/// One file of `hearth memory list --json`.
#[derive(Debug, Serialize)]
struct FileJson {
    agent: String,
    file: String,
    bytes: u64,
    changed: Option<String>,
}

/// One change of `hearth memory changes --json`.
#[derive(Debug, Serialize)]
struct ChangeJson {
    at: String,
    agent: String,
    file: String,
    /// Null: the file says only when it was changed last.
    line: Option<usize>,
    text: String,
}

/// Lists, shows and corrects memory files.
pub(super) fn memory(paths: &Paths, command: &MemoryCommand, json: bool) -> Done {
    let known = Reader::open(paths.data())?.read(collect)?;
    match command {
        MemoryCommand::List { agent } => list(paths, &chosen(&known, agent.as_deref())?, json),
        MemoryCommand::Show { agent, file } => show(paths, one(&known, agent)?, file, json),
        MemoryCommand::Changes { agent, since, limit } => {
            let since = since.map(time_args::Since::start);
            let mut found = Vec::new();
            for agent in chosen(&known, agent.as_deref())? {
                let changes = of(paths, agent).changes(since, *limit)?;
                found.extend(changes.into_iter().map(|change| shape(agent, change)));
            }
            found.sort_by(|one, other| other.at.cmp(&one.at));
            found.truncate(*limit);
            listed::list(&found, json, "no changes are known")
        }
        MemoryCommand::Correct { agent, file, line, text, was } => {
            let how = Correction { line: *line, was: was.clone(), now: Some(text.clone()) };
            correct(paths, one(&known, agent)?, file, &how, json)
        }
        MemoryCommand::Remove { agent, file, line, was } => {
            let how = Correction { line: *line, was: was.clone(), now: None };
            correct(paths, one(&known, agent)?, file, &how, json)
        }
    }
}

/// Where the memory of an agent is. Trusted agents share a part of it.
pub(super) fn of<'a>(paths: &'a Paths, agent: &'a AgentEntry) -> MemoryOf<'a> {
    MemoryOf { paths, folder: &agent.folder, shared: agent.settings.trust != Trust::Untrusted }
}

fn chosen<'a>(known: &'a Configuration, agent: Option<&str>) -> Result<Vec<&'a AgentEntry>, Failure> {
    match agent {
        Some(agent) => Ok(vec![one(known, agent)?]),
        None => Ok(known.agents.iter().collect()),
    }
}

fn one<'a>(known: &'a Configuration, agent: &str) -> Result<&'a AgentEntry, Failure> {
    let found = known.agents.iter().find(|known| known.folder.as_str() == agent);
    found.ok_or_else(|| entity::no_agent(agent))
}

fn file_of(memory: MemoryOf<'_>, name: &str) -> Result<MemoryFile, Failure> {
    let missing =
        || Failure::Failed(format!("memory file {name} not found; see `hearth memory list {}`", memory.folder));
    memory.file(name)?.ok_or_else(missing)
}

fn list(paths: &Paths, agents: &[&AgentEntry], json: bool) -> Done {
    let mut found = Vec::new();
    for agent in agents {
        for file in of(paths, agent).files()? {
            found.push(FileJson {
                agent: agent.folder.to_string(),
                file: file.name,
                bytes: file.bytes,
                changed: file.changed.map(|at| at.to_string()),
            });
        }
    }
    listed::list(&found, json, "no memory")
}

fn show(paths: &Paths, agent: &AgentEntry, name: &str, json: bool) -> Done {
    let memory = of(paths, agent);
    let file = file_of(memory, name)?;
    let text = memory.read(&file)?.map_err(|why| Failure::Failed(format!("{name} is not shown: {why}")))?;
    let lines: Vec<&str> = text.lines().collect();
    if json {
        return print::json(&json!({ "agent": agent.folder.as_str(), "file": name, "lines": lines }));
    }
    if lines.is_empty() {
        return print::line("the file is empty");
    }
    let width = lines.len().to_string().len();
    (1_usize..).zip(lines).try_for_each(|(number, line)| print::line(&format!("{number:>width$}  {line}")))
}

fn correct(paths: &Paths, agent: &AgentEntry, name: &str, how: &Correction, json: bool) -> Done {
    let memory = of(paths, agent);
    let file = file_of(memory, name)?;
    let was = memory.correct(&file, how)?.map_err(|why| Failure::Failed(format!("{name} is as it was: {why}")))?;
    if json {
        let (agent, line) = (agent.folder.as_str(), how.line);
        return print::json(&json!({ "agent": agent, "file": name, "line": line, "was": was, "now": how.now }));
    }
    print::line(&format!("- {was}"))?;
    how.now.as_ref().map_or(Ok(()), |now| print::line(&format!("+ {now}")))
}

fn shape(agent: &AgentEntry, change: MemoryChange) -> ChangeJson {
    let MemoryChange { at, file, line, text } = change;
    ChangeJson { at: at.to_string(), agent: agent.folder.to_string(), file, line, text }
}

impl Listed for FileJson {
    const PLURAL: &'static str = "memory";
    const COLUMNS: &'static [Column<Self>] = &[
        ("AGENT", |one| one.agent.clone()),
        ("FILE", |one| one.file.clone()),
        ("SIZE", |one| human_size::decimal(one.bytes)),
        ("CHANGED", |one| one.changed.as_deref().map_or_else(String::new, human_time::age)),
    ];
}

impl Listed for ChangeJson {
    const PLURAL: &'static str = "changes";
    const COLUMNS: &'static [Column<Self>] = &[
        ("WHEN", |one| human_time::age(&one.at)),
        ("AGENT", |one| one.agent.clone()),
        ("FILE", |one| one.file.clone()),
        ("LINE", |one| one.line.map_or_else(String::new, |line| line.to_string())),
        (
            "TEXT",
            |one| if one.line.is_some() { one.text.clone() } else { "(changed; the file does not say how)".to_owned() },
        ),
    ];
}
