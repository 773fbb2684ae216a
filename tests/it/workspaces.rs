//! `hearth workspace` on real directories: links, bind mounts, names that are not valid text, fingerprints that
//! collide.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicI64, Ordering};

use base64::Engine as _;
use hearth::contracts::workspace::look;
use hearth::engine::counted::CountedWords;
use hearth::engine::entropy::Entropy;
use hearth::engine::pattern::Patterns;
use hearth::engine::{Cx, Tx, workspaces};
use hearth::model::id::SessionId;
use hearth::model::policy::Policy;
use hearth::model::session::{Session, SessionLabel, WorkspaceSession};
use hearth::model::time::{Awake, Moment, Timestamp};
use hearth::model::workspace::{Fingerprint, key_text};
use hearth::state::{Options, SessionKey, Store};
use hearth::time::zone::Zone;
use serde_json::Value;

use crate::host::{Ended, Host, Running, skipped, wait_for};

mod moved;

/// The creation time of the next workspace: later than those before.
static BEGUN: AtomicI64 = AtomicI64::new(1_800_000_000_000);

/// A host whose directories are canonical.
fn host() -> (Host, PathBuf) {
    canonical(Host::new())
}

fn before_the_first_start() -> (Host, PathBuf) {
    canonical(Host::before_the_first_start())
}

fn canonical(host: Host) -> (Host, PathBuf) {
    let root = host.path("").canonicalize().unwrap();
    (host, root)
}

fn made(path: PathBuf) -> PathBuf {
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// Runs `hearth workspace` with arguments that need not be text, in a directory.
fn typed(host: &Host, cwd: &Path, arguments: &[&OsStr]) -> Ended {
    let mut command = host.command(&["workspace"]);
    command.args(arguments).current_dir(cwd);
    Running::start(command, b"").end()
}

fn json(host: &Host, cwd: &Path, arguments: &[&str]) -> Value {
    let mut all: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
    all.push(OsStr::new("--json"));
    let ended = typed(host, cwd, &all);
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:#?}"))
}

fn status(host: &Host, dir: &Path) -> Value {
    json(host, dir, &["status"])
}

/// Creates a session in a directory, as commands without a daemon do. Returns the key of its workspace, or why there is
/// none.
fn begin(host: &Host, dir: &Path, also_at: Option<&Path>, label: &str) -> String {
    let options = Options { map_bytes: Some(64 << 20), reserve_bytes: 0, ..Options::new(7) };
    let store = Store::open(&host.data(), options).unwrap();
    let mut sight = look(dir);
    sight.also_at.extend(also_at.map(|path| path.as_os_str().as_bytes().to_vec()));
    let wall = Timestamp::from_millis(BEGUN.fetch_add(1, Ordering::Relaxed));
    let done = store.write(|db, txn| {
        let groups = host.data().canonicalize().unwrap().join("groups").into_os_string().into_vec();
        let cx = Cx {
            entropy: &Entropy::of(1),
            groups_path: &groups,
            zone: &Zone::utc(),
            builds: false,
            steady: true,
            has_room: true,
            patterns: &Patterns::default(),
            salvage: None,
            counted: &CountedWords::default(),
            hooks: hearth::engine::hooks,
        };
        let now = Moment { wall, awake: Awake::new(1, 0) };
        let key = match workspaces::ensure(&mut Tx::new(db, &Policy::STANDARD, now, cx, txn), &sight)? {
            Ok(key) => key,
            Err(refusal) => return Ok(refusal.code.to_owned()),
        };
        let id: SessionId = db.allocate(txn)?;
        let row = WorkspaceSession { order: 1, ..WorkspaceSession::new(SessionLabel::new(label).unwrap(), wall) };
        let row = Session::Workspace(Box::new(row));
        db.sessions.put(txn, &SessionKey { workspace: key, session: id }, &row)?;
        Ok::<_, hearth::state::Error>(key_text(key))
    });
    done.unwrap()
}

/// Every file below a directory with its size and the time of its last change.
fn tree(root: &Path) -> BTreeMap<PathBuf, (u64, i64, i64)> {
    let mut found = BTreeMap::new();
    let mut left = vec![root.to_owned()];
    while let Some(path) = left.pop() {
        let meta = path.symlink_metadata().unwrap();
        if meta.is_dir() {
            left.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        found.insert(path, (meta.len(), meta.mtime(), meta.mtime_nsec()));
    }
    found
}

/// The published fingerprints: a path, its raw bytes.
fn vectors() -> Vec<(String, Vec<u8>)> {
    let lines = include_str!("workspaces/fingerprints.txt").lines().filter(|line| !line.starts_with('#'));
    let bytes = |text: &str| {
        let mut parts = text.split("\\x");
        let mut bytes = parts.next().unwrap().as_bytes().to_vec();
        for part in parts {
            bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
            bytes.extend_from_slice(&part.as_bytes()[2..]);
        }
        bytes
    };
    let read = |line: &str| {
        let (fingerprint, path) = line.split_once(' ').unwrap();
        (fingerprint.to_owned(), bytes(path))
    };
    lines.map(read).collect()
}

#[test]
fn fingerprints_are_the_published_ones() {
    let (host, root) = before_the_first_start();
    let empty = made(root.join("empty"));
    let all = vectors();
    assert_eq!(all.len(), 40);
    for (expected, path) in all {
        let shown = String::from_utf8_lossy(&path).into_owned();
        assert_eq!(Fingerprint::of_path(&path).to_string(), expected, "{shown}");
        let given = Path::new(OsStr::from_bytes(&path));
        // The path as given, if nothing else has that name.
        let as_given = given.canonicalize().map_or(true, |canonical| canonical.as_os_str().as_bytes() == path);
        if path.is_empty() || path == b"." || !as_given {
            continue;
        }
        let ended = typed(&host, &empty, &[OsStr::new("fingerprint"), OsStr::new("--"), given.as_os_str()]);
        assert_eq!((ended.code, ended.stdout), (Some(0), format!("{expected}\n")), "{shown}");
    }
    let ended = typed(&host, &empty, &[OsStr::new("fingerprint"), OsStr::new("")]);
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(ended.stderr.contains("invalid_cwd: empty"), "{ended:#?}");
    assert!(!host.data().exists());
}

#[test]
fn every_spelling_is_one_workspace() {
    let (host, root) = host();
    let real = made(root.join("parent/R"));
    let link = root.join("L");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let key = begin(&host, &real, None, "s");
    let spellings =
        [real.clone(), real.join(""), real.join("."), root.join("parent/../parent/R"), link.clone(), link.join("../R")];
    for spelling in spellings {
        let shown = spelling.display().to_string();
        let found = json(&host, &root, &["status", &shown]);
        assert_eq!((&found["workspace"], &found["sessions"]), (&key.as_str().into(), &1.into()), "{shown}: {found}");
        assert_eq!((&found["directory"], found["root"].as_str()), (&shown.as_str().into(), real.to_str()), "{found}");
        assert_eq!(json(&host, &root, &["status", "-C", &shown])["workspace"], key.as_str());
        assert_eq!(json(&host, &root, &["-C", &shown, "status", "."])["workspace"], key.as_str());
    }
    let mut inside = host.command(&["workspace", "status", "--json"]);
    inside.current_dir(&link).env("PWD", &link);
    let found: Value = serde_json::from_str(&Running::start(inside, b"").end().stdout).unwrap();
    assert_eq!((found["directory"].as_str(), found["root"].as_str()), (link.to_str(), real.to_str()));
    host.check();
}

#[test]
fn directories_with_one_fingerprint_are_kept_apart() {
    let (host, root) = host();
    // The fingerprints collide only directly below /tmp.
    let pair = ["claw-fp--1DGfF-1w0c", "claw-fp-GWr7aMXEtEb"].map(|name| Path::new("/tmp").join(name));
    let ours: Vec<PathBuf> = pair.iter().filter(|dir| !dir.exists()).cloned().collect();
    let _removed = Removed(ours);
    for (below, fingerprint) in [("", "2402a630febd81a6"), ("sub/dir", "")] {
        let [a, b] = [&pair[0], &pair[1]].map(|dir| made(dir.join(below)));
        let keys = [begin(&host, &a, None, "in-a"), begin(&host, &b, None, "in-b")];
        let (here, there) = (status(&host, &a), status(&host, &b));
        assert_eq!(here["fingerprint"], there["fingerprint"]);
        assert!(fingerprint.is_empty() || here["fingerprint"] == fingerprint, "{here}");
        assert_eq!(keys[1], format!("{}~1", keys[0]));
        assert_eq!([&here["workspace"], &there["workspace"]], [keys[0].as_str(), keys[1].as_str()]);
        assert_eq!((&here["sessions"], &there["sessions"]), (&1.into(), &1.into()));
        assert_eq!(here["related"][0]["relation"], "same_fingerprint", "{here}");
        assert_eq!(here["related"][0]["workspace"], keys[1].as_str(), "{here}");
    }
    assert_eq!(json(&host, &root, &["list"])["workspaces"].as_array().unwrap().len(), 4);
    host.check();
}

/// Directories that a test created outside of its own, removed when this is dropped.
struct Removed(Vec<PathBuf>);

impl Drop for Removed {
    fn drop(&mut self) {
        for dir in &self.0 {
            std::fs::remove_dir_all(dir).ok();
        }
    }
}

#[test]
fn names_that_are_no_text_are_kept_apart_and_can_be_read_back() {
    let (host, root) = host();
    let mut keys = Vec::new();
    for name in [b"n\xff".as_slice(), b"n\xfe", b"n\xc3"] {
        let dir = root.join(OsStr::from_bytes(name));
        if std::fs::create_dir(&dir).is_err() {
            skipped("this file system has only names that are text");
            return;
        }
        keys.push(begin(&host, &dir, None, "s"));
        let found = status(&host, &dir);
        let bytes = found["root_bytes"].as_str().unwrap();
        let back = base64::engine::general_purpose::STANDARD.decode(bytes).unwrap();
        assert_eq!(OsString::from_vec(back), dir.as_os_str());
        assert_eq!(found["root"], dir.to_string_lossy().as_ref());
        assert_eq!((&found["sessions"], found["workspace"].as_str()), (&1.into(), keys.last().map(String::as_str)));
        let text = typed(&host, &dir, &[OsStr::new("status")]);
        assert_eq!(text.code, Some(0), "{text:#?}");
    }
    assert_eq!((keys[1].clone(), keys[2].clone()), (format!("{}~1", keys[0]), format!("{}~2", keys[0])));
    host.check();
}

#[test]
fn reading_and_failing_makes_nothing() {
    let (host, root) = before_the_first_start();
    let dir = made(root.join("fresh"));
    std::fs::create_dir(dir.join(".git")).unwrap();
    let commands: &[(&[&str], i32)] = &[
        (&["status"], 0),
        (&["status", "nowhere"], 0),
        (&["list"], 0),
        (&["fingerprint"], 0),
        (&["adopt"], 1),
        (&["adopt", "--from", "/nowhere"], 1),
        (&["adopt", "--from", "0000000000000001~2"], 1),
        (&["status", "-C", "nowhere"], 1),
        (&["status", "-C", ""], 1),
        (&["adopt", "--force"], 2),
    ];
    let before = tree(&root);
    for (arguments, code) in commands {
        for format in ["--json", "--data"] {
            // The data directory is given in both cases.
            let mut all: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
            if format == "--json" {
                all.push(OsStr::new(format));
            }
            let ended = typed(&host, &dir, &all);
            assert_eq!(ended.code, Some(*code), "{arguments:?}: {ended:#?}");
            if format == "--json" && *code == 1 {
                let told: Value = serde_json::from_str(&ended.stdout).unwrap();
                assert_eq!((told["status"].as_str(), ended.stderr.as_str()), (Some("error"), ""), "{told}");
                assert!(told["kind"].is_string() && told["error"].is_string(), "{told}");
            }
            assert_eq!(tree(&root), before, "{arguments:?}");
        }
    }
    // An existing store is not changed either.
    begin(&host, &dir, None, "s");
    let rows = host.rows("workspaces");
    for (arguments, _) in commands {
        json_or_nothing(&host, &dir, arguments);
    }
    assert_eq!(host.rows("workspaces"), rows);
    host.check();
}

fn json_or_nothing(host: &Host, dir: &Path, arguments: &[&str]) {
    let all: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
    typed(host, dir, &all);
}

/// A bind mount, unmounted when this is dropped.
struct Bound(PathBuf);

impl Bound {
    fn new(from: &Path, to: &Path) -> Option<Self> {
        let done = Command::new("mount").arg("--bind").args([from, to]).output();
        if done.is_ok_and(|done| done.status.success()) {
            return Some(Self(to.to_owned()));
        }
        skipped("bind mounts cannot be made here; run this as root");
        None
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        Command::new("umount").arg(&self.0).output().unwrap();
    }
}

#[test]
fn a_place_that_is_none_is_named() {
    let (host, root) = host();
    std::fs::write(root.join("file"), "").unwrap();
    for (given, reason) in
        [("", "empty"), ("nowhere", "not_found"), ("file", "not_a_directory"), ("file/x", "not_a_directory")]
    {
        for option in ["-C", "--cwd", "--directory"] {
            let told = json(&host, &root, &["status", option, given]);
            assert_eq!((&told["kind"], told["reason"].as_str()), (&"invalid_cwd".into(), Some(reason)), "{told}");
            assert_eq!(told["path"], given);
        }
    }
    let gone = made(root.join("gone"));
    let mut command = host.command(&["workspace", "status", "--json"]);
    command.current_dir(&gone);
    let mut shell = host.bare("sh");
    shell.current_dir(&gone).args(["-c", "rmdir \"$PWD\" && exec \"$@\"", "sh"]);
    shell.arg(command.get_program()).args(command.get_args());
    let told: Value = serde_json::from_str(&Running::start(shell, b"").end().stdout).unwrap();
    assert_eq!(told["kind"], "workspace_missing", "{told}");
}

#[test]
fn home_and_root_are_guarded_before_the_store_is_looked_at() {
    let (host, root) = before_the_first_start();
    let link = root.join("to-home");
    std::os::unix::fs::symlink(&root, &link).unwrap();
    let bound = made(root.join("bound"));
    let before = tree(&root);
    let guarded = |dir: &Path| {
        let told = json(&host, dir, &["adopt"]);
        assert_eq!(told["kind"], "broad_cwd", "{}: {told}", dir.display());
        let text = typed(&host, dir, &[OsStr::new("adopt")]);
        assert!(text.code == Some(1) && text.stderr.contains("--allow-broad-cwd"), "{text:#?}");
        assert_eq!(json(&host, dir, &["adopt", "--allow-broad-cwd"])["kind"], "nothing_to_adopt");
    };
    guarded(Path::new("/"));
    guarded(&root);
    guarded(&link);
    assert_eq!(tree(&root), before);
    if let Some(_bound) = Bound::new(&root, &bound) {
        guarded(&bound);
    }
    assert_eq!(json(&host, &made(root.join("project")), &["adopt"])["kind"], "nothing_to_adopt");
}

#[test]
fn folders_of_agents_go_with_the_data_directory() {
    let mut host = Host::with_echo();
    host.start();
    host.inject("m1", "hello");
    host.wait_settled();
    host.stop();
    host.start();
    let folder = |host: &Host| host.data().canonicalize().unwrap().join("groups/main");
    let seen = || {
        let found = host.rows("workspaces");
        found.iter().any(|row| row.to_string().contains("inode")).then_some(())
    };
    wait_for("the folder to be looked at", seen);
    let before = status(&host, &folder(&host));
    assert_eq!((&before["state"], before["agent"].as_str()), (&"known".into(), Some("main")), "{before}");
    host.stop();
    // Restored: the same files in different directories.
    let (data, copy) = (host.data(), host.path("copy"));
    let copied = Command::new("cp").args(["-a"]).args([&data, &copy]).status().unwrap();
    assert!(copied.success());
    std::fs::rename(&data, host.path("gone")).unwrap();
    std::fs::rename(&copy, &data).unwrap();
    host.start();
    let restored = || {
        let found = status(&host, &folder(&host));
        let events = found["events"].as_array().unwrap().clone();
        assert_eq!(found["workspace"], before["workspace"]);
        events.iter().any(|event| event["event"] == "restored").then_some(())
    };
    wait_for("the folder to be adopted", restored);
    let refused = json(&host, &folder(&host), &["adopt", "--from", "0000000000000001"]);
    assert_eq!(refused["kind"], "nothing_to_adopt", "{refused}");
    host.check();
}

#[test]
fn workspaces_of_one_project_are_told_together() {
    let (host, root) = host();
    made(root.join("project/.git"));
    let (top, sub) = (root.join("project"), made(root.join("project/sub")));
    begin(&host, &top, None, "s");
    begin(&host, &sub, None, "s");
    let found = status(&host, &made(root.join("project/third")));
    assert_eq!((found["project"].as_str(), &found["sessions"]), (top.to_str(), &0.into()), "{found}");
    assert_eq!(found["project_workspaces"].as_array().unwrap().len(), 2);
    let text = typed(&host, &sub, &[OsStr::new("status")]).stdout;
    assert!(text.contains("2 sessions in 2 workspaces of this project"), "{text}");
    host.check();
}
