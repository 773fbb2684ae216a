//! The files of the machine that agents see, and the conversations that they store, through the real program.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use serde_json::{Value, json};

use crate::host::agents::cli;
use crate::host::confined::possible;
use crate::host::fake_api::FakeApi;
use crate::host::{Host, with_chat};

/// Tries to read and write each given path, and reports what succeeded.
const PROGRAM: &str = r#"
import json, sys
for line in sys.stdin:
    turn = json.loads(line)
    if turn["type"] != "turn":
        continue
    said = []
    for path in turn["messages"][-1]["content"]["text"].split():
        done = path.rsplit("/", 1)[1] + ":"
        for mode in "ra":
            try:
                with open(path, mode):
                    done += mode
            except OSError:
                pass
        said.append(done)
    print(json.dumps({"type": "say", "text": " ".join(said)}))
    print(json.dumps({"type": "done"}), flush=True)
"#;

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Lets agents see and change `projects`, and see `docs`.
fn allow(host: &Host) {
    let list = host.path(".config/hearth/mount-allowlist.json");
    let (projects, docs) = ("{\"path\": \"~/projects\", \"allowReadWrite\": true}", "{\"path\": \"~/docs\"}");
    write(&list, &format!("{{\"allowedRoots\": [{projects}, {docs}], \"blockedPatterns\": []}}"));
    std::fs::set_permissions(&list, PermissionsExt::from_mode(0o600)).unwrap();
}

fn json(host: &Host, arguments: &[&str]) -> Value {
    let arguments: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
    serde_json::from_str(&host.done(&arguments, b"")).unwrap()
}

#[test]
fn mounts_are_declared_warned_of_and_judged() {
    let host = Host::on_disk();
    host.apply(&with_chat("provider = \"echo\""));
    write(&host.path("projects/app/file"), "x");
    write(&host.path("docs/file"), "x");
    let set =
        ["agents", "set", "main", "--mounts", "~/projects/app:code:rw", "--mounts", "~/docs", "--memory", "512MiB"];
    let more = ["--cpu", "1.5", "--pids", "100", "--network", "none", "--skills", "nosuch"];
    let ended = host.run(&[&set[..], &more].concat(), b"");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stderr.contains("agent main gets ~/projects/app READ-WRITE"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("docs"), "{}", ended.stderr);
    let shown = json(&host, &["agents", "show", "main"]);
    assert_eq!(shown["limits"], json!({"memory": "512MiB", "cpu": 1.5, "pids": 100}));
    assert_eq!((&shown["network"], &shown["skills"]), (&json!("none"), &json!(["nosuch"])));
    assert_eq!(shown["mounts"][0]["allowed"], false);
    assert!(shown["mounts"][0]["reason"].as_str().unwrap().starts_with("No mount allowlist configured at /"));
    assert_eq!(shown["left_out"].as_array().unwrap().len(), 3, "{shown}");
    allow(&host);
    let shown = json(&host, &["agents", "show", "main"]);
    let first = &shown["mounts"][0];
    assert_eq!((&first["access"], &first["place"]), (&json!("read-write"), &json!("/workspace/extra/code")));
    assert_eq!((&first["allowed"], &first["readonly"]), (&json!(true), &json!(false)));
    assert_eq!((&shown["mounts"][1]["access"], &shown["mounts"][1]["allowed"]), (&json!("read-only"), &json!(true)));
    let table = host.run(&["agents", "show", "main"], b"");
    assert!(table.stdout.contains("READ-WRITE") && table.stdout.contains("read-only"), "{}", table.stdout);
    assert!(table.stderr.contains("agent main does not get skill nosuch"), "{}", table.stderr);
    let doctor = host.run(&["doctor"], b"");
    assert!(doctor.stdout.contains("agent main does not get skill nosuch"), "{}", doctor.stdout);
    let exported = host.done(&["export"], b"");
    let again = host.run(&["apply", "-"], exported.as_bytes());
    assert!(again.stdout.lines().all(|line| line.starts_with("unchanged")), "{exported}{}", again.stdout);
    assert!(again.stderr.contains("READ-WRITE"), "{}", again.stderr);
    let bad = host.run(&["agents", "set", "main", "--mounts", "~/a:../b", "--memory", "2G"], b"");
    assert_eq!(bad.code, Some(1));
    assert!(bad.stderr.contains("`../b` cannot be mounted") && bad.stderr.contains("limits.memory"), "{}", bad.stderr);
}

#[test]
fn a_confined_agent_sees_what_it_was_given_and_no_more() {
    if !possible() {
        return;
    }
    let mut host = Host::on_disk();
    write(&host.data().join("groups/main/agent.py"), PROGRAM);
    for place in [host.data(), host.data().join("groups"), host.data().join("groups/main")] {
        std::fs::set_permissions(place, PermissionsExt::from_mode(0o700)).unwrap();
    }
    let files = ["projects/app/rw", "docs/ro", "other/hidden"].map(|name| host.path(name));
    files.iter().for_each(|file| write(file, "x"));
    if rustix::process::geteuid().is_root() {
        // Agents of root are another user, who can change in mounts what that user may change.
        for place in [host.path("projects/app"), host.path("projects/app/rw")] {
            std::os::unix::fs::chown(place, Some(1000), Some(1000)).unwrap();
        }
    }
    write(&host.data().join("groups/global/global"), "x");
    write(&host.data().join("skills/web/skill"), "x");
    write(&host.data().join("trusted/shared"), "x");
    write(&host.data().join("groups/CLAUDE.md"), "x");
    allow(&host);
    host.apply(&format!(
        "schema = 1\n[[agents]]\nfolder = \"main\"\nprovider = \"command\"\ntrust = \"main\"\n\
         command = [\"python3\", {:?}]\n\
         mounts = [{{ host_path = \"~/projects/app\", readonly = false }}, {{ host_path = \"~/docs\", readonly = false }},\
         {{ host_path = \"~/other\" }}]\n{}",
        host.data().join("groups/main/agent.py").display(),
        crate::host::CHAT
    ));
    host.start();
    let data =
        ["groups/global/global", "skills/web/skill", "trusted/shared", "groups/CLAUDE.md", "groups/main/CLAUDE.md"];
    let paths: Vec<_> = files.iter().cloned().chain(data.map(|name| host.data().join(name))).collect();
    let text: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    host.inject("m1", &text.join(" "));
    let said = host.wait_said(1).remove(0);
    assert_eq!(said, "rw:ra ro:r hidden: global:r skill:r shared:ra CLAUDE.md:r CLAUDE.md:ra");
    host.wait_settled();
    let log = host.stop().stderr;
    assert_eq!(log.matches("~/other").count(), 1, "{log}");
}

#[test]
fn the_real_agent_has_its_memory_its_skills_and_a_transcript() {
    let Some(cli) = cli() else { return };
    let api = FakeApi::start();
    let mut host = Host::with_agent(&format!(
        "provider = \"claude\"\ncommand = [{:?}]\nunconfined = true\ninstructions = \"Your name is Calliope.\"\n\
         env = {{ ANTHROPIC_BASE_URL = {:?}, ANTHROPIC_API_KEY = \"sk-ant-test\", CLAUDE_CODE_MAX_RETRIES = \"1\" }}",
        cli.display(),
        api.url()
    ));
    write(
        &host.data().join("skills/weather/SKILL.md"),
        "---\nname: weather\ndescription: tells the barometer\n---\nLook.\n",
    );
    write(&host.data().join("skills/weather/instructions.md"), "Speak of isobars.\n");
    let none = host.run(&["sessions", "transcript", "se1"], b"");
    assert_eq!(none.code, Some(1));
    host.start();
    host.inject("m1", "good morning [[say and to you]]");
    host.wait_said(1);
    host.wait_settled();
    let asked = api.requests().iter().map(Value::to_string).find(|asked| asked.contains("good morning")).unwrap();
    for known in
        ["Your name is Calliope.", "Where you are", "ask_user_question", "Speak of isobars.", "tells the barometer"]
    {
        assert!(asked.contains(known), "{known} is not in what was asked");
    }
    let session = json(&host, &["sessions", "list"])["sessions"][0]["session"].as_str().unwrap().to_owned();
    let shown = host.done(&["sessions", "transcript", &session], b"");
    assert!(shown.contains("user:") && shown.contains("good morning") && shown.contains("and to you"), "{shown}");
    let raw = host.done(&["sessions", "transcript", &session, "--json"], b"");
    assert!(raw.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()) && raw.contains("good morning"));
    let memory = json(&host, &["sessions", "memory", "main"]);
    assert_eq!(memory["memory"][0]["file"], "CLAUDE.local.md");
    let used = json(&host, &["sessions", "du"]);
    assert!(used["sessions"][0]["transcript"].as_u64().unwrap() > 100, "{used}");
    assert!(used["agents"][0]["home"].as_u64().unwrap() > used["sessions"][0]["transcript"].as_u64().unwrap());
    host.stop();
}

/// An agent's files are shown as what they are: links are not followed, contents are not trusted, and control
/// characters do not reach the terminal.
#[test]
fn what_agents_keep_is_shown_with_care() {
    let mut host = Host::with_echo();
    host.start();
    host.inject("m1", "hello");
    host.wait_said(1);
    host.wait_settled();
    host.stop();
    let session = json(&host, &["sessions", "list"])["sessions"][0]["session"].as_str().unwrap().to_owned();
    let transcript = || host.run(&["sessions", "transcript", &session], b"");
    let noted = host.data().join("sessions").join(&session).join("agent/session.json");
    let note = |id: &str| {
        std::fs::remove_file(&noted).ok();
        write(&noted, &json!({"v": 1, "incarnation": 1, "continuations": {"claude": id}}).to_string());
    };
    note("../../secret");
    assert!(transcript().stderr.contains("not the id of a conversation"), "{:?}", transcript());
    note("abc-1");
    assert!(transcript().stderr.contains("has no transcript in the agent's home"), "{:?}", transcript());
    let project = host.data().join("homes/main/.claude/projects/-x");
    write(&host.path("secret"), "{\"role\":\"user\",\"content\":\"secret\"}\n");
    std::fs::create_dir_all(&project).unwrap();
    symlink(host.path("secret"), project.join("abc-1.jsonl")).unwrap();
    assert!(transcript().stderr.contains("it is a link"), "{:?}", transcript());
    std::fs::remove_file(project.join("abc-1.jsonl")).unwrap();
    let lines = "{\"type\":\"user\",\"timestamp\":\"T1\",\"message\":{\"role\":\"user\",\"content\":\"a\\u001b]0;x\\u0007b\"}}\n\
                 not json\n{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"name\":\"Bash\",\"input\":{}}]}\n{\"hal";
    write(&project.join("abc-1.jsonl"), lines);
    let shown = transcript();
    assert_eq!(shown.stdout, "T1 user:\n  a\\u{1b}]0;x\\u{7}b\nassistant:\n  [Bash {}]\n");
    assert!(shown.stderr.contains("2 lines are not JSON"), "{}", shown.stderr);
    write(&project.join("memory/MEMORY.md"), "likes tea\u{1b}[2J\n");
    symlink(host.path("secret"), project.join("memory/stolen.md")).unwrap();
    let memory = host.done(&["sessions", "memory", "main"], b"");
    assert!(memory.contains("likes tea\\u{1b}[2J") && memory.contains("(not shown: it is a link"), "{memory}");
    assert!(!memory.contains("\"secret\""), "{memory}");
    let big = std::fs::OpenOptions::new().append(true).open(project.join("abc-1.jsonl")).unwrap();
    big.set_len(11_000_000).unwrap();
    let warnings = host.status()["warnings"].to_string();
    assert!(warnings.contains("has a transcript of 11 MB") && warnings.contains("hearth sessions reset"), "{warnings}");
}

#[test]
fn conversations_are_listed_behind_newer_sessions_of_their_folder() {
    let host = Host::with_echo();
    host.inject("m1", "hello");
    let folder = host.data().join("groups/main");
    std::fs::create_dir_all(&folder).unwrap();
    for _ in 0..2 {
        let mut new = host.command(&["workspace", "sessions", "new"]);
        assert!(new.current_dir(&folder).output().unwrap().status.success());
    }
    for arguments in [&["sessions", "list", "--limit", "1"][..], &["sessions", "list", "main", "--limit", "1"][..]] {
        let listed = json(&host, arguments);
        assert_eq!(listed["sessions"][0]["name"], "default", "{arguments:?}: {listed}");
    }
}
