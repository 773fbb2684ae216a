//! What a runtime has to do with and what it has told of that, under one lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::mail::Mail;
use super::told::Told;

/// What is there, by what it is called.
pub(in crate::runtime) struct Entries<K, V> {
    pub(in crate::runtime) here: BTreeMap<K, V>,
    pub(in crate::runtime) told: Told,
}

/// The entries of a runtime; whoever changes what others wait for says so.
pub(in crate::runtime) struct Register<K, V> {
    entries: Mutex<Entries<K, V>>,
    changed: Condvar,
}

impl<K: Ord + Copy, V> Register<K, V> {
    pub(in crate::runtime) fn new() -> (Self, Mail) {
        let (told, mail) = Told::new();
        let entries = Entries { here: BTreeMap::new(), told };
        (Self { entries: Mutex::new(entries), changed: Condvar::new() }, mail)
    }

    pub(in crate::runtime) fn lock(&self) -> MutexGuard<'_, Entries<K, V>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes those who wait for a change.
    pub(in crate::runtime) fn changed(&self) {
        self.changed.notify_all();
    }

    /// Waits as long as something holds. The entries then, and whether it took too long.
    pub(in crate::runtime) fn wait_while(
        &self,
        patience: Duration,
        holds: impl Fn(&Entries<K, V>) -> bool,
    ) -> (MutexGuard<'_, Entries<K, V>>, bool) {
        let waited = self.changed.wait_timeout_while(self.lock(), patience, |entries| holds(entries));
        let (entries, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        (entries, timeout.timed_out())
    }

    /// Starts nothing any more; everything that is there.
    pub(in crate::runtime) fn close(&self) -> BTreeSet<K> {
        let mut entries = self.lock();
        entries.told.close();
        entries.here.keys().copied().collect()
    }

    /// Waits until nothing is there and the listener knows. False when it took too long.
    pub(in crate::runtime) fn wait_empty(&self, patience: Duration) -> bool {
        let (entries, timed_out) = self.wait_while(patience, |entries| !entries.here.is_empty());
        let last = entries.told.last_word();
        drop(entries);
        last.heard(timed_out)
    }
}
