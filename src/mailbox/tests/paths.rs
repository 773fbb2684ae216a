//! Directories by descriptor, with both ways of resolving.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use super::super::dir::{Dir, DirEntry, Removal, Resolver};
use super::super::trash::Trash;
use super::{fifo, names, os};

fn both(path: &Path) -> [Dir; 2] {
    [Resolver::Kernel, Resolver::Stepwise].map(|resolver| Dir::open_trusted(path).unwrap().resolving(resolver))
}

fn words<T>(look: DirEntry<T>) -> String {
    match look {
        DirEntry::Found(_) => "found".to_owned(),
        DirEntry::Absent => "absent".to_owned(),
        DirEntry::Refused(reason) => reason,
    }
}

#[test]
fn the_kernel_resolves_where_it_can() {
    let root = tempfile::tempdir().unwrap();
    assert_eq!(Dir::open_trusted(root.path()).unwrap().resolver(), Resolver::Kernel);
}

#[test]
fn directories_are_opened_beneath_and_without_links() {
    let root = tempfile::tempdir().unwrap();
    let inside = root.path().join("inside");
    fs::create_dir_all(inside.join("out/files")).unwrap();
    fs::create_dir(root.path().join("outside")).unwrap();
    fs::write(inside.join("file"), "x").unwrap();
    symlink("out", inside.join("link")).unwrap();
    symlink("../outside", inside.join("away")).unwrap();
    symlink("/", inside.join("root")).unwrap();
    for dir in both(&inside) {
        let look = |path: &str| words(dir.dir(path).unwrap());
        assert_eq!(look("out"), "found");
        assert_eq!(look("out/files"), "found");
        assert_eq!(look("out/other"), "absent");
        assert_eq!(look("file"), "it is a file, not a directory");
        assert_eq!(look("link"), "it is a symbolic link");
        assert_eq!(look("away"), "it is a symbolic link");
        assert_eq!(look("link/files"), "it cannot be opened");
        assert_eq!(look("root/etc"), "it cannot be opened");
        for path in ["", ".", "..", "../outside", "/", "/etc", "out/", "out//files", "out/../../outside", "a\0b"] {
            assert_eq!(look(path), "it is not a plain path", "{path:?}");
        }
    }
}

#[test]
fn only_plain_files_are_opened() {
    let root = tempfile::tempdir().unwrap();
    let inside = root.path().join("inside");
    fs::create_dir_all(inside.join("directory")).unwrap();
    fs::write(inside.join("file"), "12345").unwrap();
    fs::write(root.path().join("secret"), "secret").unwrap();
    symlink("file", inside.join("near")).unwrap();
    symlink("../secret", inside.join("far")).unwrap();
    symlink("nowhere", inside.join("broken")).unwrap();
    symlink("loop", inside.join("loop")).unwrap();
    fs::hard_link(root.path().join("secret"), inside.join("hard")).unwrap();
    fifo(&inside.join("fifo"));
    let socket = std::os::unix::net::UnixListener::bind(inside.join("socket")).unwrap();
    for dir in both(&inside) {
        let look = |name: &str| words(dir.file(os(name), 5).unwrap());
        assert_eq!(look("file"), "found");
        assert_eq!(words(dir.file(os("file"), 4).unwrap()), "it has 5 bytes, at most 4 are read");
        assert_eq!(look("other"), "absent");
        for name in ["near", "far", "broken", "loop"] {
            assert_eq!(look(name), "it is a symbolic link", "{name}");
        }
        assert_eq!(look("hard"), "it has 2 names (hard links)");
        assert_eq!(look("directory"), "it is a directory, not a file");
        assert_eq!(look("fifo"), "it is a FIFO");
        assert_eq!(look("socket"), "it is a socket");
        assert_eq!(look(&"x".repeat(300)), "its name is invalid");
        for name in ["", ".", "..", "../secret", "directory/x", "/etc/passwd", "a\0b"] {
            assert_eq!(look(name), "it is not a plain name", "{name:?}");
        }
    }
    drop(socket);
}

#[test]
fn a_file_that_grows_is_read_to_its_bound_only() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("file");
    fs::write(&path, "12345").unwrap();
    let dir = Dir::open_trusted(root.path()).unwrap();
    let DirEntry::Found((file, 5)) = dir.file(os("file"), 8).unwrap() else { panic!() };
    fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(&[b'x'; 100]).unwrap();
    assert_eq!(words(super::super::dir::bounded(file, 5, &path, 8).unwrap()), "it grew over 8 bytes while it was read");
}

#[test]
fn listings_are_bounded() {
    let root = tempfile::tempdir().unwrap();
    for name in ["b", "a", "c"] {
        fs::write(root.path().join(name), "").unwrap();
    }
    let dir = Dir::open_trusted(root.path()).unwrap();
    let all = dir.list(3).unwrap();
    assert_eq!((all.names, all.cut), (["a", "b", "c"].map(Into::into).to_vec(), false));
    let some = dir.list(2).unwrap();
    assert_eq!((some.names.len(), some.cut), (2, true));
}

#[test]
fn files_are_replaced_as_a_whole() {
    let root = tempfile::tempdir().unwrap();
    let dir = Dir::open_trusted(root.path()).unwrap();
    fs::write(root.path().join("elsewhere"), "untouched").unwrap();
    symlink("elsewhere", root.path().join("file")).unwrap();
    for text in ["one", "two"] {
        dir.write("file", text.as_bytes(), 0o644).unwrap();
        assert_eq!(fs::read_to_string(root.path().join("file")).unwrap(), text);
    }
    assert_eq!(fs::read_to_string(root.path().join("elsewhere")).unwrap(), "untouched");
    assert_eq!(fs::metadata(root.path().join("file")).unwrap().permissions().mode() & 0o777, 0o644);
    assert_eq!(names(root.path()), ["elsewhere", "file"]);
    fs::create_dir(root.path().join("directory")).unwrap();
    assert!(dir.write("directory", b"x", 0o644).is_err());
    assert_eq!(names(root.path()), ["directory", "elsewhere", "file"]);
}

#[test]
fn removal_follows_nothing() {
    let root = tempfile::tempdir().unwrap();
    let inside = root.path().join("inside");
    fs::create_dir_all(inside.join("full/x")).unwrap();
    fs::create_dir(inside.join("empty")).unwrap();
    fs::create_dir(root.path().join("outside")).unwrap();
    symlink("../outside", inside.join("link")).unwrap();
    fifo(&inside.join("fifo"));
    let dir = Dir::open_trusted(&inside).unwrap();
    for name in ["link", "empty", "fifo", "nothing"] {
        assert_eq!(dir.remove(os(name)).unwrap(), Removal::Gone, "{name}");
    }
    assert_eq!(dir.remove(os("full")).unwrap(), Removal::NotEmpty);
    for name in ["", ".", "..", "../outside", "full/x"] {
        assert!(dir.remove(os(name)).is_err(), "{name:?}");
    }
    assert_eq!(names(root.path()), ["inside", "outside"]);
    assert_eq!(names(&inside), ["full"]);
}

#[test]
fn rights_that_were_taken_away_are_taken_back() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("out/files")).unwrap();
    for path in ["out/files", "out"] {
        fs::set_permissions(root.path().join(path), fs::Permissions::from_mode(0o0)).unwrap();
    }
    let dir = Dir::open_trusted(root.path()).unwrap();
    dir.take_back(os("out/files")).unwrap();
    for path in ["out/files", "out"] {
        assert_eq!(fs::metadata(root.path().join(path)).unwrap().permissions().mode() & 0o777, 0o700, "{path}");
    }
    symlink("out", root.path().join("link")).unwrap();
    assert!(dir.take_back(os("link")).is_err());
    assert!(dir.take_back(os("link/files")).is_err());
}

#[test]
fn trees_of_any_shape_are_deleted_in_bounded_steps() {
    let root = tempfile::tempdir().unwrap();
    let trash_path = root.path().join("trash");
    fs::create_dir(&trash_path).unwrap();
    fs::create_dir(root.path().join("outside")).unwrap();
    fs::write(root.path().join("outside/file"), "x").unwrap();
    let from = Dir::open_trusted(root.path()).unwrap();
    let trash = Trash::new(Dir::open_trusted(&trash_path).unwrap());
    // Deeper than the limits of descriptors and of the stack, and longer than any permitted path.
    let mut at = from.ensure_dir("deep", 0o755).unwrap();
    for _ in 0..3_000 {
        at = at.ensure_dir("deeper", 0o755).unwrap();
    }
    fs::create_dir(root.path().join("wide")).unwrap();
    for n in 0..2_500 {
        fs::write(root.path().join(format!("wide/{n}")), "").unwrap();
    }
    symlink("../outside", root.path().join("wide/link")).unwrap();
    fs::create_dir(root.path().join("wide/locked")).unwrap();
    fs::write(root.path().join("wide/locked/file"), "").unwrap();
    fs::set_permissions(root.path().join("wide/locked"), fs::Permissions::from_mode(0o0)).unwrap();
    for name in ["deep", "wide", "nothing"] {
        trash.take(&from, os(name)).unwrap();
    }
    assert_eq!(names(root.path()), ["outside", "trash"]);
    assert!(!trash.empty(1_000).unwrap());
    let mut rounds = 1;
    while !trash.empty(1_000).unwrap() {
        rounds += 1;
    }
    assert!(rounds < 30, "{rounds}");
    assert_eq!(names(&trash_path), [""; 0]);
    assert_eq!(names(&root.path().join("outside")), ["file"]);
}
