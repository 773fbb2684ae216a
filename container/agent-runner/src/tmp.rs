//! The session's directory for temporary files.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;

use crate::log;
use crate::roots::Roots;

/// Creates the directory, or empties it: files of earlier incarnations are useless. Only called by the incarnation that
/// may work, after it has confined itself, since an agent may have put anything in its place.
pub(crate) fn empty(roots: &Roots) {
    let Some(dir) = &roots.tmp else { return };
    let removed = match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    let made = removed.and_then(|()| DirBuilder::new().recursive(true).mode(0o700).create(dir));
    if let Err(error) = made {
        log::note(format_args!("cannot empty {} for temporary files: {error}", dir.display()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_there_and_empty_whatever_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let tmp = dir.path().join("tmp/se1");
        let roots = Roots { tmp: Some(tmp.clone()), ..Roots::default() };
        empty(&roots);
        assert!(tmp.is_dir());
        fs::create_dir_all(tmp.join("a/b")).unwrap();
        fs::create_dir(dir.path().join("other")).unwrap();
        fs::write(dir.path().join("other/kept"), "").unwrap();
        std::os::unix::fs::symlink(dir.path().join("other"), tmp.join("a/link")).unwrap();
        empty(&roots);
        assert_eq!(fs::read_dir(&tmp).unwrap().count(), 0);
        assert!(dir.path().join("other/kept").exists(), "links are not followed");
    }
}
