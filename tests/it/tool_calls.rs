//! Questions about tool calls: one decision, one execution, whatever dies in between.

use hearth::model::approval::{Approval, ApprovalState, ApprovalSubject, Decider};
use hearth::model::card::PromptSubject;
use hearth::model::configure::Change;
use hearth::model::delivery::{Act, Outbound};
use hearth::model::entity::Folder;
use hearth::model::id::{ApprovalId, MessageId, ToolGrantId};
use hearth::model::incarnation::Exit;
use hearth::model::input::Input;
use hearth::model::journal::Event;
use hearth::model::mailbox::RetryHint;
use hearth::model::report::{Action, Reply};
use hearth::model::request::Request;
use hearth::model::task_command::NewTask;
use hearth::model::tool::{
    Call, GrantScope, NewToolCall, Place, ToolBasis, ToolCall, ToolField, ToolOutcome, ToolPattern, ToolPreset,
    ToolRequest, ToolValue, digest,
};
use hearth::model::{Millis, RawJson};
use serde_json::{Value, json};

use crate::world::outside::{claim, end, gone, try_again};
use crate::world::requests::{HOUSE, S, ask, working_in};
use crate::world::{World, event_in, schedules};

const AP1: ApprovalId = ApprovalId::new(1);

fn working() -> World {
    working_in(World::new())
}

fn bash(command: &str) -> Request {
    let input = json!({ "command": command });
    let place = Place { folder: "/workspace/agent".to_owned(), ..Place::default() };
    let pattern = ToolPattern::of(&Call { tool: "Bash", kind: "", input: &input, place: &place });
    Request::UseTool(Box::new(NewToolCall {
        tool: "Bash".to_owned(),
        kind: String::new(),
        folder: place.folder,
        fields: vec![ToolField { name: "command".to_owned(), value: ToolValue::Text(command.to_owned()) }],
        digest: digest("Bash", &input),
        pattern: pattern.map(|pattern| pattern.to_string()),
        input: RawJson::trusted(input.to_string()),
    }))
}

fn reply(world: &World, name: &str) -> Option<Value> {
    let reply = world.outside.replies.get(&S)?.get(name)?.clone();
    Some(serde_json::from_str(&reply.expect("a decision")).unwrap())
}

fn approval(world: &World, id: u64) -> (Approval, ToolRequest) {
    let approval = world.read(|db, txn| db.approvals.require(txn, &ApprovalId::new(id)));
    let ApprovalSubject::Tool(request) = approval.about.clone() else { panic!("{approval:?}") };
    (approval, *request)
}

fn approvals(world: &World) -> usize {
    world.read(|db, txn| Ok(db.approvals.iter(txn)?.count()))
}

fn decide(world: &mut World, id: u64, value: &str) -> bool {
    let reply = world.put(Input::Decide(PromptSubject::Approval(ApprovalId::new(id)), value.into()));
    world.settle();
    match reply {
        Reply::Answered { decided, .. } => decided,
        other => panic!("{other:?}"),
    }
}

/// The run dies, and the next one claims the message again.
fn next_run(world: &mut World) {
    let live = world.session(S).live.unwrap();
    let input = world.outside.end(S, live, Exit::Signal(9));
    world.put(input);
    world.settle();
    world.pass(Millis::seconds(120));
    world.sweep();
    world.settle();
    let live = world.session(S).live.expect("the message is tried again");
    let input = world.outside.write(S, vec![claim(2, live)]);
    world.put(input);
    world.settle();
}

fn cards(world: &World) -> Vec<String> {
    let text = |outbound: Outbound| match outbound.act {
        Act::Ask(card) => Some(card.body),
        _ => None,
    };
    world.all_outbound().into_iter().filter_map(|(_, outbound)| text(outbound)).collect()
}

fn allowed(approval: u64) -> Option<Value> {
    Some(json!({"verdict": "allow", "approval": format!("ap{approval}")}))
}

#[test]
fn an_approval_is_used_in_the_commit_that_passes_it_on() {
    let mut world = working();
    ask(&mut world, "t", bash("git push"));
    assert_eq!(reply(&world, "t"), None);
    let [card] = cards(&world).try_into().unwrap();
    for part in ["the tool \"Bash\"", "\"git push\"", "digest: ", "Bash(command:git push)"] {
        assert!(card.contains(part), "{part}: {card}");
    }
    assert!(decide(&mut world, 1, "approve"));
    assert_eq!(reply(&world, "t"), allowed(1));
    let (approval, request) = approval(&world, 1);
    assert!(matches!(approval.state, ApprovalState::Approved { by: Decider::Operator, .. }));
    assert_eq!(request.used.map(|used| (used.incarnation, used.outcome)), Some((1, None)));
    // The same call again is another execution.
    ask(&mut world, "u", bash("git push"));
    assert_eq!((reply(&world, "u"), approvals(&world)), (None, 2));
    world.assert_sound();
}

/// A decision that no run could read yet is not asked for again.
#[test]
fn a_decision_waits_for_the_next_run() {
    for (value, expected) in [
        ("approve", json!({"verdict": "allow", "approval": "ap1"})),
        ("reject", json!({"verdict": "deny", "reason": "A person said no.", "approval": "ap1"})),
        (
            "reject_why:not today",
            json!({"verdict": "deny", "reason": "A person said no: not today", "approval": "ap1"}),
        ),
    ] {
        let mut world = working();
        ask(&mut world, "t", bash("git push"));
        let input = world.outside.end(S, 1, Exit::Signal(9));
        world.put(input);
        world.settle();
        assert!(decide(&mut world, 1, value), "{value}");
        assert_eq!(approval(&world, 1).1.used, None, "{value}");
        world.pass(Millis::seconds(120));
        world.sweep();
        world.settle();
        let live = world.session(S).live.unwrap();
        let input = world.outside.write(S, vec![claim(2, live)]);
        world.put(input);
        ask(&mut world, "again", bash("git push"));
        assert_eq!(reply(&world, "again"), Some(expected), "{value}");
        assert_eq!((approvals(&world), cards(&world).len()), (1, 1), "{value}");
        world.assert_sound();
    }
}

/// Right after a start, the daemon does not know which runs of the earlier one still live.
#[test]
fn a_decision_right_after_a_start_is_not_lost_with_the_run_of_the_earlier_daemon() {
    for survives in [false, true] {
        let mut world = working();
        ask(&mut world, "t", bash("git push"));
        world.restart();
        assert!(matches!(
            world.put(Input::Decide(PromptSubject::Approval(AP1), "approve".into())),
            Reply::Answered { decided: true, .. }
        ));
        assert_eq!((reply(&world, "t"), approval(&world, 1).1.used), (None, None));
        if survives {
            world.settle();
            assert_eq!(reply(&world, "t"), allowed(1));
        } else {
            next_run(&mut world);
            ask(&mut world, "again", bash("git push"));
            assert_eq!(reply(&world, "again"), allowed(1));
        }
        assert_eq!(approval(&world, 1).1.used.map(|used| used.incarnation), world.session(S).live);
        assert_eq!((approvals(&world), cards(&world).len()), (1, 1));
        world.assert_sound();
    }
}

/// The question outlives the run that asked it, and the daemon.
#[test]
fn the_next_run_takes_over_an_open_question() {
    let mut world = working();
    ask(&mut world, "t", bash("git push"));
    world.restart();
    world.settle();
    next_run(&mut world);
    ask(&mut world, "again", bash("git push"));
    ask(&mut world, "other", bash("git pull"));
    assert_eq!(approvals(&world), 2, "one question for each call");
    assert!(decide(&mut world, 1, "approve"));
    assert_eq!((reply(&world, "again"), reply(&world, "other")), (allowed(1), None));
    assert_eq!(approval(&world, 1).1.used.map(|used| used.incarnation), world.session(S).live);
    world.assert_sound();
}

/// What was allowed before a run died may have run: people are told when they are asked again, and so is the agent.
#[test]
fn after_a_death_the_same_call_is_asked_about_again() {
    for (outcome, words) in [
        (None, "It may or may not have run after that."),
        (Some(ToolOutcome::Ran), "It ran once after that."),
        (Some(ToolOutcome::Failed), "It ran once after that, and failed."),
    ] {
        let mut world = working();
        ask(&mut world, "t", bash("git push"));
        assert!(decide(&mut world, 1, "approve"));
        if let Some(outcome) = outcome {
            ask(
                &mut world,
                "done",
                Request::ToolCalls(vec![over(ToolBasis::Asked { approval: AP1, by: None }, outcome)]),
            );
        }
        next_run(&mut world);
        let told = |world: &World| {
            let notes = world.all_messages().into_iter().filter(|(_, message)| message.session == S);
            let texts: Vec<String> = notes
                .map(|(_, message)| world.read(|db, txn| db.bodies.require(txn, &message.body)).content.text)
                .collect();
            texts.iter().any(|text| text.contains("may or may not have run"))
        };
        assert_eq!(told(&world), outcome.is_none(), "{outcome:?}");
        ask(&mut world, "again", bash("git push"));
        assert_eq!(reply(&world, "again"), None, "{outcome:?}");
        assert!(cards(&world)[1].contains(words), "{outcome:?}: {:?}", cards(&world));
        assert!(decide(&mut world, 2, "approve"));
        assert_eq!(reply(&world, "again"), allowed(2));
        world.assert_sound();
    }
}

fn over(basis: ToolBasis, outcome: ToolOutcome) -> ToolCall {
    let (tool, digest, excerpt) = ("Bash".to_owned(), "00".to_owned(), "{}".to_owned());
    ToolCall { tool, digest, excerpt, basis, outcome, took: Millis::new(7) }
}

#[test]
fn an_answer_for_longer_is_listed_and_can_be_taken_back() {
    for (value, scope) in [("session", GrantScope::Session(S)), ("always", GrantScope::Agent)] {
        let mut world = working();
        ask(&mut world, "t", bash("git push"));
        assert!(decide(&mut world, 1, value));
        assert_eq!(reply(&world, "t"), allowed(1), "{value}");
        let grant = world.read(|db, txn| db.tool_grants.require(txn, &ToolGrantId::new(1)));
        assert_eq!((grant.pattern.as_str(), grant.scope), ("Bash(command:git push)", scope));
        ask(&mut world, "u", bash("git push"));
        let granted = json!({"verdict": "allow", "granted": "Bash(command:git push)"});
        assert_eq!(reply(&world, "u"), Some(granted), "{value}");
        ask(&mut world, "v", bash("git push; rm x"));
        assert_eq!(reply(&world, "v"), None, "{value}: another call");
        // A reset ends what was for the session.
        world.configure(vec![Change::ResetSession(S)]).unwrap();
        let left = world.read(|db, txn| db.tool_grants.len(txn));
        assert_eq!(left, u64::from(scope == GrantScope::Agent), "{value}");
        if scope == GrantScope::Agent {
            let main = Folder::new("main").unwrap();
            let removed = world.configure(vec![Change::ForgetToolGrant(main, ToolGrantId::new(1))]).unwrap();
            assert_eq!(removed[0].action, Action::Removed);
        }
        ask(&mut world, "w", bash("git push"));
        assert_eq!(reply(&world, "w"), None, "{value}");
        world.assert_sound();
    }
}

const TERMINAL: &str = "[[chats]]\nchannel = \"terminal\"\nplatform_id = \"main\"\nunknown_senders = \"public\"\n\
                        wirings = [{ agent = \"main\", engage = \"pattern\", pattern = \".\" }]\n";

/// A task of an agent whose owner is at the terminal is due, and its message is claimed.
fn in_a_task(allow: &[&str]) -> World {
    let mut world = World::of(&format!("{HOUSE}{TERMINAL}"));
    let allow = allow.iter().map(|pattern| (*pattern).to_owned()).collect();
    world.put(schedules::add(NewTask { allow, ..schedules::new(&world, 60, None) }));
    world.pass(Millis::minutes(2));
    world.sweep();
    world.settle();
    let live = world.session(S).live.unwrap();
    let input = world.outside.write(S, vec![claim(2, live)]);
    world.put(input);
    world
}

#[test]
fn a_task_that_no_one_can_answer_for_is_denied_at_once_with_a_notice() {
    let mut world = in_a_task(&[]);
    ask(&mut world, "t", bash("git push"));
    let denied = json!({"verdict": "deny", "reason": "no one who may decide about it can be asked"});
    assert_eq!((reply(&world, "t"), approvals(&world)), (Some(denied.clone()), 0));
    let texts: Vec<String> = world.all_outbound().into_iter().map(|(_, outbound)| outbound.text).collect();
    assert!(
        texts.iter().any(|text| text.contains("The scheduled task ta1 of main may not use the tool Bash.")),
        "{texts:?}"
    );
    // The right was given when it was made.
    let mut world = in_a_task(&["Bash(git push:*)"]);
    ask(&mut world, "t", bash("git push -f"));
    assert_eq!(reply(&world, "t"), Some(json!({"verdict": "allow", "granted": "Bash(git push:*)"})));
    ask(&mut world, "u", bash("git pull"));
    assert_eq!((reply(&world, "u"), approvals(&world)), (Some(denied), 0));
    world.assert_sound();
}

#[test]
fn a_right_of_a_task_is_for_its_runs_only() {
    let mut world = working();
    let allow = vec!["Bash".to_owned()];
    world.put(schedules::add(NewTask { allow, ..schedules::new(&world, 60, None) }));
    ask(&mut world, "t", bash("git push"));
    assert_eq!((reply(&world, "t"), approvals(&world)), (None, 1));
    let allow = vec!["Bash".to_owned(), "Bash(".to_owned()];
    let refused = world.put(schedules::add(NewTask { allow, ..schedules::new(&world, 60, None) }));
    assert!(matches!(&refused, Reply::Refused(why) if why.message.contains("`Bash(`")), "{refused:?}");
    assert_eq!(world.read(|db, txn| db.tool_grants.len(txn)), 1);
    world.assert_sound();
}

#[test]
fn a_question_expires_and_the_agent_is_told() {
    let mut world = working();
    ask(&mut world, "t", bash("git push"));
    world.step_clock(31 * 60_000);
    world.sweep();
    world.settle();
    let reason = "No one answered the question about it within 30 minutes.";
    assert_eq!(reply(&world, "t"), Some(json!({"verdict": "deny", "reason": reason, "approval": "ap1"})));
    assert!(matches!(approval(&world, 1).0.state, ApprovalState::Expired { .. }));
    // The same call of the same message is not asked about again.
    ask(&mut world, "u", bash("git push"));
    assert_eq!(reply(&world, "u").unwrap()["verdict"], "deny");
    assert_eq!(approvals(&world), 1);
    world.assert_sound();
}

#[test]
fn the_end_of_a_turn_ends_its_questions() {
    let mut world = working();
    ask(&mut world, "t", bash("git push"));
    let live = world.session(S).live.unwrap();
    let input = world.outside.write(S, vec![end(2, live, vec![])]);
    world.put(input);
    world.settle();
    assert!(matches!(approval(&world, 1).0.state, ApprovalState::Superseded { .. }));
    world.assert_sound();
    // A failed turn is tried again: the question stays for it.
    let mut world = working();
    ask(&mut world, "t", bash("git push"));
    let input = world.outside.write(S, vec![try_again(2, vec![], 1, RetryHint::Later)]);
    world.put(input);
    world.settle();
    assert!(approval(&world, 1).0.state.is_open());
    world.assert_sound();
}

#[test]
fn a_stop_ends_open_questions() {
    let mut world = working();
    ask(&mut world, "t", bash("git push"));
    world.inject(&event_in(("net", "C", Some("t")), ("2", "/stop", r#""senderId":"ann""#), ""));
    world.settle();
    assert!(matches!(approval(&world, 1).0.state, ApprovalState::Superseded { .. }));
    let live = world.session(S).live;
    if let Some(live) = live {
        world.put(gone(S, live, Exit::Signal(9)));
    }
    world.settle();
    world.assert_sound();
}

#[test]
fn every_call_is_a_row_of_its_message() {
    let mut world = working();
    let asked = ToolBasis::Asked { approval: AP1, by: None };
    ask(&mut world, "t", bash("git push"));
    assert!(decide(&mut world, 1, "approve"));
    let calls = vec![
        over(ToolBasis::Preset(ToolPreset::Careful), ToolOutcome::Ran),
        over(asked, ToolOutcome::Failed),
        over(ToolBasis::Blocked, ToolOutcome::Denied),
    ];
    ask(&mut world, "calls", Request::ToolCalls(calls));
    let rows = world.read(|db, txn| {
        let found = db.tool_calls_by_message.collect_prefix(txn, &MessageId::new(1), 10)?;
        found.into_iter().map(|(key, ())| db.journal.require(txn, &key.id)).collect::<Result<Vec<_>, _>>()
    });
    let bases: Vec<ToolBasis> = rows
        .into_iter()
        .map(|row| match row.event {
            Event::ToolCalled(call) => call.basis,
            other => panic!("{other:?}"),
        })
        .collect();
    let decided = ToolBasis::Asked { approval: AP1, by: Some(Decider::Operator) };
    assert_eq!(bases, [ToolBasis::Preset(ToolPreset::Careful), decided, ToolBasis::Blocked]);
    let used = approval(&world, 1).1.used.unwrap();
    assert_eq!(used.outcome, Some(ToolOutcome::Failed));
    world.assert_sound();
}

/// A run whose turn with a message has ended does not wait for answers about it: the next turn gets them.
#[test]
fn a_decision_after_a_failed_turn_is_for_the_next_one() {
    let mut world = working();
    ask(&mut world, "t", bash("git push"));
    let input = world.outside.write(S, vec![try_again(2, vec![], 1, RetryHint::Later)]);
    world.put(input);
    world.settle();
    assert!(decide(&mut world, 1, "approve"));
    assert_eq!((reply(&world, "t"), approval(&world, 1).1.used), (None, None));
    world.pass(Millis::seconds(120));
    world.sweep();
    world.settle();
    let live = world.session(S).live.unwrap();
    let input = world.outside.write(S, vec![claim(2, live)]);
    world.put(input);
    ask(&mut world, "again", bash("git push"));
    assert_eq!((reply(&world, "again"), approvals(&world)), (allowed(1), 1));
    world.assert_sound();
}

/// The same while the run goes on with another message.
#[test]
fn a_run_does_not_wait_for_answers_about_a_message_that_failed_in_it() {
    let mut world = working();
    let sender = r#""senderId":"ann","senderName":"Ann""#;
    world.inject(&event_in(("net", "C", Some("t")), ("2", "more", sender), ""));
    world.settle();
    ask(&mut world, "t", bash("git push"));
    let other = world.all_messages().last().unwrap().1.seq;
    let input = world.outside.write(S, vec![claim(other, 1)]);
    world.put(input);
    let input = world.outside.write(S, vec![try_again(2, vec![], 1, RetryHint::Later)]);
    world.put(input);
    world.settle();
    assert_eq!(world.session(S).live, Some(1));
    assert!(decide(&mut world, 1, "approve"));
    assert_eq!((reply(&world, "t"), approval(&world, 1).1.used), (None, None));
    world.assert_sound();
}

/// An agent may ask before its claim of the message was collected.
#[test]
fn a_question_may_come_before_the_claim_of_its_message() {
    let mut world = World::new();
    world.apply(HOUSE);
    let sender = r#""senderId":"ann","senderName":"Ann""#;
    world.inject(&event_in(("net", "C", Some("t")), ("1", "hello", sender), ""));
    world.settle();
    ask(&mut world, "t", bash("git push"));
    assert!(decide(&mut world, 1, "approve"));
    assert_eq!(reply(&world, "t"), allowed(1));
    world.assert_sound();
}
