//! The engine against the simplest form of what it does: the same inputs into both, the same results, after every input.
//!
//! `reference` says what routing, membership, decisions, claims and tries mean; `series` what tasks do.

mod reference;
mod series;

use std::collections::BTreeMap;

use hearth::model::card::Matter;
use hearth::model::channel::ChannelKind;
use hearth::model::configure::Change;
use hearth::model::entity::Folder;
use hearth::model::id::{ApprovalId, MessageId, SessionId};
use hearth::model::incarnation::Exit;
use hearth::model::message::{MessageState, Reason};
use hearth::model::report::{Decision, Outcome, RouteReport};
use hearth::model::{Input, Millis, UserId};
use proptest::prelude::*;

use self::reference::{CHATS, Engages, House, LetsIn, PEOPLE, Said, State, TEXTS, Talk, Word};
use crate::world::outside::{claim, end, failed};
use crate::world::{World, channel, event_in};

/// What happens.
#[derive(Debug, Clone, Copy)]
enum Step {
    Said(Said),
    /// An earlier event comes again.
    Again(usize),
    Introduce(bool, usize),
    Forget(bool, usize),
    Decide(bool),
    /// Seconds, then a sweep.
    Pass(u64),
    /// Everybody ends what there is to do, and then days pass.
    Days(u64),
    /// An agent does what comes next: claims, or ends what it claimed.
    Work(Talk, bool),
    Die(Talk),
}

fn a_step() -> impl Strategy<Value = Step> {
    let said = (0..3_usize, 0..5_usize, 0..5_usize, any::<bool>())
        .prop_map(|(chat, who, text, mention)| Step::Said(Said { chat, who, text, mention }));
    let talk = || (any::<bool>(), 0..3_usize).prop_map(|(first, chat)| (if first { "a" } else { "b" }, chat));
    prop_oneof![
        8 => said,
        1 => any::<usize>().prop_map(Step::Again),
        1 => (any::<bool>(), 1..4_usize).prop_map(|(agent, who)| Step::Introduce(agent, who)),
        1 => (any::<bool>(), 1..4_usize).prop_map(|(agent, who)| Step::Forget(agent, who)),
        2 => any::<bool>().prop_map(Step::Decide),
        // No sum of these is exactly a minute.
        4 => prop_oneof![Just(7_u64), Just(41)].prop_map(Step::Pass),
        1 => (1..9_u64).prop_map(Step::Days),
        8 => (talk(), prop::bool::weighted(0.9)).prop_map(|(talk, well)| Step::Work(talk, well)),
        2 => talk().prop_map(Step::Die),
    ]
}

/// The reference's house as a configuration.
fn configuration() -> String {
    let mut toml = "[[agents]]\nfolder = \"a\"\n[[agents]]\nfolder = \"b\"\n".to_owned();
    toml += "[[users]]\nid = \"net:boss\"\nroles = [\"owner\"]\n";
    toml += "[[users]]\nid = \"net:ann\"\nmember_of = [\"a\"]\n[[users]]\nid = \"net:bob\"\nmember_of = [\"b\"]\n";
    for chat in &CHATS {
        let policy = match chat.lets_in {
            LetsIn::Everybody => "public",
            LetsIn::Asked => "request_approval",
            LetsIn::Known => "strict",
        };
        let name = chat.name;
        toml += &format!(
            "[[chats]]\nchannel = \"net\"\nplatform_id = \"{name}\"\ngroup = true\nunknown_senders = \"{policy}\"\n"
        );
        for wiring in &chat.wirings {
            let engages = match wiring.engages {
                Engages::Mentioned => "engage = \"mention\"".to_owned(),
                Engages::Containing("") => "engage = \"pattern\"\npattern = \".\"".to_owned(),
                Engages::Containing(part) => format!("engage = \"pattern\"\npattern = \"{part}\""),
            };
            let senders = if wiring.known_only { "known" } else { "all" };
            let ignored = if wiring.keeps_rest { "accumulate" } else { "drop" };
            toml += &format!(
                "[[chats.wirings]]\nagent = \"{}\"\n{engages}\nsenders = \"{senders}\"\nignored = \"{ignored}\"\n",
                wiring.agent
            );
        }
    }
    toml
}

/// Both, side by side.
struct Pair {
    house: House,
    world: World,
    sent: Vec<String>,
}

impl Pair {
    fn new() -> Self {
        let mut world = World::in_memory();
        world.configure(vec![channel("net", ChannelKind::Telegram)]).unwrap();
        world.apply(&configuration());
        world.settle();
        Self { house: House::new(), world, sent: Vec::new() }
    }

    fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Said(said) => self.say(said)?,
            Step::Again(at) => self.again(at)?,
            Step::Introduce(first, who) => {
                self.house.introduce(agent(first), who);
                self.configure(Change::AddMember(folder(first), person(who)));
            }
            Step::Forget(first, who) => {
                self.house.forget(agent(first), who);
                self.configure(Change::RemoveMember(folder(first), person(who)));
            }
            Step::Decide(yes) => self.decide(yes),
            Step::Pass(seconds) => self.pass(seconds * 1_000),
            Step::Days(days) => {
                self.end_all();
                self.pass(days * 24 * 3_600_000);
            }
            Step::Work(talk, well) => self.work(talk, well),
            Step::Die(talk) => self.die(talk),
        }
        self.world.settle();
        self.compare()
    }

    fn say(&mut self, said: Said) -> Result<(), TestCaseError> {
        let id = self.sent.len().to_string();
        let who = PEOPLE[said.who];
        let sender = if who.is_empty() { String::new() } else { format!("\"senderId\":\"{who}\"") };
        let mention = if said.mention { "\"isMention\":true" } else { "" };
        let json = event_in(("net", CHATS[said.chat].name, None), (&id, TEXTS[said.text], &sender), mention);
        let report = self.world.inject(&json);
        self.sent.push(json);
        prop_assert_eq!(words(&report), self.house.say(said).into_iter().collect(), "{:?}", report);
        Ok(())
    }

    fn again(&mut self, at: usize) -> Result<(), TestCaseError> {
        if let Some(json) = self.sent.get(at % self.sent.len().max(1)) {
            prop_assert_eq!(self.world.inject(&json.clone()).outcome, Outcome::Duplicate);
        }
        Ok(())
    }

    fn configure(&mut self, change: Change) {
        // Somebody who is known already, or not known, is no change.
        drop(self.world.configure(vec![change]));
    }

    fn decide(&mut self, yes: bool) {
        let Some((chat, who)) = self.house.oldest_asked() else { return };
        let about = format!("net:{}", PEOPLE[who]);
        let open: Vec<_> = self.world.read(|db, txn| db.approvals.iter(txn)?.collect());
        let is = |(_, approval): &&(ApprovalId, hearth::model::approval::Approval)| {
            approval.state.is_open()
                && format!("{:?}", approval.about).contains(&format!("{:?}", UserId::parse(&about).unwrap()))
        };
        let (id, _) = open.iter().find(is).expect("somebody is asked");
        let word = if yes { "approve" } else { "reject" };
        self.world.put(Input::Decide(Matter::Approval(*id), word.to_owned()));
        self.house.decide((chat, who), yes);
    }

    fn pass(&mut self, ms: u64) {
        self.world.pass(Millis::new(ms));
        self.world.sweep();
        self.house.pass(ms);
        // Whoever was stopped is gone now, and what it left is looked at.
        self.world.settle();
        self.world.sweep();
    }

    fn talks() -> impl Iterator<Item = Talk> {
        (0..CHATS.len()).flat_map(|chat| [("a", chat), ("b", chat)])
    }

    fn end_all(&mut self) {
        for talk in Self::talks() {
            while self.house.claimed(talk).is_some() || !self.house.offered(talk).is_empty() {
                self.work(talk, true);
                self.world.settle();
            }
        }
    }

    fn place(&self, at: usize) -> (SessionId, u64) {
        let message = &self.house.messages[at];
        let id = self.ids()[&(message.talk.0, message.event)];
        let row = self.world.message(id);
        (row.session, row.seq)
    }

    fn work(&mut self, talk: Talk, well: bool) {
        let (at, begins) = match (self.house.claimed(talk), self.house.offered(talk).first()) {
            (Some(at), _) => (at, false),
            (None, Some(at)) => (*at, true),
            (None, None) => return,
        };
        let (session, seq) = self.place(at);
        let number = self.world.outside.running[&session];
        let found = match (begins, well) {
            (true, _) => claim(seq, number),
            (false, true) => end(seq, number, vec![]),
            (false, false) => failed(seq, number, "no luck"),
        };
        if begins {
            self.house.claim(at)
        } else {
            self.house.end(at, well)
        }
        let input = self.world.outside.write(session, vec![found]);
        self.world.put(input);
    }

    /// An agent dies over what it works on.
    fn die(&mut self, talk: Talk) {
        let Some(at) = self.house.claimed(talk) else { return };
        let (session, _) = self.place(at);
        let number = self.world.outside.running[&session];
        self.house.give_back(at);
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
                ids.insert((agent(message.agent.number() == 1), event.as_str().parse().unwrap()), id);
            }
            Ok(ids)
        })
    }

    /// Every message is where it should be, agents have what they should have, and as many wait for a decision.
    fn compare(&self) -> Result<(), TestCaseError> {
        let ids = self.ids();
        prop_assert_eq!(ids.len(), self.house.messages.len());
        for message in &self.house.messages {
            let row = self.world.message(ids[&(message.talk.0, message.event)]);
            let state = match (&row.state, row.trigger) {
                (MessageState::Pending(_), true) => "waits",
                (MessageState::Claimed { .. }, true) => "claimed",
                (MessageState::Completed { .. }, true) => "done",
                (MessageState::Failed { .. }, true) => "failed",
                (MessageState::Dropped { .. }, _) => "dropped",
                (_, false) => "context",
            };
            let expected = match message.state {
                State::Waits(_) => "waits",
                State::Claimed(_) => "claimed",
                State::Done => "done",
                State::Failed => "failed",
                State::Context => "context",
            };
            prop_assert_eq!((state, row.tries), (expected, message.tries), "{:?} is {:?}", message, row);
        }
        for talk in Self::talks() {
            self.compare_offers(talk)?;
        }
        let (asked, held) = self.world.read(|db, txn| Ok((db.approvals_due.len(txn)?, db.held.len(txn)?)));
        prop_assert_eq!((asked, held), (self.house.asked() as u64, self.house.held() as u64));
        self.world.assert_sound();
        Ok(())
    }

    /// An agent that has something to do runs, and finds exactly that in its mailbox.
    fn compare_offers(&self, talk: Talk) -> Result<(), TestCaseError> {
        let mut due = self.house.offered(talk);
        due.extend(self.house.claimed(talk));
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

fn agent(first: bool) -> &'static str {
    if first { "a" } else { "b" }
}

fn folder(first: bool) -> Folder {
    Folder::new(agent(first)).unwrap()
}

fn person(who: usize) -> UserId {
    UserId::parse(&format!("net:{}", PEOPLE[who])).unwrap()
}

/// What a report says of each agent.
fn words(report: &RouteReport) -> BTreeMap<&'static str, Word> {
    let word = |decision, why| match (decision, why) {
        (_, Reason::SenderHeld) => Word::Held,
        (Decision::Engaged, _) => Word::Engaged,
        (Decision::Accumulated, _) => Word::Kept,
        (Decision::Ignored, _) => Word::Ignored,
        (Decision::Refused, _) => Word::Refused,
        (Decision::Filtered, _) => Word::Filtered,
        (Decision::Denied, _) => Word::Denied,
    };
    report.wirings.iter().map(|one| (agent(one.agent.as_str() == "a"), word(one.decision, one.why))).collect()
}

/// More deaths in a row than chance makes: after its last try a message is given up, in both.
#[test]
fn a_message_over_which_everybody_dies_is_given_up() {
    let mut pair = Pair::new();
    let mut step = |step| pair.step(step).unwrap();
    step(Step::Said(Said { chat: 0, who: 0, text: 0, mention: false }));
    for tries in 0..6 {
        for _ in 0..tries {
            step(Step::Pass(41));
        }
        step(Step::Work(("a", 0), true));
        step(Step::Die(("a", 0)));
    }
    assert_eq!(pair.house.messages[0].state, State::Failed);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happens, the engine does what the reference does.
    #[test]
    fn the_engine_is_its_reference(steps in proptest::collection::vec(a_step(), 1..40)) {
        let mut pair = Pair::new();
        for step in steps {
            pair.step(step)?;
        }
    }
}
