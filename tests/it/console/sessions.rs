//! Sessions and decisions in the console, as the engine keeps them.

use hearth::model::address::UserId;
use hearth::model::approval::{ApprovalState, Decider};
use hearth::model::card::PromptSubject;
use hearth::model::console::{ConsoleInput, ConsoleSession, Login};
use hearth::model::id::{ApprovalId, ConsoleSessionId};
use hearth::model::report::Reply;
use hearth::model::{Input, Millis};

use crate::world::World;

const HOUSE: &str = r#"
[[agents]]
folder = "main"
[[agents]]
folder = "other"
[[users]]
id = "terminal:1"
roles = ["owner"]
[[users]]
id = "telegram:2"
roles = ["admin:other"]
[[users]]
id = "telegram:3"
member_of = ["main"]
[[users]]
id = "telegram:4"
[[chats]]
channel = "telegram"
platform_id = "77"
unknown_senders = "request_approval"
[[chats.wirings]]
agent = "main"
engage = "pattern"
pattern = "."
"#;

fn user(text: &str) -> UserId {
    UserId::parse(text).unwrap()
}

fn sign_in(world: &mut World, person: &str, token: u8) -> Reply {
    let input =
        ConsoleInput::SignIn { user: user(person), token: [token; 32], browser: "a\nb".to_owned(), login: Login::Link };
    world.put(Input::Console(input))
}

fn rotate(world: &mut World, session: ConsoleSessionId, from: u8, to: u8) -> Reply {
    world.put(Input::Console(ConsoleInput::Rotate { session, from: [from; 32], to: [to; 32] }))
}

fn row(world: &World, session: ConsoleSessionId) -> ConsoleSession {
    world.read(|db, txn| db.console_sessions.require(txn, &session))
}

#[test]
fn only_people_with_rights_sign_in() {
    let mut world = World::of(HOUSE);
    let mut token = 0;
    for (person, may) in
        [("terminal:1", true), ("telegram:2", true), ("telegram:3", true), ("telegram:4", false), ("telegram:9", false)]
    {
        token += 1;
        let reply = sign_in(&mut world, person, token);
        assert_eq!(matches!(reply, Reply::Console(_)), may, "{person}: {reply:?}");
    }
    assert_eq!(row(&world, ConsoleSessionId::new(1)).browser, "ab");
    assert!(matches!(sign_in(&mut world, "terminal:1", 1), Reply::Refused(refusal) if refusal.code == "taken"));
    world.assert_sound();
}

#[test]
fn a_replaced_token_works_until_a_minute_after_the_new_one_was_used() {
    let mut world = World::of(HOUSE);
    let Reply::Console(session) = sign_in(&mut world, "terminal:1", 1) else { panic!() };
    assert_eq!(rotate(&mut world, session, 1, 2), Reply::Console(session));
    assert_eq!(row(&world, session).replaced.unwrap().until, None, "nobody knows whether the new one arrived");
    // Another request with the same token came second.
    assert!(matches!(rotate(&mut world, session, 1, 3), Reply::Refused(_)));
    assert_eq!(row(&world, session).token, [2; 32]);
    for _ in 0..2 {
        world.put(Input::Console(ConsoleInput::Confirm(session)));
        world.pass(Millis::seconds(30));
    }
    let until = row(&world, session).replaced.unwrap().until.unwrap();
    assert_eq!(until, world.now().wall, "the first use counts");
    assert_eq!(row(&world, session).seed, [1; 32], "forms stay valid");
    world.assert_sound();
    world.put(Input::Console(ConsoleInput::SignOut(session)));
    for input in [ConsoleInput::SignOut(session), ConsoleInput::Confirm(session)] {
        assert!(matches!(world.put(Input::Console(input)), Reply::Refused(refusal) if refusal.code == "unknown"));
    }
    assert!(matches!(rotate(&mut world, session, 2, 3), Reply::Refused(_)));
    world.assert_sound();
}

#[test]
fn sessions_are_bounded_and_end() {
    let mut world = World::of(HOUSE);
    for token in 1..=u8::try_from(ConsoleSession::MAX + 5).unwrap() {
        world.pass(Millis::seconds(1));
        sign_in(&mut world, "terminal:1", token);
    }
    let count = |world: &World| world.read(|db, txn| db.console_sessions.len(txn));
    assert_eq!(count(&world), ConsoleSession::MAX as u64);
    world.read(|db, txn| {
        assert!(db.console_sessions.get(txn, &ConsoleSessionId::new(1))?.is_none(), "the oldest one ended");
        Ok(())
    });
    world.pass(ConsoleSession::IDLE);
    sign_in(&mut world, "terminal:1", 200);
    assert_eq!(count(&world), 1);
    world.assert_sound();
}

#[test]
fn people_decide_what_they_have_authority_over() {
    let mut world = World::of(HOUSE);
    world.inject(
        r#"{"channelType":"telegram","platformId":"77","message":{"id":"1","kind":"chat","content":{"text":"hi","senderId":"900"}}}"#,
    );
    world.settle();
    let approval = PromptSubject::Approval(ApprovalId::new(1));
    let session = |world: &mut World, person: &str, token: u8| match sign_in(world, person, token) {
        Reply::Console(session) => session,
        other => panic!("{other:?}"),
    };
    let owner = session(&mut world, "terminal:1", 1);
    let decide = |world: &mut World, session, matter| world.put(Input::DecideAs(session, matter, "approve".to_owned()));
    for (person, token) in [("telegram:2", 2), ("telegram:3", 3)] {
        let other = session(&mut world, person, token);
        let reply = decide(&mut world, other, approval);
        assert!(matches!(&reply, Reply::Refused(refusal) if refusal.code == "forbidden"), "{person}: {reply:?}");
    }
    let missing = PromptSubject::Approval(ApprovalId::new(9));
    let reply = decide(&mut world, owner, missing);
    assert!(matches!(&reply, Reply::Refused(refusal) if refusal.code == "forbidden"), "{reply:?}");
    let reply = decide(&mut world, ConsoleSessionId::new(9), approval);
    assert!(matches!(&reply, Reply::Refused(refusal) if refusal.code == "unknown"), "{reply:?}");
    let reply = decide(&mut world, owner, approval);
    assert!(matches!(reply, Reply::Answered { decided: true, .. }), "{reply:?}");
    let state = world.read(|db, txn| db.approvals.require(txn, &ApprovalId::new(1))).state;
    assert!(matches!(state, ApprovalState::Approved { by: Decider::Person(by), .. } if by == user("terminal:1")));
    assert!(matches!(decide(&mut world, owner, approval), Reply::Refused(_)), "once");
    world.assert_sound();
}
