//! No command prints the code of a reason, except with `--json`.

use hearth::model::address::ForeignId;
use hearth::model::id::DropId;
use hearth::model::message::{Drop, Reason};

use super::program::Program;
use crate::host::pty::Pty;

/// A strict chat, a public one, and one in which the agent only listens to known people.
const FILE: &str = r#"
schema = 1
[[agents]]
folder = "main"
[[chats]]
channel = "t"
platform_id = "strict"
unknown_senders = "strict"
wirings = [{ agent = "main", engage = "pattern", pattern = "." }]
[[chats]]
channel = "t"
platform_id = "public"
unknown_senders = "public"
wirings = [{ agent = "main", engage = "pattern", pattern = "^[!/]" }]
[[chats]]
channel = "t"
platform_id = "known"
unknown_senders = "public"
wirings = [{ agent = "main", engage = "pattern", pattern = ".", senders = "known" }]
"#;

fn event(id: &str, chat: &str, text: &str) -> String {
    serde_json::json!({
        "channelType": "t", "platformId": chat, "threadId": null,
        "message": { "id": id, "isMention": true, "content": { "text": text, "senderId": "7", "senderName": "Ann" } },
    })
    .to_string()
}

/// A chat, a text, the outcome, the code with `--json`, and the text for people.
const EVENTS: [(&str, &str, &str, &str, &str); 7] = [
    ("strict", "hello", "dropped", "unknown_sender_strict", "the chat is strict, and the sender is not a member"),
    ("known", "hello", "dropped", "sender_scope_not_member", "the sender is not a member"),
    ("public", "!hello", "routed", "pattern_match", "main: engaged as ms"),
    ("public", "hello", "dropped", "no_agent_engaged", "no wired agent engages with the message"),
    ("public", "/config", "dropped", "command_filtered", "this command is never sent to agents"),
    ("public", "/clear", "dropped", "command_denied", "the command needs a role"),
    ("nowhere", "hello", "dropped", "nobody_to_ask", "no owner or administrator can be reached"),
];

fn assert_words(text: &str, context: &str) {
    let words: Vec<&str> = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
    for code in Reason::ALL.map(Reason::as_str).into_iter().filter(|code| code.contains('_')) {
        assert!(!words.contains(&code), "{context} prints {code}:\n{text}");
    }
}

#[test]
fn commands_print_words_and_json_has_codes() {
    let program = Program::new();
    let file = program.file("hearth.toml", FILE);
    let applied = program.run(&["apply", "--no-owner", &file]);
    assert_eq!(applied.code, 0, "{applied:?}");
    for (number, (chat, text, outcome, code, words)) in EVENTS.into_iter().enumerate() {
        let told = program.run_with(&["inject"], &event(&format!("a{number}"), chat, text));
        assert!(told.code == 0 && told.out.contains(words) && told.out.contains(outcome), "{chat} {text}: {told:?}");
        assert!(told.out.contains(&format!("a{number}")), "{told:?}");
        assert_words(&told.out, &format!("inject {chat} {text}"));
        let json = program.run_with(&["inject", "--json"], &event(&format!("b{number}"), chat, text)).out;
        assert!(json.contains(&format!("\"{code}\"")) && json.contains(&format!("\"{outcome}\"")), "{chat}: {json}");
        for id in ["a", "b"] {
            assert_words(&program.run(&["why", &format!("{id}{number}")]).out, "why");
        }
    }
    let again = program.run_with(&["inject"], &event("a2", "public", "!hello"));
    assert!(again.out.starts_with("a2 ") && again.out.contains("duplicate"), "{again:?}");
    let broken = program.run_with(&["inject"], "{}\nno event\n");
    assert!(broken.code == 1 && broken.out.lines().count() == 2 && !broken.out.contains("invalid_event"), "{broken:?}");
    let commands: [&[&str]; 9] = [
        &["dropped"],
        &["status"],
        &["sessions", "list"],
        &["sessions", "show", "se1"],
        &["approvals", "list", "--all"],
        &["channels", "list"],
        &["chats", "list"],
        &["tasks", "list"],
        &["why", "latest"],
    ];
    let look = |place: &str| {
        for args in commands {
            let told = program.run(args);
            assert_words(&format!("{}{}", told.out, told.err), &format!("{args:?} {place}"));
        }
    };
    look("without a daemon");
    let _daemon = program.daemon();
    look("with a daemon");
    let told = program.run(&["chat", "/config"]);
    assert!(told.err.contains("this command is never sent to agents") || told.out.contains("never sent"), "{told:?}");
    assert_words(&format!("{}{}", told.out, told.err), "chat");
}

/// Dropped messages of every reason, in lists, explanations and the live view.
#[test]
fn no_reason_is_shown_by_its_code_anywhere() {
    let program = Program::new();
    let file = program.file("hearth.toml", FILE);
    assert_eq!(program.run(&["apply", "--no-owner", &file]).code, 0);
    let dropped = program.run_with(&["inject"], &event("first", "strict", "hello"));
    assert!(dropped.out.contains("dropped"), "{dropped:?}");
    program.write(|db, txn| {
        let first = db.dropped_events.require(txn, &DropId::new(1))?;
        for reason in Reason::ALL {
            let id: DropId = db.allocate(txn)?;
            let platform_message = Some(ForeignId::new("id", format!("event-{id}")).unwrap());
            db.dropped_events.put(txn, &id, &Drop { reason, platform_message, ..first.clone() })?;
        }
        Ok(())
    });
    let list = program.run(&["dropped", "--limit", "100"]).out;
    assert_words(&list, "dropped");
    for (number, reason) in (2..).zip(Reason::ALL) {
        let why = program.run(&["why", &format!("dr{number}")]).out;
        assert_words(&why, "why");
        assert!(why.contains(reason.explanation()) && list.contains(reason.explanation()), "{reason}: {why}");
    }
    for arguments in [&["status"][..], &["status", "--watch"]] {
        let mut at = Pty::start(program.command(arguments));
        at.wait("no daemon is running");
        at.type_keys("q");
        assert_words(&at.end().1, &format!("{arguments:?}"));
    }
}
