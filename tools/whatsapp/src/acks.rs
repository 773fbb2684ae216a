//! What WhatsApp's server says of messages that it was sent. The library does not wait for that.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The server's answer: it took a message, or a code that says why not.
pub(crate) type Ack = Result<(), String>;

/// Answers that are waited for, by the ids of messages.
#[derive(Debug, Clone, Default)]
pub(crate) struct Acks(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<BTreeMap<String, Option<Ack>>>,
    came: Condvar,
}

/// An answer that is waited for.
#[derive(Debug)]
pub(crate) struct Expected {
    acks: Acks,
    id: String,
}

impl Acks {
    fn waiting(&self) -> MutexGuard<'_, BTreeMap<String, Option<Ack>>> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to wait, before the message is sent.
    pub(crate) fn expect(&self, id: &str) -> Expected {
        self.waiting().insert(id.to_owned(), None);
        Expected { acks: self.clone(), id: id.to_owned() }
    }

    /// An answer came. Those that are not waited for are forgotten.
    pub(crate) fn came(&self, id: &str, ack: Ack) {
        if let Some(place) = self.waiting().get_mut(id) {
            *place = Some(ack);
            self.0.came.notify_all();
        }
    }
}

impl Expected {
    /// Waits for the answer.
    pub(crate) fn wait(self, within: Duration) -> Option<Ack> {
        let is_missing = |waiting: &mut BTreeMap<_, Option<Ack>>| waiting.get(&self.id).is_some_and(Option::is_none);
        let shared = Arc::clone(&self.acks.0);
        let (waiting, _) = shared
            .came
            .wait_timeout_while(self.acks.waiting(), within, is_missing)
            .unwrap_or_else(PoisonError::into_inner);
        waiting.get(&self.id).cloned().flatten()
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.acks.waiting().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_find_their_messages() {
        let acks = Acks::default();
        let (first, second) = (acks.expect("a"), acks.expect("b"));
        acks.came("b", Err("463".to_owned()));
        acks.came("strange", Ok(()));
        assert_eq!(second.wait(Duration::from_secs(9)), Some(Err("463".to_owned())));
        assert_eq!(first.wait(Duration::ZERO), None);
        assert!(acks.waiting().is_empty(), "nothing is kept");
    }
}
