//! Sessions that are imported from files, imported again after a change, or refused before a store is opened.

use hearth::engine::workspaces::refused_as_given;
use hearth::model::id::SessionId;
use hearth::model::mailbox::Recipient;
use hearth::model::policy::Policy;
use hearth::model::record::{RecordBody, SessionRecord, SpeakerRole};
use hearth::model::report::Reply;
use hearth::model::session::{Session, SessionLabel, SessionSource, WorkspaceSession};
use hearth::model::session_command::{ForkSession, Guard, Holder, SessionCommand, SessionOutcome};
use hearth::model::take_in::{FileRefused, FileState, SessionHead, TakeIn, TookIn};
use hearth::model::workspace::WorkspaceFact;
use hearth::model::workspace_command::{WorkspaceInput, WorkspaceReply};
use hearth::model::{Input, Millis, Timestamp};
use hearth::state::{RevisionKey, SessionKey};

use super::input::{home, new, put, record, sight};
use crate::world::World;
use crate::world::outside::{claim, end, said};

fn label(text: &str) -> SessionLabel {
    SessionLabel::new(text).unwrap()
}

fn file(name: &str, digest: u8) -> FileState {
    FileState { path: format!("/p/.claw/sessions/{name}.jsonl").into_bytes(), digest: [digest; 32], older: None }
}

/// Imports a file with one message under the id `a`.
fn take(world: &mut World, (name, digest): (&str, u8), parent: Option<&str>) -> TookIn {
    let file = file(name, digest);
    let path = file.path.clone();
    let source = SessionSource { path, id: None, from_name: false, root: None, torn_tail: None, extra: None };
    let at = Timestamp::from_millis(5);
    let parent = parent.map(|parent| (parent.to_owned(), None));
    let head =
        SessionHead { label: label("a"), model: None, created: at, updated: at, parent, compaction: None, source };
    let records = vec![record("x", SpeakerRole::User)];
    let piece = TakeIn { sight: sight("/p"), file, head, after: 0, records, last: true };
    match world.put(Input::Workspace(Box::new(WorkspaceInput::TakeIn(Box::new(piece))))) {
        Reply::Workspace(reply) => match *reply {
            WorkspaceReply::TookIn(took) => took,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn row(world: &World, id: SessionId) -> WorkspaceSession {
    world.read(|db, txn| {
        let workspace = db.sessions_by_id.require(txn, &id)?;
        let session = db.sessions.require(txn, &SessionKey { workspace, session: id })?;
        let Session::Workspace(row) = session else { panic!("{session:?}") };
        Ok(*row)
    })
}

/// The recorded events of the workspace, except its creation.
fn noted(world: &World) -> Vec<WorkspaceFact> {
    let events = world.read(|db, txn| db.workspace_events.iter(txn)?.collect::<Result<Vec<_>, _>>());
    events.into_iter().map(|(_, event)| event.what).filter(|what| *what != WorkspaceFact::Made).collect()
}

/// Changes that were made to a session here, and its origin, survive the import of another state of its file.
#[test]
fn a_changed_file_is_a_revision_of_the_same_session() {
    let mut world = World::new();
    let parent = put(&mut world, new("parent", None, &["x"])).unwrap().id;
    let TookIn::Whole { session, .. } = take(&mut world, ("a", 1), Some("parent")) else { panic!() };
    let holder = || Holder { pid: 7, started: 1, boot: "b".to_owned() };
    let taken = put(&mut world, SessionCommand::Take(session, holder(), Guard::default())).unwrap();
    assert_eq!(taken.what, SessionOutcome::Leased { epoch: 1 });
    put(&mut world, SessionCommand::Release(session, 1)).unwrap();
    for what in [SessionOutcome::Changed, SessionOutcome::Unchanged] {
        let title = Some("Title".to_owned());
        assert_eq!(put(&mut world, SessionCommand::Rename(session, title)).unwrap().what, what);
    }
    let before = row(&world, session);
    assert_eq!(before.lineage.as_ref().unwrap().session.unwrap().1, parent);
    assert_eq!(take(&mut world, ("a", 1), None), TookIn::Already { session, label: label("a") });
    assert_eq!(take(&mut world, ("a", 2), None), TookIn::Whole { session, label: label("a"), revision: 1 });
    let after = row(&world, session);
    assert_eq!(
        (&after.label, &after.title, &after.lineage, after.lease_epoch, after.revision),
        (&before.label, &before.title, &before.lineage, 1, 1)
    );
    world.assert_sound();
}

/// Another file with the same id gets a number, and its original id is recorded; the same content is not imported as
/// another session. A removed session is imported again as a new one, to which later states belong.
#[test]
fn ids_and_contents_are_told_apart() {
    let mut world = World::new();
    let TookIn::Whole { session, .. } = take(&mut world, ("a", 1), None) else { panic!() };
    assert_eq!(row(&world, session).source.unwrap().id, None);
    let TookIn::Whole { session: other, label: numbered, .. } = take(&mut world, ("b", 2), None) else { panic!() };
    assert_ne!(numbered, label("a"), "another session has it");
    assert_eq!(row(&world, other).source.unwrap().id.as_deref(), Some("a"));
    assert_eq!(take(&mut world, ("b", 4), None), TookIn::Whole { session: other, label: numbered, revision: 1 });
    put(&mut world, SessionCommand::Purge(session, Guard::default())).unwrap();
    let TookIn::Whole { session: again, .. } = take(&mut world, ("a", 1), None) else { panic!() };
    assert!(again > session);
    assert_eq!(take(&mut world, ("a", 3), None), TookIn::Whole { session: again, label: label("a"), revision: 1 });
    world.assert_sound();
}

/// Many files at once are one event; a refusal is recorded once.
#[test]
fn what_is_taken_in_is_noted() {
    let mut world = World::new();
    let imported = |sessions| WorkspaceFact::Imported { sessions };
    for (wait, expected) in [(0, vec![imported(1)]), (59_999, vec![imported(2)]), (1, vec![imported(2), imported(1)])] {
        world.pass(Millis::new(wait));
        let number = u8::try_from(wait % 250).unwrap() + 1;
        take(&mut world, (&format!("f{wait}"), number), None);
        assert_eq!(noted(&world), expected);
    }
    let refuse = |world: &mut World, why: &str| {
        let (sight, owner) = (sight("/p"), b"/p/.claw/sessions/bad.jsonl".to_vec());
        let refused =
            FileRefused { sight, owner, file: file("bad", 9), why: why.to_owned(), root: Some("/q".to_owned()) };
        world.put(Input::Workspace(Box::new(WorkspaceInput::Refuse(Box::new(refused)))));
        noted(world).len()
    };
    for (why, many) in [("of /q", 3), ("of /q", 3), ("of another", 4)] {
        assert_eq!(refuse(&mut world, why), many, "{why}");
    }
    assert_eq!(world.read(|db, txn| db.imported_files.len(txn)), 4);
}

/// Removing the current session clears it as the current one; removing another session does not.
#[test]
fn the_current_session_goes_with_itself() {
    for (gone, stays) in [(0, false), (1, true)] {
        let mut world = World::new();
        let ids = ["a", "b"].map(|name| put(&mut world, new(name, None, &["x"])).unwrap().id);
        put(&mut world, SessionCommand::Switch(ids[0])).unwrap();
        put(&mut world, SessionCommand::Delete(ids[gone], Guard::default())).unwrap();
        let current = world.read(|db, txn| Ok(db.workspaces.iter(txn)?.next().unwrap()?.1.current));
        assert_eq!(current, stays.then_some(ids[0]));
    }
}

/// A fork of an agent's conversation names the author of each message.
#[test]
fn a_conversation_is_copied_as_it_was_said() {
    let mut world = crate::world::lifecycle::running();
    let parent = SessionId::new(1);
    let turn = vec![claim(2, 1), end(2, 1, vec![said(3, 1, Some(2), Recipient::Reply)])];
    let turn = world.outside.write(parent, turn);
    world.put(turn);
    world.settle();
    let fork = ForkSession { parent, home: home(), label: None, branch: None, upto: None };
    let fork = put(&mut world, SessionCommand::Fork(Box::new(fork))).unwrap();
    let rows = world.read(|db, txn| db.records.collect_prefix(txn, &RevisionKey { session: fork.id, revision: 0 }, 9));
    let role = |row: &SessionRecord| match &row.body {
        RecordBody::Message { role, .. } => *role,
        other => panic!("{other:?}"),
    };
    let roles: Vec<_> = rows.iter().map(|(_, row)| role(row)).collect();
    assert_eq!(roles, [SpeakerRole::User, SpeakerRole::Assistant]);
}

/// An impossible request is refused without opening a store.
#[test]
fn what_can_never_be_is_known_without_a_store() {
    let id = SessionId::new(1);
    let fork = |branch: &str| {
        let branch = Some(branch.to_owned());
        SessionCommand::Fork(Box::new(ForkSession { parent: id, home: home(), label: None, branch, upto: None }))
    };
    let append = |many| SessionCommand::Append(id, vec![record("x", SpeakerRole::User); many], Guard::default());
    let most = Policy::STANDARD.rows_per_input;
    let many: Vec<&str> = vec!["x"; most + 1];
    for (number, command, kind) in [
        (1, new("s", None, &many), Some("too_many_records")),
        (2, new("s", None, &["x"]), None),
        (3, append(most + 1), Some("too_many_records")),
        (4, append(most), None),
        (5, fork("a\nb"), Some("invalid_name")),
        (6, fork("b"), None),
        (7, SessionCommand::Rename(id, Some(" ".to_owned())), Some("invalid_title")),
        (8, SessionCommand::Rename(id, None), None),
        (9, SessionCommand::Switch(id), None),
    ] {
        let refused = refused_as_given(&command, &Policy::STANDARD);
        assert_eq!(refused.map(|why| why.kind()), kind, "case {number}");
    }
}
