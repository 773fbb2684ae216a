//! `system-status-checks`: what is wrong in the database of the host that these files come from. Read only.

use std::path::PathBuf;

use rusqlite::{Connection, Row};

use super::database::{self, words};
use super::json::{Json, Text};
use super::options::{Given, Options, Usage};
use super::places::Places;
use super::{End, time};
use crate::clock;

/// The command line of `system-status-checks`.
pub(crate) const OPTIONS: Options = Options {
    tool: "system-status-checks",
    usage: "usage: system-status-checks [--db PATH] [--stuck-grace-minutes N] [--message-row-warn N] [--task-log-row-warn N]\n\
        \x20                           [--db-size-mb-warn N] [--now-utc YYYY-MM-DDTHH:MM:SSZ]",
    values: &[
        "--db",
        "--stuck-grace-minutes",
        "--message-row-warn",
        "--task-log-row-warn",
        "--db-size-mb-warn",
        "--now-utc",
    ],
    flags: &[],
};

const TIME: &str = "%Y-%m-%dT%H:%M:%SZ";
const BYTES_PER_MB: f64 = 1024.0 * 1024.0;
/// Seconds for which a failure is news.
const NEWS: i64 = 24 * 3600;
// Times are compared as times: some are written with a `T`, some with a space.
const STUCK: &str = "SELECT id, prompt, next_run FROM scheduled_tasks \
    WHERE status = 'active' AND julianday(next_run) <= julianday(?1) ORDER BY julianday(next_run), id";
const FAILURES: &str = "SELECT task_id, run_at, coalesce(nullif(error, ''), result) FROM task_run_logs \
    WHERE status IN ('error', 'killed') AND julianday(run_at) >= julianday(?1) ORDER BY julianday(run_at) DESC LIMIT 20";

/// What is asked for.
struct Asked {
    db: PathBuf,
    now: i64,
    grace_minutes: i64,
    messages: i64,
    task_logs: i64,
    megabytes: f64,
}

/// What was found.
#[derive(Default)]
struct Findings {
    stuck: Vec<Json>,
    messages: Option<i64>,
    task_logs: Option<i64>,
    megabytes: Option<f64>,
    failures: Vec<Json>,
    alerts: Vec<String>,
    broken: usize,
}

/// The checks, each of which may fail without the others.
pub(crate) fn main(words: &[String]) -> Result<Json, End> {
    let asked = Asked::of(&OPTIONS.read(words)?)?;
    let mut found = Findings::default();
    let shown = asked.db.display().to_string();
    let Ok(known) = std::fs::metadata(&asked.db) else {
        found.alerts.push(format!("db missing: {shown}"));
        let why = format!("there is no database at {shown}; name it with --db");
        return Err(End::Found(found.json(&asked), why));
    };
    found.size(known.len(), &asked);
    let database = database::open(&asked.db);
    found.look(&asked, &database);
    let answer = found.json(&asked);
    if found.broken == 3 {
        return Err(End::Found(answer, format!("every check raised; {shown} is not the database that was expected")));
    }
    Ok(answer)
}

impl Asked {
    fn of(given: &Given) -> Result<Self, Usage> {
        let now = match given.value("--now-utc") {
            None => i64::try_from(clock::now_ms() / 1000).unwrap_or_default(),
            Some(text) => time::seconds(text, TIME)
                .ok_or_else(|| Usage::wrong(format!("--now-utc '{text}' must be YYYY-MM-DDTHH:MM:SSZ")))?,
        };
        let db = given.value("--db").map(PathBuf::from);
        Ok(Self {
            db: db.unwrap_or_else(|| Places::of_process(OPTIONS.tool).messages_db()),
            now,
            grace_minutes: given.number("--stuck-grace-minutes", 5)?,
            messages: given.number("--message-row-warn", 100_000)?,
            task_logs: given.number("--task-log-row-warn", 10_000)?,
            megabytes: given.number("--db-size-mb-warn", 500.0)?,
        })
    }
}

impl Findings {
    #[expect(clippy::cast_precision_loss, reason = "shown with two digits")]
    fn size(&mut self, bytes: u64, asked: &Asked) {
        let megabytes = bytes as f64 / BYTES_PER_MB;
        self.megabytes = Some((megabytes * 100.0).round() / 100.0);
        if megabytes > asked.megabytes {
            self.alerts.push(format!("db size {megabytes:.2} MB is above {} MB", asked.megabytes));
        }
    }

    fn look(&mut self, asked: &Asked, database: &Result<Connection, rusqlite::Error>) {
        let late = asked.now.saturating_sub(asked.grace_minutes.saturating_mul(60));
        let task = |row: &Row<'_>| {
            let preview = start(column(row, 1), 50);
            Json::object([("id", column(row, 0)), ("prompt_preview", preview), ("next_run", column(row, 2))])
        };
        if let Some(stuck) = self.ask("stuck tasks", database, |db| rows(db, STUCK, late, task)) {
            if !stuck.is_empty() {
                self.alerts.push(format!(
                    "{} stuck tasks: due more than {} minutes ago",
                    stuck.len(),
                    asked.grace_minutes
                ));
            }
            self.stuck = stuck;
        }
        if let Some((messages, task_logs)) = self.ask("row counts", database, counts) {
            for (table, count, most) in
                [("messages", messages, asked.messages), ("task_run_logs", task_logs, asked.task_logs)]
            {
                if count > most {
                    self.alerts.push(format!("{table} has {count} rows, above {most}"));
                }
            }
            (self.messages, self.task_logs) = (Some(messages), Some(task_logs));
        }
        let since = asked.now.saturating_sub(NEWS);
        let failure = |row: &Row<'_>| {
            let summary = start(column(row, 2), 200);
            Json::object([("task_id", column(row, 0)), ("run_at", column(row, 1)), ("error_summary", summary)])
        };
        if let Some(failures) = self.ask("recent failures", database, |db| rows(db, FAILURES, since, failure)) {
            if !failures.is_empty() {
                self.alerts.push(format!("{} task runs failed within 24 hours", failures.len()));
            }
            self.failures = failures;
        }
    }

    fn ask<T>(
        &mut self,
        what: &str,
        database: &Result<Connection, rusqlite::Error>,
        question: impl FnOnce(&Connection) -> Result<T, rusqlite::Error>,
    ) -> Option<T> {
        let why = match database {
            Err(error) => words(error),
            Ok(database) => match question(database) {
                Ok(answer) => return Some(answer),
                Err(error) => words(&error),
            },
        };
        self.broken += 1;
        self.alerts.push(format!("query failed: {what}: {why}"));
        None
    }

    fn json(&self, asked: &Asked) -> Json {
        let number = |count: Option<i64>| count.map_or(Json::Null, Json::integer);
        Json::object([
            ("checked_at", Json::text(&time::utc(asked.now))),
            ("db_path", Json::Text(Text::of_system(asked.db.as_os_str()))),
            ("stuck_tasks", Json::Array(self.stuck.clone())),
            ("stuck_count", Json::count(self.stuck.len())),
            (
                "row_counts",
                Json::object([("messages", number(self.messages)), ("task_run_logs", number(self.task_logs))]),
            ),
            ("db_size_mb", self.megabytes.map_or(Json::Null, Json::float)),
            ("recent_failures", Json::Array(self.failures.clone())),
            ("alerts", Json::Array(self.alerts.iter().map(|alert| Json::text(alert)).collect())),
        ])
    }
}

fn rows(
    database: &Connection,
    question: &str,
    at: i64,
    each: impl Fn(&Row<'_>) -> Json,
) -> Result<Vec<Json>, rusqlite::Error> {
    let mut statement = database.prepare(question)?;
    let found = statement.query_map([time::utc(at)], |row| Ok(each(row)))?;
    found.collect()
}

fn counts(database: &Connection) -> Result<(i64, i64), rusqlite::Error> {
    let count = |question| database.query_row(question, [], |row| row.get(0));
    Ok((count("SELECT count(*) FROM messages")?, count("SELECT count(*) FROM task_run_logs")?))
}

/// What is in a column; what cannot be shown is null.
fn column(row: &Row<'_>, index: usize) -> Json {
    let value = row.get_ref(index).map(database::value);
    value.ok().and_then(Result::ok).unwrap_or(Json::Null)
}

/// The first characters of a text.
fn start(value: Json, characters: usize) -> Json {
    match value {
        Json::Text(text) => Json::text(&text.shown().chars().take(characters).collect::<String>()),
        other => other,
    }
}
