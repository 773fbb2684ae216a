//! `hearth skips`: work that agents' skills skipped. Reads the store beside the daemon.

use std::path::PathBuf;

use clap::Subcommand;
use serde::Serialize;

use super::listed::{self, Column, Field, Listed};
use super::{Done, configuration, decide, entity, human_time, lookup};
use crate::config::Paths;
use crate::model::approval::Decider;
use crate::model::card::PromptSubject;
use crate::model::id::SkipId;
use crate::model::skip::{SkipAnswer, SkipState, SkipSummary};
use crate::state::{self, Read, Reader, Tables};

mod lint;
mod prompt;

pub(super) use prompt::{asked, prompt};

#[derive(Debug, Subcommand)]
pub(super) enum SkipsCommand {
    /// List open skips: not reported yet or not answered, oldest first
    List {
        /// Only of this agent
        agent: Option<String>,
        /// Also finished ones, newest first
        #[arg(long)]
        all: bool,
        /// Show at most this many
        #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = listed::limit)]
        limit: usize,
    },
    /// Show one skip
    Show {
        /// Its id, like sk3
        skip: SkipId,
    },
    /// Acknowledge a skip: nothing more is asked about it, and its file is removed
    Ack {
        /// Its id, like sk3
        skip: SkipId,
        /// Let the agent do the skipped work now
        #[arg(long)]
        now: bool,
    },
    /// Find reports without a reader and rules without a test; exit code 1 if there are any
    Lint {
        /// Only in the folder of this agent
        agent: Option<String>,
        /// Check this tile before it is published, instead of the agents' folders
        #[arg(long, value_name = "DIR", conflicts_with = "agent")]
        tile: Option<PathBuf>,
    },
}

/// One skip of `hearth skips list --json`.
#[derive(Debug, Serialize)]
pub(super) struct SkipJson {
    skip: String,
    /// `waiting`, `sending`, `surfaced`, `taken`, `retried`, `unsent` or `acknowledged`.
    state: &'static str,
    /// Folder of the agent.
    agent: String,
    skill: String,
    step: String,
    /// `technical` or `policy`.
    kind: &'static str,
    reason: String,
    items: Vec<String>,
    /// The session in whose turn it appeared.
    session: Option<String>,
    /// Whether people were asked what to do and have not answered.
    open: bool,
    /// Technical skips of the same items in a row.
    repeats: u32,
    /// The message that reports the skip to people.
    message: Option<String>,
    /// Why the report could not be sent.
    why: Option<String>,
    /// `leave` or `now`.
    answer: Option<&'static str>,
    /// Who answered: a user's id, or `operator`.
    by: Option<String>,
    occurred: String,
    taken: String,
    /// Since when it is in its state.
    since: String,
}

/// Lists, shows and answers skips, and looks for leaks.
pub(super) fn skips(paths: &Paths, command: &SkipsCommand, json: bool) -> Done {
    match command {
        SkipsCommand::List { agent, all, limit } => {
            let reader = Reader::open(paths.data())?;
            if let Some(agent) = agent {
                entity::known_agent(&reader.read(configuration::collect)?, agent)?;
            }
            let found = reader.read(|db, txn| list(db, txn, agent.as_deref(), *all, *limit))?;
            listed::list(&found, json, if *all { "no skips" } else { "no open skips; --all lists older ones" })
        }
        SkipsCommand::Show { skip } => {
            let found = Reader::open(paths.data())?.read(|db, txn| show(db, txn, *skip))?;
            let found = found.ok_or_else(|| entity::missing("skip", &skip.to_string()))?;
            listed::show(&found, json)
        }
        SkipsCommand::Ack { skip, now } => {
            let answer = if *now { SkipAnswer::DoNow } else { SkipAnswer::Leave };
            decide::decide(paths, PromptSubject::Skip(*skip), answer.as_str(), json)
        }
        SkipsCommand::Lint { tile: Some(tile), .. } => lint::tile(tile, json),
        SkipsCommand::Lint { agent, tile: None } => lint::folders(paths, agent.as_deref(), json),
    }
}

/// Whether a person still has to be told about a skip, or to answer.
fn is_open(skip: &SkipSummary) -> bool {
    match skip.state {
        SkipState::Waiting | SkipState::Sending(..) | SkipState::Unsent(..) => true,
        SkipState::Surfaced(..) => skip.nonce.is_some(),
        SkipState::Taken(_) | SkipState::Retried(_) | SkipState::Acknowledged { .. } => false,
    }
}

fn list(
    db: &Tables,
    txn: &Read<'_>,
    agent: Option<&str>,
    all: bool,
    limit: usize,
) -> Result<Vec<SkipJson>, state::Error> {
    let mut found = Vec::new();
    let mut before: Option<SkipId> = None;
    while found.len() < limit || !all {
        let last = match before {
            None => db.skips.last(txn, ..)?,
            Some(id) => db.skips.last(txn, ..id)?,
        };
        let Some((id, skip)) = last else { break };
        before = Some(id);
        if !all && !is_open(&skip) {
            continue;
        }
        let line = shown(db, txn, id, skip)?;
        if agent.is_none_or(|agent| agent == line.agent) {
            found.push(line);
        }
    }
    if !all {
        found.reverse();
        found.truncate(limit);
    }
    Ok(found)
}

/// A skip; none if there is none with this id.
pub(super) fn show(db: &Tables, txn: &Read<'_>, id: SkipId) -> Result<Option<SkipJson>, state::Error> {
    match db.skips.get(txn, &id)? {
        Some(row) => shown(db, txn, id, row).map(Some),
        None => Ok(None),
    }
}

fn shown(db: &Tables, txn: &Read<'_>, id: SkipId, skip: SkipSummary) -> Result<SkipJson, state::Error> {
    let state = skip.state.as_str();
    let open = skip.nonce.is_some() && matches!(skip.state, SkipState::Sending(..) | SkipState::Surfaced(..));
    let (mut message, mut why, mut answered) = (None, None, None);
    let since = match skip.state {
        SkipState::Waiting => skip.taken,
        SkipState::Sending(id, at) | SkipState::Surfaced(id, at) => {
            message = Some(id.to_string());
            at
        }
        SkipState::Taken(at) | SkipState::Retried(at) => at,
        SkipState::Unsent(error, at) => {
            why = Some(error);
            at
        }
        SkipState::Acknowledged { by, answer, at } => {
            let by = match by {
                Decider::Person(user) => user.to_string(),
                Decider::Operator => "operator".to_owned(),
            };
            answered = Some((answer.as_str(), by));
            at
        }
    };
    let (answer, by) = answered.unzip();
    Ok(SkipJson {
        skip: id.to_string(),
        state,
        agent: lookup::folder(db, txn, skip.agent)?,
        skill: skip.skill,
        step: skip.report.step.to_string(),
        kind: skip.report.kind.as_str(),
        reason: skip.report.reason,
        items: skip.report.items,
        session: skip.session.map(|session| session.to_string()),
        open,
        repeats: skip.repeats,
        message,
        why,
        answer,
        by,
        occurred: skip.report.occurred.to_string(),
        taken: skip.taken.to_string(),
        since: since.to_string(),
    })
}

impl Listed for SkipJson {
    const PLURAL: &'static str = "skips";
    const COLUMNS: &'static [Column<Self>] = &[
        ("SKIP", |one| one.skip.clone()),
        ("STATE", |one| one.state.to_owned()),
        ("AGENT", |one| one.agent.clone()),
        ("SKILL", |one| one.skill.clone()),
        ("STEP", |one| one.step.clone()),
        ("KIND", |one| one.kind.to_owned()),
        ("ITEMS", |one| one.items.len().to_string()),
        ("SKIPPED", |one| human_time::age(&one.occurred)),
        ("REASON", |one| one.reason.clone()),
    ];

    fn fields(&self) -> Vec<Field> {
        let items: Vec<String> = self.items.iter().map(|item| format!("- {item}")).collect();
        let id = &self.skip;
        let next = format!("`hearth skips ack {id}` dismisses it; with --now, the agent does the work now");
        vec![
            ("skip", Some(id.clone())),
            ("agent", Some(self.agent.clone())),
            ("skill", Some(self.skill.clone())),
            ("state", Some(format!("{} since {}", self.state, human_time::local_with_age(&self.since)))),
            ("step", Some(self.step.clone())),
            ("kind", Some(self.kind.to_owned())),
            ("reason", Some(self.reason.clone())),
            ("items", Some(items.join("\n"))),
            ("in a row", (self.repeats > 1).then(|| self.repeats.to_string())),
            ("session", self.session.clone()),
            ("skipped", Some(human_time::local_with_age(&self.occurred))),
            ("found", Some(human_time::local_with_age(&self.taken))),
            ("reported by", self.message.clone()),
            ("report failed", self.why.clone()),
            ("answer", self.answer.map(str::to_owned)),
            ("answered by", self.by.clone()),
            ("to do", self.open.then_some(next)),
        ]
    }
}
