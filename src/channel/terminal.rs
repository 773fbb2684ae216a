//! The terminal: people who are attached to the daemon's socket. One chat per agent, any number of terminals.
//!
//! A message is delivered when the first terminal says that it was shown. The id of a message is an idempotency key: a
//! terminal shows each once, so an attempt of unknown outcome can be repeated.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc::UnboundedSender;

use super::{Channel, Outcomes};
use crate::model::address::{Address, ChannelName, ForeignId};
use crate::model::delivery::{Delivery, DeliveryResult};
use crate::model::effect::Settled;
use crate::model::entity::Folder;
use crate::model::id::OutboundId;

/// Name of the channel and of its only instance.
pub const NAME: &str = "terminal";

/// What a terminal is told.
#[derive(Debug, Clone)]
pub enum Told {
    /// Show this, and say so.
    Message(Box<Delivery>),
    /// A message of this chat came to its end.
    Settled(Box<Settled>),
}

/// One attached terminal, as long as it is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Attachment(u64);

/// All terminals.
pub struct Terminals {
    outcomes: Outcomes,
    state: Mutex<State>,
    next: AtomicU64,
}

#[derive(Default)]
struct State {
    attached: HashMap<Attachment, (ForeignId, UnboundedSender<Told>)>,
    unconfirmed: HashMap<OutboundId, ForeignId>,
}

/// The address of an agent's chat on the terminal.
///
/// # Errors
/// Never for a folder, whose form is narrower than that of names; the types do not know.
pub fn address(folder: &Folder) -> Result<Address, crate::model::address::BadName> {
    Ok(Address {
        channel: ChannelName::new(NAME)?,
        platform_id: ForeignId::new("the chat", folder.as_str())?,
        thread: None,
    })
}

impl Terminals {
    /// No terminals yet; outcomes of deliveries go to `outcomes`.
    #[must_use]
    pub fn new(outcomes: Outcomes) -> Self {
        Self { outcomes, state: Mutex::default(), next: AtomicU64::new(1) }
    }

    /// Attaches a terminal to a chat. Tell the engine that the address is reachable afterwards.
    pub fn attach(&self, chat: ForeignId, to: UnboundedSender<Told>) -> Attachment {
        let attachment = Attachment(self.next.fetch_add(1, Ordering::Relaxed));
        self.lock().attached.insert(attachment, (chat, to));
        attachment
    }

    /// Forgets a terminal. What it had not confirmed waits for the next one if it was the last of its chat.
    pub fn detach(&self, attachment: Attachment) {
        let mut state = self.lock();
        let Some((chat, _)) = state.attached.remove(&attachment) else { return };
        if state.attached.values().any(|(other, _)| *other == chat) {
            return;
        }
        let waiting: Vec<OutboundId> =
            state.unconfirmed.iter().filter(|(_, place)| **place == chat).map(|(id, _)| *id).collect();
        state.unconfirmed.retain(|_, place| *place != chat);
        drop(state);
        for id in waiting {
            (self.outcomes)(id, DeliveryResult::Absent);
        }
    }

    /// A terminal showed a message; the first confirmation counts.
    pub fn shown(&self, id: OutboundId) {
        let first = self.lock().unconfirmed.remove(&id).is_some();
        if first {
            (self.outcomes)(id, DeliveryResult::Delivered { platform_message: None });
        }
    }

    /// How many terminals are attached.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lock().attached.len()
    }

    fn tell(&self, chat: &ForeignId, told: &Told) -> bool {
        let state = self.lock();
        let mut heard = false;
        for (_, to) in state.attached.values().filter(|(place, _)| place == chat) {
            heard |= to.send(told.clone()).is_ok();
        }
        heard
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Channel for Terminals {
    fn deliver(&self, delivery: Delivery) {
        let (id, chat) = (delivery.id, delivery.to.platform_id.clone());
        self.lock().unconfirmed.insert(id, chat.clone());
        if !self.tell(&chat, &Told::Message(Box::new(delivery))) && self.lock().unconfirmed.remove(&id).is_some() {
            (self.outcomes)(id, DeliveryResult::Absent);
        }
    }

    fn settled(&self, settled: Settled) {
        let chat = settled.source.platform_id.clone();
        self.tell(&chat, &Told::Settled(Box::new(settled)));
    }
}

/// Terminals as every other channel sees them.
#[must_use]
pub fn as_channel(terminals: &Arc<Terminals>) -> Arc<dyn Channel> {
    Arc::clone(terminals) as Arc<dyn Channel>
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::content::RawJson;
    use tokio::sync::mpsc::unbounded_channel;

    fn delivery(id: u64) -> Delivery {
        Delivery {
            id: OutboundId::new(id),
            to: address(&Folder::new("main").unwrap()).unwrap(),
            speaker: None,
            in_reply_to: None,
            text: "hi".into(),
            content: RawJson::trusted("{}".into()),
            files: vec![],
        }
    }

    #[test]
    fn a_message_is_delivered_once_it_was_shown_and_waits_while_nobody_is_there() {
        let heard: Arc<Mutex<Vec<(u64, DeliveryResult)>>> = Arc::default();
        let record = Arc::clone(&heard);
        let terminals = Terminals::new(Arc::new(move |id, result| record.lock().unwrap().push((id.number(), result))));
        let chat = delivery(1).to.platform_id;
        let delivered = DeliveryResult::Delivered { platform_message: None };

        terminals.deliver(delivery(1));
        assert_eq!(heard.lock().unwrap().split_off(0), [(1, DeliveryResult::Absent)]);

        let (to_first, mut first) = unbounded_channel();
        let (to_second, mut second) = unbounded_channel();
        let first_id = terminals.attach(chat.clone(), to_first);
        let second_id = terminals.attach(chat, to_second);
        terminals.deliver(delivery(2));
        assert!(first.try_recv().is_ok() && second.try_recv().is_ok());
        terminals.shown(OutboundId::new(2));
        terminals.shown(OutboundId::new(2));
        assert_eq!(heard.lock().unwrap().split_off(0), [(2, delivered)]);

        terminals.deliver(delivery(3));
        terminals.detach(first_id);
        assert!(heard.lock().unwrap().is_empty());
        terminals.detach(second_id);
        assert_eq!(heard.lock().unwrap().split_off(0), [(3, DeliveryResult::Absent)]);
    }
}
