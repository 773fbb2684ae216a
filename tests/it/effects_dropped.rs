//! Effects are hints: with every effect of every input except start and sweep lost for ever, all work still completes.
//!
//! A workload by chance: messages, agents that answer, dawdle, die and lie idle, channels that fail, daemons that start
//! again. Its seed is printed; `HEARTH_SEED` repeats it.

use std::collections::{BTreeMap, BTreeSet};

use hearth::model::configure::Change;
use hearth::model::delivery::{DeliveryResult, OutState};
use hearth::model::id::{OutboundId, SessionId};
use hearth::model::incarnation::Exit;
use hearth::model::mailbox::{Collection, Recipient, RetryHint};
use hearth::model::message::{MessageState, Reason};
use hearth::model::report::Outcome;
use hearth::model::task::FireOutcome;
use hearth::model::{Input, Millis};

use crate::world::chance::{Chance, seeds};
use crate::world::outside::remote;
use crate::world::outside::{claim, end, failed, fetched, mid_turn, said, try_again};
use crate::world::routing::place;
use crate::world::routing::with_threads;
use crate::world::{World, event_in};

const TOML: &str = r#"
max_containers = 3
[[agents]]
folder = "always"
max_parallel = 2
[[agents]]
folder = "listens"
max_prompt_messages = 2
[[agents]]
folder = "threads"
[[agents]]
folder = "fan"
max_prompt_messages = 3
[[agents]]
folder = "doomed"
[[chats]]
channel = "net"
platform_id = "C"
unknown_senders = "public"
[[chats.wirings]]
agent = "always"
engage = "pattern"
pattern = "."
[[chats.wirings]]
agent = "listens"
ignored = "accumulate"
[[chats]]
channel = "net"
platform_id = "D"
group = true
unknown_senders = "public"
[[chats.wirings]]
agent = "fan"
engage = "mention-sticky"
ignored = "accumulate"
[[chats.wirings]]
agent = "threads"
session = "per-thread"
ignored = "accumulate"
[[chats.wirings]]
agent = "doomed"
engage = "pattern"
pattern = "."
"#;

/// The world under chance, and what its agents have in their heads.
struct Sim {
    world: World,
    chance: Chance,
    /// Messages an incarnation has begun and ended.
    begun: BTreeMap<(SessionId, u32), (BTreeSet<u64>, BTreeSet<u64>)>,
    numbers: BTreeMap<SessionId, u64>,
    events: u64,
    /// How many files there were at the last look into each mailbox.
    looked: BTreeMap<SessionId, usize>,
}

impl Sim {
    fn new(seed: u64) -> Self {
        let mut world = World::of(TOML);
        world.lose_effects();
        world.outside.channel = Box::new(flaky(seed));
        let mut chance = Chance(seed ^ 0xf11e);
        world.outside.fetch = Box::new(move |fetch| fetched(fetch).filter(|_| chance.one_in(3)));
        Self {
            world,
            chance: Chance(seed),
            begun: BTreeMap::new(),
            numbers: BTreeMap::new(),
            events: 0,
            looked: BTreeMap::new(),
        }
    }

    fn sweep(&mut self) {
        self.world.sweep();
        self.world.perform_alone();
    }

    fn step(&mut self) {
        match self.chance.next(12) {
            0..=2 => self.say(),
            3..=6 => self.work(),
            7 if self.chance.one_in(4) => self.die(),
            8 if self.chance.one_in(8) => self.restart(),
            8 if self.chance.one_in(2) => self.configure(),
            8 => self.schedule(),
            9 => self.world.step_clock(i64::try_from(self.chance.next(7_200_000)).unwrap() - 3_600_000),
            _ => {
                let ms = self.chance.next(15_000);
                self.world.pass(Millis::new(ms));
                self.sweep();
            }
        }
        self.world.assert_sound();
    }

    fn say(&mut self) {
        // Some come twice.
        if !self.chance.one_in(5) || self.events == 0 {
            self.events += 1;
        }
        let id = self.events.to_string();
        let chat = if self.events.is_multiple_of(2) { "C" } else { "D" };
        let thread = ["t1", "t2", "t3"][usize::try_from(self.events % 3).unwrap()];
        let mention = if self.chance.one_in(2) { "\"isMention\":true" } else { "" };
        // Some are commands, which nobody gets or whose sender is told so.
        let text = ["words", "words", "words", "/help", "/clear"][usize::try_from(self.chance.next(5)).unwrap()];
        let json = event_in(("net", chat, Some(thread)), (&id, text, "\"senderId\":\"ann\""), mention);
        let threads = [None, Some(true), Some(true), Some(false)][usize::try_from(self.chance.next(4)).unwrap()];
        let mut input = crate::world::inbound(&with_threads(threads, &json));
        if let (Input::Inbound(event), true) = (&mut input, self.chance.one_in(4)) {
            event.attachments = vec![remote("photo.jpg")];
        }
        self.world.put_alone(input);
    }

    /// An operator mutes a thread, lets it be heard again, or ends that somebody listens there.
    fn configure(&mut self) {
        let fan = hearth::model::entity::Folder::new("fan").unwrap();
        let thread = ["t1", "t2", "t3"][usize::try_from(self.chance.next(3)).unwrap()];
        let mut at = place(Some(thread));
        at.platform_id = hearth::model::ForeignId::new("chat", "D").unwrap();
        let change = match self.chance.next(3) {
            0 => Change::Mute(fan, at),
            1 => Change::Unmute(fan, at),
            _ => Change::EndSticky(fan, at),
        };
        drop(self.world.configure(vec![change]));
        self.world.lose_effects();
    }

    /// Somebody wants something done once, soon.
    fn schedule(&mut self) {
        let agent = hearth::model::id::AgentId::new(1 + self.chance.next(4));
        let task = crate::world::schedules::new(&self.world, self.chance.next(600), None);
        self.world.put_alone(crate::world::schedules::add(hearth::model::task::NewTask {
            agent,
            reply: Some(place(None)),
            ..task
        }));
    }

    fn somebody(&mut self) -> Option<(SessionId, u32)> {
        let running: Vec<_> = self.world.outside.running.iter().map(|(session, number)| (*session, *number)).collect();
        let count = u64::try_from(running.len()).unwrap();
        (count > 0).then(|| running[usize::try_from(self.chance.next(count)).unwrap()])
    }

    /// An agent does something: claims, says, ends, fails. Whether anybody looks into its mailbox is chance.
    fn work(&mut self) {
        let Some((session, number)) = self.somebody() else { return };
        let (begun, ended) = self.begun.entry((session, number)).or_default();
        let inbox = self.world.outside.inbox.get(&session).cloned().unwrap_or_default();
        let open = begun.difference(ended).next().copied();
        let next = inbox.values().find(|message| message.trigger && !begun.contains(&message.seq)).map(|m| m.seq);
        let found = match (open, next) {
            (Some(seq), _) => {
                let context = self.world.outside.numbers.get(&session).copied().unwrap_or(1);
                let own = self.numbers.entry(session).or_insert(1);
                *own = (*own + 2).max(context);
                let words = said(*own, number, Some(seq), Recipient::Reply);
                match self.chance.next(10) {
                    8 | 9 => {
                        ended.insert(seq);
                        let again = if self.chance.one_in(2) { RetryHint::Later } else { RetryHint::Wait(None) };
                        vec![try_again(seq, vec![], number, again)]
                    }
                    0 => vec![mid_turn(words)],
                    1 => {
                        ended.insert(seq);
                        vec![failed(seq, number, "out of tokens")]
                    }
                    _ => {
                        ended.insert(seq);
                        vec![end(seq, number, vec![words])]
                    }
                }
            }
            (None, Some(seq)) => {
                begun.insert(seq);
                vec![claim(seq, number)]
            }
            (None, None) => return,
        };
        let seen = self.world.outside.write(session, found);
        if self.chance.one_in(2) {
            self.world.put_alone(seen);
        }
    }

    /// An incarnation dies; mostly the runtime says so.
    fn die(&mut self) {
        let Some((session, number)) = self.somebody() else { return };
        let gone = self.world.outside.end(session, number, Exit::Signal(9));
        if !self.chance.one_in(3) {
            self.world.put_alone(gone);
        }
    }

    fn restart(&mut self) {
        if self.chance.one_in(2) {
            self.world.outside.running.clear();
        }
        self.world.restart();
        self.world.perform_alone();
    }

    /// From now on everybody does what they should, and only sweeps get anything done.
    fn drain(&mut self) {
        self.world.outside.channel = Box::new(|_| Some(DeliveryResult::Delivered { platform_message: None }));
        self.world.outside.fetch = Box::new(fetched);
        for _ in 0..3_000 {
            if self.is_done() {
                return;
            }
            self.world.pass(Millis::seconds(10));
            self.sweep();
            let running: Vec<_> = self.world.outside.running.keys().copied().collect();
            for session in running {
                self.work();
                self.work();
                let found = self.world.outside.files_of(session);
                if found.len() != self.looked.insert(session, found.len()).unwrap_or_default() {
                    self.world.put_alone(Input::Collected(Collection { session, found, closes: None }));
                }
            }
            self.world.assert_sound();
        }
        panic!("not done:\n{}", self.unfinished().join("\n"));
    }

    fn is_done(&self) -> bool {
        self.unfinished().is_empty()
    }

    /// What still waits: messages that ask for a turn, and everything said.
    fn unfinished(&self) -> Vec<String> {
        let waits = |state: &MessageState| matches!(state, MessageState::Pending(_) | MessageState::Claimed { .. });
        let messages = self.world.all_messages().into_iter().filter(|(_, m)| m.trigger && waits(&m.state));
        let said = self.world.all_outbound().into_iter().filter(|(_, outbound)| {
            matches!(outbound.state, OutState::Later(_) | OutState::Waiting { .. } | OutState::Attempting { .. })
        });
        let open = self.world.read(|db, txn| db.tasks.iter(txn)?.collect::<Result<Vec<_>, _>>());
        let open = open.into_iter().filter(|(_, task)| task.state.is_open() || task.running.is_some());
        let messages = messages.map(|row| format!("{row:?}")).chain(open.map(|row| format!("{row:?}")));
        messages.chain(said.map(|row| format!("{row:?}"))).collect()
    }

    /// What is promised of every message and every answer.
    fn prove(&self) {
        let shown: BTreeMap<OutboundId, usize> =
            self.world.outside.shown.iter().fold(BTreeMap::new(), |mut counts, (id, _)| {
                *counts.entry(*id).or_default() += 1;
                counts
            });
        assert!(shown.values().all(|count| *count == 1));
        for (id, outbound) in self.world.all_outbound() {
            match outbound.state {
                OutState::Delivered { .. } => assert!(shown.contains_key(&id), "{id} was delivered and nobody saw it"),
                OutState::Failed { .. } | OutState::Abandoned { .. } => {}
                other => panic!("{id}: {other:?}"),
            }
        }
        assert_eq!(self.world.read(|db, txn| db.fetches.len(txn)), 0, "every file was fetched");
        // Every time was used, once.
        let fires = self.world.read(|db, txn| db.task_runs.iter(txn)?.collect::<Result<Vec<_>, _>>());
        let slots: BTreeSet<_> =
            self.world.all_messages().into_iter().filter_map(|(_, message)| message.slot).collect();
        let asked = self.world.all_messages().iter().filter(|(_, message)| message.slot.is_some()).count();
        let tasks = self.world.read(|db, txn| db.tasks.len(txn));
        assert_eq!((fires.len(), slots.len(), u64::try_from(asked).unwrap()), (asked, asked, tasks));
        let over = |outcome: &FireOutcome| matches!(outcome, FireOutcome::Done(_) | FireOutcome::Failed(..));
        assert!(fires.iter().all(|(_, fire)| over(&fire.outcome)), "{fires:?}");
        let events: BTreeSet<(SessionId, u64)> =
            self.world.all_messages().into_iter().map(|(_, message)| (message.session, message.seq)).collect();
        assert_eq!(events.len(), self.world.all_messages().len());
        for (id, message) in self.world.all_messages() {
            match message.state {
                MessageState::Completed { .. } | MessageState::Failed { .. } => {}
                MessageState::Dropped { reason: Reason::AgentRemoved, .. } => {}
                MessageState::Pending(_) if !message.trigger => {}
                other => panic!("{id}: {other:?}"),
            }
        }
    }
}

/// A channel that is mostly there.
fn flaky(seed: u64) -> impl FnMut(&hearth::model::delivery::Delivery) -> Option<DeliveryResult> {
    let mut chance = Chance(seed ^ 0x5eed);
    move |_| match chance.next(6) {
        0 => None,
        1 => Some(DeliveryResult::Retry("502".into())),
        2 => Some(DeliveryResult::Uncertain("the connection broke".into())),
        _ => Some(DeliveryResult::Delivered { platform_message: None }),
    }
}

#[expect(clippy::print_stdout, reason = "a test that fails shows its seed")]
fn run(seed: u64) {
    println!("HEARTH_SEED={seed}");
    let mut sim = Sim::new(seed);
    for step in 0..100 {
        if step == 75 {
            let doomed = hearth::model::entity::Folder::new("doomed").unwrap();
            let remove = Change::RemoveAgent(doomed);
            sim.world.configure(vec![remove]).unwrap();
            sim.world.lose_effects();
        }
        sim.step();
    }
    sim.drain();
    for _ in 0..20 {
        sim.world.pass(Millis::seconds(5));
        sim.sweep();
    }
    sim.prove();
    // The same events once more: nothing of them is new.
    for id in 1..=sim.events {
        let chat = if id.is_multiple_of(2) { "C" } else { "D" };
        let report = sim.world.inject(&event_in(("net", chat, None), (&id.to_string(), "words", ""), ""));
        assert_eq!(report.outcome, Outcome::Duplicate);
    }
}

#[test]
fn all_work_completes_by_sweeps_alone() {
    seeds("1-2").for_each(run);
}
