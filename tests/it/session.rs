//! Workspace sessions, through the program.

mod engine;
mod hard;
mod input;
mod taken;
mod together;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::host::{Ended, Host, Running, event};

/// A host and directories to work in.
pub(crate) struct Desk {
    pub(crate) host: Host,
    daemon: bool,
}

impl Desk {
    pub(crate) fn new() -> Self {
        Self { host: Host::new(), daemon: false }
    }

    pub(crate) fn with(host: Host) -> Self {
        Self { host, daemon: false }
    }

    /// The same with a daemon.
    pub(crate) fn served() -> Self {
        let mut host = Host::new();
        host.start();
        Self { host, daemon: true }
    }

    /// A directory with this name.
    pub(crate) fn dir(&self, name: &str) -> PathBuf {
        let dir = self.host.path("work").join(name);
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    /// Starts a session command in a directory.
    pub(crate) fn start(&self, dir: &Path, arguments: &[&str], input: &str) -> Running {
        let mut command = self.host.command(&["workspace", "sessions"]);
        command.args(arguments).current_dir(dir);
        Running::start(command, input.as_bytes())
    }

    pub(crate) fn run(&self, dir: &Path, arguments: &[&str], input: &str) -> Ended {
        self.start(dir, arguments, input).end()
    }

    /// The JSON output of a command, whatever it is, and its exit status.
    pub(crate) fn answer(&self, dir: &Path, arguments: &[&str]) -> (Value, i32) {
        let ended = self.run(dir, &[arguments, &["--json"]].concat(), "");
        // The notice that the store is in memory is no error.
        assert!(ended.stderr.lines().all(|line| line.starts_with("warning: ")), "{arguments:?}: {}", ended.stderr);
        (
            serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{arguments:?}: {ended:#?}")),
            ended.code.unwrap(),
        )
    }

    /// The answer of a command that succeeds.
    pub(crate) fn done(&self, dir: &Path, arguments: &[&str]) -> Value {
        let (answer, code) = self.answer(dir, arguments);
        assert_eq!((code, &answer["status"]), (0, &json!("ok")), "{arguments:?}: {answer}");
        answer
    }

    /// The error of a failing command, with all fields that an error must have.
    pub(crate) fn refused(&self, dir: &Path, arguments: &[&str]) -> Value {
        let (error, code) = self.answer(dir, arguments);
        for field in ["kind", "error_kind", "action", "error", "hint"] {
            assert!(error[field].is_string(), "{arguments:?}: {field} in {error}");
        }
        assert_eq!((&error["status"], &error["kind"]), (&json!("error"), &error["error_kind"]), "{arguments:?}");
        assert_eq!(error["exit_code"], json!(code), "{arguments:?}");
        assert!(code == 1 || code == 2, "{arguments:?}: {code}");
        let text = self.run(dir, arguments, "");
        assert_eq!((text.code, text.stdout.as_str()), (Some(code), ""), "{arguments:?}: {text:?}");
        assert!(text.stderr.contains(error["error"].as_str().unwrap().lines().next().unwrap()), "{text:?}");
        error
    }

    fn kind(&self, dir: &Path, arguments: &[&str]) -> String {
        self.refused(dir, arguments)["kind"].as_str().unwrap().to_owned()
    }

    /// Creates a session with a message and returns its id.
    pub(crate) fn begun(&self, dir: &Path, id: &str) -> String {
        self.done(dir, &["new", "--id", id, "hello"])["session_id"].as_str().unwrap().to_owned()
    }

    pub(crate) fn ids(&self, dir: &Path) -> Vec<String> {
        let listed = self.done(dir, &["list"]);
        listed["sessions"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect()
    }

    fn latest(&self, dir: &Path) -> Value {
        self.done(dir, &["latest"])["session"]["id"].clone()
    }

    /// The texts of a session, in order.
    pub(crate) fn texts(&self, dir: &Path, arguments: &[&str]) -> Vec<String> {
        let shown = self.done(dir, &[&["show"], arguments].concat());
        let text = |record: &Value| record["text"].as_str().unwrap_or("-").to_owned();
        shown["records"].as_array().unwrap().iter().map(text).collect()
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            if self.daemon {
                self.host.stop();
            }
            if self.host.data().join("store").exists() {
                self.host.check();
            }
        }
    }
}

#[test]
fn a_session_lives_with_and_without_a_daemon() {
    for desk in [Desk::new(), Desk::served()] {
        let dir = &desk.dir("p");
        let made = desk.done(dir, &["new", "--title", "Review", "--model", "m"]);
        let first = made["session_id"].as_str().unwrap().to_owned();
        let parts: Vec<&str> = first.split('-').collect();
        assert!(parts.len() == 3 && parts[0] == "session" && parts[1].parse::<i64>().is_ok(), "{first}");
        assert_eq!(desk.kind(dir, &["latest"]), "all_sessions_empty");
        desk.done(dir, &["append", &first, "one"]);
        desk.done(dir, &["append", &format!("{first}.jsonl"), "two", "--role", "assistant", "--ends-turn"]);
        assert_eq!(desk.texts(dir, &["LATEST"]), ["one", "two"]);
        let fork = desk.done(dir, &["fork", "last", "--branch", "  bugfix ", "--id", "f"]);
        assert_eq!((&fork["session_id"], &fork["message_count"]), (&json!("f"), &json!(2)));
        desk.done(dir, &["append", "f", "three"]);
        assert_eq!(desk.texts(dir, &["f"]), ["one", "two", "three"]);
        assert_eq!(desk.texts(dir, &[&first]), ["one", "two"], "the parent is as it was");
        assert_eq!(desk.ids(dir), ["f".to_owned(), first.clone()]);
        let shown = &desk.done(dir, &["show", "f"])["session"];
        assert_eq!((&shown["parent_session_id"], &shown["branch_name"]), (&json!(first), &json!("bugfix")));
        assert_eq!((&shown["title"], &shown["model"]), (&json!("Review"), &json!("m")));
        desk.done(dir, &["switch", &first]);
        assert_eq!(desk.done(dir, &["resume"])["session_id"], json!(first));
        assert_eq!(desk.done(dir, &["resume", "latest"])["session_id"], "f");
        assert_eq!(desk.done(dir, &["latest", "--exclude", "f"])["session"]["id"], json!(first));
        desk.done(dir, &["rename", "f", "Another"]);
        assert_eq!(desk.latest(dir), "f", "a title changes no order");
        desk.done(dir, &["rename", "f", "--clear"]);
        let cleared = desk.done(dir, &["clear", "f", "--confirm"]);
        assert_eq!((&cleared["removed"], &cleared["revision"]), (&json!(3), &json!(1)));
        assert_eq!(desk.done(dir, &["clear", "f", "--confirm"])["changed"], false);
        assert_eq!(desk.texts(dir, &["f"]), [""; 0]);
        assert_eq!(desk.texts(dir, &["f", "--revision", "0"]), ["one", "two", "three"]);
        assert_eq!(desk.kind(dir, &["show", "f", "--revision", "7"]), "no_such_revision");
        desk.done(dir, &["purge", &first, "--force"]);
        assert_eq!(desk.texts(dir, &["f", "--revision", "0"]), ["one", "two", "three"], "it has its own copy now");
        desk.done(dir, &["delete", "f", "--force"]);
        assert_eq!(desk.kind(dir, &["show", "f"]), "session_not_found");
        assert_eq!(desk.done(dir, &["list", "--trash"])["sessions"], json!(["f"]));
        desk.done(dir, &["restore", "f"]);
        assert_eq!(desk.ids(dir), ["f"]);
        assert_eq!(desk.kind(dir, &["restore", "f"]), "session_not_in_trash");
        desk.done(dir, &["delete", "f", "--force"]);
        desk.done(dir, &["purge", "f", "--force"]);
        assert_eq!(desk.done(dir, &["list", "--trash"])["sessions"], json!([]));
        for table in
            ["sessions", "records", "revisions", "recency", "spoken", "session_labels", "trash", "sessions_by_base"]
        {
            assert_eq!(desk.host.rows(table), Vec::<Value>::new(), "{table}");
        }
    }
}

#[test]
fn the_old_name_of_the_command_does_the_same() {
    let desk = Desk::served();
    let dir = desk.dir("a");
    desk.done(&dir, &["new", "--id", "s"]);
    let list = |command: &[&str]| {
        let mut command = desk.host.command(command);
        command.args(["list", "--json", "-C"]).arg(&dir);
        Running::start(command, b"").end().stdout
    };
    for command in [&["workspace", "sessions"][..], &["workspace", "session"], &["session"]] {
        let listed = list(command);
        assert!(listed.contains("\"sessions\":[\"s\"]"), "{command:?}: {listed}");
    }
    let help = desk.host.done(&["--help"], b"");
    assert!(help.contains("\n  sessions ") && !help.contains("\n  session "), "{help}");
}

#[test]
fn compacting_reports_what_it_did() {
    let desk = Desk::new();
    let dir = &desk.dir("p");
    desk.begun(dir, "s");
    for (number, role) in ["assistant", "user", "tool", "assistant", "user", "assistant"].into_iter().enumerate() {
        desk.done(dir, &["append", "s", "--role", role, &format!("m{number}")]);
    }
    let none = desk.done(dir, &["compact", "s", "--keep", "9"]);
    assert_eq!((&none["changed"], &none["removed"], &none["revision"]), (&json!(false), &json!(0), &json!(0)));
    let done = desk.done(dir, &["compact", "s", "--keep", "3", "--summary", "They met."]);
    assert_eq!((&done["removed"], &done["message_count"]), (&json!(2), &json!(5)), "a tool's result keeps its call");
    assert_eq!(desk.texts(dir, &["s"]), ["m1", "m2", "m3", "m4", "m5"]);
    assert_eq!(desk.texts(dir, &["s", "--revision", "0"]).len(), 7);
    let shown = &desk.done(dir, &["show", "s"])["session"]["compaction"];
    assert_eq!(*shown, json!({ "count": 1, "removed_message_count": 2, "summary": "They met." }));
}

/// A directory tree with sizes and times.
fn tree(root: &Path) -> Vec<String> {
    let mut all = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let entry = entry.unwrap();
            let about = entry.metadata().unwrap();
            all.push(format!("{} {} {:?}", entry.path().display(), about.len(), about.modified().unwrap()));
            if about.is_dir() {
                open.push(entry.path());
            }
        }
    }
    all.sort();
    all
}

#[test]
fn a_failed_command_makes_nothing() {
    let desk = Desk::with(Host::before_the_first_start());
    let dir = &desk.dir("p");
    std::fs::create_dir(dir.join("src")).unwrap();
    let before = tree(&desk.host.path(""));
    for (arguments, kind, code) in [
        (vec!["resume"], "no_managed_sessions", 1),
        (vec!["resume", "latest"], "no_managed_sessions", 1),
        (vec!["resume", "latest", "--any-workspace"], "no_managed_sessions", 1),
        (vec!["resume", "nope"], "session_not_found", 1),
        (vec!["latest"], "no_managed_sessions", 1),
        (vec!["show", "src"], "session_not_found", 1),
        (vec!["show", "./src"], "session_not_found", 1),
        (vec!["load", "/etc/passwd"], "session_not_found", 1),
        (vec!["append", "nope", "x"], "session_not_found", 1),
        (vec!["append", "nope", "x", "--role", "boss"], "invalid_role", 2),
        (vec!["new", "--id", "latest"], "invalid_id", 1),
        (vec!["new", "--id", "../x"], "invalid_id", 1),
        (vec!["new", "--id", "se7"], "invalid_id", 1),
        (vec!["new", "--title", " "], "invalid_title", 1),
        (vec!["fork", "nope"], "session_not_found", 1),
        (vec!["fork"], "no_managed_sessions", 1),
        (vec!["switch", "nope"], "session_not_found", 1),
        (vec!["rename", "nope", "x"], "session_not_found", 1),
        (vec!["delete", "nope", "--force"], "session_not_found", 1),
        (vec!["delete", "latest", "--force"], "alias_refused", 2),
        (vec!["purge", "nope", "--force"], "session_not_found", 1),
        (vec!["restore", "nope"], "session_not_found", 1),
        (vec!["clear", "nope", "--confirm"], "session_not_found", 1),
        (vec!["compact", "nope"], "session_not_found", 1),
        (vec!["history"], "no_managed_sessions", 1),
        (vec!["lease", "nope", "--take", "1"], "session_not_found", 1),
        (vec!["list", "-C", "gone"], "invalid_cwd", 1),
    ] {
        let error = desk.refused(dir, &arguments);
        assert_eq!((&error["kind"], &error["exit_code"]), (&json!(kind), &json!(code)), "{arguments:?}");
        let named = ["invalid_role", "invalid_id", "invalid_title", "invalid_cwd"].contains(&kind);
        if !named {
            assert_eq!(error["workspace_root"], json!(dir.canonicalize().unwrap()), "{arguments:?}");
            assert_eq!(error["fingerprint"].as_str().unwrap().len(), 16);
            assert_eq!(error["other_partitions"], json!(0));
        }
        if kind == "session_not_found" {
            let file = arguments[1].contains('/');
            assert_eq!(error["branch"], if file { "file" } else { "id" }, "{arguments:?}");
        }
    }
    assert_eq!(desk.done(dir, &["list"])["sessions"], json!([]));
    assert_eq!(desk.done(dir, &["exists", "nope"])["exists"], false);
    let home = desk.host.path("");
    assert_eq!(desk.refused(&home, &["list"])["kind"], "broad_cwd");
    assert_eq!(desk.refused(Path::new("/"), &["new"])["kind"], "broad_cwd");
    assert_eq!(tree(&desk.host.path("")), before);
}

#[test]
fn other_directories_are_not_seen_unless_asked_for() {
    let desk = Desk::new();
    let (here, others) = (&desk.dir("here"), ["a", "b", "c"].map(|name| desk.dir(name)));
    for (dir, id) in others.iter().zip(["one", "two", "three"]) {
        desk.begun(dir, id);
    }
    let error = desk.refused(here, &["resume", "latest"]);
    assert_eq!((&error["kind"], &error["other_partitions"]), (&json!("no_managed_sessions"), &json!(3)));
    assert_eq!(desk.kind(here, &["show", "two"]), "session_not_found");
    assert_eq!(desk.kind(here, &["delete", "two", "--force"]), "session_not_found");
    let key = desk.done(&others[0], &["show", "one"])["session"]["key"].as_str().unwrap().to_owned();
    let error = desk.refused(here, &["delete", &key, "--force"]);
    assert_eq!(error["kind"], "workspace_mismatch");
    assert_eq!(error["expected_workspace_root"], json!(here.canonicalize().unwrap()));
    assert_eq!(error["actual_workspace_root"], json!(others[0].canonicalize().unwrap()));
    assert_eq!(desk.ids(here), [""; 0]);
    let foreign = desk.done(&others[2], &["show", "three"]);
    let resumed = desk.done(here, &["resume", "--any-workspace"]);
    assert_eq!(resumed["forked_from"], "three");
    let fork = resumed["session_id"].as_str().unwrap();
    desk.done(here, &["append", fork, "from here"]);
    assert_eq!(desk.texts(here, &[fork]), ["hello", "from here"]);
    let after = desk.done(&others[2], &["show", "three"]);
    assert_eq!(
        (&after["records"], &after["session"]["updated"]),
        (&foreign["records"], &foreign["session"]["updated"])
    );
    let details = &desk.done(here, &["list"])["session_details"][0];
    assert_eq!(details["parent_session_id"], "three");
    assert_eq!(details["parent_workspace"], foreign["workspace"]["fingerprint"]);
    let happened: Vec<Value> = desk.host.rows("workspace_events");
    let facts = happened.iter().map(|row| row["value"]["what"].to_string()).collect::<String>();
    assert!(facts.contains("HandedOver") && facts.contains("TakenOver"), "{facts}");
    desk.begun(&others[0], "twin");
    desk.begun(&others[1], "twin");
    let error = desk.refused(here, &["fork", "twin", "--any-workspace"]);
    assert_eq!((&error["kind"], error["candidates"].as_array().unwrap().len()), (&json!("session_ambiguous"), 2));
}

#[test]
fn what_goes_is_named_exactly_and_asked_for() {
    let desk = Desk::new();
    let dir = &desk.dir("p");
    let canary = dir.join("README");
    std::fs::write(&canary, "x").unwrap();
    desk.begun(dir, "s");
    let absolute = canary.to_str().unwrap();
    for (reference, kind) in [
        ("README", "session_not_found"),
        ("./README", "session_not_found"),
        (absolute, "session_not_found"),
        ("../p/README", "session_not_found"),
        ("", "session_not_found"),
        (".", "session_not_found"),
        ("latest", "alias_refused"),
        ("LAST", "alias_refused"),
        ("gone", "session_not_found"),
    ] {
        for verb in ["delete", "purge"] {
            assert_eq!(desk.kind(dir, &[verb, reference, "--force"]), kind, "{verb} {reference:?}");
        }
    }
    for arguments in [vec!["delete", "s"], vec!["purge", "s"], vec!["clear", "s"]] {
        let error = desk.refused(dir, &arguments);
        assert_eq!((&error["kind"], &error["exit_code"]), (&json!("confirmation_required"), &json!(2)));
        assert!(error["hint"].as_str().unwrap().contains(&format!("hearth workspace sessions {} s --", arguments[0])));
    }
    desk.done(dir, &["lease", "s", "--take", &std::process::id().to_string()]);
    let error = desk.refused(dir, &["delete", "s", "--force"]);
    assert_eq!((&error["kind"], &error["pid"]), (&json!("active_session_protected"), &json!(std::process::id())));
    assert_eq!(desk.kind(dir, &["purge", "s", "--force"]), "active_session_protected");
    assert!(canary.exists());
    assert_eq!(desk.ids(dir), ["s"]);
}

#[test]
fn writers_that_know_too_little_are_refused() {
    let desk = Desk::new();
    let dir = &desk.dir("p");
    desk.begun(dir, "s");
    let error = desk.refused(dir, &["append", "s", "x", "--expect", "0"]);
    assert_eq!((&error["kind"], &error["retry_safe"]), (&json!("concurrent_modification"), &json!(true)));
    assert_eq!((&error["expected"], &error["found"]), (&json!(0), &json!(1)));
    desk.done(dir, &["append", "s", "x", "--expect", "1"]);
    let epoch = |answer: &Value| answer["epoch"].as_u64().unwrap();
    let own = std::process::id().to_string();
    let first = epoch(&desk.done(dir, &["lease", "s", "--take", &own]));
    assert_eq!(epoch(&desk.done(dir, &["lease", "s", "--take", &own])), first, "it has it already");
    let error = desk.refused(dir, &["append", "s", "y"]);
    assert_eq!((&error["kind"], &error["pid"]), (&json!("concurrent_modification"), &json!(std::process::id())));
    desk.done(dir, &["append", "s", "y", "--lease", &first.to_string()]);
    desk.done(dir, &["lease", "s", "--beat", &first.to_string()]);
    desk.done(dir, &["lease", "s", "--release", &first.to_string()]);
    let error = desk.refused(dir, &["append", "s", "z", "--lease", &first.to_string()]);
    assert_eq!((&error["kind"], &error["retry_safe"]), (&json!("concurrent_modification"), &json!(false)));
    assert_eq!(desk.kind(dir, &["lease", "s", "--take", "4194999"]), "no_such_process");
    let ended = desk.run(dir, &["append", "s", "--lines", "--json"], "{\"type\":\"prompt_history\",\"text\":\"p\"}\n{");
    let error: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&error["kind"], &error["line"]), (&json!("invalid_record"), &json!(2)));
    assert_eq!(desk.texts(dir, &["s"]), ["hello", "x", "y"], "all of the lines, or none");
    desk.run(dir, &["append", "s", "--lines"], "{\"type\":\"prompt_history\",\"text\":\"p\"}\n{\"type\":\"note\"}\n");
    let history = desk.done(dir, &["history", "s"]);
    assert_eq!((&history["total"], &history["entries"][0]["text"]), (&json!(1), &json!("p")));
}

/// Only the newest 5,000 records are searched, and the output says so if there are more.
#[test]
fn a_history_says_that_it_is_not_of_the_whole_session() {
    let desk = Desk::new();
    let dir = &desk.dir("p");
    desk.begun(dir, "s");
    let append = |lines: &str| {
        let ended = desk.run(dir, &["append", "s", "--lines"], lines);
        assert_eq!(ended.code, Some(0), "{ended:?}");
    };
    let seen = || {
        let history = desk.done(dir, &["history", "s"]);
        let texts: Vec<Value> = history["entries"].as_array().unwrap().iter().map(|one| one["text"].clone()).collect();
        let told = desk.run(dir, &["history", "s"], "").stderr.contains("has older records");
        assert_eq!(history["cut"], json!(told), "people are told the same");
        (history["total"].as_u64().unwrap(), told, texts)
    };
    let note = "{\"type\":\"note\"}\n";
    append("{\"type\":\"prompt_history\",\"text\":\"early\"}\n");
    for _ in 0..6 {
        append(&note.repeat(833));
    }
    assert_eq!(seen(), (1, false, vec![json!("early")]), "5,000 records");
    append("{\"type\":\"prompt_history\",\"text\":\"late\"}\n");
    assert_eq!(seen(), (2, true, vec![json!("early"), json!("late")]), "what people said is out of sight");
    append(note);
    assert_eq!(seen(), (1, true, vec![json!("late")]), "so is what was typed first");
}

#[test]
fn a_session_says_who_works_on_it_and_how_it_was_left() {
    let desk = Desk::new();
    let dir = &desk.dir("p");
    let git = |arguments: &[&str]| {
        let mut command = desk.host.bare("git");
        command.arg("-C").arg(dir).args(arguments);
        assert_eq!(Running::start(command, b"").end().code, Some(0), "{arguments:?}");
    };
    git(&["init", "-q"]);
    desk.begun(dir, "s");
    let seen = |id: &str| {
        let life = desk.done(dir, &["show", id])["session"]["lifecycle"].clone();
        (
            life["state"].clone(),
            life["abandoned_reason"].clone(),
            life["kind"].clone(),
            life["dirty_file_count"].clone(),
        )
    };
    let shape = |state: &str, reason: Option<&str>, kind: &str, dirty: u64| {
        (json!(state), json!(reason), json!(kind), json!(dirty))
    };
    assert_eq!(seen("s"), shape("saved", None, "saved_only", 0));
    let sleeper = Running::start_open({
        let mut command = desk.host.bare("sleep");
        command.arg("600");
        command
    });
    let pid = sleeper.pid().as_raw_nonzero().to_string();
    desk.done(dir, &["resume", "s", "--pid", &pid]);
    assert_eq!(seen("s"), shape("active", None, "running_process", 0));
    drop(sleeper);
    assert_eq!(seen("s"), shape("orphaned", Some("process_killed"), "saved_only", 0));
    std::fs::write(dir.join("file"), "x").unwrap();
    assert_eq!(seen("s"), shape("abandoned", Some("process_killed"), "saved_only", 1));
    desk.done(dir, &["append", "s", "a dead holder is in nobody's way"]);
    desk.done(dir, &["lease", "s", "--take", &std::process::id().to_string()]);
    assert_eq!(seen("s"), shape("active", None, "running_process", 1));
    desk.done(dir, &["lease", "s", "--release", "2"]);
    assert_eq!(seen("s"), shape("abandoned", Some("turn_unfinished"), "saved_only", 1));
    desk.done(dir, &["append", "s", "--role", "assistant", "done"]);
    assert_eq!(seen("s"), shape("saved", None, "saved_only", 1));
    desk.done(dir, &["new", "--id", "e"]);
    assert_eq!(seen("e"), shape("empty", None, "saved_only", 1));
    let listed = desk.run(dir, &["list"], "").stdout;
    assert!(listed.contains("saved · dirty directory") && listed.contains("empty"), "{listed}");
}

#[test]
fn conversations_of_an_agent_are_seen_in_its_folder() {
    let desk = Desk::with(Host::with_agent("provider = \"echo\""));
    desk.host.inject("1", "hi there");
    let dir = desk.host.data().join("groups/main");
    std::fs::create_dir_all(&dir).unwrap();
    let chat = desk.ids(&dir)[0].clone();
    assert_eq!(desk.texts(&dir, &[&chat]), ["hi there"]);
    assert_eq!(desk.latest(&dir), json!(chat));
    assert_eq!(desk.kind(&dir, &["append", &chat, "x"]), "session_of_agent");
    assert_eq!(desk.kind(&dir, &["delete", &chat, "--force"]), "session_of_agent");
    let fork = desk.done(&dir, &["fork", &chat, "--id", "f"]);
    assert_eq!((&fork["message_count"], &fork["left_out"]), (&json!(1), &json!(0)));
    desk.done(&dir, &["append", "f", "and more"]);
    assert_eq!(desk.texts(&dir, &["f"]), ["hi there", "and more"]);
    assert_eq!(desk.ids(&dir).len(), 2);
    desk.host.run(&["inject", "--json"], event("2", "again").to_string().as_bytes());
    assert_eq!(desk.texts(&dir, &[&chat]), ["hi there", "again"]);
}

#[test]
fn every_id_that_is_listed_is_found() {
    let desk = Desk::served();
    let dir = &desk.dir("p");
    for id in ["a.b", "A", "a", "0", "x_y-z", "session-1-0", "se", "se07", "json", "a.jsonlx"] {
        desk.begun(dir, id);
        desk.done(dir, &["fork", id]);
    }
    let all = desk.ids(dir);
    assert_eq!(all.len(), 20);
    for id in all {
        let found = desk.done(dir, &["exists", &id]);
        assert_eq!((&found["exists"], &found["session_id"]), (&json!(true), &json!(id)));
    }
}

/// A question and its answer, as lines.
pub(crate) fn turn(number: usize) -> String {
    let line = |role: &str| json!({"type": "message", "message": {"role": role, "blocks": [{"type": "text", "text": format!("{number} {role}")}]}});
    format!("{}\n{}\n", line("user"), line("assistant"))
}
