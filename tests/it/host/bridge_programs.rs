//! Bridges that are packages of their own, their processes, and stand-ins for their networks.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::SystemTime;

use serde_json::Value;

use super::{Host, skipped};

/// The program `hearth-<name>`, built from `tools/<name>`. Panics if it is missing or older than its sources, because a test
/// that skips itself then would never be noticed: `cargo test --workspace` builds all programs.
pub(crate) fn program(name: &str) -> PathBuf {
    let package = if name == "mqtt" { "networks" } else { name };
    let program = Path::new(env!("CARGO_BIN_EXE_hearth")).with_file_name(format!("hearth-{name}"));
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools").join(package).join("src");
    let advice = format!("`cargo test --workspace` or `cargo build -p hearth-{package}` builds it");
    let built = program.metadata().and_then(|about| about.modified());
    let built = built.unwrap_or_else(|error| panic!("{}: {error}; {advice}", program.display()));
    assert!(newest(&sources) <= built, "{} is older than its sources; {advice}", program.display());
    program
}

/// The program `hearth-matrix`, which is a workspace of its own: `cargo test --workspace` does not build it, so it is built
/// here unless that was done.
pub(crate) fn matrix() -> PathBuf {
    static BUILT: LazyLock<PathBuf> = LazyLock::new(|| {
        let target = Path::new(env!("CARGO_BIN_EXE_hearth")).ancestors().nth(2).unwrap();
        let (program, root) = (target.join("debug/hearth-matrix"), Path::new(env!("CARGO_MANIFEST_DIR")));
        let sources = ["tools/matrix/src", "container/bridge/src"].map(|part| newest(&root.join(part)));
        // Cargo would wait for everything that is being built beside the tests.
        if program.metadata().is_ok_and(|about| sources.iter().max().copied() <= about.modified().ok()) {
            return program;
        }
        let manifest = root.join("tools/matrix/Cargo.toml");
        #[expect(clippy::disallowed_methods, reason = "the compiler")]
        let mut cargo = Command::new(env!("CARGO"));
        let cargo = cargo.args(["build", "--locked", "--quiet"]).arg("--manifest-path").arg(manifest);
        // Build scripts ask for it, so that the next build would compile everything anew.
        cargo.env_remove("RUSTC_BOOTSTRAP");
        assert!(cargo.arg("--target-dir").arg(target).status().unwrap().success(), "it cannot be built");
        program
    });
    BUILT.clone()
}

/// The program `hearth-whatsapp`, and `whatsapp-people`, the stand-in for its network.
pub(crate) struct Linked {
    pub(crate) bridge: PathBuf,
    pub(crate) people: PathBuf,
}

/// The programs of a workspace of its own that brings over a hundred crates: only `.ci/run nightly` builds it, with its tests.
/// None, which is reported, where that was not done after the last change.
pub(crate) fn linked() -> Option<Linked> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let built = Path::new(env!("CARGO_BIN_EXE_hearth")).ancestors().nth(2).unwrap().join("wa/debug");
    let programs = Linked { bridge: built.join("hearth-whatsapp"), people: built.join("examples/whatsapp-people") };
    let is_new = |program: &Path, sources: &[&str]| {
        let changed = sources.iter().map(|part| newest(&root.join(part))).max();
        program.metadata().is_ok_and(|about| changed <= about.modified().ok())
    };
    let bridge = is_new(&programs.bridge, &["tools/whatsapp/src", "container/bridge/src"]);
    if bridge && is_new(&programs.people, &["tools/whatsapp/tests/linked"]) {
        return Some(programs);
    }
    skipped(
        "a linked device of WhatsApp with a daemon needs programs that are missing or old: \
         `cargo test --manifest-path tools/whatsapp/Cargo.toml --target-dir target/wa` builds them",
    );
    None
}

/// The results of `hearth bridge test` with these arguments. The bridge has a minute for each answer, because other tests
/// run beside it.
pub(crate) fn kit(host: &Host, arguments: &[&str], bridge: &[&str]) -> Value {
    kit_within(host, "60", arguments, bridge)
}

/// The same with other seconds for an answer.
pub(crate) fn kit_within(host: &Host, seconds: &str, arguments: &[&str], bridge: &[&str]) -> Value {
    let data = host.data().display().to_string();
    let words = ["bridge", "test", "--json", "--data", &data, "--patience", seconds];
    // Not as other commands, which have less time than its cases take together.
    let mut command = host.bare(env!("CARGO_BIN_EXE_hearth"));
    command.args([&words[..], arguments, &["--"], bridge].concat()).stdin(Stdio::null());
    let ended = command.output().unwrap();
    serde_json::from_slice(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:#?}"))
}

/// The processes of a program.
pub(crate) fn running(program: &Path) -> Vec<u32> {
    let program = program.display().to_string();
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let runs = |pid: &u32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).next() == Some(program.as_bytes())
    };
    pids.filter(runs).collect()
}

/// Kills a process, which may have ended meanwhile.
pub(crate) fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).ok();
}

/// The contents of all files below a directory.
pub(crate) fn contents(directory: &Path) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { contents(&path) } else { vec![std::fs::read(path).unwrap()] }).collect()
}

fn newest(directory: &Path) -> SystemTime {
    let entries = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
    let times = entries.map(|entry| {
        let about = entry.metadata().unwrap();
        if about.is_dir() { newest(&entry.path()) } else { about.modified().unwrap() }
    });
    times.max().unwrap_or(SystemTime::UNIX_EPOCH)
}
