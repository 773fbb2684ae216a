//! `hearth agents rules`: what decides about an agent's tool calls.

use clap::Subcommand;
use serde::Serialize;

use super::listed::{self, Column, Listed, or_empty};
use super::{Done, Failure, approvals, change, configuration, entity, human_time, lookup};
use crate::config::Paths;
use crate::config::file::write::{Fields, Value};
use crate::model::configure::Change;
use crate::model::entity::Folder;
use crate::model::id::{AgentId, TaskId, ToolGrantId};
use crate::model::tool::{GrantScope, ToolGrant};
use crate::state::{self, Read, Reader, Tables};

#[derive(Debug, Subcommand)]
pub(super) enum RulesCommand {
    /// List the rules of hearth.toml, and what people allowed in advance
    List {
        /// Only of this agent
        agent: Option<String>,
    },
    /// Allow calls that match a pattern, which no one is asked about from then on
    Add {
        /// The agent's folder
        agent: String,
        /// The pattern, like 'Bash(git push:*)'; docs/tools.md explains it
        pattern: String,
        /// Only in runs of this scheduled task, like ta4
        #[arg(long)]
        task: Option<TaskId>,
    },
    /// Forget such an answer, so that a person is asked again
    Remove {
        /// The agent's folder
        agent: String,
        /// Its id, like tg3
        rule: ToolGrantId,
    },
}

/// Lists and changes what decides about tool calls.
pub(super) fn rules(paths: &Paths, command: &RulesCommand, json: bool) -> Done {
    match command {
        RulesCommand::List { agent } => {
            if let Some(agent) = agent {
                entity::known_agent(&configuration::read(paths)?, agent)?;
            }
            let all = Reader::open(paths.data())?.read(|db, txn| collect(db, txn, agent.as_deref()))?;
            listed::list(&all, json, "no rules")
        }
        RulesCommand::Add { agent, pattern, task } => {
            change::edit(paths, Change::AllowTool(Folder::new(agent.as_str())?, pattern.clone(), *task), json)
        }
        RulesCommand::Remove { agent, rule } => {
            change::edit(paths, Change::ForgetToolGrant(Folder::new(agent.as_str())?, *rule), json)
        }
    }
}

/// Sets the preset and the rules that were given.
pub(super) fn put(fields: &mut Fields, preset: Option<&str>, rules: &[String]) -> Done {
    if preset.is_none() && rules.is_empty() {
        return Ok(());
    }
    let mut known = match fields.get("tools") {
        Some(Value::Table(known)) => known.clone(),
        Some(preset) => vec![("preset".to_owned(), preset.clone())],
        None => Vec::new(),
    };
    let mut set = |key: &str, value| {
        known.retain(|(name, _)| name != key);
        known.push((key.to_owned(), value));
    };
    if let Some(preset) = preset {
        set("preset", Value::Text(preset.to_owned()));
    }
    if !rules.is_empty() {
        let rule = |text: &String| match text.split_once(' ') {
            Some((verdict, pattern)) => Ok(vec![(verdict.to_owned(), Value::Text(pattern.trim().to_owned()))]),
            None => Err(Failure::Failed(format!(
                "`{text}` is not a rule: write `allow`, `ask` or `deny` and a pattern, such as 'ask Bash(git push:*)'"
            ))),
        };
        set("rules", Value::Tables(rules.iter().map(rule).collect::<Result<_, _>>()?));
    }
    fields.set("tools", Value::Table(known));
    Ok(())
}

/// One line of `hearth agents rules list`.
#[derive(Debug, Serialize)]
struct RuleEntry {
    agent: String,
    /// Id of an answer that can be removed; null for what hearth.toml says.
    id: Option<String>,
    /// `allow`, `ask`, `deny` or `granted`; for the preset `open`, `careful` or `locked`.
    verdict: &'static str,
    /// The pattern; null for the preset.
    pattern: Option<String>,
    /// Session or task in which it holds; null for all.
    within: Option<String>,
    /// Who allowed it; null for what hearth.toml says.
    by: Option<String>,
    at: Option<String>,
}

impl Listed for RuleEntry {
    const PLURAL: &'static str = "rules";
    const COLUMNS: &'static [Column<Self>] = &[
        ("AGENT", |one| one.agent.clone()),
        ("ID", |one| or_empty(one.id.as_ref())),
        ("VERDICT", |one| one.verdict.to_owned()),
        ("PATTERN", |one| one.pattern.clone().unwrap_or_else(|| "(anything else)".to_owned())),
        ("WITHIN", |one| or_empty(one.within.as_ref())),
        ("BY", |one| or_empty(one.by.as_ref())),
        ("SINCE", |one| one.at.as_deref().map(human_time::age).unwrap_or_default()),
    ];
}

fn collect(db: &Tables, txn: &Read<'_>, wanted: Option<&str>) -> Result<Vec<RuleEntry>, state::Error> {
    let mut all = Vec::new();
    for row in db.agents.iter(txn)? {
        let (id, agent): (AgentId, _) = row?;
        let folder = lookup::folder(db, txn, id)?;
        if agent.archived.is_some() || wanted.is_some_and(|wanted| wanted != folder) {
            continue;
        }
        let plain = |verdict, pattern| RuleEntry {
            agent: folder.clone(),
            id: None,
            verdict,
            pattern,
            within: None,
            by: None,
            at: None,
        };
        let tools = &agent.settings.tools;
        all.extend(tools.rules.iter().map(|rule| plain(rule.verdict.as_str(), Some(rule.pattern.clone()))));
        for (id, ()) in db.tool_grants_by_agent.collect_prefix(txn, &id, usize::MAX)? {
            let grant = db.tool_grants.require(txn, &id.id)?;
            all.push(granted(&folder, id.id, &grant));
        }
        all.push(plain(tools.preset.as_str(), None));
    }
    Ok(all)
}

fn granted(folder: &str, id: ToolGrantId, grant: &ToolGrant) -> RuleEntry {
    RuleEntry {
        agent: folder.to_owned(),
        id: Some(id.to_string()),
        verdict: "granted",
        pattern: Some(grant.pattern.clone()),
        within: match grant.scope {
            GrantScope::Agent => None,
            GrantScope::Session(session) => Some(session.to_string()),
            GrantScope::Task(task) => Some(task.to_string()),
        },
        by: Some(approvals::decider(&grant.by)),
        at: Some(grant.at.to_string()),
    }
}
