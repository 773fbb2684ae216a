//! What every tool writes and answers, row by row.

use std::fs;

use hearth_wire::{Address, Context, InMessage, OutKind};
use serde_json::json;

use super::plan::PATIENCE;
use super::*;
use crate::outgoing::{Attachment, Source};
use crate::roots::Roots;

/// A turn without a runner, as tools see it.
pub(in crate::tools) struct Stage {
    context: Context,
    asked: Vec<InMessage>,
    roots: Roots,
    dir: tempfile::TempDir,
}

impl Stage {
    pub(in crate::tools) fn new(reply: Option<Address>, destinations: &Value, asked: Vec<InMessage>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("group")).unwrap();
        let context = serde_json::from_value(json!({
            "v": 1, "version": 1, "install": "i", "session": "se1", "agent": "andy", "agent_name": "Andy",
            "incarnation": 1, "session_name": "default", "provider": {"name": "echo"}, "reply": reply,
            "destinations": destinations, "timezone": "UTC", "next_number": 1,
            "limits": {"max_prompt_messages": 10, "max_json_bytes": 1_048_576, "max_file_bytes": 1_000_000},
        }));
        let at = |name: &str| dir.path().join(name);
        let roots = Roots {
            session: at("session"),
            group: at("group"),
            home: at("home"),
            tmp: Some(at("tmp")),
            ..Roots::default()
        };
        Self { context: context.unwrap(), asked, roots, dir }
    }

    /// Gives the agent access to the files that trusted agents share.
    pub(in crate::tools) fn trust(&mut self) {
        self.roots.trusted = Some(self.dir.path().join("trusted"));
    }

    /// A turn in a chat, with two destinations and one message.
    fn usual() -> Self {
        let address = json!({"channel": "telegram", "platform_id": "1", "thread_id": "t"});
        let destinations = json!([
            {"name": "family", "type": "channel", "channel": "telegram", "platform_id": "-5"},
            {"name": "scout", "type": "agent", "folder": "scout"},
        ]);
        let address: Address = serde_json::from_value(address).unwrap();
        Self::new(Some(address.clone()), &destinations, vec![message(4, Some(address))])
    }

    pub(in crate::tools) fn scene(&self) -> Scene<'_> {
        Scene { context: self.context.clone(), asked: &self.asked, roots: &self.roots, turn: 4 }
    }

    fn plan(&self, name: &str, arguments: &Value) -> Result<PlannedCall, String> {
        tool(name).unwrap()(&Arguments::read(arguments.clone()).unwrap(), &self.scene())
    }
}

pub(in crate::tools) fn message(seq: u64, reply: Option<Address>) -> InMessage {
    let text = |text: &str| text.to_owned();
    let (id, kind, timestamp) = (text("ms1"), text("chat"), text("2026-01-02T03:04:05.000Z"));
    InMessage {
        v: 1,
        seq,
        id,
        kind,
        trigger: true,
        timestamp,
        unknown_sender: false,
        reply,
        content: json!({"text": "hello"}),
    }
}

/// Every error of the tables, and arguments of the wrong type.
#[test]
fn what_is_missing_is_named() {
    let many: Vec<String> = (0..21).map(|n| format!("p{n}")).collect();
    let apt =
        |name: &str| format!("Invalid apt package name: \"{name}\". Only lowercase letters, digits, and ._+- allowed.");
    let npm = |name: &str| format!("Invalid npm package name: \"{name}\". No version specs or shell characters.");
    let question = "title, question, and options are required";
    let all = json!({"title": "T", "question": "Q", "options": ["a"]});
    let with = |key: &str, value: Value| {
        let mut fields = all.as_object().unwrap().clone();
        fields.insert(key.to_owned(), value);
        Value::from(fields)
    };
    for (name, arguments, error) in [
        ("send_message", json!({}), "text is required"),
        ("send_message", json!({"text": "", "to": "nobody"}), "text is required"),
        ("send_message", json!({"text": 5}), "text is required"),
        ("send_message", json!(["text"]), "text is required"),
        ("send_message", json!({"text": "x", "to": "x"}), "Unknown destination \"x\". Known: family, scout"),
        ("send_file", json!({"text": "x"}), "path is required"),
        ("send_file", json!({"path": "none", "to": "x"}), "Unknown destination \"x\". Known: family, scout"),
        ("send_file", json!({"path": "none"}), "File not found: none"),
        ("edit_message", json!({"text": "x"}), "messageId and text are required"),
        ("edit_message", json!({"messageId": 5}), "messageId and text are required"),
        ("edit_message", json!({"messageId": "five", "text": "x"}), "messageId and text are required"),
        ("edit_message", json!({"messageId": -5, "text": "x"}), "messageId and text are required"),
        ("add_reaction", json!({"messageId": 5}), "messageId and emoji are required"),
        ("add_reaction", json!({"emoji": "heart"}), "messageId and emoji are required"),
        ("send_card", json!({"fallbackText": "x"}), "card is required"),
        ("send_card", json!({"card": "x"}), "card is required"),
        ("ask_user_question", json!({}), question),
        ("ask_user_question", with("title", json!("")), question),
        ("ask_user_question", with("question", json!(5)), question),
        ("ask_user_question", with("options", json!([])), question),
        ("ask_user_question", with("options", json!("a")), question),
        ("ask_user_question", with("options", json!(["a", 5])), "an option is a text, or an object with a label: 5"),
        ("ask_user_question", with("timeout", json!("soon")), "timeout is a number of seconds"),
        ("ask_user_question", with("timeout", json!(0)), "timeout is a number of seconds"),
        ("create_agent", json!({"instructions": "x"}), "name is required"),
        ("create_agent", json!({"name": "  "}), "name is required"),
        ("install_packages", json!({}), "At least one apt or npm package is required"),
        ("install_packages", json!({"apt": [], "npm": []}), "At least one apt or npm package is required"),
        ("install_packages", json!({"apt": "jq"}), "At least one apt or npm package is required"),
        ("install_packages", json!({"apt": many}), "Maximum 20 packages per request"),
        ("install_packages", json!({"apt": ["Foo", "x"], "npm": ["A"]}), &apt("Foo")),
        ("install_packages", json!({"apt": ["foo;rm"]}), &apt("foo;rm")),
        ("install_packages", json!({"apt": ["-x"]}), &apt("-x")),
        ("install_packages", json!({"apt": [5]}), &apt("5")),
        ("install_packages", json!({"npm": ["@Scope/pkg"]}), &npm("@Scope/pkg")),
        ("install_packages", json!({"npm": ["a/b"]}), &npm("a/b")),
        ("install_packages", json!({"npm": ["pkg@1.0"]}), &npm("pkg@1.0")),
        ("add_mcp_server", json!({"name": "x"}), "name and command are required"),
        ("add_mcp_server", json!({"command": "x"}), "name and command are required"),
        ("schedule_task", json!({"processAfter": "2026-01-15T21:00:00"}), "prompt and processAfter are required"),
        ("schedule_task", json!({"prompt": "x"}), "prompt and processAfter are required"),
        ("update_task", json!({"prompt": "x"}), "taskId is required"),
        ("update_task", json!({"taskId": "ta1"}), "at least one field to update is required"),
        ("update_task", json!({"taskId": "ta1", "prompt": 5}), "at least one field to update is required"),
        ("cancel_task", json!({}), "taskId is required"),
        ("pause_task", json!({"taskId": ""}), "taskId is required"),
        ("resume_task", json!({"taskId": 5}), "taskId is required"),
    ] {
        assert_eq!(Stage::usual().plan(name, &arguments).unwrap_err(), error, "{name} {arguments}");
    }
}

/// Calls, the files that they write, and the answers if the host accepts. The message got the number 13.
fn check(kind: OutKind, rows: &[(&str, Value, Value, &str)]) {
    for (name, arguments, written, said) in rows {
        let plan = Stage::usual().plan(name, arguments).unwrap_or_else(|why| panic!("{name}: {why}"));
        assert_eq!((plan.post.kind, &plan.post.content), (kind, written), "{name} {arguments}");
        assert_eq!(plan.post.in_reply_to, Some(4), "{name}");
        assert_eq!(plan.told.agreed(13, &json!({"number": 13})), *said, "{name}");
        assert_eq!(
            plan.told.unanswered(13).as_deref(),
            Ok(*said),
            "{name}: it stands, whether or not the host is quick"
        );
        assert_eq!(plan.patience, PATIENCE);
    }
}

#[test]
fn what_is_said_in_chats() {
    let words = json!({"text": " on it "});
    let current = "Message sent to (current conversation) (id: 13)";
    let to_family = json!({"text": "x", "to": "family"});
    check(
        OutKind::Chat,
        &[
            ("send_message", words.clone(), words, current),
            ("send_message", to_family, json!({"text": "x"}), "Message sent to family (id: 13)"),
        ],
    );
    let edit = json!({"operation": "edit", "messageId": 5, "text": "better"});
    let reaction = json!({"operation": "reaction", "messageId": 4, "emoji": "heart"});
    let card = json!({"card": {"title": "T"}, "fallbackText": "T"});
    let sent = json!({"type": "card", "card": {"title": "T"}, "fallbackText": "T"});
    check(
        OutKind::ChatSdk,
        &[
            ("edit_message", json!({"messageId": 5, "text": "better"}), edit, "Message edit queued for #5"),
            ("add_reaction", json!({"messageId": "#4", "emoji": "heart"}), reaction, "Reaction queued for #4"),
            ("send_card", card, sent, "Card sent (id: 13)"),
        ],
    );
}

/// Internal text is shown to no person, whatever the tool.
#[test]
fn internal_words_are_for_nobody() {
    let note = "<internal>hm</internal>";
    let noted = |text: &str| format!("{note}{text}");
    let content = |name: &str, arguments: Value| Stage::usual().plan(name, &arguments).unwrap().post.content;
    assert_eq!(content("send_message", json!({"text": noted(" hi ")})), json!({"text": "hi"}));
    assert_eq!(content("edit_message", json!({"messageId": 5, "text": noted("better")}))["text"], "better");
    let card = json!({"card": {"title": noted("T"), "children": [{"text": noted("c")}]}, "fallbackText": noted("F")});
    let shown = json!({"type": "card", "card": {"title": "T", "children": [{"text": "c"}]}, "fallbackText": "F"});
    assert_eq!(content("send_card", card), shown);
    let asked = json!({"title": noted("T"), "question": noted("Q"), "options": [noted("a"), {"label": noted("b")}]});
    let asked = content("ask_user_question", asked);
    assert_eq!((&asked["title"], &asked["question"]), (&json!("T"), &json!("Q")));
    assert_eq!(asked["options"], json!(["a", {"label": "b"}]));
    let kept = content("create_agent", json!({"name": "x", "instructions": note}));
    assert_eq!(kept["instructions"], note, "an agent's instructions are shown to no people");
    let nothing = Stage::usual().plan("send_message", &json!({"text": note})).unwrap_err();
    assert_eq!(nothing, "text is required");
}

/// Unknown fields are dropped, known ones are passed on unchanged.
#[test]
fn what_is_asked_of_the_host() {
    let with = |action: &str, fields: &Value| {
        let mut fields = fields.as_object().unwrap().clone();
        fields.insert("action".to_owned(), action.into());
        Value::from(fields)
    };
    let agent = json!({"name": "Research Bot", "instructions": "Find out."});
    let packages = json!({"apt": ["libfoo+1.2"], "npm": ["@scope/pkg", "pkg.name_1"], "reason": "r"});
    let server = json!({"name": "files", "command": "mcp", "args": ["--all"], "env": {"T": "env:T"}});
    let task = json!({"taskId": "ta1"});
    let change = json!({"taskId": "ta1", "recurrence": "", "script": "", "prompt": "", "processAfter": "2026-01-15"});
    let changed = json!({"taskId": "ta1", "recurrence": null, "script": null, "processAfter": "2026-01-15"});
    for (name, given, passed, said) in [
        (
            "create_agent",
            json!({"name": " Research Bot ", "instructions": "Find out."}),
            &agent,
            "Creating agent \"Research Bot\". You will be notified when it is ready.",
        ),
        (
            "install_packages",
            with("ignored", &packages),
            &packages,
            "Package install request submitted. You will be notified when admin approves or rejects.",
        ),
        (
            "add_mcp_server",
            server.clone(),
            &server,
            "MCP server request submitted. You will be notified when admin approves or rejects.",
        ),
        ("cancel_task", task.clone(), &task, "Task cancellation requested: ta1"),
        ("pause_task", task.clone(), &task, "Task pause requested: ta1"),
        ("resume_task", task.clone(), &task, "Task resume requested: ta1"),
        ("update_task", change, &changed, "Task update requested: ta1"),
    ] {
        check(OutKind::System, &[(name, given, with(name, passed), said)]);
    }
}

/// The host's text is used where only the host knows the result.
#[test]
fn the_host_has_the_words_for_tasks() {
    let times =
        json!({"prompt": "p", "processAfter": " 2026-01-15T21:00:00 ", "recurrence": "0 9 * * 1-5", "script": ""});
    let plan = Stage::usual().plan("schedule_task", &times).unwrap();
    let written = json!({"action": "schedule_task", "prompt": "p", "processAfter": "2026-01-15T21:00:00",
        "recurrence": "0 9 * * 1-5"});
    assert_eq!(plan.post.content, written);
    let text = "Task scheduled (id: ta1, runs at: 2026-01-16T02:00:00.000Z, recurrence: 0 9 * * 1-5)";
    assert_eq!(plan.told.agreed(13, &json!({ "text": text })), text);
    assert!(plan.told.unanswered(13).unwrap_err().contains("may have been done"));
    let list = Stage::usual().plan("list_tasks", &json!({"status": "paused"})).unwrap();
    assert_eq!(list.post.content, json!({"action": "list_tasks", "status": "paused"}));
    assert_eq!(list.told.agreed(13, &json!({"text": "No tasks found."})), "No tasks found.");
    let cancel = Stage::usual().plan("cancel_task", &json!({"taskId": "ta1"})).unwrap();
    assert_eq!(cancel.told.agreed(13, &json!({"text": "in the host's words"})), "in the host's words");
}

#[test]
fn a_question_waits_as_long_as_it_says() {
    let options = json!(["Yes", {"label": "No", "selectedLabel": "❌ No", "value": "no"}]);
    for (timeout, seconds) in [(json!(null), 300), (json!(20), 20), (json!(1.5), 1), (json!(1e12), 86_400)] {
        let asked = json!({"title": "T", "question": "Q", "options": options, "timeout": timeout});
        let plan = Stage::usual().plan("ask_user_question", &asked).unwrap();
        assert_eq!(
            (&plan.post.content["options"], &plan.post.content["action"]),
            (&options, &json!("ask_user_question"))
        );
        assert_eq!(plan.patience.as_secs(), seconds + 60);
        assert_eq!(plan.told.unanswered(13), Err(format!("Question timed out after {seconds}s")));
        assert_eq!(plan.told.agreed(13, &json!({"value": "no", "label": "No"})), "no");
    }
    let nowhere = Stage::new(None, &json!([]), vec![message(4, None)]);
    let asked = json!({"title": "T", "question": "Q", "options": ["a"]});
    assert_eq!(nowhere.plan("ask_user_question", &asked).unwrap_err(), "No destinations configured.");
    assert_eq!(nowhere.plan("send_card", &json!({"card": {}})).unwrap_err(), "No destinations configured.");
}

#[test]
fn a_file_goes_under_its_name_with_its_words() {
    let stage = Stage::usual();
    let path = stage.dir.path().join("group/report.pdf");
    fs::write(&path, "x").unwrap();
    let real = Source::Path(fs::canonicalize(&path).unwrap());
    for (arguments, text, name, said) in [
        (
            json!({"path": "report.pdf"}),
            "",
            "report.pdf",
            "File sent to (current conversation) (id: 13, filename: report.pdf)",
        ),
        (
            json!({"path": path.to_str().unwrap(), "to": "family", "text": "here", "filename": "r.pdf"}),
            "here",
            "r.pdf",
            "File sent to family (id: 13, filename: r.pdf)",
        ),
    ] {
        let plan = stage.plan("send_file", &arguments).unwrap();
        assert_eq!(plan.post.content, json!({ "text": text }));
        assert_eq!(plan.post.file, Some(Attachment { name: name.to_owned(), source: real.clone() }));
        assert_eq!(plan.told.agreed(13, &Value::Null), said);
    }
}
