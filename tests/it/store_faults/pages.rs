//! Truncated and damaged store files: a refusal that says what to do, and no death by a signal.

use std::path::Path;

use super::assert_refused;
use crate::host::{Host, event};
use crate::world::chance::Chance;

/// A store with tables of several pages and long values, a backup of it, and whether its last user was killed.
fn filled(killed: bool) -> Host {
    let mut host = Host::with_echo();
    let events: Vec<String> = (0..120)
        .map(|number| {
            event(&format!("m{number}"), &format!("{}\n!silence", "much to say ".repeat(number * 7))).to_string()
        })
        .collect();
    host.done(&["inject", "--json"], events.join("\n").as_bytes());
    host.done(&["backup", host.path("known.hearth").to_str().unwrap()], b"");
    if killed {
        host.start();
        host.kill();
    }
    host
}

fn file(host: &Host) -> std::path::PathBuf {
    host.data().join("store/data.mdb")
}

/// Every command that needs the store.
const COMMANDS: [&[&str]; 6] = [&["check"], &["status"], &["doctor"], &["inject"], &["run"], &["export"]];

/// Runs every command on a damaged store: none is ended by a signal. Returns how many refused.
fn try_all(host: &Host, what: &str, commands: &[&[&str]]) -> usize {
    let mut refused = 0;
    for arguments in commands {
        let mut command = host.command(arguments);
        if *arguments == ["run"] {
            // A daemon that finds nothing to refuse exits at this point.
            command.env("HEARTH_TEST_CRASH_AT", "performed");
        }
        let ended = crate::host::Running::start(command, event("m1", "hello").to_string().as_bytes()).end();
        let died = ended.signal.is_some() && *arguments != ["run"] || ended.signal.is_some_and(|signal| signal != 9);
        assert!(!died, "{what}: {arguments:?}: {ended:#?}");
        if ended.code == Some(1) {
            refused += 1;
        }
    }
    refused
}

#[test]
fn a_file_that_was_cut_off_is_refused() {
    for killed in [false, true] {
        let host = filled(killed);
        let whole = std::fs::read(file(&host)).unwrap();
        for cut in [0, 100, 4096, 8192, 20_000, whole.len() / 3, whole.len() / 2, whole.len() - 40_960, whole.len() - 1]
        {
            std::fs::write(file(&host), &whole[..cut]).unwrap();
            let refused = try_all(&host, &format!("cut off at {cut}, killed {killed}"), &COMMANDS);
            if cut <= whole.len() / 2 {
                assert_eq!(refused, COMMANDS.len(), "cut off at {cut}");
                let ended = host.run(&["check"], b"");
                assert_refused(&ended, &["is damaged"]);
                assert!(ended.stderr.contains("hearth restore BACKUP"), "{ended:#?}");
                assert_eq!(
                    std::fs::metadata(file(&host)).unwrap().len(),
                    u64::try_from(cut).unwrap(),
                    "it was changed"
                );
            }
        }
        std::fs::write(file(&host), &whole[..whole.len() / 2]).unwrap();
        mended(&host);
    }
}

/// A backup replaces the unusable store, which is kept.
fn mended(host: &Host) {
    host.done(&["restore", host.path("known.hearth").to_str().unwrap(), "--replace"], b"");
    host.check();
    let aside = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("store.old-");
    assert!(std::fs::read_dir(host.data()).unwrap().flatten().any(|entry| aside(&entry)), "the old one is gone");
}

/// Pages of a kind, by the flags in their headers.
fn pages_of(bytes: &[u8], flag: u8) -> Vec<usize> {
    (0..bytes.len() / 4096).filter(|page| bytes[page * 4096 + 10] & flag != 0).collect()
}

#[test]
fn changed_bytes_are_refused_or_found() {
    let host = filled(false);
    let whole = std::fs::read(file(&host)).unwrap();
    let mut chance = Chance(0x5eed_cafe);
    let mut refused = 0;
    let mut tried = 0;
    for (kind, flag) in [("branch", 1), ("leaf", 2), ("long value", 4), ("beginning", 8)] {
        let pages = pages_of(&whole, flag);
        assert!(!pages.is_empty(), "there is no page that is a {kind}");
        for round in 0..12 {
            let mut bytes = whole.clone();
            let page = pages[chance.index(pages.len())] * 4096;
            let mut told = format!("{kind} page {}", page / 4096);
            // Mostly headers and row lists, because their numbers are trusted.
            for _ in 0..=round % 3 {
                let at = page + if round % 2 == 0 { chance.index(64) } else { chance.index(4096) };
                bytes[at] ^= 1 << chance.index(8);
                told += &format!(", byte {}", at - page);
            }
            std::fs::write(file(&host), &bytes).unwrap();
            let commands: &[&[&str]] = if round % 4 == 0 { &COMMANDS } else { &COMMANDS[..2] };
            tried += commands.len();
            refused += try_all(&host, &told, commands);
        }
    }
    assert!(refused > tried / 10, "{refused} of {tried} commands refused");
    std::fs::write(file(&host), &whole).unwrap();
    host.check();
    overwritten(&host, &whole);
}

/// Replaced pages: the result of a disk that writes to the wrong place.
fn overwritten(host: &Host, whole: &[u8]) {
    let mut chance = Chance(0x0bad_d15c);
    let pages = whole.len() / 4096;
    for round in 0..24 {
        let mut bytes = whole.to_vec();
        let page = 2 + chance.index(pages - 2);
        let other = chance.index(pages);
        let new = match round % 3 {
            0 => vec![0; 4096],
            1 => whole[other * 4096..(other + 1) * 4096].to_vec(),
            _ => (0..4096).map(|_| u8::try_from(chance.index(256)).unwrap()).collect(),
        };
        bytes[page * 4096..(page + 1) * 4096].copy_from_slice(&new);
        std::fs::write(file(host), &bytes).unwrap();
        try_all(host, &format!("page {page} overwritten, round {round}"), &COMMANDS[..2]);
    }
    std::fs::write(file(host), whole).unwrap();
    assert!(Path::new(&host.data()).exists());
    host.check();
}
