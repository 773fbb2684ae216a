//! Discards remove collected files and nothing else.

use std::fs;
use std::os::unix::fs::symlink;

use crate::model::effect::Discard;
use crate::model::id::SessionId;

use super::super::Error;
use super::{Place, SESSION, names};

fn discard(place: &Place, files: &[&str]) -> Result<(), Error> {
    let agent_files = files.iter().map(|file| (*file).to_owned()).collect();
    place.mailboxes.discard(&Discard { session: SESSION, seqs: vec![2], files: vec![2], agent_files })
}

#[test]
fn exactly_the_named_files_go() {
    let place = Place::new();
    for file in ["ack/a", "ack/b", "out/a.json", "out/b.json", "out/files/a/deep/x", "out/files/b/x", "state.json"] {
        place.write(file, "x");
    }
    for _ in 0..2 {
        discard(&place, &["ack/a", "out/files/a", "out/a.json", "out/never.json"]).unwrap();
        assert_eq!(names(&place.agent("ack")), ["b"]);
        assert_eq!(names(&place.agent("out")), ["b.json", "files"]);
        assert_eq!(names(&place.agent("out/files")), ["b"]);
        assert_eq!(names(&place.agent("")), ["ack", "out", "state.json"]);
    }
}

#[test]
fn names_that_lead_elsewhere_are_refused_and_the_others_go() {
    let place = Place::new();
    place.write("state.json", "x");
    for name in ["../host/context.json", "/etc/hostname", "out/../state.json", "state.json", "out/files/../../x", ""] {
        place.write("ack/a", "x");
        let outcome = discard(&place, &[name, "ack/a"]);
        assert!(matches!(outcome, Err(Error::BadName { .. })), "{name}");
        assert_eq!(names(&place.agent("ack")), [""; 0], "{name}");
    }
    assert!(place.agent("state.json").exists());
    place.assert_outside_untouched();
}

#[test]
fn links_go_and_their_targets_stay() {
    let place = Place::new();
    symlink(place.outside(), place.agent("out/files/a")).unwrap();
    symlink(place.outside().join("secret.json"), place.agent("out/a.json")).unwrap();
    place.write("out/files/b/inner/x", "x");
    symlink(place.outside(), place.agent("out/files/b/link")).unwrap();
    symlink(place.outside(), place.agent("out/files/b/inner/link")).unwrap();
    discard(&place, &["out/files/a", "out/a.json", "out/files/b"]).unwrap();
    assert_eq!(names(&place.agent("out")), ["files"]);
    assert_eq!(names(&place.agent("out/files")), [""; 0]);
    place.assert_outside_untouched();
}

#[test]
fn a_directory_that_became_a_link_is_not_entered() {
    let place = Place::new();
    fs::remove_dir_all(place.agent("ack")).unwrap();
    symlink(place.outside().join("directory"), place.agent("ack")).unwrap();
    discard(&place, &["ack/4.1.completed.json", "ack/a.json"]).unwrap();
    fs::remove_dir_all(place.agent("out/files")).unwrap();
    symlink(place.outside(), place.agent("out/files")).unwrap();
    discard(&place, &["out/files/directory"]).unwrap();
    place.assert_outside_untouched();
}

#[test]
fn real_directories_are_never_taken_for_what_stood_in_for_them() {
    let place = Place::new();
    place.write("out/files/a/x", "x");
    discard(&place, &["ack", "out", "out/files"]).unwrap();
    assert!(place.agent("out/files/a/x").exists());
}

#[test]
fn a_session_without_a_mailbox_has_nothing_to_discard() {
    let place = Place::new();
    let discard =
        Discard { session: SessionId::new(99), seqs: vec![2], files: vec![2], agent_files: vec!["ack/a".to_owned()] };
    place.mailboxes.discard(&discard).unwrap();
    assert!(!place.mailboxes.path(SessionId::new(99)).exists());
}
