//! Failures around sessions: colliding names, unusable stores, a killed daemon, wrong usage.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Desk, tree, turn};
use crate::host::disk::{Disk, Filler};
use crate::host::{Running, event};

/// Directories directly below /tmp with equal fingerprints; removed if the test created them.
struct Twins {
    roots: [PathBuf; 2],
    made: Vec<PathBuf>,
}

impl Twins {
    fn new() -> Self {
        let roots = ["Vnb7xSUH4Co", "P3OSLN0KT3d"].map(|name| Path::new("/tmp").join(name));
        let made = roots.iter().filter(|root| !root.exists()).cloned().collect();
        Self { roots, made }
    }

    fn below(&self, below: &str) -> [PathBuf; 2] {
        [&self.roots[0], &self.roots[1]].map(|root| {
            let dir = root.join(below);
            std::fs::create_dir_all(&dir).unwrap();
            dir
        })
    }
}

impl Drop for Twins {
    fn drop(&mut self) {
        for root in &self.made {
            std::fs::remove_dir_all(root).ok();
        }
    }
}

#[test]
fn directories_with_one_fingerprint_share_no_session() {
    let twins = Twins::new();
    for desk in [Desk::new(), Desk::served()] {
        for (below, fingerprint) in [("", "ca380e5759713147"), ("sub/dir", "5e576fc4220c0d1e")] {
            let [a, b] = &twins.below(below);
            let named = |dir: &Path| desk.done(dir, &["list"])["workspace"]["fingerprint"].clone();
            desk.done(a, &["new", "--id", "same", "said in a"]);
            assert_eq!(desk.refused(b, &["latest"])["kind"], "no_managed_sessions");
            desk.done(b, &["new", "--id", "same", "said in b"]);
            desk.done(a, &["new", "--id", "only-a", "x"]);
            assert_eq!([named(a), named(b)], [json!(fingerprint), json!(format!("{fingerprint}~1"))]);
            assert_eq!(
                (desk.ids(a), desk.ids(b)),
                (vec!["only-a".to_owned(), "same".to_owned()], vec!["same".to_owned()])
            );
            assert_eq!((desk.latest(a), desk.latest(b)), (json!("only-a"), json!("same")));
            assert_eq!(desk.done(b, &["exists", "only-a"])["exists"], false);
            for verb in ["show", "load", "export", "fork", "resume", "switch"] {
                assert_eq!(desk.refused(b, &[verb, "only-a"])["kind"], "session_not_found", "{verb}");
            }
            assert_eq!(desk.refused(b, &["delete", "only-a", "--force"])["kind"], "session_not_found");
            let key = desk.done(a, &["show", "only-a"])["session"]["key"].as_str().unwrap().to_owned();
            let error = desk.refused(b, &["purge", &key, "--force"]);
            assert_eq!(error["kind"], "workspace_mismatch");
            assert_eq!([&error["expected_fingerprint"], &error["actual_fingerprint"]], [&named(b), &named(a)]);
            assert_eq!(desk.texts(a, &["same"]), ["said in a"]);
            assert!(desk.run(b, &["export", "same"], "").stdout.contains("said in b"));
            let fork = desk.done(b, &["fork", "same", "--id", "fork"]);
            assert_eq!(fork["workspace"]["fingerprint"], named(b));
            assert_eq!(desk.texts(b, &["fork"]), ["said in b"]);
            desk.done(b, &["delete", "same", "--force"]);
            assert_eq!((desk.ids(a).len(), desk.ids(b)), (2, vec!["fork".to_owned()]));
            assert_eq!(desk.done(a, &["list", "--trash"])["sessions"], json!([]));
            desk.done(b, &["purge", "same", "--force"]);
            assert_eq!(desk.texts(a, &["same"]), ["said in a"]);
        }
    }
}

#[test]
fn a_store_that_cannot_be_written_can_be_read() {
    let desk = Desk::new();
    let Some(disk) = Disk::mount(desk.host.data()) else { return };
    let dir = &desk.dir("p");
    disk.remount("ro");
    assert_eq!(desk.done(dir, &["list"])["sessions"], json!([]));
    assert_eq!(desk.refused(dir, &["new", "--id", "s"])["kind"], "store_failed");
    disk.remount("rw");
    desk.host.create_store();
    desk.begun(dir, "s");
    disk.remount("ro");
    let before = tree(&desk.host.data());
    assert_eq!(desk.ids(dir), ["s"]);
    assert_eq!(desk.texts(dir, &["s"]), ["hello"]);
    for arguments in [
        vec!["new"],
        vec!["append", "s", "x"],
        vec!["fork", "s"],
        vec!["clear", "s", "--confirm"],
        vec!["delete", "s", "--force"],
        vec!["purge", "s", "--force"],
    ] {
        let error = desk.refused(dir, &arguments);
        assert_eq!(error["kind"], "store_failed", "{arguments:?}");
        assert!(error["error"].as_str().unwrap().contains("Read-only file system"), "{error}");
    }
    assert_eq!(tree(&desk.host.data()), before);
    disk.remount("rw");
    desk.done(dir, &["append", "s", "x"]);
    desk.host.check();
    drop(disk);
}

#[test]
fn a_full_disk_refuses_what_is_new_and_lets_go() {
    let desk = Desk::new();
    let Some(disk) = Disk::mount(desk.host.data()) else { return };
    desk.host.create_store();
    let dir = &desk.dir("p");
    desk.begun(dir, "s");
    desk.begun(dir, "t");
    let filler = Filler::fill(&desk.host.data());
    for arguments in [vec!["new", "x"], vec!["append", "s", "x"], vec!["fork", "s"]] {
        let error = desk.refused(dir, &arguments);
        assert_eq!((&error["kind"], &error["exit_code"]), (&json!("store_full"), &json!(1)), "{arguments:?}: {error}");
    }
    assert_eq!(desk.texts(dir, &["s"]), ["hello"]);
    desk.done(dir, &["delete", "t", "--force"]);
    desk.done(dir, &["purge", "t", "--force"]);
    filler.make_room();
    desk.done(dir, &["append", "s", "x"]);
    assert_eq!(
        (desk.ids(dir), desk.texts(dir, &["s"])),
        (vec!["s".to_owned()], vec!["hello".to_owned(), "x".to_owned()])
    );
    desk.host.check();
    drop(disk);
}

#[test]
fn a_store_that_is_none_is_told_and_left_as_it_is() {
    let desk = Desk::new();
    let dir = &desk.dir("p");
    desk.begun(dir, "s");
    let file = desk.host.data().join("store/data.mdb");
    let good = std::fs::read(&file).unwrap();
    std::fs::write(&file, vec![7; good.len()]).unwrap();
    for arguments in
        [vec!["list"], vec!["latest"], vec!["new"], vec!["append", "s", "x"], vec!["delete", "s", "--force"]]
    {
        assert_eq!(desk.refused(dir, &arguments)["kind"], "store_damaged", "{arguments:?}");
    }
    for arguments in [["status"], ["list"], ["adopt"]] {
        let mut command = desk.host.command(&["workspace", "--json"]);
        command.args(arguments).current_dir(dir);
        let ended = Running::start(command, b"").end();
        let error: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!((&error["kind"], &error["action"]), (&json!("store_damaged"), &json!(arguments[0])), "{error}");
        assert_eq!((ended.code, ended.stderr.as_str(), &error["exit_code"]), (Some(1), "", &json!(1)));
    }
    assert!(std::fs::read(&file).unwrap().iter().all(|byte| *byte == 7));
    std::fs::write(&file, good).unwrap();
    assert_eq!(desk.ids(dir), ["s"]);
}

#[test]
fn programs_hear_of_wrong_usage_where_they_listen() {
    let desk = Desk::with(crate::host::Host::before_the_first_start());
    let dir = &desk.dir("p");
    for arguments in [
        &["session", "list", "--nonsense"][..],
        &["session", "frob"],
        &["session", "append"],
        &["session", "list", "--limit", "x"],
        &["session", "lease", "s"],
        &["session", "history", "-n", "0"],
        &["session"],
        &["workspace", "adopt", "--force"],
        &["import", "claw"],
    ] {
        let mut command = desk.host.command(arguments);
        command.arg("--json").current_dir(dir);
        let ended = Running::start(command, b"").end();
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(2), ""), "{arguments:?}: {ended:#?}");
        let error: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!((&error["kind"], &error["error_kind"]), (&json!("invalid_usage"), &json!("invalid_usage")));
        assert_eq!((&error["status"], &error["exit_code"]), (&json!("error"), &json!(2)));
        assert!(error["error"].as_str().is_some_and(|text| !text.is_empty() && !text.starts_with("error")), "{error}");
        let mut command = desk.host.command(arguments);
        command.current_dir(dir);
        let text = Running::start(command, b"").end();
        assert!(text.code == Some(2) && text.stdout.is_empty() && !text.stderr.is_empty(), "{text:#?}");
    }
    let elsewhere = desk.host.run(&["status", "--nonsense", "--json"], b"");
    assert!(elsewhere.stdout.is_empty() && elsewhere.stderr.contains("--nonsense"), "{elsewhere:#?}");
    assert!(!desk.host.data().exists());
}

#[test]
fn names_are_one_line_and_not_too_long() {
    let desk = Desk::new();
    let dir = &desk.dir("p");
    desk.begun(dir, "s");
    let long = "x".repeat(201);
    for name in ["a\nb", "\u{1b}[31m", &long] {
        assert_eq!(desk.refused(dir, &["fork", "s", "--branch", name])["kind"], "invalid_name", "{name:?}");
        assert_eq!(desk.refused(dir, &["new", "--model", name])["kind"], "invalid_name", "{name:?}");
        assert_eq!(desk.refused(dir, &["rename", "s", name])["kind"], "invalid_title", "{name:?}");
    }
    let other = &desk.dir("other");
    let key = desk.done(dir, &["show", "s"])["session"]["key"].as_str().unwrap().to_owned();
    assert_eq!(desk.refused(other, &["fork", &key, "--any-workspace", "--at", "9"])["kind"], "no_such_record");
    assert_eq!(desk.host.rows("workspaces").len(), 1, "what is refused makes no workspace");
    assert_eq!(desk.ids(dir), ["s"]);
}

#[test]
fn empty_sessions_hide_nothing_and_are_counted() {
    let desk = Desk::with(crate::host::Host::with_agent("provider = \"echo\""));
    let dir = &desk.dir("p");
    desk.begun(dir, "said");
    for number in 0..5 {
        desk.done(dir, &["new", "--id", &format!("e{number}")]);
    }
    assert_eq!((desk.latest(dir), desk.ids(dir).len()), (json!("said"), 6));
    let error = desk.refused(dir, &["latest", "--exclude", "said"]);
    assert_eq!((&error["kind"], &error["empty_sessions"]), (&json!("all_sessions_empty"), &json!(5)));
    desk.done(dir, &["clear", "said", "--confirm"]);
    assert_eq!(desk.refused(dir, &["latest"])["empty_sessions"], 6);
    desk.done(dir, &["append", "e1", "hello"]);
    assert_eq!(desk.latest(dir), "e1");
    desk.done(dir, &["compact", "e1", "--keep", "0"]);
    assert_eq!(desk.refused(dir, &["latest"])["kind"], "all_sessions_empty");
    desk.done(dir, &["append", "e2", "hello"]);
    desk.done(dir, &["delete", "e2", "--force"]);
    assert_eq!(desk.refused(dir, &["latest"])["kind"], "all_sessions_empty");
    desk.done(dir, &["restore", "e2"]);
    assert_eq!(desk.latest(dir), "e2");
    desk.host.inject("1", "hi there");
    desk.host.check();
    desk.host.run(&["inject", "--json"], event("2", "again").to_string().as_bytes());
}

#[test]
fn a_directory_with_sessions_of_its_own_is_told_how_to_go_on() {
    let desk = Desk::new();
    let (old, new) = (&desk.dir("old"), &desk.dir("new"));
    desk.begun(old, "before");
    desk.begun(new, "own");
    let adopt = |arguments: &[&str]| {
        let mut command = desk.host.command(&["workspace", "adopt", "--json"]);
        command.args(arguments).current_dir(new);
        serde_json::from_str::<Value>(&Running::start(command, b"").end().stdout).unwrap()
    };
    let from = ["--from", old.to_str().unwrap(), "--force"];
    let refused = adopt(&from);
    assert_eq!(refused["kind"], "has_own_sessions", "{refused}");
    let text = refused["error"].as_str().unwrap();
    let wanted = text.split("`hearth workspace sessions ").nth(1).unwrap().split('`').next().unwrap();
    let fork = desk.done(new, &wanted.split_whitespace().collect::<Vec<_>>());
    assert_eq!((&fork["forked_from"], fork["message_count"].as_u64()), (&json!("before"), Some(1)), "{fork}");
    for id in desk.ids(new) {
        desk.done(new, &["delete", &id, "--force"]);
    }
    assert_eq!(adopt(&from)["changed"], true);
    assert_eq!(desk.ids(new), ["before"]);
}

/// Number of commits to request while the daemon is killed again and again.
const COMMITS: usize = 1_000;
/// The test ends after this time, however many there were.
const LONGEST: Duration = Duration::from_secs(30);

/// Acknowledged records are kept, in order and complete, wherever the daemon is killed.
#[test]
fn a_killed_daemon_keeps_a_prefix_of_whole_turns() {
    let mut desk = Desk::new();
    let dir = desk.dir("p");
    desk.begun(&dir, "s");
    let begun = Instant::now();
    let (mut next, mut acknowledged, mut round) = (0, Vec::new(), 0_u64);
    while next < COMMITS && begun.elapsed() < LONGEST {
        desk.host.start();
        // Some writers at once, so that several requests share one commit; killed at a different moment each time.
        let running: Vec<(usize, Running)> = (next..next + 10)
            .map(|number| (number, desk.start(&dir, &["append", "s", "--lines", "--json"], &turn(number))))
            .collect();
        next += 10;
        std::thread::sleep(Duration::from_millis((round * 37) % 150));
        desk.host.kill();
        round += 1;
        for (number, one) in running {
            let ended = one.end();
            let answer: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:#?}"));
            match ended.code {
                Some(0) => acknowledged.push((answer["records"].as_u64().unwrap(), number)),
                _ => assert!(answer["kind"].is_string(), "{answer}"),
            }
        }
    }
    let texts = desk.texts(&dir, &["s", "--limit", "5000"]);
    let mut seen = BTreeSet::new();
    for pair in texts[1..].chunks(2) {
        let number = pair[0].strip_suffix(" user").unwrap_or_else(|| panic!("{texts:?}"));
        assert_eq!(pair.get(1), Some(&format!("{number} assistant")), "{texts:?}");
        assert!(seen.insert(number.to_owned()), "{number} is there twice");
    }
    for (records, number) in &acknowledged {
        let at = usize::try_from(*records).unwrap() - 1;
        assert_eq!(
            texts.get(at),
            Some(&format!("{number} assistant")),
            "{number} was acknowledged as record {records}"
        );
    }
    assert!(!acknowledged.is_empty(), "nobody got through in {round} rounds");
    assert_eq!(desk.ids(&dir), ["s"]);
    desk.host.check();
}
