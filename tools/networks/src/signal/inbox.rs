//! The way in: passes on what is in the spool, one message after the other.

use std::collections::BTreeMap;
use std::sync::mpsc::Receiver;

use hearth_bridge::program::hand::{Ended, Given, Hand};
use hearth_bridge::program::log;
use hearth_bridge::program::put_off::Ticket;
use hearth_bridge::{Cursors, Event, Sender};
use serde_json::Value;

use super::chat::Chat;
use super::envelope::{self, Account, Written};
use super::files::Files;
use hearth_bridge::program::spool::{Number, Spool};

/// Names of people that are remembered, for mentions.
const NAMES: usize = 1_000;

pub(super) struct Inbox {
    pub(super) account: Account,
    pub(super) hand: Hand,
    pub(super) files: Files,
    pub(super) spool: Spool,
    /// Lines that are in the spool.
    pub(super) lines: Receiver<Number>,
    /// Names that people gave themselves, by their ids.
    pub(super) names: BTreeMap<String, String>,
    /// Lines whose messages were put off.
    pub(super) waits: BTreeMap<Ticket, Number>,
}

impl Inbox {
    /// Passes on until the main loop ends.
    pub(super) fn work(mut self) {
        while self.step().is_ok() {}
    }

    fn step(&mut self) -> Result<(), Ended> {
        for ticket in self.hand.again()? {
            if let Some(number) = self.waits.remove(&ticket)
                && let Some(line) = self.line(number)
            {
                self.finish(number, &line);
            }
        }
        let Some(number) = self.hand.next(&self.lines)? else { return Ok(()) };
        let Some(line) = self.line(number) else { return Ok(()) };
        match self.pass_on(&line)? {
            Given::Over => self.finish(number, &line),
            Given::Waits(ticket) => drop(self.waits.insert(ticket, number)),
        }
        Ok(())
    }

    fn line(&self, number: Number) -> Option<Vec<u8>> {
        self.spool.get(number).unwrap_or_else(|error| {
            log(&format!("a message cannot be read from the spool: {error}"));
            None
        })
    }

    /// Removes a message that is stored, and signal-cli's copies of its files.
    fn finish(&self, number: Number, line: &[u8]) {
        let notification = serde_json::from_slice::<Value>(line).unwrap_or_default();
        if let Some(result) = envelope::reported(&notification, &self.account) {
            self.files.forget(result);
        }
        if let Err(error) = self.spool.remove(number) {
            log(&format!("a message that was stored cannot be removed from the spool: {error}"));
        }
    }

    fn pass_on(&mut self, line: &[u8]) -> Result<Given, Ended> {
        // Only what was read before is in the spool.
        let Ok(notification) = serde_json::from_slice::<Value>(line) else { return Ok(Given::Over) };
        let Some(result) = envelope::reported(&notification, &self.account) else { return Ok(Given::Over) };
        if let Some(error) = result.pointer("/exception/message").and_then(Value::as_str) {
            log(&format!("signal-cli could not read a message: {error}"));
        }
        let Some(written) = envelope::read(result, &self.account, &self.names) else { return Ok(Given::Over) };
        if let Some(name) = &written.name {
            self.learn(&written.author, name);
        }
        self.give(written)
    }

    fn give(&mut self, mut written: Written) -> Result<Given, Ended> {
        let mut event = written.event();
        // On a device of a person's account, only what concerns an agent: the rest is their private mail.
        let is_private = self.account.is_linked && !written.is_note;
        let is_wanted = if is_private || !written.files.is_empty() || written.long_text.is_some() {
            self.hand.is_wanted(&asked(&written, &event))?
        } else {
            true
        };
        if is_private && !is_wanted {
            return Ok(Given::Over);
        }
        if let Some(long) = written.long_text.take().filter(|_| is_wanted) {
            match self.files.long_text(&long, &written.chat) {
                // Mentions are counted in the beginning, which stays as it was.
                Ok(text) => written.lengthen(&text),
                Err(why) => written.text.push_str(&format!("\n(the rest of this text is missing: {why})")),
            }
            event = written.event();
        }
        event.files = self.files.fetch(&written, self.hand.number(), is_wanted);
        self.hand.give(event, Cursors::new())
    }

    fn learn(&mut self, person: &str, name: &str) {
        if self.names.len() >= NAMES {
            self.names.clear();
        }
        self.names.insert(person.to_owned(), name.to_owned());
    }
}

/// The message with which is asked whether an agent would get one. What a person writes to another is as if that one had
/// written: otherwise an owner would begin a conversation with an agent in each of their own chats.
fn asked(written: &Written, event: &Event) -> Event {
    match &written.chat {
        Chat::Person(other) if *other != written.author => {
            let sender = Sender { id: other.clone(), name: None, verified: true };
            Event { sender: Some(sender), ..event.clone() }
        }
        Chat::Person(_) | Chat::Group(_) => event.clone(),
    }
}
