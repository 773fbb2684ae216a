//! `hearth questions`: what agents ask people. Reads the store beside the daemon.

use clap::Subcommand;
use serde::Serialize;

use super::{Done, decide, entity, out, rows};
use crate::config::Paths;
use crate::model::approval::{Decider, Question, QuestionState};
use crate::model::card::Matter;
use crate::model::id::QuestionId;
use crate::state::{self, Read, Reader, Tables};

#[derive(Debug, Subcommand)]
pub(super) enum QuestionsCommand {
    /// List open questions, oldest first
    List {
        /// Also those answered or expired, newest first
        #[arg(long)]
        all: bool,
        /// Show at most this many
        #[arg(long, value_name = "NUMBER", default_value_t = 50)]
        limit: usize,
    },
    /// Show one question with its options
    Show {
        /// Its id, like qu3
        question: QuestionId,
    },
    /// Answer a question
    Answer {
        /// Its id, like qu3
        question: QuestionId,
        /// The value of an option, its label, or its number from 1
        option: String,
    },
}

/// One question of `hearth questions list --json`.
#[derive(Debug, Serialize)]
struct QuestionJson {
    question: String,
    /// `open`, `answered` or `expired`.
    state: &'static str,
    /// Folder of the agent that asks.
    agent: String,
    session: String,
    /// Where it was asked.
    chat: String,
    thread: Option<String>,
    title: String,
    body: String,
    options: Vec<OptionJson>,
    /// Who answered: a user's id, or `operator`.
    by: Option<String>,
    /// The value that was chosen.
    value: Option<String>,
    /// Why nobody could answer.
    why: Option<String>,
    created: String,
    expires: String,
}

#[derive(Debug, Serialize)]
struct OptionJson {
    label: String,
    value: String,
}

/// Lists, shows and answers questions.
pub(super) fn questions(paths: &Paths, command: &QuestionsCommand, json: bool) -> Done {
    match command {
        QuestionsCommand::List { all, limit } => {
            let found = Reader::open(paths.data())?.read(|db, txn| list(db, txn, (*all, *limit)))?;
            if json { out::json(&serde_json::json!({ "questions": found })) } else { print_list(&found, *all) }
        }
        QuestionsCommand::Show { question } => {
            let found = Reader::open(paths.data())?.read(|db, txn| match db.questions.get(txn, question)? {
                Some(row) => shown(db, txn, *question, row).map(Some),
                None => Ok::<_, state::Error>(None),
            })?;
            let found = found.ok_or_else(|| entity::missing("question", &question.to_string()))?;
            if json { out::json(&found) } else { print(&found) }
        }
        QuestionsCommand::Answer { question, option } => {
            decide::decide(paths, Matter::Question(*question), option, json)
        }
    }
}

/// The open ones, the oldest first.
pub(super) fn open(db: &Tables, txn: &Read<'_>, limit: usize) -> Result<Vec<(QuestionId, Question)>, state::Error> {
    let mut ids = Vec::new();
    for row in db.questions_due.iter(txn)? {
        ids.push(row?.0.1);
    }
    ids.sort_unstable();
    ids.truncate(limit);
    ids.into_iter().map(|id| Ok((id, db.questions.require(txn, &id)?))).collect()
}

fn list(db: &Tables, txn: &Read<'_>, (all, limit): (bool, usize)) -> Result<Vec<QuestionJson>, state::Error> {
    let mut ids = Vec::new();
    if all {
        let mut before = None;
        while ids.len() < limit {
            let last = match before {
                None => db.questions.last(txn, ..)?,
                Some(id) => db.questions.last(txn, ..id)?,
            };
            let Some((id, _)) = last else { break };
            ids.push(id);
            before = Some(id);
        }
    } else {
        return open(db, txn, limit)?.into_iter().map(|(id, row)| shown(db, txn, id, row)).collect();
    }
    ids.into_iter().map(|id| shown(db, txn, id, db.questions.require(txn, &id)?)).collect()
}

fn shown(db: &Tables, txn: &Read<'_>, id: QuestionId, row: Question) -> Result<QuestionJson, state::Error> {
    let (state, by, value, why) = match row.state {
        QuestionState::Open => ("open", None, None, None),
        QuestionState::Answered { by: Decider::Person(user), value, .. } => {
            ("answered", Some(user.to_string()), Some(value), None)
        }
        QuestionState::Answered { by: Decider::Operator, value, .. } => {
            ("answered", Some("operator".to_owned()), Some(value), None)
        }
        QuestionState::Expired { why, .. } => ("expired", None, None, Some(why)),
    };
    let option = |option: crate::model::card::CardOption| OptionJson { label: option.label, value: option.value };
    Ok(QuestionJson {
        question: id.to_string(),
        state,
        agent: rows::folder_of_session(db, txn, row.session)?,
        session: row.session.to_string(),
        chat: format!("{}/{}", row.to.channel, row.to.platform_id),
        thread: row.to.thread.map(|thread| thread.to_string()),
        title: row.title,
        body: row.body,
        options: row.options.into_iter().map(option).collect(),
        by,
        value,
        why,
        created: row.created.to_string(),
        expires: row.expires.to_string(),
    })
}

fn print_list(found: &[QuestionJson], all: bool) -> Done {
    if found.is_empty() {
        return out::line(if all {
            "nobody ever asked"
        } else {
            "nobody waits for an answer; --all shows older questions"
        });
    }
    let row = |question: &QuestionJson| {
        let choices: Vec<&str> = question.options.iter().map(|option| option.label.as_str()).collect();
        let outcome = question.value.as_deref().or(question.why.as_deref()).unwrap_or("");
        vec![
            question.question.clone(),
            question.state.to_owned(),
            question.agent.clone(),
            question.title.clone(),
            choices.join(" / "),
            outcome.to_owned(),
        ]
    };
    out::table(&["QUESTION", "STATE", "AGENT", "TITLE", "OPTIONS", "OUTCOME"], found.iter().map(row).collect())
}

fn print(question: &QuestionJson) -> Done {
    out::line(&format!("{} of {} in {}: {}", question.question, question.agent, question.chat, question.state))?;
    out::line(&question.title)?;
    out::line(&question.body)?;
    for (place, option) in question.options.iter().enumerate() {
        out::line(&format!("{}. {} ({})", place + 1, option.label, option.value))?;
    }
    if let (Some(value), Some(by)) = (&question.value, &question.by) {
        out::line(&format!("{by} chose {value}"))?;
    }
    if let Some(why) = &question.why {
        out::line(why)?;
    }
    out::line(&format!("asked {}, lapses {}", question.created, question.expires))
}
