use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};

use rustix::fs::Mode;

use super::*;

/// Roots and patterns of NanoClaw's tests: `~/projects` may be changed, `~/docs` only read.
const LIST: &str = r#"{
  "allowedRoots": [
    {"path": "~/gone", "allowReadWrite": true},
    {"path": "~/projects", "allowReadWrite": true, "description": "code"},
    {"path": "~/docs", "allowReadWrite": false}
  ],
  "blockedPatterns": ["Private", "", "papers/tax"],
  "nonMainReadOnly": true
}"#;

struct World {
    root: tempfile::TempDir,
    paths: Paths,
}

impl World {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let paths = Paths::beneath(&root.path().canonicalize().unwrap());
        paths.create().unwrap();
        for name in [
            ".ssh",
            "projects/app/sub",
            "projects/my.environment",
            "projects/credentials-guide",
            "projects/.ENV",
            "projects/.env.local",
            "projects/prod.env",
            "projects/Credentials.json",
            "projects/id_rsa_work",
            "projects/private",
            "projects/papers/tax/2024",
            "projects/tax",
            "projects2/x",
            "docs/x",
        ] {
            fs::create_dir_all(root.path().join("home").join(name)).unwrap();
        }
        let world = Self { root, paths };
        world.link(".ssh", "projects/link");
        world.link("../data", "projects/data");
        world.link("docs/x", "projects/docs");
        world
    }

    fn link(&self, to: &str, name: &str) {
        let home = self.root.path().join("home");
        symlink(home.join(to), home.join(name)).unwrap();
    }

    fn listed(self, text: &str) -> Self {
        let file = self.paths.mount_allowlist().unwrap();
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        self
    }

    fn judge(&self, host_path: &str, container_path: Option<&str>, access: Access) -> MountDecision {
        let mount =
            ExtraMount { host_path: host_path.into(), container_path: container_path.map(str::to_owned), access };
        judge(&self.paths, &[mount]).pop().unwrap()
    }

    fn refusal(&self, host_path: &str) -> String {
        match self.judge(host_path, None, Access::ReadOnly) {
            MountDecision::Refused(reason) => reason,
            MountDecision::Allowed(allowed) => panic!("{host_path}: {allowed:?}"),
        }
    }
}

/// `(host path, container path, requested access, place and access or part of the refusal)`.
type Row = (&'static str, Option<&'static str>, Access, Result<(&'static str, Access), &'static str>);

/// NanoClaw's tests, one by one.
#[test]
fn the_peers_table_holds_but_where_it_is_marked() {
    use Access::{ReadOnly, ReadWrite};
    let world = World::new().listed(LIST);
    let rows: &[Row] = &[
        ("~/projects/app", None, ReadWrite, Ok(("app", ReadWrite))),
        ("~/projects/app", None, ReadOnly, Ok(("app", ReadOnly))),
        ("~/docs/x", None, ReadWrite, Ok(("x", ReadOnly))),
        ("~/projects/app", Some("/etc"), ReadOnly, Err("Invalid container path: \"/etc\" - must be relative")),
        ("~/projects/app", Some("../x"), ReadOnly, Err("Invalid container path: \"../x\"")),
        ("~/projects/app", Some("a:rw"), ReadOnly, Err("Invalid container path: \"a:rw\"")),
        ("~/projects/app", Some(" "), ReadOnly, Err("Invalid container path: \" \"")),
        ("~/projects/app", Some("a..b"), ReadOnly, Err("Invalid container path: \"a..b\"")),
        ("~/projects/app", Some("sub/dir"), ReadOnly, Ok(("sub/dir", ReadOnly))),
        ("~/projects/missing", None, ReadOnly, Err("Host path does not exist: \"~/projects/missing\" (expanded: \"/")),
        ("~/projects/link", None, ReadOnly, Err("Path matches blocked pattern \".ssh\": \"/")),
        // Differs on purpose: patterns match only whole components of a path.
        ("~/projects/my.environment", None, ReadOnly, Ok(("my.environment", ReadOnly))),
        ("~/projects/credentials-guide", None, ReadOnly, Ok(("credentials-guide", ReadOnly))),
        ("/etc", None, ReadOnly, Err("Path \"/etc\" is not under any allowed root. Allowed roots: /")),
        ("~/projects", None, ReadOnly, Ok(("projects", ReadOnly))),
        ("~/projects2/x", None, ReadOnly, Err("is not under any allowed root")),
        // Differs on purpose: a home that contains Hearth's own files is never shown, but this home contains none.
        ("~", None, ReadOnly, Err("is not under any allowed root")),
    ];
    for (host, container, asked, expected) in rows {
        match (world.judge(host, *container, *asked), expected) {
            (MountDecision::Allowed(allowed), Ok((place, access))) => {
                assert_eq!(allowed.mount.target, Path::new("/workspace/extra").join(place), "{host}");
                assert_eq!(allowed.mount.access, *access, "{host}");
                assert!(allowed.reason.starts_with("Allowed under root \"~/"), "{}", allowed.reason);
            }
            (MountDecision::Refused(reason), Err(part)) => assert!(reason.contains(part), "{host}: {reason}"),
            (verdict, expected) => panic!("{host} {container:?}: {verdict:?} instead of {expected:?}"),
        }
    }
    let MountDecision::Allowed(forced) = world.judge("~/docs/x", None, Access::ReadWrite) else { panic!("refused") };
    assert!(forced.reason.ends_with("read-only because the root does not allow more"), "{}", forced.reason);
    let MountDecision::Allowed(described) = world.judge("~/projects/app", None, Access::ReadOnly) else {
        panic!("refused")
    };
    assert_eq!(described.reason, "Allowed under root \"~/projects\" (code)");
    let all = world.judge("~", Some("x"), Access::ReadOnly);
    assert!(matches!(all, MountDecision::Refused(_)), "{all:?}");
}

#[test]
fn names_of_secrets_are_blocked_in_any_case_and_with_what_is_put_behind_them() {
    let world = World::new().listed(LIST);
    for (name, pattern) in [
        (".ENV", ".env"),
        (".env.local", ".env"),
        ("prod.env", ".env"),
        ("Credentials.json", "credentials"),
        ("id_rsa_work", "id_rsa"),
        ("private", "Private"),
        ("papers/tax/2024", "papers/tax"),
    ] {
        let reason = world.refusal(&format!("~/projects/{name}"));
        assert!(reason.starts_with(&format!("Path matches blocked pattern \"{pattern}\"")), "{name}: {reason}");
    }
    assert!(matches!(world.judge("~/projects/tax", None, Access::ReadOnly), MountDecision::Allowed(_)));
}

#[test]
fn links_are_resolved_before_anything_is_judged() {
    let world = World::new().listed(LIST);
    let MountDecision::Allowed(allowed) = world.judge("~/projects/docs", None, Access::ReadWrite) else {
        panic!("refused")
    };
    let real = world.root.path().canonicalize().unwrap().join("home/docs/x");
    assert_eq!((allowed.mount.source, allowed.mount.access), (real, Access::ReadOnly));
    assert_eq!(allowed.mount.target, Path::new("/workspace/extra/docs"));
}

#[test]
fn what_belongs_to_hearth_or_to_the_system_is_never_shown() {
    let everything = r#"{"allowedRoots": [{"path": "/", "allowReadWrite": true}], "blockedPatterns": []}"#;
    let world = World::new().listed(everything);
    let root = world.root.path().canonicalize().unwrap();
    let socket = std::os::unix::net::UnixListener::bind(root.join("podman.sock")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, root.join("fifo"), rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o600), 0)
        .unwrap();
    fs::create_dir(root.join("new\nline")).unwrap();
    let at = |name: &str| root.join(name).display().to_string();
    for (path, why) in [
        (at("data"), "Hearth's data"),
        (at("data/store"), "Hearth's data"),
        (at(""), "Hearth's data"),
        ("~/projects/data".to_owned(), "Hearth's data"),
        (at("config/hearth"), "the allow-list"),
        (at("config/hearth/mount-allowlist.json"), "the allow-list"),
        (at("config"), "the allow-list"),
        ("/proc".to_owned(), "the system"),
        ("/proc/self/root".to_owned(), "Path is never shown"),
        ("/sys/kernel".to_owned(), "the system"),
        ("/dev/null".to_owned(), "the system"),
        ("/run".to_owned(), "the system"),
        (at("podman.sock"), "a socket"),
        (at("fifo"), "neither"),
        (at("new\nline"), "not plain text"),
    ] {
        let mount = ExtraMount { host_path: path.clone(), container_path: Some("x".into()), access: Access::ReadOnly };
        match judge(&world.paths, &[mount]).pop() {
            Some(MountDecision::Refused(reason)) => {
                assert!(reason.starts_with("Path is never shown to agents"), "{path}: {reason}");
                assert!(reason.contains(why) || why.starts_with("Path"), "{path}: {reason}");
            }
            other => panic!("{path}: {other:?}"),
        }
    }
    assert!(matches!(world.judge("~/projects2/x", None, Access::ReadWrite), MountDecision::Allowed(_)));
    drop(socket);
}

#[test]
fn a_bad_list_refuses_everything_until_it_is_mended() {
    let world = World::new();
    let path = world.paths.mount_allowlist().unwrap();
    assert_eq!(world.refusal("~/projects/app"), format!("No mount allowlist configured at {}", path.display()));
    let mut world = world;
    for (text, what) in [
        ("nope", "it is not JSON"),
        ("{}", "allowedRoots must be an array"),
        (r#"{"allowedRoots": {}, "blockedPatterns": []}"#, "allowedRoots must be an array"),
        (r#"{"allowedRoots": [], "blockedPatterns": {}}"#, "blockedPatterns must be an array"),
        // Nothing more is blocked than what always is.
        (r#"{"allowedRoots": []}"#, "is not under any allowed root"),
        (r#"{"allowedRoots": [{}], "blockedPatterns": []}"#, "allowedRoots[0].path must be a string"),
        (
            r#"{"allowedRoots": [{"path": "~", "allowReadWrite": "yes"}], "blockedPatterns": []}"#,
            "allowedRoots[0].allowReadWrite must be true or false",
        ),
        (r#"{"allowedRoots": [], "blockedPatterns": [1]}"#, "blockedPatterns[0] must be a string"),
    ] {
        world = world.listed(text);
        let reason = world.refusal("~/projects/app");
        assert!(reason.contains(what), "{text}: {reason}");
    }
    let world = world.listed(LIST);
    assert!(
        matches!(world.judge("~/projects/app", None, Access::ReadOnly), MountDecision::Allowed(_)),
        "nothing is cached"
    );
    fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    assert!(world.refusal("~/projects/app").contains("chmod go-w"));
    assert!(judge(&world.paths, &[]).is_empty());
}

#[test]
fn what_changes_between_two_looks_is_refused() {
    let world = World::new();
    let real = world.root.path().canonicalize().unwrap().join("home/projects/app");
    same_when_opened(&real).unwrap();
    fs::remove_dir_all(&real).unwrap();
    symlink("/etc", &real).unwrap();
    assert!(same_when_opened(&real).unwrap_err().contains("changed while it was checked"));
    assert!(same_when_opened(&real.join("hostname")).is_err());
}
