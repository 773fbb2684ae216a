//! The way in: stores what people wrote in the spool before WhatsApp hears that it arrived, and passes it on from there.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};

use hearth_bridge::Cursors;
use hearth_bridge::program::hand::{Ended, Given, Hand};
use hearth_bridge::program::log;
use hearth_bridge::program::put_off::Ticket;
use hearth_bridge::program::spool::{Number, Spool};
use whatsapp_rust::prelude::InboundMessage;
use whatsapp_rust::{Client, InboundDurabilityHook, Jid, anyhow, async_trait};

use crate::chat::Chat;
use crate::files::{self, To};
use crate::received::{Account, People, named, read};
use crate::session::Session;
use crate::settings::Owner;
use crate::written::Written;

/// People that are remembered.
const PEOPLE: usize = 2_000;

/// Stores messages. The library confirms them to WhatsApp once this is done.
pub(crate) struct Keep {
    pub(crate) account: Arc<Mutex<Account>>,
    pub(crate) spool: Spool,
    pub(crate) news: Sender<Number>,
    pub(crate) people: Mutex<People>,
}

#[async_trait]
impl InboundDurabilityHook for Keep {
    async fn on_messages(&self, client: Arc<Client>, batch: &[InboundMessage]) -> anyhow::Result<()> {
        for InboundMessage { message, info, .. } in batch {
            let source = &info.source;
            for (jid, other) in [(&source.sender, &source.sender_alt), (&source.chat, &source.recipient_alt)] {
                self.learn_number(&client, jid, other.as_ref()).await;
            }
            let written = {
                let account = self.account.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let mut people = self.people.lock().unwrap_or_else(PoisonError::into_inner);
                let written = read(message, info, &account, &people);
                if let Some(written) = &written {
                    learn_name(&mut people, &written.author, &info.push_name);
                }
                written
            };
            let Some(written) = written else { continue };
            let (spool, report) = (self.spool.clone(), serde_json::to_vec(&written)?);
            let number = tokio::task::spawn_blocking(move || spool.add(&report)).await??;
            self.news.send(number)?;
        }
        Ok(())
    }
}

impl Keep {
    /// The number of a person whom a message names by a hidden id.
    async fn learn_number(&self, client: &Client, jid: &Jid, other: Option<&Jid>) {
        let Some(hidden @ Chat::Hidden(_)) = Chat::of(jid) else { return };
        let number = match other.and_then(Chat::of) {
            Some(number @ Chat::Number(_)) => Some(number),
            _ => match client.get_lid_pn_entry(jid).await {
                Ok(Some(entry)) => Chat::read(&entry.phone_number),
                _ => None,
            },
        };
        let Some(number) = number else { return };
        let mut people = self.people.lock().unwrap_or_else(PoisonError::into_inner);
        if people.numbers.len() >= PEOPLE {
            people.numbers.clear();
        }
        people.numbers.insert(hidden, number);
    }
}

fn learn_name(people: &mut People, author: &str, name: &str) {
    let (Some(author), name) = (Chat::read(author), named(name)) else { return };
    if name.is_empty() {
        return;
    }
    if people.names.len() >= PEOPLE {
        people.names.clear();
    }
    people.names.insert(author, name);
}

/// Passes on what is in the spool.
pub(crate) struct Inbox {
    pub(crate) owner: Owner,
    pub(crate) session: Session,
    pub(crate) hand: Hand,
    /// Where files go.
    pub(crate) files: PathBuf,
    /// The daemon's limit for a file, in bytes.
    pub(crate) file_max: u64,
    pub(crate) spool: Spool,
    /// Messages that are in the spool.
    pub(crate) news: Receiver<Number>,
    /// Messages that were put off.
    pub(crate) waits: BTreeMap<Ticket, Number>,
}

impl Inbox {
    /// Passes on until the main loop ends.
    pub(crate) fn work(mut self) {
        while self.step().is_ok() {}
    }

    fn step(&mut self) -> Result<(), Ended> {
        for ticket in self.hand.again()? {
            if let Some(number) = self.waits.remove(&ticket) {
                self.finish(number);
            }
        }
        let Some(number) = self.hand.next(&self.news)? else { return Ok(()) };
        match self.spool.get(number) {
            Ok(Some(report)) => match self.pass_on(&report)? {
                Given::Over => self.finish(number),
                Given::Waits(ticket) => drop(self.waits.insert(ticket, number)),
            },
            Ok(None) => {}
            Err(error) => log(&format!("a message cannot be read from the spool: {error}")),
        }
        Ok(())
    }

    /// Removes a message that is stored.
    fn finish(&self, number: Number) {
        if let Err(error) = self.spool.remove(number) {
            log(&format!("a message that was stored cannot be removed from the spool: {error}"));
        }
    }

    fn pass_on(&mut self, report: &[u8]) -> Result<Given, Ended> {
        // Only what was written by this program is in the spool.
        let Ok(written) = serde_json::from_slice::<Written>(report) else { return Ok(Given::Over) };
        // Of a person's account, only what concerns an agent: the rest is their private mail.
        let is_private = self.owner == Owner::Person && !written.is_note;
        let is_wanted =
            if is_private || !written.files.is_empty() { self.hand.is_wanted(&written.asked())? } else { true };
        if is_private && !is_wanted {
            return Ok(Given::Over);
        }
        let mut event = written.event();
        let to = To { directory: &self.files, max: self.file_max };
        event.files = files::fetch(&self.session, &written, self.hand.number(), is_wanted.then_some(to));
        self.hand.give(event, Cursors::new())
    }
}
