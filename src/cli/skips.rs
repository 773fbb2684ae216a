//! `hearth skips`: what agents' skills left undone. Reads the store beside the daemon.

use std::path::PathBuf;

use clap::Subcommand;
use serde::Serialize;

use super::{Done, decide, entity, out, rows};
use crate::config::Paths;
use crate::model::approval::Decider;
use crate::model::card::Matter;
use crate::model::id::SkipId;
use crate::model::skip::{SkipAnswer, SkipState, SkipSummary};
use crate::state::{self, Read, Reader, Tables};

mod lint;

#[derive(Debug, Subcommand)]
pub(super) enum SkipsCommand {
    /// List what waits for people: not told yet, or not answered; the oldest first
    List {
        /// Only of this agent
        agent: Option<String>,
        /// Also those that are over, newest first
        #[arg(long)]
        all: bool,
        /// Show at most this many
        #[arg(long, value_name = "NUMBER", default_value_t = 50)]
        limit: usize,
    },
    /// Show one skip
    Show {
        /// Its id, like sk3
        skip: SkipId,
    },
    /// Say that a skip is seen: nothing more is asked about it, and its file goes
    Ack {
        /// Its id, like sk3
        skip: SkipId,
        /// Have the agent do what was skipped now
        #[arg(long)]
        now: bool,
    },
    /// Find reports that nobody reads, and rules without a test; exit code 1 if there are any
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
struct SkipJson {
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
    /// Whether people are asked what is to be done, and nobody has answered.
    open: bool,
    /// Technical skips of the same items in a row.
    repeats: u32,
    /// The message that tells people.
    message: Option<String>,
    /// Why nobody could be told.
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
            let found = reader.read(|db, txn| list(db, txn, (agent.as_deref(), *all, *limit)))?;
            if json { out::json(&serde_json::json!({ "skips": found })) } else { print_list(&found, *all) }
        }
        SkipsCommand::Show { skip } => {
            let found = Reader::open(paths.data())?.read(|db, txn| match db.skips.get(txn, skip)? {
                Some(row) => shown(db, txn, *skip, row).map(Some),
                None => Ok::<_, state::Error>(None),
            })?;
            let found = found.ok_or_else(|| entity::missing("skip", &skip.to_string()))?;
            if json { out::json(&found) } else { print(&found) }
        }
        SkipsCommand::Ack { skip, now } => {
            let answer = if *now { SkipAnswer::DoNow } else { SkipAnswer::Leave };
            decide::decide(paths, Matter::Skip(*skip), answer.as_str(), json)
        }
        SkipsCommand::Lint { tile: Some(tile), .. } => lint::tile(tile, json),
        SkipsCommand::Lint { agent, tile: None } => lint::folders(paths, agent.as_deref(), json),
    }
}

/// Whether somebody has still to be told of a skip, or to answer.
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
    (agent, all, limit): (Option<&str>, bool, usize),
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
        agent: rows::folder(db, txn, skip.agent)?,
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

fn print_list(found: &[SkipJson], all: bool) -> Done {
    if found.is_empty() {
        return out::line(if all {
            "nothing was ever skipped"
        } else {
            "no skip waits for anybody; --all shows older ones"
        });
    }
    let row = |skip: &SkipJson| {
        vec![
            skip.skip.clone(),
            skip.state.to_owned(),
            skip.agent.clone(),
            skip.skill.clone(),
            skip.step.clone(),
            skip.kind.to_owned(),
            skip.items.len().to_string(),
            skip.reason.clone(),
        ]
    };
    let headings = ["SKIP", "STATE", "AGENT", "SKILL", "STEP", "KIND", "ITEMS", "REASON"];
    out::table(&headings, found.iter().map(row).collect())
}

fn print(skip: &SkipJson) -> Done {
    out::line(&format!("{} of {} by {}: {} since {}", skip.skip, skip.agent, skip.skill, skip.state, skip.since))?;
    out::line(&format!("step {}: {}", skip.step, skip.reason))?;
    skip.items.iter().try_for_each(|item| out::line(&format!("- {item}")))?;
    let often = if skip.repeats > 1 { format!(", number {} in a row", skip.repeats) } else { String::new() };
    let session = skip.session.as_deref().map(|session| format!(", in {session}")).unwrap_or_default();
    out::line(&format!("{}{often}{session}, skipped {}, seen {}", skip.kind, skip.occurred, skip.taken))?;
    if let Some(message) = &skip.message {
        out::line(&format!("people are told by {message}"))?;
    }
    if let Some(why) = &skip.why {
        out::line(&format!("nobody was told: {why}"))?;
    }
    if let (Some(answer), Some(by)) = (skip.answer, &skip.by) {
        out::line(&format!("{by} said: {answer}"))?;
    }
    if skip.open {
        let id = &skip.skip;
        out::line(&format!("nobody has answered: `hearth skips ack {id}`, or with --now if it is to be done now"))?;
    }
    Ok(())
}
