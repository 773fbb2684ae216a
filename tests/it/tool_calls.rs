//! Questions about tool calls: one decision, one execution, whatever dies in between.

use hearth::model::approval::{Approval, ApprovalState, ApprovalSubject, Decider};
use hearth::model::card::PromptSubject;
use hearth::model::channel::ChannelKind;
use hearth::model::configure::Change;
use hearth::model::delivery::{Act, Outbound};
use hearth::model::entity::Folder;
use hearth::model::id::{ApprovalId, MessageId, SessionId, ToolGrantId};
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
use crate::world::requests::{HOUSE, S, ask, ask_about, ask_in, working_in};
use crate::world::{World, channel, event_in, schedules};

const AP1: ApprovalId = ApprovalId::new(1);

fn working() -> World {
    working_in(World::new())
}

fn bash(command: &str) -> Request {
    bash_in("/workspace/agent", command)
}

fn bash_in(folder: &str, command: &str) -> Request {
    let input = json!({ "command": command });
    let place = Place { folder: folder.to_owned(), ..Place::default() };
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
    told_decision(world, id, value).0
}

/// Whether it was decided, and what is said about it.
fn told_decision(world: &mut World, id: u64, value: &str) -> (bool, String) {
    let reply = world.put(Input::Decide(PromptSubject::Approval(ApprovalId::new(id)), value.into()));
    world.settle();
    match reply {
        Reply::Answered { decided, text } => (decided, text),
        other => panic!("{other:?}"),
    }
}

fn dies(world: &mut World) {
    let live = world.session(S).live.unwrap();
    let input = world.outside.end(S, live, Exit::Signal(9));
    world.put(input);
    world.settle();
}

/// The run dies, and the next one claims the message again.
fn next_run(world: &mut World) {
    dies(world);
    tried_again(world);
}

/// The message is claimed again when its wait is over.
fn tried_again(world: &mut World) {
    world.pass(Millis::seconds(120));
    world.sweep();
    world.settle();
    let live = world.session(S).live.expect("the message is tried again");
    let input = world.outside.write(S, vec![claim(2, live)]);
    world.put(input);
    world.settle();
}

/// How often the agent was told that a call may have run.
fn warnings(world: &World) -> usize {
    let notes = world.all_messages().into_iter().filter(|(_, message)| message.session == S);
    let texts = notes.map(|(_, message)| world.read(|db, txn| db.bodies.require(txn, &message.body)).content.text);
    texts.filter(|text| text.contains("may or may not have run")).count()
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
    // The last decision about it counts.
    assert!(decide(&mut world, 2, "reject"));
    ask(&mut world, "v", bash("git push"));
    assert_eq!((reply(&world, "v").unwrap()["verdict"].clone(), approvals(&world)), (json!("deny"), 2));
    world.assert_sound();
}

/// A decision is about one call of one message. Other calls are asked about, and so is the same one for the next message.
#[test]
fn a_decision_is_for_the_same_call_of_the_same_message() {
    let mut world = working();
    ask(&mut world, "t", bash("git push"));
    assert!(decide(&mut world, 1, "reject"));
    ask(&mut world, "again", bash("git push"));
    for name in ["t", "again"] {
        assert_eq!(reply(&world, name).map(|reply| reply["verdict"].clone()), Some(json!("deny")), "{name}");
    }
    assert_eq!(approvals(&world), 1);
    ask(&mut world, "other", bash("git pull"));
    ask(&mut world, "elsewhere", bash_in("/workspace/other", "git push"));
    assert_eq!((reply(&world, "other"), reply(&world, "elsewhere"), approvals(&world)), (None, None, 3));
    world.inject(&event_in(("net", "C", Some("t")), ("2", "more", r#""senderId":"ann""#), ""));
    world.settle();
    let (next, run) = (world.all_messages().last().unwrap().1.seq, world.session(S).live.unwrap());
    let input = world.outside.write(S, vec![end(2, run, vec![]), claim(next, run)]);
    world.put(input);
    ask_about(&mut world, S, Some(next), "later", bash("git push"));
    assert_eq!((reply(&world, "later"), approvals(&world)), (None, 4));
    world.assert_sound();
}

/// Each call that a run waits for has a question of its own, also if the calls are the same.
#[test]
fn a_session_has_at_most_16_open_questions() {
    let mut world = working();
    for number in 0..17 {
        ask(&mut world, &format!("t{number}"), bash("git push"));
    }
    assert_eq!((reply(&world, "t0"), reply(&world, "t15"), approvals(&world)), (None, None, 16));
    let denied = json!({"verdict": "deny", "reason": "too many questions of this session are open"});
    assert_eq!(reply(&world, "t16"), Some(denied));
    assert!(decide(&mut world, 1, "approve"));
    assert_eq!((reply(&world, "t0"), reply(&world, "t1")), (allowed(1), None));
    world.assert_sound();
}

#[test]
fn a_reason_is_passed_on_and_has_at_most_1000_characters() {
    let (longest, too_long) = ("é".repeat(1_000), "e".repeat(1_001));
    for (reason, said, told) in [
        ("  ", "❌ Denied", Some("A person said no.".to_owned())),
        (" not today ", "❌ Denied, with a reason", Some("A person said no: not today".to_owned())),
        (longest.as_str(), "❌ Denied, with a reason", Some(format!("A person said no: {longest}"))),
        (too_long.as_str(), "A reason has at most 1000 characters: say it in fewer words.", None),
    ] {
        let mut world = working();
        ask(&mut world, "t", bash("git push"));
        let decision = told_decision(&mut world, 1, &format!("reject_why:{reason}"));
        assert_eq!(decision, (told.is_some(), said.to_owned()));
        let expected = told.map(|told| json!({"verdict": "deny", "reason": told, "approval": "ap1"}));
        assert_eq!(reply(&world, "t"), expected);
        world.assert_sound();
    }
}

/// A run that is being stopped reads no more answers.
#[test]
fn a_decision_while_a_run_is_stopped_is_for_the_next_one() {
    let mut world = working();
    ask(&mut world, "t", bash("git push"));
    world.configure(vec![Change::RestartAgent(Folder::new("main").unwrap(), None)]).unwrap();
    world.put(Input::Decide(PromptSubject::Approval(AP1), "approve".into()));
    assert_eq!(approval(&world, 1).1.used, None);
    world.settle();
    tried_again(&mut world);
    ask(&mut world, "again", bash("git push"));
    assert_eq!((reply(&world, "again"), approvals(&world)), (allowed(1), 1));
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
        dies(&mut world);
        assert!(decide(&mut world, 1, value), "{value}");
        assert_eq!(approval(&world, 1).1.used, None, "{value}");
        tried_again(&mut world);
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
    assert_eq!((reply(&world, "t"), approval(&world, 1).0.state.is_open()), (None, true), "the run still waits");
    next_run(&mut world);
    ask(&mut world, "again", bash("git push"));
    ask(&mut world, "other", bash("git pull"));
    assert_eq!(approvals(&world), 2, "one question for each call");
    assert!(decide(&mut world, 1, "approve"));
    assert_eq!((reply(&world, "again"), reply(&world, "other")), (allowed(1), None));
    assert_eq!(approval(&world, 1).1.used.map(|used| used.incarnation), world.session(S).live);
    world.assert_sound();
}

/// What was allowed before a run died may have run: people are told when they are asked again, and so is the agent, once.
/// In the same run, a call that is over is repeated on purpose.
#[test]
fn after_a_death_the_same_call_is_asked_about_again() {
    for (dies, outcome, words) in [
        (true, None, "It may or may not have run after that."),
        (true, Some(ToolOutcome::Ran), "It ran once after that."),
        (true, Some(ToolOutcome::Failed), "It ran once after that, and failed."),
        (false, None, "It may or may not have run after that."),
        (false, Some(ToolOutcome::Ran), ""),
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
        // The end of the daemon alone changes nothing.
        world.restart();
        world.settle();
        if dies {
            next_run(&mut world);
            next_run(&mut world);
        }
        assert_eq!(warnings(&world), usize::from(dies && outcome.is_none()), "{outcome:?}");
        ask(&mut world, "again", bash("git push"));
        assert_eq!(reply(&world, "again"), None, "{outcome:?}");
        let card = &cards(&world)[1];
        assert_eq!(card.contains("after that"), !words.is_empty(), "{dies} {outcome:?}: {card}");
        assert!(card.contains(words), "{dies} {outcome:?}: {card}");
        assert!(decide(&mut world, 2, "approve"));
        assert_eq!(reply(&world, "again"), allowed(2));
        world.assert_sound();
    }
}

/// The turn ended after the call, so the agent knows what came of it.
#[test]
fn the_death_of_a_run_after_its_turn_is_no_warning() {
    let mut world = working();
    ask(&mut world, "t", bash("git push"));
    assert!(decide(&mut world, 1, "approve"));
    let input = world.outside.write(S, vec![end(2, 1, vec![])]);
    world.put(input);
    dies(&mut world);
    assert_eq!(warnings(&world), 0);
    world.assert_sound();
}

/// A question that belongs to no message has no later turn that could ask it again.
#[test]
fn questions_without_a_message_end_with_their_run() {
    let mut world = working();
    ask_about(&mut world, S, None, "t", bash("git push"));
    ask(&mut world, "u", bash("git push"));
    dies(&mut world);
    let states = [1, 2].map(|id| approval(&world, id).0.state);
    assert!(matches!(&states, [ApprovalState::Superseded { why, .. }, _] if why == "the run ended"), "{states:?}");
    assert!(states[1].is_open(), "{states:?}");
    world.assert_sound();
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
        assert_eq!(world.outside.granted[&S], ["Bash(command:git push)"], "{value}: the run knows it at once");
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
    // An owner on a network can be asked at any time.
    world.configure(vec![channel("telegram", ChannelKind::Telegram)]).unwrap();
    world.apply(&format!("{HOUSE}{TERMINAL}[[users]]\nid = \"telegram:boss\"\nroles = [\"owner\"]\n"));
    ask(&mut world, "v", bash("git pull"));
    assert_eq!((reply(&world, "v"), approvals(&world)), (None, 1));
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
    // Another session cannot settle it.
    let other = SessionId::new(2);
    world.inject(&event_in(("net", "C", Some("u")), ("2", "more", r#""senderId":"ann""#), ""));
    world.settle();
    ask_in(&mut world, other, "theirs", Request::ToolCalls(vec![over(asked.clone(), ToolOutcome::Ran)]));
    // The first report of the call counts.
    let calls = vec![
        over(ToolBasis::Preset(ToolPreset::Careful), ToolOutcome::Ran),
        over(asked.clone(), ToolOutcome::Failed),
        over(asked.clone(), ToolOutcome::Ran),
        over(ToolBasis::Blocked, ToolOutcome::Denied),
    ];
    ask(&mut world, "calls", Request::ToolCalls(calls));
    let bases = |id: u64| -> Vec<ToolBasis> {
        let rows = world.read(|db, txn| {
            let found = db.tool_calls_by_message.collect_prefix(txn, &MessageId::new(id), 10)?;
            found.into_iter().map(|(key, ())| db.journal.require(txn, &key.id)).collect::<Result<Vec<_>, _>>()
        });
        let basis = |event| match event {
            Event::ToolCalled(call) => call.basis,
            other => panic!("{other:?}"),
        };
        rows.into_iter().map(|row| basis(row.event)).collect()
    };
    let decided = ToolBasis::Asked { approval: AP1, by: Some(Decider::Operator) };
    assert_eq!(bases(1), [ToolBasis::Preset(ToolPreset::Careful), decided.clone(), decided, ToolBasis::Blocked]);
    assert_eq!(bases(2), [asked]);
    // One that no message asked for is a row of its session.
    ask_about(&mut world, S, None, "own", Request::ToolCalls(vec![over(ToolBasis::Blocked, ToolOutcome::Denied)]));
    let rows: Vec<_> = world.read(|db, txn| db.journal.iter(txn)?.map(|row| row.map(|(_, row)| row)).collect());
    let calls = rows.iter().filter(|row| matches!(row.event, Event::ToolCalled(_)));
    let places: Vec<_> = calls.map(|row| (row.message.map(MessageId::number), row.session)).collect();
    let of = |message| (Some(message), None);
    assert_eq!(places, [of(2), of(1), of(1), of(1), of(1), (None, Some(S))]);
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
    tried_again(&mut world);
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
