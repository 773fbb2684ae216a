//! Names that are misspelt, and numbers that cannot be meant.

use super::program::Program;

const FILE: &str = r#"
schema = 1
[[agents]]
folder = "family"
[[users]]
id = "telegram:445566"
[channels.telegram]
token = "file:/nowhere"
[[chats]]
channel = "telegram"
platform_id = "100200"
wirings = [{ agent = "family" }]
"#;

/// Commands with a misspelt name, and the name that is meant.
const MISSPELT: &[(&str, &str)] = &[
    ("agents show famly", "family"),
    ("agents set famly --model x", "family"),
    ("agents remove famly", "family"),
    ("agents restart famly", "family"),
    ("agents stop famly", "family"),
    ("agents freeze famly", "family"),
    ("agents unfreeze famly", "family"),
    ("agents rules list famly", "family"),
    ("chat --agent famly hello", "family"),
    ("search --agent famly hello", "family"),
    ("search --chat telegram/100201 hello", "telegram/100200"),
    ("wirings add telegram/100200 famly", "family"),
    ("wirings add telegram/100201 family", "telegram/100200"),
    ("wirings remove telegram/100201 family", "telegram/100200"),
    ("wirings set telegram/100200 famly --priority 1", "telegram/100200 -> family"),
    ("wirings remove telegram/100200 famly", "telegram/100200 -> family"),
    ("mutes list famly", "family"),
    ("mutes add famly telegram/100200", "family"),
    ("mutes add family telegram/100201", "telegram/100200"),
    ("mutes remove famly telegram/100200", "family"),
    ("sticky list famly", "family"),
    ("sticky end famly telegram/100200", "family"),
    ("members list famly", "family"),
    ("members add famly telegram:445566", "family"),
    ("members remove famly telegram:445566", "family"),
    ("roles grant telegram:445566 admin:famly", "family"),
    ("users show telegram:445567", "telegram:445566"),
    ("users set telegram:445567 --name Ann", "telegram:445566"),
    ("users remove telegram:445567", "telegram:445566"),
    ("users set telegram:445566 --roles admin:famly", "family"),
    ("users set telegram:445566 --member-of famly", "family"),
    ("chats show telegram/100201", "telegram/100200"),
    ("chats set telegram/100201 --name x", "telegram/100200"),
    ("chats remove telegram/100201", "telegram/100200"),
    ("destinations list famly", "family"),
    ("destinations add famly home --chat telegram/100200", "family"),
    ("destinations add family home --chat telegram/100201", "telegram/100200"),
    ("destinations add family home --to-agent famly", "family"),
    ("destinations remove famly home", "family"),
    ("tasks list famly", "family"),
    ("tasks add famly hello --every 1h", "family"),
    ("tasks add family hello --every 1h --chat telegram/100201", "telegram/100200"),
    ("sessions list famly", "family"),
    ("sessions memory famly", "family"),
    ("skips list famly", "family"),
    ("skips lint famly", "family"),
    ("memory list famly", "family"),
    ("net --agent famly", "family"),
    ("net allow famly example.org", "family"),
    ("approvals reject --chat telegram/100201", "telegram/100200"),
    ("channels remove telegrm", "telegram"),
];

#[test]
fn a_misspelt_name_is_answered_with_the_nearest_one() {
    let program = Program::new();
    let file = program.file("hearth.toml", FILE);
    let applied = program.run(&["apply", "--no-owner", &file]);
    assert_eq!(applied.code, 0, "{applied:?}");
    let mut silent = Vec::new();
    for (line, meant) in MISSPELT {
        let told = program.run(&line.split(' ').collect::<Vec<_>>());
        if told.code != 1 || told.err.matches(&format!("did you mean `{meant}`?")).count() != 1 {
            silent.push(format!("{line}: {told:?}"));
        }
    }
    assert!(silent.is_empty(), "{silent:#?}");
    // Nothing similar exists.
    let told = program.run(&["agents", "show", "zzzzzz"]);
    assert_eq!(told.err, "hearth: agent zzzzzz not found; see `hearth agents list`\n");
    let told = program.run(&["agents", "show", "famly"]);
    assert_eq!(told.err, "hearth: agent famly not found; did you mean `family`? `hearth agents list` shows all\n");
}

#[test]
fn intervals_that_cannot_be_meant_are_refused_when_a_task_is_changed_as_when_it_is_added() {
    let program = Program::new();
    let text = FILE.replace("folder = \"family\"", "folder = \"family\"\nprovider = \"claude\"");
    let file = program.file("hearth.toml", &text);
    assert_eq!(program.run(&["apply", "--no-owner", &file]).code, 0);
    let added = program.run(&["tasks", "add", "family", "hello", "--every", "1h"]);
    assert_eq!(added.code, 0, "{added:?}");
    for command in [&["tasks", "add", "family", "hello"][..], &["tasks", "set", "ta1"]] {
        for (every, words) in [("5", "--every 5 has no unit: write 5s, 5m, 5h or 5d"), ("1s", "add --force")] {
            let told = program.run(&[command, &["--every", every]].concat());
            assert!(told.code == 1 && told.err.contains(words), "{command:?} {every}: {told:?}");
        }
        let forced = program.run(&[command, &["--every", "1s", "--force"]].concat());
        assert_eq!(forced.code, 0, "{command:?}: {forced:?}");
    }
}
