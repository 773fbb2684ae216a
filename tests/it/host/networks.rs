//! The program `hearth-networks`, which is a package of its own: `cargo test --workspace` builds it.

use std::path::{Path, PathBuf};

use super::skipped;

/// The program; none where it is not built.
pub(crate) fn program() -> Option<PathBuf> {
    let built = |path: &Path| std::fs::metadata(path).and_then(|about| about.modified()).ok();
    let program = Path::new(env!("CARGO_BIN_EXE_hearth")).with_file_name("hearth-networks");
    let Some(made) = built(&program) else {
        skipped("`hearth-networks` is not built (`cargo build -p hearth-networks`), so it is not tested");
        return None;
    };
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools/networks/src");
    let newest = files(&sources).into_iter().filter_map(|path| built(&path)).max();
    assert!(newest <= Some(made), "{} is older than its sources: `cargo build -p hearth-networks`", program.display());
    Some(program)
}

/// All files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}
