//! Source rules that no lint covers.

use std::path::{Path, PathBuf};

fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("tests") {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    found
}

/// A process that opens and closes a file of LMDB loses its POSIX locks on it: another process then takes the write
/// lock at once, and committed writes are lost without an error. Looking at names and sizes is harmless.
#[test]
fn nothing_opens_the_files_of_lmdb() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for path in sources(root) {
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
        for (number, line) in (1..).zip(code.lines()) {
            let place = format!("{}:{number}: {line}", path.display());
            let plain = line.split("//").next().unwrap();
            let names = path == root.join("files.rs");
            assert!(!plain.contains("lock.mdb") || names, "only LMDB opens its lock file: {place}");
            assert!(!plain.contains("lock_file(") || names || plain.contains("for path in"), "{place}");
            // Unfinished copies and copies in backups. The file explains why LMDB has none of them open.
            let copies = path.ends_with("backup/files.rs");
            // Reads the data file before this process opens it with LMDB. LMDB's locks are on the other file.
            let pages = path == root.join("pages.rs");
            assert!(!plain.contains("data.mdb") || names, "only LMDB opens its data file: {place}");
            for call in ["copy_to_path", "try_clone_inner_file", "real_disk_size", "fs::read(", "fs::copy("] {
                assert!(!plain.contains(call), "opens or closes a file of LMDB: {place}");
            }
            let opens = [" OpenOptions::new()", "File::open", "File::create", "fs::open(", "files::open("]
                .iter()
                .any(|call| plain.contains(call));
            let own_file = path.ends_with("lock.rs") || path.ends_with("room.rs") || copies || pages || names;
            assert!(
                !opens || own_file,
                "only the daemon's lock, the reserve, copies and doubtful files are opened here: {place}"
            );
        }
    }
}

/// A lint checks endianness. This test checks that bytes become records in one place only.
#[test]
fn one_file_names_the_codec() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for path in sources(root).into_iter().filter(|path| !path.ends_with("envelope.rs")) {
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains("bincode::"), "{} names the codec", path.display());
    }
}
