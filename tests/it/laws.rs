//! What holds for every input: twice is once, one failure harms nobody else, and what ends work finds room.

use std::collections::{BTreeMap, BTreeSet};

use hearth::model::configure::{Change, Configure};
use hearth::model::delivery::{Attempt, DeliveryResult};
use hearth::model::effect::Effect;
use hearth::model::entity::{Folder, Origin};
use hearth::model::id::{AgentId, ChatId, OutboundId, SessionId, TaskId};
use hearth::model::incarnation::{Exit, IncarnationId};
use hearth::model::input::RuntimeEvent;
use hearth::model::mailbox::{CollectedRecord, Collection, Recipient, Record, RetryHint};
use hearth::model::message::MessageState;
use hearth::model::policy::Policy;
use hearth::model::report::{Decision, Outcome, Reply};
use hearth::model::session::{ChatSession, Session};
use hearth::model::task::{Missed, NewTask, Overlap, Patch, TaskChange, TaskCommand, TaskHome, TaskOrigin};
use hearth::model::{Awake, Input, Millis};
use proptest::prelude::*;

use crate::world::chance::cases;
use crate::world::outside::{claim, end, failed, gone, leftover, mid_turn, said, try_again};
use crate::world::routing::{place, sticky_rows};
use crate::world::{ONE, World, event, event_in, inbound};

const S: SessionId = SessionId::new(1);

/// A few messages of one chat, some with equal ids, some addressed to the bot, some commands.
fn an_event() -> impl Strategy<Value = Input> {
    let text = prop_oneof![4 => Just("x"), 1 => Just("/clear now"), 1 => Just("/help"), 1 => Just("/review")];
    (0..5_u8, any::<bool>(), a_thread(), text).prop_map(|(id, mention, thread, text)| {
        let mention = if mention { "\"isMention\":true" } else { "" };
        inbound(&event_in(("net", "C", thread), (&id.to_string(), text, ""), mention))
    })
}

fn a_thread() -> impl Strategy<Value = Option<&'static str>> {
    prop_oneof![Just(None), Just(Some("a")), Just(Some("b"))]
}

/// What an operator does about threads.
fn a_change() -> impl Strategy<Value = Input> {
    (0..3_u8, any::<bool>(), a_thread()).prop_map(|(kind, main, thread)| {
        let (folder, at) = (Folder::new(if main { "main" } else { "fan" }).unwrap(), place(thread));
        let change = match kind {
            0 => Change::Mute(folder, at),
            1 => Change::Unmute(folder, at),
            _ => Change::EndSticky(folder, at),
        };
        Input::Configure(Configure { changes: vec![change], origin: Origin::Runtime, expected: None })
    })
}

fn a_file() -> impl Strategy<Value = CollectedRecord> {
    (1..5_u64, 1..3_u32, 0..8_u8, 1..6_u64).prop_map(|(message, number, kind, out)| {
        let words = |offset| said(out * 2 + offset, number, Some(message * 2), Recipient::Reply);
        match kind {
            0 => claim(message * 2, number),
            1 => end(message * 2, number, vec![words(1)]),
            2 => failed(message * 2, number, "no luck"),
            3 => mid_turn(words(1)),
            4 => leftover(words(1)),
            6 => try_again(message * 2, vec![message * 2 + 2], number, RetryHint::Later),
            7 => try_again(message * 2, vec![message * 2 + 2], number, RetryHint::Wait(None)),
            _ => mid_turn(words(0)),
        }
    })
}

fn writer(found: &CollectedRecord) -> u32 {
    match &found.record {
        Record::Claim { incarnation, .. } | Record::End { incarnation, .. } => *incarnation,
        Record::Said(said) | Record::Leftover(said) => said.incarnation,
        Record::Unreadable { .. } | Record::Hidden(_) => 0,
    }
}

fn a_collection() -> impl Strategy<Value = Input> {
    (proptest::collection::vec(a_file(), 1..4), proptest::option::weighted(0.2, 1..3_u32)).prop_map(
        |(mut found, closes)| {
            // The end of an incarnation is also the begin of the next one, which has written nothing before.
            found.retain(|found| closes.is_none_or(|number| writer(found) <= number));
            Input::Collected(Collection { session: S, found, closes })
        },
    )
}

fn a_result() -> impl Strategy<Value = Input> {
    let results = prop_oneof![
        Just(DeliveryResult::Delivered { platform_message: None }),
        Just(DeliveryResult::Rejected("no".into())),
        Just(DeliveryResult::Retry("502".into())),
        Just(DeliveryResult::Uncertain("cut off".into())),
        Just(DeliveryResult::Absent),
        Just(DeliveryResult::NoAdapter),
    ];
    (1..4_u64, 1..3_u32, results).prop_map(|(id, number, result)| {
        Input::Delivered(OutboundId::new(id), Attempt { number, since: Awake::new(1, 0) }, result)
    })
}

fn a_runtime_event() -> impl Strategy<Value = Input> {
    (1..3_u32, any::<bool>()).prop_map(|(number, runs)| match runs {
        true => Input::Runtime(RuntimeEvent::Running(S, number)),
        false => gone(S, number, Exit::Code(0)),
    })
}

/// What an agent wants of its tasks; some of them are due at once.
fn a_task_command() -> impl Strategy<Value = Input> {
    (0..9_u8, 1..4_u64, any::<bool>(), any::<bool>()).prop_map(|(kind, id, due, queue)| {
        let first = if due { "2026-01-01T00:00:00Z" } else { "2036-01-01T00:00:00Z" }.to_owned();
        let id = TaskId::new(id);
        let change = match kind {
            2 => TaskChange { prompt: Some("Look again".to_owned()), ..TaskChange::default() },
            3 => TaskChange { recurrence: Patch::Set("0 9 * * *".to_owned()), ..TaskChange::default() },
            _ => TaskChange { next: Some(first.clone()), ..TaskChange::default() },
        };
        Input::Task(match kind {
            0 | 1 => TaskCommand::Add(Box::new(NewTask {
                agent: AgentId::new(1),
                home: TaskHome::Maintenance,
                prompt: format!("Look at {id}"),
                script: None,
                reply: None,
                first: Some(first),
                recurrence: Some("30d".to_owned()),
                missed: if due { Missed::RunAll(2) } else { Missed::Skip },
                overlap: if queue { Overlap::Queue } else { Overlap::Refuse },
                origin: TaskOrigin::Agent(S),
            })),
            2..=4 => TaskCommand::Set(id, Box::new(change)),
            5 => TaskCommand::Pause(id),
            6 => TaskCommand::Resume(id),
            7 => TaskCommand::Cancel(id),
            _ => TaskCommand::Run(id),
        })
    })
}

fn an_input() -> impl Strategy<Value = Input> {
    prop_oneof![
        4 => an_event(), 4 => a_collection(), 1 => a_result(), 2 => a_runtime_event(), 1 => a_change(),
        3 => a_task_command()
    ]
}

const KEEPING: &str = r#"
[[agents]]
folder = "main"
[[chats]]
channel = "net"
platform_id = "C"
group = true
unknown_senders = "public"
[[chats.wirings]]
agent = "main"
ignored = "accumulate"
[[agents]]
folder = "fan"
[[chats.wirings]]
agent = "fan"
engage = "mention-sticky"
ignored = "accumulate"
"#;

/// What happens in threads of a group: things said, addressed to the bot or not, time, and an operator.
#[derive(Debug, Clone)]
enum Step {
    Said { thread: Option<&'static str>, mention: bool },
    Passed(u64),
    Muted(Option<&'static str>),
    Unmuted(Option<&'static str>),
    Ended(Option<&'static str>),
}

fn a_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (a_thread(), any::<bool>()).prop_map(|(thread, mention)| Step::Said { thread, mention }),
        2 => (1..30_u64).prop_map(Step::Passed),
        1 => a_thread().prop_map(Step::Muted),
        2 => a_thread().prop_map(Step::Unmuted),
        1 => a_thread().prop_map(Step::Ended),
    ]
}

/// What a wiring that sticks has to do, in its simplest form.
#[derive(Default)]
struct Model {
    hour: u64,
    until: BTreeMap<Option<&'static str>, u64>,
    muted: BTreeSet<Option<&'static str>>,
}

impl Model {
    /// Does a step; of something said, whether it engages.
    fn step(&mut self, step: &Step) -> Option<bool> {
        match *step {
            Step::Said { thread, mention } => {
                let muted = self.muted.contains(&thread) || self.muted.contains(&None);
                let engages = !muted && (mention || self.until.get(&thread).is_some_and(|until| self.hour < *until));
                if engages {
                    self.until.insert(thread, self.hour + 24);
                }
                return Some(engages);
            }
            Step::Passed(hours) => self.hour += hours,
            Step::Muted(thread) => {
                self.muted.insert(thread);
                self.end(thread);
            }
            Step::Unmuted(thread) => {
                self.muted.remove(&thread);
            }
            Step::Ended(thread) => self.end(thread),
        }
        None
    }

    fn end(&mut self, thread: Option<&'static str>) {
        self.until.retain(|known, _| thread.is_some() && *known != thread);
    }
}

fn real_step(world: &mut World, step: &Step, id: usize) -> Option<bool> {
    let change = match *step {
        Step::Said { thread, mention } => {
            let mention = if mention { "\"isMention\":true" } else { "" };
            let report = world.inject(&event_in(("net", "C", thread), (&id.to_string(), "x", ""), mention));
            world.lose_effects();
            let fan = report.wirings.iter().find(|wiring| wiring.agent.as_str() == "fan").unwrap();
            return Some(fan.decision == Decision::Engaged);
        }
        Step::Passed(hours) => {
            world.pass(Millis::minutes(hours * 60));
            if hours % 2 == 0 {
                world.sweep();
            }
            return None;
        }
        Step::Muted(thread) => Change::Mute(Folder::new("fan").unwrap(), place(thread)),
        Step::Unmuted(thread) => Change::Unmute(Folder::new("fan").unwrap(), place(thread)),
        Step::Ended(thread) => Change::EndSticky(Folder::new("fan").unwrap(), place(thread)),
    };
    // What is not there cannot be undone; that is said and changes nothing.
    drop(world.configure(vec![change]));
    None
}

proptest! {
    #![proptest_config(cases(24))]

    /// Each input twice in a row leaves the store that it leaves once: messages, files, results, words of the runtime.
    #[test]
    fn twice_is_once(inputs in proptest::collection::vec(an_input(), 1..20)) {
        let mut world = World::of(KEEPING);
        for input in inputs {
            world.put(input.clone());
            let once = world.text();
            world.put(input.clone());
            prop_assert_eq!(world.text(), once, "{:?}", input);
            world.assert_sound();
        }
    }

    /// A wiring that sticks engages when it is addressed or was lately, in threads that are not muted, and at no other time.
    #[test]
    fn stickiness_is_its_model(steps in proptest::collection::vec(a_step(), 1..40)) {
        let (mut world, mut model) = (World::of(KEEPING), Model::default());
        for (id, step) in steps.iter().enumerate() {
            prop_assert_eq!(real_step(&mut world, step, id), model.step(step), "step {} of {:?}", id, steps);
        }
    }

    /// Whatever is kept as context, and however often it comes, nothing sticks and nothing wakes.
    #[test]
    fn accumulating_never_sticks(said in proptest::collection::vec((a_thread(), 0..9_u8), 1..30)) {
        let mut world = World::of(KEEPING);
        for (thread, id) in said {
            world.inject(&event_in(("net", "C", thread), (&id.to_string(), "x", ""), ""));
        }
        prop_assert_eq!(sticky_rows(&world), 0);
        prop_assert!(world.all_messages().iter().all(|(_, message)| !message.trigger));
        prop_assert!(world.effects.is_empty());
    }

    /// A group leaves what its inputs leave one by one.
    #[test]
    fn a_group_is_its_inputs_in_order(inputs in proptest::collection::vec(an_input(), 1..12)) {
        let (mut grouped, mut alone) = (World::of(KEEPING), World::of(KEEPING));
        for answer in grouped.group(inputs.clone()) {
            answer.unwrap();
        }
        for input in inputs {
            alone.put(input);
        }
        prop_assert_eq!(grouped.text(), alone.text());
    }
}

/// One that is refused and one that fails leave nothing behind; their neighbours are stored.
#[test]
fn one_failure_harms_no_neighbour() {
    let mut world = World::of(ONE);
    world.inject(&event("0", "x", ""));
    world.store().write(|db, txn| db.incarnations.delete(txn, &IncarnationId::new(S, 1)).map(drop)).unwrap();
    let ghost = "[[chats]]\nchannel = \"net\"\nplatform_id = \"D\"\n[[chats.wirings]]\nagent = \"ghost\"";
    let answers = world.group(vec![
        inbound(&event_in(("net", "D", None), ("1", "x", ""), "\"isMention\":true")),
        Input::Configure(crate::world::configuration(ghost)),
        Input::Collected(Collection { session: S, found: vec![claim(2, 1)], closes: None }),
        inbound(&event_in(("net", "D", None), ("2", "x", ""), "\"isMention\":true")),
    ]);
    let answers: Vec<Option<Reply>> = answers.into_iter().map(|answer| answer.ok().map(|done| done.reply)).collect();
    let [Some(Reply::Routed(_)), Some(Reply::Refused(_)), None, Some(Reply::Routed(_))] = &answers[..] else {
        panic!("{answers:?}")
    };
    assert_eq!(world.read(|db, txn| db.dropped_events.len(txn)), 2);
    assert!(matches!(world.all_messages()[0].1.state, MessageState::Pending(_)), "nothing of the claim is left");
    world
        .store()
        .write(|db, txn| {
            db.live_incarnations.discard_leftover(txn, &S)?;
            let (key, row) = db.sessions.first(txn, ..)?.unwrap();
            let chat = row.chat().unwrap();
            db.sessions.put(txn, &key, &Session::Chat(ChatSession { live: None, ..chat }))
        })
        .unwrap();
}

/// A full map refuses new work by its name; claims, ends, answers, deliveries and removals go through, and when they
/// have made room, new work is taken again.
#[test]
fn a_full_map() {
    let mut world = World::with(Policy { backlog_max: 100_000, ..Policy::STANDARD }, |options| {
        options.map_bytes = Some(6 << 20);
    });
    world.apply(ONE);
    let large = "x".repeat(20_000);
    let mut taken = 0;
    let refusal = loop {
        match world.put(inbound(&event(&taken.to_string(), &large, ""))) {
            Reply::Routed(report) => assert_eq!(report.outcome, Outcome::Routed),
            Reply::Refused(refusal) => break refusal,
            other => panic!("{other:?}"),
        }
        world.lose_effects();
        taken += 1;
        assert!(taken < 1_000);
    };
    assert_eq!((refusal.code, world.all_messages().len()), ("store_full", taken));
    let full = crate::world::configuration("[[agents]]\nfolder = \"b\"").changes;
    assert_eq!(world.configure(full).unwrap_err().code, "store_full");
    // Other limits and removals are what makes room: they are tried.
    world.apply("store_max_bytes = 8388608");
    let gone = Change::RemoveAgent(Folder::new("nobody").unwrap());
    assert_eq!(world.configure(vec![gone]).unwrap_err().code, "invalid");
    world.sweep();
    world.restart();
    world.settle();
    let number = world.session(S).live.unwrap();
    for seq in (2..).step_by(2).take(taken) {
        let words = said(seq + 1_001, number, Some(seq), Recipient::Reply);
        let turn = vec![claim(seq, number), end(seq, number, vec![words])];
        world.put(Input::Collected(Collection { session: S, found: turn, closes: None }));
        world.settle();
    }
    assert_eq!(world.outside.shown.len(), taken);
    assert!(world.all_messages().iter().all(|(_, message)| matches!(message.state, MessageState::Completed { .. })));
    // Retention removes what messages said; room is room again.
    let bodies = |world: &World| world.read(|db, txn| db.bodies.iter(txn)?.collect::<Result<Vec<_>, _>>());
    for (id, _) in bodies(&world).into_iter().take(taken / 2) {
        world.store().write(|db, txn| db.bodies.delete(txn, &id).map(drop)).unwrap();
    }
    assert_eq!(world.inject(&event("new", &large, "")).outcome, Outcome::Routed);
}

/// A group that is larger than the room left: what ends work is stored, new work is refused by name, nothing is lost.
#[test]
fn a_group_that_does_not_fit() {
    let mut world = World::with(Policy::STANDARD, |options| options.map_bytes = Some(4 << 20));
    world.apply(ONE);
    world.inject(&event("first", "x", ""));
    world.settle();
    let large = "x".repeat(100_000);
    let mut inputs: Vec<Input> = (0..60).map(|n| inbound(&event(&n.to_string(), &large, ""))).collect();
    inputs.insert(0, inbound(&event("small", "x", "")));
    let turn = vec![claim(2, 1), end(2, 1, vec![said(1_001, 1, Some(2), Recipient::Reply)])];
    inputs.push(Input::Collected(Collection { session: S, found: turn, closes: None }));
    let answers = world.group(inputs);
    let (mut routed, mut refused) = (0, 0);
    for answer in answers {
        match answer.unwrap().reply {
            Reply::Routed(_) => routed += 1,
            Reply::Refused(refusal) => {
                assert_eq!(refusal.code, "store_full");
                refused += 1;
            }
            _ => {}
        }
    }
    assert!(routed > 0 && refused > 0, "{routed} {refused}");
    assert_eq!(world.all_messages().len(), routed + 1);
    assert!(matches!(world.all_messages()[0].1.state, MessageState::Completed { .. }), "the end got through");
    assert_eq!(world.all_messages()[1].1.seq, 1_002, "what ends work went first");
}

/// There is room, but not so much: refused by name as if there were none, each time, and nothing is a fault.
#[test]
fn an_event_that_does_not_fit() {
    let large = "x".repeat(500_000);
    let mut too_large = 0;
    for kib in (1_300..2_100).step_by(100) {
        let mut world = World::with(Policy::STANDARD, |options| options.map_bytes = Some(kib << 10));
        world.apply(ONE);
        for n in 0..5 {
            let open = world.store().admission().unwrap() == hearth::state::Admission::Open;
            match world.put(inbound(&event(&n.to_string(), &large, ""))) {
                Reply::Refused(refusal) => {
                    assert_eq!(refusal.code, "store_full");
                    too_large += usize::from(open);
                }
                reply => assert!(matches!(reply, Reply::Routed(_)), "{reply:?}"),
            }
            world.lose_effects();
        }
        world.assert_sound();
    }
    assert!(too_large > 0, "it was refused where there was room for less");
}

/// What a damaged row is in the way of is a fault, not a lack of room.
#[test]
fn a_row_that_is_missing_is_no_full_store() {
    let mut world = World::of(ONE);
    let id = ChatId::new(1);
    let lost = world.read(|db, txn| db.chats.require(txn, &id));
    world.store().write(|db, txn| db.chats.rows().delete(txn, &id).map(drop)).unwrap();
    let answer = world.try_put(inbound(&event("1", "x", "")));
    assert!(answer.as_ref().is_err_and(|error| error.is_damage()), "{answer:?}");
    world.store().write(|db, txn| db.chats.rows().put(txn, &id, &lost)).unwrap();
}

/// Removing is what makes room, so it has to work when there is none.
#[test]
fn continuations_run_in_a_full_store() {
    let mut world = World::with(Policy::STANDARD, |options| options.map_bytes = Some(6 << 20));
    world.apply(ONE);
    world.configure(vec![Change::RemoveAgent(Folder::new("main").unwrap())]).unwrap();
    world.apply(ONE);
    let large = "x".repeat(20_000);
    let mut n = 0;
    while matches!(world.put(inbound(&event(&n.to_string(), &large, ""))), Reply::Routed(_)) {
        n += 1;
    }
    world.settle();
    for _ in 0..40 {
        world.pass(Millis::seconds(1));
        world.sweep();
        world.settle();
    }
    assert!(world.effects.iter().all(|effect| !matches!(effect, Effect::Continue(_))));
    world.assert_sound();
}
