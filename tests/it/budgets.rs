//! Budgets: what passes, what waits and until when, who is asked and told, and that nothing stays set aside.

use hearth::model::budget::Reservation;
use hearth::model::card::PromptSubject;
use hearth::model::configure::Change;
use hearth::model::entity::Folder;
use hearth::model::id::{ApprovalId, MessageId, SessionId};
use hearth::model::incarnation::Exit;
use hearth::model::input::ClockChange;
use hearth::model::journal::Event;
use hearth::model::mailbox::{CollectedRecord, Record, RetryHint};
use hearth::model::message::{Completion, Due, MessageState, Reason};
use hearth::model::policy::Policy;
use hearth::model::report::Reply;
use hearth::model::spend::{CostBasis, ReportedUse, Tokens};
use hearth::model::{Input, Millis, Timestamp};
use hearth::time::local;
use hearth::time::zone::Zone;

use serde_json::{Value, json};

use crate::host::Host;
use crate::world::outside::{claim, end, try_again};
use crate::world::{ONE, World, configuration, event_in};

mod sharing;

const S: SessionId = SessionId::new(1);
/// An owner in the chat, and one at the terminal, where owners are told things.
const OWNER: &str = "[[users]]\nid = \"terminal:7\"\nroles = [\"owner\"]\n\
                     [[users]]\nid = \"net:boss\"\nroles = [\"owner\"]\n\
                     [[chats]]\nchannel = \"terminal\"\nplatform_id = \"main\"\n\
                     [[chats.wirings]]\nagent = \"main\"\nengage = \"pattern\"\npattern = \".\"\n";
const MIDNIGHT: &str = "2026-04-21T00:00:00Z";

fn instant(text: &str) -> Timestamp {
    local::instant(text, &Zone::utc()).unwrap()
}

/// A world with [`ONE`], an owner, and budgets; further keys of the agent come last.
fn world(top: &str, of_agent: &str) -> World {
    let one = ONE.replace("folder = \"main\"\n", &format!("folder = \"main\"\n{of_agent}\n"));
    World::of(&format!("timezone = \"UTC\"\n{top}\n{one}{OWNER}"))
}

/// A budget of so many tokens a day for the agent.
fn daily(tokens: u64) -> String {
    format!("[[budgets]]\nscope = \"agent:main\"\nper = \"day\"\ntokens = {tokens}\n")
}

fn says(world: &mut World, who: &str, id: &str) -> MessageId {
    let sender = format!(r#""senderId":"{who}","senderName":"{who}""#);
    let report = world.inject(&event_in(("net", "C", None), (id, "do it", &sender), ""));
    world.settle();
    world.assert_sound();
    report.wirings[0].message.unwrap()
}

fn write(world: &mut World, found: Vec<CollectedRecord>) {
    let written = world.outside.write(S, found);
    world.put(written);
    world.settle();
    world.assert_sound();
}

fn used(seq: u64, incarnation: u32, tokens: u64) -> CollectedRecord {
    let tokens = Tokens { input: tokens, ..Tokens::default() };
    let used = vec![ReportedUse { model: Some("gpt-5".into()), tokens, cost: None }];
    CollectedRecord { record: Record::Used { seq, incarnation, used }, files: vec![] }
}

/// Each thread of the chat gets a session of its own.
const PER_THREAD: &str = "[[chats]]\nchannel = \"net\"\nplatform_id = \"C\"\nunknown_senders = \"public\"\n\
                          [[chats.wirings]]\nagent = \"main\"\nengage = \"pattern\"\npattern = \".\"\n\
                          session = \"per-thread\"\n";

/// Like [`says`], in a thread.
fn says_in(world: &mut World, thread: &str, id: &str) -> MessageId {
    writes_in(world, thread, "ann", id)
}

fn writes_in(world: &mut World, thread: &str, who: &str, id: &str) -> MessageId {
    let json = event_in(("net", "C", Some(thread)), (id, "do it", &format!(r#""senderId":"{who}""#)), "");
    let message = world.inject(&json).wirings[0].message.unwrap();
    world.settle();
    world.assert_sound();
    message
}

/// The agent works on a message and uses so many tokens.
fn works(world: &mut World, message: MessageId, tokens: u64) {
    let row = world.message(message);
    let run = world.session(row.session).live.unwrap();
    let found = vec![claim(row.seq, run), used(row.seq, run, tokens), end(row.seq, run, vec![])];
    let written = world.outside.write(row.session, found);
    world.put(written);
    world.settle();
    world.assert_sound();
}

fn waits(world: &World, message: MessageId) -> bool {
    matches!(world.state_of(message), MessageState::Pending(Due::Budget(_)))
}

fn reserved(world: &World) -> Vec<Reservation> {
    let rows: Vec<_> = world.read(|db, txn| db.reservations.iter(txn)?.collect());
    rows.into_iter().map(|(_, row)| row).collect()
}

fn texts(world: &World) -> Vec<String> {
    world.all_outbound().into_iter().map(|(_, outbound)| outbound.text).collect()
}

fn count(world: &World, beginning: &str) -> usize {
    texts(world).iter().filter(|text| text.starts_with(beginning)).count()
}

fn answered(world: &World, message: MessageId) -> bool {
    matches!(world.state_of(message), MessageState::Completed { how: Completion::Answered, .. })
}

fn tomorrow(world: &mut World) {
    let left = instant(MIDNIGHT).since(world.now().wall);
    world.pass(left);
    world.sweep();
    world.settle();
    world.assert_sound();
}

#[test]
fn a_message_waits_for_the_next_day_when_the_budget_is_spent() {
    let mut world = world(&format!("grace = 0\n{}", daily(1_000)), "on_limit = \"hold\"");
    let first = says(&mut world, "ann", "m1");
    assert_eq!(reserved(&world).iter().map(|row| row.tokens).collect::<Vec<_>>(), [250]);
    works(&mut world, first, 1_000);
    assert!(reserved(&world).is_empty());
    assert_eq!(count(&world, "More than 80 % of the budget agent:main of this day is spent: 1000 of 1000 tokens."), 1);

    let (second, third) = (says(&mut world, "ann", "m2"), says(&mut world, "ann", "m3"));
    assert!(waits(&world, second) && waits(&world, third));
    assert_eq!(world.state_of(second), MessageState::Pending(Due::Budget(instant(MIDNIGHT))));
    assert_eq!(world.message(second).tries, 0);
    assert_eq!(
        count(&world, "Your message waits: what may be spent on models is used up. It goes on at 00:00 on Apr 21."),
        1,
        "{:?}",
        texts(&world)
    );
    assert_eq!(
        count(&world, "The budget agent:main/day is spent: 1000 of 1000 tokens. Messages wait until 00:00"),
        1,
        "{:?}",
        texts(&world)
    );
    assert!(world.read(|db, txn| db.backlog.is_empty(txn)), "what waits for a budget is no backlog");

    // What waited goes on as one turn, in order.
    tomorrow(&mut world);
    let run = world.session(S).live.unwrap();
    let sizes: Vec<u64> = reserved(&world).iter().map(|row| row.tokens).collect();
    assert_eq!(sizes, [250, 0]);
    let seqs = [second, third].map(|message| world.message(message).seq);
    let together = CollectedRecord {
        record: Record::End {
            seq: seqs[1],
            also: vec![seqs[0]],
            incarnation: run,
            failure: None,
            gated: None,
            answers: vec![],
        },
        files: vec![],
    };
    write(&mut world, vec![claim(seqs[0], run), claim(seqs[1], run), together]);
    assert!(answered(&world, second) && answered(&world, third) && reserved(&world).is_empty());
}

#[test]
fn first_messages_of_a_person_and_those_of_owners_pass() {
    let mut world = world(&format!("grace = 2\n{}", daily(0)), "on_limit = \"hold\"");
    let passed = ["m1", "m2"].map(|id| {
        let message = says(&mut world, "ann", id);
        works(&mut world, message, 10);
        message
    });
    assert!(passed.iter().all(|message| answered(&world, *message)));
    let third = says(&mut world, "ann", "m3");
    assert!(waits(&world, third));
    let other = says(&mut world, "bob", "m4");
    works(&mut world, other, 10);
    assert!(answered(&world, other), "each person has messages of their own");
    for id in ["m5", "m6", "m7"] {
        let message = says(&mut world, "boss", id);
        works(&mut world, message, 10);
        assert!(answered(&world, message));
    }
    assert_eq!(count(&world, "The budget agent:main/day is spent: "), 1, "told once: {:?}", texts(&world));
    // The next day there are messages again, and the one that waited uses one of them.
    tomorrow(&mut world);
    assert!(!waits(&world, third));
}

#[test]
fn a_lost_turn_costs_no_grace() {
    let mut world = world(&format!("grace = 1\n{}", daily(0)), "on_limit = \"hold\"");
    let message = says(&mut world, "ann", "m1");
    let (seq, run) = (world.message(message).seq, world.session(S).live.unwrap());
    write(&mut world, vec![claim(seq, run), try_again(seq, vec![], run, RetryHint::Later)]);
    let gone = world.outside.end(S, run, Exit::Code(0));
    world.put(gone);
    world.settle();
    world.assert_sound();
    assert!(reserved(&world).is_empty());
    for _ in 0..10 {
        world.pass(Millis::seconds(10));
        world.sweep();
        world.settle();
    }
    works(&mut world, message, 1);
    assert!(answered(&world, message));
}

#[test]
fn a_person_is_asked_and_may_allow_more() {
    let mut world = world(&format!("grace = 0\n{}", daily(40_000)), "");
    let first = says(&mut world, "ann", "m1");
    works(&mut world, first, 40_000);
    let second = says(&mut world, "ann", "m2");
    assert!(waits(&world, second));
    let approvals = world.read(|db, txn| db.approvals_open.len(txn));
    assert_eq!(approvals, 1, "{:?}", texts(&world));
    // The message of another person sends no second card.
    let third = says(&mut world, "bob", "m3");
    assert_eq!((waits(&world, third), world.read(|db, txn| db.approvals_open.len(txn))), (true, 1));
    assert_eq!(count(&world, "Your message waits: "), 2);

    let reply = world.put(Input::Decide(PromptSubject::Approval(ApprovalId::new(1)), "approve".into()));
    assert!(matches!(reply, Reply::Answered { decided: true, .. }), "{reply:?}");
    world.settle();
    world.assert_sound();
    assert!(!waits(&world, second), "10000 tokens more are room for another turn");
    works(&mut world, second, 10_000);
    assert!(answered(&world, second));
    let fourth = says(&mut world, "ann", "m4");
    assert!(waits(&world, fourth), "what was added is spent");
}

#[test]
fn an_owner_is_told_again_when_what_was_added_is_spent() {
    let mut world = world(&format!("grace = 0\n{}", daily(100)), "");
    let told = |world: &World| count(world, "The budget agent:main/day is spent: ");
    let first = says(&mut world, "boss", "m1");
    works(&mut world, first, 110);
    for id in ["m2", "m3"] {
        let message = says(&mut world, "boss", id);
        works(&mut world, message, 10);
        assert_eq!(told(&world), 1, "once: {:?}", texts(&world));
    }
    let fourth = says(&mut world, "ann", "m4");
    world.put(Input::Decide(PromptSubject::Approval(ApprovalId::new(1)), "approve".into()));
    world.settle();
    works(&mut world, fourth, 10_000);
    assert_eq!((answered(&world, fourth), told(&world)), (true, 1), "{:?}", texts(&world));
    let fifth = says(&mut world, "boss", "m5");
    works(&mut world, fifth, 10);
    assert_eq!(told(&world), 2, "{:?}", texts(&world));
}

#[test]
fn waiting_messages_can_be_dropped_or_let_go_until_tomorrow() {
    for (choice, passes) in [("reject", false), ("tomorrow", true)] {
        let mut world = world(&format!("grace = 0\n{}", daily(100)), "");
        let first = says(&mut world, "ann", "m1");
        works(&mut world, first, 100);
        let second = says(&mut world, "ann", "m2");
        world.put(Input::Decide(PromptSubject::Approval(ApprovalId::new(1)), choice.into()));
        world.settle();
        world.assert_sound();
        let third = says(&mut world, "ann", "m3");
        if passes {
            works(&mut world, second, 20_000);
            assert!(!waits(&world, third), "there is no limit until tomorrow");
            works(&mut world, third, 5_000);
            assert!(answered(&world, second) && answered(&world, third));
            tomorrow(&mut world);
            let fourth = says(&mut world, "ann", "m4");
            assert!(!waits(&world, fourth));
        } else {
            assert!(matches!(world.state_of(second), MessageState::Dropped { reason: Reason::Budget, .. }));
            assert_eq!(count(&world, "Your message was dropped: the operator decided"), 1);
            assert!(waits(&world, third));
        }
    }
}

/// More than one transaction drops.
#[test]
fn all_messages_that_wait_for_a_budget_are_dropped() {
    let mut world = World::with(Policy { rows_per_input: 64, ..Policy::STANDARD }, |_| {});
    world.apply(&format!("timezone = \"UTC\"\ngrace = 0\n{}\n{ONE}{OWNER}", daily(100)));
    let first = says(&mut world, "ann", "m1");
    works(&mut world, first, 100);
    let waiting: Vec<MessageId> = (0..20).map(|n| says(&mut world, "ann", &format!("w{n}"))).collect();
    assert!(waiting.iter().all(|id| waits(&world, *id)));
    world.put(Input::Decide(PromptSubject::Approval(ApprovalId::new(1)), "reject".into()));
    world.settle();
    world.assert_sound();
    assert!(waiting.iter().all(|id| matches!(world.state_of(*id), MessageState::Dropped { .. })));
}

#[test]
fn an_agent_that_only_warns_lets_everything_pass_and_says_so_once() {
    let mut world = world(&format!("grace = 0\n{}", daily(10)), "on_limit = \"warn\"");
    for id in ["m1", "m2", "m3"] {
        let message = says(&mut world, "ann", id);
        works(&mut world, message, 10);
        assert!(answered(&world, message));
    }
    assert_eq!(count(&world, "The budget agent:main/day is spent: "), 1, "{:?}", texts(&world));
}

#[test]
fn a_turn_under_way_counts_before_it_has_used_anything() {
    let budgets = "[[budgets]]\nscope = \"all\"\nper = \"month\"\ntokens = 100\n";
    let mut world = world(&format!("grace = 0\n{budgets}"), "on_limit = \"hold\"");
    world.apply(PER_THREAD);
    let all: Vec<MessageId> =
        ["1", "2", "3", "4", "5"].iter().map(|thread| says_in(&mut world, thread, thread)).collect();
    let waiting: Vec<bool> = all.iter().map(|message| waits(&world, *message)).collect();
    assert_eq!(waiting, [false, false, false, false, true], "each is expected to use a quarter");
    // Turns that used less leave room.
    for message in &all[..2] {
        works(&mut world, *message, 1);
    }
    assert!(!waits(&world, all[4]), "{:?}", reserved(&world));
}

#[test]
fn a_run_that_ends_releases_what_was_set_aside() {
    let mut world = world(&format!("grace = 0\n{}", daily(1_000)), "on_limit = \"hold\"");
    let message = says(&mut world, "ann", "m1");
    let (seq, run) = (world.message(message).seq, world.session(S).live.unwrap());
    write(&mut world, vec![claim(seq, run)]);
    assert_eq!(reserved(&world).len(), 1);
    let gone = world.outside.end(S, run, Exit::Signal(9));
    world.put(gone);
    world.settle();
    world.assert_sound();
    assert!(reserved(&world).is_empty());
}

#[test]
fn without_budgets_and_after_their_removal_nothing_waits() {
    let mut world = world(&format!("grace = 0\n{}", daily(0)), "on_limit = \"hold\"");
    let message = says(&mut world, "ann", "m1");
    assert!(waits(&world, message));
    world.apply("timezone = \"UTC\"\n");
    world.settle();
    world.assert_sound();
    assert!(!waits(&world, message) && reserved(&world).is_empty());
    assert_eq!(world.read(|db, txn| db.budget_states.len(txn)), 0);
    works(&mut world, message, 1_000);
    assert!(answered(&world, message));
}

/// A message that waits goes with its agent, also if its budget is lifted at the same time.
#[test]
fn a_message_that_waits_is_dropped_with_its_agent() {
    let mut world = world(&format!("grace = 0\n{}", daily(0)), "on_limit = \"hold\"");
    let message = says(&mut world, "ann", "m1");
    assert!(waits(&world, message));
    let remove = Change::RemoveAgent(Folder::new("main").unwrap());
    let lift = configuration("timezone = \"UTC\"\n").changes;
    world.configure([vec![remove], lift].concat()).unwrap();
    world.settle();
    world.assert_sound();
    let state = world.state_of(message);
    assert!(matches!(state, MessageState::Dropped { reason: Reason::AgentRemoved, .. }), "{state:?}");
}

#[test]
fn a_clock_that_is_set_back_over_midnight_judges_again() {
    let mut world = world(&format!("grace = 0\n{}", daily(100)), "on_limit = \"hold\"");
    world.pass(Millis::seconds(13 * 60 * 60));
    let first = says(&mut world, "ann", "m1");
    works(&mut world, first, 100);
    let second = says(&mut world, "ann", "m2");
    assert!(waits(&world, second), "spent on Apr 21");
    // Now it is Apr 20 again, when nothing was spent.
    let back = 2 * 60 * 60 * 1_000;
    world.step_clock(-back);
    world.put(Input::Clock(ClockChange::SetBack(Millis::new(back.unsigned_abs()))));
    world.settle();
    world.assert_sound();
    assert!(!waits(&world, second), "{:?}", world.state_of(second));
}

#[test]
fn what_passes_and_what_waits_is_in_the_journal() {
    let mut world = world(&format!("grace = 1\n{}", daily(0)), "on_limit = \"hold\"");
    let (first, second) = (says(&mut world, "ann", "m1"), says(&mut world, "ann", "m2"));
    let events: Vec<_> = world.read(|db, txn| db.journal.iter(txn)?.collect::<Result<Vec<_>, _>>());
    let of =
        |message| events.iter().filter(move |(_, entry)| entry.message == Some(message)).map(|(_, entry)| &entry.event);
    assert!(of(first).any(|event| matches!(event, Event::PassedBudget { .. })));
    assert!(of(second).any(|event| matches!(event, Event::OverBudget { budget, .. } if budget == "agent:main/day")));
}

/// Uses 1,500 tokens for every message.
const PROGRAM: &str = r#"
import json, sys
for line in sys.stdin:
    if json.loads(line).get("type") != "turn":
        continue
    print(json.dumps({"type": "usage", "model": "gpt-5", "input": 1400, "output": 100}), flush=True)
    print(json.dumps({"type": "say", "text": "done"}), flush=True)
    print(json.dumps({"type": "done"}), flush=True)
"#;

#[test]
fn people_see_what_is_left_and_why_a_message_waits() {
    let mut host = Host::with_program(PROGRAM);
    host.apply("schema = 1\ngrace = 0\n[[budgets]]\nscope = \"agent:main\"\nper = \"day\"\ntokens = 1000\n");
    host.start();
    host.inject("m1", "hello");
    host.wait_said(1);
    host.wait_settled();
    host.inject("m2", "and again");
    let spend: Value = serde_json::from_str(&host.done(&["spend", "--json"], b"")).unwrap();
    let budget = &spend["budgets"][0];
    assert_eq!((&budget["budget"], &budget["spent"]), (&json!("agent:main/day"), &json!(true)), "{spend}");
    assert_eq!(budget["tokens"], json!({"limit": 1000, "spent": 1500, "reserved": 0, "left": 0}), "{spend}");
    assert!(host.done(&["spend"], b"").contains("agent:main/day"), "{spend}");
    let status = host.status();
    assert_eq!(status["messages"]["over_budget"], 1, "{status}");
    let warned = |warning: &Value| warning.as_str().unwrap().starts_with("the budget agent:main/day is spent");
    assert!(status["warnings"].as_array().unwrap().iter().any(warned), "{status}");
    let why: Value = serde_json::from_str(&host.done(&["why", "m2", "--json"], b"")).unwrap();
    let words = why["events"][0]["messages"][0]["words"].as_str().unwrap();
    assert!(
        words.starts_with("waiting for room in the budget agent:main/day (1500 of 1000 tokens spent), at the latest"),
        "{why}"
    );
    let why: Value = serde_json::from_str(&host.done(&["why", "m1", "--json"], b"")).unwrap();
    assert_eq!(why["events"][0]["messages"][0]["spend"]["cost_micros"], 1_750 + 1_000, "{why}");
    // The configuration is written as it was read, and without the budget the message goes on.
    assert!(host.done(&["export"], b"").contains("tokens = 1000"));
    host.apply("schema = 1\ntimezone = \"UTC\"\n");
    host.wait_said(2);
    host.wait_settled();
    host.check();
}

/// A budget in money moves turns to a fallback whose model runs here, and back when it has room again.
#[test]
fn a_spent_budget_moves_turns_to_a_provider_that_costs_nothing() {
    let budget = "[[budgets]]\nscope = \"agent:main\"\nper = \"day\"\nusd = 1\n";
    let agent = "provider = \"claude\"\non_limit = \"hold\"\nfallback = [\"codex\", { provider = \"openai\", model = \"qwen\" }]\n\
                 env = { OPENAI_BASE_URL = \"http://192.168.1.20:8080/v1\" }";
    let mut world = world(&format!("grace = 0\n{budget}"), agent);
    let driver = |world: &World| {
        world
            .read(|db, txn| db.session_providers.get(txn, &S))
            .and_then(|row| row.stand_in.map(|stand_in| stand_in.why))
    };
    let first = says(&mut world, "ann", "m1");
    assert_eq!(driver(&world), None);
    // `gpt-5` has a price, so that a server that passes it on is not taken for one that costs nothing.
    works(&mut world, first, 800_000);
    let second = says(&mut world, "ann", "m2");
    assert!(!waits(&world, second), "{:?}", world.state_of(second));
    assert_eq!(driver(&world).as_deref(), Some("the budget agent:main/day has no room for a turn"));
    assert!(reserved(&world).iter().all(|row| row.money.as_micros() == 0));
    let (seq, run) = (world.message(second).seq, world.session(S).live.unwrap());
    let tokens = Tokens { input: 9_000_000, ..Tokens::default() };
    let free = Record::Used {
        seq,
        incarnation: run,
        used: vec![ReportedUse { model: Some("qwen".into()), tokens, cost: None }],
    };
    write(&mut world, vec![claim(seq, run), CollectedRecord { record: free, files: vec![] }, end(seq, run, vec![])]);
    assert!(answered(&world, second));
    let spent = world.read(|db, txn| db.spend.last(txn, ..)).unwrap().1;
    assert_eq!((spent.uses[0].cost.as_micros(), spent.uses[0].basis), (0, CostBasis::Priced));
    assert!(texts(&world).iter().all(|text| !text.starts_with("Your message waits")), "{:?}", texts(&world));

    // While none of those takes work, messages wait for the budget. The first one after the pause goes, the others follow.
    let third = says(&mut world, "ann", "m3");
    for _ in ["codex", "openai"] {
        let (seq, run) = (world.message(third).seq, world.session(S).live.unwrap());
        let wait = RetryHint::Wait(Some(Millis::seconds(60)));
        write(&mut world, vec![claim(seq, run), try_again(seq, vec![], run, wait)]);
    }
    assert!(waits(&world, third), "{:?}", world.state_of(third));
    world.pass(Millis::seconds(60));
    let fourth = says(&mut world, "ann", "m4");
    assert!(!waits(&world, fourth), "{:?}", world.state_of(fourth));
    assert!(driver(&world).is_some());
    works(&mut world, fourth, 0);
    assert!(!waits(&world, third), "{:?}", world.state_of(third));
    works(&mut world, third, 0);

    tomorrow(&mut world);
    let fifth = says(&mut world, "ann", "m5");
    assert!(!waits(&world, fifth));
    assert_eq!(driver(&world), None, "the own provider has room again");
}

/// A change that gives the agent a provider without costs lets messages go that wait for a budget.
#[test]
fn messages_go_when_a_provider_that_costs_nothing_is_configured() {
    let budget = "grace = 0\n[[budgets]]\nscope = \"agent:main\"\nper = \"day\"\nusd = 1\n";
    let costs = "provider = \"claude\"\non_limit = \"hold\"\nenv = { OPENAI_BASE_URL = \"http://localhost:11434/v1\" }";
    let with_fallback = format!("{costs}\nfallback = [{{ provider = \"openai\", model = \"qwen\" }}]");
    let costly = format!("{costs}\nfallback = [{{ provider = \"claude\", model = \"claude-haiku-4-5\" }}]");
    let own = costs.replace("\"claude\"", "\"openai\"\nmodel = \"qwen\"");
    for (after, goes) in [(with_fallback, true), (own, true), (costly, false)] {
        let mut world = world(budget, costs);
        let first = says(&mut world, "ann", "m1");
        works(&mut world, first, 800_000);
        let second = says(&mut world, "ann", "m2");
        assert!(waits(&world, second), "{after}");
        let one = ONE.replace("folder = \"main\"\n", &format!("folder = \"main\"\n{after}\n"));
        world.apply(&format!("timezone = \"UTC\"\n{budget}\n{one}{OWNER}"));
        world.settle();
        world.assert_sound();
        assert_eq!(waits(&world, second), !goes, "{after}: {:?}", world.state_of(second));
    }
}

/// A message waits until the last of the budgets without room has some again.
#[test]
fn a_message_waits_for_the_last_of_its_budgets() {
    let budget = |per: &str| format!("[[budgets]]\nscope = \"all\"\nper = {per:?}\ntokens = 10\n");
    for budgets in [["day", "month"], ["month", "day"]] {
        let mut world = world(&format!("grace = 0\n{}", budgets.map(budget).concat()), "on_limit = \"hold\"");
        let first = says(&mut world, "ann", "m1");
        works(&mut world, first, 10);
        let second = says(&mut world, "ann", "m2");
        let may = MessageState::Pending(Due::Budget(instant("2026-05-01T00:00:00Z")));
        assert_eq!(world.state_of(second), may, "{budgets:?}");
    }
}

/// A budget in tokens, or a fallback that costs something, leaves a message waiting.
#[test]
fn a_provider_that_costs_something_is_no_way_around_a_budget() {
    let near = "env = { OPENAI_BASE_URL = \"http://localhost:11434/v1\" }";
    for (budget, fallback) in [("tokens = 1000", "openai"), ("usd = 0.001", "codex")] {
        let budget = format!("grace = 0\n[[budgets]]\nscope = \"agent:main\"\nper = \"day\"\n{budget}\n");
        let far = if fallback == "openai" { near } else { "" };
        let mut world = world(&budget, &format!("on_limit = \"hold\"\nfallback = [{fallback:?}]\n{far}"));
        let first = says(&mut world, "ann", "m1");
        works(&mut world, first, 1_000);
        let second = says(&mut world, "ann", "m2");
        assert!(waits(&world, second), "{fallback}: {:?}", world.state_of(second));
    }
}

/// A run begins messages in any order, and also one that it has already when a budget lets it wait.
#[test]
fn a_message_that_is_begun_without_a_turn_that_pays_for_it_sets_something_aside() {
    let free = "provider = \"claude\"\non_limit = \"hold\"\nfallback = [{ provider = \"openai\", model = \"qwen\" }]\n\
                env = { OPENAI_BASE_URL = \"http://localhost:11434/v1\" }";
    for (limit, spent, agent, expected) in [
        ("tokens = 1000", 0, "on_limit = \"hold\"", (0, 250)),
        ("usd = 1", 0, "provider = \"claude\"\non_limit = \"hold\"", (250_000, 0)),
        ("usd = 1", 800_000, free, (0, 0)),
    ] {
        let budget = format!("grace = 0\n[[budgets]]\nscope = \"agent:main\"\nper = \"day\"\n{limit}\n");
        let mut world = world(&budget, agent);
        if spent > 0 {
            let before = says(&mut world, "ann", "m0");
            works(&mut world, before, spent);
        }
        let seqs = ["m1", "m2", "m3"].map(|id| says(&mut world, "ann", id)).map(|id| world.message(id).seq);
        let run = world.session(S).live.unwrap();
        let aside = |world: &World| {
            let rows = reserved(world);
            rows.iter().map(|row| (row.money.as_micros(), row.tokens)).collect::<Vec<_>>()
        };
        assert_eq!(aside(&world), [expected, (0, 0), (0, 0)], "{limit}");
        write(&mut world, vec![claim(seqs[0], run), claim(seqs[1], run)]);
        assert_eq!(aside(&world), [expected, (0, 0), (0, 0)], "{limit}: they share a turn");
        write(&mut world, vec![end(seqs[0], run, vec![])]);
        write(&mut world, vec![claim(seqs[2], run)]);
        assert_eq!(aside(&world), [(0, 0), expected], "{limit}: the turn that paid has ended");
    }
}

#[test]
fn a_message_that_is_begun_while_it_waits_is_counted() {
    for pays in [false, true] {
        let mut world = world(&format!("grace = 0\n{}", daily(1_000)), "on_limit = \"hold\"");
        let first = says(&mut world, "ann", "m1");
        works(&mut world, first, 1_000);
        let run = world.session(S).live.unwrap();
        if pays {
            let of_owner = says(&mut world, "boss", "m2");
            let seq = world.message(of_owner).seq;
            write(&mut world, vec![claim(seq, run)]);
        }
        let waiting = says(&mut world, "ann", "m3");
        assert!(waits(&world, waiting));
        let seq = world.message(waiting).seq;
        write(&mut world, vec![claim(seq, run)]);
        let aside: Vec<u64> = reserved(&world).iter().map(|row| row.tokens).collect();
        assert_eq!(aside, if pays { vec![250, 0] } else { vec![250] });
    }
}

/// Of three turns or more, the one in the middle is expected again, also if there were none when the first was judged.
#[test]
fn what_is_set_aside_follows_the_last_turns() {
    let mut world = world(&format!("grace = 0\n{}", daily(40_000)), "on_limit = \"hold\"");
    for (id, tokens, expected) in
        [("m1", 300, 10_000), ("m2", 100, 10_000), ("m3", 200, 10_000), ("m4", 500, 200), ("m5", 500, 300)]
    {
        let message = says(&mut world, "ann", id);
        assert_eq!(reserved(&world).iter().map(|row| row.tokens).collect::<Vec<_>>(), [expected], "{id}");
        works(&mut world, message, tokens);
    }
}

/// What a person allows or refuses is for the budget that was asked about.
#[test]
fn a_decision_is_about_one_budget() {
    let all = "[[budgets]]\nscope = \"all\"\nper = \"month\"\ntokens = 9000000\n";
    for limit in ["tokens = 1000", "usd = 1"] {
        let budget = format!("[[budgets]]\nscope = \"agent:main\"\nper = \"day\"\n{limit}\n");
        let mut world = world(&format!("grace = 0\n{all}{budget}"), "");
        let first = says(&mut world, "ann", "m1");
        works(&mut world, first, if limit == "usd = 1" { 800_000 } else { 1_000 });
        let second = says(&mut world, "ann", "m2");
        assert!(waits(&world, second), "{limit}");
        world.put(Input::Decide(PromptSubject::Approval(ApprovalId::new(1)), "approve".into()));
        world.settle();
        world.assert_sound();
        assert!(!waits(&world, second), "{limit}: {:?}", world.state_of(second));
    }
    let of = |who: &str| format!("[[budgets]]\nscope = \"person:net:{who}\"\nper = \"day\"\ntokens = 100\n");
    let mut world = world(&format!("grace = 0\n{}{}", of("ann"), of("bob")), "");
    for (who, id) in [("ann", "m1"), ("bob", "m2")] {
        let message = says(&mut world, who, id);
        works(&mut world, message, 100);
    }
    let waiting = [("ann", "m3"), ("ann", "m4"), ("bob", "m5")].map(|(who, id)| says(&mut world, who, id));
    assert!(waiting.iter().all(|id| waits(&world, *id)));
    world.put(Input::Decide(PromptSubject::Approval(ApprovalId::new(1)), "reject".into()));
    world.settle();
    world.assert_sound();
    assert_eq!(waiting.map(|id| waits(&world, id)), [false, false, true]);
    assert_eq!(count(&world, "Your message was dropped: "), 1, "once in a place: {:?}", texts(&world));
}

/// What the run was given and did not begin is taken from its mailbox when the turn before used all.
#[test]
fn a_message_that_was_to_share_a_turn_waits_if_that_turn_used_all() {
    let mut world = world(&format!("grace = 0\n{}", daily(1_000)), "on_limit = \"hold\"");
    let (first, second) = (says(&mut world, "ann", "m1"), says(&mut world, "ann", "m2"));
    let seq = world.message(second).seq;
    assert!(world.outside.inbox[&S].contains_key(&seq));
    works(&mut world, first, 1_000);
    assert!(waits(&world, second), "{:?}", world.state_of(second));
    assert!(!world.outside.inbox[&S].contains_key(&seq));
    tomorrow(&mut world);
    assert!(world.outside.inbox[&S].contains_key(&seq));
}
