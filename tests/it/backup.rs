//! Backup and restore with the real programs.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::host::{skipped, wait_for, with_chat};
use crate::world::directory;

#[expect(clippy::disallowed_methods, reason = "the programs under test are processes")]
fn program(path: &str) -> Command {
    let mut command = Command::new(path);
    command.env_remove("HEARTH_DATA").env_remove("HEARTH_LOG").env("XDG_RUNTIME_DIR", "/nonexistent");
    command
}

fn hearth(data: &Path, args: &[&str]) -> Command {
    let mut command = program(env!("CARGO_BIN_EXE_hearth"));
    command.arg("--data").arg(data).args(args);
    command
}

fn run(data: &Path, args: &[&str]) -> Output {
    hearth(data, args).output().unwrap()
}

fn fine(data: &Path, args: &[&str]) -> String {
    let output = run(data, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The error output of a failing command.
fn refused(data: &Path, args: &[&str]) -> String {
    let output = run(data, args);
    assert_eq!(output.status.code(), Some(1), "{args:?}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A data directory with one agent that listens to every message in one chat.
fn installation() -> (tempfile::TempDir, PathBuf) {
    let dir = directory();
    let config = dir.path().join("hearth.toml");
    std::fs::write(&config, with_chat("")).unwrap();
    let data = dir.path().join("data");
    fine(&data, &["apply", text(&config)]);
    (dir, data)
}

fn event(id: &str, said: &str) -> String {
    serde_json::json!({
        "channelType": "telegram", "platformId": "123", "threadId": null, "replyTo": null,
        "message": {"id": id, "kind": "chat", "timestamp": "2026-04-20T12:00:00Z", "isMention": false, "isGroup": false,
                    "content": {"text": said, "senderId": "7", "senderName": "Ann"}},
    })
    .to_string()
}

/// Sends events and returns the outcome of each.
fn inject(data: &Path, ids: &[String], said: &str) -> Vec<String> {
    let mut child = hearth(data, &["inject", "--json"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let lines: Vec<String> = ids.iter().map(|id| event(id, said) + "\n").collect();
    let feeding = std::thread::spawn(move || lines.iter().try_for_each(|line| input.write_all(line.as_bytes())));
    let output = BufReader::new(child.stdout.take().unwrap());
    let outcomes = output.lines().map(|line| outcome(&line.unwrap())).collect();
    feeding.join().unwrap().unwrap();
    assert!(child.wait().unwrap().success());
    outcomes
}

fn outcome(line: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(line).unwrap();
    value["outcome"].as_str().unwrap().to_owned()
}

struct Daemon(Child);

impl Daemon {
    fn start(data: &Path) -> Self {
        let daemon = Self(hearth(data, &["run", "--runtime", "process"]).env("HEARTH_LOG", "error").spawn().unwrap());
        wait_for("the daemon to start", || {
            let status: serde_json::Value = serde_json::from_str(&fine(data, &["status", "--json"])).unwrap();
            status["daemon"].is_object().then_some(())
        });
        daemon
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

fn backups(data: &Path) -> Vec<PathBuf> {
    names(&data.join("backups")).iter().map(|name| data.join("backups").join(name)).collect()
}

/// A disaster drill: every message that was accepted before the backup began is in it, although the daemon continues
/// and dies.
#[test]
fn what_was_accepted_before_a_hot_backup_is_in_it() {
    let (dir, data) = installation();
    let daemon = Daemon::start(&data);
    let before: Vec<String> = (0..200).map(|n| format!("before-{n}")).collect();
    assert!(inject(&data, &before, "hello").iter().all(|outcome| outcome == "routed"));
    let enough = Arc::new(AtomicBool::new(false));
    let feeding = {
        let (data, enough) = (data.clone(), Arc::clone(&enough));
        std::thread::spawn(move || {
            for round in 0.. {
                let ids: Vec<String> = (0..50).map(|n| format!("during-{round}-{n}")).collect();
                assert!(inject(&data, &ids, "meanwhile").iter().all(|outcome| outcome == "routed"));
                if enough.load(Ordering::SeqCst) {
                    return;
                }
            }
        })
    };
    let backup = || serde_json::from_str(&fine(&data, &["backup", "--json"])).unwrap();
    let made: serde_json::Value = backup();
    let meanwhile: Vec<serde_json::Value> = (0..5).map(|_| backup()).collect();
    enough.store(true, Ordering::SeqCst);
    feeding.join().unwrap();
    assert!(meanwhile.iter().any(|later| later["manifest"]["rows"] != made["manifest"]["rows"]), "{meanwhile:?}");
    daemon.kill();
    for (n, later) in meanwhile.iter().enumerate() {
        let target = dir.path().join(format!("later{n}"));
        fine(&data, &["restore", later["backup"].as_str().unwrap(), "--into", text(&target)]);
        assert!(fine(&target, &["check"]).contains("sound"));
    }
    let target = dir.path().join("other");
    let backup = made["backup"].as_str().unwrap();
    let restored: serde_json::Value =
        serde_json::from_str(&fine(&data, &["restore", backup, "--into", text(&target), "--json"])).unwrap();
    assert_eq!(restored["new_install"], true);
    assert_eq!(restored["rows"], made["manifest"]["rows"]);
    assert!(fine(&target, &["check"]).contains("sound"));
    let again = inject(&target, &before, "hello");
    assert!(again.iter().all(|outcome| outcome == "duplicate"), "each of them is known there: {again:?}");
    let _restarted = Daemon::start(&target);
    assert_eq!(inject(&target, &["new".to_owned()], "hello"), ["routed"]);
    assert!(fine(&data, &["check"]).contains("sound"), "and the store whose daemon was killed is sound, too");
}

#[test]
fn only_so_many_are_kept() {
    let (_dir, data) = installation();
    let mut made = Vec::new();
    for _ in 0..3 {
        let answer: serde_json::Value =
            serde_json::from_str(&fine(&data, &["backup", "--keep", "2", "--json"])).unwrap();
        made.push(PathBuf::from(answer["backup"].as_str().unwrap()));
    }
    assert_eq!(backups(&data), made[1..]);
    assert_eq!(run(&data, &["backup", "--keep", "0"]).status.code(), Some(2));
}

/// What a nightly `hearth backup --keep 2 PLACE` needs, from its first run on.
#[test]
fn a_place_is_a_backup_or_a_directory_of_them() {
    let (dir, data) = installation();
    let (dated, single) = (dir.path().join("dated"), dir.path().join("single"));
    for kept in [1, 2, 2] {
        fine(&data, &["backup", "--keep", "2", text(&dated)]);
        assert_eq!(names(&dated).len(), kept);
    }
    assert!(names(&dated).iter().all(|name| name.ends_with("Z.hearth")), "{:?}", names(&dated));
    let message = refused(&data, &["restore", text(&dated), "--into", text(&dir.path().join("new"))]);
    let newest = dated.join(&names(&dated)[1]);
    assert!(message.contains(&format!("choose one of them; the newest is {}", text(&newest))), "{message}");
    fine(&data, &["backup", text(&single)]);
    for keep in [&["--keep", "2"][..], &[]] {
        let message = refused(&data, &[&["backup", text(&single)], keep].concat());
        assert!(message.contains("single is itself a backup: specify the directory"), "{message}");
    }
    assert_eq!(names(&single), ["data.mdb", "manifest.json"]);
    let missing = dir.path().join("unmounted");
    for keep in [&["--keep", "2"][..], &[]] {
        let message = refused(&data, &[&["backup", text(&missing.join("hearth"))], keep].concat());
        assert!(message.contains(&format!("directory {} not found: create it", text(&missing))), "{message}");
    }
    assert!(!missing.exists() && !dir.path().join("new").exists());
}

/// Every file named like a backup can be restored, even after a `kill -9` in the middle of a backup.
#[test]
fn a_backup_that_is_killed_leaves_no_half_one() {
    let (dir, data) = installation();
    let ids: Vec<String> = (0..30).map(|n| n.to_string()).collect();
    inject(&data, &ids, &"x".repeat(100_000));
    for wait in [1, 3, 6, 10, 15, 25, 40] {
        let mut child = hearth(&data, &["backup"]).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(wait));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    fine(&data, &["backup"]);
    for (n, backup) in backups(&data).iter().enumerate() {
        assert!(!backup.file_name().unwrap().to_str().unwrap().starts_with('.'), "a leftover stays: {backup:?}");
        fine(&data, &["restore", text(backup), "--into", text(&dir.path().join(format!("to{n}")))]);
    }
}

/// The prefix of the next outgoing id, or the value it is derived from.
fn epoch(data: &Path) -> String {
    let rows = dump(data, &["--json", "--table", "meta"]).output().unwrap().stdout;
    let row: serde_json::Value = serde_json::from_slice(&rows).unwrap();
    row["value"]["epochs"].as_array().unwrap().last().unwrap()["random"].to_string()
}

/// At every moment the store is the old one or the restored one, and the restored one never repeats an id of the old
/// one.
#[test]
fn a_restore_that_is_killed_leaves_a_whole_store() {
    let (_dir, data) = installation();
    let ids: Vec<String> = (0..30).map(|n| n.to_string()).collect();
    inject(&data, &ids, &"x".repeat(100_000));
    fine(&data, &["backup"]);
    inject(&data, &["later".to_owned()], "x");
    let backup = backups(&data).remove(0);
    let before = epoch(&data);
    for wait in [2, 5, 10, 20, 30, 40, 50, 60, 70, 80] {
        for args in [&["restore", text(&backup), "--replace"][..], &["compact"][..]] {
            let mut child = hearth(&data, args).stdout(Stdio::null()).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(wait));
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(fine(&data, &["check"]).contains("sound"), "{args:?} after {wait} ms");
            let seen = dump(&data, &["--json", "--table", "seen"]).output().unwrap().stdout;
            let seen = seen.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
            assert!(seen == 30 || seen == 31, "{args:?} after {wait} ms: {seen}");
            assert_eq!(seen == 31, epoch(&data) == before, "{args:?} after {wait} ms");
        }
    }
    fine(&data, &["compact"]);
    assert!(!data.join("store.next").exists());
}

/// A small file system of its own, if this user may mount one.
struct Tiny(PathBuf);

impl Tiny {
    fn mount(at: &Path, bytes: u32) -> Option<Self> {
        std::fs::create_dir(at).unwrap();
        let size = format!("size={bytes}");
        let mounted = program("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs", text(at)]).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(at.to_owned()));
        }
        skipped("no tmpfs can be mounted here, so nothing is known of full disks");
        None
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        drop(program("umount").arg(&self.0).status());
    }
}

#[test]
fn a_full_disk_is_said_and_leaves_no_debris() {
    let (dir, data) = installation();
    let ids: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    inject(&data, &ids, &"x".repeat(100_000));
    let Some(tiny) = Tiny::mount(&dir.path().join("tiny"), 1 << 20) else { return };
    let message = refused(&data, &["backup", text(&tiny.0)]);
    assert!(message.contains("the disk has no space for"), "{message}");
    assert_eq!(names(&tiny.0), [""; 0]);
    let message = refused(&data, &["store", "export", text(&tiny.0.join("x.jsonl"))]);
    assert!(message.contains("No space left"), "{message}");
    assert_eq!(names(&tiny.0), [""; 0]);
    fine(&data, &["backup"]);
    let target = tiny.0.join("data");
    let backup = &backups(&data)[0];
    let message = refused(&data, &["restore", text(backup), "--into", text(&target)]);
    assert!(message.contains("the disk has no space for"), "{message}");
    assert!(names(&target.join("store")).is_empty() && !target.join("store.next").exists());
}

#[test]
fn what_is_no_backup_is_refused() {
    let (dir, data) = installation();
    let path = dir.path().to_owned();
    for (given, wanted) in
        [("hearth.toml", "is not a backup"), ("nothing", "backup not found"), ("", "is not a backup")]
    {
        let message = refused(&data, &["restore", text(&path.join(given)), "--into", text(&path.join("target"))]);
        assert!(message.contains(wanted), "{message}");
    }
    assert!(!path.join("target").exists(), "nothing is made for what is no backup");
    assert!(refused(&path.join("none"), &["backup"]).contains("there is no store"));
    assert!(refused(&path.join("none"), &["compact"]).contains("there is no store"));
    assert!(!path.join("none").exists());
    let daemon = Daemon::start(&data);
    fine(&data, &["backup"]);
    let backup = backups(&data).remove(0);
    assert!(refused(&data, &["restore", text(&backup), "--replace"]).contains("in use by process"));
    assert!(refused(&data, &["compact"]).contains("in use by process"));
    daemon.kill();
    assert!(refused(&data, &["restore", text(&backup)]).contains("use --replace"));
    fine(&data, &["restore", text(&backup), "--replace"]);
    assert!(names(&data).iter().any(|name| name.starts_with("store.old-")), "{:?}", names(&data));
    fine(&data, &["compact"]);
    assert!(fine(&data, &["check"]).contains("sound"));
}

#[test]
fn an_export_becomes_a_store_elsewhere() {
    let (dir, data) = installation();
    inject(&data, &["1".to_owned()], "héllo \u{1f525} \"quoted\"");
    let (file, other) = (dir.path().join("x.jsonl"), dir.path().join("other"));
    let _daemon = Daemon::start(&data);
    fine(&data, &["store", "export", text(&file)]);
    assert!(refused(&data, &["store", "export", text(&file)]).contains("already exists"));
    fine(&other, &["store", "import", text(&file), "--keep-id"]);
    let rows = |text: &str| -> Vec<String> {
        // An import begins an epoch: it changes the identity row and counters, and so the digest of all lines.
        let same =
            |line: &&str| !["meta", "counters"].iter().any(|table| line.contains(&format!("\"table\":\"{table}\"")));
        text.lines().filter(same).filter(|line| !line.starts_with("{\"end\"")).map(str::to_owned).collect()
    };
    assert_eq!(rows(&fine(&other, &["store", "export", "-"])), rows(&std::fs::read_to_string(&file).unwrap()));
    assert!(refused(&other, &["store", "import", text(&file)]).contains("already has a store"));
    assert!(fine(&other, &["check"]).contains("sound"));
}

fn dump(data: &Path, args: &[&str]) -> Command {
    let mut command = program(env!("CARGO_BIN_EXE_hearth-dump"));
    command.arg(data).args(args);
    command
}

/// A bit of one record flips on the disk.
#[test]
fn a_damaged_record_is_named_and_nothing_is_made_of_it() {
    let (dir, data) = installation();
    inject(&data, &["1".to_owned(), "2".to_owned()], "a text that can be found");
    let file = data.join("store/data.mdb");
    let mut bytes = std::fs::read(&file).unwrap();
    let wanted = b"a text that can be found";
    let places: Vec<usize> = (0..bytes.len() - wanted.len()).filter(|at| bytes[*at..].starts_with(wanted)).collect();
    assert!(!places.is_empty());
    places.into_iter().for_each(|at| bytes[at] ^= 0x20);
    std::fs::write(&file, bytes).unwrap();
    let shown = dump(&data, &[]).output().unwrap();
    assert_eq!(shown.status.code(), Some(1));
    let (out, err) = (String::from_utf8(shown.stdout).unwrap(), String::from_utf8(shown.stderr).unwrap());
    assert!(out.contains("!! the row mb1 of table bodies is damaged") && out.contains("# live"), "{out}");
    assert!(err.contains("rows cannot be read"), "{err}");
    assert_eq!(dump(&data, &["--check"]).output().unwrap().status.code(), Some(1));
    assert!(refused(&data, &["backup"]).contains("is inconsistent"));
    assert!(backups(&data).is_empty());
    assert!(refused(&data, &["compact"]).contains("is inconsistent"));
    assert!(refused(&data, &["store", "export", text(&dir.path().join("x"))]).contains("is damaged"));
    assert_eq!(names(dir.path()), ["data", "hearth.toml"]);
    fine(&data, &["backup", "--unsound"]);
    assert_eq!(backups(&data).len(), 1);
}

#[test]
fn changes_are_shown_until_somebody_has_seen_enough() {
    let (_dir, data) = installation();
    let _daemon = Daemon::start(&data);
    // The time of the daemon's first check is unknown: events are sent until it reports one.
    let follow = |args: &[&str]| {
        let mut child = dump(&data, args).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let told = AtomicBool::new(false);
        let line = std::thread::scope(|scope| {
            scope.spawn(|| {
                for id in (0..1_000).take_while(|_| !told.load(Ordering::SeqCst)) {
                    inject(&data, &[format!("{args:?} {id}")], "a secret");
                }
            });
            let mut line = String::new();
            let read = output.read_line(&mut line);
            told.store(true, Ordering::SeqCst);
            read.map(|_| line).unwrap()
        });
        (child, output, line)
    };
    let (mut child, output, line) = follow(&["--follow", "--json", "--table", "bodies"]);
    drop(output);
    let row: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!((row["change"].as_str(), row["table"].as_str()), (Some("added"), Some("bodies")), "{line}");
    assert!(!line.contains("secret"), "{line}");
    assert!(child.wait().unwrap().success(), "it ends when nobody reads its lines");
    let (mut child, mut output, _) = follow(&["--follow"]);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut output, &mut rest).unwrap();
    assert!(child.wait().unwrap().success(), "it ends well when it is interrupted");
}

const COMMANDED: &str = r#"
schema = 1
[[agents]]
folder = "main"
env = { KEY = "cmd:pass show key", FILE = "file:/etc/key", OTHER = "env:OTHER" }
[channels.telegram]
token = "file:/etc/token"
"#;

/// The store of another installation that reads files and runs commands is restored only with consent.
#[test]
fn references_of_a_foreign_store_need_consent() {
    let dir = directory();
    let (data, toml, lines) = (dir.path().join("data"), dir.path().join("hearth.toml"), dir.path().join("x.jsonl"));
    std::fs::write(&toml, COMMANDED).unwrap();
    let shown = fine(&data, &["apply", text(&toml)]);
    assert!(
        shown.contains("KEY=cmd:pass show key") && shown.contains("token: (default) -> file:/etc/token"),
        "{shown}"
    );
    let backup = dir.path().join("backup");
    fine(&data, &["backup", text(&backup)]);
    fine(&data, &["store", "export", text(&lines)]);
    let other = dir.path().join("other");
    let (restore, import) = (["restore", text(&backup)], ["store", "import", text(&lines)]);
    for args in [&restore[..], &import[..]] {
        for json in [&[][..], &["--json"]] {
            let said = refused(&other, &[args, json].concat());
            for part in [
                "channel telegram, token: file:/etc/token",
                "agent main, KEY: cmd:pass show key",
                "file:/etc/key",
                "--yes",
            ] {
                assert!(said.contains(part), "{part}: {said}");
            }
            assert!(!said.contains("OTHER"), "{said}");
            assert!(!other.join("store/data.mdb").exists());
        }
    }
    let done: serde_json::Value =
        serde_json::from_str(&fine(&other, &[&restore[..], &["--yes", "--json"]].concat())).unwrap();
    let first = serde_json::json!({ "place": "channel telegram, token", "reference": "file:/etc/token" });
    assert_eq!((done["references"].as_array().unwrap().len(), &done["references"][0]), (3, &first));
    fine(&dir.path().join("third"), &[&import[..], &["--yes"]].concat());
    // Restoring its own backup is shown, and needs no consent.
    let shown = run(&data, &["restore", text(&backup), "--replace"]);
    assert!(shown.status.success(), "{shown:?}");
    assert!(String::from_utf8_lossy(&shown.stderr).contains("cmd:pass show key"));
    assert!(
        refused(&other, &["restore", text(&backup), "--replace", "--into", text(&dir.path().join("new"))])
            .contains("--yes")
    );
}
