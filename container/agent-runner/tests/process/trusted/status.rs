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
    // The report's time comes from the clock; `--now-utc` only moves the day whose failures are listed.
    let checked = json["checked_at"].as_str().unwrap();
    assert!(checked > "2026-05-02T12:00:00Z" && checked.len() == 20 && checked.ends_with('Z'), "{checked}");
    json["checked_at"] = Value::Null;
    let wanted = json!({
        "checked_at": null, "db_path": place.path("messages.db"), "stuck_tasks": [], "stuck_count": 0,
        "row_counts": {"messages": 0, "task_run_logs": 0}, "db_size_mb": 0.0, "recent_failures": [], "alerts": [],
    });
    assert_eq!((ran.code, json, ran.err.as_str()), (Some(0), wanted, ""));
    assert_eq!(place.names(), ["messages.db"]);
}

/// Times in both formats.
#[test]
fn tasks_that_are_late_are_stuck() {
    let at =
        |minutes: i64, form: &str| (chrono::Utc::now() - chrono::TimeDelta::minutes(minutes)).format(form).to_string();
    let (iso, spaced) = (at(10, "%Y-%m-%dT%H:%M:%S.000Z"), at(6, "%Y-%m-%d %H:%M:%S"));
    let graced = at(4, "%Y-%m-%dT%H:%M:%SZ");
    let place = with(&format!(
        "INSERT INTO scheduled_tasks VALUES \
         ('late', 'a prompt that is longer than the fifty characters which are shown of it', 'active', '{iso}'), \
         ('spaced', 'p', 'active', '{spaced}'), ('graced', 'p', 'active', '{graced}'), \
         ('paused', 'p', 'paused', '2026-05-01T00:00:00Z'), ('never', 'p', 'active', NULL)",
    ));
    let json = run(&place, &[]).json();
    let wanted = json!([
        {"id": "late", "prompt_preview": "a prompt that is longer than the fifty characters ", "next_run": iso},
        {"id": "spaced", "prompt_preview": "p", "next_run": spaced},
    ]);
    assert_eq!((&json["stuck_tasks"], &json["stuck_count"]), (&wanted, &json!(2)));
    assert_eq!(json["alerts"], json!(["stuck tasks: 2"]));
    assert_eq!(run(&place, &["--stuck-grace-minutes", "8"]).json()["stuck_count"], 1);
}

#[test]
fn failures_of_a_day_are_told() {
    let place = with(
        "INSERT INTO task_run_logs (task_id, run_at, status, result, error) VALUES \
         ('a', '2026-05-02T01:00:00.000Z', 'error', 'r', 'e'), ('b', '2026-05-02T02:00:00.000Z', 'killed', 'from result', NULL), \
         ('c', '2026-05-02T03:00:00.000Z', 'success', 'an error', NULL), ('d', '2026-05-02T03:00:00.000Z', 'precheck_skipped', 'error', NULL), \
         ('e', '2026-05-01T11:59:59.000Z', 'error', 'old', 'old'), \
         ('f', '2026-05-02T00:30:00.000Z', 'error', 'not the summary', ''), \
         ('g', '2026-05-02T00:20:00.000Z', 'killed', NULL, NULL)",
    );
    let json = run(&place, &[]).json();
    let wanted = json!([
        {"task_id": "b", "run_at": "2026-05-02T02:00:00.000Z", "error_summary": "from result"},
        {"task_id": "a", "run_at": "2026-05-02T01:00:00.000Z", "error_summary": "e"},
        {"task_id": "f", "run_at": "2026-05-02T00:30:00.000Z", "error_summary": ""},
        {"task_id": "g", "run_at": "2026-05-02T00:20:00.000Z", "error_summary": ""},
    ]);
    assert_eq!(json["recent_failures"], wanted);
    assert_eq!(json["alerts"], json!(["recent task failures: 4 in last 24h"]));
}

#[test]
fn what_grows_is_told_beyond_its_bound() {
    let many = |table: &str, columns: &str, n: usize| {
        format!(
            "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < {n}) INSERT INTO {table} ({columns}) SELECT x FROM c;"
        )
    };
    let padding = "UPDATE messages SET id = hex(zeroblob(5000))";
    let place = with(&format!("{}{}{padding}", many("messages", "id", 15), many("task_run_logs", "task_id", 20)));
    for (words, alerts) in [
        (&["--message-row-warn", "10"][..], json!(["messages rowcount 15 > 10"])),
        (&["--message-row-warn", "15"], json!([])),
        (&["--task-log-row-warn=10"], json!(["task_run_logs rowcount 20 > 10"])),
        (&["--db-size-mb-warn", "0"], json!(["db size 0.2MB > 0MB"])),
        (
            &["--db-size-mb-warn=0", "--task-log-row-warn=1", "--message-row-warn=2"],
            json!(["messages rowcount 15 > 2", "task_run_logs rowcount 20 > 1", "db size 0.2MB > 0MB"]),
        ),
    ] {
        let json = run(&place, words).json();
        assert_eq!(
            (&json["row_counts"], &json["db_size_mb"]),
            (&json!({"messages": 15, "task_run_logs": 20}), &json!(0.2))
        );
        assert_eq!(json["alerts"], alerts, "{words:?}");
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
    let path = place.path("messages.db").display().to_string();
    let advice =
        "verify the trusted-tier mount points at the orchestrator's messages.db, or pass --db <path> to override.";
    assert_eq!(ran.err, format!("system-status-checks: db missing at {path}; {advice}\n"));
    assert!(place.names().is_empty());
    for (content, why) in [
        (String::new(), ["no such table: scheduled_tasks", "no such table: messages", "no such table: task_run_logs"]),
        ("no database at all, but long enough to be looked at".repeat(30), ["file is not a database"; 3]),
    ] {
        place.put("messages.db", content);
        let ran = run(&place, &[]);
        let alerts = ["stuck-tasks", "row-counts", "recent-failures"].iter().zip(why);
        let alerts: Vec<String> = alerts.map(|(query, why)| format!("{query} query failed: {why}")).collect();
        assert_eq!((ran.code, &ran.json()["alerts"]), (Some(1), &json!(alerts)));
        assert!(ran.err.contains("but every check raised; see `alerts`") && ran.err.contains(".schema"), "{}", ran.err);
    }
    std::fs::remove_file(place.path("messages.db")).unwrap();
    std::fs::create_dir(place.path("messages.db")).unwrap();
    let ran = run(&place, &[]);
    let alerts = ran.json()["alerts"].clone();
    assert_eq!((ran.code, alerts.as_array().map(Vec::len)), (Some(1), Some(1)));
    assert!(alerts[0].as_str().unwrap().starts_with("db connect failed: "), "{alerts}");
    assert!(
        ran.err.starts_with(&format!("system-status-checks: sqlite3 connect failed against {path}: ")),
        "{}",
        ran.err
    );
    for words in [
        &["--now-utc", "yesterday"][..],
        &["--message-row-warn", "x"],
        &["--now-utc", "2026-05-02"],
        &["--db-size-mb-warn", "0.5"],
    ] {
        assert_eq!(run(&place, words).code, Some(2), "{words:?}");
    }
}
