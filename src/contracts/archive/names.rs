//! Rules for the names in an archive. Pure.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use super::format::{Head, Kind};
use crate::contracts::allowlist::is_credential;

/// The entry that says what an archive is.
pub(super) const IDENTITY: &[u8] = b"backup.json";
/// The entry that ends an archive.
pub(super) const CONTENTS: &[u8] = b"contents.json";
/// The store's file, and the manifest of its snapshot.
pub(super) const STORE: [&[u8]; 2] = [b"store/manifest.json", b"store/data.mdb"];

/// Longest path in an archive, in bytes.
pub(super) const PATH_MAX: usize = 4_000;
/// Longest component of a path, in bytes.
const NAME_MAX: usize = 255;
/// Maximum number of components of a path. A restore as root gives files to the agents' user down to this depth.
pub(super) const DEPTH_MAX: usize = 64;
/// Bits that a mode may have.
pub(super) const MODE: u32 = 0o777;

/// Files of the operator in the data directory.
pub(super) const FILES: [&str; 2] = ["hearth.toml", "hearth.toml.old"];

/// Names of credentials of agent CLIs in a home, in addition to those that are never mounted for agents.
const CREDENTIALS: [&str; 6] =
    [".credentials.json", ".claude.json", "auth.json", "oauth_creds.json", "credentials.json", "hosts.yml"];

/// Whether a file or directory in an agent's home has the name of a credential.
pub(super) fn is_secret(name: &OsStr) -> bool {
    let Some(text) = name.to_str() else { return false };
    let text = text.to_lowercase();
    let is_own = |known: &&str| text.strip_prefix(*known).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    CREDENTIALS.iter().any(is_own) || is_credential(&text)
}

/// The number of leading components that a link may not leave: 3 for `bridges/<channel>/state`, 2 for
/// `groups/<folder>`, 1 for `skills`.
fn root_of(parts: &[&[u8]]) -> Option<usize> {
    match parts {
        [b"bridges", _, b"state", _, ..] => Some(3),
        [b"groups" | b"homes", _, _, ..] => Some(2),
        [b"trusted" | b"skills", _, ..] => Some(1),
        _ => None,
    }
}

/// Checks an entry that is about to be unpacked. The error says what is wrong, as the end of a sentence.
pub(super) fn judge(head: &Head) -> Result<(), String> {
    let parts = components(&head.path)?;
    if head.mode & !MODE != 0 {
        return Err("has a set-user-id, set-group-id or sticky bit".to_owned());
    }
    let known = match (parts.as_slice(), head.kind) {
        ([b"store", b"manifest.json" | b"data.mdb"], Kind::File)
        | ([b"files", _, _] | [b"secrets", _], Kind::File)
        | ([b"groups", b"CLAUDE.md"], Kind::File)
        | ([b"bridges", _, b"state", _, ..], _)
        | ([b"bridges", _, b"state"], Kind::Directory)
        | ([b"groups" | b"homes", _, _, ..] | [b"trusted" | b"skills", _, ..], _)
        | ([b"groups" | b"homes", _] | [b"trusted" | b"skills"], Kind::Directory) => true,
        ([name], Kind::File) => FILES.iter().any(|file| file.as_bytes() == *name),
        _ => false,
    };
    if !known {
        return Err("does not belong in a backup".to_owned());
    }
    match (head.kind, root_of(&parts)) {
        (Kind::Link, Some(root)) if !stays_inside(parts.len().saturating_sub(root + 1), &head.target) => {
            Err("is a link that leads out of its directory".to_owned())
        }
        _ => Ok(()),
    }
}

/// The components of a path that stays inside the directory in which it is unpacked.
pub(super) fn components(path: &[u8]) -> Result<Vec<&[u8]>, String> {
    if path.len() > PATH_MAX {
        return Err(format!("has a path of more than {PATH_MAX} bytes"));
    }
    if path.first() == Some(&b'/') {
        return Err("has an absolute path".to_owned());
    }
    if path.contains(&0) {
        return Err("has a path with a zero byte".to_owned());
    }
    let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    if parts.contains(&&b".."[..]) {
        return Err("has `..` in its path".to_owned());
    }
    if parts.iter().any(|part| part.is_empty() || *part == b".") {
        return Err("has a path with special components".to_owned());
    }
    if parts.iter().any(|part| part.len() > NAME_MAX) || parts.len() > DEPTH_MAX {
        return Err("has a path that is too deep, or a name that is too long".to_owned());
    }
    Ok(parts)
}

/// Whether a link stays within its tree. `depth` is the number of directories between the root of the tree and the
/// link.
///
/// `..` may be only at the beginning. The kernel resolves links on the way, so a later `..` could lead to another place
/// than the text says.
pub(super) fn stays_inside(depth: usize, target: &[u8]) -> bool {
    if target.is_empty() || target.len() > PATH_MAX || target.first() == Some(&b'/') || target.contains(&0) {
        return false;
    }
    let parts = target.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    let ups = parts.clone().take_while(|part| *part == b"..").count();
    ups <= depth && !parts.skip(ups).any(|part| part == b"..")
}

/// Joins a path and a name.
pub(super) fn join(path: &[u8], name: &OsStr) -> Vec<u8> {
    [path, b"/", name.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_stay_in_their_tree() {
        for (depth, target, stays) in [
            (0, "a", true),
            (0, "a/b", true),
            (1, "../a", true),
            (2, "../../a/./b", true),
            (0, "..", false),
            (1, "../../a", false),
            // `a` may itself be a link, so the meaning of `..` after it is unknown.
            (3, "a/../b", false),
            (0, "/etc/passwd", false),
            (0, "", false),
        ] {
            assert_eq!(stays_inside(depth, target.as_bytes()), stays, "{depth} {target}");
        }
    }

    #[test]
    fn credentials_are_known_by_their_names() {
        for (name, secret) in [
            (".credentials.json", true),
            (".claude.json", true),
            (".claude.json.backup", true),
            ("auth.json", true),
            (".netrc", true),
            (".ssh", true),
            (".env.local", true),
            ("settings.json", false),
            ("author.json", false),
            (".claude", false),
            ("projects", false),
        ] {
            assert_eq!(is_secret(OsStr::new(name)), secret, "{name}");
        }
    }

    #[test]
    fn only_paths_of_a_data_directory_are_accepted() {
        let head = |path: &str, kind| Head { path: path.into(), kind, mode: 0o600, ..Head::default() };
        for (path, kind) in [
            ("store/data.mdb", Kind::File),
            ("files/ab/abcd", Kind::File),
            ("groups/CLAUDE.md", Kind::File),
            ("groups/main", Kind::Directory),
            ("groups/main/a/b", Kind::File),
            ("trusted", Kind::Directory),
            ("bridges/net/state", Kind::Directory),
            ("bridges/net/state/a/b", Kind::File),
            ("hearth.toml", Kind::File),
        ] {
            assert_eq!(judge(&head(path, kind)), Ok(()), "{path}");
        }
        for (path, kind, why) in [
            ("/etc/passwd", Kind::File, "absolute"),
            ("groups/main/../../x", Kind::File, "`..`"),
            ("groups//x", Kind::File, "special components"),
            ("run/token", Kind::File, "does not belong"),
            ("hearth.lock", Kind::File, "does not belong"),
            ("groups", Kind::Link, "does not belong"),
            ("groups/main", Kind::Link, "does not belong"),
            ("groups/main", Kind::File, "does not belong"),
            ("files/ab/abcd", Kind::Link, "does not belong"),
            ("secrets/a/b", Kind::File, "does not belong"),
            ("bridges/net/state", Kind::Link, "does not belong"),
            ("bridges/net/files/a", Kind::File, "does not belong"),
            ("bridges/net/lock", Kind::File, "does not belong"),
        ] {
            assert!(judge(&head(path, kind)).unwrap_err().contains(why), "{path}");
        }
        let set_id = Head { mode: 0o4755, ..head("groups/main/a", Kind::File) };
        assert!(judge(&set_id).unwrap_err().contains("set-user-id"));
        let out = Head { target: b"../x".to_vec(), ..head("groups/main/a", Kind::Link) };
        assert!(judge(&out).unwrap_err().contains("leads out"));
        let out = Head { target: b"../../x".to_vec(), ..head("bridges/net/state/a/b", Kind::Link) };
        assert!(judge(&out).unwrap_err().contains("leads out"));
        let inside = Head { target: b"../x".to_vec(), ..head("groups/main/a/b", Kind::Link) };
        assert_eq!(judge(&inside), Ok(()));
    }
}
