use crate::model::content::BlobId;
use crate::model::skip::SkipStep;
use crate::model::time::Timestamp;
use crate::skips::*;

pub(super) fn report(kind: SkipKind, items: &[&str]) -> SkipReport {
    SkipReport {
        digest: BlobId::of_digest(&[7; 32]),
        step: SkipStep::Number(3),
        reason: "no answer".to_owned(),
        items: items.iter().map(|item| (*item).to_owned()).collect(),
        kind,
        occurred: Timestamp::from_millis(0),
    }
}

pub(super) fn skip(report: SkipReport, repeats: u32) -> SkipSummary {
    SkipSummary {
        agent: AgentId::new(1),
        skill: "tessl__a".to_owned(),
        session: None,
        report,
        taken: Timestamp::from_millis(0),
        noticed: Awake::new(2, 100),
        file: SkipFile::There,
        repeats,
        nonce: None,
        state: SkipState::Waiting,
    }
}

#[test]
fn people_are_told_when_the_turn_is_over_and_nobody_else_told_them() {
    use SkipAction::{Leave, NoteReplaced, NoteTaken, Tell};
    use SkipFile::{Replaced, There};
    for (file, sight, over, next) in [
        (There, SkipFileState::Same, false, Leave),
        (There, SkipFileState::Same, true, Tell),
        (There, SkipFileState::Gone, false, NoteTaken),
        (There, SkipFileState::Gone, true, NoteTaken),
        (There, SkipFileState::Another, false, NoteReplaced),
        (There, SkipFileState::Another, true, Tell),
        (There, SkipFileState::Unknown, true, Leave),
        (There, SkipFileState::Unknown, false, Leave),
        (Replaced, SkipFileState::Gone, false, Leave),
        (Replaced, SkipFileState::Gone, true, Tell),
        (Replaced, SkipFileState::Another, true, Tell),
        (Replaced, SkipFileState::Unknown, true, Tell),
        (Replaced, SkipFileState::Same, false, Leave),
    ] {
        assert_eq!(decide_next(file, sight, over), next, "{file:?} {sight:?} {over}");
    }
}

#[test]
fn a_turn_that_began_later_is_another_one() {
    let noticed = Awake::new(2, 100);
    for (claims, over) in [
        (vec![], true),
        (vec![Awake::new(2, 101)], true),
        (vec![Awake::new(2, 100)], false),
        (vec![Awake::new(2, 50), Awake::new(2, 200)], false),
        // A claim of an earlier run of the daemon, and one of a later run.
        (vec![Awake::new(1, 900)], false),
        (vec![Awake::new(3, 0)], true),
    ] {
        assert_eq!(decide_over(noticed, &claims), over, "{claims:?}");
    }
}

#[test]
fn repeats_are_technical_skips_of_the_same_items_in_a_row() {
    use SkipKind::{Policy, Technical};
    let now = report(Technical, &["a", "b"]);
    for (before, repeats) in [
        (None, 1),
        (Some(skip(report(Technical, &["a", "b"]), 1)), 2),
        (Some(skip(report(Technical, &["b", "a"]), 2)), 3),
        // People were asked, so the count starts over.
        (Some(skip(report(Technical, &["a", "b"]), 3)), 1),
        (Some(skip(report(Technical, &["a"]), 2)), 1),
        (Some(skip(report(Policy, &["a", "b"]), 2)), 1),
    ] {
        assert_eq!(decide_repeats(before.as_ref(), &now, 3), repeats, "{before:?}");
    }
    let policy = report(Policy, &["a"]);
    assert_eq!(decide_repeats(Some(&skip(report(Policy, &["a"]), 1)), &policy, 3), 1);
}

#[test]
fn a_file_is_judged_by_its_digest() {
    let mine = skip(report(SkipKind::Policy, &[]), 1);
    let other = SkipReport { digest: BlobId::of_digest(&[8; 32]), ..mine.report.clone() };
    let found = |skill: &str, content| FoundSkip { skill: skill.to_owned(), content };
    let unread = crate::model::skip::SkipTrouble::Version(2);
    for (files, complete, sight) in [
        (vec![found("tessl__a", Ok(mine.report.clone()))], true, SkipFileState::Same),
        (vec![found("tessl__a", Ok(mine.report.clone()))], false, SkipFileState::Same),
        (vec![found("tessl__a", Ok(other))], true, SkipFileState::Another),
        (vec![found("tessl__a", Err(unread))], true, SkipFileState::Another),
        (vec![found("tessl__b", Ok(mine.report.clone()))], true, SkipFileState::Gone),
        (vec![], true, SkipFileState::Gone),
        (vec![], false, SkipFileState::Unknown),
    ] {
        let look = SkipLook { after: None, found: files, complete };
        assert_eq!(decide_sight(&mine, &look), sight, "{look:?}");
    }
}
