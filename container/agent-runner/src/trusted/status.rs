//! `system-status-checks`: reports problems in NanoClaw's database. Read-only.

use std::path::PathBuf;

use rusqlite::{Connection, Row};

use super::database::{self, words as words_of};
use super::json::{Json, Text};
use super::options::{Options, ParsedArgs, Usage};
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
/// Age in seconds up to which a failure is reported.
const NEWS: i64 = 24 * 3600;
// Times are compared with `julianday`, because some are written with a `T` and some with a space.
const STUCK: &str = "SELECT id, prompt, next_run FROM scheduled_tasks \
    WHERE status = 'active' AND julianday(next_run) <= julianday(?1)";
const FAILURES: &str = "SELECT task_id, run_at, coalesce(error, result, '') FROM task_run_logs \
    WHERE status IN ('error', 'killed') AND julianday(run_at) >= julianday(?1) ORDER BY julianday(run_at) DESC LIMIT 20";

/// The parameters. Times are in seconds since 1970.
struct StatusArgs {
    db: PathBuf,
    now: i64,
    /// End of the 24 hours whose failures are counted: `now`, unless `--now-utc` is given.
    failures_until: i64,
    grace_minutes: i64,
    messages: i64,
    task_logs: i64,
    megabytes: i64,
}

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

/// Runs the checks independently of each other.
pub(crate) fn main(words: &[String]) -> Result<Json, End> {
    let asked = StatusArgs::of(&OPTIONS.read(words)?)?;
    let mut found = Findings::default();
    let shown = asked.db.display().to_string();
    let Ok(known) = std::fs::metadata(&asked.db) else {
        found.alerts.push(format!("db missing: {shown}"));
        let why = format!(
            "db missing at {shown}; verify the trusted-tier mount points at the orchestrator's messages.db, or pass --db <path> to override."
        );
        return Err(End::Found(found.json(&asked), why));
    };
    found.megabytes = Some(one_decimal(known.len()));
    let database = match database::open(&asked.db) {
        Ok(database) => database,
        Err(error) => {
            let error = words_of(&error);
            found.alerts.push(format!("db connect failed: {error}"));
            let why = format!(
                "sqlite3 connect failed against {shown}: {error}. Check that the file is a valid SQLite database and that the trusted container has read access to it (the trusted tier is read-only on this mount; if the file was moved, update the --db flag or the orchestrator mount)."
            );
            return Err(End::Found(found.json(&asked), why));
        }
    };
    found.look(&asked, &database);
    found.alert(&asked);
    let answer = found.json(&asked);
    if found.broken == 3 {
        let why = format!(
            "connected to {shown} but every check raised; see `alerts` in stdout for per-query reasons. Likely causes: schema drift, missing tables, or a corrupted DB. Run `sqlite3 {shown} '.schema'` to verify the expected tables (messages, task_run_logs, scheduled_tasks) exist."
        );
        return Err(End::Found(answer, why));
    }
    Ok(answer)
}

impl StatusArgs {
    fn of(given: &ParsedArgs) -> Result<Self, Usage> {
        let now = i64::try_from(clock::now_ms() / 1000).unwrap_or_default();
        let failures_until = match given.value("--now-utc").filter(|text| !text.is_empty()) {
            None => now,
            Some(text) => time::seconds(text, TIME)
                .ok_or_else(|| Usage::wrong(format!("--now-utc '{text}' must match `YYYY-MM-DDTHH:MM:SSZ`")))?,
        };
        let db = given.value("--db").map(PathBuf::from);
        Ok(Self {
            db: db.unwrap_or_else(|| Places::of_process(OPTIONS.tool).messages_db()),
            now,
            failures_until,
            grace_minutes: given.number("--stuck-grace-minutes", 5)?,
            messages: given.number("--message-row-warn", 100_000)?,
            task_logs: given.number("--task-log-row-warn", 10_000)?,
            megabytes: given.number("--db-size-mb-warn", 500)?,
        })
    }
}

/// A file size in MB, rounded to one digit.
#[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
fn one_decimal(bytes: u64) -> f64 {
    format!("{:.1}", bytes as f64 / BYTES_PER_MB).parse().unwrap_or_default()
}

impl Findings {
    fn look(&mut self, asked: &StatusArgs, database: &Connection) {
        let late = asked.now.saturating_sub(asked.grace_minutes.saturating_mul(60));
        let task = |row: &Row<'_>| {
            let preview = start(column(row, 1), 50);
            Json::object([("id", column(row, 0)), ("prompt_preview", preview), ("next_run", column(row, 2))])
        };
        self.stuck = self.ask("stuck-tasks", rows(database, STUCK, late, task)).unwrap_or_default();
        if let Some((messages, task_logs)) = self.ask("row-counts", counts(database)) {
            (self.messages, self.task_logs) = (Some(messages), Some(task_logs));
        }
        let since = asked.failures_until.saturating_sub(NEWS);
        let failure = |row: &Row<'_>| {
            let summary = start(column(row, 2), 200);
            Json::object([("task_id", column(row, 0)), ("run_at", column(row, 1)), ("error_summary", summary)])
        };
        self.failures = self.ask("recent-failures", rows(database, FAILURES, since, failure)).unwrap_or_default();
    }

    /// Adds one alert per exceeded limit, after those about failed queries.
    fn alert(&mut self, asked: &StatusArgs) {
        if !self.stuck.is_empty() {
            self.alerts.push(format!("stuck tasks: {}", self.stuck.len()));
        }
        for (table, count, most) in
            [("messages", self.messages, asked.messages), ("task_run_logs", self.task_logs, asked.task_logs)]
        {
            if let Some(count) = count.filter(|count| *count > most) {
                self.alerts.push(format!("{table} rowcount {count} > {most}"));
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "nobody has that many megabytes")]
        if let Some(size) = self.megabytes.filter(|size| *size > asked.megabytes as f64) {
            self.alerts.push(format!("db size {size:?}MB > {}MB", asked.megabytes));
        }
        if !self.failures.is_empty() {
            self.alerts.push(format!("recent task failures: {} in last 24h", self.failures.len()));
        }
    }

    /// The result of a query. A failure becomes an alert.
    fn ask<T>(&mut self, query: &str, answer: Result<T, rusqlite::Error>) -> Option<T> {
        match answer {
            Ok(answer) => Some(answer),
            Err(error) => {
                self.broken += 1;
                self.alerts.push(format!("{query} query failed: {}", words_of(&error)));
                None
            }
        }
    }

    fn json(&self, asked: &StatusArgs) -> Json {
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

/// The value of a column; null if it cannot be represented.
fn column(row: &Row<'_>, index: usize) -> Json {
    let value = row.get_ref(index).map(database::value);
    value.ok().and_then(Result::ok).unwrap_or(Json::Null)
}

/// The beginning of a text.
fn start(value: Json, characters: usize) -> Json {
    match value {
        Json::Text(text) => Json::text(&text.shown().chars().take(characters).collect::<String>()),
        other => other,
    }
}
