//! Path rules, and refused directories.

use std::os::unix::fs::PermissionsExt;

use super::*;

fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn sources(root: &Path) -> Sources {
    Sources { home: Some(root.join("home")), tmp: root.join("tmp"), uid: uid(), ..Sources::default() }
}

fn directory(path: &Path, mode: u32) -> PathBuf {
    DirBuilder::new().recursive(true).create(path).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    path.to_owned()
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().mode() & 0o777
}

#[test]
fn the_flag_comes_first_then_the_environment_then_xdg_then_home() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    let data = |sources: &Sources| Paths::decide(sources.clone()).unwrap().data().to_owned();
    let mut given = sources(&root);
    assert_eq!(data(&given), root.join("home/.local/share/hearth"));
    given.xdg_data = Some("relative".into());
    assert_eq!(data(&given), root.join("home/.local/share/hearth"), "XDG paths must be absolute");
    given.xdg_data = Some(root.join("xdg"));
    assert_eq!(data(&given), root.join("xdg/hearth"));
    given.hearth_data = Some(root.join("env"));
    assert_eq!(data(&given), root.join("env"));
    given.flag = Some(root.join("flag"));
    assert_eq!(data(&given), root.join("flag"));
    let nowhere = Paths::decide(Sources { home: None, ..sources(&root) }).unwrap_err();
    assert!(nowhere.to_string().contains("--data"), "{nowhere}");
}

#[test]
fn only_unusual_data_directories_are_told_apart() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    let usual = Paths::decide(sources(&root)).unwrap();
    assert_eq!(
        (usual.instance(), usual.service_environment()),
        (None, Some(root.join("home/.config/hearth/hearth.env")))
    );
    assert_eq!(usual.user_config(), Some(root.join("home/.config").as_path()));
    let by_name = Sources { flag: Some(root.join("home/.local/share/hearth")), ..sources(&root) };
    assert_eq!(Paths::decide(by_name).unwrap().instance(), None);
    let other = Paths::decide(Sources { flag: Some(root.join("other")), ..sources(&root) }).unwrap();
    let hash = other.instance().unwrap();
    assert!(other.sockets().iter().any(|socket| socket.ends_with(format!("hearth-{hash}.sock"))), "{other:?}");
    assert_eq!(other.service_environment(), Some(root.join(format!("home/.config/hearth/hearth-{hash}.env"))));
}

#[test]
fn one_directory_has_one_name_before_and_after_it_exists() {
    let root = tempfile::tempdir().unwrap();
    let real = directory(&root.path().join("real"), 0o700);
    std::os::unix::fs::symlink(&real, root.path().join("link")).unwrap();
    let find = || Paths::decide(Sources { flag: Some(root.path().join("link/a/b")), ..sources(root.path()) }).unwrap();
    let before = find();
    before.create().unwrap();
    assert_eq!(before, find());
    assert_eq!(before.data(), real.canonicalize().unwrap().join("a/b"));
}

#[test]
fn everything_made_is_private() {
    let root = tempfile::tempdir().unwrap();
    let paths = Paths::decide(sources(root.path())).unwrap();
    assert!(!paths.exists());
    paths.create().unwrap();
    paths.create().unwrap();
    assert!(paths.exists());
    for dir in [paths.data().to_owned(), paths.store(), paths.sessions(), paths.groups(), paths.homes(), paths.run()] {
        assert_eq!(mode(&dir), 0o700, "{}", dir.display());
    }
}

#[test]
fn directories_that_others_can_change_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let data = directory(&root.path().canonicalize().unwrap().join("data"), 0o775);
    let paths = Paths::decide(Sources { flag: Some(data.clone()), ..sources(root.path()) }).unwrap();
    let refused = paths.create().unwrap_err().to_string();
    let shown = data.display();
    assert_eq!(refused, format!("{shown} is open to others (its mode is 0775): run `chmod go-w {shown}`"));
    directory(&data, 0o755);
    paths.create().unwrap();
    directory(&paths.groups(), 0o777);
    assert!(paths.create().unwrap_err().to_string().contains("chmod go-w"));
}

/// Their mode must stay, because other programs depend on it.
#[test]
fn no_one_is_told_to_change_the_mode_of_a_directory_of_the_system() {
    for (path, mode) in [
        ("/tmp", 0o1777),
        ("/var/tmp", 0o1777),
        ("/var/mail", 0o2775),
        ("/srv", 0o775),
        ("/", 0o775),
        ("/etc/hearth", 0o775),
        ("/usr/local/share", 0o2775),
        ("/mnt/disk/shared", 0o1777),
    ] {
        assert!(is_of_the_system(Path::new(path), mode), "{path}");
    }
    for path in ["/home/ann/hearth", "/home/ann", "/var/lib/hearth", "/run/user/1000/x", "/srv/hearth"] {
        assert!(!is_of_the_system(Path::new(path), 0o775), "{path}");
    }
    let root = tempfile::tempdir().unwrap();
    let sticky = directory(&root.path().canonicalize().unwrap().join("data"), 0o1777);
    let paths = Paths::decide(Sources { flag: Some(sticky), ..sources(root.path()) }).unwrap();
    let refused = paths.create().unwrap_err().to_string();
    assert!(refused.contains("choose a directory of Hearth's own") && !refused.contains("chmod"), "{refused}");
}

#[test]
fn directories_of_others_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let data = directory(&root.path().join("data"), 0o700);
    let paths = Paths::decide(Sources { flag: Some(data), uid: uid() + 1, ..sources(root.path()) }).unwrap();
    let refused = paths.create().unwrap_err();
    assert!(matches!(refused, BadPlace::Foreign { .. }), "{refused}");
}

#[test]
fn a_file_in_the_way_is_named() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    std::fs::write(&data, "").unwrap();
    let paths = Paths::decide(Sources { flag: Some(data), ..sources(root.path()) }).unwrap();
    assert!(matches!(paths.create(), Err(BadPlace::NotADirectory { .. })));
}

#[test]
fn the_socket_lies_in_the_runtime_directory_if_that_is_ours() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    let runtime = directory(&root.join("run"), 0o700);
    let given = Sources { runtime: Some(runtime.clone()), ..sources(&root) };
    let paths = Paths::decide(given.clone()).unwrap();
    let name = paths.socket().file_name().unwrap().to_str().unwrap().to_owned();
    assert_eq!(paths.socket().parent(), Some(runtime.as_path()));
    assert!(name.starts_with("hearth-") && name.ends_with(".sock") && name.len() == 20, "{name}");
    assert!(paths.sockets().contains(&paths.run().join("hearth.sock")), "and where it may be otherwise");

    directory(&runtime, 0o755);
    assert_eq!(Paths::decide(given.clone()).unwrap().socket(), paths.run().join("hearth.sock"));
    std::fs::remove_dir(&runtime).unwrap();
    std::os::unix::fs::symlink("/tmp", &runtime).unwrap();
    assert_eq!(Paths::decide(given).unwrap().socket(), paths.run().join("hearth.sock"));
}

#[test]
fn a_path_too_long_for_a_socket_falls_back_to_a_private_directory() {
    let root = tempfile::tempdir().unwrap();
    let long = root.path().join("x".repeat(120));
    let tmp = root.path().join("tmp");
    directory(&tmp, 0o777);
    let given = Sources { flag: Some(long), ..sources(root.path()) };
    let paths = Paths::decide(given.clone()).unwrap();
    let private = tmp.join(format!("hearth-{}", uid()));
    assert_eq!(paths.socket().parent(), Some(private.as_path()));
    paths.create().unwrap();
    assert_eq!(mode(&private), 0o700);
    std::os::unix::net::UnixListener::bind(paths.socket()).unwrap();

    directory(&private, 0o755);
    let refused = Paths::decide(given.clone()).unwrap_err().to_string();
    assert!(refused.contains("chmod go-rwx"), "{refused}");
    assert!(paths.create().is_err(), "checked again when it is used");

    let nowhere = Sources { tmp: root.path().join("y".repeat(120)), ..given };
    let refused = Paths::decide(nowhere).unwrap_err().to_string();
    assert!(refused.contains("at most 107"), "{refused}");
}
