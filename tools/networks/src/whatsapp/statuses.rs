//! What WhatsApp reported of messages of the bot, by the keys that they carry. A report can come before the answer to the
//! request, after it, or instead of it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use hearth_bridge::program::log;

use super::report::Status;

/// Messages that are remembered.
const REMEMBERED: usize = 10_000;
/// After so many messages of which nothing was reported, reports are not waited for until one comes.
const MISSED: u32 = 3;

#[derive(Default)]
struct Known {
    statuses: BTreeMap<String, Status>,
    /// Their keys, oldest first.
    order: VecDeque<String>,
    /// Messages in a row of which nothing was reported in time.
    missed: u32,
}

/// The reports, for all threads.
#[derive(Clone, Default)]
pub(super) struct Statuses(Arc<(Mutex<Known>, Condvar)>);

impl Statuses {
    /// Adds a report. Of a failure that no thread waits for any more, only the log tells.
    pub(super) fn add(&self, status: Status) {
        if let Some(failure) = &status.failure {
            log(&format!("WhatsApp did not deliver {}: {failure}", status.id));
        }
        let Some(key) = status.key.clone() else { return };
        let (known, changed) = &*self.0;
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        known.missed = 0;
        match known.statuses.get(&key) {
            // It is the last word, in whatever order they come.
            Some(before) if before.failure.is_some() => return,
            Some(_) => {}
            None => known.order.push_back(key.clone()),
        }
        known.statuses.insert(key, status);
        if known.order.len() > REMEMBERED
            && let Some(oldest) = known.order.pop_front()
        {
            known.statuses.remove(&oldest);
        }
        changed.notify_all();
    }

    /// The report of a message; none if none comes in time.
    pub(super) fn wait(&self, key: &str, within: Duration) -> Option<Status> {
        let (known, changed) = &*self.0;
        let known = known.lock().unwrap_or_else(PoisonError::into_inner);
        // Without reports, each message would cost this time.
        let within = if known.missed < MISSED { within } else { Duration::ZERO };
        let waited = changed.wait_timeout_while(known, within, |known| !known.statuses.contains_key(key));
        let (mut known, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let found = known.statuses.get(key).cloned();
        if found.is_none() {
            known.missed = known.missed.saturating_add(1);
        }
        found
    }

    /// Forgets what was reported of an earlier attempt.
    pub(super) fn forget(&self, key: &str) {
        let mut known = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.statuses.remove(key).is_some() {
            known.order.retain(|other| other != key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::failure::Failure;
    use super::*;

    fn status(key: &str, failure: Option<i64>) -> Status {
        let failure = failure.map(|code| Failure { code, why: String::new() });
        Status { id: "wamid.A".to_owned(), key: Some(key.to_owned()), failure }
    }

    #[test]
    fn reports_are_found_before_and_after_they_are_asked_for() {
        let statuses = Statuses::default();
        statuses.add(status("early", None));
        assert!(statuses.wait("early", Duration::ZERO).is_some() && statuses.wait("never", Duration::ZERO).is_none());
        let other = statuses.clone();
        let late = std::thread::spawn(move || other.wait("late", Duration::from_secs(60)));
        statuses.add(status("late", None));
        assert!(late.join().unwrap().is_some());
        statuses.forget("late");
        assert!(statuses.wait("late", Duration::ZERO).is_none());
        (0..=REMEMBERED).for_each(|number| statuses.add(status(&number.to_string(), None)));
        assert!(statuses.wait("early", Duration::ZERO).is_none());
    }

    #[test]
    fn a_failure_is_the_last_word() {
        let statuses = Statuses::default();
        statuses.add(status("a", Some(7)));
        statuses.add(status("a", None));
        assert!(statuses.wait("a", Duration::ZERO).unwrap().failure.is_some());
    }

    #[test]
    fn without_reports_nothing_is_waited_for() {
        let statuses = Statuses::default();
        (0..MISSED).for_each(|_| drop(statuses.wait("never", Duration::ZERO)));
        // A test that waited would take an hour.
        assert!(statuses.wait("never", Duration::from_secs(3_600)).is_none());
        statuses.add(status("some", None));
        assert!(statuses.wait("some", Duration::from_secs(3_600)).is_some());
    }
}
