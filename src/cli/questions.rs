//! `hearth questions`: questions of agents to people. Reads the store beside the daemon.

use clap::Subcommand;
use serde::Serialize;

use super::listed::{self, Column, Field, Listed};
use super::{Done, decide, entity, human_time, lookup};
use crate::config::Paths;
use crate::model::approval::{Decider, Question, QuestionState};
use crate::model::card::PromptSubject;
use crate::model::id::QuestionId;
use crate::state::{self, Read, Reader, Tables};

mod prompt;

pub(super) use prompt::prompt;

#[derive(Debug, Subcommand)]
pub(super) enum QuestionsCommand {
    /// List open questions, oldest first
    List {
        /// Also those answered or expired, newest first
        #[arg(long)]
        all: bool,
        /// Show at most this many
        #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = listed::limit)]
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
pub(super) struct QuestionJson {
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
    /// Why the question could not be answered.
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
            let found = Reader::open(paths.data())?.read(|db, txn| list(db, txn, *all, *limit))?;
            listed::list(&found, json, if *all { "no questions" } else { "no open questions; --all lists older ones" })
        }
        QuestionsCommand::Show { question } => {
            let found = Reader::open(paths.data())?.read(|db, txn| show(db, txn, *question))?;
            let found = found.ok_or_else(|| entity::missing("question", &question.to_string()))?;
            listed::show(&found, json)
        }
        QuestionsCommand::Answer { question, option } => {
            decide::decide(paths, PromptSubject::Question(*question), option, json)
        }
    }
}

/// One question with its options.
pub(super) fn show(db: &Tables, txn: &Read<'_>, id: QuestionId) -> Result<Option<QuestionJson>, state::Error> {
    db.questions.get(txn, &id)?.map(|row| shown(db, txn, id, row)).transpose()
}

/// Open questions, oldest first.
pub(super) fn open(db: &Tables, txn: &Read<'_>, limit: usize) -> Result<Vec<(QuestionId, Question)>, state::Error> {
    let mut ids = Vec::new();
    for row in db.questions_due.iter(txn)? {
        ids.push(row?.0.id);
    }
    ids.sort_unstable();
    ids.truncate(limit);
    ids.into_iter().map(|id| Ok((id, db.questions.require(txn, &id)?))).collect()
}

fn list(db: &Tables, txn: &Read<'_>, all: bool, limit: usize) -> Result<Vec<QuestionJson>, state::Error> {
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
        agent: lookup::folder_of_session(db, txn, row.session)?,
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

impl Listed for QuestionJson {
    const PLURAL: &'static str = "questions";
    const COLUMNS: &'static [Column<Self>] = &[
        ("QUESTION", |one| one.question.clone()),
        ("STATE", |one| one.state.to_owned()),
        ("AGENT", |one| one.agent.clone()),
        ("TITLE", |one| one.title.clone()),
        ("OPTIONS", |one| one.options.iter().map(|option| option.label.as_str()).collect::<Vec<_>>().join(" / ")),
        ("ANSWER", |one| one.value.clone().or_else(|| one.why.clone()).unwrap_or_default()),
        ("ASKED", |one| human_time::age(&one.created)),
    ];

    fn fields(&self) -> Vec<Field> {
        let option = |(at, option): (usize, &OptionJson)| format!("{}. {} ({})", at + 1, option.label, option.value);
        let options: Vec<String> = self.options.iter().enumerate().map(option).collect();
        vec![
            ("question", Some(self.question.clone())),
            ("agent", Some(self.agent.clone())),
            ("chat", Some(self.chat.clone())),
            ("state", Some(self.state.to_owned())),
            ("title", Some(self.title.clone())),
            ("text", Some(self.body.clone())),
            ("options", Some(options.join("\n"))),
            ("answer", self.value.clone()),
            ("answered by", self.by.clone()),
            ("reason", self.why.clone()),
            ("asked", Some(human_time::local_with_age(&self.created))),
            ("expires", Some(human_time::local_with_age(&self.expires))),
        ]
    }
}
