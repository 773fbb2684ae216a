//! The table of a runtime: its incarnations or sessions and what was reported about them, under one lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::event_queue::EventQueue;
use super::finished::FinishedSet;

/// The entries, by key.
pub(in crate::runtime) struct Entries<K, V> {
    pub(in crate::runtime) here: BTreeMap<K, V>,
    pub(in crate::runtime) told: FinishedSet,
}

/// A locked table. After a change that waiting threads depend on, call [`Registry::changed`].
pub(in crate::runtime) struct Registry<K, V> {
    entries: Mutex<Entries<K, V>>,
    changed: Condvar,
}

impl<K: Ord + Copy, V> Registry<K, V> {
    pub(in crate::runtime) fn new() -> (Self, EventQueue) {
        let (told, mail) = FinishedSet::new();
        let entries = Entries { here: BTreeMap::new(), told };
        (Self { entries: Mutex::new(entries), changed: Condvar::new() }, mail)
    }

    pub(in crate::runtime) fn lock(&self) -> MutexGuard<'_, Entries<K, V>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes threads that wait for a change.
    pub(in crate::runtime) fn changed(&self) {
        self.changed.notify_all();
    }

    /// Waits while a condition holds. Returns the entries, and whether the wait timed out.
    pub(in crate::runtime) fn wait_while(
        &self,
        patience: Duration,
        holds: impl Fn(&Entries<K, V>) -> bool,
    ) -> (MutexGuard<'_, Entries<K, V>>, bool) {
        let waited = self.changed.wait_timeout_while(self.lock(), patience, |entries| holds(entries));
        let (entries, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        (entries, timeout.timed_out())
    }

    /// Refuses new starts from now on, and returns the keys of all entries.
    pub(in crate::runtime) fn close(&self) -> BTreeSet<K> {
        let mut entries = self.lock();
        entries.told.close();
        entries.here.keys().copied().collect()
    }

    /// Waits until the table is empty and the listener has every event. Returns false on a timeout.
    pub(in crate::runtime) fn wait_empty(&self, patience: Duration) -> bool {
        let (entries, timed_out) = self.wait_while(patience, |entries| !entries.here.is_empty());
        let last = entries.told.flush();
        drop(entries);
        last.heard(timed_out)
    }
}
