//! Store files from an attacker, given to every program that opens one: each refuses or serves, and none ends by a
//! signal or hangs. The programs are separate processes, because a signal would end the test itself.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::assert_refused;
use crate::fuzz_laws::{manifest_of, mutant};
use crate::host::{Ended, Host, Running, event};
use crate::world::chance::Chance;

/// Number of files tried. Each goes to some of the programs, and all programs get their share.
const MUTANTS: u64 = 240;
/// Longer than any of the programs takes on a machine under load.
const AT_MOST: Duration = Duration::from_secs(60);

/// Programs that open a store, with the data directory `data`; `restore` is separate.
const OPENERS: [&[&str]; 6] =
    [&["check"], &["store", "export", "-"], &["doctor"], &["why", "latest"], &["status"], &["backup"]];

/// Runs a program that has to end on its own, soon.
fn ends(mut command: Command, what: &str) -> Ended {
    command.stdin(Stdio::null());
    let began = Instant::now();
    let mut running = Running::start(command, b"");
    while running.try_end().is_none() {
        assert!(began.elapsed() < AT_MOST, "{what} hangs");
        std::thread::sleep(Duration::from_millis(2));
    }
    let ended = running.end();
    assert!(ended.signal.is_none() && matches!(ended.code, Some(0 | 1)), "{what}: {ended:#?}");
    assert!(ended.code == Some(0) || !ended.stderr.is_empty() || what.contains("--check"), "{what}: no reason");
    ended
}

fn dump(host: &Host, arguments: &[&str]) -> Command {
    let mut command = host.bare(env!("CARGO_BIN_EXE_hearth-dump"));
    command.arg(host.data()).args(arguments);
    command
}

/// A backup with this file and a matching manifest.
fn restore(host: &Host, file: &[u8], rows: u64) -> Command {
    let (backup, into) = (host.path("made.hearth"), host.path("restored"));
    drop(std::fs::remove_dir_all(&into));
    std::fs::create_dir_all(&backup).unwrap();
    std::fs::write(backup.join("data.mdb"), file).unwrap();
    std::fs::write(backup.join("manifest.json"), manifest_of(file, rows)).unwrap();
    host.command(&["restore", backup.to_str().unwrap(), "--into", into.to_str().unwrap()])
}

/// The description of a mutation: one to three changes.
fn changes(chance: &mut Chance) -> Vec<u8> {
    (0..6 * (1 + chance.index(3))).map(|_| u8::try_from(chance.index(256)).unwrap()).collect()
}

#[test]
fn every_program_refuses_or_serves_a_file_that_somebody_made() {
    let host = Host::with_echo();
    let events: Vec<String> =
        (0..40).map(|n| event(&format!("m{n}"), &format!("{}\n!silence", "say ".repeat(n * 40))).to_string()).collect();
    host.done(&["inject", "--json"], events.join("\n").as_bytes());
    let known = host.path("known.hearth");
    host.done(&["backup", known.to_str().unwrap()], b"");
    let manifest: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(known.join("manifest.json")).unwrap()).unwrap();
    let rows = manifest["rows"].as_u64().unwrap();
    // Without free pages, so that most changes hit something.
    let whole = std::fs::read(known.join("data.mdb")).unwrap();
    assert_eq!(ends(restore(&host, &whole, rows), "the file itself").code, Some(0));
    let (mut refused, mut tried) = (0, 0);
    for seed in 0..MUTANTS {
        let bytes = changes(&mut Chance(seed));
        let file = mutant(&whole, &bytes);
        std::fs::write(host.data().join("store/data.mdb"), &file).unwrap();
        let opener = OPENERS[usize::try_from(seed).unwrap() % OPENERS.len()];
        let check: &[&str] = if seed % 2 == 0 { &[] } else { &["--check"] };
        for (command, name) in [
            (restore(&host, &file, rows), "restore"),
            (dump(&host, check), if check.is_empty() { "hearth-dump" } else { "hearth-dump --check" }),
            (host.command(opener), opener[0]),
        ] {
            let ended = ends(command, &format!("{name} on mutant {seed}, {bytes:?}"));
            refused += u64::from(ended.code == Some(1));
            tried += 1;
        }
    }
    assert!(refused > tried / 3, "{refused} of {tried} refused");
}

/// A path that is not a regular file is not opened: opening a FIFO would block, and a link leads elsewhere.
#[test]
fn what_is_no_regular_file_is_refused_at_once() {
    let host = Host::with_echo();
    host.done(&["backup", host.path("known.hearth").to_str().unwrap()], b"");
    let fifo = |path: &Path| mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let openers: [&[&str]; 8] = [
        &["check"],
        &["store", "export", "-"],
        &["doctor"],
        &["status"],
        &["backup"],
        &["compact"],
        &["run"],
        &["agents", "list"],
    ];
    for (name, kind) in [("store/data.mdb", "FIFO"), ("store/data.mdb", "link"), ("store/lock.mdb", "FIFO")] {
        let (path, aside) = (host.data().join(name), host.path("aside"));
        std::fs::rename(&path, &aside).unwrap();
        if kind == "FIFO" {
            fifo(&path)
        } else {
            symlink(&aside, &path).unwrap()
        }
        for arguments in openers {
            let ended = ends(host.command(arguments), &format!("{arguments:?} with a {kind} as {name}"));
            assert_eq!(ended.code, Some(1), "{arguments:?}: {ended:#?}");
            let told = format!("{}{}", ended.stdout, ended.stderr);
            assert!(told.contains("has to be a regular file"), "{arguments:?}: {told}");
        }
        assert_refused(&ends(dump(&host, &[]), "hearth-dump"), &["has to be a regular file"]);
        std::fs::remove_file(&path).unwrap();
        std::fs::rename(&aside, &path).unwrap();
    }
    let lock = host.data().join("hearth.lock");
    std::fs::remove_file(&lock).unwrap();
    fifo(&lock);
    assert_refused(&ends(host.command(&["run"]), "run"), &["has to be a regular file"]);
    ends(host.command(&["status"]), "status");
    std::fs::remove_file(&lock).unwrap();
    for name in ["data.mdb", "manifest.json"] {
        let (path, aside) = (host.path("known.hearth").join(name), host.path("aside"));
        std::fs::rename(&path, &aside).unwrap();
        fifo(&path);
        let backup = host.path("known.hearth");
        let into = host.path("restored");
        let command = host.command(&["restore", backup.to_str().unwrap(), "--into", into.to_str().unwrap()]);
        assert_refused(&ends(command, "restore"), &["not a regular file"]);
        std::fs::remove_file(&path).unwrap();
        std::fs::rename(&aside, &path).unwrap();
    }
    host.check();
}
