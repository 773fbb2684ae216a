//! Hears what becomes of the session, and says it in words.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use hearth_bridge::program::run::failed;
use hearth_bridge::program::state::{Side, State};
use hearth_bridge::program::{FrameWriter, log, now};
use whatsapp_rust::prelude::{Event, EventHandler, EventInterest, EventKind};

use crate::acks::Acks;
use crate::device::Directory;
use crate::library_log;
use crate::session::Session;
use crate::settings::Owner;

/// After how many seconds a session is tried again that was replaced, refused as too old, or refused otherwise.
const REPLACED_AGAIN: u64 = 600;
const OUTDATED_AGAIN: u64 = 3_600;
const REFUSED_AGAIN: u64 = 300;
/// And how often is looked whether the device was linked.
pub(crate) const UNLINKED_AGAIN: u64 = 60;
/// How often is looked whether the session is connected.
const LOOK: Duration = Duration::from_secs(5);
/// So long without a connection is reported.
const PATIENCE: Duration = Duration::from_secs(15);

/// Why there is no session, and for how many seconds none is tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) why: String,
    pub(crate) after: u64,
    /// The device has to be linked again.
    pub(crate) is_unlinked: bool,
}

/// What an event ends the session with, if it does.
pub(crate) fn ended(event: &Event) -> Option<Ended> {
    let (why, after, is_unlinked) = match event {
        Event::LoggedOut(gone) => {
            let said = gone.logout_message.as_ref().and(gone.raw.as_ref()).and_then(said);
            (unlinked(gone.reason.code(), said.as_deref()), UNLINKED_AGAIN, true)
        }
        Event::StreamReplaced(_) => {
            let why = "another program uses the keys of this linked device; stop it, or link the device anew";
            (why.to_owned(), REPLACED_AGAIN, false)
        }
        Event::TemporaryBan(ban) => {
            let after = u64::try_from(ban.expire.num_seconds()).unwrap_or(REFUSED_AGAIN).max(REFUSED_AGAIN);
            (format!("WhatsApp banned the account for a while ({}); it is tried again then", ban.code), after, false)
        }
        Event::ClientOutdated(_) => {
            let why = "WhatsApp refuses this version of hearth-whatsapp as too old; build a newer one";
            (why.to_owned(), OUTDATED_AGAIN, false)
        }
        Event::ConnectFailure(failure) if failure.reason.should_reconnect() => return None,
        Event::ConnectFailure(failure) => {
            let said = failure.message.as_deref().map(|text| format!(": {text}")).unwrap_or_default();
            (format!("WhatsApp refuses the session with {}{said}", failure.reason.code()), REFUSED_AGAIN, false)
        }
        _ => return None,
    };
    Some(Ended { why, after, is_unlinked })
}

fn said(raw: &whatsapp_rust::wacore_binary::Node) -> Option<String> {
    Some(raw.attrs().optional_string("logout_message_subtext")?.into_owned())
}

fn unlinked(code: i32, said: Option<&str>) -> String {
    let said = said.map(|text| format!(" ({text})")).unwrap_or_default();
    match code {
        403 => format!("WhatsApp locked or banned the account{said}; the app on the phone says more"),
        _ => format!("the device is not linked any more: it was removed on the phone, or by WhatsApp{said}"),
    }
}

pub(crate) struct Watch {
    pub(crate) state: State,
    pub(crate) writer: FrameWriter,
    pub(crate) acks: Acks,
    pub(crate) directory: Directory,
    /// It was just connected.
    pub(crate) is_new: Arc<AtomicBool>,
}

impl EventHandler for Watch {
    fn handle_event(&self, event: Arc<Event>) {
        if let Some(ended) = ended(&event) {
            return self.end(&ended);
        }
        match &*event {
            Event::Connected(_) => {
                self.is_new.store(true, Ordering::SeqCst);
                self.state.works(Side::Inbox);
            }
            Event::Disconnected(gone) => log(&format!("not connected: {}", gone.reason)),
            Event::ServerAck(ack) if ack.class.as_deref().is_none_or(|class| class == "message") => {
                self.acks.came(&ack.id, ack.error.clone().map_or(Ok(()), Err));
            }
            Event::UndecryptableMessage(_) => {
                log("a message could not be read with the keys that there are; its sender's app is asked for it again");
            }
            _ => {}
        }
    }

    fn interest(&self) -> EventInterest {
        EventInterest::of(&[
            EventKind::Connected,
            EventKind::Disconnected,
            EventKind::LoggedOut,
            EventKind::StreamReplaced,
            EventKind::TemporaryBan,
            EventKind::ClientOutdated,
            EventKind::ConnectFailure,
            EventKind::ServerAck,
            EventKind::UndecryptableMessage,
        ])
    }
}

impl Watch {
    fn end(&self, Ended { why, after, is_unlinked }: &Ended) {
        let mut why = why.clone();
        if *is_unlinked {
            if let Err(error) = self.directory.unlink(&why) {
                log(&format!("that the device is not linked any more cannot be stored: {error}"));
            }
            why = link_again(&why, &self.directory);
        }
        self.state.fails(Side::Inbox, why.clone());
        // If the daemon is gone, the main loop notices.
        drop(self.writer.send(&failed(why, Some(*after))));
    }
}

/// What to do about a device that is not linked.
pub(crate) fn link_again(why: &str, directory: &Directory) -> String {
    let path = directory.path().display();
    format!("{why}; run `hearth-whatsapp link {path}` in a terminal, and scan its code with your phone")
}

/// Looks after the session.
pub(crate) struct Look {
    pub(crate) session: Session,
    pub(crate) state: State,
    pub(crate) owner: Owner,
    pub(crate) is_new: Arc<AtomicBool>,
}

impl Look {
    /// Reports while there is no connection. The library connects again by itself.
    pub(crate) fn work(&self) {
        let mut well = now();
        loop {
            if self.session.client.is_logged_in() {
                well = now();
                self.state.works(Side::Inbox);
                self.go_away();
            } else if now().saturating_sub(well) > PATIENCE {
                let why = library_log::last();
                let why = if why.is_empty() { "it does not answer".to_owned() } else { why };
                self.state.fails(Side::Inbox, format!("WhatsApp cannot be reached: {why}"));
            }
            sleep(LOOK);
        }
    }

    /// The library says that its person is there, and then their phone would show no notices.
    fn go_away(&self) {
        if self.is_new.swap(false, Ordering::SeqCst) && self.owner == Owner::Person {
            let gone = self.session.wait(LOOK, self.session.client.presence().set_unavailable());
            if !matches!(gone, Some(Ok(()))) {
                log("WhatsApp takes the account's person for being there, so that their phone may be silent");
            }
        }
    }
}
