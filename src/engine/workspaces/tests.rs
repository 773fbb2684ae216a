//! Creation, replacement and adoption of workspaces, and the rows they leave.

use crate::state::SessionKey;
use crate::workspaces::locate::stored;
use std::cell::RefCell;

use proptest::prelude::*;

use crate::model::id::SessionId;
use crate::model::session::{Session, SessionLabel, WorkspaceSession};
use crate::model::workspace::{Discriminator, Fingerprint, Witness, WorkspaceKey, key_text};
use crate::model::workspace_command::AdoptFrom;
use crate::model::workspace_sight::WorkspaceSight;
use crate::scene::Scene;
use crate::workspaces::*;

fn witness(inode: u64) -> Witness {
    Witness { place: "m/host".to_owned(), device: 1, inode, born: Some(7) }
}

fn sight(path: &[u8], inode: u64) -> WorkspaceSight {
    WorkspaceSight { path: path.to_vec(), witness: Some(witness(inode)), project: None, also_at: Vec::new() }
}

/// The key of a directory's workspace, or the code of the refusal.
fn begin(scene: &Scene, sight: &WorkspaceSight) -> String {
    let said = RefCell::new(String::new());
    scene.done(|tx, _| {
        let done = ensure(tx, sight)?;
        said.replace(done.map_or_else(|refusal| refusal.code.to_owned(), key_text));
        Ok(Ok(Vec::new()))
    });
    said.into_inner()
}

fn take(scene: &Scene, sight: &WorkspaceSight, from: &AdoptFrom) -> String {
    let said = RefCell::new(String::new());
    let done = scene.tell(|tx, _| {
        Ok(match adopt::adopt(tx, sight, from)? {
            Ok(WorkspaceReply::Adopted { key, changed }) => {
                said.replace(format!("{} {changed}", key_text(key)));
                Ok(Vec::new())
            }
            Ok(other) => Err(format!("{other:?}")),
            Err(refusal) => Err(refusal.code.to_owned()),
        })
    });
    done.err().unwrap_or_else(|| said.into_inner())
}

/// Creates an empty session in a workspace.
fn session(scene: &Scene, key: &str, label: &str) {
    let workspace = crate::model::workspace::parse_key(key).unwrap();
    scene.done(|tx, _| {
        let id: SessionId = tx.db.allocate(tx)?;
        let row =
            WorkspaceSession { order: 1, ..WorkspaceSession::new(SessionLabel::new(label).unwrap(), tx.now.wall) };
        let row = Session::Workspace(Box::new(row));
        tx.db.sessions.put(tx, &SessionKey { workspace, session: id }, &row)?;
        Ok(Ok(Vec::new()))
    });
}

/// The events of a workspace.
fn events(scene: &Scene, key: &str) -> usize {
    let shown = key.replace('~', "/");
    let shown = if shown.contains('/') { shown } else { format!("{shown}/0") };
    scene.keys("workspace_events").iter().filter(|row| row.contains(&format!("{shown}/"))).count()
}

const A: &[u8] = b"/tmp/Vnb7xSUH4Co";
const B: &[u8] = b"/tmp/P3OSLN0KT3d";
const KEY: &str = "ca380e5759713147";
const NEXT: &str = "ca380e5759713147~1";

#[test]
fn colliding_directories_are_kept_apart() {
    let scene = Scene::new();
    assert_eq!(begin(&scene, &sight(A, 1)), KEY);
    assert_eq!(begin(&scene, &sight(B, 2)), NEXT);
    assert_eq!((begin(&scene, &sight(A, 1)), begin(&scene, &sight(B, 2))), (KEY.to_owned(), NEXT.to_owned()));
    let (f, e) = (sight(b"/tmp/nonutf8-\xff", 3), sight(b"/tmp/nonutf8-\xfe", 4));
    assert_eq!((begin(&scene, &f).as_str(), begin(&scene, &e).as_str()), ("ca3ce1ce900126f8", "ca3ce1ce900126f8~1"));
    assert_eq!(events(&scene, KEY), 1, "a workspace is made once");
}

#[test]
fn a_moved_directory_waits_for_its_adoption() {
    let scene = Scene::new();
    let (here, there) = (sight(A, 1), sight(b"/new", 1));
    begin(&scene, &here);
    session(&scene, KEY, "s");
    assert_eq!(begin(&scene, &there), "workspace_moved");
    assert_eq!(take(&scene, &there, &AdoptFrom::Found), format!("{KEY} true"));
    assert_eq!(begin(&scene, &there), KEY);
    let noted = events(&scene, KEY);
    assert_eq!(take(&scene, &there, &AdoptFrom::Found), format!("{KEY} false"));
    assert_eq!(events(&scene, KEY), noted, "the second time nothing happens");
    // A workspace created at the old path is a different one, with a key that was never used.
    assert_eq!(begin(&scene, &sight(A, 9)), NEXT);
    // And back to the old path.
    let gone = sight(b"/gone", 1);
    assert_eq!(take(&scene, &gone, &AdoptFrom::Path(b"/new".to_vec())), format!("{KEY} true"));
    assert_eq!(take(&scene, &there, &AdoptFrom::Found), format!("{KEY} true"));
    assert_eq!(begin(&scene, &there), KEY);
}

#[test]
fn sessions_of_a_replaced_directory_are_not_attached_silently() {
    let scene = Scene::new();
    begin(&scene, &sight(A, 1));
    session(&scene, KEY, "old");
    let new = sight(A, 2);
    assert_eq!(begin(&scene, &new), NEXT, "what is begun there is kept apart");
    assert_eq!(begin(&scene, &new), NEXT);
    // Without sessions of its own, the directory can adopt the old workspace.
    let old = AdoptFrom::Key(crate::model::workspace::parse_key(KEY).unwrap());
    assert_eq!(take(&scene, &new, &old), format!("{KEY} true"));
    assert_eq!(begin(&scene, &new), KEY);
    // With sessions of its own, it cannot.
    let third = sight(A, 3);
    assert_eq!(begin(&scene, &third), "ca380e5759713147~2");
    session(&scene, "ca380e5759713147~2", "own");
    assert_eq!(take(&scene, &third, &old), "has_own_sessions");
    assert_eq!(begin(&scene, &third), "ca380e5759713147~2");
    // The previous directory returns.
    assert_eq!(begin(&scene, &new), KEY);
    assert_eq!(begin(&scene, &third), "ca380e5759713147~2");
}

/// A directory's witness is recorded on every look. It identifies the directory at another path, and tells which
/// directory is at a path now.
#[test]
fn what_is_seen_is_taken_down() {
    let scene = Scene::new();
    let row = |key: &str| {
        let begin = if key.contains('~') { key.replace('~', "/") } else { format!("{key}/0") };
        scene.rows("workspaces").into_iter().find(|row| row.starts_with(&begin)).unwrap()
    };
    let related = |sight: &WorkspaceSight| {
        let said = RefCell::new(Vec::new());
        scene.done(|tx, _| {
            let found = relations(tx.db, tx, tx.cx.groups_path, sight)?;
            let alike = found.alike.into_iter().map(|(key, _)| key);
            said.replace(found.earlier.into_iter().chain(alike).map(key_text).collect());
            Ok(Ok(Vec::new()))
        });
        said.into_inner()
    };
    let project = WorkspaceSight { project: Some(b"/tmp".to_vec()), ..sight(A, 1) };
    assert_eq!(begin(&scene, &WorkspaceSight { witness: None, ..sight(A, 0) }), KEY);
    assert_eq!(begin(&scene, &project), KEY);
    assert!(row(KEY).contains("project: Some") && row(KEY).contains("inode: 1"), "{}", row(KEY));
    assert_eq!(begin(&scene, &sight(b"/new", 1)), "workspace_moved");
    assert_eq!(related(&project), Vec::<String>::new(), "it is not related to itself");
    for (inode, there, gone) in [(2, NEXT, KEY), (1, KEY, NEXT), (2, NEXT, KEY)] {
        assert_eq!(begin(&scene, &sight(A, inode)), there);
        assert!(row(there).contains("replaced: None"), "{}", row(there));
        assert!(row(gone).contains("replaced: Some"), "{}", row(gone));
        assert_eq!(related(&sight(A, inode)), [gone]);
    }
    assert_eq!((events(&scene, KEY), events(&scene, NEXT)), (4, 3));
}

#[test]
fn a_replaced_directory_is_attached_when_it_is_adopted() {
    let scene = Scene::new();
    begin(&scene, &sight(A, 1));
    let new = sight(A, 2);
    assert_eq!(take(&scene, &new, &AdoptFrom::Found), format!("{KEY} true"));
    assert_eq!(begin(&scene, &new), KEY);
    assert_eq!(events(&scene, KEY), 2);
}

#[test]
fn another_path_to_the_same_directory_is_kept_apart_until_it_is_adopted() {
    let scene = Scene::new();
    begin(&scene, &sight(A, 1));
    let alias = |path: &[u8]| WorkspaceSight { also_at: vec![A.to_vec()], ..sight(path, 1) };
    let own = begin(&scene, &alias(b"/mnt/1"));
    assert_ne!(own, KEY);
    assert_eq!(begin(&scene, &alias(b"/mnt/1")), own);
    assert_eq!(take(&scene, &alias(b"/mnt/2"), &AdoptFrom::Found), format!("{KEY} true"));
    assert_eq!(begin(&scene, &alias(b"/mnt/2")), KEY);
    assert_eq!(begin(&scene, &sight(A, 1)), KEY, "it stays where it was");
    // Once the path is no alias any more, another directory there is another workspace.
    assert_ne!(begin(&scene, &sight(b"/mnt/2", 5)), KEY);
}

#[test]
fn what_cannot_be_adopted_is_refused() {
    let scene = Scene::new();
    begin(&scene, &sight(A, 1));
    let missing = WorkspaceSight { witness: None, ..sight(b"/gone", 0) };
    let key = |text: &str| AdoptFrom::Key(crate::model::workspace::parse_key(text).unwrap());
    let folder = scene.keys("workspaces_by_agent");
    assert!(!folder.is_empty());
    let groups = AdoptFrom::Path(b"groups/a".to_vec());
    for (what, sight, from, code) in [
        ("nothing looks like it", sight(b"/x", 5), AdoptFrom::Found, "nothing_to_adopt"),
        ("no such key", sight(b"/x", 5), key("0000000000000001"), "nothing_to_adopt"),
        ("no such path", sight(b"/x", 5), AdoptFrom::Path(b"/y".to_vec()), "nothing_to_adopt"),
        ("no directory", missing, key(KEY), "workspace_missing"),
        ("the folder of an agent", sight(b"/x", 5), groups, "agent_folder"),
        ("into the folder of an agent", sight(b"/groups/a", 5), key(KEY), "agent_folder"),
    ] {
        assert_eq!(take(&scene, &sight, &from), code, "{what}");
    }
    assert_eq!(begin(&scene, &sight(A, 1)), KEY);
}

#[test]
fn folders_of_agents_are_adopted_by_themselves() {
    let scene = Scene::new();
    let agent = crate::model::id::AgentId::new(1);
    let look = |inode| {
        let folders = vec![(agent, witness(inode)), (crate::model::id::AgentId::new(99), witness(8))];
        scene.done(|tx, _| folders::folders(tx, &folders).map(|_| Ok(Vec::new())));
    };
    let key = begin(&scene, &sight(b"/groups/a", 77));
    let noted = |count| assert_eq!(events(&scene, &key), count);
    look(5);
    noted(0);
    look(5);
    noted(0);
    look(6);
    noted(1);
    assert_eq!(begin(&scene, &sight(b"/groups/a", 6)), key);
    assert_ne!(begin(&scene, &sight(b"/groups/a/sub", 7)), key);
}

/// Short paths, some with bytes that are not valid text. Many of them collide.
fn path() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop::sample::select(vec![b'a', b'/', 0xff, 0xfe, 0xc3, 0xa9]);
    prop::collection::vec(byte, 0..5).prop_map(|rest| [b"/", rest.as_slice()].concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn different_paths_never_share_a_key(paths in prop::collection::vec(path(), 1..24)) {
        let scene = Scene::new();
        let mut keys: Vec<(Vec<u8>, String)> = Vec::new();
        for (inode, path) in (1_u64..).zip(&paths) {
            let known = keys.iter().find(|(other, _)| other == path).cloned();
            let place = keys.iter().position(|(other, _)| other == path).map_or(inode, |at| at as u64 + 1_000);
            let inode = if known.is_some() { place } else { 1_000 + keys.len() as u64 };
            let key = begin(&scene, &sight(path, inode));
            match known {
                Some((_, before)) => prop_assert_eq!(key, before),
                None => keys.push((path.clone(), key)),
            }
        }
        let mut distinct: Vec<&String> = keys.iter().map(|(_, key)| key).collect();
        distinct.sort();
        distinct.dedup();
        prop_assert_eq!(distinct.len(), keys.len());
    }
}

#[test]
fn every_discriminator_can_be_taken_and_no_more() {
    let scene = Scene::new();
    let last = WorkspaceKey { fingerprint: Fingerprint::of_path(A), discriminator: Discriminator(u16::MAX - 1) };
    scene.done(|tx, _| {
        let row = crate::model::workspace::Workspace {
            path: b"/other".to_vec(),
            former_paths: Vec::new(),
            aliases: Vec::new(),
            agent: None,
            witness: None,
            project: None,
            replaced: None,
            current: None,
            created: tx.now.wall,
        };
        stored(tx, last, None, &row).map(|()| Ok(Vec::new()))
    });
    assert_eq!(begin(&scene, &sight(A, 1)), format!("{KEY}~65535"));
    let full = scene.tell(|tx, _| {
        let done = ensure(tx, &sight(B, 2));
        Ok(Err(done.unwrap_err().to_string()))
    });
    assert!(full.unwrap_err().contains("every discriminator"));
}
