//! A world with channels that remember what they showed, and people who press buttons.

use hearth::state::{HeldKey, MemberKey};
use std::cell::RefCell;
use std::rc::Rc;

use hearth::engine::Applied;
use hearth::model::approval::Approval;
use hearth::model::card::{Button, Card, PromptSubject};
use hearth::model::channel::ChannelKind;
use hearth::model::delivery::{Delivery, DeliveryAct, DeliveryResult};
use hearth::model::id::ApprovalId;
use hearth::model::input::Press;
use hearth::model::message::{Drop, Reason};
use hearth::model::report::{Reply, RouteReport};
use hearth::model::{Address, ChannelName, ForeignId, Input, UserId};

pub(super) use crate::world::channel;
use crate::world::{World, event_in};

/// A group on telegram with one agent, and an owner there.
pub(super) const GROUP: &str = r#"
[[agents]]
folder = "andy"
name = "Andy"
[[users]]
id = "telegram:owner"
roles = ["owner"]
[[chats]]
channel = "telegram"
platform_id = "chat-123"
name = "Group Chat"
group = true
[[chats.wirings]]
agent = "andy"
engage = "pattern"
pattern = "."
"#;

/// One agent and an owner, and no chat.
pub(super) const BARE: &str = r#"
[[agents]]
folder = "andy"
name = "Andy"
[[users]]
id = "telegram:owner"
roles = ["owner"]
"#;

/// The text of the closed card about an unknown sender in [`GROUP`].
pub(super) fn closed(said: &str) -> String {
    let asked = sender_text(r#""telegram:stranger", named “Ann”,"#, "“Andy” (andy)", GROUP_CHAT);
    format!("👤 New sender\n\n{asked}\n\n{said}")
}

/// The chat of [`GROUP`] as a card names it.
pub(super) const GROUP_CHAT: &str = r#"the group "telegram/chat-123", named “Group Chat”"#;

/// The text of a card about an unknown sender.
pub(super) fn sender_text(who: &str, agents: &str, place: &str) -> String {
    format!(
        "{who} asks to talk to {agents} in {place}.\nAllowed, they become a member of each of these agents that you may \
         decide about. What they wrote there and write from now on goes to these agents."
    )
}

/// A world, and what its channels showed.
pub(super) struct Ground {
    pub(super) world: World,
    said: Rc<RefCell<Vec<Delivery>>>,
    events: u32,
}

impl Ground {
    pub(super) fn of(toml: &str) -> Self {
        Self::in_world(World::new(), toml)
    }

    pub(super) fn in_world(mut world: World, toml: &str) -> Self {
        let said: Rc<RefCell<Vec<Delivery>>> = Rc::default();
        let ear = Rc::clone(&said);
        world.outside.channel = Box::new(move |delivery| {
            ear.borrow_mut().push(delivery.clone());
            let platform_message = ForeignId::new("id", format!("p-{}", delivery.id)).ok();
            Some(DeliveryResult::Delivered { platform_message })
        });
        for (name, kind) in [("telegram", ChannelKind::Telegram), ("discord", ChannelKind::Webhook)] {
            world.configure(vec![channel(name, kind)]).unwrap();
        }
        world.apply(toml);
        world.lose_effects();
        Self { world, said, events: 0 }
    }

    /// Sends a message to the group.
    pub(super) fn says(&mut self, who: &str, text: &str) -> RouteReport {
        self.says_in(("telegram", "chat-123", None), (who, text), "")
    }

    /// Sends a message to a chat, and performs everything that follows.
    pub(super) fn says_in(
        &mut self,
        place: (&str, &str, Option<&str>),
        (who, text): (&str, &str),
        more: &str,
    ) -> RouteReport {
        let json = self.event(place, (who, text), more);
        let report = self.world.inject(&json);
        self.world.settle();
        self.world.assert_sound();
        report
    }

    pub(super) fn event(&mut self, place: (&str, &str, Option<&str>), (who, text): (&str, &str), more: &str) -> String {
        self.events += 1;
        let sender = if who.is_empty() { String::new() } else { format!(r#""senderId":"{who}","senderName":"Ann""#) };
        event_in(place, (&format!("m{}", self.events), text, &sender), more)
    }

    /// Presses an option of the newest card.
    pub(super) fn presses(&mut self, who: &str, option: u32) -> (bool, String) {
        let (to, card) = self.last_card();
        self.presses_on(who, (&to, card.button(option)))
    }

    /// The owner presses an option of the newest card about one approval.
    pub(super) fn presses_on_newest_about(&mut self, id: ApprovalId, option: u32) {
        let about = |(_, card): &&(Address, Card)| card.matter == PromptSubject::Approval(id);
        let cards = self.cards();
        let (at, card) = cards.iter().rev().find(about).unwrap();
        assert!(self.presses_on("telegram:owner", (at, card.button(option))).0);
    }

    pub(super) fn presses_on(&mut self, who: &str, (at, button): (&Address, Button)) -> (bool, String) {
        let press = Press { by: UserId::parse(who).unwrap(), at: at.clone(), button };
        let reply = self.world.put(Input::Pressed(press));
        self.world.settle();
        self.world.assert_sound();
        match reply {
            Reply::Answered { decided, text } => (decided, text),
            other => panic!("{other:?}"),
        }
    }

    /// The operator decides.
    pub(super) fn decides(&mut self, id: ApprovalId, value: &str) -> Applied {
        let applied = self.world.try_put(Input::Decide(PromptSubject::Approval(id), value.to_owned())).unwrap();
        self.world.settle();
        self.world.assert_sound();
        applied
    }

    /// Everything that was shown, oldest first: where, and what.
    pub(super) fn shown(&self) -> Vec<(String, DeliveryAct, String)> {
        let place = |to: &Address| format!("{}/{}", to.channel, to.platform_id);
        self.said.borrow().iter().map(|said| (place(&said.to), said.act.clone(), said.text.clone())).collect()
    }

    /// Cards that were shown, oldest first.
    pub(super) fn cards(&self) -> Vec<(Address, Card)> {
        let card = |said: &Delivery| match &said.act {
            DeliveryAct::Ask(card) => Some((said.to.clone(), card.clone())),
            _ => None,
        };
        self.said.borrow().iter().filter_map(card).collect()
    }

    pub(super) fn last_card(&self) -> (Address, Card) {
        self.cards().pop().expect("no card was shown")
    }

    /// Places where cards were shown.
    pub(super) fn card_places(&self) -> Vec<String> {
        self.cards().iter().map(|(to, _)| format!("{}/{}", to.channel, to.platform_id)).collect()
    }

    /// Texts of changed messages.
    pub(super) fn edits(&self) -> Vec<String> {
        let edited = |(_, act, text): (_, DeliveryAct, String)| matches!(act, DeliveryAct::Edit(_)).then_some(text);
        self.shown().into_iter().filter_map(edited).collect()
    }

    pub(super) fn approvals(&self) -> Vec<(ApprovalId, Approval)> {
        self.world.read(|db, txn| db.approvals.iter(txn)?.collect())
    }

    pub(super) fn states(&self) -> Vec<&'static str> {
        self.approvals().iter().map(|(_, approval)| approval.state.as_str()).collect()
    }

    pub(super) fn open(&self) -> usize {
        self.approvals().iter().filter(|(_, approval)| approval.state.is_open()).count()
    }

    pub(super) fn held(&self) -> Vec<HeldKey> {
        self.world.read(|db, txn| db.held_messages.iter(txn)?.map(|row| row.map(|(key, _)| key)).collect())
    }

    pub(super) fn drops(&self) -> Vec<Drop> {
        self.world.read(|db, txn| db.dropped_events.iter(txn)?.map(|row| row.map(|(_, drop)| drop)).collect())
    }

    pub(super) fn reasons(&self) -> Vec<Reason> {
        self.drops().iter().map(|drop| drop.reason).collect()
    }

    /// Members, as `<agent> <user> by <user>`.
    pub(super) fn members(&self) -> Vec<String> {
        let line = |(MemberKey { agent, .. }, row): (MemberKey, hearth::model::entity::Membership)| {
            let by = row.by.map_or_else(|| "nobody".to_owned(), |by| by.to_string());
            format!("{agent} {} by {by}", row.user)
        };
        self.world.read(|db, txn| db.members.iter(txn)?.map(|row| row.map(line)).collect())
    }

    /// Messages that agents have received, in order.
    pub(super) fn heard(&self) -> Vec<String> {
        let messages = self.world.all_messages();
        self.world.read(|db, txn| {
            let text = |(_, message): &(_, hearth::model::message::Message)| {
                Ok(db.bodies.require(txn, &message.body)?.content.text)
            };
            messages.iter().map(text).collect()
        })
    }

    pub(super) fn count(&self, table: &str) -> usize {
        let heading = format!("# {table} ");
        let text = self.world.text();
        let rows = text.split(&heading).nth(1).unwrap_or_default().lines().skip(1);
        rows.take_while(|line| !line.is_empty() && !line.starts_with('#')).count()
    }
}

pub(super) fn address(channel: &str, platform_id: &str) -> Address {
    Address {
        channel: ChannelName::new(channel).unwrap(),
        platform_id: ForeignId::new("chat", platform_id).unwrap(),
        thread: None,
    }
}
