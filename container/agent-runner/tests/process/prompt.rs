//! `hearth-runner prompt`: prints exactly the prompt for given messages.
#![allow(clippy::disallowed_methods, reason = "a test starts the program")]

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use serde_json::json;

fn prompt(arguments: &[&str], variables: &[(&str, &str)], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hearth-runner"));
    command.arg("prompt").args(arguments).env_remove("TZ").envs(variables.iter().copied());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A command that does not read its input closes it.
    child.stdin.take().unwrap().write_all(input.as_bytes()).ok();
    child.wait_with_output().unwrap()
}

fn shown(arguments: &[&str], variables: &[(&str, &str)], input: &str) -> String {
    let output = prompt(arguments, variables, input);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_prompt_of_messages_is_printed() {
    let one = json!([{"v": 1, "seq": 2, "id": "ms1", "kind": "chat", "trigger": true, "timestamp": "2024-01-01T18:30:00.000Z",
        "reply": {"channel": "telegram", "platform_id": "42"}, "content": {"sender": "Alice", "text": "hello"}}]);
    let one = one.to_string();
    let body = |zone: &str, from: &str, time: &str| {
        format!(
            "<context timezone=\"{zone}\" />\n<message id=\"2\" from=\"{from}\" sender=\"Alice\" time=\"{time}\">hello</message>"
        )
    };
    let unknown = "unknown:telegram:42";
    assert_eq!(shown(&[], &[], &one), body("UTC", unknown, "Jan 1, 2024, 6:30 PM"));
    assert_eq!(shown(&[], &[("TZ", "Asia/Tokyo")], &one), body("Asia/Tokyo", unknown, "Jan 2, 2024, 3:30 AM"));
    let york = body("america/new_york", unknown, "Jan 1, 2024, 1:30 PM");
    assert_eq!(shown(&["--tz", "america/new_york"], &[("TZ", "Asia/Tokyo")], &one), york);
    assert_eq!(shown(&["--tz=-05:00"], &[], "[]"), "<context timezone=\"-05:00\" />\n");
    let dir = tempfile::tempdir().unwrap();
    let context = dir.path().join("context.json");
    let mut told: serde_json::Value =
        serde_json::from_str(include_str!("../../../wire/fixtures/context-minimal.json")).unwrap();
    told["timezone"] = json!("Europe/Berlin");
    told["destinations"] = json!([{"name": "family", "type": "channel", "channel": "telegram", "platform_id": "42"}]);
    std::fs::write(&context, told.to_string()).unwrap();
    let context = context.to_str().unwrap();
    assert_eq!(shown(&["--context", context], &[], &one), body("Europe/Berlin", "family", "Jan 1, 2024, 7:30 PM"));
    let moved = shown(&["--context", context, "--tz", "UTC"], &[], &one);
    assert_eq!(moved, body("UTC", "family", "Jan 1, 2024, 6:30 PM"));
    let file = json!([{"kind": "chat", "content": {"attachments": [{"name": "a", "localPath": "host/in/files/2/a"}]}}]);
    let roots = r#"{"session":"/s","group":"/g","home":"/h"}"#;
    assert!(shown(&[], &[("HEARTH_ROOTS", roots)], &file.to_string()).contains("saved to /s/host/in/files/2/a]"));
}

#[test]
fn nonsense_is_refused() {
    for (arguments, input, expected) in [
        (vec![], "", "standard input must be a JSON array of messages like"),
        (vec![], "{}", "standard input must be a JSON array"),
        (vec![], "[{\"kind\":\"chat\"}]", "missing field `content`"),
        (vec!["--tz", "UTC+2"], "[]", "--tz: `UTC+2` is not a time zone; write a name like Europe/Berlin"),
        (vec!["--tz"], "[]", "--tz needs a value"),
        (vec!["--context", "/nonexistent/c.json"], "[]", "--context: /nonexistent/c.json"),
        (vec!["--what"], "[]", "usage: hearth-runner prompt"),
        (vec!["file.json"], "[]", "unknown argument \"file.json\""),
    ] {
        let output = prompt(&arguments, &[], input);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(2), true), "{arguments:?}: {said}");
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_hearth-runner")).arg("promt").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no command \"promt\""));
}
