//! Commands that work without a daemon, with a crash at every point of each: the store is the old one or the new one,
//! and the same command then completes the work.

use std::path::Path;

use super::{left_over, passed, pick};
use crate::host::beside::failing;
use crate::host::{HOUSE, Host};

/// Number of commands at the same time: they work more than they wait.
const THREADS: usize = 3;

/// Crashes of one command in an ordinary run.
const MOST: usize = 12;

/// A command, and the state before it.
struct Case {
    name: &'static str,
    before: fn(&Host),
    arguments: fn(&Host) -> Vec<String>,
    input: &'static str,
    /// The directory in which the result is examined: the data directory, or one beside it.
    result: &'static str,
}

const CASES: [Case; 14] = [
    Case {
        name: "apply, the first time",
        before: |_| {},
        arguments: |_| words(&["apply", "-"]),
        input: HOUSE,
        result: "data",
    },
    Case { name: "apply", before: talked, arguments: |_| words(&["apply", "-"]), input: MORE, result: "data" },
    Case { name: "inject", before: talked, arguments: |_| words(&["inject", "--json"]), input: EVENT, result: "data" },
    Case {
        name: "agents remove --purge",
        before: |host| {
            talked(host);
            host.apply(MORE);
            std::fs::create_dir_all(host.data().join("groups/second/deep")).unwrap();
            std::fs::write(host.data().join("groups/second/deep/file"), "x").unwrap();
        },
        arguments: |_| words(&["agents", "remove", "second", "--purge"]),
        input: "",
        result: "data",
    },
    Case { name: "backup", before: talked, arguments: |_| words(&["backup"]), input: "", result: "data" },
    Case {
        name: "backup --keep",
        before: backed_up,
        arguments: |_| words(&["backup", "--keep", "1"]),
        input: "",
        result: "data",
    },
    Case {
        name: "restore --replace",
        before: |host| {
            talked(host);
            host.done(&["backup", host.path("data/backups/known.hearth").to_str().unwrap()], b"");
            host.apply(MORE);
            std::fs::create_dir_all(host.data().join("sessions/se1")).unwrap();
        },
        arguments: |host| {
            let backup = host.path("data/backups/known.hearth").display().to_string();
            words(&["restore", &backup, "--replace"])
        },
        input: "",
        result: "data",
    },
    Case {
        name: "backup --all --keep",
        before: |host| {
            talked(host);
            host.done(&["backup", "--all"], b"");
        },
        arguments: |_| words(&["backup", "--all", "--keep", "1"]),
        input: "",
        result: "data",
    },
    Case {
        name: "restore of everything",
        before: archived,
        arguments: |host| words(&["restore", host.path("data/lost+found/kept.tar").to_str().unwrap()]),
        input: "",
        result: "data",
    },
    Case {
        name: "restore of everything, after one that died while it moved things into place",
        before: |host| {
            archived(host);
            std::fs::create_dir_all(host.data().join("restore.part/homes")).unwrap();
            std::fs::write(host.data().join("restore.part/placing"), "").unwrap();
            std::fs::create_dir_all(host.data().join("groups/main/half")).unwrap();
        },
        arguments: |host| words(&["restore", host.path("data/lost+found/kept.tar").to_str().unwrap()]),
        input: "",
        result: "data",
    },
    Case { name: "compact", before: talked, arguments: |_| words(&["compact"]), input: "", result: "data" },
    Case {
        name: "store export",
        before: talked,
        arguments: |host| words(&["store", "export", host.path("data/store.jsonl").to_str().unwrap()]),
        input: "",
        result: "data",
    },
    Case {
        name: "store export, after one that died",
        before: |host| {
            talked(host);
            // No process has this number: Linux has none above 4,194,304.
            std::fs::write(host.data().join(".export-4194305-x.part"), "half").unwrap();
        },
        arguments: |host| words(&["store", "export", host.path("data/store.jsonl").to_str().unwrap()]),
        input: "",
        result: "data",
    },
    Case {
        name: "store import",
        before: |host| {
            talked(host);
            let lines = host.path("data/store.jsonl");
            host.done(&["store", "export", lines.to_str().unwrap()], b"");
            let kept = std::fs::read(&lines).unwrap();
            std::fs::remove_dir_all(host.data()).unwrap();
            private(&host.data());
            std::fs::write(&lines, kept).unwrap();
        },
        arguments: |host| words(&["store", "import", host.path("data/store.jsonl").to_str().unwrap()]),
        input: "",
        result: "data",
    },
];

const MORE: &str = "schema = 1\n[[agents]]\nfolder = \"second\"\nprovider = \"echo\"\n";

const EVENT: &str = r#"{"channelType":"terminal","platformId":"main","message":{"id":"m9","kind":"chat","content":{"text":"again","attachments":[{"name":"b.txt","data":"eA=="}]}}}"#;

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A store with a waiting message.
fn talked(host: &Host) {
    host.apply(&format!("{HOUSE}{}", crate::host::CHAT));
    host.inject("m1", "hello");
}

fn backed_up(host: &Host) {
    talked(host);
    host.done(&["backup"], b"");
    host.inject("m2", "and more");
}

/// Only an archive of everything, with what a restore allows to exist.
fn archived(host: &Host) {
    talked(host);
    std::fs::create_dir_all(host.data().join("groups/main/deep")).unwrap();
    std::fs::write(host.data().join("groups/main/deep/file"), "x").unwrap();
    let archive = host.path("kept.tar");
    host.done(&["backup", "--all", archive.to_str().unwrap()], b"");
    let kept = std::fs::read(&archive).unwrap();
    std::fs::remove_dir_all(host.data()).unwrap();
    private(&host.data());
    private(&host.data().join("lost+found"));
    std::fs::write(host.data().join("lost+found/kept.tar"), kept).unwrap();
}

#[test]
fn a_death_at_every_point_of_a_command_is_survived() {
    let work: Vec<(usize, Host, Vec<String>, String)> = CASES.iter().enumerate().map(origin).collect();
    let picked = |(case, host, points, facts): &(usize, Host, Vec<String>, String)| {
        let (case, host, facts) = (*case, host.path(""), facts.clone());
        let at = pick(CASES[case].name, points, MOST);
        let points = points.clone();
        at.into_iter().map(move |k| (case, host.clone(), facts.clone(), k, points.get(k - 1).cloned()))
    };
    let deaths: Vec<_> = work.iter().flat_map(picked).collect();
    let failed = failing(THREADS, &deaths, |(case, origin, facts, k, _)| die(&CASES[*case], origin, facts, *k));
    let failed: Vec<String> =
        failed.into_iter().map(|(case, _, _, k, point)| format!("{} at {k} {point:?}", CASES[*case].name)).collect();
    assert!(failed.is_empty(), "{} of {} deaths:\n{}", failed.len(), deaths.len(), failed.join("\n"));
}

/// The points of all commands.
pub(super) fn points() -> Vec<String> {
    CASES.iter().enumerate().flat_map(|case| origin(case).2).collect()
}

/// The state before the command, its points, and its result without a crash.
fn origin((at, case): (usize, &Case)) -> (usize, Host, Vec<String>, String) {
    let origin = Host::before_the_first_start();
    private(&origin.data());
    (case.before)(&origin);
    let (mut host, notes) = (Host::before_the_first_start(), origin.path("points"));
    copy_tree(&origin.data(), &host.data());
    host.env.push(("HEARTH_TEST_POINTS".to_owned(), notes.display().to_string()));
    let arguments = (case.arguments)(&host);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    host.done(&arguments, case.input.as_bytes());
    host.env.clear();
    let points = passed(&notes);
    assert!(points.len() > 1, "{}: {points:?}", case.name);
    let facts = facts(&host);
    assert_eq!(left_over(&host.path(case.result)), Vec::<std::path::PathBuf>::new(), "{}", case.name);
    (at, origin, points, facts)
}

/// A crash of a command at its k-th point, and the same command after it.
fn die(case: &Case, origin: &Path, facts: &str, k: usize) {
    let mut host = Host::before_the_first_start();
    copy_tree(&origin.join("data"), &host.data());
    let arguments = (case.arguments)(&host);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    host.env.push(("HEARTH_TEST_CRASH_AT".to_owned(), format!("any:{k}")));
    let ended = host.run(&arguments, case.input.as_bytes());
    assert_eq!(ended.signal, Some(9), "{}: {ended:#?}", case.name);
    host.env.clear();
    if host.data().join("store/data.mdb").exists() {
        host.check();
    }
    let ended = host.run(&arguments, case.input.as_bytes());
    assert!(ended.code == Some(0) || was_done(&ended.stderr), "{} again: {ended:#?}", case.name);
    host.check();
    let after = self::facts(&host);
    assert!(after == *facts, "{}:\n{after}\ninstead of\n{facts}", case.name);
    let mut left = left_over(&host.path(case.result));
    // An hourly walk removes these.
    left.retain(|path| !path.starts_with(host.data().join("files")));
    assert!(left.is_empty(), "{}: left over {left:#?}", case.name);
}

/// The output of a command that finds its work already done.
fn was_done(stderr: &str) -> bool {
    ["already exists", "already has a store", "is not empty, it has groups", "agent second not found"]
        .iter()
        .any(|words| stderr.contains(words))
}

/// The configuration, and the number of rows of each table.
fn facts(host: &Host) -> String {
    let mut facts = host.done(&["export"], b"");
    let dump = host.dump(&[]);
    assert_eq!(dump.code, Some(0), "{dump:#?}");
    for table in ["agents", "chats", "sessions", "messages", "bodies", "outbound"] {
        facts += &format!("{table} {}\n", host.rows(table).len());
    }
    for name in ["groups/second", "groups/main/deep/file", "groups/main/half", "store.jsonl"] {
        facts += &format!("{name} {}\n", host.data().join(name).exists());
    }
    facts
}

fn private(dir: &Path) {
    std::fs::create_dir_all(dir).unwrap();
    std::fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
}

/// Copies an unused directory, without sockets and pipes.
pub(crate) fn copy_tree(from: &Path, to: &Path) {
    private(to);
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let (kind, to) = (entry.file_type().unwrap(), to.join(entry.file_name()));
        if kind.is_dir() {
            copy_tree(&entry.path(), &to);
        } else if kind.is_file() {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}
