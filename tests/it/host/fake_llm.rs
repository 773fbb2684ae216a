//! The stand-in for the models of agents: `tests/fake_llm.py`, which does what messages tell it.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

/// The running stand-in. It ends when this is dropped.
pub(crate) struct FakeLlm {
    process: Child,
    /// Its port of the loopback address.
    pub(crate) port: u16,
}

impl FakeLlm {
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    /// Notes each request in a file, a line each.
    pub(crate) fn logging(log: &Path) -> Self {
        Self::with(&[log.as_os_str()])
    }

    fn with(more: &[&OsStr]) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fake_llm.py");
        let mut command = super::python();
        command.args([script, "0"]).args(more).stdout(Stdio::piped());
        let mut process = command.spawn().expect("python3 starts");
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { process, port: line.trim().parse().unwrap() }
    }
}

impl Drop for FakeLlm {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
