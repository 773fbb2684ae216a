//! `hearth memory`: what agents remember is shown, dated, and corrected beside the programs that write it.

use serde_json::{Value, json};

use crate::host::{Host, Running};

const LOG: &str = "memory/daily/2026-04-20.md";

/// A host with a trusted agent that has remembered something in a log, with the program that agents use.
fn host() -> Host {
    let host = Host::new();
    host.done(&["agents", "add", "ann", "--trust", "trusted"], b"");
    host.done(&["agents", "add", "eve"], b"");
    append(&host, "- 08:15 UTC \u{2014} Ann likes tea");
    append(&host, "- 09:00 UTC \u{2014} Ann likes coffee");
    host
}

fn append(host: &Host, line: &str) {
    let daily = host.data().join("groups/ann/memory/daily");
    let place = daily.to_str().unwrap();
    let words = ["agent", "append-to-daily-log", "--target", "group", "--date", "2026-04-20", "--group-daily", place];
    let mut command = host.bare(env!("CARGO_BIN_EXE_hearth"));
    command.args(words);
    let ended = Running::start(command, format!("{line}\n").as_bytes()).end();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
}

fn json_of(host: &Host, words: &[&str]) -> Value {
    serde_json::from_str(&host.done(&[words, &["--json"]].concat(), b"")).unwrap()
}

#[test]
fn what_an_agent_remembers_is_listed_dated_and_corrected() {
    let host = host();
    let trusted = host.data().join("trusted");
    std::fs::create_dir_all(&trusted).unwrap();
    std::fs::write(trusted.join("user_profile.md"), "lives in Rome\n").unwrap();
    let listed = json_of(&host, &["memory", "list"]);
    let files: Vec<(&str, &str)> = listed["memory"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| (file["agent"].as_str().unwrap(), file["file"].as_str().unwrap()))
        .collect();
    assert!(files.contains(&("ann", LOG)) && files.contains(&("ann", "trusted/user_profile.md")), "{files:?}");
    assert!(!files.iter().any(|(agent, file)| *agent == "eve" && file.starts_with("trusted/")), "{files:?}");
    let lines = json_of(&host, &["memory", "show", "ann", LOG])["lines"].clone();
    assert_eq!(lines[4], "- 09:00 UTC \u{2014} Ann likes coffee", "{lines}");
    let changes = json_of(&host, &["memory", "changes", "ann"])["changes"].clone();
    let dated = changes.as_array().unwrap().iter().find(|change| change["line"] == 5).unwrap();
    assert_eq!((&dated["at"], &dated["file"]), (&json!("2026-04-20T09:00:00.000Z"), &json!(LOG)));
    let said = host.done(&["memory", "correct", "ann", LOG, "5", "- 09:00 UTC \u{2014} Ann likes water"], b"");
    assert_eq!(said, "- - 09:00 UTC \u{2014} Ann likes coffee\n+ - 09:00 UTC \u{2014} Ann likes water\n");
    let removed = json_of(&host, &["memory", "remove", "ann", LOG, "3", "--was", "- 08:15 UTC \u{2014} Ann likes tea"]);
    assert_eq!((&removed["line"], &removed["now"]), (&json!(3), &Value::Null));
    for (words, why) in [
        (&["memory", "remove", "ann", LOG, "3", "--was", "else"][..], "is not that any more"),
        (&["memory", "remove", "ann", LOG, "9"], "no line 9"),
        (&["memory", "remove", "ann", "CLAUDE.md", "1"], "memory file"),
        (&["memory", "correct", "eve", "trusted/user_profile.md", "1", "x"], "memory file"),
        (&["memory", "show", "bob", LOG], "bob"),
    ] {
        let refused = host.run(words, b"");
        assert!(refused.code != Some(0) && refused.stderr.contains(why), "{words:?}: {refused:#?}");
    }
    let text = std::fs::read_to_string(host.data().join("groups/ann").join(LOG)).unwrap();
    assert_eq!(
        text.lines().filter(|line| line.starts_with("- ")).collect::<Vec<_>>(),
        ["- 09:00 UTC \u{2014} Ann likes water"]
    );
}

/// The program that agents use adds lines meanwhile.
#[test]
fn a_correction_loses_nothing_that_is_remembered_at_the_same_time() {
    let host = host();
    std::thread::scope(|scope| {
        let writes = scope.spawn(|| (10..30).for_each(|n| append(&host, &format!("- 10:{n} UTC \u{2014} {n}"))));
        for n in 0..20 {
            let now = format!("- 08:15 UTC \u{2014} correction {n}");
            host.done(&["memory", "correct", "ann", LOG, "3", &now], b"");
        }
        writes.join().unwrap();
    });
    let text = std::fs::read_to_string(host.data().join("groups/ann").join(LOG)).unwrap();
    assert!((10..30).all(|n| text.contains(&format!("- 10:{n} UTC \u{2014} {n}\n"))), "{text}");
    assert!(text.contains("\u{2014} correction 19\n") && text.contains("likes coffee\n"), "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("- ")).count(), 22, "{text}");
}

#[test]
fn a_wide_recall_is_warned_of() {
    let host = Host::new();
    let warned = |ended: &crate::host::Ended| ended.stderr.contains("anybody in one of its chats can ask it");
    for (words, warns) in [
        (&["agents", "add", "ann"][..], false),
        (&["agents", "set", "ann", "--recall", "agent"], true),
        (&["agents", "set", "ann", "--recall", "chat"], false),
    ] {
        let ended = host.run(words, b"");
        assert_eq!((ended.code, warned(&ended)), (Some(0), warns), "{words:?}: {ended:#?}");
    }
    let file = host.path("hearth.toml");
    std::fs::write(&file, "schema = 1\n[[agents]]\nfolder = \"ann\"\nrecall = \"agent\"\n").unwrap();
    let ended = host.run(&["apply", file.to_str().unwrap(), "--yes"], b"");
    assert!(ended.code == Some(0) && warned(&ended), "{ended:#?}");
    assert!(host.done(&["export"], b"").contains("recall = \"agent\""));
    std::fs::write(&file, "schema = 1\n[[agents]]\nfolder = \"ann\"\nrecall = \"all\"\n").unwrap();
    let refused = host.run(&["apply", file.to_str().unwrap(), "--yes"], b"");
    assert!(refused.code != Some(0) && refused.stderr.contains("recall"), "{refused:#?}");
}
