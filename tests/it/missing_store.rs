//! A store that is missing: where one is created, where that is refused, and how a service notices.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hearth::state;

use crate::host::{Ended, Host, Running, TERMINAL, event};

/// Every file below a directory with its size.
fn tree(dir: &Path) -> BTreeMap<PathBuf, u64> {
    let mut found = BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            let about = entry.metadata().unwrap();
            if about.is_dir() {
                open.push(entry.path());
            }
            found.insert(entry.path(), about.len());
        }
    }
    found
}

fn on(host: &Host, data: &Path, arguments: &[&str]) -> Ended {
    let mut command = host.bare(env!("CARGO_BIN_EXE_hearth"));
    command.args(arguments).arg("--data").arg(data);
    Running::start(command, TERMINAL.as_bytes()).end()
}

/// Commands that may create a store.
const CREATE: [&[&str]; 4] = [&["apply", "-"], &["apply", "-", "--dry-run"], &["up"], &["run"]];

/// A data directory that was in use, without its store.
fn bereft() -> Host {
    let host = Host::before_the_first_start();
    host.apply(TERMINAL);
    host.done(&["chat", "remember this"], b"");
    host.done(&["backup"], b"");
    std::fs::remove_dir_all(host.data().join("store")).unwrap();
    host
}

#[test]
fn a_store_is_created_in_a_fresh_directory() {
    for prepared in [&[][..], &["lost+found/"], &["hearth.toml", "skills/a/SKILL.md"], &["store/", "run/", "sessions/"]]
    {
        let host = Host::before_the_first_start();
        for name in prepared {
            let path = host.data().join(name);
            if name.ends_with('/') {
                std::fs::create_dir_all(&path).unwrap();
            } else {
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(&path, "schema = 1\n").unwrap();
            }
        }
        host.apply(TERMINAL);
        assert_eq!(host.done(&["chat", "hello"], b""), "echo: hello\n", "{prepared:?}");
    }
}

#[test]
fn a_missing_store_is_not_created_anew_beside_other_parts() {
    let host = bereft();
    let before = tree(&host.data());
    for arguments in CREATE {
        let refused = on(&host, &host.data(), arguments);
        assert_eq!(refused.code, Some(1), "{arguments:?}: {refused:#?}");
        for words in ["parts of an installation", "sessions", "hearth restore 2", ".hearth`", "hearth run --new"] {
            assert!(refused.stderr.contains(words), "{arguments:?} {words}: {refused:#?}");
        }
    }
    assert_eq!(tree(&host.data()), before);
    // The remedy that the message names works.
    let backup = std::fs::read_dir(host.data().join("backups")).unwrap().next().unwrap().unwrap().file_name();
    host.done(&["restore", backup.to_str().unwrap()], b"");
    assert!(host.done(&["agents", "list"], b"").contains("main"));
    host.check();
}

#[test]
fn client_commands_never_create_a_store() {
    let lost = bereft();
    let fresh = Host::before_the_first_start();
    let message = event("m1", "hello").to_string();
    for arguments in [
        &["inject"][..],
        &["inject", "--dry-run"],
        &["chat", "hello"],
        &["agents", "add", "second"],
        &["users", "add", "telegram:1"],
        &["sweep", "--once"],
        &["session", "-C", "/usr", "new", "hello"],
        &["status"],
        &["check"],
        &["export"],
    ] {
        for host in [&lost, &fresh] {
            let before = tree(&host.data());
            let ended = host.run(arguments, message.as_bytes());
            let is_told = ended.stderr.contains("there is no store") && ended.stderr.contains("hearth restore BACKUP");
            let shows_nothing = arguments == ["export"] && ended.code == Some(0);
            assert!(shows_nothing || (ended.code == Some(1) && is_told), "{arguments:?}: {ended:#?}");
            assert_eq!(tree(&host.data()), before, "{arguments:?}");
        }
    }
    assert!(!fresh.data().exists());
}

/// The numbers of sessions start over, so their mailboxes must not be mistaken for those of the old store.
#[test]
fn a_new_store_beside_the_remains_leaves_them_readable() {
    let host = bereft();
    assert!(host.data().join("sessions/1").exists() || host.data().join("sessions/se1").exists());
    let begun = host.run(&["up", "--new"], b"hello\n");
    assert_eq!((begun.code, begun.stdout.as_str()), (Some(0), "echo: hello\n"), "{begun:#?}");
    let names: Vec<String> = std::fs::read_dir(host.data())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    assert!(names.iter().any(|name| name.starts_with("sessions.old-")), "{names:?}");
    assert!(host.data().join("groups/main").exists());
    host.check();
}

/// The process dies while it moves the remains of the old store: the same command then moves the rest.
#[test]
fn a_death_while_remains_are_moved_is_survived() {
    let mut host = bereft();
    std::fs::create_dir_all(host.data().join("files/kept")).unwrap();
    for nth in [1, 2] {
        host.env.push(("HEARTH_TEST_CRASH_AT".to_owned(), format!("remains-aside:{nth}")));
        assert_eq!(host.run(&["up", "--new"], b"hello\n").code, None, "it dies at visit {nth}");
        host.env.pop();
        let back = host.data().join("sessions");
        if nth == 1 {
            assert!(back.exists(), "nothing was moved yet");
        }
    }
    let begun = host.run(&["up", "--new"], b"hello\n");
    assert_eq!((begun.code, begun.stdout.as_str()), (Some(0), "echo: hello\n"), "{begun:#?}");
    let names = std::fs::read_dir(host.data()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let aside = names.filter(|name| name.contains(".old-")).count();
    assert_eq!(aside, 2);
    host.check();
}

#[test]
fn a_directory_of_other_programs_stays_as_it_is() {
    let host = Host::before_the_first_start();
    let other = host.path("etc");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("passwd"), "root").unwrap();
    for arguments in CREATE {
        let refused = on(&host, &other, arguments);
        assert_eq!(refused.code, Some(1), "{arguments:?}: {refused:#?}");
        assert!(refused.stderr.contains("passwd") && refused.stderr.contains("--data"), "{arguments:?}: {refused:#?}");
        assert!(!refused.stderr.contains("chmod"), "{refused:#?}");
    }
    assert_eq!(tree(&other).len(), 1);
    let wanted = on(&host, &other, &["apply", "-", "--new"]);
    assert_eq!(wanted.code, Some(0), "{wanted:#?}");
    assert!(on(&host, &other, &["agents", "list"]).stdout.contains("main"));
}

/// An unmounted disk looks like an empty directory, so a service is told which installation it runs.
#[test]
fn a_daemon_of_an_installation_runs_its_store_and_no_other() {
    let mut host = Host::before_the_first_start();
    host.apply(TERMINAL);
    let id = format!("{:016x}", state::installation(&host.data()).unwrap());
    let as_service = |id: &str| host.run(&["run", "--installation", id], b"");
    for arguments in [&["run", "--installation", "1"][..], &["run", "--new", "--installation", &id]] {
        assert_eq!(host.run(arguments, b"").code, Some(2), "{arguments:?}");
    }
    let mounted = host.path("mounted");
    std::fs::rename(host.data(), &mounted).unwrap();
    for empty in [false, true] {
        if empty {
            std::fs::create_dir(host.data()).unwrap();
        }
        let refused = as_service(&id);
        assert_eq!(refused.code, Some(1), "{refused:#?}");
        for words in [id.as_str(), "no store", "mounted", "hearth restore", "--new"] {
            assert!(refused.stderr.contains(words), "{words}: {refused:#?}");
        }
        assert_eq!(tree(&host.data()), BTreeMap::new());
    }
    host.apply("schema = 1\n");
    let before = std::fs::read(host.data().join("store/data.mdb")).unwrap();
    let refused = as_service(&id);
    assert!(refused.code == Some(1) && refused.stderr.contains("hearth service install"), "{refused:#?}");
    assert_eq!(std::fs::read(host.data().join("store/data.mdb")).unwrap(), before, "another store is not touched");
    std::fs::remove_dir_all(host.data()).unwrap();
    std::fs::rename(&mounted, host.data()).unwrap();
    host.start_with(&["--installation", &id]);
    assert_eq!(host.stop().code, Some(0));
}
