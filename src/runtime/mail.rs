//! How a runtime tells what became of incarnations: queued while its table is locked, so that the order is that of what
//! happened, and passed on by a thread of its own while nothing is.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use super::Events;
use crate::model::input::RuntimeEvent;

enum Note {
    Event(RuntimeEvent),
    Flush(SyncSender<()>),
}

/// Where events are put.
pub(in crate::runtime) struct Outbox(Sender<Note>);

/// Calls the listener with one event after the other until the runtime and its threads are gone.
pub(in crate::runtime) struct Mail(Receiver<Note>);

impl Outbox {
    pub(in crate::runtime) fn new() -> (Self, Mail) {
        let (outbox, mail) = channel();
        (Self(outbox), Mail(mail))
    }

    pub(in crate::runtime) fn send(&self, event: RuntimeEvent) {
        self.put(Note::Event(event));
    }

    /// Says, once, when the listener knows everything so far.
    pub(in crate::runtime) fn flush(&self) -> Receiver<()> {
        let (done, told) = sync_channel(1);
        self.put(Note::Flush(done));
        told
    }

    fn put(&self, note: Note) {
        if self.0.send(note).is_err() {
            tracing::error!("nobody listens to a runtime any more");
        }
    }
}

impl Mail {
    pub(in crate::runtime) fn deliver(self, events: &Events) {
        for note in self.0 {
            match note {
                Note::Event(event) => events(event),
                // Who waited may have given up.
                Note::Flush(done) => drop(done.send(())),
            }
        }
    }
}
