//! Transactions of workspace sessions, compared with a model.

use hearth::state::{RecencyKey, SessionKey};
use std::collections::BTreeMap;

use hearth::engine::workspaces::view::{self, Cut};
use hearth::model::id::SessionId;
use hearth::model::record::{RecordBody, SessionRecord, SpeakerRole};
use hearth::model::session::{Session, SessionLabel, SessionSource};
use hearth::model::session_command::{CompactSession, ForkSession, Guard, SessionCommand, SessionDone, SessionRefusal};
use hearth::model::take_in::{FileState, SessionHead, TakeIn};
use hearth::model::workspace_command::WorkspaceInput;
use hearth::model::{Input, Millis, Timestamp};
use hearth::state::check::check_in_parts;
use proptest::prelude::*;

use super::input::{home, new, put, record, sight};
use crate::world::World;
use crate::world::chance::cases;

/// The ids of the workspace, the newest first.
fn order(world: &World) -> Vec<String> {
    world.read(|db, txn| {
        let mut all = Vec::new();
        for row in db.sessions_by_update.iter(txn)? {
            let (RecencyKey { workspace, session: id, .. }, ()) = row?;
            let Session::Workspace(own) = db.sessions.require(txn, &SessionKey { workspace, session: id })? else {
                continue;
            };
            all.push(own.label.to_string());
        }
        all.reverse();
        Ok(all)
    })
}

fn sound(world: &World) {
    let violations = check_in_parts(world.store().reader()).unwrap();
    assert!(violations.is_empty(), "{violations:#?}");
}

#[test]
fn the_order_is_that_of_changes_and_no_clock_pins_it() {
    let mut world = World::new();
    let now = world.now().wall.millis();
    for label in ["c", "a", "b"] {
        put(&mut world, new(label, Some((1, 500)), &["x"])).unwrap();
    }
    assert_eq!(order(&world), ["b", "a", "c"], "equal times are in the order of their commits");
    put(&mut world, new("future", Some((1, 4_000_000_000_000)), &["x"])).unwrap();
    put(&mut world, new("later", None, &["x"])).unwrap();
    assert_eq!(order(&world)[..2], ["later", "future"]);
    world.step_clock(-3_600_000);
    put(&mut world, new("back", None, &["x"])).unwrap();
    assert_eq!(order(&world)[0], "back", "a clock that was set back changes no order");
    let back = world.read(|db, txn| {
        let row = db.sessions.iter(txn)?.last().unwrap()?.1;
        Ok(row.workspace().unwrap())
    });
    assert!(back.updated.millis() > now, "{}", back.updated);
    sound(&world);
}

/// The first piece of a file with this digest.
fn piece(digest: u8, after: u64, records: usize, last: bool) -> Input {
    let source = SessionSource {
        path: b"/p/.claw/sessions/a.jsonl".to_vec(),
        id: None,
        from_name: false,
        root: None,
        torn_tail: None,
        extra: None,
    };
    let at = Timestamp::from_millis(5);
    let head = SessionHead {
        label: SessionLabel::new("a").unwrap(),
        model: None,
        created: at,
        updated: at,
        parent: None,
        compaction: None,
        source,
    };
    let file = FileState { path: head.source.path.clone(), digest: [digest; 32], older: None };
    let records = (0..records).map(|number| record(&format!("m{number}"), SpeakerRole::User)).collect();
    let piece = TakeIn { sight: sight("/p"), file, head, after, records, last };
    Input::Workspace(Box::new(WorkspaceInput::TakeIn(Box::new(piece))))
}

#[test]
fn a_file_of_which_only_some_pieces_came_goes_after_a_day_in_slices() {
    let mut world = World::new();
    world.put(piece(7, 0, 400, false));
    world.pass(Millis::minutes(23 * 60));
    world.sweep();
    let left = |world: &World| world.read(|db, txn| Ok((db.partial_imports.len(txn)?, db.records.len(txn)?)));
    assert_eq!(left(&world), (1, 400), "its time is not over");
    world.pass(Millis::minutes(2 * 60));
    world.sweep();
    let (files, records) = left(&world);
    assert!(files == 1 && (1..400).contains(&records), "{files} {records}");
    sound(&world);
    // Nothing continues a partly removed import: the same file starts over.
    world.put(piece(7, 400, 1, true));
    assert_eq!(world.read(|db, txn| db.sessions_by_id.len(txn)), 0);
    for _ in 0..4 {
        world.put(piece(7, 0, 3, true));
    }
    assert_eq!((left(&world), world.read(|db, txn| db.sessions_by_id.len(txn))), ((0, 3), 1));
    sound(&world);
    // A session that is never used again is removed entirely.
    world.put(piece(8, 0, 400, false));
    world.pass(Millis::days(2));
    for _ in 0..4 {
        world.sweep();
        sound(&world);
    }
    assert_eq!(left(&world), (0, 3));
}

#[test]
fn the_trash_is_emptied_after_its_time_and_forks_keep_what_they_share() {
    let mut world = World::new();
    let texts: Vec<String> = (0..300).map(|number| format!("m{number}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let parent = put(&mut world, new("parent", None, &texts)).unwrap().id;
    let fork =
        ForkSession { parent, home: home(), label: SessionLabel::new("fork").ok(), branch: None, upto: Some(250) };
    let fork = put(&mut world, SessionCommand::Fork(Box::new(fork))).unwrap();
    assert_eq!((fork.row.messages, fork.row.records), (250, 250));
    put(&mut world, SessionCommand::Clear(fork.id, Guard::default())).unwrap();
    put(&mut world, SessionCommand::Delete(parent, Guard::default())).unwrap();
    world.pass(Millis::days(29));
    world.sweep();
    assert!(world.read(|db, txn| db.sessions_by_id.contains(txn, &parent)), "its time is not over");
    world.pass(Millis::days(2));
    for _ in 0..40 {
        world.sweep();
        sound(&world);
    }
    world.read(|db, txn| {
        assert!(!db.sessions_by_id.contains(txn, &parent)?);
        assert_eq!(db.records.len(txn)?, 250);
        let cut = view::revision(db, txn, fork.id, 0)?.unwrap();
        let parts = view::segments(db, txn, cut)?;
        assert_eq!(view::records(db, txn, &parts, 0, 1_000)?.len(), 250);
        Ok(())
    });
    let refused = put(&mut world, SessionCommand::Restore(parent)).unwrap_err();
    assert_eq!(refused.kind(), "session_not_found");
}

/// The events in a session's life, with the store's content after each.
#[test]
fn a_session_from_its_beginning_to_its_end() {
    let mut world = World::new();
    let none = Guard::default();
    let at = |id, upto| {
        let label = SessionLabel::new("fork").ok();
        SessionCommand::Fork(Box::new(ForkSession {
            parent: id,
            home: home(),
            label,
            branch: Some("b".to_owned()),
            upto,
        }))
    };
    let id = put(&mut world, new("s", None, &["one"])).unwrap().id;
    let more = vec![record("two", SpeakerRole::Assistant), record("three", SpeakerRole::User)];
    put(&mut world, SessionCommand::Append(id, more, none)).unwrap();
    world.pass(Millis::minutes(1));
    let fork = put(&mut world, at(id, Some(2))).unwrap().id;
    put(&mut world, SessionCommand::Append(fork, vec![record("other", SpeakerRole::User)], none)).unwrap();
    put(&mut world, SessionCommand::Compact(id, CompactSession { keep: 1, summary: None }, none)).unwrap();
    sound(&world);
    world.check("session_compacted");
    world.begin_script();
    put(&mut world, SessionCommand::Delete(id, none)).unwrap();
    sound(&world);
    world.check("session_deleted");
    world.begin_script();
    put(&mut world, SessionCommand::Purge(id, none)).unwrap();
    world.settle();
    sound(&world);
    world.check("session_purged");
}

/// Each slice of a removal leaves a consistent store, and the next sweep continues it if its effects are lost.
#[test]
fn a_removal_in_pieces_goes_on_after_every_loss() {
    for count in [1_usize, 249, 250, 251, 500, 750] {
        let mut world = World::new();
        let texts: Vec<String> = (0..count).map(|number| format!("m{number}")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let none = Guard::default();
        let parent = put(&mut world, new("parent", None, &texts)).unwrap().id;
        let mut last = parent;
        let mut forks = Vec::new();
        for name in ["f", "g", "h"] {
            let label = SessionLabel::new(name).ok();
            let wanted = ForkSession { parent: last, home: home(), label, branch: None, upto: None };
            last = put(&mut world, SessionCommand::Fork(Box::new(wanted))).unwrap().id;
            put(&mut world, SessionCommand::Append(last, vec![record(name, SpeakerRole::User)], none)).unwrap();
            forks.push(last);
        }
        put(&mut world, SessionCommand::Clear(forks[2], none)).unwrap();
        let expected = count + 3;
        // The middle session is removed first, then the one on which all others are based.
        for gone in [forks[1], parent, forks[0]] {
            put(&mut world, SessionCommand::Purge(gone, none)).unwrap();
            world.lose_effects();
            for round in 0.. {
                sound(&world);
                world.read(|db, txn| {
                    let cut = view::revision(db, txn, forks[2], 0)?.unwrap();
                    let parts = view::segments(db, txn, cut)?;
                    let rows = view::records(db, txn, &parts, 0, usize::MAX)?;
                    assert!(rows.iter().map(|(number, _)| *number).eq(1..=expected as u64), "{count} {gone} {round}");
                    Ok(())
                });
                if !world.read(|db, txn| db.sessions_by_id.contains(txn, &gone)) {
                    break;
                }
                assert!(round < 200, "{count}: {gone} is never gone");
                world.sweep();
                world.lose_effects();
            }
        }
        let left =
            world.read(|db, txn| Ok((db.sessions.len(txn)?, db.records.len(txn)?, db.sessions_by_base.len(txn)?)));
        assert_eq!(left, (1, expected as u64, 0), "{count}");
    }
}

/// A fork reads from the ancestor that holds the last of its records, however often it was forked.
#[test]
fn a_fork_of_forks_begins_where_its_last_record_is() {
    let mut world = World::new();
    let first = put(&mut world, new("first", None, &["a"])).unwrap().id;
    let mut fork = |parent, upto| {
        let wanted = ForkSession { parent, home: home(), label: None, branch: None, upto };
        let id = put(&mut world, SessionCommand::Fork(Box::new(wanted))).unwrap().id;
        let more = SessionCommand::Append(id, vec![record("b", SpeakerRole::User)], Guard::default());
        if upto.is_none() {
            put(&mut world, more).unwrap();
        }
        sound(&world);
        id
    };
    let second = fork(first, None);
    let third = fork(second, None);
    let last = fork(third, None);
    let ends: Vec<SessionId> = (1..=4).map(|upto| fork(last, Some(upto))).collect();
    let begins = |id: &SessionId| {
        world.read(|db, txn| {
            let workspace = db.sessions_by_id.require(txn, id)?;
            let Session::Workspace(row) = db.sessions.require(txn, &SessionKey { workspace, session: *id })? else {
                panic!()
            };
            Ok(row.base.map(|base| (base.session, base.upto)))
        })
    };
    let expected = [(first, 1), (second, 2), (third, 3), (last, 4)].map(Some);
    assert_eq!(ends.iter().map(begins).collect::<Vec<_>>(), expected);
}

#[test]
fn too_much_at_once_is_refused_and_changes_nothing() {
    let mut world = World::new();
    let id = put(&mut world, new("s", None, &["x"])).unwrap().id;
    let many = vec![record("x", SpeakerRole::User); 1_001];
    let large = vec![record(&"x".repeat(13 << 20), SpeakerRole::User)];
    for (records, kind) in [(many, "too_many_records"), (large, "record_too_large")] {
        let refused = put(&mut world, SessionCommand::Append(id, records, Guard::default())).unwrap_err();
        assert_eq!(refused.kind(), kind);
    }
    let fork = |upto| ForkSession { parent: id, home: home(), label: None, branch: None, upto };
    let refused = put(&mut world, SessionCommand::Fork(Box::new(fork(Some(2))))).unwrap_err();
    assert_eq!(refused.kind(), "no_such_record");
    let refused = put(&mut world, new("s", None, &[])).unwrap_err();
    assert_eq!(refused.kind(), "session_exists");
    assert_eq!(world.read(|db, txn| Ok((db.records.len(txn)?, db.sessions.len(txn)?))), (1, 1));
}

/// Actions of a client on one of the sessions.
#[derive(Debug, Clone)]
enum Act {
    New,
    Append(usize, u8),
    Fork(usize, Option<u64>),
    Clear(usize),
    Compact(usize, u64),
    Delete(usize),
    Restore(usize),
    Purge(usize),
}

fn an_act() -> impl Strategy<Value = Act> {
    let which = 0..8_usize;
    prop_oneof![
        2 => Just(Act::New),
        6 => (which.clone(), 1..5_u8).prop_map(|(at, count)| Act::Append(at, count)),
        4 => (which.clone(), proptest::option::of(0..9_u64)).prop_map(|(at, upto)| Act::Fork(at, upto)),
        2 => which.clone().prop_map(Act::Clear),
        2 => (which.clone(), 0..5_u64).prop_map(|(at, keep)| Act::Compact(at, keep)),
        1 => which.clone().prop_map(Act::Delete),
        1 => which.clone().prop_map(Act::Restore),
        1 => which.prop_map(Act::Purge),
    ]
}

/// The model's content of a session: its revisions, the newest last.
type Model = BTreeMap<SessionId, Vec<Vec<String>>>;

fn act(world: &mut World, model: &mut Model, act: &Act, counter: &mut u64) {
    let at = |at: usize| model.keys().nth(at % model.len().max(1)).copied();
    let none = Guard::default();
    let done = match *act {
        Act::New => {
            *counter += 1;
            let label = format!("n{counter}");
            let done = put(world, new(&label, None, &[])).unwrap();
            model.insert(done.id, vec![Vec::new()]);
            return;
        }
        Act::Append(which, count) => {
            let Some(id) = at(which) else { return };
            let texts: Vec<String> = (0..count)
                .map(|_| {
                    *counter += 1;
                    format!("t{counter}")
                })
                .collect();
            let records = texts.iter().map(|text| record(text, SpeakerRole::User)).collect();
            let done = put(world, SessionCommand::Append(id, records, none));
            if done.is_ok() {
                model.get_mut(&id).unwrap().last_mut().unwrap().extend(texts);
            }
            done
        }
        Act::Fork(which, upto) => {
            let Some(parent) = at(which) else { return };
            let wanted = ForkSession { parent, home: home(), label: None, branch: None, upto };
            let done = put(world, SessionCommand::Fork(Box::new(wanted)));
            if let Ok(done) = &done {
                let mut texts = model[&parent].last().unwrap().clone();
                texts.truncate(upto.map_or(usize::MAX, |upto| usize::try_from(upto).unwrap()));
                model.insert(done.id, vec![texts]);
            }
            done
        }
        Act::Clear(which) => {
            let Some(id) = at(which) else { return };
            let done = put(world, SessionCommand::Clear(id, none));
            renewed(model, id, &done, |_| Vec::new());
            done
        }
        Act::Compact(which, keep) => {
            let Some(id) = at(which) else { return };
            let done = put(world, SessionCommand::Compact(id, CompactSession { keep, summary: None }, none));
            let keep = usize::try_from(keep).unwrap();
            renewed(model, id, &done, |before| before[before.len() - before.len().min(keep)..].to_vec());
            done
        }
        Act::Delete(which) => match at(which) {
            Some(id) => put(world, SessionCommand::Delete(id, none)),
            None => return,
        },
        Act::Restore(which) => match at(which) {
            Some(id) => put(world, SessionCommand::Restore(id)),
            None => return,
        },
        Act::Purge(which) => {
            let Some(id) = at(which) else { return };
            let done = put(world, SessionCommand::Purge(id, none));
            world.settle();
            model.remove(&id);
            done
        }
    };
    if let Err(refusal) = done {
        let expected = ["session_not_found", "session_not_in_trash", "no_such_record"];
        assert!(expected.contains(&refusal.kind()), "{act:?}: {refusal}");
    }
}

/// Adds a revision to the model if the store has a new one.
fn renewed(
    model: &mut Model,
    id: SessionId,
    done: &Result<SessionDone, SessionRefusal>,
    texts: impl FnOnce(&[String]) -> Vec<String>,
) {
    let revisions = model.get_mut(&id).unwrap();
    if done.as_ref().is_ok_and(|done| usize::try_from(done.row.revision).unwrap() == revisions.len()) {
        let texts = texts(revisions.last().unwrap());
        revisions.push(texts);
    }
}

/// Every revision of every session is as in the model.
fn compare(world: &World, model: &Model) {
    world.read(|db, txn| {
        for (id, revisions) in model {
            for (number, texts) in (0_u32..).zip(revisions) {
                let cut: Cut = view::revision(db, txn, *id, number)?.unwrap_or_else(|| panic!("{id}/{number}"));
                let parts = view::segments(db, txn, cut)?;
                let rows = view::records(db, txn, &parts, 0, usize::MAX)?;
                let found: Vec<String> = rows.iter().map(|(_, row)| said(row)).collect();
                assert_eq!(&found, texts, "{id}/{number}");
                assert!(rows.iter().zip(1_u64..).all(|((number, _), expected)| *number == expected));
            }
        }
        assert_eq!(db.sessions.len(txn)?, u64::try_from(model.len()).unwrap());
        Ok(())
    });
    sound(world);
}

fn said(row: &SessionRecord) -> String {
    let RecordBody::Message { blocks, .. } = &row.body else { panic!("{row:?}") };
    let blocks: serde_json::Value = serde_json::from_str(blocks.as_str()).unwrap();
    blocks[0]["text"].as_str().unwrap().to_owned()
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn sessions_are_what_was_done_with_them(acts in proptest::collection::vec(an_act(), 1..40)) {
        let mut world = World::new();
        let (mut model, mut counter) = (Model::new(), 0);
        for one in &acts {
            act(&mut world, &mut model, one, &mut counter);
        }
        compare(&world, &model);
    }
}
