//! The terminal channel: people who are attached to the daemon's socket. One chat per agent, any number of terminals.
//!
//! A message counts as delivered when the first terminal confirms that it showed it. The id of a message is an
//! idempotency key: a terminal shows each once, so an attempt with an unknown outcome can be repeated. A terminal that
//! does not read, or does not show what it was sent, is detached, so that nothing waits for it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc::Sender;

use super::{Channel, Outcomes};
use crate::model::address::{Address, ChannelName, ForeignId};
use crate::model::delivery::{Delivery, DeliveryResult};
use crate::model::effect::Settled;
use crate::model::entity::Folder;
use crate::model::id::OutgoingId;

/// Name of the channel and of its only instance.
pub const NAME: &str = "terminal";

/// Number of unread messages after which a terminal is too slow.
pub const QUEUE: usize = 256;

/// A message to a terminal.
#[derive(Debug, Clone)]
pub enum TerminalEvent {
    /// Show this, and confirm it.
    Message(Box<Delivery>),
    /// A message of this chat is finished.
    Settled(Box<Settled>),
    /// The agent of this chat uses this tool now, or none.
    Tool(Option<String>),
}

/// Handle of an attached terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Attachment(u64);

pub struct Terminals {
    outcomes: Outcomes,
    state: Mutex<State>,
    next: AtomicU64,
}

#[derive(Default)]
struct State {
    attached: HashMap<Attachment, AttachedTerminal>,
    /// Messages that were sent to terminals and that none has shown.
    unconfirmed: BTreeMap<OutgoingId, Delivery>,
}

/// One terminal, which receives the messages of its chat and those addressed to its person.
struct AttachedTerminal {
    chat: ForeignId,
    person: ForeignId,
    to: Sender<TerminalEvent>,
    /// Messages that were sent to it and that it has not confirmed.
    given: HashSet<OutgoingId>,
}

impl AttachedTerminal {
    /// Whether it receives messages of an address.
    fn hears(&self, chat: &ForeignId) -> bool {
        self.chat == *chat || self.person == *chat
    }

    /// Sends a message to the terminal. Returns false if the terminal has to be detached: it does not read, or it was
    /// sent this message before and has not shown it within the time limit of an attempt.
    fn give(&mut self, delivery: &Delivery) -> bool {
        self.given.insert(delivery.key) && self.to.try_send(TerminalEvent::Message(Box::new(delivery.clone()))).is_ok()
    }
}

impl State {
    /// Removes the unconfirmed messages of a chat, if no terminal of it is left.
    fn abandoned(&mut self, chat: &ForeignId) -> Vec<Delivery> {
        if self.attached.values().any(|terminal| terminal.hears(chat)) {
            return Vec::new();
        }
        self.unconfirmed
            .extract_if(.., |_, delivery| delivery.to.platform_id == *chat)
            .map(|(_, delivery)| delivery)
            .collect()
    }
}

/// The address of an agent's chat on the terminal.
///
/// # Errors
/// Never for a folder, whose characters are a subset of those of names; the types do not know that.
pub fn address(folder: &Folder) -> Result<Address, crate::model::address::BadName> {
    Ok(Address {
        channel: ChannelName::new(NAME)?,
        platform_id: ForeignId::new("the chat", folder.as_str())?,
        thread: None,
    })
}

/// The personal address of a user, the same at every terminal. No folder begins with `@`.
///
/// # Errors
/// Never for a number; the types do not know that.
pub fn personal(uid: &str) -> Result<Address, crate::model::address::BadName> {
    Ok(Address {
        channel: ChannelName::new(NAME)?,
        platform_id: ForeignId::new("the chat", format!("@{uid}"))?,
        thread: None,
    })
}

impl Terminals {
    /// Creates the channel without terminals. Outcomes of deliveries go to `outcomes`.
    #[must_use]
    pub fn new(outcomes: Outcomes) -> Self {
        Self { outcomes, state: Mutex::default(), next: AtomicU64::new(1) }
    }

    /// Attaches a person's terminal to a chat and sends it the messages that the chat's other terminals have not shown
    /// yet. Its receiver ends when it is too slow. Tell the engine afterwards that both addresses are reachable.
    pub fn attach(&self, chat: ForeignId, person: ForeignId, to: Sender<TerminalEvent>) -> Attachment {
        let attachment = Attachment(self.next.fetch_add(1, Ordering::Relaxed));
        let mut state = self.lock();
        let mut terminal = AttachedTerminal { chat, person, to, given: HashSet::new() };
        let open = state.unconfirmed.values().filter(|delivery| terminal.hears(&delivery.to.platform_id));
        if open.cloned().collect::<Vec<_>>().iter().all(|delivery| terminal.give(delivery)) {
            state.attached.insert(attachment, terminal);
        }
        attachment
    }

    /// Detaches a terminal. If it was the last one of its chat, unconfirmed messages wait for the next one.
    pub fn detach(&self, attachment: Attachment) {
        let mut state = self.lock();
        let Some(terminal) = state.attached.remove(&attachment) else { return };
        let mut abandoned = state.abandoned(&terminal.chat);
        abandoned.extend(state.abandoned(&terminal.person));
        drop(state);
        self.absent(abandoned);
    }

    /// Confirms that a terminal showed a message. The first confirmation counts.
    pub fn shown(&self, attachment: Attachment, key: OutgoingId) {
        let mut state = self.lock();
        if let Some(terminal) = state.attached.get_mut(&attachment) {
            terminal.given.remove(&key);
        }
        let first = state.unconfirmed.remove(&key);
        drop(state);
        if let Some(delivery) = first {
            (self.outcomes)(delivery.id, delivery.attempt, DeliveryResult::Delivered { platform_message: None });
        }
    }

    /// How many terminals are attached.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lock().attached.len()
    }

    fn absent(&self, deliveries: Vec<Delivery>) {
        for delivery in deliveries {
            (self.outcomes)(delivery.id, delivery.attempt, DeliveryResult::Absent);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Channel for Terminals {
    fn deliver(&self, delivery: Delivery) {
        let chat = delivery.to.platform_id.clone();
        let mut state = self.lock();
        state.attached.retain(|_, terminal| !terminal.hears(&chat) || terminal.give(&delivery));
        state.unconfirmed.insert(delivery.key, delivery);
        let abandoned = state.abandoned(&chat);
        drop(state);
        self.absent(abandoned);
    }

    fn settled(&self, settled: Settled) {
        let chat = settled.source.platform_id.clone();
        let mut state = self.lock();
        let told = TerminalEvent::Settled(Box::new(settled));
        state.attached.retain(|_, terminal| terminal.chat != chat || terminal.to.try_send(told.clone()).is_ok());
        let abandoned = state.abandoned(&chat);
        drop(state);
        self.absent(abandoned);
    }

    fn tool(&self, at: &Address, tool: Option<&str>) {
        for terminal in self.lock().attached.values().filter(|terminal| terminal.chat == at.platform_id) {
            // A terminal that is too slow for its messages does not need tool indicators.
            drop(terminal.to.try_send(TerminalEvent::Tool(tool.map(str::to_owned))));
        }
    }
}

/// The terminals as a [`Channel`].
#[must_use]
pub fn as_channel(terminals: &Arc<Terminals>) -> Arc<dyn Channel> {
    Arc::clone(terminals) as Arc<dyn Channel>
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::content::RawJson;
    use crate::model::delivery::Attempt;
    use crate::model::id::OutboundId;
    use crate::model::time::Awake;
    use tokio::sync::mpsc::{Receiver, channel};

    fn key(id: u64) -> OutgoingId {
        OutgoingId { id: OutboundId::new(id), epoch: Some(7) }
    }

    fn delivery(id: u64) -> Delivery {
        Delivery {
            id: OutboundId::new(id),
            key: key(id),
            attempt: Attempt { number: 1, since: Awake::new(1, 0) },
            to: address(&Folder::new("main").unwrap()).unwrap(),
            act: crate::model::delivery::DeliveryAct::Say,
            repeated: false,
            speaker: None,
            in_reply_to: None,
            text: "hi".into(),
            content: RawJson::trusted("{}".into()),
            files: vec![],
        }
    }

    fn person() -> ForeignId {
        personal("1000").unwrap().platform_id
    }

    const DELIVERED: DeliveryResult = DeliveryResult::Delivered { platform_message: None };

    type Heard = Arc<Mutex<Vec<(u64, DeliveryResult)>>>;

    fn terminals() -> (Terminals, Heard, ForeignId) {
        let heard = Heard::default();
        let record = Arc::clone(&heard);
        let terminals =
            Terminals::new(Arc::new(move |id, _, result| record.lock().unwrap().push((id.number(), result))));
        (terminals, heard, delivery(1).to.platform_id)
    }

    fn ids(receiver: &mut Receiver<TerminalEvent>) -> Vec<u64> {
        let told = std::iter::from_fn(|| receiver.try_recv().ok());
        told.map(|told| if let TerminalEvent::Message(delivery) = told { delivery.id.number() } else { 0 }).collect()
    }

    #[test]
    fn a_message_is_delivered_once_it_was_shown_and_waits_while_nobody_is_there() {
        let (terminals, heard, chat) = terminals();
        terminals.deliver(delivery(1));
        assert_eq!(heard.lock().unwrap().split_off(0), [(1, DeliveryResult::Absent)]);

        let (to_first, mut first) = channel(QUEUE);
        let (to_second, mut second) = channel(QUEUE);
        let first_seat = terminals.attach(chat.clone(), person(), to_first);
        let second_seat = terminals.attach(chat, person(), to_second);
        terminals.deliver(delivery(2));
        assert_eq!((ids(&mut first), ids(&mut second)), (vec![2], vec![2]));
        terminals.shown(first_seat, key(2));
        terminals.shown(second_seat, key(2));
        assert_eq!(heard.lock().unwrap().split_off(0), [(2, DELIVERED)]);

        terminals.deliver(delivery(3));
        terminals.detach(first_seat);
        assert!(heard.lock().unwrap().is_empty());
        terminals.detach(second_seat);
        assert_eq!(heard.lock().unwrap().split_off(0), [(3, DeliveryResult::Absent)]);
    }

    #[test]
    fn a_terminal_that_shows_nothing_is_let_go_and_a_new_one_gets_what_it_held() {
        let (terminals, heard, chat) = terminals();
        let (to_stuck, mut stuck) = channel(QUEUE);
        terminals.attach(chat.clone(), person(), to_stuck);
        terminals.deliver(delivery(1));
        let (to_new, mut new) = channel(QUEUE);
        let new_seat = terminals.attach(chat, person(), to_new);
        assert_eq!(ids(&mut new), [1]);
        terminals.shown(new_seat, key(1));
        assert_eq!(heard.lock().unwrap().split_off(0), [(1, DELIVERED)]);

        terminals.deliver(delivery(2));
        terminals.shown(new_seat, key(2));
        terminals.deliver(delivery(3));
        terminals.detach(new_seat);
        assert_eq!(heard.lock().unwrap().split_off(0), [(2, DELIVERED)], "the other may still show it");
        terminals.deliver(delivery(3));
        assert_eq!(heard.lock().unwrap().split_off(0), [(3, DeliveryResult::Absent)]);
        assert_eq!(terminals.count(), 0);
        assert_eq!(ids(&mut stuck), [1, 2, 3]);
        assert!(stuck.is_closed(), "it is told by the end of its line");
    }

    /// A confirmation answers the newest attempt.
    #[test]
    fn outcomes_are_those_of_the_newest_attempt() {
        let heard: Arc<Mutex<Vec<u32>>> = Arc::default();
        let record = Arc::clone(&heard);
        let terminals =
            Terminals::new(Arc::new(move |_, attempt: Attempt, _| record.lock().unwrap().push(attempt.number)));
        let nth = |number| Delivery { attempt: Attempt { number, ..delivery(1).attempt }, ..delivery(1) };
        let chat = delivery(1).to.platform_id;
        let (to, _shows_nothing) = channel(QUEUE);
        terminals.attach(chat.clone(), person(), to);
        terminals.deliver(nth(1));
        terminals.deliver(nth(2));
        assert_eq!(*heard.lock().unwrap(), [2], "it is let go");
        let (to, _shown) = channel(QUEUE);
        let terminal = terminals.attach(chat, person(), to);
        terminals.deliver(nth(3));
        terminals.shown(terminal, key(1));
        assert_eq!(*heard.lock().unwrap(), [2, 3]);
    }

    #[test]
    fn a_terminal_that_does_not_read_is_let_go() {
        let (terminals, heard, chat) = terminals();
        let (to, mut never_read) = channel(1);
        let terminal = terminals.attach(chat, person(), to);
        terminals.deliver(delivery(1));
        terminals.deliver(delivery(2));
        assert_eq!(heard.lock().unwrap().split_off(0), [(1, DeliveryResult::Absent), (2, DeliveryResult::Absent)]);
        terminals.shown(terminal, key(1));
        assert!(heard.lock().unwrap().is_empty(), "too late");
        assert_eq!(ids(&mut never_read), [1]);
    }

    #[test]
    fn what_is_for_a_person_alone_is_heard_in_every_chat_of_theirs_and_by_nobody_else() {
        let (terminals, heard, chat) = terminals();
        let (to_own, mut own) = channel(QUEUE);
        let (to_other, mut other) = channel(QUEUE);
        let terminal = terminals.attach(chat.clone(), person(), to_own);
        terminals.attach(chat, personal("1001").unwrap().platform_id, to_other);
        terminals.deliver(Delivery { to: personal("1000").unwrap(), ..delivery(1) });
        assert_eq!((ids(&mut own), ids(&mut other)), (vec![1], vec![]));
        terminals.detach(terminal);
        assert_eq!(heard.lock().unwrap().split_off(0), [(1, DeliveryResult::Absent)]);
        terminals.deliver(Delivery { to: personal("1000").unwrap(), ..delivery(1) });
        assert_eq!(heard.lock().unwrap().split_off(0), [(1, DeliveryResult::Absent)]);
    }
}
