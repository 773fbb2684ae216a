//! People stop turns, and freeze agents.

use hearth::model::configure::Change;
use hearth::model::delivery::OutState;
use hearth::model::entity::Folder;
use hearth::model::id::{MessageId, SessionId};
use hearth::model::incarnation::{Exit, Phase, StopReason};
use hearth::model::mailbox::{CollectedRecord, Recipient, Record};
use hearth::model::message::{Completion, MessageState, Reason};
use hearth::model::policy::Policy;
use hearth::model::report::{Action, Decision};
use hearth::model::{Effect, Millis};

use crate::world::lifecycle::{answer, per_thread, running};
use crate::world::outside::{claim, end, said};
use crate::world::routing::{ALWAYS, MENTION, MENTIONED, chat, decisions, drops};
use crate::world::{World, event, event_in};

const S: SessionId = SessionId::new(1);

fn main() -> Folder {
    Folder::new("main").unwrap()
}

/// Ann is a member of `main`, Olga its owner; Bob is a member, too.
const PEOPLE: &str = r#"
[[users]]
id = "net:ann"
name = "Ann"
member_of = ["main"]
[[users]]
id = "net:bob"
name = "Bob"
member_of = ["main"]
[[users]]
id = "net:olga"
name = "Olga"
roles = ["owner"]
"#;

fn people() -> World {
    World::of(&format!("{PEOPLE}{}", chat("strict", &[("main", ALWAYS)])))
}

fn by(who: &str, id: &str, text: &str) -> String {
    event_in(("net", "C", None), (id, text, &format!("\"senderId\":\"{who}\"")), "")
}

/// Says something; the run of the session claims it.
fn work(world: &mut World, who: &str, id: &str) -> MessageId {
    let report = world.inject(&by(who, id, "do it"));
    world.settle();
    let message = report.wirings[0].message.unwrap();
    let (seq, number) = (world.message(message).seq, world.session(S).live.unwrap());
    let claims = world.outside.write(S, vec![claim(seq, number)]);
    world.put(claims);
    world.settle();
    assert!(matches!(world.state_of(message), MessageState::Claimed { .. }));
    message
}

fn notices(world: &World) -> Vec<String> {
    let hearths = |outbound: &hearth::model::delivery::Outbound| outbound.text.clone();
    world.all_outbound().iter().map(|(_, outbound)| hearths(outbound)).collect()
}

fn stopped_by(world: &World, id: MessageId) -> Option<String> {
    match world.state_of(id) {
        MessageState::Completed { how: Completion::Stopped(by), .. } => {
            Some(by.map_or_else(|| "operator".to_owned(), |by| by.to_string()))
        }
        _ => None,
    }
}

fn tools(names: &[&str]) -> CollectedRecord {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    CollectedRecord { record: Record::Tools(names), files: Vec::new() }
}

/// The message ends with the press, the note comes when the run is gone, and what the run still writes is discarded.
#[test]
fn a_person_stops_the_turn_that_answers_them() {
    let mut world = people();
    let message = work(&mut world, "ann", "1");
    let report = world.inject(&by("ann", "2", "/stop"));
    assert_eq!(decisions(&report), [("main".to_owned(), Decision::Done, Reason::OwnCommand)]);
    assert_eq!(stopped_by(&world, message).as_deref(), Some("net:ann"));
    assert_eq!(notices(&world), [""; 0], "the run may still do something");
    assert!(world.effects.contains(&Effect::StopNow(S, 1)));
    // The run is quick, and answers before it is gone.
    let seq = world.message(message).seq;
    let late = end(seq, 1, vec![said(3, 1, Some(seq), Recipient::Reply)]);
    world.outside.write(S, vec![late, tools(&["Bash", "Write", "Bash"])]);
    world.settle();
    let notes: Vec<String> = notices(&world).into_iter().filter(|text| text.starts_with("Stopped")).collect();
    assert_eq!(notes, ["Stopped by Ann. Tools that had already run: Bash, Write."]);
    let sent = world.all_outbound().iter().filter(|(_, one)| matches!(one.state, OutState::Delivered { .. })).count();
    assert_eq!(sent, 1, "the answer is not sent");
    assert_eq!((world.session(S).live, world.message(message).tries), (None, 0));
    assert_eq!(stopped_by(&world, message).as_deref(), Some("net:ann"), "and nothing is done again");
    // The agent learns of it with its next turn.
    let next = work(&mut world, "ann", "3");
    assert!(world.outside.inbox[&S].values().any(|one| one.content.as_str().contains("was stopped by Ann")));
    assert_eq!(world.message(next).tries, 0);
    assert_eq!(drops(&world), [Reason::OwnCommand]);
    world.assert_sound();
}

/// Whatever dies between the press and its effect, the message is not repeated and the note is not lost.
#[test]
fn a_stop_survives_a_crash() {
    let mut world = people();
    let message = work(&mut world, "ann", "1");
    world.inject(&by("ann", "2", "/stop"));
    world.lose_effects();
    world.outside.running.clear();
    world.restart();
    world.settle();
    for _ in 0..3 {
        world.pass(Millis::seconds(60));
        world.sweep();
        world.settle();
    }
    assert_eq!(stopped_by(&world, message).as_deref(), Some("net:ann"));
    assert_eq!(notices(&world), ["Stopped by Ann."]);
    assert_eq!(world.session(S).live, None);
    world.assert_sound();
}

#[test]
fn others_may_not_stop_a_turn_and_owners_may() {
    let mut world = people();
    let message = work(&mut world, "ann", "1");
    world.inject(&by("bob", "2", "/STOP now"));
    world.settle();
    assert_eq!(world.incarnation(S, 1).phase, Phase::Running);
    assert_eq!(stopped_by(&world, message), None);
    let words = "main is working for someone else. Only its administrators and owners can stop that.";
    assert_eq!(notices(&world), [words]);
    // A stranger is not even answered.
    let report = world.inject(&by("eve", "3", "/stop"));
    assert_eq!(decisions(&report)[0].2, Reason::UnknownSenderStrict);
    world.inject(&by("eve", "4", "/stop all"));
    world.inject(&by("bob", "5", "/stop all"));
    world.settle();
    assert_eq!(notices(&world)[1..], ["Permission denied: /stop all requires admin access."]);
    assert_eq!(world.read(|db, txn| db.frozen_agents.len(txn)), 0);
    world.inject(&by("olga", "6", "/stop"));
    world.settle();
    assert_eq!(stopped_by(&world, message).as_deref(), Some("net:olga"));
    assert_eq!(notices(&world)[2..], ["Stopped by Olga."]);
}

/// Of a turn for several people, a person ends their own part. The others' messages run again, without a try.
#[test]
fn a_shared_turn_goes_on_for_the_others() {
    let mut world = people();
    let anns = work(&mut world, "ann", "1");
    let bobs = work(&mut world, "bob", "2");
    world.inject(&by("ann", "3", "/stop"));
    world.settle();
    assert_eq!(stopped_by(&world, anns).as_deref(), Some("net:ann"));
    assert_eq!((world.session(S).live, world.message(bobs).tries), (Some(2), 0));
    assert!(matches!(world.state_of(bobs), MessageState::Pending(_)));
    world.assert_sound();
}

/// A message that waits behind the turn of another person is withdrawn, and that turn goes on.
#[test]
fn withdrawing_a_message_leaves_the_turn_of_others_alone() {
    let mut world = people();
    let anns = work(&mut world, "ann", "1");
    let bobs = world.inject(&by("bob", "2", "and this")).wirings[0].message.unwrap();
    world.settle();
    let seq = world.message(bobs).seq;
    assert!(world.outside.inbox[&S].contains_key(&seq));
    world.inject(&by("bob", "3", "/stop"));
    world.settle();
    assert_eq!(stopped_by(&world, bobs).as_deref(), Some("net:bob"));
    assert!(matches!(world.state_of(anns), MessageState::Claimed { .. }));
    assert_eq!(world.incarnation(S, 1).phase, Phase::Running);
    assert!(!world.outside.inbox[&S].contains_key(&seq), "the run does not see it any more");
    assert_eq!(notices(&world), ["Stopped. main had not begun."]);
    world.assert_sound();
}

#[test]
fn a_stop_before_the_beginning_and_after_the_end() {
    let mut world = people();
    world.inject(&by("ann", "0", "/stop"));
    world.settle();
    assert_eq!(notices(&world), ["There is nothing to stop: main was not asked anything here."]);
    assert_eq!(world.read(|db, txn| db.sessions.len(txn)), 0, "no session is made for it");
    // Not begun: the run has the message in its mailbox, or none is there yet.
    world.outside.startable = false;
    let message = world.inject(&by("ann", "1", "do it")).wirings[0].message.unwrap();
    world.settle();
    world.inject(&by("ann", "2", "/stop"));
    world.settle();
    assert_eq!(stopped_by(&world, message).as_deref(), Some("net:ann"));
    assert_eq!(notices(&world)[1..], ["Stopped. main had not begun."]);
    world.outside.startable = true;
    world.pass(Millis::minutes(60));
    let next = world.inject(&by("ann", "3", "do it")).wirings[0].message.unwrap();
    world.settle();
    let seq = world.message(next).seq;
    answer(&mut world, 1, seq);
    world.inject(&by("ann", "4", "/stop"));
    world.settle();
    let last = notices(&world).pop().unwrap();
    assert!(last.starts_with("There is nothing to stop: the last turn of main ended at "), "{last}");
    world.assert_sound();
}

/// A message that waits for its next try can be withdrawn.
#[test]
fn a_message_in_a_backoff_is_stopped() {
    let mut world = running();
    world.put_alone(hearth::model::Input::Sweep(Vec::new()));
    let message = MessageId::new(1);
    let died = world.outside.write(S, vec![claim(2, 1)]);
    world.put(died);
    let gone = world.outside.end(S, 1, Exit::Signal(9));
    world.put(gone);
    world.settle();
    assert_eq!(world.message(message).tries, 1);
    world.inject(&event("2", "/stop", ""));
    world.settle();
    assert_eq!(stopped_by(&world, message).as_deref(), Some("net:ann"));
    world.pass(Millis::minutes(5));
    world.sweep();
    world.settle();
    assert_eq!(stopped_by(&world, message).as_deref(), Some("net:ann"));
}

#[test]
fn a_message_in_a_backoff_is_found_behind_those_of_other_sessions() {
    let policy = Policy { rows_per_input: 16, ..Policy::STANDARD };
    let mut world = World::with(policy, |_| {});
    world.apply(&per_thread(""));
    for (number, thread) in (1..).zip(["a", "b", "c", "d"]) {
        let (session, id) = (SessionId::new(number), number.to_string());
        world.inject(&event_in(("net", "C", Some(thread)), (&id, "x", "\"senderId\":\"ann\""), ""));
        world.settle();
        world.pass(Millis::new(100));
        let died = world.outside.write(session, vec![claim(2, 1)]);
        world.put(died);
        let gone = world.outside.end(session, 1, Exit::Signal(9));
        world.put(gone);
        world.settle();
    }
    world.inject(&event_in(("net", "C", Some("d")), ("9", "/stop", "\"senderId\":\"ann\""), ""));
    world.settle();
    assert_eq!(stopped_by(&world, MessageId::new(4)).as_deref(), Some("net:ann"));
    assert_eq!(stopped_by(&world, MessageId::new(1)), None);
    world.assert_sound();
}

#[test]
fn a_frozen_agent_waits_until_it_is_unfrozen() {
    let mut world = people();
    let stopped = work(&mut world, "ann", "1");
    world.inject(&by("olga", "2", "/stop all"));
    world.settle();
    assert_eq!(stopped_by(&world, stopped).as_deref(), Some("net:olga"));
    let text = notices(&world).concat();
    assert!(text.contains("main is stopped and frozen. Messages wait until `hearth agents unfreeze main`."), "{text}");
    let waiting = world.inject(&by("ann", "3", "more")).wirings[0].message.unwrap();
    world.settle();
    world.pass(Millis::minutes(60));
    world.sweep();
    world.restart();
    world.settle();
    assert_eq!((world.session(S).live, world.message(waiting).tries), (None, 0));
    assert!(matches!(world.state_of(waiting), MessageState::Pending(_)));
    assert_eq!(world.read(|db, txn| Ok(db.frozen_agents.iter(txn)?.count())), 1);
    let action = |world: &mut World, change| world.configure(vec![change]).unwrap()[0].action;
    assert_eq!(action(&mut world, Change::FreezeAgent(main())), Action::Unchanged);
    assert_eq!(action(&mut world, Change::UnfreezeAgent(main())), Action::Unfrozen);
    world.settle();
    assert_eq!(world.session(S).live, Some(2));
    let seq = world.message(waiting).seq;
    answer(&mut world, 1, seq);
    assert_eq!(action(&mut world, Change::UnfreezeAgent(main())), Action::Unchanged);
    // An idle run ends, too. Removing the agent removes the freeze.
    assert_eq!(action(&mut world, Change::FreezeAgent(main())), Action::Frozen);
    world.settle();
    assert_eq!(world.session(S).live, None);
    world.configure(vec![Change::RemoveAgent(main())]).unwrap();
    world.settle();
    assert_eq!(world.read(|db, txn| db.frozen_agents.len(txn)), 0);
    world.assert_sound();
}

/// The operator stops turns, and not what has not begun.
#[test]
fn the_operator_stops_an_agent() {
    let mut world = people();
    assert_eq!(world.configure(vec![Change::StopAgent(main())]).unwrap(), []);
    let message = work(&mut world, "ann", "1");
    let reports = world.configure(vec![Change::StopAgent(main())]).unwrap();
    assert_eq!((reports[0].entity.as_str(), reports[0].action), ("session se1 of agent main", Action::Stopped));
    assert!(matches!(world.incarnation(S, 1).phase, Phase::Stopping { why: StopReason::Asked, .. }));
    world.settle();
    assert_eq!(stopped_by(&world, message).as_deref(), Some("operator"));
    assert_eq!(notices(&world), ["Stopped by the operator."]);
    for change in [Change::StopAgent, Change::FreezeAgent, Change::UnfreezeAgent] {
        let error = world.configure(vec![change(Folder::new("nobody").unwrap())]).unwrap_err();
        assert!(error.message.contains("agent nobody not found"), "{error:?}");
    }
}

/// `/clear` ends the turn of its session first, and is a turn of its own as ever. Members may not use it.
#[test]
fn a_clear_does_not_wait() {
    let mut world = people();
    let message = work(&mut world, "ann", "1");
    assert_eq!(decisions(&world.inject(&by("bob", "2", "/clear")))[0].1, Decision::Denied);
    assert_eq!(stopped_by(&world, message), None);
    let report = world.inject(&by("olga", "3", "/clear"));
    assert_eq!(decisions(&report)[0].1, Decision::Engaged);
    assert_eq!(stopped_by(&world, message).as_deref(), Some("net:olga"));
    world.settle();
    assert_eq!(world.session(S).live, Some(2));
    assert!(world.outside.inbox[&S].values().any(|one| one.content.as_str().contains("/clear")));
}

/// Where an agent is not addressed, the word is no command and no context.
#[test]
fn only_an_agent_that_is_addressed_is_stopped() {
    let keep = format!("{MENTION}\nignored = \"accumulate\"");
    let mut world = World::of(&format!("{PEOPLE}{}", chat("public", &[("main", &keep), ("other", ALWAYS)])));
    let report = world.inject(&by("ann", "1", "/stop"));
    let expected = [
        ("main".to_owned(), Decision::Filtered, Reason::CommandFiltered),
        ("other".to_owned(), Decision::Done, Reason::OwnCommand),
    ];
    assert_eq!(decisions(&report), expected);
    let report = world.inject(&event_in(("net", "C", None), ("2", "@andy /stop", "\"senderId\":\"ann\""), MENTIONED));
    assert!(decisions(&report).iter().all(|(_, decision, _)| *decision == Decision::Done));
    world.settle();
    assert_eq!(notices(&world).len(), 2, "one answer for each, however many agents: {:?}", notices(&world));
}
