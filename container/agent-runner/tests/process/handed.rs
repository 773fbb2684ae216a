//! Secrets from the pipe: the runner restarts with them and does not log them.

#![expect(clippy::disallowed_methods, reason = "tests start the runner as a container would")]

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use agent_runner::SECRETS_VARIABLE;

/// The output of a runner that receives this through its pipe, and nothing else.
fn said(text: &str) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let pipe: PathBuf = directory.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let mut runner = Command::new(env!("CARGO_BIN_EXE_hearth-runner"));
    runner.env_clear().env(SECRETS_VARIABLE, &pipe).stdin(Stdio::null()).stderr(Stdio::piped());
    let runner = runner.spawn().unwrap();
    // Opening blocks until there is a reader.
    let mut host = std::fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    host.write_all(text.as_bytes()).unwrap();
    drop(host);
    runner.wait_with_output().unwrap()
}

#[test]
fn what_came_through_the_pipe_is_in_its_environment_and_is_not_said() {
    let ended = said("HEARTH_ROOTS=marked-value\0HEARTH_INCARNATION=1\0");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(2), "{said}");
    assert!(said.contains("HEARTH_ROOTS is \"[redacted]\"") && !said.contains("marked"), "{said}");
    // It did not wait for a second pipe.
    let ended = self::said("KEY=marked-value\0HEARTH_INCARNATION=none\0");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("HEARTH_INCARNATION is \"none\""), "{said}");
}

#[test]
fn without_its_secrets_it_does_not_start() {
    for text in ["KEY=marked-va", "KEY=a\0HEARTH_INCARNATION=1"] {
        let ended = said(text);
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{said}");
        assert!(said.contains("not started") && said.contains("its end is missing"), "{said}");
        assert!(!said.contains("marked"), "{said}");
    }
}
