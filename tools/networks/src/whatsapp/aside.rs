//! Typing is shown on a thread of its own, so that it delays no message. In WhatsApp it belongs to a person's last message,
//! and marks that one as read.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hearth_bridge::program::now;
use hearth_bridge::program::run::Network;
use hearth_bridge::{Opened, Place};
use serde_json::json;

use super::api::Api;
use super::person::Person;
use super::report::Written;

/// Signs that may wait; more are left out.
pub(super) const WAITING: usize = 64;
/// WhatsApp shows typing for 25 seconds, or until a message comes.
const TYPING: Duration = Duration::from_secs(20);
/// People who are remembered.
const REMEMBERED: usize = 10_000;

/// The last message of each person.
#[derive(Clone, Default)]
pub(super) struct Heard(Arc<Mutex<BTreeMap<Person, String>>>);

impl Heard {
    pub(super) fn add(&self, written: &Written) {
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if heard.len() >= REMEMBERED {
            heard.clear();
        }
        heard.insert(written.person.clone(), written.id.clone());
    }

    fn last(&self, person: &Person) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(person).cloned()
    }
}

/// The way to the thread.
pub(super) struct Aside(pub(super) SyncSender<Person>);

impl Network for Aside {
    fn typing(&mut self, place: Place) {
        if let Some(person) = Person::read(&place.platform_id) {
            drop(self.0.try_send(person));
        }
    }

    /// The chat with a person has their id.
    fn open_direct(&mut self, id: String, seq: u64) -> Option<Opened> {
        let platform_id = Person::read(&id).map(|person| person.id().to_owned());
        let why = platform_id.is_none().then(|| "this is no person of WhatsApp".to_owned());
        Some(Opened { seq, platform_id, why })
    }
}

/// A message under which typing was shown, and when.
struct Typed {
    message: String,
    at: Duration,
}

/// Shows typing until the main loop ends.
pub(super) fn work(api: &Api, heard: &Heard, people: &Receiver<Person>) {
    let mut typed: BTreeMap<Person, Typed> = BTreeMap::new();
    while let Ok(person) = people.recv() {
        let Some(message) = heard.last(&person) else { continue };
        let is_shown = |typed: &Typed| typed.message == message && now().saturating_sub(typed.at) < TYPING;
        if typed.get(&person).is_some_and(is_shown) {
            continue;
        }
        if typed.len() >= REMEMBERED {
            typed.clear();
        }
        let shown = json!({
            "messaging_product": "whatsapp", "status": "read", "message_id": message, "typing_indicator": { "type": "text" },
        });
        typed.insert(person, Typed { message, at: now() });
        // A sign that is not shown is no loss.
        drop(api.send(&shown));
    }
}
