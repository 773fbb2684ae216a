//! `system-status-checks`.

use serde_json::{Value, json};

use super::{Place, Ran};

const TABLES: &str = "CREATE TABLE messages (id TEXT); \
    CREATE TABLE scheduled_tasks (id TEXT, prompt TEXT, status TEXT, next_run TEXT); \
    CREATE TABLE task_run_logs (id INTEGER PRIMARY KEY, task_id TEXT, run_at TEXT, status TEXT, result TEXT, error TEXT)";

fn run(place: &Place, extra: &[&str]) -> Ran {
    let base = ["system-status-checks", "--now-utc", "2026-05-02T12:00:00Z"];
    place.run(&[&base[..], extra].concat(), &[], "")
}

fn with(rows: &str) -> Place {
    let place = Place::new();
    let database = rusqlite::Connection::open(place.path("messages.db")).unwrap();
    database.execute_batch(TABLES).unwrap();
    database.execute_batch(rows).unwrap();
    place
}

#[test]
fn nothing_is_said_of_a_house_in_order() {
    let place = with("");
    let ran = run(&place, &[]);
    let mut json = ran.json();
    assert!(json["db_size_mb"].as_f64().unwrap() > 0.0);
    json["db_size_mb"] = Value::Null;
    let wanted = json!({
        "checked_at": "2026-05-02T12:00:00Z", "db_path": place.path("messages.db"), "stuck_tasks": [], "stuck_count": 0,
        "row_counts": {"messages": 0, "task_run_logs": 0}, "db_size_mb": null, "recent_failures": [], "alerts": [],
    });
    assert_eq!((ran.code, json, ran.err.as_str()), (Some(0), wanted, ""));
    assert_eq!(place.names(), ["messages.db"]);
}

/// Times in both of their forms.
#[test]
fn tasks_that_are_late_are_stuck() {
    let place = with(
        "INSERT INTO scheduled_tasks VALUES \
         ('late', 'a prompt that is longer than the fifty characters which are shown of it', 'active', '2026-05-02T11:50:00.000Z'), \
         ('spaced', 'p', 'active', '2026-05-02 11:54:00'), ('graced', 'p', 'active', '2026-05-02T11:56:00Z'), \
         ('paused', 'p', 'paused', '2026-05-01T00:00:00Z'), ('never', 'p', 'active', NULL)",
    );
    let json = run(&place, &[]).json();
    let wanted = json!([
        {"id": "late", "prompt_preview": "a prompt that is longer than the fifty characters ", "next_run": "2026-05-02T11:50:00.000Z"},
        {"id": "spaced", "prompt_preview": "p", "next_run": "2026-05-02 11:54:00"},
    ]);
    assert_eq!((&json["stuck_tasks"], &json["stuck_count"]), (&wanted, &json!(2)));
    assert_eq!(json["alerts"].as_array().unwrap().len(), 1);
    assert_eq!(run(&place, &["--stuck-grace-minutes", "8"]).json()["stuck_count"], 1);
}

#[test]
fn failures_of_a_day_are_told() {
    let place = with(
        "INSERT INTO task_run_logs (task_id, run_at, status, result, error) VALUES \
         ('a', '2026-05-02T01:00:00.000Z', 'error', 'r', 'e'), ('b', '2026-05-02T02:00:00.000Z', 'killed', 'from result', NULL), \
         ('c', '2026-05-02T03:00:00.000Z', 'success', 'an error', NULL), ('d', '2026-05-02T03:00:00.000Z', 'precheck_skipped', 'error', NULL), \
         ('e', '2026-05-01T11:59:59.000Z', 'error', 'old', 'old')",
    );
    let json = run(&place, &[]).json();
    let wanted = json!([
        {"task_id": "b", "run_at": "2026-05-02T02:00:00.000Z", "error_summary": "from result"},
        {"task_id": "a", "run_at": "2026-05-02T01:00:00.000Z", "error_summary": "e"},
    ]);
    assert_eq!(json["recent_failures"], wanted);
    assert_eq!(json["alerts"].as_array().unwrap().len(), 1);
}

#[test]
fn what_grows_is_told_beyond_its_bound() {
    let many = |table: &str, columns: &str, n: usize| {
        format!(
            "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < {n}) INSERT INTO {table} ({columns}) SELECT x FROM c;"
        )
    };
    let place = with(&format!("{}{}", many("messages", "id", 15), many("task_run_logs", "task_id", 20)));
    for (words, alerts) in [
        (&["--message-row-warn", "10"][..], 1),
        (&["--message-row-warn", "15"], 0),
        (&["--task-log-row-warn=10"], 1),
        (&["--db-size-mb-warn", "0"], 1),
    ] {
        let json = run(&place, words).json();
        assert_eq!(json["row_counts"], json!({"messages": 15, "task_run_logs": 20}));
        assert_eq!(json["alerts"].as_array().unwrap().len(), alerts, "{words:?}");
    }
}

#[test]
fn a_database_that_is_none_is_an_alert_and_a_failure() {
    let place = Place::new();
    let ran = run(&place, &[]);
    assert_eq!(
        (ran.code, &ran.json()["alerts"]),
        (Some(1), &json!([format!("db missing: {}", place.path("messages.db").display())]))
    );
    assert!(ran.err.starts_with("system-status-checks: ") && place.names().is_empty(), "{}", ran.err);
    for content in [String::new(), "no database at all, but long enough to be looked at".repeat(30)] {
        place.put("messages.db", content);
        let ran = run(&place, &[]);
        let json = ran.json();
        let failed = json["alerts"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|alert| alert.as_str().unwrap().starts_with("query failed: "));
        assert_eq!((ran.code, failed.count()), (Some(1), 3), "{json}");
        assert!(ran.err.contains("every check raised"), "{}", ran.err);
    }
    for words in [&["--now-utc", "yesterday"][..], &["--message-row-warn", "x"], &["--now-utc", "2026-05-02"]] {
        assert_eq!(run(&place, words).code, Some(2), "{words:?}");
    }
}
