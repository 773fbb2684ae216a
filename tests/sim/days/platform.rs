//! Simulated networks, and what people see there.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use hearth::model::card::Card;
use hearth::model::delivery::{Delivery, DeliveryAct, DeliveryResult};
use hearth::model::id::OutgoingId;
use hearth::model::{Address, ForeignId, UserId};

use super::plan::{Effects, Plan};
use crate::world::chance::Chance;
use crate::world::outside::{Outside, fetched};

/// Cards that people may still see.
const CARDS_MAX: usize = 60;

/// The state of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mood {
    Good,
    Flaky,
    Down,
}

/// A message that was sent.
struct Sent {
    delivery: Delivery,
    /// How often a network accepted it.
    times: u32,
    /// Whether a backup was restored since. The card that it closes may have another fate in the restored history: it was
    /// delivered, and is edited, where a message said the outcome before. People who have that message miss nothing.
    replaced: bool,
}

impl Sent {
    /// Whether a delivery with the same key asks for the same.
    fn is(&self, delivery: &Delivery) -> bool {
        let known = &self.delivery;
        let closes = |act: &DeliveryAct| matches!(act, DeliveryAct::Say | DeliveryAct::Edit(_));
        let (attempt, repeated, act) = (known.attempt, known.repeated, known.act.clone());
        (delivery.act == act || (self.replaced && closes(&act) && closes(&delivery.act)))
            && Delivery { attempt, repeated, act, ..delivery.clone() } == *known
    }
}

/// The networks' state.
pub(super) struct Platform {
    chance: Chance,
    pub(super) mood: Mood,
    /// Cards that were shown, oldest first.
    pub(super) cards: Vec<(Address, Card)>,
    /// Sent messages by id, including those that the installation has forgotten because a backup was restored.
    sent: BTreeMap<OutgoingId, Sent>,
    /// Promises that were broken.
    pub(super) broken: Vec<String>,
}

/// Networks that report the outcomes of deliveries to `outside`.
pub(super) fn connect(outside: &mut Outside, plan: &Plan) -> Rc<RefCell<Platform>> {
    let platform = Platform {
        chance: Chance(plan.seed ^ 0x5eed),
        mood: if plan.flaky || plan.effects == Effects::Dropped { Mood::Flaky } else { Mood::Good },
        cards: Vec::new(),
        sent: BTreeMap::new(),
        broken: Vec::new(),
    };
    let platform = Rc::new(RefCell::new(platform));
    let (say, open) = (Rc::clone(&platform), Rc::clone(&platform));
    outside.channel = Box::new(move |delivery| say.borrow_mut().deliver(delivery));
    let files = Rc::clone(&platform);
    outside.direct = Box::new(move |user| open.borrow_mut().open(user));
    outside.fetch = Box::new(move |fetch| fetched(fetch).filter(|_| files.borrow_mut().has_files()));
    platform
}

impl Platform {
    fn deliver(&mut self, delivery: &Delivery) -> Option<DeliveryResult> {
        let result = self.result(delivery);
        if matches!(result, Some(DeliveryResult::Delivered { .. } | DeliveryResult::Uncertain(_)) | None) {
            self.show(delivery);
        }
        result
    }

    fn result(&mut self, delivery: &Delivery) -> Option<DeliveryResult> {
        let dice = match self.mood {
            Mood::Good => 9,
            Mood::Flaky => self.chance.next(10),
            Mood::Down => self.chance.next(3),
        };
        Some(match dice {
            0 => DeliveryResult::Absent,
            1 => DeliveryResult::NoAdapter,
            2 | 3 => DeliveryResult::Retry("502".into()),
            4 => DeliveryResult::Rejected("blocked".into()),
            5 => DeliveryResult::Uncertain("the connection broke".into()),
            6 => return None,
            _ => {
                let id = ForeignId::new("message", format!("p-{}", delivery.key)).unwrap();
                DeliveryResult::Delivered { platform_message: Some(id) }
            }
        })
    }

    /// People see a message once on a network that honours ids, and otherwise as often as it is sent, with a note. An
    /// id stands for one message, or a network that honours ids would show the wrong one.
    fn show(&mut self, delivery: &Delivery) {
        let new = || Sent { delivery: delivery.clone(), times: 0, replaced: false };
        let sent = self.sent.entry(delivery.key).or_insert_with(new);
        sent.times += 1;
        if sent.times > 1 && !honours(delivery) && !delivery.repeated {
            self.broken.push(format!("{} was shown twice and nobody was told", delivery.key));
        }
        if !sent.is(delivery) {
            self.broken.push(format!("{} is two things: {:?} and {delivery:?}", delivery.key, sent.delivery));
        }
        if let DeliveryAct::Ask(card) = &delivery.act {
            self.cards.push((delivery.to.clone(), card.clone()));
            if self.cards.len() > CARDS_MAX {
                self.cards.remove(0);
            }
        }
    }

    fn open(&mut self, user: &UserId) -> Option<Result<ForeignId, String>> {
        match self.chance.next(if self.mood == Mood::Good { 1 } else { 3 }) {
            0 => Some(Ok(user.handle().clone())),
            1 => Some(Err("503".into())),
            _ => None,
        }
    }

    fn has_files(&mut self) -> bool {
        self.mood == Mood::Good || self.chance.one_in(3)
    }

    pub(super) fn was_shown(&self, id: OutgoingId) -> bool {
        self.sent.contains_key(&id)
    }

    /// The installation no longer knows how often it sent something; the networks know what its ids stand for.
    pub(super) fn goes_on_with_a_restored_house(&mut self) {
        self.sent.values_mut().for_each(|sent| (sent.times, sent.replaced) = (0, true));
    }

    /// How often each message was sent, and whether people still saw it only once.
    pub(super) fn sent(&self) -> impl Iterator<Item = (OutgoingId, u32, bool)> {
        self.sent.iter().map(|(id, sent)| (*id, sent.times, honours(&sent.delivery)))
    }
}

/// Whether the network honours ids, and does not show a repeated one again.
fn honours(delivery: &Delivery) -> bool {
    delivery.to.channel.as_str() != "net"
}
