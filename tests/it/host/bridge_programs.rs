//! Bridges that are packages of their own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::SystemTime;

/// The program `hearth-<name>`, built from `tools/<name>`. Panics if it is missing or older than its sources, because a test
/// that skips itself then would never be noticed: `cargo test --workspace` builds all programs.
pub(crate) fn program(name: &str) -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_hearth")).with_file_name(format!("hearth-{name}"));
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools").join(name).join("src");
    let advice = format!("`cargo test --workspace` or `cargo build -p hearth-{name}` builds it");
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
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools/matrix/Cargo.toml");
        #[expect(clippy::disallowed_methods, reason = "the compiler")]
        let mut cargo = Command::new(env!("CARGO"));
        let cargo = cargo.args(["build", "--locked", "--quiet"]).arg("--manifest-path").arg(manifest);
        assert!(cargo.arg("--target-dir").arg(target).status().unwrap().success(), "it cannot be built");
        target.join("debug/hearth-matrix")
    });
    BUILT.clone()
}

fn newest(directory: &Path) -> SystemTime {
    let entries = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
    let times = entries.map(|entry| {
        let about = entry.metadata().unwrap();
        if about.is_dir() { newest(&entry.path()) } else { about.modified().unwrap() }
    });
    times.max().unwrap_or(SystemTime::UNIX_EPOCH)
}
