//! Passes a runtime's events to its listener. Events are queued while the runtime's table is locked, so they keep their
//! order, and delivered by a separate thread while it is not.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use super::Events;
use crate::model::input::RuntimeEvent;

enum Note {
    Event(RuntimeEvent),
    Flush(SyncSender<()>),
}

/// Sending end of the event queue.
pub(in crate::runtime) struct EventSender(Sender<Note>);

/// Calls the listener with one event after the other until all senders are gone.
pub(in crate::runtime) struct EventQueue(Receiver<Note>);

impl EventSender {
    pub(in crate::runtime) fn new() -> (Self, EventQueue) {
        let (outbox, mail) = channel();
        (Self(outbox), EventQueue(mail))
    }

    pub(in crate::runtime) fn send(&self, event: RuntimeEvent) {
        self.put(Note::Event(event));
    }

    /// The receiver gets one message once the listener has handled every event queued so far.
    pub(in crate::runtime) fn flush(&self) -> Receiver<()> {
        let (done, told) = sync_channel(1);
        self.put(Note::Flush(done));
        told
    }

    fn put(&self, note: Note) {
        if self.0.send(note).is_err() {
            tracing::error!("events of a runtime have no receiver any more");
        }
    }
}

impl EventQueue {
    pub(in crate::runtime) fn deliver(self, events: &Events) {
        for note in self.0 {
            match note {
                Note::Event(event) => events(event),
                // The waiting thread may have timed out.
                Note::Flush(done) => drop(done.send(())),
            }
        }
    }
}
