//! Messages that the daemon put off, and later ones of their chats, which wait behind them. Other chats go on meanwhile.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde_json::Value;

use crate::{Cursors, Event};

/// Messages that may wait.
const MESSAGES_MAX: usize = 1_000;
/// Files of them, which fill the directory for files.
const FILES_MAX: usize = 8;

/// Names a message that waits.
pub type Ticket = u64;

/// The messages of a chat that wait.
#[derive(Debug, Default)]
struct Waiting {
    /// When the first one is passed on again.
    due: Duration,
    messages: VecDeque<(Ticket, Event)>,
}

/// Messages that wait, in the order of each chat. A cursor is held back as long as one of them may be before it.
#[derive(Debug, Default)]
pub struct PutOff {
    chats: BTreeMap<String, Waiting>,
    cursors: Cursors,
    last: Ticket,
}

impl PutOff {
    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.chats.is_empty()
    }

    /// Whether no more may wait.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let waiting = || self.chats.values().flat_map(|chat| &chat.messages);
        let files: usize =
            waiting().map(|(_, event)| event.files.iter().filter(|file| file.path.is_some()).count()).sum();
        waiting().count() >= MESSAGES_MAX || files >= FILES_MAX
    }

    /// Whether another message of its chat has to be first.
    #[must_use]
    pub fn is_behind(&self, event: &Event) -> bool {
        self.chats.contains_key(chat(event))
    }

    /// Lets a message wait. One that is not behind another is passed on again at a moment.
    pub fn add(&mut self, event: Event, due: Duration) -> Ticket {
        self.last += 1;
        let waiting = self.chats.entry(chat(&event).to_owned()).or_insert(Waiting { due, ..Waiting::default() });
        waiting.messages.push_back((self.last, event));
        self.last
    }

    /// Holds cursors back.
    pub fn hold(&mut self, cursors: Cursors) {
        self.cursors.extend(cursors);
    }

    /// When the next message is passed on again.
    #[must_use]
    pub fn due(&self) -> Option<Duration> {
        self.chats.values().map(|chat| chat.due).min()
    }

    /// A message that is due. The last one that waits has the cursors.
    #[must_use]
    pub fn next(&self, now: Duration) -> Option<(Ticket, Event, Cursors)> {
        let chat = self.chats.values().find(|chat| chat.due <= now)?;
        let (ticket, event) = chat.messages.front()?;
        let is_last = self.chats.len() == 1 && chat.messages.len() == 1;
        Some((*ticket, event.clone(), if is_last { self.cursors.clone() } else { Cursors::new() }))
    }

    /// A message was put off again.
    pub fn wait(&mut self, ticket: Ticket, due: Duration) {
        if let Some(chat) = self.chats.values_mut().find(|chat| chat.is_first(ticket)) {
            chat.due = due;
        }
    }

    /// A message is over. The next one of its chat is due.
    pub fn done(&mut self, ticket: Ticket) {
        if let Some(chat) = self.chats.values_mut().find(|chat| chat.is_first(ticket)) {
            chat.messages.pop_front();
        }
        self.chats.retain(|_, chat| !chat.messages.is_empty());
        if self.is_empty() {
            self.cursors.clear();
        }
    }
}

impl Waiting {
    fn is_first(&self, ticket: Ticket) -> bool {
        self.messages.front().is_some_and(|(first, _)| *first == ticket)
    }
}

/// The chat of a message.
fn chat(event: &Event) -> &str {
    event.rest.get("platformId").and_then(Value::as_str).unwrap_or_default()
}
