//! Time zones: which one applies, what agents are told about it, and the commands that compute with times.

use hearth::model::Effect;
use hearth::model::effect::ContextView;
use serde_json::{Value, json};

use crate::host::{CHAT, Ended, Host, Running};
use crate::world::{World, event};

/// Runs a command without a data directory, which it may not create.
fn alone(host: &Host, arguments: &[&str]) -> Ended {
    let mut command = host.bare(env!("CARGO_BIN_EXE_hearth"));
    command.args(arguments);
    let ended = Running::start(command, b"").end();
    assert!(!host.path(".local").exists(), "{arguments:?} made a data directory");
    ended
}

fn answer(host: &Host, arguments: &[&str]) -> Value {
    let ended = alone(host, arguments);
    assert_eq!(ended.code, Some(0), "{arguments:?}: {ended:#?}");
    serde_json::from_str(&ended.stdout).unwrap()
}

#[test]
fn runs_of_an_expression_are_shown_without_a_store() {
    let mut host = Host::new();
    let spring = ["--tz", "America/New_York", "--after", "2026-03-07T20:00:00Z", "-n", "2", "--json"];
    let next = |expression: &'static str| [&["cron", "next", expression][..], &spring].concat();
    assert_eq!(
        answer(&host, &next("0 9 * * *")),
        json!({"next": ["2026-03-08T13:00:00.000Z", "2026-03-09T13:00:00.000Z"]})
    );
    assert_eq!(
        answer(&host, &next("30 2 * * *")),
        json!({"next": ["2026-03-08T07:30:00.000Z", "2026-03-09T06:30:00.000Z"]})
    );
    let shown = alone(&host, &["cron", "next", "@daily", "--tz", "+02:00", "--after", "2026-01-15T09:00", "-n", "1"]);
    let lines: Vec<&str> = shown.stdout.lines().map(str::trim).collect();
    assert!(
        lines[1].starts_with("Jan 16, 2026, 12:00 AM") && lines[1].ends_with("2026-01-15T22:00:00.000Z"),
        "{shown:#?}"
    );
    let many = answer(&host, &["cron", "next", "* * * * *", "-n", "1000", "--json"]);
    assert_eq!(many["next"].as_array().unwrap().len(), 1_000);
    assert_eq!(answer(&host, &["cron", "next", "0 0 1 1 *", "--after", "2100-02-01", "--json"]), json!({"next": []}));
    host.env.push(("TZ".to_owned(), "Asia/Tokyo".to_owned()));
    let tokyo = ["cron", "next", "0 9 * * *", "--after", "2026-01-15T08:59", "-n", "1", "--json"];
    assert_eq!(answer(&host, &tokyo), json!({"next": ["2026-01-15T00:00:00.000Z"]}));
    host.env.push(("TZ".to_owned(), "IST-2".to_owned()));
    let warned = alone(&host, &tokyo);
    assert_eq!(warned.code, Some(0));
    assert!(warned.stderr.contains("TZ: `IST-2` is not a time zone"), "{warned:#?}");
}

#[test]
fn a_time_is_explained_without_a_store() {
    let host = Host::new();
    assert_eq!(
        answer(&host, &["time", "parse", "2026-11-01T01:30", "--tz", "america/new_york", "--json"]),
        json!({"utc": "2026-11-01T05:30:00.000Z", "local": "Nov 1, 2026, 1:30 AM", "zone": "america/new_york"})
    );
    let shown = alone(&host, &["time", "parse", " 2026-01-15T09:00:00z ", "--tz", "Asia/Kathmandu"]);
    assert!(shown.stdout.contains("Jan 15, 2026, 2:45 PM"), "{shown:#?}");
}

#[test]
fn what_is_wrong_with_a_time_is_named() {
    let host = Host::new();
    for (arguments, expected) in [
        (vec!["cron", "next", ""], "it is empty"),
        (vec!["cron", "next", "60 * * * *"], "the minutes of the cron expression `60 * * * *`: 60 is out of range"),
        (vec!["cron", "next", "0 9 * *"], "it has 4 fields"),
        (vec!["cron", "next", "0 0 30 2 *"], "the day of month"),
        (vec!["cron", "next", "H 9 * * *"], "`H` stands for any value"),
        (vec!["cron", "next", "@daily", "--tz", "UTC+2"], "`UTC+2` is not a time zone"),
        (vec!["cron", "next", "@daily", "--after", "tomorrow"], "`tomorrow` is not a time"),
        (vec!["cron", "next", "@daily", "-n", "0"], "0 is not in 1..=1000"),
        (vec!["cron", "next", "@daily", "-n", "1001"], "1001 is not in 1..=1000"),
        (vec!["time", "parse", "2026-02-30"], "the day of `2026-02-30` is 30, and must be from 1 to 28 in 2026-02"),
        (vec!["time", "parse", "2026-01-15T25:00"], "the hour"),
        (vec!["time", "parse", "3026-01-15"], "the year of `3026-01-15` is 3026, and must be from 1970 to 2100"),
        (vec!["time", "parse", "2026-01-15", "--tz", "Mars/Base"], "`Mars/Base` is not a time zone"),
    ] {
        let ended = alone(&host, &arguments);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{arguments:?}: {ended:#?}");
        assert!(ended.stderr.contains(expected), "{arguments:?}: {}", ended.stderr);
    }
}

/// Time zones of the context files that were requested, by folder.
fn renewed(world: &World) -> Vec<(String, Option<String>)> {
    let context = |effect: &Effect| match effect {
        Effect::Export(export) => {
            export.context.as_ref().map(|ContextView { folder, timezone, .. }| (folder.clone(), timezone.clone()))
        }
        _ => None,
    };
    world.effects.iter().filter_map(context).collect()
}

/// Live agents are told of a changed time zone at once, if it applies to them.
#[test]
fn another_zone_reaches_the_agents_that_live() {
    let agents = |common: &str, own: &str| {
        format!(
            "{common}[[agents]]\nfolder = \"a\"\n[[agents]]\nfolder = \"b\"\n{own}[[chats]]\nchannel = \"net\"\n\
             platform_id = \"C\"\nunknown_senders = \"public\"\n[[chats.wirings]]\nagent = \"a\"\nengage = \"pattern\"\n\
             pattern = \".\"\n[[chats.wirings]]\nagent = \"b\"\nengage = \"pattern\"\npattern = \".\"\n"
        )
    };
    let zone = |name: &str| Some(name.to_owned());
    let mut world = World::of(&agents("", ""));
    world.inject(&event("1", "x", ""));
    world.settle();
    for (common, own, expected) in [
        ("timezone = \"Asia/Tokyo\"\n", "", vec![("a", zone("Asia/Tokyo")), ("b", zone("Asia/Tokyo"))]),
        ("timezone = \"Asia/Tokyo\"\n", "timezone = \"+01:00\"\n", vec![("b", zone("+01:00"))]),
        ("timezone = \"Europe/Berlin\"\n", "timezone = \"+01:00\"\n", vec![("a", zone("Europe/Berlin"))]),
        ("timezone = \"Europe/Berlin\"\n", "timezone = \"+01:00\"\n", vec![]),
        ("timezone = \"Europe/Berlin\"\n", "", vec![("b", zone("Europe/Berlin"))]),
    ] {
        world.lose_effects();
        world.apply(&agents(common, own));
        let expected: Vec<_> = expected.into_iter().map(|(folder, zone)| (folder.to_owned(), zone)).collect();
        assert_eq!(renewed(&world), expected, "{common} {own}");
    }
}

/// An agent that reports what it was told, and its clock's time zone.
const PROGRAM: &str = r#"
import json, os, sys
for line in sys.stdin:
    turn = json.loads(line)
    if turn["type"] != "turn":
        continue
    print(json.dumps({"type": "say", "text": os.environ.get("TZ", "none") + "\n" + turn["prompt"]}))
    print(json.dumps({"type": "done"}), flush=True)
"#;

#[test]
fn an_agent_lives_in_the_zone_of_its_people() {
    let mut host = Host::new();
    let path = host.path("agent.py");
    std::fs::write(&path, PROGRAM).unwrap();
    let file = |top: &str| {
        format!(
            "schema = 1\n{top}[[agents]]\nfolder = \"main\"\nprovider = \"command\"\ncommand = [\"python3\", {:?}]\n\
             unconfined = true\n{CHAT}",
            path.display()
        )
    };
    host.env.push(("TZ".to_owned(), "asia/tokyo".to_owned()));
    host.apply(&file(""));
    host.start();
    let status = host.status();
    assert_eq!((&status["timezone"], &status["timezone_from"]), (&json!("asia/tokyo"), &json!("TZ")), "{status}");
    // The environment of commands does not determine the daemon's.
    host.env.retain(|(name, _)| name != "TZ");
    host.env.push(("TZ".to_owned(), "UTC".to_owned()));
    assert_eq!(host.status()["timezone"], "asia/tokyo");
    let shown: Value = serde_json::from_str(&host.done(&["agents", "show", "main", "--json"], b"")).unwrap();
    assert_eq!((&shown["zone"], &shown["zone_from"]), (&json!("asia/tokyo"), &json!("TZ")));
    host.inject("m1", "one");
    let heard = host.wait_said(1).remove(0);
    let lines: Vec<&str> = heard.lines().collect();
    assert_eq!(lines[..2], ["Asia/Tokyo", "<context timezone=\"asia/tokyo\" />"], "{heard}");
    assert!(
        lines[2].starts_with("<message id=\"2\" from=\"")
            && lines[2].contains("sender=\"Ann\" unknown_sender=\"true\" time=\""),
        "{heard}"
    );
    host.wait_settled();
    host.apply(&file("timezone = \"+05:30\"\n"));
    assert_eq!(host.status()["timezone_from"], "the configuration");
    host.inject("m2", "two");
    let heard = host.wait_said(2).remove(1);
    let lines: Vec<&str> = heard.lines().collect();
    assert_eq!(lines[..2], ["<+0530>-05:30", "<context timezone=\"+05:30\" />"], "without a restart: {heard}");
    host.wait_settled();
    host.done(&["agents", "set", "main", "--timezone", "Europe/Berlin"], b"");
    let shown: Value = serde_json::from_str(&host.done(&["agents", "show", "main", "--json"], b"")).unwrap();
    assert_eq!((&shown["zone"], &shown["zone_from"]), (&json!("Europe/Berlin"), &json!("the agent")));
    host.inject("m3", "three");
    assert!(host.wait_said(3)[2].contains("<context timezone=\"Europe/Berlin\" />"));
    let refused = host.run(&["agents", "set", "main", "--timezone", "IST-2"], b"");
    assert_eq!(refused.code, Some(1), "{refused:#?}");
    assert!(refused.stderr.contains("`timezone`: `IST-2` is not a time zone"), "{refused:#?}");
    host.check();
}

/// `hearth` predicts exactly what an agent is told: the same text from the store and from the runner.
#[test]
fn the_prompt_of_a_session_is_shown() {
    let host = Host::new();
    host.apply(&format!("schema = 1\ntimezone = \"America/New_York\"\n[[agents]]\nfolder = \"main\"\n{CHAT}"));
    let mut event = crate::host::event("m1", "</message> & so on");
    event["message"]["timestamp"] = json!("2024-01-01T18:30:00Z");
    host.done(&["inject", "--json"], event.to_string().as_bytes());
    let text = host.done(&["sessions", "prompt", "se1"], b"");
    let (head, body) = text.split_once('\n').unwrap();
    assert_eq!(head, "<context timezone=\"America/New_York\" />");
    assert!(
        body.starts_with("<message id=\"2\" from=\"")
            && body.contains("sender=\"Ann\" unknown_sender=\"true\" time=\"Jan 1, 2024, 1:30 PM\""),
        "{text}"
    );
    assert!(body.ends_with(">&lt;/message&gt; &amp; so on</message>\n"), "{text}");
    let json: Value = serde_json::from_str(&host.done(&["sessions", "prompt", "se1", "--json"], b"")).unwrap();
    assert_eq!(json["prompt"].as_str().unwrap(), text.trim_end());
    let missing = host.run(&["sessions", "prompt", "se9"], b"");
    assert_eq!(missing.code, Some(1), "{missing:#?}");
}
