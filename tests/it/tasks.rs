//! Tasks through real processes: the commands of people, the daemon, the runner, and the agent's own tools.

use std::time::Duration;

use serde_json::{Value, json};

use crate::host::agents::{call, done, json_of, results, with_cli};
use crate::host::{Host, after, wait_for};

/// Local times are the same everywhere.
fn host() -> Host {
    let mut host = Host::with_echo();
    host.env.push(("TZ".to_owned(), "America/New_York".to_owned()));
    host
}

fn tasks(host: &Host, arguments: &[&str]) -> Value {
    let mut all = vec!["tasks"];
    all.extend(arguments);
    all.push("--json");
    json_of(host, &all)
}

fn slots(host: &Host, task: &str) -> Vec<Value> {
    tasks(host, &["history", task])["slots"].as_array().unwrap().clone()
}

/// The outcomes of a task's slots, the oldest first, once none of them is still to come.
fn outcomes(host: &Host, task: &str, count: usize) -> Vec<String> {
    wait_for(&format!("{count} times of {task} to be over"), || {
        let all: Vec<String> =
            slots(host, task).iter().rev().map(|slot| slot["outcome"].as_str().unwrap().to_owned()).collect();
        (all.len() >= count && !all.contains(&"running".to_owned())).then_some(all)
    })
}

fn millis(time: &Value) -> i64 {
    time.as_i64().unwrap_or_else(|| hearth::model::Timestamp::parse(time.as_str().unwrap()).unwrap().millis())
}

#[test]
fn people_make_show_change_and_end_tasks_with_and_without_a_daemon() {
    for daemon in [false, true] {
        let mut host = host();
        if daemon {
            host.start();
        }
        let made =
            tasks(&host, &["add", "main", "Water the plants", "--at", "2030-01-15T21:00", "--cron", "0 9 * * 1-5"]);
        assert_eq!(
            (&made["task"], &made["next"], &made["next_local"], &made["zone"]),
            (
                &json!("ta1"),
                &json!("2030-01-16T02:00:00.000Z"),
                &json!("Jan 15, 2030, 9:00 PM"),
                &json!("America/New_York")
            )
        );
        assert_eq!(
            (&made["session"], &made["missed"], &made["overlap"]),
            (&json!(null), &json!("once"), &json!("refuse"))
        );
        host.done(&["tasks", "add", "main", "Look", "--every", "90m", "--script", "-", "--missed", "all:3"], b"true\n");
        let looked = tasks(&host, &["show", "ta2"]);
        assert_eq!((&looked["recurrence"], &looked["script"]), (&json!("90m"), &json!("true\n")));
        let changed = tasks(&host, &["set", "ta2", "--overlap", "queue", "--no-script", "--prompt", "Look again"]);
        assert_eq!((&changed["overlap"], &changed["script"]), (&json!("queue"), &json!(null)));
        assert_eq!(changed["next"], looked["next"], "what was not named stays");
        assert_eq!(tasks(&host, &["pause", "ta1"])["state"], "paused");
        assert_eq!(tasks(&host, &["resume", "ta1"])["state"], "active");
        assert_eq!(tasks(&host, &["cancel", "ta1"])["state"], "cancelled");
        let listed = |arguments: &[&str]| tasks(&host, arguments)["tasks"].as_array().unwrap().len();
        assert_eq!((listed(&["list"]), listed(&["list", "--all"]), listed(&["list", "main"])), (1, 2, 1));
        let table = host.done(&["tasks", "list"], b"");
        assert!(table.contains("ta2") && table.contains("America/New_York") && table.contains("90m"), "{table}");
        let status = host.status();
        assert_eq!((&status["tasks"]["open"], &status["tasks"]["next"]), (&json!(1), &looked["next"]));
        host.check();
    }
}

#[test]
fn what_cannot_be_is_refused_and_says_why() {
    let host = host();
    for (arguments, code, words) in [
        (&["add", "main", "x"][..], 2, "--at"),
        (&["add", "main", "x", "--at", "nope"], 1, "nope"),
        (&["add", "main", "x", "--at", "someday 8am"], 1, "`someday 8am` is not a time; write one like +10m, 8am"),
        (&["add", "main", "x", "--at", "2030-02-30"], 1, "2030-02-30"),
        (&["add", "main", "x", "--cron", "0 9 * *"], 1, "0 9 * *"),
        (&["add", "main", "x", "--every", "90"], 1, "90"),
        (&["add", "main", "x", "--every", ""], 1, "not an interval"),
        (&["add", "main", "x", "--every", "0 9 * * *"], 1, "not an interval"),
        (&["add", "main", "x", "--cron", "90m"], 1, "it has 1 field;"),
        (&["add", "main", "x", "--cron", "0 0 30 2 *"], 1, "the day of month"),
        (&["add", "main", "x", "--cron", "*/99 * * * *"], 1, "the minutes"),
        (&["add", "main", "x", "--at", "2500-01-01"], 1, "the year"),
        (&["add", "main", "x", "--at", "2020-01-15T21:00"], 1, "it was 2020-01-15 21:00:00 in"),
        (&["add", "main", " ", "--every", "90m"], 1, "prompt"),
        (&["add", "main", "x", "--every", "90m", "--cron", "* * * * *"], 2, "--cron"),
        (&["add", "main", "x", "--every", "90m", "--missed", "all:0"], 2, "all:N"),
        (&["add", "main", "x", "--every", "90m", "--overlap", "fork"], 2, "refuse or queue"),
        (&["add", "main", "x", "--every", "90m", "--session", "se99"], 1, "se99"),
        (&["add", "main", "x", "--every", "90m", "--chat", "telegram/9"], 1, "telegram/9"),
        (&["add", "main", "x", "--every", "90m", "--script", "/nowhere"], 1, "/nowhere"),
        (&["add", "nobody", "x", "--every", "90m"], 1, "nobody"),
        (&["show", "ta9"], 1, "ta9"),
        (&["history", "ta9"], 1, "ta9"),
        (&["pause", "ta9"], 1, "ta9"),
        (&["set", "ta9"], 1, "nothing"),
        (&["pause", "9"], 2, "9"),
    ] {
        let mut all = vec!["tasks"];
        all.extend(arguments);
        let ended = host.run(&all, b"");
        assert_eq!(ended.code, Some(code), "{arguments:?}: {ended:?}");
        assert!(ended.stderr.contains(words), "{arguments:?}: {}", ended.stderr);
    }
    assert!(host.rows("tasks").is_empty());
}

#[test]
fn a_task_runs_at_its_time_and_its_answer_goes_where_it_should() {
    let mut host = host();
    host.start();
    // The agent is already running when the task is due, so the test measures the schedule.
    host.inject("m1", "hello");
    host.wait_said(1);
    // Far enough ahead that the command reaches the daemon before.
    let at = after(Duration::from_secs(5));
    let made = tasks(&host, &["add", "main", "Say hi", "--at", &at, "--session", "se1", "--chat", "telegram/123"]);
    assert_eq!(made["session"], "se1");
    let said = host.wait_said(2);
    assert!(said.contains(&"echo: Say hi".to_owned()), "{said:?}");
    assert_eq!(outcomes(&host, "ta1", 1), ["done"]);
    let slot = slots(&host, "ta1").remove(0);
    assert_eq!(slot["slot"].as_str(), Some(at.as_str()));
    let row = host.rows("outbound").into_iter().find(|row| row["value"]["text"] == "echo: Say hi").unwrap();
    assert_eq!(row["value"]["to"]["platform_id"], "123");
    let late = millis(&row["value"]["stored"]) - millis(&slot["slot"]);
    assert!(late >= 0, "{late} ms: before its time");
    let message = slot["message"].as_str().unwrap();
    let why = host.done(&["why", message], b"");
    assert!(why.contains("ta1") && why.contains(&at), "{why}");
    assert_eq!(tasks(&host, &["show", "ta1"])["state"], "done");
    host.check();
}

#[test]
fn a_script_says_whether_the_agent_is_woken() {
    let mut host = host();
    host.start();
    for (prompt, script, expected) in [
        ("quiet", "echo '{\"wakeAgent\": false}'", "gated"),
        ("broken", "echo oh dear >&2; exit 3", "script_failed"),
        ("woken\n!prompt", "pwd >&2; echo log; echo '{\"wakeAgent\": true, \"data\": {\"found\": 4217}}'", "done"),
    ] {
        let made = host.done(
            &["tasks", "add", "main", prompt, "--every", "1d", "--chat", "telegram/123", "--script", "-", "--json"],
            script.as_bytes(),
        );
        let made: Value = serde_json::from_str(&made).unwrap();
        let id = made["task"].as_str().unwrap();
        assert_eq!(tasks(&host, &["run", id])["next"], made["next"], "the series stays as it is");
        assert_eq!(outcomes(&host, id, 1), [expected], "{prompt}");
    }
    let broken = slots(&host, "ta2").remove(0);
    assert!(broken["words"].as_str().unwrap().contains("exit status: 3: oh dear"), "{broken}");
    let said = host.said().join("\n");
    assert!(!said.contains("quiet") && !said.contains("broken") && said.contains("4217"), "{said}");
    host.check();
}

#[test]
fn a_script_that_fails_again_and_again_is_told() {
    let mut host = host();
    host.start();
    host.done(&["tasks", "add", "main", "x", "--every", "1d", "--chat", "telegram/123", "--script", "-"], b"exit 7");
    for run in 1..=4 {
        host.done(&["tasks", "run", "ta1"], b"");
        outcomes(&host, "ta1", run);
    }
    let told: Vec<String> = host.said().into_iter().filter(|text| text.contains("ta1")).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("`hearth tasks history ta1`") && !told[0].contains("exit status"), "{told:?}");
    let history = host.done(&["tasks", "history", "ta1"], b"");
    assert!(history.contains("exit status: 7") && history.contains("script failed"), "{history}");
    let warnings = host.status()["warnings"].to_string();
    assert!(warnings.contains("task ta1 of main failed 4 times in a row"), "{warnings}");
}

#[test]
fn a_turn_that_fails_is_told_as_the_tasks_and_the_series_goes_on() {
    let mut host = host();
    host.start();
    host.done(&["tasks", "add", "main", "!fail no model", "--every", "1d", "--chat", "telegram/123"], b"");
    host.done(&["tasks", "run", "ta1"], b"");
    assert_eq!(outcomes(&host, "ta1", 1), ["failed"]);
    let said = host.said();
    assert!(said.iter().any(|text| text.starts_with("The agent could not do the scheduled task ta1.")), "{said:?}");
    let why = host.done(&["tasks", "history", "ta1"], b"");
    assert!(why.contains("no model"), "{why}");
    assert_eq!(tasks(&host, &["show", "ta1"])["state"], "active");
}

#[test]
fn the_history_of_a_task_says_where_its_answers_went() {
    let mut host = host();
    host.done(&["chats", "set", "telegram/123", "--name", "Family"], b"");
    host.start();
    host.done(&["tasks", "add", "main", "hello", "--every", "1d", "--chat", "telegram/123"], b"");
    host.done(&["tasks", "run", "ta1"], b"");
    assert_eq!(outcomes(&host, "ta1", 1), ["done"]);
    assert_eq!(slots(&host, "ta1")[0]["sent_to"], json!(["Family (telegram): not sent yet"]));
    let why = host.done(&["why", "ta1"], b"");
    assert!(why.contains("answers go to        Family (telegram)\n"), "{why}");
    assert!(why.contains("Family (telegram): not sent yet") && why.contains(" to Family (telegram) is "), "{why}");
}

#[test]
fn a_daemon_that_is_killed_runs_a_task_once() {
    let mut host = host();
    host.start();
    let at = after(Duration::from_secs(2));
    host.done(&["tasks", "add", "main", "!until go\nonly once", "--at", &at, "--chat", "telegram/123"], b"");
    wait_for("the task to run", || slots(&host, "ta1").first().filter(|slot| slot["outcome"] == "running").map(drop));
    host.kill();
    host.start();
    host.go();
    assert_eq!(outcomes(&host, "ta1", 1), ["done"]);
    host.wait_settled();
    let said: Vec<String> = host.said().into_iter().filter(|text| text.contains("only once")).collect();
    assert_eq!((said.len(), host.rows("fires").len()), (1, 1), "{said:?}");
    host.check();
}

#[test]
fn the_agent_keeps_its_own_tasks() {
    let Some((host, api)) = with_cli() else { return };
    let script = [
        call(
            "schedule_task",
            &json!({"prompt": "Water the plants", "processAfter": "2030-01-15T21:00:00Z", "recurrence": "0 9 * * 1-5"}),
        ),
        call("schedule_task", &json!({"prompt": "x", "processAfter": "nope"})),
        call("schedule_task", &json!({"processAfter": "2030-01-15"})),
        call("list_tasks", &json!({})),
        call("pause_task", &json!({"taskId": "ta1"})),
        call("list_tasks", &json!({"status": "paused"})),
        call("resume_task", &json!({"taskId": "ta1"})),
        call("update_task", &json!({"taskId": "ta1"})),
        call("update_task", &json!({"taskId": "ta1", "prompt": "Water them well"})),
        call("cancel_task", &json!({"taskId": "ta1"})),
        call("list_tasks", &json!({})),
        "[[say that is all]]".to_owned(),
    ];
    host.inject("m1", &script.join(" "));
    wait_for("the answer", || host.said().contains(&"that is all".to_owned()).then_some(()));
    let told = results(&api);
    assert_eq!(told[0], done("Task scheduled (id: ta1, runs at: 2030-01-15T21:00:00.000Z, recurrence: 0 9 * * 1-5)"));
    assert_eq!(told[1], ("Error: invalid processAfter: nope".to_owned(), true));
    assert_eq!(told[2], ("Error: prompt and processAfter are required".to_owned(), true));
    let line =
        |state: &str| format!("- ta1 [{state}] at=2030-01-15T21:00:00.000Z recur=0 9 * * 1-5 → Water the plants");
    assert_eq!(told[3], done(&line("pending")));
    assert_eq!(told[4], done("Task pause requested: ta1"));
    assert_eq!(told[5], done(&line("paused")));
    assert_eq!(told[6], done("Task resume requested: ta1"));
    assert_eq!(told[7], ("Error: at least one field to update is required".to_owned(), true));
    assert_eq!(told[8], done("Task update requested: ta1"));
    assert_eq!(told[9], done("Task cancellation requested: ta1"));
    assert_eq!(told[10], done("No tasks found."));
    let shown = tasks(&host, &["show", "ta1"]);
    assert_eq!(
        (&shown["state"], &shown["prompt"], &shown["made_in"]),
        (&json!("cancelled"), &json!("Water them well"), &json!("se1"))
    );
    host.check();
}

#[test]
fn a_task_without_a_chat_answers_its_owner_or_in_the_only_chat_and_is_refused_if_there_is_none() {
    let host = Host::with_echo();
    let add = |host: &Host, more: &[&str]| {
        let ended = host.run(&[&["tasks", "add", "main", "look", "--every", "1h", "--json"], more].concat(), b"");
        (ended.code, ended.stdout, ended.stderr)
    };
    let chat_of = |(code, stdout, stderr): (Option<i32>, String, String)| -> Value {
        assert_eq!(code, Some(0), "{stderr}");
        serde_json::from_str::<Value>(&stdout).unwrap()["chat"].clone()
    };
    host.done(&["agents", "add", "alone"], b"");
    let nowhere = host.run(&["tasks", "add", "alone", "look", "--every", "1h"], b"");
    assert_eq!(nowhere.code, Some(1), "{nowhere:#?}");
    assert!(nowhere.stderr.contains("alone listens in no chat"), "{nowhere:#?}");
    assert_eq!(chat_of(add(&host, &["--no-chat"])), Value::Null);
    assert_eq!(chat_of(add(&host, &[])), "telegram/123");
    host.done(&["chats", "add", "telegram/456"], b"");
    host.done(&["wirings", "add", "telegram/456", "main"], b"");
    let (code, _, stderr) = add(&host, &[]);
    let choices = "main listens in several chats: choose one of telegram/123, telegram/456 with --chat";
    assert!(code == Some(1) && stderr.contains(choices), "{stderr}");
    host.done(&["users", "add", "telegram:456", "--roles", "owner"], b"");
    assert_eq!(chat_of(add(&host, &[])), "telegram/456");
    assert_eq!(chat_of(add(&host, &["--chat", "telegram/123"])), "telegram/123");
}

#[test]
fn the_chat_of_a_task_is_changed_and_removed() {
    for daemon in [false, true] {
        let mut host = host();
        host.done(&["chats", "add", "telegram/456"], b"");
        if daemon {
            host.start();
        }
        tasks(&host, &["add", "main", "look", "--every", "1h"]);
        assert_eq!(tasks(&host, &["set", "ta1", "--chat", "telegram/456"])["chat"], "telegram/456");
        assert_eq!(tasks(&host, &["set", "ta1", "--prompt", "Look again"])["chat"], "telegram/456");
        assert_eq!(tasks(&host, &["set", "ta1", "--no-chat"])["chat"], Value::Null);
        let unknown = host.run(&["tasks", "set", "ta1", "--chat", "telegram/789"], b"");
        assert!(unknown.code == Some(1) && unknown.stderr.contains("telegram/789"), "{unknown:#?}");
        let both = host.run(&["tasks", "set", "ta1", "--chat", "telegram/456", "--no-chat"], b"");
        assert_eq!(both.code, Some(2), "{both:#?}");
    }
}

/// When a task runs next is said as people say it, in the agent's time zone.
#[test]
fn natural_times_are_read_in_the_time_zone_of_the_agent() {
    let host = host();
    host.done(&["agents", "set", "main", "--timezone", "Asia/Tokyo"], b"");
    let hours = |count: u64| Duration::from_secs(count * 3_600);
    tasks(&host, &["add", "main", "look", "--every", "1d"]);
    for command in [&["add", "main", "look"][..], &["set", "ta1"]] {
        // A minute for a slow machine.
        let soon = tasks(&host, &[command, &["--at", "+10m"]].concat())["next"].as_str().unwrap().to_owned();
        assert!(soon > after(Duration::from_secs(540)) && soon <= after(Duration::from_secs(600)), "{soon}");
        // 8:00 in Tokyo is 23:00 of the day before in UTC.
        let next = tasks(&host, &[command, &["--at", "tomorrow 8am"]].concat())["next"].as_str().unwrap().to_owned();
        assert!(next.ends_with("T23:00:00.000Z"), "{next}");
        assert!(next > after(hours(7)) && next <= after(hours(32)), "{next}");
        let monday = tasks(&host, &[command, &["--at", "mon 9:00"]].concat());
        let local = monday["next_local"].as_str().unwrap();
        assert!(local.contains(" 9:00") && local.ends_with("AM"), "{monday}");
        let refused = host.run(&[&["tasks"], command, &["--at", "in a while"]].concat(), b"");
        assert!(refused.code == Some(1), "{refused:?}");
        assert!(refused.stderr.contains("`in a while` is not a time; write one like +10m, 8am"), "{refused:?}");
    }
}

/// The line for people says where the answers go.
#[test]
fn adding_a_task_says_where_its_answers_go() {
    let host = host();
    let line = |more: &[&str]| {
        let shown = host.done(&[&["tasks", "add", "main", "look", "--every", "1h"], more].concat(), b"");
        let line = shown.lines().find_map(|line| line.strip_prefix("answers go to"));
        line.unwrap_or_else(|| panic!("{shown}")).trim().to_owned()
    };
    assert_eq!(line(&[]), "telegram/123");
    host.done(&["chats", "set", "telegram/123", "--name", "Kitchen"], b"");
    assert_eq!(line(&["--chat", "telegram/123"]), "Kitchen (telegram)");
    assert_eq!(line(&["--no-chat"]), "no chat; its tools can send messages");
}
