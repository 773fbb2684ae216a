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

/// How a channel is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mood {
    Good,
    Flaky,
    Down,
}

/// Something that went out.
struct Sent {
    delivery: Delivery,
    /// How often a network took it.
    times: u32,
}

/// What the networks know.
pub(super) struct Platform {
    chance: Chance,
    pub(super) mood: Mood,
    /// Cards that were shown, oldest first.
    pub(super) cards: Vec<(Address, Card)>,
    /// What went out, by its id: also what the house has forgotten, because it was restored.
    sent: BTreeMap<OutgoingId, Sent>,
    /// Promises that were broken.
    pub(super) broken: Vec<String>,
}

/// Networks that tell `outside` what becomes of deliveries.
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

    /// People see it: once on a network that honours ids, as often as it is sent on others, and then they are told. An
    /// id stands for one thing, or a network that honours them would show the wrong one.
    fn show(&mut self, delivery: &Delivery) {
        let new = || Sent { delivery: delivery.clone(), times: 0 };
        let sent = self.sent.entry(delivery.key).or_insert_with(new);
        sent.times += 1;
        if sent.times > 1 && !honours(delivery) && !delivery.repeated {
            self.broken.push(format!("{} was shown twice and nobody was told", delivery.key));
        }
        if (Delivery { attempt: sent.delivery.attempt, repeated: sent.delivery.repeated, ..delivery.clone() })
            != sent.delivery
        {
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

    /// The house does not know any more how often it sent something; what its ids stand for, the networks know.
    pub(super) fn goes_on_with_a_restored_house(&mut self) {
        self.sent.values_mut().for_each(|sent| sent.times = 0);
    }

    /// How often each thing went out, and whether people saw it once all the same.
    pub(super) fn sent(&self) -> impl Iterator<Item = (OutgoingId, u32, bool)> {
        self.sent.iter().map(|(id, sent)| (*id, sent.times, honours(&sent.delivery)))
    }
}

/// Whether the network takes our ids and shows what it has already no second time.
fn honours(delivery: &Delivery) -> bool {
    delivery.to.channel.as_str() != "net"
}
