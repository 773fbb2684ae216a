//! Where agents are shown to be at work on a network whose adapter says so again and again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::AbortHandle;

use crate::model::address::Address;

/// Time between two signs: what is shown for five seconds does not go out.
pub(super) const AGAIN: Duration = Duration::from_secs(4);
/// Signs of one piece of work: ten minutes of them.
pub(super) const SIGNS_MAX: u32 = 150;

/// The tasks that give signs.
#[derive(Default)]
pub(super) struct Signs {
    shown: Mutex<HashMap<Address, AbortHandle>>,
}

impl Signs {
    /// A task gives signs at an address from now on, instead of an earlier one.
    pub(super) fn show(&self, at: &Address, task: AbortHandle) {
        let mut shown = self.lock();
        shown.retain(|_, task| !task.is_finished());
        if let Some(earlier) = shown.insert(at.clone(), task) {
            earlier.abort();
        }
    }

    /// It is over there.
    pub(super) fn hide(&self, at: &Address) {
        if let Some(task) = self.lock().remove(at) {
            task.abort();
        }
    }

    /// It is over everywhere.
    pub(super) fn hide_all(&self) {
        self.lock().drain().for_each(|(_, task)| task.abort());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Address, AbortHandle>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
