//! Requests of agents: questions, packages, servers, agents, edits and reactions; and the replies to them.

use hearth::model::address::{Address, ChannelName, ForeignId, UserId};
use hearth::model::approval::{Approval, ApprovalState, Question, QuestionState};
use hearth::model::card::{Button, CardOption, PromptSubject};
use hearth::model::delivery::{Act, DeliveryResult, MessageRef as Earlier, OutState, Outbound};
use hearth::model::entity::{Agent, EnvValue, McpServer, Packages, Trust};
use hearth::model::id::{ApprovalId, OutboundId, QuestionId, SessionId, TaskId};
use hearth::model::incarnation::{Exit, StopReason};
use hearth::model::input::{Input, Press};
use hearth::model::mailbox::{Recipient, RetryHint, Said};
use hearth::model::message::Reason;
use hearth::model::policy::Policy;
use hearth::model::report::{Outcome, Reply};
use hearth::model::request::{NewQuestion, Request, RequestedAction, TaskRequest};
use hearth::model::task::TaskHome;
use hearth::model::task_command::TaskChange;
use hearth::model::{Effect, Millis};
use hearth::state::DestinationKey;
use serde_json::{Value, json};

use crate::world::outside::{claim, end, gone, mid_turn, said, try_again};
use crate::world::requests::{S, ask, ask_in, main_agent, newest, working_in};
use crate::world::{World, event, event_in};

mod about;
mod approved;
mod recall;

/// The agent works on a message that Ann sent in the thread `t`.
fn working() -> World {
    working_in(World::new())
}

fn write(world: &mut World, said: Said) {
    let input = world.outside.write(S, vec![mid_turn(said)]);
    world.put(input);
    world.settle();
}

fn reply(world: &World, name: &str) -> Option<Result<Value, String>> {
    let reply = world.outside.replies.get(&S)?.get(name)?.clone();
    Some(reply.map(|json| serde_json::from_str(&json).unwrap()))
}

fn option(label: &str, chosen: &str, value: &str) -> CardOption {
    CardOption { label: label.into(), chosen: chosen.into(), value: value.into() }
}

fn question() -> Request {
    Request::Question(NewQuestion {
        title: "Deploy?".into(),
        body: "To production".into(),
        options: vec![option("Yes", "✅ Yes", "yes"), option("No", "❌ No", "no")],
        timeout: Millis::seconds(300),
    })
}

fn the_question(world: &World) -> Question {
    world.read(|db, txn| db.questions.require(txn, &QuestionId::new(1)))
}

fn the_approval(world: &World) -> Approval {
    world.read(|db, txn| db.approvals.require(txn, &ApprovalId::new(1)))
}

fn address(channel: &str, chat: &str, thread: Option<&str>) -> Address {
    Address {
        channel: ChannelName::new(channel).unwrap(),
        platform_id: ForeignId::new("chat", chat).unwrap(),
        thread: thread.map(|thread| ForeignId::new("thread", thread).unwrap()),
    }
}

fn press(world: &mut World, by: &str, option: u32) -> (bool, String) {
    let nonce = the_question(world).nonce;
    press_as(world, by, ("C", nonce), option)
}

fn press_as(world: &mut World, by: &str, (chat, nonce): (&str, u64), option: u32) -> (bool, String) {
    let button = Button { matter: PromptSubject::Question(QuestionId::new(1)), nonce, option };
    let press = Press { by: UserId::parse(by).unwrap(), at: address("net", chat, Some("t")), button };
    let reply = world.put(Input::Pressed(press));
    world.settle();
    match reply {
        Reply::Answered { decided, text } => (decided, text),
        other => panic!("{other:?}"),
    }
}

fn server() -> McpServer {
    let env = vec![("TOKEN".into(), EnvValue::Reference("env:TOKEN".into()))];
    McpServer { name: "files".into(), command: "mcp-files".into(), args: vec!["--all".into()], env }
}

fn create(name: &str) -> Request {
    Request::CreateAgent { name: name.into(), instructions: Some("Find things out.".into()) }
}

fn outbound(world: &World, fits: impl Fn(&Outbound) -> bool) -> Option<(OutboundId, Outbound)> {
    world.all_outbound().into_iter().rfind(|(_, outbound)| fits(outbound))
}

#[test]
fn a_question_is_asked_where_the_message_came_from_and_answered_once() {
    let mut world = working();
    ask(&mut world, "q", question());
    let (card_id, card) = outbound(&world, |outbound| matches!(outbound.act, Act::Ask(_))).unwrap();
    assert_eq!(card.to, Some(address("net", "C", Some("t"))), "thread included");
    assert_eq!(the_question(&world).card, Some(card_id));
    assert_eq!(reply(&world, "q"), None, "nobody answered yet");
    assert_eq!(press(&mut world, "net:ann", 1), (true, "Deploy?: ❌ No".into()));
    assert_eq!(reply(&world, "q"), Some(Ok(json!({"value": "no", "label": "No", "userId": "net:ann"}))));
    let (_, closed) = outbound(&world, |outbound| outbound.act == Act::Edit(Earlier::Ours(card_id))).unwrap();
    assert_eq!(closed.text, "Deploy?\n\nTo production\n\n❌ No");
    assert_eq!(press(&mut world, "net:ann", 0), (false, "This question is closed.".into()), "a second press");
    assert_eq!(reply(&world, "q"), Some(Ok(json!({"value": "no", "label": "No", "userId": "net:ann"}))));
}

/// An unauthorised press, or one of an option that was never offered, changes neither the store nor the card.
#[test]
fn only_people_of_the_agent_answer_and_only_what_was_asked() {
    let mut world = working();
    ask(&mut world, "q", question());
    let before = (the_question(&world), world.all_outbound().len());
    let nonce = before.0.nonce;
    let nothing = "This button no longer works.";
    for (by, place, option, told) in [
        ("net:eve", ("C", nonce), 0, "You may not answer this question."),
        ("other:ann", ("C", nonce), 0, nothing),
        ("net:ann", ("D", nonce), 0, nothing),
        ("net:ann", ("C", nonce ^ 1), 0, nothing),
        ("net:ann", ("C", nonce), 2, nothing),
    ] {
        assert_eq!(press_as(&mut world, by, place, option), (false, told.into()), "{by} {place:?} {option}");
        assert_eq!((the_question(&world), world.all_outbound().len()), before);
    }
    assert_eq!(reply(&world, "q"), None);
    // Where everyone may talk to the agent, everyone may answer it.
    world.apply("[[chats]]\nchannel = \"net\"\nplatform_id = \"C\"\ngroup = true\nunknown_senders = \"public\"\n");
    assert!(press(&mut world, "net:eve", 0).0);
}

#[test]
fn a_question_lapses_and_late_answers_do_nothing() {
    let mut world = working();
    ask(&mut world, "q", question());
    world.step_clock(299_000);
    world.sweep();
    assert_eq!(reply(&world, "q"), None);
    world.step_clock(2_000);
    assert_eq!(press(&mut world, "net:ann", 0), (false, "This question is closed.".into()), "before the sweep");
    world.sweep();
    world.settle();
    assert_eq!(reply(&world, "q"), Some(Err("Question timed out after 300s".into())));
    assert!(matches!(the_question(&world).state, QuestionState::Expired { .. }));
    assert!(outbound(&world, |outbound| matches!(outbound.act, Act::Edit(_))).is_some(), "the card is closed");
    assert_eq!(press(&mut world, "net:ann", 0), (false, "This question is closed.".into()));
}

/// A typed answer to a question that is closed, or overdue, is no message for the agent.
#[test]
fn an_answer_to_a_closed_question_says_that_it_is_closed() {
    for (case, words) in
        [("answered", "qu1 was already answered."), ("overdue", "qu1 has expired."), ("expired", "qu1 has expired.")]
    {
        let mut world = working();
        ask(&mut world, "q", question());
        match case {
            "answered" => assert!(press(&mut world, "net:ann", 0).0),
            _ => world.step_clock(301_000),
        }
        if case == "expired" {
            world.sweep();
        }
        world.settle();
        let says = |world: &mut World, who: &str, id: &str| {
            let sender = format!("\"senderId\":{who:?}");
            let report = world.inject(&event_in(("net", "C", Some("t")), (id, "qu1 1", &sender), ""));
            world.settle();
            report
        };
        let report = says(&mut world, "ann", "a1");
        assert_eq!((report.outcome, report.reason), (Outcome::Consumed, Some(Reason::Answer)), "{case}");
        assert!(outbound(&world, |outbound| outbound.text == words).is_some(), "{case}: {words}");
        assert_ne!(says(&mut world, "eve", "a2").reason, Some(Reason::Answer), "{case}: a stranger learns nothing");
    }
}

/// No run is left that could receive the answer or the failure.
#[test]
fn a_question_of_an_agent_that_is_gone_is_told_to_nobody() {
    for answered in [false, true] {
        let mut world = working();
        ask(&mut world, "q", question());
        let folder = main_agent(&world).folder;
        world.configure(vec![hearth::model::configure::Change::RemoveAgent(folder)]).unwrap();
        world.settle();
        let before = world.all_messages().len();
        if answered {
            press(&mut world, "net:ann", 0);
        }
        world.pass(Millis::minutes(6));
        world.sweep();
        world.settle();
        assert!(!matches!(the_question(&world).state, QuestionState::Open));
        assert_eq!(world.all_messages().len(), before, "{answered}");
    }
}

#[test]
fn no_question_waits_longer_than_a_day() {
    let mut world = working();
    let Request::Question(question) = question() else { panic!() };
    ask(&mut world, "q", Request::Question(NewQuestion { timeout: Millis::new(u64::MAX), ..question }));
    let question = the_question(&world);
    assert_eq!(question.expires, question.created.plus(Millis::minutes(24 * 60)));
}

#[test]
fn a_card_that_cannot_be_shown_is_told_to_the_agent() {
    let mut world = working();
    world.outside.channel = Box::new(|_| Some(DeliveryResult::Rejected("no such chat".into())));
    ask(&mut world, "q", question());
    assert_eq!(reply(&world, "q"), Some(Err("the question could not be shown: no such chat".into())));
    assert!(matches!(the_question(&world).state, QuestionState::Expired { .. }));
}

/// The incarnation that asked is gone: its answers are removed, and a later answer becomes a message.
#[test]
fn an_answer_to_an_incarnation_that_is_gone_is_a_message() {
    let mut world = working();
    ask(&mut world, "q", question());
    write(
        &mut world,
        Said {
            action: RequestedAction::Impossible("no".into()),
            request: Some("r".into()),
            ..said(9, 1, None, Recipient::Reply)
        },
    );
    assert_eq!(reply(&world, "r"), Some(Err("no".into())));
    world.outside.running.clear();
    world.put(gone(S, 1, Exit::Signal(9)));
    world.settle();
    assert_eq!(reply(&world, "r"), None, "the files of an incarnation go with it");
    assert_eq!(world.read(|db, txn| db.replies.len(txn)), 0);
    world.pass(Millis::seconds(6));
    world.sweep();
    world.settle();
    assert_eq!(world.session(S).live, Some(2));
    assert!(press(&mut world, "net:ann", 0).0);
    let (message, body) = newest(&world);
    assert!(message.trigger);
    assert_eq!(body.content.text, "You asked: Deploy?\nTo production\nThe answer of net:ann: Yes (yes)");
    assert!(world.outside.inbox[&S].contains_key(&message.seq), "the next incarnation has it");
}

/// The incarnation dies between the answer and reading it: the person's answer accompanies the retried turn.
#[test]
fn an_answer_that_nobody_has_read_is_not_lost() {
    let mut world = working();
    ask(&mut world, "q", question());
    assert!(press(&mut world, "net:ann", 0).0);
    world.outside.running.clear();
    world.put(gone(S, 1, Exit::Signal(9)));
    world.settle();
    let (note, body) = newest(&world);
    assert!(!note.trigger);
    assert_eq!(body.content.text, "You asked: Deploy?\nTo production\nThe answer of net:ann: Yes (yes)");
    world.pass(Millis::seconds(6));
    world.sweep();
    world.settle();
    assert!(world.outside.inbox[&S].contains_key(&note.seq), "it goes along with the message that comes back");
}

/// Once a turn has ended, the answers that it read are not repeated to later incarnations. A turn that asks for a retry
/// has not ended.
#[test]
fn an_answer_that_was_used_is_not_told_again() {
    for again in [false, true] {
        let mut world = working();
        ask(&mut world, "q", question());
        assert!(press(&mut world, "net:ann", 0).0);
        let ended = if again { try_again(2, vec![], 1, RetryHint::Later) } else { end(2, 1, vec![]) };
        let before = world.all_messages().len();
        let input = world.outside.write(S, vec![ended]);
        world.put(input);
        world.settle();
        if !again {
            assert!(reply(&world, "q").is_some(), "it stays there as long as the incarnation");
            let sender = r#""senderId":"ann","senderName":"Ann""#;
            world.inject(&event_in(("net", "C", Some("t")), ("2", "something else", sender), ""));
            world.settle();
            let input = world.outside.write(S, vec![claim(newest(&world).0.seq, 1)]);
            world.put(input);
        }
        world.outside.running.clear();
        world.put(gone(S, 1, Exit::Signal(9)));
        world.settle();
        assert_eq!(world.all_messages().len(), before + 1, "{again}");
        let told = newest(&world).1.content.text.starts_with("You asked");
        assert_eq!(told, again, "{}", newest(&world).1.content.text);
    }
}

/// The retried turn asks the same question: people see one card, and the current run gets the answer.
#[test]
fn a_question_that_is_asked_again_is_the_same_one() {
    let mut world = working();
    ask(&mut world, "q", question());
    ask(&mut world, "m", Request::AddMcpServer(server()));
    world.outside.running.clear();
    world.put(gone(S, 1, Exit::Signal(9)));
    world.settle();
    world.pass(Millis::seconds(6));
    world.sweep();
    world.settle();
    let input = world.outside.write(S, vec![claim(2, 2)]);
    world.put(input);
    ask(&mut world, "again", question());
    ask(&mut world, "m2", Request::AddMcpServer(server()));
    assert_eq!(world.read(|db, txn| Ok((db.questions.len(txn)?, db.approvals.len(txn)?))), (1, 1));
    let cards = world.all_outbound().iter().filter(|(_, outbound)| matches!(outbound.act, Act::Ask(_))).count();
    assert_eq!(cards, 2, "one of the question, one of the approval");
    assert!(press(&mut world, "net:ann", 0).0);
    assert!(matches!(reply(&world, "again"), Some(Ok(_))));
    assert!(matches!(reply(&world, "m2"), Some(Ok(submitted)) if submitted["approval"] == "ap1"));
}

#[test]
fn an_agent_cannot_flood_whoever_decides() {
    let mut world = working();
    for number in 0..11 {
        ask(&mut world, &format!("c{number}"), create(&format!("agent {number}")));
    }
    assert_eq!(world.read(|db, txn| db.approvals.len(txn)), 10);
    let full = "create_agent failed: too many requests wait for a decision.";
    assert_eq!(reply(&world, "c10"), Some(Err(full.into())));
}

/// Another agent, in a chat of its own.
const NEIGHBOUR: &str = r#"
[[agents]]
folder = "other"
[[chats]]
channel = "net"
platform_id = "D"
unknown_senders = "public"
[[chats.wirings]]
agent = "other"
engage = "pattern"
pattern = "."
"#;

#[test]
fn an_agent_that_asks_too_much_keeps_nobody_from_asking() {
    let policy = Policy { questions_per_agent: 2, ..Policy::STANDARD };
    let mut world = working_in(World::with(policy, |_| {}));
    for name in ["q1", "q2", "q3"] {
        ask(&mut world, name, question());
    }
    let asked = |world: &World| world.read(|db, txn| db.questions.len(txn));
    assert_eq!(reply(&world, "q3"), Some(Err("too many questions of yours are open".into())));
    world.apply(NEIGHBOUR);
    for (session, chat, thread) in [(2, "C", Some("u")), (3, "D", None)] {
        let session = SessionId::new(session);
        world.inject(&event_in(("net", chat, thread), (chat, "hello", r#""senderId":"ann""#), ""));
        world.settle();
        let input = world.outside.write(session, vec![claim(2, 1)]);
        world.put(input);
        ask_in(&mut world, session, "q", question());
    }
    let sessions =
        world.read(|db, txn| db.questions.iter(txn)?.map(|row| Ok(row?.1.session)).collect::<Result<Vec<_>, _>>());
    assert_eq!(sessions, [S, S, SessionId::new(3)], "nor in another conversation, but another agent may");
    // Once a question is answered, another one can be asked.
    assert!(press(&mut world, "net:ann", 0).0);
    ask(&mut world, "q4", question());
    assert_eq!((asked(&world), reply(&world, "q4")), (4, None));
}

/// The agent did not wait: a later answer becomes a message, whether the incarnation lives or not.
#[test]
fn an_answer_after_the_turn_is_a_message() {
    let mut world = working();
    ask(&mut world, "q", question());
    let input = world.outside.write(S, vec![end(2, 1, vec![])]);
    world.put(input);
    assert!(press(&mut world, "net:ann", 0).0);
    assert_eq!(reply(&world, "q"), None);
    let (message, body) = newest(&world);
    assert!(message.trigger && body.content.text.ends_with("The answer of net:ann: Yes (yes)"));
}

#[test]
fn the_operator_answers_by_command() {
    let mut world = working();
    ask(&mut world, "q", question());
    let matter = PromptSubject::Question(QuestionId::new(1));
    let refused = world.put(Input::Decide(matter, "maybe".into()));
    assert!(matches!(refused, Reply::Refused(refusal) if refusal.message.contains("Yes, No")));
    assert!(matches!(world.put(Input::Decide(matter, "No".into())), Reply::Answered { decided: true, .. }));
    world.settle();
    assert_eq!(reply(&world, "q"), Some(Ok(json!({"value": "no", "label": "No", "userId": "operator"}))));
    assert!(matches!(world.put(Input::Decide(matter, "yes".into())), Reply::Refused(_)));
    let other = PromptSubject::Question(QuestionId::new(9));
    assert!(
        matches!(world.put(Input::Decide(other, "yes".into())), Reply::Refused(refusal) if refusal.code == "unknown")
    );
}

/// With every effect lost, and through a restart, answers reach the mailbox by sweeps alone.
#[test]
fn a_lost_answer_is_exported_again() {
    let mut world = working();
    ask(&mut world, "q", question());
    world.put(Input::Decide(PromptSubject::Question(QuestionId::new(1)), "yes".into()));
    world.lose_effects();
    assert_eq!(reply(&world, "q"), None);
    world.sweep();
    world.settle();
    assert!(reply(&world, "q").is_some());
    world.outside.replies.clear();
    world.restart();
    world.settle();
    assert!(reply(&world, "q").is_some());
}

/// An agent with very many requests: the answers to its oldest ones are removed first.
#[test]
fn answers_do_not_pile_up() {
    let mut world = working();
    for number in (3..400).step_by(2) {
        let action = RequestedAction::Impossible("no".into());
        let request = Some(format!("r{number}"));
        let input =
            world.outside.write(S, vec![mid_turn(Said { action, request, ..said(number, 1, None, Recipient::Reply) })]);
        world.put(input);
        world.settle();
    }
    assert_eq!(world.read(|db, txn| db.replies.len(txn)), 100);
    assert!(reply(&world, "r3").is_none() && reply(&world, "r399").is_some());
}

fn change(world: &mut World, action: RequestedAction) -> Option<Result<Value, String>> {
    let number = world.session(S).next_agent_number();
    write(
        world,
        Said {
            action,
            text: "new".into(),
            request: Some(format!("e{number}")),
            ..said(number, 1, Some(2), Recipient::Reply)
        },
    );
    reply(world, &format!("e{number}"))
}

#[test]
fn edits_and_reactions_find_their_message() {
    let mut world = working();
    write(&mut world, said(3, 1, Some(2), Recipient::Reply));
    let (ours, _) = outbound(&world, |outbound| outbound.text == "words 3").unwrap();
    ask(&mut world, "q", question()); // 5
    assert!(matches!(change(&mut world, RequestedAction::Edit(3)), Some(Ok(_)))); // 7
    let (_, edit) = outbound(&world, |outbound| matches!(outbound.act, Act::Edit(_))).unwrap();
    assert_eq!((edit.act, edit.to), (Act::Edit(Earlier::Ours(ours)), Some(address("net", "C", Some("t")))));
    assert!(matches!(change(&mut world, RequestedAction::React(2)), Some(Ok(_)))); // 9
    let (_, react) = outbound(&world, |outbound| matches!(outbound.act, Act::React(_))).unwrap();
    let theirs = ForeignId::new("message", "1").unwrap();
    assert_eq!((react.act, react.text.as_str()), (Act::React(Earlier::Theirs(theirs)), "new"));
    for (action, why) in [
        (RequestedAction::Edit(2), "Message #2 was sent by someone else: it can be reacted to, not edited"),
        (RequestedAction::React(99), "Message #99 not found"),
        (RequestedAction::Edit(99), "Message #99 not found"),
        (RequestedAction::Edit(4), "Message #4 not found"),
        (RequestedAction::Edit(5), "Cannot determine destination for message #5"),
        (RequestedAction::Edit(7), "Message #7 is itself a change of another message"),
        (RequestedAction::React(9), "Message #9 is itself a change of another message"),
    ] {
        assert_eq!(change(&mut world, action.clone()), Some(Err(why.into())), "{action:?}");
    }
}

/// Removing a destination also removes the right to change messages that were sent there.
#[test]
fn edits_go_only_where_the_agent_may_write() {
    let mut world = working();
    world.apply("[[chats]]\nchannel = \"net\"\nplatform_id = \"D\"\n");
    let folder = main_agent(&world).folder;
    let there = hearth::model::configure::DestinationSpec::Chat(
        ChannelName::new("net").unwrap(),
        ForeignId::new("chat", "D").unwrap(),
    );
    let add = hearth::model::configure::Change::AddDestination(folder.clone(), "d".into(), there);
    world.configure(vec![add]).unwrap();
    write(&mut world, said(3, 1, None, Recipient::Destination("d".into())));
    assert!(matches!(change(&mut world, RequestedAction::React(3)), Some(Ok(_))));
    world.configure(vec![hearth::model::configure::Change::RemoveDestination(folder, "d".into())]).unwrap();
    let why = "Message #3 is in a chat that the agent may not write to";
    assert_eq!(change(&mut world, RequestedAction::React(3)), Some(Err(why.into())));
    // In its session's own chat it may, whatever the destination is called.
    write(&mut world, said(101, 1, Some(2), Recipient::Reply));
    let names = world.read(|db, txn| db.destinations.iter(txn)?.collect::<Result<Vec<_>, _>>());
    for (DestinationKey { name, .. }, _) in names {
        let folder = main_agent(&world).folder;
        let name = name.as_str().into();
        world.configure(vec![hearth::model::configure::Change::RemoveDestination(folder, name)]).unwrap();
    }
    assert!(matches!(change(&mut world, RequestedAction::React(101)), Some(Ok(_))));
}

/// An agent manages its own tasks with the texts of its tools; each runs where it was requested.
#[test]
fn an_agent_keeps_its_own_tasks() {
    let mut world = working();
    let schedule = |first: &str, recurrence: Option<&str>| TaskRequest::Schedule {
        prompt: "Water the plants".into(),
        first: first.into(),
        recurrence: recurrence.map(Into::into),
        script: None,
    };
    let (one, at) = (TaskId::new(1), "2030-01-15T21:00:00.000Z");
    let line = |id: u64, state: &str, again: &str| format!("- ta{id} [{state}] at={at} {again}→ Water the plants");
    let cron = "recur=0 9 * * 1-5 ";
    let change = || Box::new(TaskChange { prompt: Some("Water them well".into()), ..TaskChange::default() });
    let late = || Box::new(TaskChange { next: Some("nope".into()), ..TaskChange::default() });
    for (number, (request, answer)) in [
        (
            schedule("2030-01-15T21:00:00Z", Some("0 9 * * 1-5")),
            Ok(format!("Task scheduled (id: ta1, runs at: {at}, recurrence: 0 9 * * 1-5)")),
        ),
        (schedule("nope", None), Err("invalid processAfter: nope")),
        (schedule("2030-01-15T21:00:00Z", None), Ok(format!("Task scheduled (id: ta2, runs at: {at})"))),
        (TaskRequest::List(None), Ok(format!("{}\n{}", line(1, "pending", cron), line(2, "pending", "")))),
        (TaskRequest::Pause(one), Ok("Task pause requested: ta1".into())),
        (TaskRequest::List(Some("paused".into())), Ok(line(1, "paused", cron))),
        (TaskRequest::Resume(one), Ok("Task resume requested: ta1".into())),
        (TaskRequest::Update(one, late()), Err("invalid processAfter: nope")),
        (TaskRequest::Update(one, change()), Ok("Task update requested: ta1".into())),
        (TaskRequest::Cancel(one), Ok("Task cancellation requested: ta1".into())),
        (TaskRequest::Cancel(one), Err("the task ta1 is over (cancelled); make a new one")),
        (TaskRequest::List(None), Ok(line(2, "pending", ""))),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("t{number}");
        ask(&mut world, &name, Request::Tasks(request));
        let expected = answer.map(|text| json!({"text": text})).map_err(str::to_owned);
        assert_eq!(reply(&world, &name), Some(expected), "{number}");
    }
    let task = world.read(|db, txn| db.tasks.require(txn, &one));
    assert_eq!((task.home, task.prompt.as_str()), (TaskHome::Session(S), "Water them well"));
}

/// A question was answered before its card turned out to be undeliverable: the agent is not told of the failed
/// delivery.
#[test]
fn a_card_that_fails_late_takes_no_answer_back() {
    let mut world = working();
    world.outside.channel = Box::new(|_| None);
    ask(&mut world, "q", question());
    let (card, _) = outbound(&world, |outbound| matches!(outbound.act, Act::Ask(_))).unwrap();
    world.put(Input::Decide(PromptSubject::Question(QuestionId::new(1)), "yes".into()));
    world.settle();
    world.heard_of(card, DeliveryResult::Rejected("gone".into()));
    world.settle();
    assert!(matches!(the_question(&world).state, QuestionState::Answered { .. }), "{:?}", the_question(&world).state);
}

/// An unread answer is discarded when the agent is gone.
#[test]
fn an_answer_to_an_agent_that_is_gone_is_left_nowhere() {
    let mut world = working();
    ask(&mut world, "q", question());
    assert!(press(&mut world, "net:ann", 0).0);
    let folder = main_agent(&world).folder;
    world.configure(vec![hearth::model::configure::Change::RemoveAgent(folder)]).unwrap();
    let before = world.all_messages().len();
    world.outside.running.clear();
    world.put(gone(S, 1, Exit::Signal(9)));
    world.settle();
    assert_eq!(world.all_messages().len(), before);
}

/// Invalid requests are answered, a run that asks for the result gets it, and none of this starts a turn.
#[test]
fn every_request_is_answered() {
    let mut world = working();
    let impossible = || RequestedAction::Impossible("unknown action `x`".into());
    write(&mut world, Said { action: impossible(), request: Some("r".into()), ..said(3, 1, None, Recipient::Reply) });
    assert_eq!(reply(&world, "r"), Some(Err("unknown action `x`".into())));
    write(&mut world, Said { request: Some("s".into()), ..said(5, 1, Some(2), Recipient::Reply) });
    assert_eq!(reply(&world, "s"), Some(Ok(json!({"number": 5}))));
    let nowhere = Recipient::Destination("nowhere".into());
    write(&mut world, Said { request: Some("n".into()), ..said(7, 1, None, nowhere.clone()) });
    assert_eq!(reply(&world, "n"), Some(Err("the agent has no destination named \"nowhere\"".into())));
    write(&mut world, said(9, 1, None, nowhere));
    let (note, body) = newest(&world);
    assert_eq!(body.content.text, "Your message #9 was refused: the agent has no destination named \"nowhere\"");
    assert!(!note.trigger);
    let refused = |outbound: &Outbound| matches!(outbound.state, OutState::Refused { .. });
    assert_eq!(world.all_outbound().iter().filter(|(_, outbound)| refused(outbound)).count(), 3);
    assert!(!world.effects.iter().any(|effect| matches!(effect, Effect::Launch(_))));
    world.inject(&event("2", "hi", ""));
}
