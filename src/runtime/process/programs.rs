//! Resolves the real paths of programs without following links that an agent could have made.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

/// Maximum number of links in one path; the system's own limit.
const LINKS_MAX: usize = 40;

/// Directories that package and version managers keep beside a program's directory, with what the program needs.
const SIBLINGS: [&str; 9] = ["lib", "lib64", "libexec", "shims", "bin", "versions", "version", "installs", "plugins"];

/// What a program needs: its file, the directories it lies in and what was installed with it. Excludes everything in or
/// reached through the data directory, which is the first of `guarded`. Of a directory that contains something guarded,
/// only the program's file is included.
pub(super) fn places(found: &Path, guarded: &[PathBuf]) -> Vec<PathBuf> {
    let Some(file) = real(found, guarded) else { return Vec::new() };
    let mut places = vec![file.clone()];
    for file in [Some(file), real_directory(found, guarded)].into_iter().flatten() {
        let Some(directory) = file.parent().filter(|directory| is_narrow(directory, guarded)) else { continue };
        places.push(directory.to_owned());
        let prefix = directory.parent().filter(|_| is_programs(directory));
        let siblings = prefix.into_iter().flat_map(|prefix| SIBLINGS.map(|name| prefix.join(name)));
        places.extend(siblings.filter(|sibling| is_ours(sibling, guarded)));
    }
    places.sort();
    places.dedup();
    places
}

/// The file that an absolute argument of a command names, if it is a file.
pub(super) fn named_file(argument: &str, guarded: &[PathBuf]) -> Option<PathBuf> {
    let path = Path::new(argument);
    real(path, guarded).filter(|real| path.is_absolute() && real.is_file())
}

/// The directories of a search path that lie in one of `readable`.
pub(super) fn reachable(path: &OsStr, readable: &[PathBuf]) -> OsString {
    let inside = |entry: &Path| readable.iter().any(|readable| entry.starts_with(readable));
    let within = |entry: &&OsStr| {
        let entry = Path::new(entry);
        entry.is_absolute() && (inside(entry) || entry.canonicalize().is_ok_and(|real| inside(&real)))
    };
    let entries: Vec<&OsStr> =
        path.as_bytes().split(|byte| *byte == b':').map(OsStr::from_bytes).filter(within).collect();
    if entries.is_empty() { "/usr/local/bin:/usr/bin:/bin".into() } else { entries.join(OsStr::new(":")) }
}

/// Resolves every link on the way; `None` if the path leads through the data directory, where agents make links.
pub(super) fn real(path: &Path, guarded: &[PathBuf]) -> Option<PathBuf> {
    walk(path, guarded).map(|(real, _)| real)
}

/// The links on the way to a path: their resolved locations and their targets.
pub(super) fn links(path: &Path, guarded: &[PathBuf]) -> Vec<Link> {
    walk(path, guarded).map(|(_, links)| links).unwrap_or_default()
}

/// Location and target of a link.
pub(super) type Link = (PathBuf, PathBuf);

fn walk(path: &Path, guarded: &[PathBuf]) -> Option<(PathBuf, Vec<Link>)> {
    let mut done = PathBuf::from("/");
    let mut rest = components(path);
    let mut links = Vec::new();
    while let Some(name) = rest.pop() {
        if name == ".." {
            done.pop();
            continue;
        }
        let next = done.join(&name);
        if guarded.first().is_some_and(|data| next.starts_with(data)) {
            return None;
        }
        match std::fs::read_link(&next) {
            Ok(_) if links.len() == LINKS_MAX => return None,
            Ok(target) => {
                if target.is_absolute() {
                    done = PathBuf::from("/");
                }
                rest.extend(components(&target));
                links.push((next, target));
            }
            Err(_) => done = next,
        }
    }
    Some((done, links))
}

/// The components in reverse order.
fn components(path: &Path) -> Vec<OsString> {
    let wanted = |component: &Component<'_>| matches!(component, Component::Normal(_) | Component::ParentDir);
    path.components().rev().filter(wanted).map(|component| component.as_os_str().to_owned()).collect()
}

/// The location of a link itself: programs look for others beside the name they were called by.
fn real_directory(path: &Path, guarded: &[PathBuf]) -> Option<PathBuf> {
    Some(real(path.parent()?, guarded)?.join(path.file_name()?))
}

/// Where a program is, looked up from `dir` and along `path`.
pub(super) fn find(program: &str, dir: &Path, path: &OsStr) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(dir.join(program));
    }
    let entries = path.as_bytes().split(|byte| *byte == b':').map(OsStr::from_bytes).map(Path::new);
    entries.filter(|entry| entry.is_absolute()).map(|entry| entry.join(program)).find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

fn is_programs(directory: &Path) -> bool {
    directory.file_name().is_some_and(|name| name == "bin" || name == "shims")
}

/// Whether a directory can be shown as a whole: it is no general directory like `/tmp`, and contains nothing guarded.
fn is_narrow(directory: &Path, guarded: &[PathBuf]) -> bool {
    directory.components().count() > 2 && is_ours(directory, guarded)
}

fn is_ours(directory: &Path, guarded: &[PathBuf]) -> bool {
    !guarded.iter().any(|guarded| guarded.starts_with(directory))
        && guarded.first().is_none_or(|data| !directory.starts_with(data))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A directory tree in which `data` is the data directory and `home` a user's home.
    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new() -> Self {
            let tree = Self(tempfile::tempdir().unwrap());
            for name in
                ["data/groups/main", "home/.local/bin", "home/.local/share/tool/versions", "home/v/bin", "sys/bin"]
            {
                std::fs::create_dir_all(tree.path(name)).unwrap();
            }
            for name in ["data/groups/main/agent", "home/agent", "home/.local/share/tool/versions/2", "home/v/bin/node"]
            {
                std::fs::write(tree.path(name), "").unwrap();
                std::fs::set_permissions(tree.path(name), std::fs::Permissions::from_mode(0o755)).unwrap();
            }
            symlink("../share/tool/versions/2", tree.path("home/.local/bin/tool")).unwrap();
            tree
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(name)
        }

        fn places(&self, program: &str) -> Vec<PathBuf> {
            let path =
                ["sys/bin", "home/.local/bin", "home/v/bin"].map(|name| self.path(name)).map(PathBuf::into_os_string);
            let guarded = [self.path("data"), self.path("home")];
            let found = find(program, &self.path("data/groups/main"), &path.join(OsStr::new(":")));
            found.map(|found| places(&found, &guarded)).unwrap_or_default()
        }
    }

    #[test]
    fn a_program_comes_with_its_directory_and_what_was_installed_with_it() {
        let tree = Tree::new();
        let places = tree.places("tool");
        for name in ["home/.local/bin", "home/.local/lib", "home/.local/share/tool/versions"] {
            assert!(places.contains(&tree.path(name)), "{name}: {places:?}");
        }
        assert!(!places.contains(&tree.path("home/.local")) && !places.contains(&tree.path("home/.local/share")));
        assert!(tree.places("node").contains(&tree.path("home/v/lib")));
        assert!(tree.places("unknown").is_empty());
    }

    #[test]
    fn of_a_home_only_the_program_itself() {
        let tree = Tree::new();
        assert_eq!(tree.places(tree.path("home/agent").to_str().unwrap()), [tree.path("home/agent")]);
        assert!(
            !is_narrow(Path::new("/tmp"), &[]) && !is_narrow(Path::new("/"), &[]) && is_narrow(Path::new("/a/b"), &[])
        );
    }

    #[test]
    fn nothing_by_way_of_what_an_agent_can_change() {
        let tree = Tree::new();
        std::fs::write(tree.path("home/secret"), "").unwrap();
        symlink(tree.path("home/secret"), tree.path("data/groups/main/trap")).unwrap();
        symlink(tree.path("data/groups/main"), tree.path("sys/agents")).unwrap();
        symlink("../data/groups/main/trap", tree.path("sys/trap")).unwrap();
        let guarded = [tree.path("data")];
        for name in ["data/groups/main/trap", "sys/agents/trap", "sys/trap", "sys/agents", "sys/../data/run"] {
            assert_eq!(real(&tree.path(name), &guarded), None, "{name}");
            assert_eq!(tree.places(tree.path(name).to_str().unwrap()), Vec::<PathBuf>::new(), "{name}");
            assert_eq!(named_file(tree.path(name).to_str().unwrap(), &guarded), None, "{name}");
        }
        assert_eq!(tree.places("./agent"), Vec::<PathBuf>::new(), "its own folder needs no rule of its own");
        assert_eq!(named_file(tree.path("home/agent").to_str().unwrap(), &guarded), Some(tree.path("home/agent")));
        assert_eq!(named_file("agent", &guarded), None);
        symlink("loop", tree.path("sys/loop")).unwrap();
        assert_eq!(real(&tree.path("sys/loop"), &guarded), None);
    }

    #[test]
    fn the_search_path_keeps_what_can_be_read() {
        let readable = [PathBuf::from("/usr"), PathBuf::from("/opt/tool/bin")];
        let path = OsStr::new("/root/bin:/usr/local/bin::/opt/tool/bin:bin:/opt");
        assert_eq!(reachable(path, &readable), "/usr/local/bin:/opt/tool/bin");
        assert_eq!(reachable(OsStr::new("/root/bin"), &readable), "/usr/local/bin:/usr/bin:/bin");
    }
}
