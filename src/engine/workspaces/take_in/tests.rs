use crate::workspaces::take_in::*;

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(ms)
}

#[test]
fn an_older_state_is_passed_when_a_newer_one_is_there() {
    for (older, states, passed) in [
        (None, vec![], false),
        (None, vec![(at(500), None)], false),
        (Some(100), vec![], false),
        (Some(200), vec![(at(500), Some(100))], false), // the next state of the same import
        (Some(100), vec![(at(500), Some(100))], true),
        (Some(50), vec![(at(500), Some(100))], true),
        (Some(400), vec![(at(500), None)], true), // archived before the session was imported
        (Some(600), vec![(at(500), None)], false), // put aside since
    ] {
        assert_eq!(is_passed(older, &states), passed, "{older:?} {states:?}");
    }
}

#[test]
fn a_changed_file_waits_for_whoever_changed_the_session() {
    let row = |committed: i64, deleted: Option<i64>| WorkspaceSession {
        deleted: deleted.map(at),
        ..WorkspaceSession::new(SessionLabel::nearest("a"), at(committed))
    };
    let states = [(at(4), Some(1)), (at(5), None)];
    for (row, held, word) in [
        (row(5, None), None, None),
        (row(6, None), None, Some("changed")),
        (row(5, None), Some(7), Some("process 7")),
        (row(5, Some(5)), None, Some("trash")),
    ] {
        let why = in_the_way(&row, &states, held);
        assert_eq!(why.is_some(), word.is_some(), "{why:?}");
        assert!(why.unwrap_or_default().contains(word.unwrap_or_default()));
    }
}
