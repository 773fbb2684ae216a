//! Tests of what a runner finds in the host's half.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use hearth_wire::{Context, InMessage, RULES_VERSION, WIRE_VERSION};
use serde_json::{Value, json};

use crate::model::address::{Address, ChannelName, ForeignId};
use crate::model::content::RawJson;
use crate::model::effect::{
    AlreadySent, ContextView, DestinationTarget, DestinationView, Discard, Export, ExportedMessage, RecapLine,
};
use crate::model::entity::{AgentSettings, EnvValue, McpServer, ProviderKind, Trust};
use crate::model::id::MessageId;
use crate::model::message::MessageKind;
use crate::model::session::SessionName;
use crate::model::time::Timestamp;
use crate::model::tool::{ToolPreset, ToolRule, ToolSettings, ToolVerdict};

use super::super::Error;
use super::{Place, SESSION, names};

fn address() -> Address {
    Address {
        channel: ChannelName::new("telegram").unwrap(),
        platform_id: ForeignId::new("chat", "-100").unwrap(),
        thread: None,
    }
}

pub(super) fn context(version: u64, incarnation: u32) -> ContextView {
    let settings = AgentSettings {
        name: "Gen".to_owned(),
        provider: ProviderKind::Command,
        command: vec!["agent".to_owned(), "--json".to_owned()],
        env: Vec::new(),
        model: None,
        effort: Some("high".to_owned()),
        trust: Trust::Untrusted,
        unconfined: false,
        blocked_tools: vec!["Shell".to_owned()],
        max_prompt_messages: 20,
        max_parallel: 4,
        mcp_servers: vec![McpServer {
            name: "my-files".to_owned(),
            command: "mcp-files".to_owned(),
            args: vec!["--all".to_owned()],
            env: vec![
                ("MODE".to_owned(), EnvValue::Plain("calm".to_owned())),
                ("TOKEN".to_owned(), EnvValue::Reference("env:TOKEN".to_owned())),
            ],
        }],
        ..AgentSettings::named(String::new())
    };
    ContextView {
        version,
        folder: "main".to_owned(),
        provider: settings.provider,
        epoch: 0,
        timezone: None,
        granted: Vec::new(),
        settings,
        incarnation,
        session_name: SessionName::Default,
        reply: Some(address()),
        destinations: vec![
            DestinationView {
                name: "family".to_owned(),
                display: Some("Family".to_owned()),
                target: DestinationTarget::Chat(address()),
            },
            DestinationView {
                name: "helper".to_owned(),
                display: None,
                target: DestinationTarget::Agent("helper".to_owned()),
            },
        ],
        next_number: 7,
        already_sent: vec![AlreadySent { in_reply_to: Some(4), number: 5, text: "half".to_owned() }],
        recap: vec![RecapLine { number: 2, from: Some("Ada".to_owned()), text: "which train?".to_owned() }],
        memory: Some("codex-00000000000000aa".to_owned()),
    }
}

pub(super) fn message(seq: u64) -> ExportedMessage {
    ExportedMessage {
        seq,
        id: MessageId::new(seq * 10),
        kind: MessageKind::Chat,
        trigger: true,
        said: Timestamp::parse("2026-04-20T12:00:00Z").unwrap(),
        unknown_sender: false,
        reply: Some(address()),
        content: RawJson::trusted(r#"{"text":"hello","sender":"Ann"}"#.to_owned()),
        attachments: Vec::new(),
        transcripts: Vec::new(),
    }
}

/// An addition to the mailbox.
pub(super) fn export_of(messages: Vec<ExportedMessage>) -> Export {
    Export { session: SESSION, context: Some(context(1, 1)), messages, replies: None, exact: false, files: vec![] }
}

/// The same, and nothing else may be there.
pub(super) fn exact(export: Export) -> Export {
    Export { exact: true, ..export }
}

fn export(place: &Place, view: ContextView, seqs: &[u64], exact: bool) -> Result<bool, Error> {
    let messages = seqs.iter().map(|seq| message(*seq)).collect();
    place.mailboxes.export(
        &Export { session: SESSION, context: Some(view), messages, replies: Some(Vec::new()), exact, files: vec![] },
        "Europe/Berlin",
    )
}

fn read_context(place: &Place) -> Context {
    serde_json::from_slice(&fs::read(place.host("context.json")).unwrap()).unwrap()
}

#[test]
fn a_session_gets_its_directories() {
    let place = Place::new();
    let root = place.mailboxes.path(SESSION);
    for (path, mode) in [
        ("", 0o700),
        ("host", 0o755),
        ("host/in/files", 0o755),
        ("host/reply", 0o755),
        ("agent/ack", 0o755),
        ("agent/out/files", 0o755),
        ("kept", 0o700),
        ("trash", 0o700),
    ] {
        assert_eq!(fs::metadata(root.join(path)).unwrap().permissions().mode() & 0o7777, mode, "{path}");
    }
    place.mailboxes.prepare(SESSION).unwrap();
}

#[test]
fn context_and_messages_are_what_the_contract_says() {
    let place = Place::new();
    export(&place, context(3, 2), &[4, 6], false).unwrap();
    let context: Value = serde_json::from_slice(&fs::read(place.host("context.json")).unwrap()).unwrap();
    let reply = json!({ "channel": "telegram", "platform_id": "-100" });
    assert_eq!(
        context,
        json!({
            "v": 1, "version": 3, "install": "in1", "session": "se12", "agent": "main", "agent_name": "Gen",
            "incarnation": 2, "epoch": 0, "session_name": "default",
            "provider": { "name": "command", "command": ["agent", "--json"], "effort": "high",
                "memory": "codex-00000000000000aa" },
            "reply": reply, "timezone": "Europe/Berlin",
            "mcp_servers": [{ "name": "my-files", "command": "mcp-files", "args": ["--all"], "env": { "MODE": "calm" },
                "secret_env": { "TOKEN": "HEARTH_MCP_my__files_TOKEN" } }],
            "destinations": [
                { "name": "family", "display": "Family", "type": "channel", "channel": "telegram", "platform_id": "-100" },
                { "name": "helper", "type": "agent", "folder": "helper" },
            ],
            "limits": { "max_prompt_messages": 20, "max_json_bytes": 1_048_576, "max_file_bytes": 67_108_864 },
            "blocked_tools": ["Shell"], "next_number": 7,
            "idle_beat_ms": 600_000,
            "already_sent": [{ "in_reply_to": 4, "number": 5, "text": "half" }],
            "recap": [{ "number": 2, "from": "Ada", "text": "which train?" }],
        })
    );
    assert_eq!(names(&place.host("in")), ["0000000000000004.json", "0000000000000006.json", "files"]);
    let message: Value = serde_json::from_slice(&fs::read(place.host("in/0000000000000004.json")).unwrap()).unwrap();
    assert_eq!(
        message,
        json!({
            "v": 1, "seq": 4, "id": "ms40", "kind": "chat", "trigger": true, "timestamp": "2026-04-20T12:00:00.000Z",
            "reply": reply, "content": { "text": "hello", "sender": "Ann" },
        })
    );
    serde_json::from_value::<InMessage>(message).unwrap();
    let mode = fs::metadata(place.host("in/0000000000000004.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
}

/// A runner that knows no rules about tools would allow everything.
#[test]
fn a_runner_that_knows_no_rules_refuses_a_context_with_rules() {
    let rule = |verdict| ToolRule { verdict, pattern: "Bash".to_owned() };
    let with = |rule| ToolSettings { rules: vec![rule], ..ToolSettings::default() };
    for (tools, version) in [
        (ToolSettings::default(), WIRE_VERSION),
        (with(rule(ToolVerdict::Allow)), WIRE_VERSION),
        (with(rule(ToolVerdict::Ask)), RULES_VERSION),
        (with(rule(ToolVerdict::Deny)), RULES_VERSION),
        (ToolSettings::of(ToolPreset::Careful), RULES_VERSION),
        (ToolSettings::of(ToolPreset::Locked), RULES_VERSION),
    ] {
        let (place, mut view) = (Place::new(), context(1, 1));
        view.settings.tools = tools.clone();
        export(&place, view, &[], false).unwrap();
        let found = read_context(&place);
        assert_eq!((found.v, found.tools.preset, found.tools.rules), (version, tools.preset, tools.rules));
    }
}

#[test]
fn a_context_is_replaced_by_a_newer_one_or_for_another_incarnation() {
    let place = Place::new();
    for (version, incarnation, stays) in
        [(3, 2, (3, 2)), (3, 2, (3, 2)), (2, 2, (3, 2)), (4, 2, (4, 2)), (1, 3, (1, 3))]
    {
        export(&place, context(version, incarnation), &[], false).unwrap();
        let there = read_context(&place);
        assert_eq!((there.version, there.incarnation), stays, "{version} {incarnation}");
    }
    for broken in ["", "{}", "[", r#"{"version":"9","incarnation":3}"#] {
        fs::write(place.host("context.json"), broken).unwrap();
        export(&place, context(1, 3), &[], false).unwrap();
        assert_eq!(read_context(&place).version, 1);
    }
}

#[test]
fn messages_are_written_once() {
    let place = Place::new();
    export(&place, context(1, 1), &[4], false).unwrap();
    let inode = || fs::metadata(place.host("in/0000000000000004.json")).unwrap().ino();
    let before = inode();
    export(&place, context(1, 1), &[4, 6], false).unwrap();
    assert_eq!(inode(), before);
    assert_eq!(names(&place.host("in")).len(), 3);
}

#[test]
fn an_exact_export_removes_everything_else() {
    let place = Place::new();
    export(&place, context(1, 1), &[4, 6, 8], false).unwrap();
    for seq in [6, 8, 2] {
        fs::create_dir(place.host(&format!("in/files/{seq:016}"))).unwrap();
        fs::write(place.host(&format!("in/files/{seq:016}/x")), "").unwrap();
    }
    fs::write(place.host("in/.tmp-1-0000000000000010.json"), "half").unwrap();
    export(&place, context(2, 2), &[6, 10], true).unwrap();
    assert_eq!(names(&place.host("in")), ["0000000000000006.json", "0000000000000010.json", "files"]);
    assert_eq!(names(&place.host("in/files")), ["0000000000000006"]);
    export(&place, context(3, 2), &[], true).unwrap();
    assert_eq!(names(&place.host("in")), ["files"]);
}

#[test]
fn an_export_tells_whether_it_brought_something_that_asks() {
    let place = Place::new();
    assert!(export(&place, context(1, 1), &[4], false).unwrap());
    assert!(!export(&place, context(1, 1), &[4], false).unwrap(), "it is there");
    assert!(export(&place, context(1, 1), &[4, 6], false).unwrap());
    let quiet = ExportedMessage { trigger: false, ..message(8) };
    assert!(!place.mailboxes.export(&export_of(vec![quiet]), "UTC").unwrap());
}

#[test]
fn a_message_that_cannot_be_written_does_not_keep_the_others() {
    let place = Place::new();
    let mut big = message(4);
    big.content = RawJson::trusted(json!({ "text": "x".repeat(1_048_576) }).to_string());
    let mut broken = message(6);
    broken.content = RawJson::trusted("{".to_owned());
    let messages = vec![big, broken, message(8)];
    let outcome = place.mailboxes.export(
        &Export {
            session: SESSION,
            context: Some(context(1, 1)),
            messages,
            replies: Some(Vec::new()),
            exact: true,
            files: vec![],
        },
        "UTC",
    );
    assert!(matches!(outcome, Err(Error::TooLarge { .. })), "{outcome:?}");
    assert_eq!(names(&place.host("in")), ["0000000000000008.json", "files"]);
}

#[test]
fn the_hosts_files_are_replaced_and_not_written_through() {
    let place = Place::new();
    symlink(place.outside().join("secret.json"), place.host("context.json")).unwrap();
    export(&place, context(1, 1), &[4], false).unwrap();
    assert!(fs::symlink_metadata(place.host("context.json")).unwrap().is_file());
    place.assert_outside_untouched();
}

#[test]
fn a_finished_message_goes_before_its_ack() {
    let place = Place::new();
    export(&place, context(1, 1), &[4, 6], false).unwrap();
    fs::create_dir(place.host("in/files/0000000000000004")).unwrap();
    fs::write(place.host("in/files/0000000000000004/x"), "").unwrap();
    place.write("ack/4.1.completed.json", "x");
    let agent_files = vec!["ack/4.1.completed.json".to_owned()];
    let discard = Discard { session: SESSION, seqs: vec![4], files: vec![4], agent_files };
    for _ in 0..2 {
        place.mailboxes.discard(&discard).unwrap();
        assert_eq!(names(&place.host("in")), ["0000000000000006.json", "files"]);
        assert_eq!(names(&place.host("in/files")), [""; 0]);
        assert_eq!(names(&place.agent("ack")), [""; 0]);
    }
}
