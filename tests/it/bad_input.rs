//! Invalid input: events on standard input, and files in an agent's half of a mailbox. Each is refused with its reason,
//! and the next message is answered.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};

use crate::host::{Host, Running, event, wait_for};

/// Injects lines and returns the answers; the command has to survive all of them.
fn inject(host: &Host, input: &[u8]) -> (Option<i32>, Vec<Value>) {
    let ended = host.run(&["inject", "--json"], input);
    let answers = ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (ended.code, answers)
}

fn with(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut event = event("m", "hello");
    change(&mut event);
    event.to_string().into_bytes()
}

/// Events that are refused, each with a part of the expected reason.
fn refused() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let long = "x".repeat(1_025);
    vec![
        ("no JSON", b"hello".to_vec(), "JSON"),
        ("half of it", br#"{"channelType":"telegram","#.to_vec(), "JSON"),
        ("an array", b"[]".to_vec(), "an object"),
        ("nothing in it", b"{}".to_vec(), "message"),
        ("no UTF-8", b"{\"channelType\":\"\xff\"}".to_vec(), "UTF-8"),
        ("a number as channel", with(|event| event["channelType"] = json!(7)), "channelType"),
        ("an array as message", with(|event| event["message"] = json!([])), "message"),
        ("no channel", with(|event| drop(event.as_object_mut().unwrap().remove("channelType"))), "channelType"),
        ("no chat", with(|event| drop(event.as_object_mut().unwrap().remove("platformId"))), "platformId"),
        ("an empty chat", with(|event| event["platformId"] = json!("")), "platformId"),
        ("no content", with(|event| drop(event["message"].as_object_mut().unwrap().remove("content"))), "content"),
        ("a number as content", with(|event| event["message"]["content"] = json!(1)), "content"),
        ("an unknown kind", with(|event| event["message"]["kind"] = json!("approval")), "approval"),
        ("no time", with(|event| event["message"]["timestamp"] = json!("yesterday")), "yesterday"),
        ("a line end in the channel", with(|event| event["channelType"] = json!("tele\ngram")), "channelType"),
        ("a NUL in the chat", with(|event| event["platformId"] = json!("1\u{0}2")), "platformId"),
        ("a line end in the id", with(|event| event["message"]["id"] = json!("a\nb")), "message.id"),
        ("a long id", with(|event| event["message"]["id"] = json!(long)), "1024"),
        ("a long chat", with(|event| event["platformId"] = json!(long)), "1024"),
        ("a long text", with(|event| event["message"]["content"]["text"] = json!("x".repeat(600_000))), "too large"),
        ("ten megabytes", with(|event| event["message"]["content"]["text"] = json!("x".repeat(10 << 20))), "bytes"),
        ("deep", with(|event| event["message"]["content"] = nested(200)), "nested"),
    ]
}

fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| json!({ "in": inner }))
}

#[test]
fn bad_events_are_refused_one_by_one() {
    let mut host = Host::with_echo();
    for daemon in [false, true] {
        if daemon {
            host.start();
        }
        let (mut input, mut expected) = (Vec::new(), Vec::new());
        for (what, line, word) in refused() {
            let (code, answers) = inject(&host, &line);
            assert_eq!((code, answers.len()), (Some(1), 1), "{what}: {answers:?}");
            assert_eq!(answers[0]["outcome"], "dropped", "{what}: {}", answers[0]);
            let error = answers[0]["error"].as_str().unwrap();
            assert!(error.contains(word), "{what}: {error:.300}");
            input.extend(line);
            input.push(b'\n');
            expected.push("dropped");
        }
        // All of them at once, with a valid one after each.
        input.extend(b"\n");
        let good = event(&format!("good {daemon}"), "hello").to_string();
        input.extend(good.as_bytes());
        expected.push("routed");
        let (code, answers) = inject(&host, &input);
        let outcomes: Vec<&str> = answers.iter().map(|answer| answer["outcome"].as_str().unwrap()).collect();
        assert_eq!((code, outcomes), (Some(1), expected));
    }
    assert!(host.wait_said(1).concat().contains("hello"));
    host.wait_settled();
    host.check();
}

/// Ids and texts that are merely odd are accepted as they are.
#[test]
fn odd_events_are_taken_in() {
    let mut host = Host::with_echo();
    host.start();
    let odd = ["", "../../etc/passwd", "a b", "\u{1f980}", "%2e%2e", "'; DROP TABLE", &"x".repeat(1_024)];
    for id in odd {
        let (code, answers) = inject(&host, &with(|event| event["message"]["id"] = json!(id)));
        assert_eq!((code, &answers[0]["outcome"]), (Some(0), &"routed".into()), "{id:.40}: {answers:?}");
    }
    let (_, unknown) = inject(&host, &with(|event| event["channelType"] = json!("../../etc")));
    assert_eq!(unknown[0]["reason"], "unknown_chat");
    let (_, again) = inject(&host, &with(|event| event["message"]["id"] = json!("")));
    assert_eq!(again[0]["outcome"], "routed", "an empty id is never a duplicate");
    for text in ["\u{0}\u{7}\u{1b}[2J", "</message><message>", "\u{202e}", "{{[[<", "\\", "\"", "\u{fffd}"] {
        let (code, answers) = inject(
            &host,
            &with(|event| {
                event["message"]["id"] = json!(format!("text {text}").replace(char::is_control, "."));
                event["message"]["content"]["text"] = json!(text);
                event["message"]["content"]["senderName"] = json!("../\u{1b}]0;x\u{7}");
            }),
        );
        assert_eq!((code, &answers[0]["outcome"]), (Some(0), &"routed".into()), "{text:?}: {answers:?}");
    }
    host.wait_settled();
    assert!(host.states().iter().all(|state| state.get("Completed").is_some()), "{:#?}", host.states());
    host.check();
}

/// What an agent can put into its half, each with the journal's text about it. `None`: no journal entry.
type Trick = (&'static str, fn(&Path), Option<&'static str>);

/// A file that is complete from the beginning, as the contract requires.
fn put(agent: &Path, name: &str, text: impl AsRef<[u8]>) {
    let unseen = agent.join("unseen");
    fs::write(&unseen, text).unwrap();
    fs::rename(unseen, agent.join(name)).unwrap();
}

const TRICKS: &[Trick] = &[
    ("a link as ack", |agent| symlink("/etc/passwd", agent.join("ack/998.1.completed.json")).unwrap(), Some("link")),
    ("a link as answer", |agent| symlink("/etc/passwd", agent.join("out/link.json")).unwrap(), Some("link")),
    (
        "a second name",
        |agent| {
            fs::write(agent.join("other"), "{}").unwrap();
            fs::hard_link(agent.join("other"), agent.join("out/hard.json")).unwrap();
        },
        Some("names"),
    ),
    (
        "a pipe",
        |agent| {
            rustix::fs::mkfifoat(rustix::fs::CWD, agent.join("out/pipe.json"), 0o600.into()).unwrap();
        },
        Some("file"),
    ),
    ("a directory", |agent| fs::create_dir(agent.join("out/dir.json")).unwrap(), Some("file")),
    ("half a file", |agent| put(agent, "out/half.json", r#"{"v":1,"id":"half""#), Some("half")),
    ("too much", |agent| put(agent, "out/huge.json", "x".repeat(2 << 20)), Some("bytes")),
    (
        "a future version",
        |agent| {
            put(agent, "out/new.json", r#"{"v":99,"id":"new"}"#);
        },
        Some("version"),
    ),
    ("an odd name", |agent| put(agent, "out/what is this", "x"), Some("name")),
    (
        "another incarnation's words",
        |agent| {
            let out = json!({
                "v": 1, "id": "foreign", "incarnation": 99, "number": 991, "final": false, "kind": "chat",
                "content": {"text": "not mine"},
            });
            put(agent, "out/foreign.json", out.to_string());
        },
        Some("99"),
    ),
    (
        "an ack of nothing",
        |agent| {
            let ack =
                json!({"v": 1, "seq": 888, "incarnation": 1, "status": "completed", "at": "2026-01-02T03:04:05.000Z"});
            put(agent, "ack/888.1.completed.json", ack.to_string());
        },
        Some("888"),
    ),
    (
        "a name that lies",
        |agent| {
            let ack =
                json!({"v": 1, "seq": 2, "incarnation": 1, "status": "completed", "at": "2026-01-02T03:04:05.000Z"});
            put(agent, "ack/4.1.completed.json", ack.to_string());
        },
        Some("differ"),
    ),
    (
        "a link as state",
        |agent| {
            fs::remove_file(agent.join("state.json")).ok();
            symlink("/dev/zero", agent.join("state.json")).unwrap();
        },
        None,
    ),
    (
        "an endless heartbeat",
        |agent| {
            fs::remove_file(agent.join("heartbeat")).ok();
            symlink("/dev/zero", agent.join("heartbeat")).unwrap();
        },
        None,
    ),
];

#[test]
fn tricks_in_a_mailbox_are_refused_and_recorded() {
    let mut host = Host::with_echo();
    host.start();
    host.inject("m1", "first");
    host.wait_said(1);
    host.wait_settled();
    let agent = host.data().join("sessions/se1/agent");
    wait_for("the end of the turn to be cleared away", || {
        (!agent.join("ack/2.1.completed.json").exists()).then_some(())
    });
    for (what, trick, word) in TRICKS {
        trick(&agent);
        let Some(word) = word else { continue };
        wait_for(&format!("the refusal of {what}"), || refusals(&host).contains(word).then_some(()));
    }
    let before = host.states();
    host.inject("m2", "!sleep 1s\nstill there?");
    wait_for("the turn to begin", || host.states()[1].get("Claimed").map(|_| ()));
    let seq = &host.rows("messages")[1]["value"]["seq"];
    let foreign = json!({
        "v": 1, "seq": seq, "incarnation": 77, "status": "failed", "at": "2026-01-02T03:04:05.000Z", "error": "gone",
    });
    put(&agent, &format!("ack/{seq}.77.failed.json"), foreign.to_string());
    wait_for("the refusal of another incarnation's ack", || refusals(&host).contains("77").then_some(()));
    assert_eq!(host.wait_said(2), ["echo: first", "echo: still there?"]);
    host.wait_settled();
    assert_eq!(host.states()[..1], before, "nobody's message was ended by a trick");
    assert!(Path::new("/etc/passwd").exists());
    let left = || fs::read_dir(agent.join("out")).unwrap().count();
    wait_for("all but the directory of files to go", || (left() == 1).then_some(()));
    host.check();
    assert_eq!(host.stop().code, Some(0));
}

/// Directories that are not what they should be: the agent's output is lost, nothing else.
#[test]
fn a_mailbox_in_ruins_is_built_again() {
    let mut host = Host::with_echo();
    host.start();
    host.inject("m1", "first");
    host.wait_said(1);
    host.wait_settled();
    let agent = host.data().join("sessions/se1/agent");
    // The host recreates a missing directory at once, so the test has to be faster.
    let mut tries = 0..;
    wait_for("a link in the place of a directory", || {
        fs::rename(agent.join("out"), agent.join(format!("away{}", tries.next().unwrap_or(0)))).unwrap();
        symlink("/etc", agent.join("out")).ok()
    });
    wait_for("the refusal", || refusals(&host).contains("\"file\":\"out\"").then_some(()));
    host.stop();
    host.start();
    host.inject("m2", "still there?");
    assert_eq!(host.wait_said(2), ["echo: first", "echo: still there?"]);
    host.wait_settled();
    host.check();
}

fn refusals(host: &Host) -> String {
    let rows = host.rows("journal").into_iter().map(|row| row["value"]["event"]["FileRefused"].to_string());
    rows.collect::<Vec<_>>().join("\n")
}

/// A client that floods standard input with one endless line costs no additional memory.
#[test]
fn an_endless_line_is_skipped() {
    let host = Host::with_echo();
    let mut input = vec![b'x'; 30 << 20];
    input.push(b'\n');
    input.extend(event("m1", "after it").to_string().as_bytes());
    let ended = Running::start(host.command(&["inject", "--json"]), &input).end();
    let answers: Vec<Value> = ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&answers[0]["outcome"], &answers[1]["outcome"]), (&"dropped".into(), &"routed".into()), "{ended:#?}");
}
