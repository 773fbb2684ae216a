//! Where Python is, in which many parts around Hearth are written.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// The search path of every program. With a version manager `python3` is a shell script that costs ten times the start
/// of the interpreter: then the interpreter's own directory comes first.
pub(crate) fn search_path() -> &'static str {
    static PATH: LazyLock<String> = LazyLock::new(|| {
        let path = std::env::var("PATH").unwrap_or_default();
        match interpreter(&path) {
            Some(directory) => format!("{}:{path}", directory.display()),
            None => path,
        }
    });
    &PATH
}

/// The directory of the interpreter, unless the search path leads there at once.
fn interpreter(path: &str) -> Option<PathBuf> {
    let first = std::env::split_paths(path).find(|directory| directory.join("python3").is_file())?;
    let asked = Command::new("python3").args(["-c", "import sys; print(sys.executable, end='')"]).output().ok()?;
    let program = String::from_utf8(asked.stdout).ok()?;
    let directory = Path::new(&program).parent()?;
    (directory.is_absolute() && directory != first).then(|| directory.to_owned())
}
