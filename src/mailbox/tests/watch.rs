//! Tests of the watcher.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::model::id::SessionId;

use super::super::{Mailboxes, Watcher};
use super::{Place, SESSION};

/// Timeout for expected events on a machine under load; usually they arrive much earlier.
const SOON: Duration = Duration::from_secs(60);
/// Time to wait for events that must not happen. Too short a wait can only miss them.
const NEVER: Duration = Duration::from_millis(150);

fn watcher() -> (Watcher, Receiver<SessionId>) {
    let (sender, told) = channel();
    let watcher = Watcher::new(move |session| {
        sender.send(session).ok();
    });
    (watcher, told)
}

/// A watcher on the session, after its initial callback.
fn watching(place: &Place) -> (Watcher, Receiver<SessionId>) {
    let (watcher, told) = watcher();
    watcher.watch(&place.mailboxes, SESSION).unwrap();
    assert_eq!(told.recv_timeout(SOON), Ok(SESSION), "what is there already is told");
    watcher.taken(SESSION);
    (watcher, told)
}

fn put(place: &Place, name: &str) {
    let temporary = place.agent(name).parent().unwrap().join(".tmp-1-x");
    fs::write(&temporary, "x").unwrap();
    fs::rename(temporary, place.agent(name)).unwrap();
}

#[test]
fn a_finished_file_is_told_at_once_and_once() {
    let place = Place::new();
    let (watcher, told) = watching(&place);
    for name in ["ack/a", "out/a"] {
        put(&place, name);
        assert_eq!(told.recv_timeout(SOON), Ok(SESSION), "{name}");
        put(&place, "ack/b");
        assert!(told.recv_timeout(NEVER).is_err(), "a collection is queued already");
        watcher.taken(SESSION);
    }
    put(&place, "out/c");
    assert_eq!(told.recv_timeout(SOON), Ok(SESSION));
}

#[test]
fn what_the_host_does_itself_is_not_told() {
    let place = Place::new();
    put(&place, "ack/a");
    let (_watcher, told) = watching(&place);
    let collected = place.collect();
    place.discard(&collected.collection);
    fs::write(place.agent("out/.tmp-1-x"), "half").unwrap();
    fs::write(place.agent("state.json"), "{}").unwrap();
    assert!(told.recv_timeout(NEVER).is_err());
}

#[test]
fn a_session_that_is_not_live_is_not_told() {
    let place = Place::new();
    let (watcher, told) = watching(&place);
    watcher.unwatch(SESSION);
    put(&place, "ack/a");
    assert!(told.recv_timeout(NEVER).is_err());
    watcher.watch(&place.mailboxes, SESSION).unwrap();
    watcher.watch(&place.mailboxes, SESSION).unwrap();
    while told.recv_timeout(NEVER).is_ok() {}
    watcher.taken(SESSION);
    put(&place, "ack/b");
    assert_eq!(told.recv_timeout(SOON), Ok(SESSION), "watching twice is watching");
}

#[test]
fn sessions_are_told_apart() {
    let place = Place::new();
    let (watcher, told) = watcher();
    let sessions = [1, 2, 3].map(SessionId::new);
    for session in sessions {
        watcher.watch(&place.mailboxes, session).unwrap();
        assert_eq!(told.recv_timeout(SOON), Ok(session));
        watcher.taken(session);
    }
    watcher.unwatch(sessions[0]);
    for session in [sessions[2], sessions[1]] {
        fs::write(place.mailboxes.path(session).join("agent/ack/a"), "x").unwrap();
        assert_eq!(told.recv_timeout(SOON), Ok(session));
    }
}

#[test]
fn a_replaced_directory_is_told_and_can_be_watched_again() {
    let place = Place::new();
    let (watcher, told) = watching(&place);
    fs::remove_dir(place.agent("ack")).unwrap();
    assert_eq!(told.recv_timeout(SOON), Ok(SESSION));
    watcher.watch(&place.mailboxes, SESSION).unwrap();
    assert_eq!(told.recv_timeout(SOON), Ok(SESSION));
    watcher.taken(SESSION);
    put(&place, "ack/a");
    assert_eq!(told.recv_timeout(SOON), Ok(SESSION));
}

#[test]
fn links_are_not_watched() {
    let place = Place::new();
    fs::remove_dir(place.agent("ack")).unwrap();
    symlink(place.outside(), place.agent("ack")).unwrap();
    let (_watcher, told) = watching(&place);
    fs::write(place.outside().join("new"), "x").unwrap();
    assert!(told.recv_timeout(NEVER).is_err());
}

#[test]
fn where_nothing_watches_what_is_there_already_is_told() {
    let place = Place::new();
    let (sender, told) = channel();
    let watcher = Watcher::without_native(move |session| {
        sender.send(session).ok();
    });
    watcher.watch(&place.mailboxes, SESSION).unwrap();
    assert_eq!(told.recv_timeout(SOON), Ok(SESSION));
    watcher.unwatch(SESSION);
}

#[test]
fn the_entry_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Mailboxes>();
    shared::<Watcher>();
}
