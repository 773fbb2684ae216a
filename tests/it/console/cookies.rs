//! The cookie of a session over time: it is replaced, the one before works for a while, and it expires.

use hearth::model::Millis;
use hearth::model::console::ConsoleSession;
use hearth::state::{Options, Store};

use super::Console;
use crate::host::Host;
use crate::host::disk::{Disk, Filler};

/// Changes the only session while no daemon runs.
fn change(console: &mut Console, change: impl FnOnce(&mut ConsoleSession)) {
    console.host.stop();
    let store = Store::open(&console.host.data(), Options::new(hearth::clock::random().unwrap())).unwrap();
    let wrote = store.write(|db, txn| {
        let (id, mut row) = db.console_sessions.last(txn, ..)?.unwrap();
        change(&mut row);
        db.console_sessions.put(txn, &id, &row)
    });
    wrote.unwrap();
    drop(store);
    console.host.start();
}

fn earlier(row: &mut ConsoleSession, by: Millis) {
    row.rotated = row.rotated.minus(by);
    row.signed_in = row.signed_in.minus(by);
}

fn status(console: &Console, cookie: &str) -> u16 {
    console.get("/", cookie).status
}

#[test]
fn a_cookie_is_replaced_every_hour_and_the_one_before_ends_once_the_new_one_was_used() {
    let mut console = Console::start();
    let first = console.sign_in(&[]);
    assert!(console.get("/", &first).cookie().is_none(), "it is new");
    change(&mut console, |row| earlier(row, ConsoleSession::ROTATE));
    let token = console.get("/style.css", &first);
    assert!(token.cookie().is_none(), "{token:?}");
    let page = console.get("/", &first);
    let second = page.cookie().unwrap();
    assert!(
        page.status == 200 && second != first && page.header("set-cookie").unwrap().contains("; HttpOnly"),
        "{page:?}"
    );
    // The answer may have been lost.
    let again = console.get("/", &first);
    assert!(again.status == 200 && again.cookie().is_none(), "{again:?}");
    let form = format!("token={}", page.field("token"));
    assert_eq!(console.post("/nothing", &first, &form).status, 404, "forms of pages that are open go on");
    // The new one is used: requests under way still have the old one.
    assert_eq!((status(&console, &second), status(&console, &first)), (200, 200));
    change(&mut console, |row| {
        let replaced = row.replaced.as_mut().unwrap();
        replaced.until = Some(replaced.until.expect("the use was recorded").minus(ConsoleSession::OVERLAP));
    });
    assert_eq!((status(&console, &second), status(&console, &first)), (200, 401));
    assert_eq!(console.post("/nothing", &second, &form).status, 404, "and with the new one, too");
}

#[test]
fn a_cookie_expires_after_a_week_without_a_request_or_a_month() {
    for (idle, age) in [(ConsoleSession::IDLE, Millis::seconds(0)), (Millis::minutes(90), ConsoleSession::LIFE)] {
        let mut console = Console::start();
        let cookie = console.sign_in(&[]);
        let almost = Millis::minutes(60);
        change(&mut console, |row| {
            row.rotated = row.rotated.minus(idle).plus(almost);
            row.signed_in = row.signed_in.minus(age).plus(almost);
        });
        // Nothing is written by this: a POST replaces no cookie.
        assert_ne!(console.post("/nothing", &cookie, "").status, 401);
        change(&mut console, |row| earlier(row, almost));
        assert_eq!((status(&console, &cookie), console.sessions()), (401, 0));
        console.host.check();
    }
}

/// A full disk right after a cookie was replaced: pages are shown although the use of the new one cannot be recorded.
#[test]
fn a_new_cookie_works_on_a_full_disk() {
    let host = Host::new();
    let Some(_disk) = Disk::mount(host.data()) else { return };
    host.apply(&crate::host::with_chat("provider = \"echo\""));
    let mut console = Console::of(host, "");
    let first = console.sign_in(&[]);
    change(&mut console, |row| earlier(row, ConsoleSession::ROTATE));
    let second = console.get("/", &first).cookie().unwrap();
    let filler = Filler::fill(&console.host.data());
    for _ in 0..3 {
        assert_eq!((status(&console, &second), status(&console, &first)), (200, 200));
    }
    filler.make_room();
    console.host.check();
}
