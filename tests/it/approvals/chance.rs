//! Strangers, cards and presses by chance, with every effect lost but those of start and sweep.
//!
//! After every step the store is sound, nothing that was decided is decided again, nobody is let in without a press of
//! somebody who may, and every event is somewhere: with an agent, waiting, or among what was dropped. The seed is
//! printed; `HEARTH_SEED` repeats it.

use hearth::state::{HeldKey, MemberKey, Timed};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use hearth::model::approval::ApprovalState;
use hearth::model::card::{Card, PromptSubject};
use hearth::model::channel::ChannelKind;
use hearth::model::configure::{Change, Configure};
use hearth::model::delivery::{Delivery, DeliveryAct, DeliveryResult};
use hearth::model::entity::{Folder, Origin};
use hearth::model::id::ApprovalId;
use hearth::model::input::Press;
use hearth::model::policy::Policy;
use hearth::model::report::Reply;
use hearth::model::{Address, ChannelName, ForeignId, Input, Millis, UserId};

use super::ground::channel;
use crate::world::chance::{Chance, seeds};
use crate::world::{World, configuration, event_in, inbound};

const TOML: &str = r#"
[[agents]]
folder = "main"
[[agents]]
folder = "other"
[[users]]
id = "net:boss"
roles = ["owner"]
[[users]]
id = "web:chief"
roles = ["admin"]
[[users]]
id = "net:others"
roles = ["admin:other"]
[[chats]]
channel = "net"
platform_id = "C"
group = true
[[chats.wirings]]
agent = "main"
engage = "pattern"
pattern = "."
[[chats.wirings]]
agent = "other"
ignored = "accumulate"
"#;

/// Who may decide something, and who may not.
const PRESSERS: [&str; 5] = ["net:boss", "web:chief", "net:others", "net:s1", "net:nobody"];

struct Sim {
    world: World,
    chance: Chance,
    cards: Rc<RefCell<Vec<(Address, Card)>>>,
    events: u64,
    /// Approvals that are over, and how they were when that was first seen.
    over: BTreeMap<ApprovalId, ApprovalState>,
    members: BTreeSet<String>,
}

impl Sim {
    fn new(seed: u64) -> Self {
        let policy = Policy { held_max: 4, approvals_per_chat: 3, cards_per_decider: 3, ..Policy::STANDARD };
        let mut world = World::with(policy, |_| {});
        let net = |name| channel(name, if name == "net" { ChannelKind::Telegram } else { ChannelKind::Webhook });
        world.configure(vec![net("net"), net("web")]).unwrap();
        world.apply(TOML);
        world.lose_effects();
        let cards: Rc<RefCell<Vec<(Address, Card)>>> = Rc::default();
        let ear = Rc::clone(&cards);
        let mut luck = Chance(seed ^ 0xcafe);
        world.outside.channel = Box::new(move |delivery: &Delivery| {
            if let DeliveryAct::Ask(card) = &delivery.act {
                ear.borrow_mut().push((delivery.to.clone(), card.clone()));
            }
            match luck.next(8) {
                0 => None,
                1 => Some(DeliveryResult::Retry("502".into())),
                2 => Some(DeliveryResult::Rejected("blocked".into())),
                3 => Some(DeliveryResult::Absent),
                4 => Some(DeliveryResult::Uncertain("the connection broke".into())),
                _ => Some(DeliveryResult::Delivered { platform_message: ForeignId::new("id", "p").ok() }),
            }
        });
        let mut luck = Chance(seed ^ 0xd1);
        world.outside.direct = Box::new(move |user| match luck.next(3) {
            0 => None,
            1 => Some(Err("503".into())),
            _ => Some(Ok(user.handle().clone())),
        });
        Self { world, chance: Chance(seed), cards, events: 0, over: BTreeMap::new(), members: BTreeSet::new() }
    }

    fn step(&mut self) {
        match self.chance.next(12) {
            0..=3 => self.say(),
            4..=6 => self.press(),
            7 => self.word(),
            8 => self.command(),
            9 if self.chance.one_in(3) => {
                self.world.restart();
                self.world.perform_alone();
            }
            _ => {
                let ms = if self.chance.one_in(12) { 86_400_000 } else { 60_000 };
                let ms = self.chance.next(ms);
                self.world.pass(Millis::new(ms));
                self.world.sweep();
                self.world.perform_alone();
            }
        }
        self.prove();
    }

    fn say(&mut self) {
        if !self.chance.one_in(5) || self.events == 0 {
            self.events += 1;
        }
        let chat =
            if self.events.is_multiple_of(3) { ["U", "V"][usize::from(self.events.is_multiple_of(2))] } else { "C" };
        let who = *self.chance.pick(&["s1", "s2", "s3", "s4", "s5"]);
        let mention = if self.chance.one_in(2) || chat != "C" { "\"isMention\":true,\"isGroup\":true" } else { "" };
        let sender = format!("\"senderId\":\"{who}\"");
        let json = event_in(("net", chat, None), (&self.events.to_string(), "words", &sender), mention);
        self.world.put_alone(inbound(&json));
    }

    /// Somebody presses some button of some card that was ever shown, perhaps twice.
    fn press(&mut self) {
        let cards = self.cards.borrow().clone();
        if cards.is_empty() {
            return;
        }
        let (at, card) = self.chance.pick(&cards).clone();
        let who = *self.chance.pick(&PRESSERS);
        let option = u32::try_from(self.chance.next(4)).unwrap();
        let press = Press { by: UserId::parse(who).unwrap(), at, button: card.button(option) };
        for _ in 0..=self.chance.next(2) {
            let before = (self.world.text(), self.over.len());
            let Reply::Answered { decided, .. } = self.world.put_alone(Input::Pressed(press.clone())) else { panic!() };
            assert!(!decided || !["net:s1", "net:nobody"].contains(&who), "{who} decided {}", card.matter);
            if ["net:s1", "net:nobody"].contains(&who) {
                assert_eq!(self.world.text(), before.0, "{who} changed something");
            }
        }
    }

    /// Somebody says something where a card was shown: a number, a name, or nothing of the kind.
    fn word(&mut self) {
        let cards = self.cards.borrow().clone();
        if cards.is_empty() {
            return;
        }
        let (at, card) = self.chance.pick(&cards).clone();
        let text = match self.chance.next(4) {
            0 => "1".to_owned(),
            1 => format!("{} 2", card.matter),
            2 => format!("Agent {}", self.events),
            _ => "  ".to_owned(),
        };
        let who = *self.chance.pick(&["boss", "s1"]);
        self.events += 1;
        let sender = format!("\"senderId\":\"{who}\"");
        let place = (at.channel.as_str(), at.platform_id.as_str(), None);
        self.world.put_alone(inbound(&event_in(
            place,
            (&self.events.to_string(), &text, &sender),
            "\"isMention\":true",
        )));
    }

    /// The operator does something.
    fn command(&mut self) {
        let configure = |changes| Input::Configure(Configure::new(changes, Origin::Runtime));
        let main = || Folder::new("main").unwrap();
        let net = || ChannelName::new("net").unwrap();
        let chat = |id: &str| ForeignId::new("chat", id).unwrap();
        let stranger = UserId::parse("net:s2").unwrap();
        let input = match self.chance.next(11) {
            0 => configure(vec![Change::AddMember(main(), stranger)]),
            1 => configure(vec![Change::RemoveMember(main(), stranger)]),
            2 => configure(vec![Change::RemoveWiring(net(), chat("C"), main())]),
            3 | 4 => Input::Configure(configuration(TOML)),
            5 => configure(vec![Change::RemoveChat(net(), chat("U"))]),
            6 => configure(vec![Change::DenyChat(net(), chat("V"))]),
            7 => configure(vec![Change::AllowChat(net(), chat("V"))]),
            8 => configure(vec![Change::RemoveUser(UserId::parse("web:chief").unwrap())]),
            9 => configure(vec![Change::RemoveAgent(Folder::new("other").unwrap())]),
            _ => {
                let open = self.world.read(|db, txn| db.approvals_due.first(txn, ..));
                let Some((Timed { id, .. }, ())) = open else { return };
                let value = (*self.chance.pick(&["approve", "reject", "1", "new_agent:Made by command"])).to_owned();
                Input::Decide(PromptSubject::Approval(id), value)
            }
        };
        self.world.put_alone(input);
    }

    fn prove(&mut self) {
        self.world.assert_sound();
        let approvals: Vec<_> = self.world.read(|db, txn| db.approvals.iter(txn)?.collect());
        for (id, approval) in approvals {
            match self.over.get(&id) {
                Some(known) => assert_eq!(*known, approval.state, "{id} was decided twice"),
                None if approval.state.is_open() => {}
                None => drop(self.over.insert(id, approval.state)),
            }
        }
        let members: Vec<_> = self.world.read(|db, txn| db.members.iter(txn)?.collect());
        for (MemberKey { agent, .. }, row) in members {
            let by = row.by.map(|by| by.to_string());
            let may = by.as_deref().is_none_or(|by| ["net:boss", "web:chief", "net:others"].contains(&by));
            assert!(may, "{} was let in by {by:?}", row.user);
            self.members.insert(format!("{agent} {}", row.user));
        }
        self.every_event_is_somewhere();
    }

    /// An event that was taken in became messages, waits, or was dropped: never nothing, and waiting for nobody.
    fn every_event_is_somewhere(&self) {
        let seen: Vec<_> = self.world.read(|db, txn| db.seen_events.iter(txn)?.collect());
        let held: BTreeSet<(ApprovalId, String)> = self.world.read(|db, txn| {
            let mut all = BTreeSet::new();
            for row in db.held_messages.iter(txn)? {
                let (HeldKey { approval: id, body }, _) = row?;
                let message = db.bodies.require(txn, &body)?.platform_message;
                all.extend(message.map(|message| (id, message.to_string())));
            }
            Ok(all)
        });
        for (key, seen) in seen {
            assert!(!seen.messages.is_empty() || seen.refused.is_some(), "{key:?} is nowhere");
            let waits = matches!(
                seen.refused.map(|reason| reason.as_str()),
                Some("unknown_sender_request_approval" | "channel_request_approval")
            );
            let there = seen.held.is_some_and(|id| held.contains(&(id, seen.platform_message.to_string())));
            assert!(!waits || there, "{key:?} waits for nothing");
        }
    }
}

#[expect(clippy::print_stdout, reason = "a test that fails shows its seed")]
fn run(seed: u64) {
    println!("HEARTH_SEED={seed}");
    let mut sim = Sim::new(seed);
    for _ in 0..150 {
        sim.step();
    }
    // Nobody answers any more: everything that waits ends, by sweeps alone.
    for _ in 0..40 {
        sim.world.pass(Millis::minutes(12 * 60));
        sim.world.sweep();
        sim.world.perform_alone();
        sim.prove();
    }
    let (open, held, asked) = sim
        .world
        .read(|db, txn| Ok((db.approvals_due.len(txn)?, db.held_messages.len(txn)?, db.open_prompts.len(txn)?)));
    assert_eq!((open, held, asked), (0, 0, 0));
    let ends: BTreeSet<&str> = sim.over.values().map(ApprovalState::as_str).collect();
    println!(
        "{} approvals: {ends:?}, {} members, {} cards",
        sim.over.len(),
        sim.members.len(),
        sim.cards.borrow().len()
    );
}

#[test]
fn whatever_happens_nothing_is_lost_and_nobody_decides_who_may_not() {
    seeds("1-2").for_each(run);
}
