use crate::model::id::AgentId;
use crate::model::time::Timestamp;
use crate::model::workspace::Witness;
use crate::workspaces::locate::*;

fn witness(inode: u64) -> Witness {
    Witness { place: "m/host".to_owned(), device: 1, inode, born: Some(7) }
}

fn sight(path: &[u8], inode: Option<u64>) -> WorkspaceSight {
    WorkspaceSight { path: path.to_vec(), witness: inode.map(witness), project: None, also_at: Vec::new() }
}

fn row(number: u16, path: &[u8], inode: Option<u64>) -> Row {
    let workspace = Workspace {
        path: path.to_vec(),
        former_paths: Vec::new(),
        aliases: Vec::new(),
        agent: None,
        witness: inode.map(witness),
        project: None,
        replaced: None,
        current: None,
        created: Timestamp::from_millis(i64::from(number)),
    };
    (key(number), workspace)
}

fn key(number: u16) -> WorkspaceKey {
    WorkspaceKey { fingerprint: Fingerprint::of_path(b"/w"), discriminator: Discriminator(number) }
}

#[test]
fn what_a_directory_is() {
    let (known, unknown) = (|number| Located::Known(key(number)), Located::Unknown);
    let replaced = |number| Located::Replaced { key: key(number) };
    let moved = |number| Located::Moved { key: key(number), from: b"/old".to_vec() };
    let alias = |number| Located::Alias { key: key(number), at: b"/old".to_vec() };
    let gone = |(key, row): Row| (key, Workspace { replaced: Some(Timestamp::from_millis(9)), ..row });
    let named = |(key, row): Row| (key, Workspace { aliases: vec![b"/w".to_vec()], ..row });
    let folder = |(key, row): Row| (key, Workspace { agent: Some(AgentId::new(1)), ..row });
    let also = |sight| WorkspaceSight { also_at: vec![b"/old".to_vec()], ..sight };
    let (here, missing) = (sight(b"/w", Some(5)), sight(b"/w", None));
    let cases = [
        ("nothing is known", &here, vec![], vec![], unknown.clone()),
        ("nothing is known or there", &missing, vec![], vec![], unknown),
        ("the same", &here, vec![row(0, b"/w", Some(5))], vec![row(0, b"/w", Some(5))], known(0)),
        ("it is away for now", &missing, vec![row(0, b"/w", Some(5))], vec![], known(0)),
        (
            "the newest of several is away",
            &missing,
            vec![gone(row(0, b"/w", Some(4))), row(1, b"/w", None)],
            vec![],
            known(1),
        ),
        (
            "an older one was adopted",
            &missing,
            vec![row(0, b"/w", Some(4)), gone(row(1, b"/w", None))],
            vec![],
            known(0),
        ),
        (
            "and replaced after that",
            &here,
            vec![row(0, b"/w", Some(4)), gone(row(1, b"/w", None))],
            vec![],
            replaced(0),
        ),
        ("it was not there at first", &here, vec![row(0, b"/w", None)], vec![], known(0)),
        ("another one was here", &here, vec![row(0, b"/w", Some(4))], vec![], replaced(0)),
        (
            "two others were here",
            &here,
            vec![gone(row(0, b"/w", Some(3))), row(1, b"/w", Some(4))],
            vec![],
            replaced(1),
        ),
        ("it came back", &here, vec![gone(row(0, b"/w", Some(5))), row(1, b"/w", Some(4))], vec![], known(0)),
        ("it was elsewhere", &here, vec![], vec![row(0, b"/old", Some(5))], moved(0)),
        ("it took another's place", &here, vec![row(1, b"/w", Some(4))], vec![row(0, b"/old", Some(5))], moved(0)),
        ("one that went missing was taken aside", &here, vec![gone(row(0, b"/w", None))], vec![], replaced(0)),
        ("an alias that was adopted", &here, vec![], vec![named(row(0, b"/old", Some(5)))], known(0)),
        ("the folder of an agent", &here, vec![folder(row(0, b"groups/w", Some(4)))], vec![], known(0)),
    ];
    for (what, sight, at_path, alike, expected) in cases {
        assert_eq!(decide(sight, &at_path, &alike), expected, "{what}");
    }
    let both = also(here.clone());
    assert_eq!(decide(&both, &[], &[row(0, b"/old", Some(5))]), alias(0), "it is at both paths");
    let rows = [row(0, b"/old", Some(5)), row(1, b"/older", Some(5))];
    assert_eq!(decide(&both, &[], &rows), alias(0), "the path that is alive counts");
    assert_eq!(decide(&both, &rows[..0], &rows[1..]), Located::Moved { key: key(1), from: b"/older".to_vec() });
}

#[test]
fn folders_of_agents_are_kept_without_the_data_directory() {
    for (path, expected) in [
        (b"/d/groups/a".as_slice(), Some(b"groups/a".to_vec())),
        (b"/d/groups/a/b", None),
        (b"/d/groups/", None),
        (b"/d/groups", None),
        (b"/d/groupsa", None),
        (b"/e/groups/a", None),
    ] {
        assert_eq!(relative(b"/d/groups", path), expected, "{}", String::from_utf8_lossy(path));
    }
}
