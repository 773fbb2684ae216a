//! Typing is shown on a thread of its own, so that it delays no message.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::Duration;

use hearth_bridge::program::now;
use hearth_bridge::program::run::Network;
use hearth_bridge::{Opened, Place};

use crate::chat::Chat;
use crate::session::Session;

/// Signs that may wait; more are left out.
pub(crate) const WAITING: usize = 64;
/// WhatsApp shows typing for 25 seconds.
const TYPING: Duration = Duration::from_secs(15);
/// Chats whose typing is remembered.
const REMEMBERED: usize = 1_000;
/// Time for a sign.
const WITHIN: Duration = Duration::from_secs(5);

/// The way to the thread.
pub(crate) struct Aside(pub(crate) SyncSender<Chat>);

impl Network for Aside {
    fn typing(&mut self, place: Place) {
        if let Some(chat) = Chat::read(&place.platform_id) {
            drop(self.0.try_send(chat));
        }
    }

    /// The direct chat with a person has their id.
    fn open_direct(&mut self, id: String, seq: u64) -> Option<Opened> {
        let platform_id = Chat::read(&id).filter(|chat| !chat.is_group()).map(|chat| chat.to_string());
        let why = platform_id.is_none().then(|| "this is no person of WhatsApp".to_owned());
        Some(Opened { seq, platform_id, why })
    }
}

/// Shows typing until the main loop ends.
pub(crate) fn work(session: &Session, chats: &Receiver<Chat>) {
    let mut typed: BTreeMap<Chat, Duration> = BTreeMap::new();
    while let Ok(chat) = chats.recv() {
        if typed.get(&chat).is_some_and(|last| now().saturating_sub(*last) < TYPING) {
            continue;
        }
        if typed.len() >= REMEMBERED {
            typed.clear();
        }
        // A sign that is not shown is no loss.
        drop(session.wait(WITHIN, session.client.chatstate().send_composing(&chat.jid())));
        typed.insert(chat, now());
    }
}
