//! Compares the engine with a minimal reference: the same inputs into both, the same results after every input.
//!
//! `ground` is the setting. `reference` defines routing, threads, membership, decisions, claims and tries, `questions`
//! what agents ask people, `series` what tasks do, and `sticky` when wirings follow threads.

mod ground;
mod questions;
mod reference;
mod scripts;
mod series;
mod sticky;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use hearth::model::approval::{Approval, ApprovalSubject};
use hearth::model::card::{Card, PromptSubject};
use hearth::model::channel::ChannelKind;
use hearth::model::configure::Change;
use hearth::model::delivery::{DeliveryAct, DeliveryResult};
use hearth::model::entity::Folder;
use hearth::model::id::{AgentId, ApprovalId, MessageId, SessionId};
use hearth::model::incarnation::Exit;
use hearth::model::input::Press;
use hearth::model::mailbox::{CollectedRecord, Recipient, Record, RetryHint};
use hearth::model::message::{Completion, MessageState};
use hearth::model::policy::Policy;
use hearth::model::report::{Decision, Outcome, RouteReport};
use hearth::model::{Address, ChannelName, ForeignId, Input, Millis, UserId};
use proptest::prelude::*;

use self::ground::{CHATS, PEOPLE, Place, Said, TEXTS, THREADS, Talk, agent, configuration, talks};
use self::reference::{ASKED_MAX, Fate, HELD_MAX, ModelState, Refusal, State, Word};
use crate::world::chance::cases;
use crate::world::outside::{claim, end, failed, mid_turn, said, try_again};
use crate::world::routing::with_threads;
use crate::world::{World, channel, event_in};

#[derive(Debug, Clone, Copy)]
enum Step {
    Said(Said),
    /// An earlier event arrives again.
    Again(usize),
    Introduce(bool, usize),
    Forget(bool, usize),
    /// An approver or the operator decides the oldest open approval.
    Decide(Option<usize>, bool),
    Mute(bool, Place),
    Unmute(bool, Place),
    EndListening(bool, Place),
    /// Seconds, then a sweep.
    Pass(u64),
    /// All agents finish their work, and then days pass.
    Days(u64),
    /// One of the agents with work does the next step: it begins, or continues what it began.
    Work(usize, Work),
    Die(usize),
    /// The daemon restarts; the agents live on.
    Restart,
}

/// How an agent continues a message.
#[derive(Debug, Clone, Copy)]
enum Work {
    Ends,
    /// Together with all its other messages.
    EndsAll,
    Fails,
    /// It asks for a retry.
    Later,
    /// Together with all its other messages.
    LaterAll,
    Says,
}

fn a_step() -> impl Strategy<Value = Step> {
    let place = || (0..CHATS.len(), 0..THREADS.len());
    let said = (place(), 0..PEOPLE.len(), 0..TEXTS.len(), any::<bool>())
        .prop_map(|(at, who, text, mention)| Step::Said(Said { at, who, text, mention }));
    let by = prop_oneof![Just(None), (0..PEOPLE.len() - 1).prop_map(Some)];
    let work = prop_oneof![
        6 => Just(Work::Ends),
        2 => Just(Work::EndsAll),
        1 => Just(Work::Fails),
        2 => Just(Work::Later),
        1 => Just(Work::LaterAll),
        1 => Just(Work::Says),
    ];
    prop_oneof![
        12 => said,
        2 => any::<usize>().prop_map(Step::Again),
        1 => (any::<bool>(), 1..5_usize).prop_map(|(agent, who)| Step::Introduce(agent, who)),
        1 => (any::<bool>(), 1..5_usize).prop_map(|(agent, who)| Step::Forget(agent, who)),
        3 => (by, any::<bool>()).prop_map(|(by, yes)| Step::Decide(by, yes)),
        1 => (any::<bool>(), place()).prop_map(|(agent, at)| Step::Mute(agent, at)),
        1 => (any::<bool>(), place()).prop_map(|(agent, at)| Step::Unmute(agent, at)),
        1 => (any::<bool>(), place()).prop_map(|(agent, at)| Step::EndListening(agent, at)),
        // No sum of these is exactly a minute.
        4 => prop_oneof![Just(7_u64), Just(41)].prop_map(Step::Pass),
        1 => (1..5_u64).prop_map(Step::Days),
        10 => (any::<usize>(), work).prop_map(|(talk, work)| Step::Work(talk, work)),
        2 => any::<usize>().prop_map(Step::Die),
        1 => Just(Step::Restart),
    ]
}

/// Engine and reference, side by side.
struct Pair {
    setup: ModelState,
    world: World,
    sent: Vec<String>,
    /// The newest card of each subject, and where it was shown.
    cards: Rc<RefCell<BTreeMap<PromptSubject, (Address, Card)>>>,
}

impl Pair {
    fn new() -> Self {
        let policy = Policy { held_max: HELD_MAX, approvals_per_chat: ASKED_MAX, ..Policy::STANDARD };
        let mut world = World::with(policy, |_| {});
        let cards: Rc<RefCell<BTreeMap<_, _>>> = Rc::default();
        let shown = Rc::clone(&cards);
        world.outside.channel = Box::new(move |delivery| {
            if let DeliveryAct::Ask(card) = &delivery.act {
                shown.borrow_mut().insert(card.matter, (delivery.to.clone(), card.clone()));
            }
            Some(DeliveryResult::Delivered { platform_message: ForeignId::new("id", delivery.id.to_string()).ok() })
        });
        world.configure(vec![channel("net", ChannelKind::Telegram)]).unwrap();
        world.apply(&configuration());
        world.settle();
        Self { setup: ModelState::new(), world, sent: Vec::new(), cards }
    }

    fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Said(said) => self.say(said)?,
            Step::Again(at) => self.again(at)?,
            Step::Introduce(first, who) => {
                self.setup.introduce(agent(first), who);
                self.configure(Change::AddMember(folder(first), person(who)));
            }
            Step::Forget(first, who) => {
                self.setup.forget(agent(first), who);
                self.configure(Change::RemoveMember(folder(first), person(who)));
            }
            Step::Decide(by, yes) => self.decide(by, yes),
            Step::Mute(first, at) => {
                self.setup.mute(agent(first), at);
                self.configure(Change::Mute(folder(first), address(at)));
            }
            Step::Unmute(first, at) => {
                self.setup.unmute(agent(first), at);
                self.configure(Change::Unmute(folder(first), address(at)));
            }
            Step::EndListening(first, at) => {
                self.setup.end_listening(agent(first), at);
                self.configure(Change::EndSticky(folder(first), address(at)));
            }
            Step::Pass(seconds) => self.pass(seconds * 1_000),
            Step::Days(days) => {
                self.end_all();
                self.pass(days * 24 * 3_600_000);
            }
            Step::Work(nth, work) => {
                let busy = talks().into_iter().filter(|talk| self.is_busy(*talk)).collect();
                nth_of(nth, busy).into_iter().for_each(|talk| self.work(talk, work));
            }
            Step::Die(nth) => self.die(nth),
            Step::Restart => {
                self.setup.restart();
                self.world.restart();
            }
        }
        self.world.settle();
        self.compare()
    }

    fn say(&mut self, said: Said) -> Result<(), TestCaseError> {
        let id = self.sent.len().to_string();
        let (who, (chat, thread)) = (PEOPLE[said.who], said.at);
        let sender = if who.is_empty() { String::new() } else { format!("\"senderId\":\"{who}\"") };
        let mention = if said.mention { "\"isMention\":true" } else { "" };
        let json = event_in(("net", CHATS[chat].name, THREADS[thread]), (&id, TEXTS[said.text], &sender), mention);
        let json = with_threads(Some(CHATS[chat].threads), &json);
        let report = self.world.inject(&json);
        self.sent.push(json);
        let (words, refused) = self.setup.say(said);
        prop_assert_eq!(heard(&report), words, "{:?}", report);
        prop_assert_eq!(report.reason.map(|reason| reason.as_str()), refused);
        Ok(())
    }

    fn again(&mut self, at: usize) -> Result<(), TestCaseError> {
        let at = at % self.sent.len().max(1);
        if let Some(json) = self.sent.get(at) {
            prop_assert_eq!(self.world.inject(&json.clone()).outcome, Outcome::Duplicate);
            self.setup.again(at);
        }
        Ok(())
    }

    fn configure(&mut self, change: Change) {
        // Setting what is already set, or removing what is not there, changes nothing.
        drop(self.world.configure(vec![change]));
    }

    fn decide(&mut self, by: Option<usize>, yes: bool) {
        let Some((chat, who)) = self.setup.oldest_asked() else { return };
        let open: Vec<(ApprovalId, Approval)> = self.world.read(|db, txn| db.approvals.iter(txn)?.collect());
        let is = |approval: &Approval| {
            let about = matches!(&approval.about, ApprovalSubject::Sender { sender, .. } if *sender == person(who));
            approval.state.is_open() && about
        };
        let (id, _) = open.into_iter().find(|(_, approval)| is(approval)).expect("somebody is asked");
        let matter = PromptSubject::Approval(id);
        self.world.put(match by {
            None => Input::Decide(matter, if yes { "approve" } else { "reject" }.to_owned()),
            Some(who) => {
                let (at, card) = self.cards.borrow()[&matter].clone();
                Input::Pressed(Press { by: person(who), at, button: card.button(u32::from(!yes)) })
            }
        });
        self.setup.decide((chat, who), by, yes);
    }

    fn pass(&mut self, ms: u64) {
        self.world.pass(Millis::new(ms));
        self.world.sweep();
        self.setup.pass(ms);
        // Stopped runs are gone now, and their output is collected.
        self.world.settle();
        self.world.sweep();
    }

    fn is_busy(&self, talk: Talk) -> bool {
        self.setup.claimed(talk).is_some() || !self.setup.offered(talk).is_empty()
    }

    fn end_all(&mut self) {
        for talk in talks() {
            while self.is_busy(talk) {
                self.work(talk, Work::Ends);
                self.world.settle();
            }
        }
    }

    fn place(&self, at: usize) -> (SessionId, u64) {
        let message = &self.setup.messages[at];
        let id = self.ids()[&(message.talk.0, message.event)];
        let row = self.world.message(id);
        (row.session, row.seq)
    }

    fn work(&mut self, talk: Talk, work: Work) {
        let begun = self.setup.claimed(talk);
        let Some(at) = begun.or(self.setup.offered(talk).first().copied()) else { return };
        let (session, seq) = self.place(at);
        let number = self.world.outside.running[&session];
        let found = match begun {
            None => {
                self.setup.claim(at);
                claim(seq, number)
            }
            Some(at) => self.go_on(at, (session, seq, number), work),
        };
        let input = self.world.outside.write(session, vec![found]);
        self.world.put(input);
    }

    fn go_on(&mut self, at: usize, (session, seq, number): (SessionId, u64, u32), work: Work) -> CollectedRecord {
        let beside = if matches!(work, Work::EndsAll | Work::LaterAll) { self.setup.beside(at) } else { vec![] };
        let also: Vec<u64> = beside.iter().map(|at| self.place(*at).1).collect();
        let those = [vec![at], beside].concat();
        match work {
            Work::Ends | Work::EndsAll => {
                self.setup.end(&those, true);
                let mut found = end(seq, number, vec![]);
                if let Record::End { also: others, .. } = &mut found.record {
                    *others = also;
                }
                found
            }
            Work::Fails => {
                self.setup.end(&those, false);
                failed(seq, number, "no luck")
            }
            Work::Later | Work::LaterAll => {
                self.setup.give_back(&those);
                try_again(seq, also, number, RetryHint::Later)
            }
            Work::Says => {
                self.setup.get_on(at);
                let words = self.world.session(session).next_agent_number();
                mid_turn(said(words, number, Some(seq), Recipient::Reply))
            }
        }
    }

    /// An agent dies while it works on something.
    fn die(&mut self, nth: usize) {
        let Some(at) = nth_of(nth, talks().into_iter().filter_map(|talk| self.setup.claimed(talk)).collect()) else {
            return;
        };
        let (session, _) = self.place(at);
        let number = self.world.outside.running[&session];
        self.setup.give_back(&[at]);
        let gone = self.world.outside.end(session, number, Exit::Signal(9));
        self.world.put(gone);
    }

    /// Ids of messages, by agent and event.
    fn ids(&self) -> BTreeMap<(&'static str, usize), MessageId> {
        self.world.read(|db, txn| {
            let mut ids = BTreeMap::new();
            for row in db.messages.iter(txn)? {
                let (id, message) = row?;
                let body = db.bodies.require(txn, &message.body)?;
                let Some(event) = body.platform_message else { continue };
                ids.insert((name(message.agent), event.as_str().parse().unwrap()), id);
            }
            Ok(ids)
        })
    }

    /// Every message is in the expected state and conversation, agents have the expected messages, the expected number
    /// waits for a decision, and all refusals are recorded.
    fn compare(&self) -> Result<(), TestCaseError> {
        let ids = self.ids();
        prop_assert_eq!(ids.len(), self.setup.messages.len());
        let mut sessions: BTreeMap<Talk, SessionId> = BTreeMap::new();
        for message in &self.setup.messages {
            let row = self.world.message(ids[&(message.talk.0, message.event)]);
            let state = match (&row.state, row.trigger) {
                (MessageState::Pending(_), true) => "waits",
                (MessageState::Pending(_), false) => "context",
                (MessageState::Claimed { .. }, _) => "claimed",
                (MessageState::Completed { how: Completion::ContextCapped, .. }, _) => "capped",
                (MessageState::Completed { .. }, _) => "done",
                (MessageState::Failed { .. }, _) => "failed",
                (MessageState::Dropped { .. }, _) => "dropped",
            };
            let expected = match message.state {
                State::Waits(_) => "waits",
                State::Claimed { .. } => "claimed",
                State::Done => "done",
                State::Failed => "failed",
                State::Context => "context",
                State::Capped => "capped",
            };
            prop_assert_eq!((state, row.tries), (expected, message.tries), "{:?} is {:?}", message, row);
            prop_assert_eq!(*sessions.entry(message.talk).or_insert(row.session), row.session, "{:?}", message);
        }
        let mut different: Vec<_> = sessions.values().collect();
        different.sort_unstable();
        different.dedup();
        prop_assert_eq!(different.len(), sessions.len(), "conversations are apart");
        for talk in talks() {
            self.compare_offers(talk)?;
        }
        let (asked, held) = self.world.read(|db, txn| Ok((db.approvals_due.len(txn)?, db.held_messages.len(txn)?)));
        prop_assert_eq!((asked, held), (self.setup.asked() as u64, self.setup.held() as u64));
        prop_assert_eq!(self.refusals(), self.setup.refusals.clone());
        self.world.assert_sound();
        Ok(())
    }

    fn refusals(&self) -> BTreeMap<Refusal, usize> {
        let rows: Vec<_> = self.world.read(|db, txn| db.dropped_events.iter(txn)?.collect());
        let mut found = BTreeMap::new();
        for (_, row) in rows {
            *found.entry((row.agent.map(name), row.reason.as_str())).or_default() += 1;
        }
        found
    }

    /// An agent with work runs, and has exactly that work in its mailbox.
    fn compare_offers(&self, talk: Talk) -> Result<(), TestCaseError> {
        let mut due = self.setup.offered(talk);
        due.extend(self.setup.claimed(talk));
        let Some(first) = due.first() else { return Ok(()) };
        let (session, _) = self.place(*first);
        prop_assert!(self.world.outside.running.contains_key(&session), "{talk:?} has {due:?} to do and sleeps");
        let inbox = self.world.outside.inbox[&session].values().filter(|message| message.trigger);
        let mut expected: Vec<u64> = due.into_iter().map(|at| self.place(at).1).collect();
        expected.sort_unstable();
        prop_assert_eq!(inbox.map(|message| message.seq).collect::<Vec<_>>(), expected, "{:?}", talk);
        Ok(())
    }
}

fn nth_of<T>(nth: usize, mut all: Vec<T>) -> Option<T> {
    (!all.is_empty()).then(|| all.swap_remove(nth % all.len()))
}

/// Agents are created in this order.
fn name(id: AgentId) -> &'static str {
    agent(id.number() == 1)
}

fn folder(first: bool) -> Folder {
    Folder::new(agent(first)).unwrap()
}

fn person(who: usize) -> UserId {
    UserId::parse(&format!("net:{}", PEOPLE[who])).unwrap()
}

fn address((chat, thread): Place) -> Address {
    Address {
        channel: ChannelName::new("net").unwrap(),
        platform_id: ForeignId::new("chat", CHATS[chat].name).unwrap(),
        thread: THREADS[thread].map(|thread| ForeignId::new("thread", thread).unwrap()),
    }
}

/// A report's outcome for each agent.
fn heard(report: &RouteReport) -> BTreeMap<&'static str, Word> {
    let fate = |decision| match decision {
        Decision::Engaged => Fate::Engaged,
        Decision::Accumulated => Fate::Kept,
        Decision::Ignored => Fate::Ignored,
        Decision::Refused => Fate::Refused,
        // The reference is given no command of Hearth's own.
        Decision::Filtered | Decision::Done => Fate::Filtered,
        Decision::Denied => Fate::Denied,
    };
    let wirings = report.wirings.iter();
    wirings.map(|one| (agent(one.agent.as_str() == "a"), (fate(one.decision), one.why.as_str()))).collect()
}

proptest! {
    #![proptest_config(cases(48))]

    /// The engine does what the reference does.
    #[test]
    fn the_engine_is_its_reference(steps in proptest::collection::vec(a_step(), 1..40)) {
        let mut pair = Pair::new();
        for step in steps {
            pair.step(step)?;
        }
    }
}
