//! Stores on failing disks: truncated and damaged files, failing writes and syncs, power cuts, other users of the
//! files. Each ends with a clear message and an exit code, and never loses what was acknowledged.

mod hostile;
mod pages;
mod power;

use std::path::{Path, PathBuf};
use std::process::Command;

use hearth::state::Reader;
use serde_json::Value;

use crate::host::disk::Disk;
use crate::host::{Ended, Host, Running, event, is_alive, skipped, wait_for};

/// A shim under the store's file that can fail and record writes; none if there is no compiler.
struct Shim {
    shim: PathBuf,
    _dir: tempfile::TempDir,
}

impl Shim {
    fn compile() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let shim = dir.path().join("disk.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/disk.c");
        let made =
            Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&shim).args([source, "-ldl"]).output();
        match made {
            Ok(made) if made.status.success() => Some(Self { shim, _dir: dir }),
            other => {
                skipped(format_args!("no disk can fail here, because nothing compiles C: {other:?}"));
                None
            }
        }
    }

    /// Environment of a program that uses this disk.
    fn variables(&self, more: &[(&str, &str)]) -> Vec<(String, String)> {
        let preload = ("LD_PRELOAD", self.shim.to_str().unwrap());
        [preload].iter().chain(more).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }
}

/// A failing command has a reason for people, and is not ended by a signal.
fn assert_refused(ended: &Ended, words: &[&str]) {
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(words.iter().any(|words| ended.stderr.contains(words)), "none of {words:?}: {ended:#?}");
}

/// Platform ids of the stored messages.
fn stored(data: &Path) -> Vec<String> {
    let host_rows = crate::host::rows_of(data, "seen");
    host_rows.iter().map(|row| row["key"].to_string()).collect()
}

fn is_stored(all: &[String], id: &str) -> bool {
    all.iter().any(|key| key.contains(&format!("\"{id}\"")))
}

/// Writes and syncs that fail from the first, the second … on: the daemon stops and says so, and everything it
/// acknowledged is there afterwards.
#[test]
fn a_disk_that_fails_stops_the_daemon_and_loses_nothing() {
    let Some(shim) = Shim::compile() else { return };
    for call in ["write", "sync"] {
        for nth in [1, 2, 3, 5, 8] {
            let mut host = Host::with_echo();
            let armed = host.path("armed");
            host.env =
                shim.variables(&[("DISK_FAILS", &format!("{call}:{nth}")), ("DISK_ARMED", armed.to_str().unwrap())]);
            host.start();
            let mut accepted = Vec::new();
            for number in 0..200 {
                if host.daemon().is_none_or(|daemon| daemon.try_end().is_some()) {
                    break;
                }
                if number == 1 {
                    std::fs::write(&armed, "").unwrap();
                }
                let id = format!("m{number}");
                let ended = host.run(&["inject", "--json"], event(&id, &id).to_string().as_bytes());
                match ended.code {
                    Some(0) => accepted.push(id),
                    code => assert_eq!(code, Some(1), "{call}:{nth} {ended:#?}"),
                }
            }
            assert!(accepted.len() < 200, "{call}:{nth}: nothing failed");
            let ended = host.ended();
            assert_refused(&ended, &["the daemon cannot continue: the store failed"]);
            assert!(ended.stderr.contains("start it again"), "{call}:{nth} {ended:#?}");
            host.env.clear();
            let warnings = host.status()["warnings"].to_string();
            assert!(warnings.contains("could not continue") && !warnings.contains("was killed"), "{warnings}");
            host.check();
            let all = stored(&host.data());
            for id in &accepted {
                assert!(is_stored(&all, id), "{call}:{nth}: {id} was acknowledged and is lost");
            }
            host.start();
            assert!(!host.status()["warnings"].to_string().contains("could not continue"), "it is over");
            host.wait_settled();
            let said = host.said();
            for id in &accepted {
                let answers = |said: &String| said.split_whitespace().any(|word| word == id);
                assert!(said.iter().any(answers), "{call}:{nth}: {id} is not answered: {said:?}");
            }
            assert_eq!(host.stop().code, Some(0));
            host.check();
        }
    }
}

/// The same without a daemon: the command says so, and changes nothing or everything.
#[test]
fn a_disk_that_fails_is_said_by_commands() {
    let Some(shim) = Shim::compile() else { return };
    for fails in ["write:1", "write:2", "sync:1"] {
        let mut host = Host::with_echo();
        host.inject("m1", "hello");
        host.env = shim.variables(&[("DISK_FAILS", fails)]);
        let ended = host.run(&["inject", "--json"], event("m2", "again").to_string().as_bytes());
        assert_refused(&ended, &["the store failed", "Input/output error"]);
        host.env.clear();
        host.check();
        assert!(is_stored(&stored(&host.data()), "m1"));
        let outcome = host.inject("m2", "again")["outcome"].clone();
        assert!(outcome == "routed" || outcome == "duplicate", "{fails}: {outcome}");
        host.check();
    }
}

/// A store that cannot be written can be read: commands that change something say why they cannot.
#[test]
fn a_read_only_disk_is_said() {
    let mut host = Host::new();
    let Some(disk) = Disk::mount(host.data()) else { return };
    host.apply(&format!("schema = 1\n[[agents]]\nfolder = \"main\"\nprovider = \"echo\"\n{}", crate::host::CHAT));
    host.inject("m1", "hello");
    disk.remount("ro");
    for (arguments, input) in [
        (vec!["run"], String::new()),
        (vec!["inject"], event("m2", "again").to_string()),
        (vec!["agents", "add", "other"], String::new()),
        (vec!["compact"], String::new()),
    ] {
        let ended = host.run(&arguments, input.as_bytes());
        assert_refused(&ended, &["Read-only file system"]);
    }
    for arguments in [vec!["check"], vec!["status"], vec!["why", "m1"], vec!["agents", "list"]] {
        assert_eq!(host.run(&arguments, b"").code, Some(0), "{arguments:?}");
    }
    let ended = host.run(&["doctor"], b"");
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(ended.stdout.contains("cannot be written") && !ended.stdout.contains("hearth run"), "{ended:#?}");
    disk.remount("rw");
    host.start();
    host.wait_said(1);
    assert_eq!(host.stop().code, Some(0));
    host.check();
}

/// Another process's open snapshot keeps pages from being reused. The file grows, which `status` and `doctor` report,
/// and nothing else happens.
#[test]
fn a_reader_that_stays_is_named() {
    let mut host = Host::with_echo();
    host.start();
    host.inject("m0", "hello");
    let file = host.data().join("store/data.mdb");
    let size = || std::fs::metadata(&file).unwrap().len();
    let say = |from: u32| {
        let events: Vec<String> =
            (from..from + 300).map(|number| event(&format!("m{number}"), "!silence").to_string()).collect();
        host.done(&["inject", "--json"], events.join("\n").as_bytes());
    };
    let room = || {
        let told: Value = serde_json::from_str(&host.run(&["doctor", "--json"], b"").stdout).unwrap();
        told["checks"].as_array().unwrap().iter().find(|check| check["check"] == "room").unwrap().clone()
    };
    assert_eq!(room()["result"], "ok");
    let reader = Reader::open(&host.data()).unwrap();
    let held = reader.read(|_, _| {
        let mut from = 1;
        while size() < 24 << 20 {
            say(from);
            from += 300;
        }
        Ok::<_, hearth::state::Error>(from)
    });
    let from = held.unwrap();
    // The same process cannot open it twice.
    drop(reader);
    let (status, grown) = (host.status(), size());
    assert!(status["store"]["unused_bytes"].as_u64().unwrap() > 16 << 20, "{status}");
    let room = room();
    assert_eq!(room["result"], "warn", "{room}");
    assert!(room["mend"].as_str().unwrap().contains("hearth compact"), "{room}");
    say(from);
    host.wait_settled();
    assert!(size() <= grown + (1 << 20), "what is free is used again: {} after {grown}", size());
    assert_eq!(host.stop().code, Some(0));
    host.done(&["compact"], b"");
    assert!(size() < grown / 4, "{} after {grown}", size());
    host.check();
}

/// One process writes.
#[test]
fn a_second_daemon_is_told_about_the_first() {
    let mut host = Host::with_echo();
    host.start();
    let first = host.daemon().unwrap().pid().as_raw_nonzero();
    assert_refused(&host.run(&["run"], b""), &["a daemon is already running"]);
    // The process does not serve yet, or does not any more.
    std::fs::remove_file(host.data().join("run/socket")).unwrap();
    let mut elsewhere = host.command(&["run"]);
    elsewhere.env("XDG_RUNTIME_DIR", host.path("nowhere"));
    let ended = Running::start(elsewhere, b"").end();
    // It creates its socket again, so both messages are possible.
    assert_refused(&ended, &[&format!("in use by process {first}"), "a daemon is already running"]);
    host.inject("m1", "hello");
    host.wait_said(1);
    assert_eq!(host.stop().code, Some(0));
    assert_eq!(std::fs::read_to_string(host.data().join("hearth.lock")).unwrap(), "", "it was given up");
    host.check();
}

/// A process that closes LMDB's lock file loses its own locks, and no other process's.
#[test]
fn others_may_look_at_the_files_and_the_daemon_keeps_its_locks() {
    let mut host = Host::with_echo();
    host.start();
    let pid = host.daemon().unwrap().pid().as_raw_nonzero().to_string();
    let lock = host.data().join("store/lock.mdb");
    let inode = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(&lock).unwrap());
    let is_locked = || {
        let locks = std::fs::read_to_string("/proc/locks").unwrap();
        locks.lines().any(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.contains(&"POSIX") && words.contains(&pid.as_str()) && line.contains(&format!(":{inode} "))
        })
    };
    if !is_locked() {
        skipped("this machine does not tell which locks there are");
        return;
    }
    for name in ["store/lock.mdb", "store/data.mdb", "hearth.lock"] {
        let mut command = Command::new("cat");
        command.arg(host.data().join(name));
        assert_eq!(Running::start(command, b"").end().code, Some(0));
    }
    host.inject("m1", "!file a.txt hello");
    host.wait_settled();
    for arguments in [vec!["backup"], vec!["check"], vec!["doctor"], vec!["status"], vec!["sweep", "--once"]] {
        host.run(&arguments, b"");
        assert!(is_locked(), "the daemon lost its locks to {arguments:?}");
    }
    assert_eq!(host.stop().code, Some(0));
    host.check();
}

/// A killed reader does not keep its reader slot.
#[test]
fn readers_that_were_killed_are_forgotten() {
    let mut host = Host::with_echo();
    host.start();
    host.inject("m1", "hello");
    let mut command = host.bare(env!("CARGO_BIN_EXE_hearth-dump"));
    command.arg(host.data()).arg("--follow");
    let follower = Running::start_open(command);
    wait_for("the dump to follow", || (!follower.stdout().is_empty()).then_some(()));
    let pid = follower.pid().as_raw_nonzero().get();
    follower.signal(rustix::process::Signal::KILL).end();
    assert!(!is_alive(u32::try_from(pid).unwrap()));
    host.inject("m2", "again");
    host.wait_said(2);
    assert_eq!(host.stop().code, Some(0));
    let status: Value = host.status();
    assert!(status["store"]["readers"].as_u64().unwrap() < 10, "{status}");
    host.check();
}
