//! Archives of hostile directories, and hostile archives.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use sha2::{Digest as _, Sha256};
use tar::{EntryType, Header};

use super::*;
use crate::config::Paths;
use crate::model::content::BlobId;
use crate::model::entity::Folder;

/// A data directory with the agent `main`, and an empty directory to restore into.
struct Scene {
    root: tempfile::TempDir,
    paths: Paths,
}

impl Scene {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let paths = Paths::beneath(root.path());
        paths.create().unwrap();
        std::fs::write(paths.store().join("manifest.json"), "{}").unwrap();
        std::fs::write(paths.store().join("data.mdb"), vec![7; 3_000]).unwrap();
        for dir in ["groups/main", "homes/main"] {
            std::fs::create_dir(paths.data().join(dir)).unwrap();
        }
        std::fs::create_dir(root.path().join("new")).unwrap();
        Self { root, paths }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.paths.data().join(path)
    }

    fn put(&self, path: &str, text: &str) {
        std::fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        std::fs::write(self.at(path), text).unwrap();
    }

    fn file(&self) -> PathBuf {
        self.root.path().join("x.hearth.tar")
    }

    fn new_data(&self) -> PathBuf {
        self.root.path().join("new")
    }

    fn write(&self, with_secrets: bool, blobs: &[BlobId]) -> Contents {
        let identity = identity_of(with_secrets);
        let (store, folders) = (self.paths.store(), [Folder::new("main").unwrap()]);
        let source = Source { paths: &self.paths, store: &store, folders: &folders, blobs, identity: &identity };
        write(&self.file(), &source).unwrap()
    }

    /// Unpacks everything, as `restore` does.
    fn restore(&self) -> Result<(), Error> {
        let archive = Archive::open(&self.file())?;
        let unpacking = Unpacking::begin(&self.new_data())?;
        let done = archive
            .unpack(&unpacking, Part::Store)
            .and_then(|()| archive.unpack(&unpacking, Part::Rest))
            .and_then(|()| unpacking.place());
        match done {
            Ok(()) => unpacking.finish(),
            Err(_) => unpacking.abandon(),
        }
        done
    }
}

fn identity_of(with_secrets: bool) -> Identity {
    Identity::new("0123456789abcdef".to_owned(), "now".to_owned(), "/data".to_owned(), with_secrets)
}

fn skipped(contents: &Contents) -> Vec<(&str, &str)> {
    contents.skipped.names.iter().map(|one| (one.path.as_str(), one.why.as_str())).collect()
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

#[test]
fn what_is_archived_is_unpacked() {
    let scene = Scene::new();
    let long = format!("groups/main/{}/{}/file", "a".repeat(200), "b".repeat(200));
    let blob = BlobId::of_digest(&Sha256::digest(b"picture").into());
    let in_files = format!("files/{}/{}", &blob.as_str()[..2], blob.as_str());
    for (path, text) in [
        ("groups/main/CLAUDE.local.md", "memory"),
        ("groups/main/run.sh", "#!"),
        (&long, "long"),
        ("groups/CLAUDE.md", "shared"),
        ("groups/global/x", "global"),
        ("homes/main/.claude/projects/t.jsonl", "transcript"),
        ("bridges/net/state/keys/device", "key"),
        ("bridges/net/files/in-1", "temporary"),
        ("bridges/net/lock", ""),
        ("trusted/t", "trusted"),
        ("skills/web/SKILL.md", "skill"),
        ("hearth.toml", "schema = 1"),
        (&in_files, "picture"),
    ] {
        scene.put(path, text);
    }
    std::fs::set_permissions(scene.at("groups/main/run.sh"), PermissionsExt::from_mode(0o751)).unwrap();
    std::fs::create_dir(scene.at("groups/main/empty")).unwrap();
    symlink(Path::new(&"a".repeat(200)).join("b"), scene.at("groups/main/link")).unwrap();
    let contents = scene.write(false, &[blob]);
    assert_eq!((contents.skipped.names.len(), contents.secrets.names.len()), (0, 0), "{contents:?}");
    assert_eq!(std::fs::metadata(scene.file()).unwrap().mode() & 0o777, 0o600);
    scene.restore().unwrap();
    for path in
        [&long, "groups/CLAUDE.md", "groups/global/x", "trusted/t", "skills/web/SKILL.md", "hearth.toml", &in_files]
    {
        let new = std::fs::read(scene.new_data().join(path)).unwrap();
        assert_eq!(new, std::fs::read(scene.at(path)).unwrap(), "{path}");
    }
    let new = |path: &str| std::fs::symlink_metadata(scene.new_data().join(path)).unwrap();
    assert_eq!(new("groups/main/run.sh").mode() & 0o7777, 0o751);
    assert_eq!(new("groups/main/run.sh").mtime(), std::fs::metadata(scene.at("groups/main/run.sh")).unwrap().mtime());
    assert_eq!(std::fs::read(scene.new_data().join("bridges/net/state/keys/device")).unwrap(), b"key");
    assert_eq!(names(&scene.new_data().join("bridges/net")), ["state"]);
    assert!(new("groups/main/link").is_symlink() && new("groups/main/empty").is_dir());
    assert!(!scene.new_data().join("restore.part").exists());
}

#[test]
fn what_an_agent_put_there_to_harm_is_skipped_and_listed() {
    let scene = Scene::new();
    scene.put("secret", "outside");
    scene.put("groups/main/own", "own");
    symlink("/etc/passwd", scene.at("groups/main/absolute")).unwrap();
    symlink("../../secret", scene.at("groups/main/out")).unwrap();
    symlink(".", scene.at("groups/main/round")).unwrap();
    let fifo = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, scene.at("groups/main/fifo"), rustix::fs::FileType::Fifo, fifo, 0).unwrap();
    std::fs::hard_link(scene.at("secret"), scene.at("groups/main/stolen")).unwrap();
    std::fs::hard_link(scene.at("groups/main/own"), scene.at("groups/main/twin")).unwrap();
    scene.put("groups/main/set-id", "program");
    std::fs::set_permissions(scene.at("groups/main/set-id"), PermissionsExt::from_mode(0o6755)).unwrap();
    std::fs::File::create(scene.at("groups/main/huge")).unwrap().set_len(1 << 43).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(scene.at("groups/main/s")).unwrap();
    let deep = scene.at(&format!("groups/main/{}", "d/".repeat(1_500)));
    std::fs::create_dir_all(&deep).unwrap();
    scene.put("bridges/net/state/own", "own");
    symlink("../../../secret", scene.at("bridges/net/state/out")).unwrap();
    std::fs::create_dir(scene.at("bridges/other")).unwrap();
    symlink("../../groups/main", scene.at("bridges/other/state")).unwrap();
    let contents = scene.write(false, &[]);
    let all = skipped(&contents);
    for (path, why) in [
        ("groups/main/absolute", "leads out"),
        ("groups/main/out", "leads out"),
        ("groups/main/fifo", "FIFO"),
        ("groups/main/s", "socket"),
        ("groups/main/stolen", "2 names (hard links)"),
        ("groups/main/huge", "8796093022208 bytes"),
        ("bridges/net/state/out", "leads out"),
        ("bridges/other/state", "not a directory that can be opened"),
    ] {
        assert!(all.iter().any(|(name, said)| *name == path && said.contains(why)), "{path}: {all:?}");
    }
    assert!(all.iter().any(|(_, why)| why.contains("too deep")), "{all:?}");
    assert_eq!(all.len(), 9, "{all:?}");
    scene.restore().unwrap();
    let new = scene.new_data().join("groups/main");
    assert_eq!(names(&new), ["d", "own", "round", "set-id", "twin"]);
    assert_eq!(std::fs::metadata(new.join("set-id")).unwrap().mode() & 0o7777, 0o755);
    assert_eq!(std::fs::read_to_string(new.join("twin")).unwrap(), "own");
    // Deeper than the removal of a temporary directory goes.
    drop(std::fs::rename(scene.at("groups/main/d"), scene.root.path().join("d")));
}

#[test]
fn the_folder_of_an_agent_is_no_link() {
    let scene = Scene::new();
    std::fs::remove_dir(scene.at("groups/main")).unwrap();
    symlink("/etc", scene.at("groups/main")).unwrap();
    let contents = scene.write(false, &[]);
    assert_eq!(skipped(&contents), [("groups/main", "it is not a directory that can be opened")]);
}

#[test]
fn secrets_are_left_out_by_name_unless_asked_for() {
    let scene = Scene::new();
    scene.put("secrets/main.KEY", "key");
    scene.put("homes/main/.claude/.credentials.json", "login");
    scene.put("homes/main/.claude.json", "account");
    scene.put("homes/main/.ssh/id_ed25519", "private");
    scene.put("homes/main/.claude/settings.json", "{}");
    scene.put("homes/main/tmp/se1/x", "temporary");
    let mut contents = scene.write(false, &[]);
    contents.secrets.names.sort();
    let secrets =
        ["homes/main/.claude.json", "homes/main/.claude/.credentials.json", "homes/main/.ssh", "secrets/main.KEY"];
    assert_eq!(contents.secrets.names, secrets);
    scene.restore().unwrap();
    assert_eq!(names(&scene.new_data().join("homes/main")), [".claude"]);
    assert!(!scene.new_data().join("secrets").exists());
    std::fs::remove_file(scene.file()).unwrap();
    std::fs::remove_dir_all(scene.new_data()).unwrap();
    std::fs::create_dir(scene.new_data()).unwrap();
    assert!(scene.write(true, &[]).secrets.is_empty());
    scene.restore().unwrap();
    for path in ["secrets/main.KEY", "homes/main/.claude/.credentials.json", "homes/main/.ssh/id_ed25519"] {
        assert!(scene.new_data().join(path).is_file(), "{path}");
    }
    assert_eq!(std::fs::metadata(scene.new_data().join("secrets")).unwrap().mode() & 0o777, 0o700);
}

#[test]
fn a_damaged_or_missing_file_of_a_message_is_listed() {
    let scene = Scene::new();
    let blobs = [b"one", b"two"].map(|bytes| BlobId::of_digest(&Sha256::digest(bytes).into()));
    scene.put(&format!("files/{}/{}", &blobs[0].as_str()[..2], blobs[0].as_str()), "other");
    let contents = scene.write(false, &blobs);
    let whys: Vec<&str> = skipped(&contents).iter().map(|(_, why)| *why).collect();
    assert_eq!(whys, ["it is damaged: its digest does not match its name", "it is missing"]);
    scene.restore().unwrap();
}

/// An entry of a crafted archive.
struct Crafted<'a> {
    kind: EntryType,
    path: &'a str,
    target: &'a str,
    mode: u32,
    data: &'a str,
}

const FILE: Crafted<'_> = Crafted { kind: EntryType::Regular, path: "", target: "", mode: 0o600, data: "" };

/// Writes an archive with these entries; everything else is as Hearth writes it.
fn craft(file: &Path, entries: &[Crafted<'_>]) {
    let identity = serde_json::to_string(&identity_of(false)).unwrap();
    let own = [("backup.json", identity.as_str()), ("store/manifest.json", "{}"), ("store/data.mdb", "x")];
    let (mut bytes, mut digest, mut size) = (Vec::new(), Sha256::new(), 0);
    let mut add = |entry: (EntryType, &str, &str, u32, &str)| {
        let (kind, path, target, mode, data) = entry;
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(data.len() as u64);
        header.set_mtime(0);
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.as_old_mut().linkname[..target.len()].copy_from_slice(target.as_bytes());
        header.set_cksum();
        let before = hex(&digest);
        digest.update(header.as_bytes());
        digest.update(data);
        size += data.len() as u64;
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(data.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(512), 0);
        (before, size)
    };
    for (path, data) in own {
        add((EntryType::Regular, path, "", 0o600, data));
    }
    let mut so_far = 0;
    for entry in entries {
        so_far = add((entry.kind, entry.path, entry.target, entry.mode, entry.data)).1;
    }
    // The digest before the last entry is known when the last entry is added.
    let zeros = "0".repeat(64);
    let count = (own.len() + entries.len()) as u64;
    let contents = |sha256: String| Contents { entries: count, bytes: so_far, sha256, ..Contents::default() };
    let text = serde_json::to_string(&contents(zeros.clone())).unwrap();
    let (before, _) = add((EntryType::Regular, "contents.json", "", 0o600, &text));
    let at = bytes.windows(64).position(|part| part == zeros.as_bytes()).unwrap();
    bytes[at..at + 64].copy_from_slice(before.as_bytes());
    bytes.resize(bytes.len() + 1_024, 0);
    std::fs::write(file, bytes).unwrap();
}

fn hex(digest: &Sha256) -> String {
    super::format::hex(digest.clone())
}

#[test]
fn a_hostile_archive_is_refused_and_names_the_entry() {
    let link = |path, target| Crafted { kind: EntryType::Symlink, path, target, mode: 0o777, ..FILE };
    let special = |kind| Crafted { kind, path: "groups/main/x", target: "own", ..FILE };
    let file = |path| Crafted { path, data: "evil", ..FILE };
    let cases: Vec<(Vec<Crafted<'_>>, &str, &str)> = vec![
        (vec![file("groups/main/../../../x")], "groups/main/../../../x", "`..`"),
        (vec![file("/tmp/hearth-evil")], "/tmp/hearth-evil", "absolute"),
        (vec![file("run/token")], "run/token", "does not belong"),
        (vec![file("store/lock.mdb")], "store/lock.mdb", "does not belong"),
        (vec![file("groups/main/x"), file("groups/main/x")], "groups/main/x", "twice"),
        (vec![link("groups/main/l", "/etc")], "groups/main/l", "leads out"),
        (vec![link("groups/main/l", "../../run")], "groups/main/l", "leads out"),
        (vec![link("groups/main", "/etc")], "groups/main", "does not belong"),
        (vec![link("groups/main/l", "."), file("groups/main/l/x")], "groups/main/l/x", "not a directory"),
        (vec![file("groups/main/f"), file("groups/main/f/x")], "groups/main/f/x", "not a directory"),
        (vec![special(EntryType::Link)], "groups/main/x", "hard link"),
        (vec![special(EntryType::Char)], "groups/main/x", "device"),
        (vec![special(EntryType::Block)], "groups/main/x", "device"),
        (vec![special(EntryType::Fifo)], "groups/main/x", "FIFO"),
        (vec![special(EntryType::GNUSparse)], "groups/main/x", "never writes"),
        (vec![special(EntryType::XHeader)], "groups/main/x", "never writes"),
        (vec![Crafted { mode: 0o4755, ..file("groups/main/x") }], "groups/main/x", "set-user-id"),
        (vec![Crafted { mode: 0o2755, ..file("groups/main/x") }], "groups/main/x", "set-user-id"),
    ];
    for (entries, entry, why) in cases {
        let scene = Scene::new();
        craft(&scene.file(), &entries);
        let said = scene.restore().unwrap_err().to_string();
        assert!(said.contains(&format!("its entry `{entry}`")) && said.contains(why), "{entry}: {said}");
        assert_eq!(names(&scene.new_data()), [""; 0], "{entry}");
        assert!(!Path::new("/tmp/hearth-evil").exists());
    }
    let scene = Scene::new();
    craft(&scene.file(), &[link("groups/main/l", "own"), file("groups/main/own")]);
    scene.restore().unwrap();
    assert_eq!(std::fs::read_to_string(scene.new_data().join("groups/main/l")).unwrap(), "evil");
    let scene = Scene::new();
    let name = "files/ab/abababababababababababababababababababababababababababababababab";
    craft(&scene.file(), &[file(name)]);
    assert!(scene.restore().unwrap_err().to_string().contains("does not match its name"));
    assert_eq!(names(&scene.new_data()), [""; 0]);
}

#[test]
fn a_changed_byte_or_a_missing_end_is_noticed() {
    let scene = Scene::new();
    scene.put("groups/main/a", "text that is changed");
    scene.write(false, &[]);
    let whole = std::fs::read(scene.file()).unwrap();
    for length in (0..whole.len()).step_by(509).chain([whole.len() - 1, whole.len() - 1_024]) {
        std::fs::write(scene.file(), &whole[..length]).unwrap();
        assert!(Archive::open(&scene.file()).is_err(), "{length}");
    }
    let at = whole.windows(20).position(|part| part == b"text that is changed").unwrap();
    let mut changed = whole.clone();
    changed[at] ^= 1;
    std::fs::write(scene.file(), &changed).unwrap();
    let said = Archive::open(&scene.file()).unwrap_err().to_string();
    assert!(said.contains("its checksum is wrong"), "{said}");
    std::fs::write(scene.file(), [&whole[..], b"more"].concat()).unwrap();
    assert!(Archive::open(&scene.file()).is_err());
    std::fs::write(scene.file(), &whole).unwrap();
    Archive::open(&scene.file()).unwrap();
    let newer = String::from_utf8_lossy(&whole).replace("\"hearth_archive\": 1", "\"hearth_archive\": 9");
    std::fs::write(scene.file(), newer.replace('\u{fffd}', "?")).unwrap();
    assert!(matches!(identity(&scene.file()), Err(Error::Newer { found: 9, .. })));
}

#[test]
fn only_an_empty_directory_is_restored_into_and_an_interrupted_restore_is_undone() {
    let scene = Scene::new();
    scene.put("groups/main/a", "a");
    scene.put("hearth.toml", "schema = 1");
    scene.write(false, &[]);
    let mine = scene.new_data().join("notes.txt");
    std::fs::write(&mine, "mine").unwrap();
    let said = scene.restore().unwrap_err().to_string();
    assert!(said.contains("is not empty, it has notes.txt"), "{said}");
    assert_eq!(names(&scene.new_data()), ["notes.txt"]);
    std::fs::remove_file(&mine).unwrap();
    let archive = Archive::open(&scene.file()).unwrap();
    // A restore that was killed while it was moving its files into place.
    let unpacking = Unpacking::begin(&scene.new_data()).unwrap();
    assert!(matches!(Unpacking::begin(&scene.new_data()), Err(Error::Busy { .. })));
    archive.unpack(&unpacking, Part::Rest).unwrap();
    unpacking.place().unwrap();
    drop(unpacking);
    assert!(scene.new_data().join("groups/main/a").exists() && scene.new_data().join("restore.part").exists());
    let unpacking = Unpacking::begin(&scene.new_data()).unwrap();
    assert_eq!(names(&scene.new_data()), ["restore.part"]);
    unpacking.abandon();
    assert_eq!(names(&scene.new_data()), [""; 0]);
    scene.restore().unwrap();
    assert_eq!(names(&scene.new_data()), ["groups", "hearth.toml", "homes"]);
}

/// A path of a few names, most of which have a meaning to Hearth.
fn any_path() -> impl Strategy<Value = String> {
    let name = select(&["groups", "main", "a", "b", "a", "b", "..", ".", "", "trusted", "homes", "run", "files"][..]);
    let roots = select(&["groups/main/", "groups/main/", "trusted/", "", "/", "../"][..]);
    (roots, vec(name, 1..4)).prop_map(|(root, names)| root.to_owned() + &names.join("/"))
}

fn any_target() -> impl Strategy<Value = String> {
    let name = select(&["a", "b", "..", "..", ".", "main", "/"][..]);
    vec(name, 1..5).prop_map(|names| names.join("/"))
}

fn any_entry() -> impl Strategy<Value = (EntryType, String, String)> {
    let (file, dir, link) = (EntryType::Regular, EntryType::Directory, EntryType::Symlink);
    (select(vec![file, file, dir, dir, link, link, link, EntryType::Link]), any_path(), any_target())
}

/// Links below a directory, none of which is followed.
fn links(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => links(&entry.path(), found),
            kind if kind.is_symlink() => found.push(entry.path()),
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Any archive is refused and leaves nothing, or everything is unpacked inside, wherever links lead.
    #[test]
    fn no_archive_reaches_out(entries in vec(any_entry(), 1..8)) {
        let scene = Scene::new();
        let entries: Vec<Crafted<'_>> = entries
            .iter()
            .map(|(kind, path, target)| match *kind {
                EntryType::Regular => Crafted { path, data: "evil", ..FILE },
                EntryType::Directory => Crafted { kind: *kind, path, mode: 0o700, ..FILE },
                kind => Crafted { kind, path, target, ..FILE },
            })
            .collect();
        craft(&scene.file(), &entries);
        let around = names(scene.root.path());
        let done = scene.restore();
        prop_assert_eq!(names(scene.root.path()), around);
        if done.is_err() {
            prop_assert_eq!(names(&scene.new_data()), [""; 0]);
        }
        let root = scene.new_data().canonicalize().unwrap();
        let mut found = Vec::new();
        links(&root, &mut found);
        for link in found {
            let depth = if link.starts_with(root.join("trusted")) { 1 } else { 2 };
            let tree: PathBuf = link.strip_prefix(&root).unwrap().iter().take(depth).collect();
            if let Ok(real) = link.canonicalize() {
                prop_assert!(real.starts_with(root.join(&tree)), "{} -> {}", link.display(), real.display());
            }
        }
    }
}
