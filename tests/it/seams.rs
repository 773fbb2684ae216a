//! Variables for tests: builds with debug assertions read them. `tests/plain` shows that other builds do not.

use std::path::{Path, PathBuf};

use crate::host::Host;

/// The modules that name variables for tests; `tests/plain` compiles both.
const READERS: [&str; 2] = ["src/config/seams.rs", "container/agent-runner/src/roots.rs"];

#[test]
fn only_two_modules_name_variables_for_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut ahead: Vec<PathBuf> = ["src", "container", "tools"].map(|part| root.join(part)).to_vec();
    let mut readers = Vec::new();
    while let Some(path) = ahead.pop() {
        if path.is_dir() {
            // Folders named `tests` contain only tests.
            let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
            ahead.extend(entries.filter(|path| !path.ends_with("tests")));
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let production = text.split("\n#[cfg(test)]\nmod tests").next().unwrap();
            if production.contains("\"HEARTH_TEST_") {
                readers.push(path.strip_prefix(root).unwrap().to_owned());
            }
        }
    }
    readers.sort();
    let mut expected = READERS.map(PathBuf::from);
    expected.sort();
    assert_eq!(readers, expected);
}

#[cfg(debug_assertions)]
#[test]
fn a_build_with_debug_assertions_heeds_variables_for_tests() {
    let mut host = Host::with_echo();
    let notes = host.path("notes");
    host.env.push(("HEARTH_TEST_POINTS".to_owned(), notes.to_str().unwrap().to_owned()));
    assert_eq!(host.done(&["chat", "hello"], b""), "echo: hello\n");
    assert!(notes.exists());
    host.env.push(("HEARTH_TEST_CRASH_AT".to_owned(), "any".to_owned()));
    assert_eq!(host.run(&["chat", "hello"], b"").code, None, "it kills itself");
}
