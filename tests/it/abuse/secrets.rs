//! Marked secrets in a run with everything on: they reach those who are to use them, and nothing that is written or shown.

use std::path::Path;

use serde_json::json;

use crate::channels::{SECRET, free_port, post};
use crate::confine;
use crate::fake_telegram::{FakeTelegram, Fault, TOKEN};
use crate::host::{Host, wait_for};
use crate::telegram::typed;

const KEY: &str = "marked-key-of-the-agent-5f2c";
const FILE: &str = "marked-file-of-the-agent-77aa";
const MADE: &str = "marked-output-of-a-command-90b1";

/// Agents that say whether they have what they were given, and all else they have; and that make trouble.
const PROGRAM: &str = r#"
import json, os, sys
for line in sys.stdin:
    turn = json.loads(line)
    if turn["type"] != "turn":
        continue
    mine = [name for name in ("KEY", "FILE", "MADE") if "marked" in os.environ.get(name, "")]
    rest = [name for name, value in os.environ.items() if "marked" in value and name not in mine]
    print(json.dumps({"type": "say", "text": json.dumps([sorted(mine), rest])}))
    print(json.dumps({"type": "done"}), flush=True)
    print("a complaint that has", os.environ.get("KEY"), "in it", file=sys.stderr, flush=True)
"#;

/// The argument lists of all processes of this data directory and its daemon.
fn command_lines(daemon: i32) -> String {
    let mut all = String::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse::<i32>().ok());
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if pid == daemon || parent == Some(daemon) || String::from_utf8_lossy(&line).contains("secret_agent.py") {
            all.push_str(&String::from_utf8_lossy(&line));
            all.push('\n');
        }
    }
    all
}

fn clean(what: &str, text: &[u8]) {
    for secret in [TOKEN, SECRET, KEY, FILE, MADE] {
        let found = text.windows(secret.len()).any(|part| part == secret.as_bytes());
        assert!(!found, "{what} has {secret}");
    }
}

/// Every file below a directory.
fn files(at: &Path, look: &mut dyn FnMut(&Path)) {
    for entry in std::fs::read_dir(at).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files(&entry.path(), look),
            Ok(kind) if kind.is_file() => look(&entry.path()),
            _ => {}
        }
    }
}

fn configure(host: &Host, telegram: &FakeTelegram, port: u16) {
    std::fs::write(host.path("secret.txt"), format!("{FILE}\n")).unwrap();
    std::fs::write(host.path("made.txt"), format!("{MADE}\n")).unwrap();
    std::fs::write(host.path("secret_agent.py"), PROGRAM).unwrap();
    let program = host.path("secret_agent.py");
    let open = if confine::possible() { "" } else { "unconfined = true\n" };
    let agent = |folder: &str, env: &str| {
        format!(
            "[[agents]]\nfolder = \"{folder}\"\nprovider = \"command\"\ncommand = [\"python3\", {:?}]\n{open}{env}\n",
            program.display()
        )
    };
    let env = format!(
        "env = {{ KEY = \"env:MARKED\", FILE = \"file:{}\", MADE = \"cmd:cat {}\" }}",
        host.path("secret.txt").display(),
        host.path("made.txt").display()
    );
    let chat = |channel: &str, id: &str, agent: &str| {
        format!(
            "[[chats]]\nchannel = \"{channel}\"\nplatform_id = \"{id}\"\nunknown_senders = \"public\"\n\
             [[chats.wirings]]\nagent = \"{agent}\"\nengage = \"pattern\"\npattern = \".\"\n"
        )
    };
    host.apply(&format!(
        "schema = 1\n{}{}[channels.telegram]\ntoken = \"env:BOT_TOKEN\"\nbase_url = \"{}\"\n\
         [channels.web]\ntype = \"webhook\"\nsecret = \"env:WEB_SECRET\"\nlisten = \"127.0.0.1:{port}\"\n\
         base_url = \"http://127.0.0.1:9\"\n{}{}",
        agent("has", &env),
        agent("hasnot", ""),
        telegram.url(),
        chat("telegram", "123", "has"),
        chat("web", "room", "hasnot"),
    ));
}

#[test]
fn marked_secrets_stay_where_they_belong() {
    let telegram = FakeTelegram::start();
    let mut host = Host::new();
    let port = free_port();
    for (name, value) in [("BOT_TOKEN", TOKEN), ("WEB_SECRET", SECRET), ("MARKED", KEY), ("HEARTH_LOG", "debug")] {
        host.env.push((name.to_owned(), value.to_owned()));
    }
    configure(&host, &telegram, port);
    telegram.fails("getUpdates", [Fault::Close, Fault::Say(500, "no".to_owned())]);
    telegram.fails("sendMessage", [Fault::Close, Fault::Error(400, "Bad Request", json!({}))]);
    host.start();
    telegram.happens(typed(7, "hello"));
    let event = json!({"channelType": "web", "platformId": "room",
        "message": {"id": "m1", "content": {"text": "hello", "senderId": "ann"}}});
    wait_for("the web service", || post(port, SECRET, "/v1/events", &event).filter(|(status, _)| *status == 200));
    post(port, "wrong", "/v1/events", &event).unwrap();
    let said = host.wait_said(2);
    assert!(said.iter().any(|said| said == r#"[["FILE", "KEY", "MADE"], []]"#), "{said:?}");
    assert!(said.iter().any(|said| said == "[[], []]"), "{said:?}");
    host.wait_settled();
    let pid = host.daemon().unwrap().pid().as_raw_nonzero().get();
    clean("a command line", command_lines(pid).as_bytes());
    // What it wrote is kept when it is gone.
    host.done(&["agents", "restart", "has"], b"");
    let complains = |session: &str| host.run(&["sessions", "show", session], b"").stdout.contains("a complaint");
    wait_for("the complaint", || (complains("se1") || complains("se2")).then_some(()));
    let commands: [&[&str]; 12] = [
        &["status", "--json"],
        &["export"],
        &["doctor", "--json"],
        &["agents", "show", "has", "--json"],
        &["sessions", "show", "se1", "--json"],
        &["sessions", "show", "se2", "--json"],
        &["channels", "list", "--json"],
        &["why", "latest", "--json"],
        &["sessions", "prompt", "se1"],
        &["backup", "--json"],
        &["store", "export", "-"],
        &["approvals", "list", "--json"],
    ];
    for words in commands {
        let ended = host.run(words, b"");
        clean(&words.join(" "), format!("{}{}", ended.stdout, ended.stderr).as_bytes());
    }
    for words in [&["--json", "--bodies"][..], &[]] {
        clean("hearth-dump", host.dump(words).stdout.as_bytes());
    }
    let log = host.stop().stderr;
    assert!(log.contains("DEBUG"), "everything is on");
    clean("the log", log.as_bytes());
    // The store, its backup, mailboxes and whatever else was written.
    files(&host.data(), &mut |path| clean(&path.display().to_string(), &std::fs::read(path).unwrap_or_default()));
}
