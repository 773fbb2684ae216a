//! The way in: passes on what is on disk, one message after the other. What Hearth has already is recognised by its id.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::thread::sleep;
use std::time::Duration;

use hearth_bridge::program::hand::{Ended, Given, Hand};
use hearth_bridge::program::log;
use hearth_bridge::program::put_off::Ticket;
use hearth_bridge::{Action, Cursors, GivenFile};
use serde_json::{Value, json};

use super::api::{Api, Trouble};
use super::aside::Heard;
use super::report::{self, Attached, Written};
use super::text;
use hearth_bridge::program::spool::{Number, Spool};

/// How often a file is tried, and the waits between.
const TRIES: u32 = 3;
const WAIT: Duration = Duration::from_secs(1);
const WAIT_MAX: Duration = Duration::from_secs(5);

pub(super) struct Inbox {
    pub(super) api: Api,
    pub(super) hand: Hand,
    pub(super) number: String,
    /// Where files go.
    pub(super) files: PathBuf,
    pub(super) spool: Spool,
    /// Reports that are on disk.
    pub(super) reports: Receiver<Number>,
    pub(super) waiting: Arc<AtomicUsize>,
    pub(super) heard: Heard,
    /// Reports of which messages were put off.
    pub(super) waits: BTreeMap<Ticket, Number>,
}

impl Inbox {
    /// Passes on until the main loop ends.
    pub(super) fn work(mut self) {
        while self.step().is_ok() {}
    }

    fn step(&mut self) -> Result<(), Ended> {
        for ticket in self.hand.again()? {
            if let Some(number) = self.waits.remove(&ticket) {
                self.finish(number);
            }
        }
        let Some(number) = self.hand.next(&self.reports)? else { return Ok(()) };
        match self.spool.get(number) {
            Ok(Some(body)) => {
                self.pass_on_all(number, &body)?;
                self.finish(number);
                return Ok(());
            }
            Ok(None) => {}
            Err(error) => log(&format!("a message cannot be read from the spool: {error}")),
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }

    /// Removes a report, unless one of its messages waits.
    fn finish(&self, number: Number) {
        if self.waits.values().any(|waits| *waits == number) {
            return;
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        if let Err(error) = self.spool.remove(number) {
            log(&format!("a message that was stored cannot be removed from the spool: {error}"));
        }
    }

    fn pass_on_all(&mut self, number: Number, body: &[u8]) -> Result<(), Ended> {
        // Only what was read before is on disk.
        let whole = serde_json::from_slice::<Value>(body).unwrap_or_default();
        for written in report::read(&whole, &self.number).messages {
            self.heard.add(&written);
            if let Given::Waits(ticket) = self.pass_on(&written)? {
                self.waits.insert(ticket, number);
            }
        }
        Ok(())
    }

    fn pass_on(&mut self, written: &Written) -> Result<Given, Ended> {
        if let Some(button) = &written.button {
            let person = written.person.id().to_owned();
            let action =
                Action { button: button.clone(), user_id: person.clone(), platform_id: person, thread_id: None };
            let told = self.hand.press(action)?;
            self.tell(written, &told);
            return Ok(Given::Over);
        }
        let mut event = written.event();
        if let Some(file) = &written.file {
            let is_wanted = self.hand.is_wanted(&event)?;
            let name = format!("in-{}", self.hand.number());
            let (path, error) = match self.fetched(file, &name, is_wanted) {
                Ok(()) => (Some(name), None),
                Err(why) => (None, Some(why)),
            };
            event.files = vec![GivenFile { name: file.name.clone(), mime: file.mime.clone(), path, error }];
        }
        self.hand.give(event, Cursors::new())
    }

    /// Tells a person what their press did.
    fn tell(&self, written: &Written, told: &str) {
        if told.trim().is_empty() {
            return;
        }
        let mut message = written.person.message();
        message.extend(text(told, false));
        if let Err(trouble) = self.api.send(&json!(message)) {
            log(&format!("the person who pressed a button could not be told: {trouble}"));
        }
    }

    fn fetched(&self, file: &Attached, name: &str, is_wanted: bool) -> Result<(), String> {
        if !is_wanted {
            return Err("it was not fetched".to_owned());
        }
        let id = file.id.as_deref().ok_or("WhatsApp does not name it")?;
        let to = self.files.join(name);
        let mut tried = 1;
        loop {
            let Err(trouble) = self.api.fetch(id, &to) else { return Ok(()) };
            let wait = match &trouble {
                Trouble::Paused(pause) => *pause,
                Trouble::Unreachable(_) | Trouble::Lost(_) => WAIT,
                Trouble::Token(_) | Trouble::Refused(_) | Trouble::Unfit(_) => return Err(trouble.to_string()),
            };
            if tried == TRIES {
                return Err(trouble.to_string());
            }
            tried += 1;
            sleep(wait.min(WAIT_MAX));
        }
    }
}
