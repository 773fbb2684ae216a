//! The service's unit file, with a crash at every point of its creation and removal: the same command then does its
//! work, and nothing unfinished remains beside it.

use std::path::{Path, PathBuf};

use super::passed;
use crate::host::beside::failing;
use crate::host::installed::{INSTALL, System};

/// The command, and whether the service was installed before it.
type Case = (&'static [&'static str], bool);

const CASES: [Case; 3] = [(INSTALL, false), (INSTALL, true), (&["uninstall"], true)];

/// A system with or without another version of the service installed, and the path of its file.
fn system(installed: bool) -> (System, PathBuf) {
    let system = System::new();
    system.host.apply("schema = 1\n");
    let file = PathBuf::from(system.json(&["install", "--dry-run"])["file"].as_str().unwrap());
    if installed {
        assert_eq!(system.run(INSTALL).code, Some(0));
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, format!("{text}# another\n")).unwrap();
    }
    (system, file)
}

/// Number of crashes at the same time: they wait more than they work.
const THREADS: usize = 3;

/// The points of a case.
fn of((arguments, installed): Case) -> Vec<String> {
    let (mut system, _) = system(installed);
    let notes = system.host.path("points");
    system.host.env.push(("HEARTH_TEST_POINTS".to_owned(), notes.display().to_string()));
    assert_eq!(system.run(arguments).code, Some(0));
    passed(&notes)
}

/// The points of all cases.
pub(super) fn points() -> Vec<String> {
    CASES.into_iter().flat_map(of).collect()
}

#[test]
fn a_death_while_the_service_comes_or_goes_is_survived() {
    for case in CASES {
        let points = of(case);
        assert!(points.len() > 3, "{points:?}");
        let at: Vec<usize> = (0..points.len()).collect();
        let failed = failing(THREADS, &at, |at| dies(case, *at, &points[*at]));
        assert!(failed.is_empty(), "{:?} at {failed:?} of {points:?}", case.0);
    }
}

fn dies(case: Case, at: usize, point: &str) {
    let (mut system, file) = system(case.1);
    let before = std::fs::read(&file).ok();
    system.host.env.push(("HEARTH_TEST_CRASH_AT".to_owned(), format!("any:{}", at + 1)));
    let ended = system.run(case.0);
    assert_eq!(ended.signal, Some(9), "{point}: {ended:#?}");
    system.host.env.pop();
    let (after, wanted) = (std::fs::read(&file).ok(), wanted(&system, case.0));
    assert!(after == before || after == wanted, "{point}: half a file");
    let ended = system.run(case.0);
    assert_eq!(ended.code, Some(0), "{point}: {ended:#?}");
    assert!(std::fs::read(&file).ok() == wanted, "{point}");
    assert_eq!(beside(&file), Vec::<PathBuf>::new(), "{point}");
}

/// The expected content of the file after the command.
fn wanted(system: &System, arguments: &[&str]) -> Option<Vec<u8>> {
    let text = system.json(&["install", "--dry-run"])["text"].as_str().unwrap().to_owned();
    (arguments == INSTALL).then(|| text.into_bytes())
}

/// Other files in the directory of the unit file.
fn beside(file: &Path) -> Vec<PathBuf> {
    let all = std::fs::read_dir(file.parent().unwrap()).unwrap().flatten().map(|entry| entry.path());
    all.filter(|path| path != file).collect()
}
