//! The ledger of what agents use of models, and its totals.

use hearth::model::gateway::{Api, ModelCall, Operation};
use hearth::model::id::{MessageId, SessionId};
use hearth::model::incarnation::Exit;
use hearth::model::mailbox::{CollectedRecord, Record, RetryHint};
use hearth::model::spend::{Amounts, CostBasis, Money, ReportedUse, Spend, SpendSource, Tokens};
use hearth::model::{Input, Millis, Timestamp};
use hearth::state::{KeyPart, SpendKey};
use serde_json::{Value, json};

use crate::host::Host;
use crate::world::outside::{claim, end, try_again};
use crate::world::{ONE, World, event_in};

const S: SessionId = SessionId::new(1);
const DAY: u64 = 24 * 60 * 60;

fn tokens(input: u64, output: u64) -> Tokens {
    Tokens { input, output, ..Tokens::default() }
}

fn used(seq: u64, incarnation: u32, uses: &[(Option<&str>, Tokens)]) -> CollectedRecord {
    let used =
        uses.iter().map(|(model, tokens)| ReportedUse { model: model.map(Into::into), tokens: *tokens, cost: None });
    CollectedRecord { record: Record::Used { seq, incarnation, used: used.collect() }, files: vec![] }
}

/// A message of Ann that the run of the session works on: its id, its position, and the run.
fn work(world: &mut World, id: &str) -> (MessageId, u64, u32) {
    let report = world.inject(&event_in(("net", "C", None), (id, "do it", r#""senderId":"ann""#), ""));
    world.settle();
    let message = report.wirings[0].message.unwrap();
    (message, world.message(message).seq, world.session(S).live.unwrap())
}

fn write(world: &mut World, found: Vec<CollectedRecord>) {
    let written = world.outside.write(S, found);
    world.put(written);
    world.settle();
    world.assert_sound();
}

fn ledger(world: &World) -> Vec<(SpendKey, Spend)> {
    world.read(|db, txn| db.spend.iter(txn)?.collect())
}

/// The totals of all days, by what they are kept for.
fn totals(world: &World) -> Vec<(String, Amounts)> {
    let rows: Vec<_> = world.read(|db, txn| db.spend_totals.iter(txn)?.collect());
    rows.into_iter().map(|(key, total)| (key.scope.shown(), total.sum())).collect()
}

#[test]
fn a_turn_is_in_the_ledger_once() {
    let mut world = World::of(ONE);
    let (message, seq, run) = work(&mut world, "m1");
    let uses = [(Some("claude-sonnet-4-5-20250929"), tokens(1_000, 100)), (None, tokens(7, 1))];
    let files = vec![claim(seq, run), used(seq, run, &uses), end(seq, run, vec![])];
    write(&mut world, files.clone());
    let found = ledger(&world);
    let [(key, entry)] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(*key, SpendKey { message, incarnation: run, call: 0 });
    assert_eq!(entry.source, SpendSource::Reported);
    assert_eq!(entry.person.as_ref().map(ToString::to_string).as_deref(), Some("net:ann"));
    let costs: Vec<_> = entry.uses.iter().map(|used| (used.basis, used.cost)).collect();
    let most = Money::micros(7 * 15 + 75);
    assert_eq!(costs, [(CostBasis::Priced, Money::micros(3_000 + 1_500)), (CostBasis::Unknown, most)]);
    let sum = Amounts { turns: 1, tokens: tokens(1_007, 101), cost: Money::micros(4_500), unpriced: most };
    let found = totals(&world);
    for scope in ["all", "agent/ag1", "chat/mg1", "person/net/ann"] {
        assert!(found.contains(&(scope.to_owned(), sum)), "{scope} in {found:?}");
    }
    let of_model = Amounts { turns: 1, tokens: tokens(7, 1), cost: Money::ZERO, unpriced: most };
    assert!(found.contains(&("model/".to_owned(), of_model)), "{found:?}");

    // The same files are found again after a crash.
    write(&mut world, files);
    assert_eq!((ledger(&world).len(), totals(&world)), (1, found));
}

#[test]
fn a_turn_that_failed_and_the_one_after_it_both_cost() {
    let mut world = World::of(ONE);
    let (message, seq, run) = work(&mut world, "m1");
    let first = used(seq, run, &[(Some("gpt-5"), tokens(100, 10))]);
    write(&mut world, vec![claim(seq, run), first, try_again(seq, vec![], run, RetryHint::Later)]);
    for _ in 0..30 {
        world.pass(Millis::seconds(10));
        world.sweep();
        world.settle();
    }
    let again = world.session(S).live.unwrap();
    assert_ne!(again, run);
    let second = used(seq, again, &[(Some("gpt-5"), tokens(30, 1))]);
    write(&mut world, vec![claim(seq, again), second, end(seq, again, vec![])]);
    let keys: Vec<_> = ledger(&world).into_iter().map(|(key, _)| (key.message, key.incarnation)).collect();
    assert_eq!(keys, [(message, run), (message, again)]);
    let all = totals(&world).into_iter().find(|(scope, _)| scope == "all").unwrap().1;
    assert_eq!((all.turns, all.tokens), (2, tokens(130, 11)));
}

#[test]
fn a_turn_without_a_report_costs_nothing_and_is_known() {
    let mut world = World::of(ONE);
    let (_, seq, run) = work(&mut world, "m1");
    // The report of another turn is not that of this one.
    let foreign = used(seq + 1, run, &[(Some("gpt-5"), tokens(9, 9))]);
    write(&mut world, vec![claim(seq, run), foreign, end(seq, run, vec![])]);
    let found = ledger(&world);
    let [(_, entry)] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((entry.source, entry.uses.len(), totals(&world).len()), (SpendSource::Unreported, 0, 0));
}

#[test]
fn totals_stay_when_entries_are_old() {
    let mut world = World::of(&format!("[retention]\njournal = \"30d\"\n{ONE}"));
    let (_, seq, run) = work(&mut world, "m1");
    let uses = [(Some("gpt-5"), tokens(1_000, 0))];
    write(&mut world, vec![claim(seq, run), used(seq, run, &uses), end(seq, run, vec![])]);
    let before = totals(&world);
    world.pass(Millis::seconds(31 * DAY));
    world.sweep();
    world.settle();
    world.assert_sound();
    assert_eq!((ledger(&world).len(), totals(&world)), (0, before));
}

/// A program that says what it used, also in numbers that are none.
const PROGRAM: &str = r#"
import json, sys
for line in sys.stdin:
    turn = json.loads(line)
    if turn.get("type") != "turn":
        continue
    for used in ({"model": "gpt-5", "input": 1200, "output": 80}, {"model": "gpt-5", "input": 300, "output": 20},
                 {"model": "mine", "input": 5, "output": 5, "cost_micros": 70}, {"model": "bad", "input": -1}):
        print(json.dumps({"type": "usage", **used}), flush=True)
    print(json.dumps({"type": "say", "text": "done"}), flush=True)
    print(json.dumps({"type": "done"}), flush=True)
"#;

#[test]
fn people_see_what_agents_cost() {
    let mut host = Host::with_program(PROGRAM);
    let nothing = host.done(&["spend"], b"");
    assert!(nothing.starts_with("no model was used since "), "{nothing}");
    host.start();
    host.inject("m1", "hello");
    host.wait_said(1);
    host.wait_settled();
    let spend =
        |by: &str| -> Value { serde_json::from_str(&host.done(&["spend", "--by", by, "--json"], b"")).unwrap() };
    let models = spend("model");
    let line = |name: &str| models["spend"].as_array().unwrap().iter().find(|line| line["name"] == name).cloned();
    let of_list = line("gpt-5").unwrap();
    assert_eq!((&of_list["input_tokens"], &of_list["output_tokens"]), (&json!(1_500), &json!(100)), "{models}");
    assert_eq!(of_list["cost_micros"], 1_875 + 1_000, "{models}");
    assert_eq!(line("mine").unwrap()["cost_micros"], 70, "{models}");
    assert_eq!(line("bad"), None, "{models}");
    let agents = spend("agent");
    assert_eq!((&agents["spend"][0]["name"], &agents["total"]["turns"]), (&json!("main"), &json!(1)), "{agents}");
    for by in ["person", "chat", "day"] {
        assert_eq!(spend(by)["spend"].as_array().unwrap().len(), 1, "{by}");
    }
    let table = host.done(&["spend"], b"");
    assert!(table.contains("main") && table.contains("$0.0030"), "{table}");
    host.check();
}

fn call(number: u64, run: u32, input: u64) -> Input {
    call_since(Timestamp::from_millis(0), number, run, input)
}

fn call_since(began: Timestamp, number: u64, run: u32, input: u64) -> Input {
    Input::ModelCall(ModelCall {
        session: S,
        incarnation: run,
        number,
        api: Api::Anthropic,
        operation: Operation::Messages,
        model: Some("claude-sonnet-4-5".to_owned()),
        status: Some(200),
        usage: Some(tokens(input, 0)),
        began,
        ended: began,
        complete: true,
        over: None,
    })
}

fn all(world: &World) -> Amounts {
    totals(world).into_iter().find(|(scope, _)| scope == "all").unwrap().1
}

#[test]
fn calls_that_the_gateway_counted_replace_the_report_of_the_turn() {
    for early in [true, false] {
        let mut world = World::of(ONE);
        let (message, seq, run) = work(&mut world, "m1");
        write(&mut world, vec![claim(seq, run)]);
        world.put(call(7, run, 100));
        // The same call again.
        world.put(call(7, run, 100));
        if early {
            world.put(call(8, run, 50));
        }
        let report = used(seq, run, &[(Some("claude-sonnet-4-5"), tokens(9, 9))]);
        write(&mut world, vec![report, end(seq, run, vec![])]);
        if !early {
            world.put(call(8, run, 50));
        }
        world.assert_sound();
        let found: Vec<_> =
            ledger(&world).into_iter().map(|(key, entry)| (key.message, key.call, entry.counted)).collect();
        assert_eq!(found, [(message, 0, false), (message, 7, true), (message, 8, true)], "early: {early}");
        assert_eq!((all(&world).turns, all(&world).tokens), (2, tokens(150, 0)));
    }
}

#[test]
fn a_report_that_came_before_all_calls_does_not_count_any_more() {
    let mut world = World::of(ONE);
    let (_, seq, run) = work(&mut world, "m1");
    let report = used(seq, run, &[(Some("claude-sonnet-4-5"), tokens(100, 0))]);
    write(&mut world, vec![claim(seq, run), report, end(seq, run, vec![])]);
    assert_eq!(all(&world).tokens, tokens(100, 0));
    world.put(call(7, run, 101));
    world.assert_sound();
    assert_eq!((all(&world).turns, all(&world).tokens), (1, tokens(101, 0)));
    // A run that never existed, a call without tokens, and a session without messages change nothing.
    let before = ledger(&world).len();
    world.put(call(9, run + 1, 5));
    world.put(call(10, run, 0));
    world.assert_sound();
    assert_eq!(ledger(&world).len(), before);
}

/// A call of which nothing was heard until its turn had ended, or even the next one had begun, is still one of its own
/// turn, and replaces that turn's report.
#[test]
fn a_late_call_belongs_to_the_turn_in_which_it_began() {
    for (waits, works) in [(false, false), (true, false), (true, true)] {
        let mut world = World::of(ONE);
        let (_, earlier, run) = work(&mut world, "m0");
        write(&mut world, vec![claim(earlier, run), end(earlier, run, vec![])]);
        world.pass(Millis::seconds(1));
        let (first, seq, _) = work(&mut world, "m1");
        write(&mut world, vec![claim(seq, run)]);
        world.pass(Millis::seconds(1));
        let began = world.now().wall;
        world.pass(Millis::seconds(5));
        let report = used(seq, run, &[(Some("claude-sonnet-4-5"), tokens(100, 0))]);
        write(&mut world, vec![report, end(seq, run, vec![])]);
        if waits {
            let (_, next, _) = work(&mut world, "m2");
            if works {
                write(&mut world, vec![claim(next, run)]);
            }
        }
        world.pass(Millis::seconds(3));
        world.put(call_since(began, 7, run, 100));
        world.assert_sound();
        let found: Vec<_> =
            ledger(&world).into_iter().map(|(key, entry)| (key.message, key.call, entry.counted)).collect();
        assert_eq!(found[1..], [(first, 0, false), (first, 7, true)], "{waits} {works}");
        assert_eq!(all(&world).tokens, tokens(100, 0));
    }
}

/// The first call of a turn may begin before Hearth has read that the turn began.
#[test]
fn a_call_right_after_the_last_turn_belongs_to_the_next_one() {
    let mut world = World::of(ONE);
    let (_, seq, run) = work(&mut world, "m1");
    write(&mut world, vec![claim(seq, run), end(seq, run, vec![])]);
    let (next, seq, _) = work(&mut world, "m2");
    let began = world.now().wall.minus(Millis::new(100));
    world.pass(Millis::new(100));
    write(&mut world, vec![claim(seq, run)]);
    world.put(call_since(began, 7, run, 100));
    let calls: Vec<_> =
        ledger(&world).into_iter().filter(|(key, _)| key.call > 0).map(|(key, _)| key.message).collect();
    assert_eq!(calls, [next]);
}

/// Of a turn that died with its run, the calls belong to its message.
#[test]
fn a_call_of_a_run_that_died_belongs_to_its_message() {
    let mut world = World::of(ONE);
    let (first, seq, run) = work(&mut world, "m1");
    write(&mut world, vec![claim(seq, run)]);
    let began = world.now().wall;
    world.pass(Millis::seconds(1));
    let gone = world.outside.end(S, run, Exit::Signal(9));
    world.put(gone);
    world.settle();
    let (_, seq, next) = work(&mut world, "m2");
    assert_ne!(next, run);
    for claimed in [false, true] {
        if claimed {
            write(&mut world, vec![claim(seq, next)]);
        }
        world.put(call_since(began, 7 + u64::from(claimed), run, 100));
        world.assert_sound();
        assert!(ledger(&world).into_iter().all(|(key, _)| key.message == first), "claimed: {claimed}");
    }
    assert_eq!(ledger(&world).len(), 2);
}
