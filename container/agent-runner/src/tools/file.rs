//! Restricts the files that an agent may send to its own directories. This guards against mistakes and against what
//! strangers talk an agent into; it does not restrict what the agent's process can read.

use std::io;
use std::path::{Path, PathBuf};

use hearth_wire::is_safe_file_name;

use crate::outgoing::{Attachment, Source};
use crate::roots::Roots;

/// Where an agent's directories are mounted in a container, and its working directory there.
const CONTAINER: &str = "/workspace";
const CONTAINER_GROUP: &str = "/workspace/group";
/// Temporary directory of an agent without its own.
const TMP: &str = "/tmp";

/// An attachment of the file at a path that the agent gave, as `name` or else under its own name.
pub(super) fn attachment(roots: &Roots, path: &str, name: Option<&str>) -> Result<Attachment, String> {
    let named = roots.group.join(path);
    let real = std::fs::canonicalize(&named).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidInput => {
            format!("File not found: {path}")
        }
        _ => format!("File cannot be read: {path} ({error})"),
    })?;
    if !allowed(roots).iter().any(|root| real.starts_with(root)) {
        return Err(format!("File is outside of your own directories: {path}; copy it into one of them first"));
    }
    if !real.is_file() {
        return Err(format!("Not a file: {path}"));
    }
    let own = named.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = name.map(str::to_owned).or(own).unwrap_or_default();
    if !is_safe_file_name(&name) {
        return Err(format!("filename must be a plain file name: {name:?}"));
    }
    Ok(Attachment { name, source: Source::Path(real) })
}

/// The allowed directories, with links resolved; missing ones are skipped.
fn allowed(roots: &Roots) -> Vec<PathBuf> {
    let Roots { session, group, home, tmp, .. } = roots;
    let tmp = tmp.as_deref().unwrap_or(Path::new(TMP));
    let mut dirs = vec![session.as_path(), group, home, tmp];
    dirs.extend(roots.additional_dirs());
    if group == Path::new(CONTAINER_GROUP) {
        dirs.push(Path::new(CONTAINER));
    }
    dirs.into_iter().filter_map(|dir| std::fs::canonicalize(dir).ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn roots(dir: &Path) -> Roots {
        for name in ["session", "group/sub", "home", "tmp", "outside"] {
            fs::create_dir_all(dir.join(name)).unwrap();
        }
        let at = |name: &str| dir.join(name);
        Roots { session: at("session"), group: at("group"), home: at("home"), tmp: Some(at("tmp")), ..Roots::default() }
    }

    #[test]
    fn own_files_are_sent_and_others_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let roots = roots(dir.path());
        for name in ["group/a.txt", "group/sub/b.txt", "home/h.txt", "tmp/t.txt", "session/s.txt", "outside/secret"] {
            fs::write(dir.path().join(name), name).unwrap();
        }
        let inside = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        symlink(inside("outside/secret"), inside("group/link")).unwrap();
        symlink(inside("outside"), inside("group/way")).unwrap();
        symlink(inside("home/h.txt"), inside("group/mine")).unwrap();
        symlink("loop", inside("group/loop")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, inside("group/pipe"), rustix::fs::Mode::RUSR).unwrap();
        for (path, sent_as) in [
            ("a.txt".to_owned(), "a.txt"),
            ("./sub/../sub/b.txt".to_owned(), "b.txt"),
            ("../home/h.txt".to_owned(), "h.txt"),
            (inside("tmp/t.txt"), "t.txt"),
            (inside("session/s.txt"), "s.txt"),
            ("mine".to_owned(), "mine"),
        ] {
            let found = attachment(&roots, &path, None).unwrap_or_else(|why| panic!("{path}: {why}"));
            assert_eq!(found.name, sent_as, "{path}");
        }
        let absent = inside("group/none");
        for (path, begins) in [
            ("none", "File not found: none"),
            (absent.as_str(), "File not found: /"),
            ("a.txt/b", "File not found: a.txt/b"),
            ("a\0b", "File not found: a"),
            ("../outside/secret", "File is outside of your own directories: ../outside/secret"),
            ("link", "File is outside of your own directories: link"),
            ("way/secret", "File is outside of your own directories: way/secret"),
            ("/etc/passwd", "File is outside of your own directories: /etc/passwd"),
            ("loop", "File cannot be read: loop"),
            ("sub", "Not a file: sub"),
            ("", "Not a file: "),
            ("pipe", "Not a file: pipe"),
        ] {
            let why = attachment(&roots, path, None).unwrap_err();
            assert!(why.starts_with(begins), "{path}: {why}");
        }
    }

    /// The table of safe names.
    #[test]
    fn files_are_sent_under_plain_names() {
        let dir = tempfile::tempdir().unwrap();
        let roots = roots(dir.path());
        fs::write(dir.path().join("group/a.txt"), "a").unwrap();
        for name in ["baby-duck.png", "file with spaces.pdf", "report.v2.docx", ".hidden"] {
            assert_eq!(attachment(&roots, "a.txt", Some(name)).unwrap().name, name);
        }
        for name in ["", ".", "..", "../evil.png", "/etc/passwd", "a/b", "windows\\path.exe", "clean\0.png", "./thing"]
        {
            let why = attachment(&roots, "a.txt", Some(name)).unwrap_err();
            assert!(why.starts_with("filename must be a plain file name"), "{name:?}: {why}");
        }
    }
}
