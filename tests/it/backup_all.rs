//! `hearth backup --all` and its restore, with the real program.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::host::disk::Disk;
use crate::host::{Ended, Host, Running, wait_for};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

/// An agent with a memory, a transcript, a message with a file, a key, and a malicious link.
fn lived() -> Host {
    let host = Host::with_echo();
    let event = r#"{"channelType":"telegram","platformId":"123","message":{"id":"m1","kind":"chat","content":{"text":"see","senderId":"7","senderName":"Ann","attachments":[{"name":"b.txt","data":"cGljdHVyZQ=="}]}}}"#;
    host.done(&["inject"], event.as_bytes());
    put(&host, "groups/main/CLAUDE.local.md", "likes tea");
    put(&host, "homes/main/.claude/projects/t.jsonl", "{}");
    put(&host, "homes/main/.claude/.credentials.json", "login");
    put(&host, "secrets/main.KEY", "sk-1");
    put(&host, "trusted/rules.md", "rules");
    put(&host, "skills/web/SKILL.md", "skill");
    put(&host, "hearth.toml", "schema = 1");
    symlink("/etc/passwd", host.data().join("groups/main/passwd")).unwrap();
    host
}

fn put(host: &Host, path: &str, text: &str) {
    let path = host.data().join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn backup(host: &Host, more: &[&str]) -> Value {
    let answer = host.done(&[&["backup", "--all", "--json"], more].concat(), b"");
    serde_json::from_str(&answer).unwrap()
}

fn path_of(answer: &Value) -> PathBuf {
    answer["backup"].as_str().unwrap().into()
}

/// The output of a command on another data directory.
fn done_in(host: &Host, data: &Path, arguments: &[&str]) -> String {
    let mut command = host.bare(env!("CARGO_BIN_EXE_hearth"));
    command.arg("--data").arg(data).args(arguments);
    let ended = Running::start(command, b"").end();
    assert_eq!(ended.code, Some(0), "{arguments:?}: {ended:#?}");
    ended.stdout
}

fn refused(host: &Host, arguments: &[&str]) -> String {
    let Ended { code, stderr, .. } = host.run(arguments, b"");
    assert_eq!(code, Some(1), "{arguments:?}: {stderr}");
    stderr
}

#[test]
fn everything_comes_back_while_the_daemon_ran_on() {
    let mut host = lived();
    host.start();
    let answer = backup(&host, &[]);
    let file = path_of(&answer);
    assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    assert_eq!(file.parent().unwrap(), host.data().join("backups"));
    let secrets = serde_json::json!(["secrets/main.KEY", "homes/main/.claude/.credentials.json"]);
    assert_eq!(answer["secrets"]["names"], secrets);
    assert_eq!(answer["skipped"]["names"][0]["path"], "groups/main/passwd");
    assert_eq!(host.inject("m2", "still there")["outcome"], "routed");
    let shown = host.run(&["backup", "--all"], b"");
    assert!(shown.stdout.contains("--with-secrets includes them") && shown.stdout.contains("  secrets/main.KEY"));
    assert!(shown.stderr.contains("the backup is not encrypted"), "{}", shown.stderr);
    host.kill();
    let new = host.path("new");
    let said = host.done(&["restore", text(&file), "--into", text(&new)], b"");
    for part in ["secrets/main.KEY", "log in again", "groups/main/passwd", "new installation"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    for path in [
        "groups/main/CLAUDE.local.md",
        "homes/main/.claude/projects/t.jsonl",
        "trusted/rules.md",
        "skills/web/SKILL.md",
        "hearth.toml",
    ] {
        assert_eq!(std::fs::read(new.join(path)).unwrap(), std::fs::read(host.data().join(path)).unwrap(), "{path}");
    }
    let shard = names(&host.data().join("files")).remove(0);
    assert_eq!(names(&new.join("files").join(&shard)), names(&host.data().join("files").join(&shard)));
    assert!(
        !new.join("secrets").exists() && !new.join("groups/main/passwd").exists() && !new.join("restore.part").exists()
    );
    assert!(done_in(&host, &new, &["check"]).contains("sound"));
    assert!(done_in(&host, &new, &["agents", "list"]).contains("main"));
    let kept = backup(&host, &["--with-secrets", text(&host.path("secret.tar"))]);
    assert_eq!((&kept["with_secrets"], &kept["secrets"]["names"]), (&true.into(), &serde_json::json!([])));
    let with = host.path("with");
    host.done(&["restore", text(&path_of(&kept)), "--into", text(&with)], b"");
    assert_eq!(std::fs::read_to_string(with.join("secrets/main.KEY")).unwrap(), "sk-1");
    assert!(with.join("homes/main/.claude/.credentials.json").exists());
}

/// What an agent left in its folder and its home is neither followed nor made anew elsewhere, and the command says what
/// it skipped.
#[test]
fn hostile_directories_of_agents_harm_neither_backup_nor_restore() {
    let host = lived();
    let outside = host.path("outside");
    std::fs::write(&outside, "outside").unwrap();
    let mut skipped = vec!["groups/main/passwd".to_owned()];
    for tree in ["groups/main", "homes/main"] {
        let at = |name: &str| host.data().join(tree).join(name);
        symlink("../../../outside", at("out")).unwrap();
        std::fs::hard_link(&outside, at("twin")).unwrap();
        let (mode, here) = (rustix::fs::Mode::from_raw_mode(0o600), rustix::fs::CWD);
        rustix::fs::mknodat(here, at("fifo"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
        skipped.extend(["out", "twin", "fifo"].map(|name| format!("{tree}/{name}")));
        if rustix::process::geteuid().is_root() {
            let null = rustix::fs::makedev(1, 3);
            rustix::fs::mknodat(here, at("null"), rustix::fs::FileType::CharacterDevice, mode, null).unwrap();
            skipped.push(format!("{tree}/null"));
        }
        std::fs::write(at("set-id"), "program").unwrap();
        std::fs::set_permissions(at("set-id"), std::fs::Permissions::from_mode(0o6755)).unwrap();
    }
    let answer = backup(&host, &[]);
    let mut named: Vec<&str> =
        answer["skipped"]["names"].as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap()).collect();
    named.sort_unstable();
    skipped.sort_unstable();
    assert_eq!(named, skipped);
    let new = host.path("new");
    host.done(&["restore", text(&path_of(&answer)), "--into", text(&new)], b"");
    for tree in ["groups/main", "homes/main"] {
        let left: Vec<String> = names(&new.join(tree)).into_iter().filter(|name| !name.contains(['.', '_'])).collect();
        assert_eq!(left, ["set-id"], "{tree}");
        assert_eq!(std::fs::metadata(new.join(tree).join("set-id")).unwrap().mode() & 0o7777, 0o755, "{tree}");
    }
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "outside");
}

#[test]
fn a_restore_replaces_nothing() {
    let host = lived();
    let file = path_of(&backup(&host, &[]));
    let said = refused(&host, &["restore", text(&file)]);
    assert!(said.contains("is not empty, it has backups"), "{said}");
    assert!(refused(&host, &["restore", text(&file), "--replace"]).contains("never replaces files"));
    // Specified by its name, like other backups.
    let name = file.file_name().unwrap().to_str().unwrap();
    host.done(&["restore", name, "--into", text(&host.path("new"))], b"");
    let other = host.path("notes");
    std::fs::create_dir(&other).unwrap();
    std::fs::set_permissions(&other, std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::write(other.join("mine.txt"), "mine").unwrap();
    assert!(refused(&host, &["restore", name, "--into", text(&other)]).contains("mine.txt"));
    assert_eq!(names(&other), ["mine.txt"]);
    let wrong = host.path("hearth.tar");
    std::fs::write(&wrong, "no archive").unwrap();
    let said = refused(&host, &["restore", text(&wrong), "--into", text(&host.path("never"))]);
    assert!(said.contains("is not a backup of Hearth"), "{said}");
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&wrong, bytes).unwrap();
    let said = refused(&host, &["restore", text(&wrong), "--into", text(&host.path("never"))]);
    assert!(said.contains("is damaged") && said.contains("use another backup"), "{said}");
    assert!(!host.path("never").exists());
}

/// A store that reads files needs consent; without it, nothing of the archive remains.
#[test]
fn without_consent_nothing_stays() {
    let host = lived();
    host.apply("schema = 1\n[[agents]]\nfolder = \"main\"\nenv = { KEY = \"file:/etc/key\" }\n");
    let file = path_of(&backup(&host, &[]));
    let new = host.path("new");
    assert!(refused(&host, &["restore", text(&file), "--into", text(&new)]).contains("--yes"));
    assert!(!new.join("restore.part").exists() && names(&new.join("groups")).is_empty());
    host.done(&["restore", text(&file), "--into", text(&new), "--yes"], b"");
    assert!(new.join("groups/main/CLAUDE.local.md").exists());
}

#[test]
fn only_so_many_archives_of_this_installation_are_kept() {
    let host = lived();
    let dir = host.path("backups");
    let mut made = Vec::new();
    for kept in [1, 2, 2] {
        made.push(path_of(&backup(&host, &["--keep", "2", text(&dir)])));
        assert_eq!(names(&dir).len(), kept);
    }
    // Neither other files nor backups of the store count.
    std::fs::write(dir.join("20200101T000000.000Z.hearth.tar"), "mine").unwrap();
    std::fs::write(dir.join("notes.hearth.tar"), "mine").unwrap();
    host.done(&["backup", "--keep", "1", text(&dir)], b"");
    let answer = backup(&host, &["--keep", "1", text(&dir)]);
    assert_eq!(answer["removed"].as_array().unwrap().len(), 2);
    assert_eq!(names(&dir).len(), 4, "{:?}", names(&dir));
}

/// Every file named like an archive is complete, even after a `kill -9` in the middle of writing one.
#[test]
fn an_archive_that_is_killed_leaves_no_half_one() {
    let mut host = lived();
    let dir = host.path("backups");
    let first = path_of(&backup(&host, &[text(&dir), "--keep", "1"]));
    for point in ["copy-fill", "archive-make", "archive-entry:7", "archive-sync", "archive-finish"] {
        host.env = vec![("HEARTH_TEST_CRASH_AT".to_owned(), point.to_owned())];
        assert_eq!(host.run(&["backup", "--all", "--keep", "1", text(&dir)], b"").signal, Some(9), "{point}");
        let whole: Vec<String> = names(&dir).into_iter().filter(|name| !name.starts_with('.')).collect();
        assert_eq!(whole, [first.file_name().unwrap().to_str().unwrap()], "{point}");
        host.env.clear();
    }
    let last = path_of(&backup(&host, &[text(&dir), "--keep", "1"]));
    assert_eq!(names(&dir), [last.file_name().unwrap().to_str().unwrap()]);
}

/// A backup that has a name of its own is not found under another one.
#[test]
fn the_next_backup_removes_a_killed_one_with_another_name() {
    let mut host = lived();
    let dir = host.path("backups");
    std::fs::create_dir(&dir).unwrap();
    let private = |path: &Path| std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).unwrap();
    for (name, file) in [(".film.part", "film"), (".notes.part", "manifest.json"), (".mixed.part", "data.mdb")] {
        std::fs::create_dir(dir.join(name)).unwrap();
        std::fs::write(dir.join(name).join(file), "mine").unwrap();
        private(&dir.join(name));
    }
    std::fs::write(dir.join(".mixed.part/more"), "mine").unwrap();
    let others = names(&dir);
    for (all, point, name) in [
        (&["backup", "--all"][..], "archive-entry:7", "first.tar"),
        (&["backup", "--all"], "archive-finish", "second.tar"),
        (&["backup"], "part-finish", "third"),
    ] {
        host.env = vec![("HEARTH_TEST_CRASH_AT".to_owned(), point.to_owned())];
        let killed = host.run(&[all, &[text(&dir.join(name))]].concat(), b"");
        assert_eq!(killed.signal, Some(9), "{name}");
        assert!(dir.join(format!(".{name}.part")).exists(), "{name}");
        host.env.clear();
        host.done(&["backup", text(&dir.join("whole"))], b"");
        std::fs::remove_dir_all(dir.join("whole")).unwrap();
        assert_eq!(names(&dir), others, "{name}");
    }
}

#[test]
fn a_full_or_missing_disk_keeps_what_is_there() {
    let host = lived();
    let Some(_disk) = Disk::mount(host.path("small")) else { return };
    let dir = host.path("small");
    let first = path_of(&backup(&host, &[text(&dir)]));
    std::fs::write(host.data().join("groups/main/small"), vec![1; 40_000_000]).unwrap();
    std::fs::write(host.data().join("groups/main/large"), vec![1; 100_000_000]).unwrap();
    let answer = backup(&host, &[text(&dir)]);
    // The files of one agent take at most half of the space.
    assert_eq!(answer["skipped"]["names"][0]["path"], "groups/main/large", "{answer}");
    drop(std::fs::write(dir.join("filler"), vec![1; 160_000_000]));
    let said = refused(&host, &["backup", "--all", "--keep", "1", text(&dir)]);
    assert!(said.contains("the disk has no space"), "{said}");
    let left: Vec<String> = names(&dir).into_iter().filter(|name| name.ends_with(".hearth.tar")).collect();
    assert!(first.exists() && left.len() == 2 && names(&dir).len() == 3, "{:?}", names(&dir));
    let said = refused(&host, &["backup", "--all", "--keep", "1", text(&dir.join("none/there"))]);
    assert!(said.contains("not found: create it"), "{said}");
    assert!(
        refused(&host, &["backup", "--all", text(&host.data().join("groups/main/x"))]).contains("that Hearth uses")
    );
}

/// The daemon makes backups, keeps the configured number, reports why one fails, and recovers automatically.
#[test]
fn backups_are_made_on_schedule_and_status_tells_how_old_the_last_one_is() {
    let mut host = lived();
    assert_eq!(host.status()["backup"], Value::Null);
    let disk = host.path("disk");
    let toml = format!("schema = 1\n[backup]\nevery = \"1h\"\nkeep = 2\nto = \"{}/hearth\"\n", disk.display());
    host.apply(&toml);
    assert!(host.done(&["export"], b"").contains("backup.every = \"1h\"\nbackup.keep = 2\n"));
    assert!(host.done(&["status"], b"").contains("last backup: none yet, one every 60 min"));
    host.env.push(("HEARTH_TEST_BACKUP_MS".to_owned(), "200".to_owned()));
    host.start();
    // The disk is not mounted.
    let failed = wait_for("a failed backup", || host.status()["backup"]["failed"].as_str().map(str::to_owned));
    assert!(failed.starts_with("directory "), "{failed}");
    let warned = host.run(&["status"], b"").stdout;
    assert!(warned.contains("failed: directory ") && warned.contains("run `hearth backup --all`"), "{warned}");
    let doctor = host.run(&["doctor", "--offline"], b"").stdout;
    assert!(doctor.contains("not found: create it"), "{doctor}");
    std::fs::create_dir(&disk).unwrap();
    let dir = disk.join("hearth");
    let first =
        wait_for("a backup", || names(&dir.canonicalize().ok()?).into_iter().find(|name| name.ends_with(".tar")));
    wait_for("the first one to go", || (!dir.join(&first).exists()).then_some(()));
    let status =
        wait_for("a good backup", || Some(host.status()).filter(|status| status["backup"]["failed"].is_null()));
    let backup = &status["backup"];
    assert!(backup["path"].as_str().unwrap().starts_with(text(&dir)), "{backup}");
    assert_eq!((&backup["every_ms"], &backup["skipped"]), (&3_600_000.into(), &1.into()), "{backup}");
    assert!(host.done(&["status"], b"").contains("last backup: "));
    assert_eq!(host.inject("m2", "still there")["outcome"], "routed");
    host.kill();
    // Whatever the daemon was doing when it was killed.
    let whole: Vec<String> = names(&dir).into_iter().filter(|name| !name.starts_with('.')).collect();
    assert!(!whole.is_empty() && whole.len() <= 3, "{whole:?}");
    let newest = dir.join(whole.last().unwrap());
    host.done(&["restore", text(&newest), "--into", text(&host.path("new"))], b"");
    assert!(host.path("new").join("groups/main/CLAUDE.local.md").exists());
}
