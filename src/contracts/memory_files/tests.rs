use std::os::unix::fs::{PermissionsExt as _, symlink};

use rustix::fs::Mode;

use super::*;

fn place() -> (tempfile::TempDir, Paths, Folder) {
    let dir = tempfile::tempdir().unwrap();
    let paths = Paths::beneath(dir.path());
    let folder = Folder::new("main").unwrap();
    std::fs::create_dir_all(paths.group(&folder).join("memory/daily")).unwrap();
    std::fs::create_dir_all(paths.home(&folder).join(".claude/projects/-x/memory")).unwrap();
    std::fs::create_dir_all(paths.trusted().join("memory")).unwrap();
    (dir, paths, folder)
}

fn names(memory: MemoryOf<'_>) -> Vec<String> {
    memory.files().unwrap().into_iter().map(|file| file.name).collect()
}

fn correct(memory: MemoryOf<'_>, file: &str, line: usize, now: Option<&str>) -> Result<String, String> {
    let file = memory.file(file).unwrap().unwrap();
    memory.correct(&file, &Correction { line, was: None, now: now.map(str::to_owned) }).unwrap()
}

#[test]
fn files_of_all_writers_are_listed_and_those_of_others_are_not() {
    let (_dir, paths, folder) = place();
    let (group, home) = (paths.group(&folder), paths.home(&folder));
    for path in [
        group.join(LOCAL),
        group.join("memory/daily/2026-04-20.md"),
        group.join("memory/daily/2026-04-20.md.lock"),
        group.join("memory/daily/.2026-04-20.md.abcdefgh.tmp"),
        group.join("memory/notes.md"),
        group.join("secret.md"),
        home.join(".claude/CLAUDE.md"),
        home.join(".claude/projects/-x/memory/MEMORY.md"),
        home.join(".claude/projects/-x/session.jsonl"),
        home.join(".claude/.credentials.json"),
        paths.trusted().join("user_profile.md"),
        paths.trusted().join("memory/daily_discoveries.md"),
    ] {
        std::fs::write(path, "x\n").unwrap();
    }
    let own = ["CLAUDE.local.md", "memory/daily/2026-04-20.md", "memory/notes.md"];
    let cli = ["home/.claude/CLAUDE.md", "home/.claude/projects/-x/memory/MEMORY.md"];
    let shared = ["trusted/memory/daily_discoveries.md", "trusted/user_profile.md"];
    let mut memory = MemoryOf { paths: &paths, folder: &folder, shared: false };
    assert_eq!(names(memory), [&own[..], &cli[..]].concat());
    memory.shared = true;
    assert_eq!(names(memory), [&own[..], &cli[..], &shared[..]].concat());
}

#[test]
fn a_line_is_corrected_and_all_others_stay_as_they_are() {
    let (_dir, paths, folder) = place();
    let memory = MemoryOf { paths: &paths, folder: &folder, shared: false };
    let file = paths.group(&folder).join("memory/notes.md");
    std::fs::write(&file, "one\r\ntwo\n\nthree").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    let text = || std::fs::read_to_string(&file).unwrap();
    assert_eq!(correct(memory, "memory/notes.md", 1, Some("eins")).unwrap(), "one");
    assert_eq!(text(), "eins\r\ntwo\n\nthree");
    assert_eq!(correct(memory, "memory/notes.md", 4, Some("drei")).unwrap(), "three");
    assert_eq!(correct(memory, "memory/notes.md", 2, None).unwrap(), "two");
    assert_eq!(text(), "eins\r\n\ndrei");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    for (line, now, why) in [
        (0, None, "no line 0"),
        (4, None, "it has 3 lines"),
        (1, Some("a\nb"), "one line"),
        (1, Some("a\u{1b}[2J"), "control characters"),
        (1, Some("a\u{2028}b"), "one line"),
        (1, Some(" "), "remove it instead"),
    ] {
        let refused = correct(memory, "memory/notes.md", line, now).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
    assert!(correct(memory, "memory/notes.md", 1, Some(&"x".repeat(LINE_MAX + 1))).is_err());
    let known = memory.file("memory/notes.md").unwrap().unwrap();
    let other = Correction { line: 1, was: Some("one".to_owned()), now: None };
    assert!(memory.correct(&known, &other).unwrap().unwrap_err().contains("not that any more"));
    assert_eq!(text(), "eins\r\n\ndrei", "what is refused changes nothing");
}

/// Another writer holds the lock; a writer without a lock comes in between.
#[test]
fn other_writers_lose_nothing() {
    let (_dir, paths, folder) = place();
    let memory = MemoryOf { paths: &paths, folder: &folder, shared: false };
    let daily = paths.group(&folder).join("memory/daily");
    std::fs::write(daily.join("2026-04-20.md"), "a\nb\n").unwrap();
    let lock = std::fs::File::create(daily.join("2026-04-20.md.lock")).unwrap();
    lock.lock().unwrap();
    let refused = std::thread::scope(|scope| {
        let waits = scope.spawn(|| correct(memory, "memory/daily/2026-04-20.md", 1, None));
        waits.join().unwrap()
    });
    assert!(refused.unwrap_err().contains("another program is writing it"));
    lock.unlock().unwrap();
    let dir = Dir::open(&daily).unwrap();
    let before = dir.stamp("2026-04-20.md".as_ref()).unwrap();
    std::fs::write(daily.join("2026-04-20.md"), "a\nb\nc\n").unwrap();
    let refused = write(&dir, "2026-04-20.md", "b\n", before).unwrap();
    assert!(refused.unwrap_err().contains("changed at this moment"));
    assert_eq!(std::fs::read_to_string(daily.join("2026-04-20.md")).unwrap(), "a\nb\nc\n");
}

#[test]
fn hostile_files_are_neither_followed_nor_waited_for() {
    let (dir, paths, folder) = place();
    let memory = MemoryOf { paths: &paths, folder: &folder, shared: true };
    let group = paths.group(&folder);
    let outside = dir.path().join("outside.md");
    std::fs::write(&outside, "secret\n").unwrap();
    symlink(&outside, group.join("memory/link.md")).unwrap();
    symlink(dir.path(), group.join("memory/below")).unwrap();
    symlink("/dev/zero", group.join(LOCAL)).unwrap();
    std::fs::hard_link(&outside, group.join("memory/hard.md")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, group.join("memory/fifo.md"), Mode::from_raw_mode(0o600)).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, group.join("memory/locked.md.lock"), Mode::from_raw_mode(0o600)).unwrap();
    std::fs::write(group.join("memory/locked.md"), "x\n").unwrap();
    std::fs::File::create(group.join("memory/huge.md")).unwrap().set_len(1 << 40).unwrap();
    std::fs::write(group.join("memory/binary.md"), b"a\xff\x00\x1b[2Jb\n").unwrap();
    std::fs::create_dir(group.join("memory/dir.md")).unwrap();
    std::fs::write(group.join("memory/a\u{1b}[2Jb.md"), "x").unwrap();
    let files = memory.files().unwrap();
    assert!(files.iter().all(|file| !file.name.contains("below/") && !file.name.contains('\u{1b}')), "{files:?}");
    for name in ["memory/link.md", "memory/hard.md", "memory/fifo.md", "memory/huge.md", "memory/dir.md", LOCAL] {
        let file = memory.file(name).unwrap().unwrap();
        assert!(memory.read(&file).unwrap().is_err(), "{name}");
        assert!(correct(memory, name, 1, None).is_err(), "{name}");
    }
    assert!(correct(memory, "memory/binary.md", 1, None).unwrap_err().contains("UTF-8"));
    let locked = memory.file("memory/locked.md").unwrap().unwrap();
    assert!(memory.correct(&locked, &Correction { line: 1, was: None, now: None }).is_err());
    assert_eq!(std::fs::read_to_string(outside).unwrap(), "secret\n");
    for name in ["../outside.md", "memory/../../outside.md", "/etc/passwd", "", "session-state.json"] {
        assert_eq!(memory.file(name).unwrap(), None, "{name}");
    }
    assert!(memory.changes(None, 100).unwrap().len() >= 5);
}

#[test]
fn changes_are_those_that_the_files_date() {
    let (_dir, paths, folder) = place();
    let memory = MemoryOf { paths: &paths, folder: &folder, shared: true };
    let log =
        "# Daily Summary\n\n- 08:15 UTC \u{2014} tea\n- 09:00 UTC [other] \u{2014} coffee\n- undated\n- 99:99 UTC x\n";
    std::fs::write(paths.group(&folder).join("memory/daily/2020-04-20.md"), log).unwrap();
    let found = "# Daily Discoveries\n\n## 2020-04-21 07:00 UTC\n**What:** jam\n**Context:** c\n";
    std::fs::write(paths.trusted().join("memory/daily_discoveries.md"), found).unwrap();
    std::fs::write(paths.group(&folder).join(LOCAL), "likes tea\n").unwrap();
    let changes = memory.changes(None, 10).unwrap();
    let shown: Vec<String> =
        changes[1..].iter().map(|change| format!("{} {:?} {}", change.at, change.line, change.text)).collect();
    assert_eq!((changes[0].file.as_str(), changes[0].line), (LOCAL, None), "of this one only the last change is known");
    assert_eq!(
        shown,
        [
            "2020-04-21T07:00:00.000Z Some(3) **What:** jam",
            "2020-04-20T09:00:00.000Z Some(4) - 09:00 UTC [other] \u{2014} coffee",
            "2020-04-20T08:15:00.000Z Some(3) - 08:15 UTC \u{2014} tea",
        ]
    );
    assert_eq!(memory.changes(Timestamp::parse("2020-04-21T00:00:00Z"), 10).unwrap().len(), 2);
    assert_eq!(memory.changes(None, 1).unwrap().len(), 1);
}
