//! Segments of the index for searches, made beside the transactions that write them: sorting and merging the words of many
//! texts needs only to read.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::commit::Engine;
use crate::model::recall::RecallScope;
use crate::state::recall::segments::{Prepared, prepare};

/// Most segments that are due or made at a time. What comes too late for that is noted again with its next texts.
const WAITING_MAX: usize = 64;

/// What passes between the transactions and the thread that makes segments.
#[derive(Debug, Default)]
pub(super) struct Segments {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    due: BTreeSet<RecallScope>,
    made: Vec<Prepared>,
    stopped: bool,
}

impl Segments {
    /// Asks for segments of these scopes.
    pub(super) fn ask(&self, scopes: BTreeSet<RecallScope>) {
        if scopes.is_empty() {
            return;
        }
        let mut queue = self.lock();
        for scope in scopes {
            let is_made = queue.made.iter().any(|made| made.scope == scope);
            if !is_made && queue.due.len().saturating_add(queue.made.len()) < WAITING_MAX {
                queue.due.insert(scope);
            }
        }
        self.changed.notify_one();
    }

    /// Takes the segments that can be written.
    pub(super) fn take(&self) -> Vec<Prepared> {
        std::mem::take(&mut self.lock().made)
    }

    /// Waits for a scope.
    fn next(&self) -> Option<RecallScope> {
        let mut queue = self.lock();
        while !queue.stopped {
            match queue.due.pop_first() {
                Some(scope) => return Some(scope),
                None => queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        }
        None
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Makes segments of the index for searches until [`Self::stop_indexing`], on a thread of its own. Without such a thread,
    /// transactions make them, later and larger.
    pub fn index(&self) {
        while let Some(scope) = self.segments.next() {
            self.make(scope);
        }
    }

    /// Makes the segments that are due now, and does not wait for others. Returns their number.
    pub fn index_due(&self) -> usize {
        let due = std::mem::take(&mut self.segments.lock().due);
        let number = due.len();
        due.into_iter().for_each(|scope| self.make(scope));
        number
    }

    fn make(&self, scope: RecallScope) {
        // If rows are damaged, the transaction that makes the segment instead says so.
        if let Ok(made) = self.store().read(|db, txn| prepare(db, txn, scope)) {
            self.segments.lock().made.extend(made);
        }
    }

    /// Ends [`Self::index`]. Segments that are made but not written are made again after the next start.
    pub fn stop_indexing(&self) {
        self.segments.lock().stopped = true;
        self.segments.changed.notify_all();
    }
}
