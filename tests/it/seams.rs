//! Variables for tests, and a build that does not contain them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::host::{Host, Running};

/// The program without debug assertions: only the packages that read variables for tests are compiled anew.
fn plain() -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_hearth"));
    if !cfg!(debug_assertions) {
        return built.to_owned();
    }
    let folder = built.parent().unwrap();
    let profile = match folder.file_name().and_then(|name| name.to_str()).unwrap() {
        "debug" => "dev",
        other => other,
    };
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    cargo.args(["build", "--offline", "--workspace", "--features", "plain", "--example", "hearth-plain"]);
    cargo.args(["--profile", profile]).arg("--target-dir").arg(folder.parent().unwrap());
    for package in ["hearth", "hearth-base", "hearth-edges", "hearth-engine", "hearth-state", "agent-runner"] {
        cargo.arg("--config").arg(format!("profile.{profile}.package.{package}.debug-assertions=false"));
    }
    let built = cargo.output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    folder.join("examples/hearth-plain")
}

/// Whether the name of a variable for tests is in a program.
fn names_variables(program: &Path) -> bool {
    let found = Command::new("grep").args(["-q", "-a", "-F", "HEARTH_TEST_"]).arg(program).status().unwrap();
    found.success()
}

/// A conversation with an agent that echoes, in one command.
fn conversation(host: &Host, program: &Path) -> (Option<i32>, String) {
    let mut command = host.bare(program.to_str().unwrap());
    command.args(["chat", "hello", "--data"]).arg(host.data());
    let ended = Running::start(command, b"").end();
    (ended.code, ended.stdout)
}

#[test]
fn a_build_without_debug_assertions_ignores_variables_for_tests() {
    let plain = plain();
    assert!(!names_variables(&plain));
    let mut host = Host::with_echo();
    let notes = host.path("notes");
    let with = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
    let cases = [
        with("HEARTH_TEST_CRASH_AT", "any"),
        with("HEARTH_TEST_POINTS", notes.to_str().unwrap()),
        with("HEARTH_TEST_RUNNER", "/nonexistent"),
    ];
    for case in cases {
        host.env = case;
        assert_eq!(conversation(&host, &plain), (Some(0), "echo: hello\n".to_owned()), "{:?}", host.env);
        assert!(!notes.exists());
    }
}

/// So that the test above shows something.
#[cfg(debug_assertions)]
#[test]
fn a_build_with_debug_assertions_heeds_variables_for_tests() {
    let program = Path::new(env!("CARGO_BIN_EXE_hearth"));
    assert!(names_variables(program));
    let mut host = Host::with_echo();
    host.env.push(("HEARTH_TEST_POINTS".to_owned(), host.path("notes").to_str().unwrap().to_owned()));
    assert_eq!(conversation(&host, program).0, Some(0));
    assert!(host.path("notes").exists());
    host.env.push(("HEARTH_TEST_CRASH_AT".to_owned(), "any".to_owned()));
    assert_eq!(conversation(&host, program).0, None, "it kills itself");
}
