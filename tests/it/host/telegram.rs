//! A daemon with a chat on the fake Telegram.

use serde_json::{Value, json};

use super::bridge_programs::kit_within;
use super::fake_telegram::{FakeTelegram, TOKEN};
use super::{Host, wait_for};

pub(crate) fn connect(mut host: Host) -> (Host, FakeTelegram) {
    let server = FakeTelegram::start();
    host.env.push(("BOT_TOKEN".to_owned(), TOKEN.to_owned()));
    host.apply(&format!(
        "schema = 1\n[channels.telegram]\ntoken = \"env:BOT_TOKEN\"\nbase_url = \"{}\"\n",
        server.url()
    ));
    host.start();
    (host, server)
}

/// Runs the kit with Hearth's own Telegram.
pub(crate) fn test() -> Value {
    kit_with("60", &["--built-in", "telegram"], &[])
}

/// The same for one case, with a script in Python that changes its frames.
pub(crate) fn test_broken(script: &[&str], only: &str) -> Value {
    let built_in = [env!("CARGO_BIN_EXE_hearth"), "bridge", "built-in", "telegram"];
    kit_with("8", &["--only", only], &[&["python3"], script, &built_in].concat())
}

fn kit_with(seconds: &str, more: &[&str], bridge: &[&str]) -> Value {
    const PEOPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/telegram_people.py");
    let (mut host, server) = (Host::new(), FakeTelegram::start());
    host.env.push(("BOT_TOKEN".to_owned(), TOKEN.to_owned()));
    host.env.push(("TELEGRAM_PEOPLE".to_owned(), server.port().to_string()));
    let settings = json!({ "base_url": server.url() }).to_string();
    let words = ["--network", PEOPLE, "--settings", &settings, "--token", "env:BOT_TOKEN", "--chat", "123"];
    kit_within(&host, seconds, &[&words[..], more].concat(), bridge)
}

/// What Ann types in her direct chat.
pub(crate) fn typed(id: i64, text: &str) -> Value {
    json!({"message": {
        "message_id": id, "date": 1_700_000_000, "text": text,
        "from": {"id": 9, "is_bot": false, "first_name": "Ann"},
        "chat": {"id": 123, "type": "private", "first_name": "Ann"},
    }})
}

pub(crate) fn wait_shown(server: &FakeTelegram, count: usize) -> Vec<String> {
    wait_for("messages on Telegram", || Some(server.shown(123)).filter(|shown| shown.len() >= count))
}

pub(crate) fn wait_delivered(host: &Host, count: usize) {
    wait_for("deliveries to be known", || {
        let rows = host.rows("outbound");
        (rows.iter().filter(|row| row["value"]["state"].get("Delivered").is_some()).count() >= count).then_some(())
    });
}

/// An agent that reports the content of its files and sends one, edits its messages, and reacts to messages.
pub(crate) const PROGRAM: &str = r#"
import json, os, sys
def say(**what):
    print(json.dumps(dict(what, type="say")), flush=True)
for line in sys.stdin:
    turn = json.loads(line)
    if turn["type"] != "turn":
        continue
    last = turn["messages"][-1]
    text = last["content"]["text"]
    for entry in last["content"].get("attachments", []):
        data = open(os.path.join(turn["session_dir"], entry["localPath"])).read()
        open("answer.txt", "w").write(data.upper())
        say(text="it says " + data, files=["answer.txt"])
    if text == "change":
        say(text="wrong", final=False, id="s1")
        reply = json.loads(sys.stdin.readline())
        say(content={"operation": "edit", "messageId": reply["result"]["number"], "text": "right"})
        say(content={"operation": "reaction", "messageId": last["seq"], "emoji": "\U0001F44D"})
    print(json.dumps({"type": "done"}), flush=True)
"#;

/// A host whose agent is [`PATIENT`], and the server its chat is on.
pub(crate) fn patient() -> (Host, FakeTelegram) {
    connect(Host::with_program(PATIENT))
}

/// The texts that the agent began with, in order.
pub(crate) fn begun(host: &Host) -> Vec<String> {
    let text = std::fs::read_to_string(host.data().join("groups/main/begun")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// An agent that records what it begins with, and ends no turn before there is a file `go`.
const PATIENT: &str = r#"
import json, os, sys, time
for line in sys.stdin:
    turn = json.loads(line)
    if turn["type"] != "turn":
        continue
    texts = [message["content"]["text"] for message in turn["messages"]]
    open("begun", "a").write("".join(text + "\n" for text in texts))
    while not os.path.exists("go"):
        time.sleep(0.02)
    for text in texts:
        print(json.dumps({"type": "say", "text": "did " + text}), flush=True)
    print(json.dumps({"type": "done"}), flush=True)
"#;
