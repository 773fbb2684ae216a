//! Session files of claw: their owners, their import, and an export that equals the original.

mod places;

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use hearth::model::workspace::Fingerprint;
use rustix::process::Signal;
use serde_json::Value;

use crate::host::{Host, Running, skipped};

const SAID: &str = r#"{"message":{"blocks":[{"text":"hi","type":"text"}],"role":"user"},"type":"message"}"#;

/// A directory in which claw was used.
struct Used {
    root: PathBuf,
}

impl Used {
    fn new(host: &Host, name: &str) -> Self {
        let root = host.path(name);
        std::fs::create_dir_all(root.join(".claw/sessions")).unwrap();
        Self { root: root.canonicalize().unwrap() }
    }

    fn text(&self) -> &str {
        self.root.to_str().unwrap()
    }

    fn flat(&self, name: &str) -> PathBuf {
        self.root.join(".claw/sessions").join(name)
    }

    fn own(&self, name: &str) -> PathBuf {
        let partition = Fingerprint::of_path(self.root.as_os_str().as_encoded_bytes()).to_string();
        self.flat(&partition).join(name)
    }

    /// The directory of `own`, created if it does not exist.
    fn own_dir(&self) -> PathBuf {
        let dir = self.own("x");
        let dir = dir.parent().unwrap();
        std::fs::create_dir_all(dir).unwrap();
        dir.to_owned()
    }
}

fn put(path: &Path, bytes: impl AsRef<[u8]>) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

/// The first line of a session file that says where it is from.
fn head(id: &str, root: Option<&str>) -> String {
    let root = root.map(|root| format!(",\"workspace_root\":\"{root}\"")).unwrap_or_default();
    format!(
        "{{\"created_at_ms\":5,\"session_id\":\"{id}\",\"type\":\"session_meta\",\"updated_at_ms\":9,\"version\":1{root}}}\n"
    )
}

fn session(id: &str, root: Option<&str>, messages: usize) -> String {
    head(id, root) + &format!("{SAID}\n").repeat(messages)
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn import(host: &Host, used: &Used, files: &[&Path]) -> (Option<i32>, Value) {
    let mut words = vec!["session", "-C", used.text(), "--json", "import"];
    words.extend(files.iter().map(|file| file.to_str().unwrap()));
    let ended = host.run(&words, b"");
    (ended.code, json(&ended.stdout))
}

fn import_all(host: &Host, used: &Used) -> (Option<i32>, Value) {
    let ended = host.run(&["import", "claw", used.text(), "--json"], b"");
    (ended.code, json(&ended.stdout))
}

fn listed(host: &Host, used: &Used) -> Vec<String> {
    let list = json(&host.done(&["session", "-C", used.text(), "--json", "list"], b""));
    let mut ids: Vec<_> =
        list["session_details"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    ids
}

fn export(host: &Host, used: &Used, id: &str) -> String {
    host.done(&["session", "-C", used.text(), "export", id], b"")
}

fn ask(host: &Host, used: &Used, words: &[&str]) -> (Option<i32>, Value) {
    let ended = host.run(&[&["session", "-C", used.text(), "--json"], words].concat(), b"");
    (ended.code, json(&ended.stdout))
}

/// Every command that would read the file refuses it with the same reason.
fn is_refused(host: &Host, own: &Used, (id, root, word): (&str, Option<&str>, &str)) {
    for verb in ["show", "load", "resume"] {
        let (code, said) = ask(host, own, &[verb, id]);
        assert_eq!((code, said["kind"].as_str()), (Some(1), Some(word)), "{verb} {id}: {said}");
        if word == "workspace_mismatch" {
            let roots = (said["expected_workspace_root"].as_str(), said["actual_workspace_root"].as_str());
            assert_eq!(roots, (Some(own.text()), root), "{verb} {id}: {said}");
        }
    }
}

#[test]
fn files_are_seen_beside_sessions_under_the_same_rules() {
    let mut host = Host::new();
    let (own, other) = (Used::new(&host, "own"), Used::new(&host, "other"));
    let gone = host.path("gone").display().to_string();
    let alias = host.path("alias");
    symlink(&own.root, &alias).unwrap();
    put(&other.flat("l9.jsonl"), session("l9", None, 1));
    symlink(other.flat("l9.jsonl"), own.own_dir().join("l11.jsonl")).unwrap();
    let rows = [
        ("l1", own.flat("l1.jsonl"), Some(own.text()), "shown"),
        ("l1j", own.flat("l1j.json"), Some(own.text()), "shown"),
        ("l2", own.flat("l2.jsonl"), None, "shown"),
        ("l3", own.flat("l3.jsonl"), Some(other.text()), "workspace_mismatch"),
        ("l4", own.flat("l4.jsonl"), Some(&gone), "workspace_mismatch"),
        ("l5", own.own("l5.jsonl"), Some(other.text()), "workspace_mismatch"),
        ("l6", own.own("l6.jsonl"), None, "shown"),
        ("l7", own.own("l7.jsonl"), alias.to_str(), "shown"),
        ("l7r", own.own("l7r.jsonl"), Some("."), "workspace_mismatch"),
        ("l8", other.flat("l8.jsonl"), Some(own.text()), "session_not_found"),
        ("l9", other.flat("l9.jsonl"), None, "session_not_found"),
        ("l10", own.flat("0123456789abcdef/l10.jsonl"), None, "session_not_found"),
        ("l11", own.own("l11.jsonl"), None, "session_path_is_link"),
        ("l12", own.flat("l12.json"), None, "session_corrupt"),
        ("l13", own.own("l13.jsonl"), Some("/home/original"), "workspace_mismatch"),
    ];
    for (id, path, root, _) in &rows {
        match *id {
            "l11" => {}
            "l12" => put(path, b"{\"version\":1,\"messages\":[\xff]}"),
            _ => put(path, session(id, *root, 1)),
        }
    }
    let before: Vec<_> = rows.iter().map(|(_, path, ..)| std::fs::read(path).unwrap()).collect();
    let shown: Vec<_> = rows.iter().filter(|(.., word)| *word == "shown").map(|(id, ..)| *id).collect();
    // Refused and read-only commands create nothing.
    assert_eq!(listed(&host, &own), shown);
    let list = ask(&host, &own, &["list"]).1;
    let refused = serde_json::json!({ "session_corrupt": 1, "session_path_is_link": 1, "workspace_mismatch": 5 });
    assert_eq!(list["files_refused"], refused, "{list}");
    assert_eq!(list["session_details"][0]["key"], Value::Null, "{list}");
    let text = host.run(&["session", "-C", own.text(), "list"], b"");
    assert!(text.stderr.contains("5 workspace_mismatch") && text.stdout.contains(" file "), "{text:#?}");
    for (id, _, root, word) in &rows {
        let exists = ask(&host, &own, &["exists", id]);
        assert_eq!((exists.0, &exists.1["exists"]), (Some(0), &Value::from(*word == "shown")), "{id}: {exists:?}");
        let (code, said) = ask(&host, &own, &["show", id]);
        if *word == "shown" {
            assert_eq!((code, &said["session"]["message_count"]), (Some(0), &1.into()), "{id}: {said}");
            assert_eq!(said["records"].as_array().map(Vec::len), Some(1), "{id}: {said}");
            continue;
        }
        is_refused(&host, &own, (id, *root, *word));
    }
    assert_eq!(host.rows("sessions").len(), 0);
    // Without a daemon, then with one.
    for (number, id) in shown.iter().enumerate() {
        if number == 2 {
            host.start();
        }
        let verb = if number % 2 == 0 { "load" } else { "resume" };
        let (code, said) = ask(&host, &own, &[verb, id]);
        assert_eq!(code, Some(0), "{verb} {id}: {said}");
        let key = if verb == "load" { &said["session"]["key"] } else { &said["key"] };
        assert!(key.is_string(), "{verb} {id}: {said}");
        let again = ask(&host, &own, &["show", id]).1;
        assert_eq!((&again["session"]["key"], &again["session"]["file"]), (key, &Value::Null), "{id}: {again}");
        assert_eq!(listed(&host, &own), shown);
    }
    assert_eq!(ask(&host, &own, &["delete", "l2", "--force"]).0, Some(0));
    assert_eq!(ask(&host, &own, &["exists", "l2"]).1["exists"], false, "its file does not bring it back");
    let after: Vec<_> = rows.iter().map(|(_, path, ..)| std::fs::read(path).unwrap()).collect();
    assert_eq!(before, after);
    host.check();
}

/// Files that name the old path of a directory belong to the new one once it was adopted.
#[test]
fn files_move_with_their_directory() {
    let host = Host::new();
    let own = Used::new(&host, "own");
    put(&own.flat("l1.jsonl"), session("l1", Some(own.text()), 1));
    assert_eq!(ask(&host, &own, &["load", "l1"]).0, Some(0));
    let moved = host.path("moved");
    std::fs::rename(&own.root, &moved).unwrap();
    let moved = Used { root: moved.canonicalize().unwrap() };
    put(&moved.flat("l14.jsonl"), session("l14", Some(own.text()), 1));
    // The refusal has the same fields whatever the command.
    put(&moved.root.join("plain.jsonl"), session("l15", None, 1));
    let file = moved.root.join("plain.jsonl").display().to_string();
    let asked = [&["load", "l14"][..], &["exists", "l14"], &["show", "l14"], &["new", "hello"], &["import", &file]];
    let (mut first, wanted) =
        (None, ["moved_from", "moved_workspace", "workspace_root", "fingerprint", "hint", "error"]);
    for words in asked {
        let (code, mut said) = ask(&host, &moved, words);
        assert_eq!((code, &said["kind"]), (Some(1), &"workspace_moved".into()), "{words:?}: {said}");
        assert!(
            wanted.iter().all(|name| said[*name].as_str().is_some_and(|text| !text.is_empty())),
            "{words:?}: {said}"
        );
        said["action"] = Value::Null;
        assert_eq!(first.get_or_insert_with(|| said.clone()), &said, "{words:?}");
    }
    host.done(&["workspace", "adopt", moved.text()], b"");
    assert_eq!(ask(&host, &moved, &["exists", "l14"]).1["exists"], true);
    assert_eq!(ask(&host, &moved, &["load", "l14"]).0, Some(0));
    host.check();
}

#[test]
fn lines_are_without_secrets_unless_they_are_wanted() {
    let host = Host::new();
    let used = Used::new(&host, "w");
    let said = "OPENAI_API_KEY=abc\nnext \"sk-ant-abc\" 1e400";
    host.done(&["session", "-C", used.text(), "new", "--id", "s", said], b"");
    let lines = |more: &[&str]| {
        let words = [&["session", "-C", used.text(), "export", "s", "--layout", "jsonl"], more].concat();
        host.done(&words, b"")
    };
    let (clean, raw) = (lines(&[]), lines(&["--raw"]));
    assert!(!clean.contains("abc") && clean.contains("OPENAI_API_KEY=[redacted]"), "{clean}");
    // What workspaces keep was without them before it was kept.
    assert_eq!(json(&raw)["text"], json(&clean)["text"]);
    assert!(json(&clean)["text"].as_str().unwrap().contains("\nnext"), "{clean}");
    let ended = host.run(&["session", "-C", used.text(), "export", "s", "--raw"], b"");
    assert_eq!(ended.code, Some(2), "{ended:#?}");
}

#[test]
fn the_same_again_changes_nothing_and_changed_files_become_revisions() {
    let mut host = Host::new();
    let used = Used::new(&host, "w");
    put(&used.own("a.rot-100.jsonl"), session("a", None, 1));
    put(&used.own("a.jsonl.before-clear-200.bak"), session("a", None, 2));
    put(&used.own("a.jsonl"), session("a", None, 3));
    put(&used.flat("a.jsonl"), session("a", None, 3));
    put(&used.flat("other.jsonl"), session("a", None, 4));
    put(&used.own("only.rot-7.jsonl"), session("only", None, 1));
    put(&used.own("torn.jsonl"), session("torn", None, 1) + "{\"message\":");
    put(&used.own("a.jsonl.tmp-1-0"), "nothing");
    put(&used.own("notes.md"), "nothing");
    put(&used.own("empty.jsonl"), "");
    put(&used.own("evil.jsonl"), session("../../evil", None, 1));
    let (code, said) = import_all(&host, &used);
    assert_eq!(code, Some(0), "{said}");
    let counts =
        |said: &Value| ["taken", "revised", "already", "passed", "refused"].map(|word| said[word].as_u64().unwrap());
    assert_eq!(counts(&said), [6, 2, 1, 0, 0], "{said}");
    assert_eq!(listed(&host, &used), ["a", "a-2", "empty", "evil", "only", "torn"]);
    let show = |host: &Host, id: &str| json(&host.done(&["session", "-C", used.text(), "--json", "show", id], b""));
    assert_eq!(
        (&show(&host, "a")["session"]["revision"], &show(&host, "a")["session"]["message_count"]),
        (&2.into(), &3.into())
    );
    let first = json(&host.done(&["session", "-C", used.text(), "--json", "show", "a", "--revision", "0"], b""));
    assert_eq!(first["records"].as_array().unwrap().len(), 1);
    let rows = |host: &Host| {
        ["sessions", "records", "revisions", "imported", "workspace_events"].map(|table| host.rows(table))
    };
    let before = rows(&host);
    assert_eq!(counts(&import_all(&host, &used).1), [0, 0, 9, 0, 0]);
    assert_eq!(rows(&host), before);
    // The file continues, together with its archived beginning.
    std::fs::rename(used.own("a.jsonl"), used.own("a.rot-300.jsonl")).unwrap();
    put(&used.own("a.jsonl"), session("a", None, 5));
    host.start();
    let said = import_all(&host, &used).1;
    assert_eq!(counts(&said), [0, 1, 9, 0, 0], "{said}");
    assert_eq!(show(&host, "a")["session"]["message_count"], 5);
    // An older copy that arrives late is ignored.
    put(&used.own("a.rot-50.jsonl"), session("a", None, 9));
    assert_eq!(counts(&import_all(&host, &used).1), [0, 0, 10, 1, 0]);
    // Both went on.
    host.done(&["session", "-C", used.text(), "append", "a", "said here"], b"");
    put(&used.own("a.jsonl"), session("a", None, 7));
    let (code, said) = import_all(&host, &used);
    assert_eq!((code, &said["conflicts"]), (Some(1), &1.into()), "{said}");
    assert_eq!(show(&host, "a")["session"]["message_count"], 6);
    host.check();
}

#[test]
fn damage_is_told_with_its_line_and_takes_nothing_in() {
    let host = Host::new();
    let used = Used::new(&host, "w");
    let good = session("good", None, 2);
    let cases: Vec<(&str, Vec<u8>, &str, Option<u64>)> = vec![
        ("middle.jsonl", format!("{good}{{\"mess\n{SAID}\n").into_bytes(), "session_corrupt", Some(4)),
        ("version.jsonl", good.replace("\"version\":1", "\"version\":99").into_bytes(), "session_version_newer", None),
        ("long.jsonl", [good.as_bytes(), &vec![b'x'; 64 << 20]].concat(), "session_corrupt", Some(4)),
        ("bytes.jsonl", [good.as_bytes(), b"\xff\xfe\n", SAID.as_bytes()].concat(), "session_corrupt", Some(4)),
        ("passwd.jsonl", b"root:x:0:0\n".to_vec(), "session_corrupt", Some(1)),
    ];
    for (name, bytes, kind, line) in &cases {
        put(&used.flat(name), bytes);
        let (code, said) = import(&host, &used, &[&used.flat(name)]);
        let file = &said["files"][0];
        assert_eq!(
            (code, file["kind"].as_str(), file["line"].as_u64()),
            (Some(1), Some(*kind), *line),
            "{name}: {said}"
        );
    }
    assert_eq!(import_all(&host, &used).0, Some(1));
    let fine = [
        ("bom.jsonl", format!("\u{feff}{}", session("bom", None, 1))),
        ("crlf.jsonl", session("crlf", None, 1).replace('\n', "\r\n")),
        ("pair.jsonl", session("pair", None, 1).replace("hi", "\\ud83e\\udd9e")),
    ];
    for (name, text) in &fine {
        put(&used.flat(name), text);
        assert_eq!(import(&host, &used, &[&used.flat(name)]).0, Some(0), "{name}");
    }
    assert_eq!(listed(&host, &used), ["bom", "crlf", "pair"]);
    assert!(export(&host, &used, "pair").contains("🦞"));
    host.check();
}

#[test]
fn what_goes_out_and_in_again_five_times_is_the_same() {
    let mut text = String::new();
    for round in 0..5 {
        let host = Host::new();
        // The directory's name is part of the written file.
        let used = Used { root: std::env::temp_dir().join(format!("hearth-claw-{}", std::process::id())) };
        std::fs::create_dir_all(used.root.join(".claw/sessions")).unwrap();
        let used = Used { root: used.root.canonicalize().unwrap() };
        let file = used.flat("s.jsonl");
        if round == 0 {
            let secrets = SAID.replace("hi", "OPENAI_API_KEY=abc] Bearer sk-x sk-ant-y, KEY");
            let long = SAID.replace("hi", &format!("{}XAI_API_KEY=abc tail", "é".repeat(16_350)));
            let extra = "{\"type\":\"odd\",\"n\":1e400}";
            put(&file, format!("{}{secrets}\n{long}\n{extra}\n", head("s", None)));
        } else {
            put(&file, &text);
        }
        assert_eq!(import(&host, &used, &[&file]).0, Some(0));
        let out = export(&host, &used, "s");
        if round > 0 {
            assert_eq!(out, text, "{round}");
        }
        assert!(!out.contains("abc"));
        text = out;
        let kept = used.root.join("kept.jsonl");
        let words = ["session", "-C", used.text(), "export", "s", "--output", kept.to_str().unwrap()];
        host.done(&words, b"");
        assert_eq!(std::fs::read_to_string(&kept).unwrap(), text);
        assert_eq!(host.run(&words, b"").code, Some(1));
        host.done(&[&words[..], &["--force"]].concat(), b"");
        std::fs::remove_dir_all(&used.root).unwrap();
    }
}

#[test]
fn other_programs_and_hearth_read_each_other() {
    let host = Host::new();
    let used = Used::new(&host, "w");
    let script = r#"
import json, sys
what, path = sys.argv[1:]
if what == "write":
    with open(path, "w") as f:
        print(json.dumps({"type": "session_meta", "version": 1, "session_id": "py", "created_at_ms": 1,
                          "updated_at_ms": 2, "fork": None}), file=f)
        print(json.dumps({"type": "message", "message": {"role": "user",
                          "blocks": [{"type": "text", "text": "lobster \U0001f99e \u2028 \x7f"}]}}), file=f)
        print(json.dumps({"type": "metric", "value": 1.5e300}), file=f)
else:
    for line in open(path, newline="\n"):
        assert line.endswith("\n"), line
        record = json.loads(line)
        assert list(record) == sorted(record), line
        if record["type"] == "message":
            assert record["message"]["blocks"][0]["text"] == "lobster \U0001f99e \u2028 \x7f", line
        if record["type"] == "metric":
            assert record["value"] == 1.5e300, line
"#;
    let python = |what: &str, path: &Path| host.bare("python3").args(["-c", script, what]).arg(path).status();
    let file = used.flat("py.jsonl");
    match python("write", &file) {
        Ok(status) => assert!(status.success()),
        Err(error) => return skipped(format_args!("no python3: {error}")),
    }
    assert_eq!(import(&host, &used, &[&file]).0, Some(0));
    let out = used.root.join("out.jsonl");
    put(&out, export(&host, &used, "py"));
    assert!(python("read", &out).unwrap().success());
}

#[test]
fn a_kill_leaves_all_of_a_session_or_nothing_of_it() {
    let host = Host::new();
    let used = Used::new(&host, "w");
    let many = 12_000;
    // A store that is still being created is a different case.
    let first = Used::new(&host, "first");
    put(&first.flat("first.jsonl"), session("first", None, 1));
    assert_eq!(import_all(&host, &first).0, Some(0));
    put(&used.flat("big.jsonl"), session("big", None, many));
    for round in 0..6_u64 {
        let words = ["import", "claw", used.text()];
        let running = Running::start(host.command(&words), b"");
        std::thread::sleep(std::time::Duration::from_millis(60 + 90 * round));
        running.signal(Signal::KILL).end();
        host.check();
        let list = listed(&host, &used);
        assert!(list.is_empty() || list == ["big"], "{list:?}");
    }
    // Different content, while pieces of the first one are stored and hidden.
    put(&used.flat("big.jsonl"), session("big", None, many + 1));
    assert_eq!(import_all(&host, &used).0, Some(0));
    let shown = json(&host.done(&["session", "-C", used.text(), "--json", "show", "big", "--limit", "1"], b""));
    assert_eq!(shown["session"]["message_count"], many + 1, "{shown}");
    // A large file that changed becomes a revision in many pieces.
    put(&used.flat("big.jsonl"), session("big", None, many + 2));
    assert_eq!(import_all(&host, &used).1["revised"], 1);
    assert_eq!(export(&host, &used, "big").lines().count(), many + 3);
    host.check();
}

#[test]
fn conversations_of_agents_go_out_too() {
    let host = Host::new();
    host.done(&["chat", "hello there"], b"");
    let group = host.data().join("groups/main");
    let text = host.done(&["session", "-C", group.to_str().unwrap(), "export", "latest"], b"");
    let lines: Vec<Value> = text.lines().map(json).collect();
    assert_eq!(lines[0]["type"], "session_meta", "{text}");
    assert_eq!(lines[1]["message"]["blocks"][0]["text"], "hello there", "{text}");
    assert_eq!(lines[2]["message"]["role"], "assistant", "{text}");
    let people =
        host.done(&["session", "-C", group.to_str().unwrap(), "export", "latest", "--layout", "markdown"], b"");
    assert!(people.contains("echo: hello there"), "{people}");
}
