//! Showing that an agent is at work: said again every few seconds, because nobody can promise to say that it is over.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use super::post::{Receiver, Sent};
use super::wire;
use crate::model::address::Address;

/// Time between two signs.
pub(super) const AGAIN: Duration = Duration::from_secs(4);
/// Time for one of them; a late one is worth nothing.
const PATIENCE: Duration = Duration::from_secs(4);
/// Signs of one piece of work: ten minutes of them.
const SIGNS_MAX: u32 = 150;

/// Where agents are shown to be at work.
#[derive(Default)]
pub(super) struct Typing {
    shown: Mutex<HashMap<Address, AbortHandle>>,
}

impl Typing {
    /// Shows it from now on; where it is shown already, its time begins anew.
    pub(super) fn show(&self, receiver: &Arc<Receiver>, at: &Address, tokio: &Handle) {
        let (receiver, place) = (Arc::clone(receiver), at.clone());
        let task = tokio.spawn(async move {
            for _ in 0..SIGNS_MAX {
                // A receiver that is busy or wants a pause is not bothered with signs.
                if let Some(_turn) = receiver.turn_now() {
                    let sign = receiver.send(wire::about_place("typing", &place));
                    if let Ok(Sent::Unknown(_) | Sent::Refused(_)) = tokio::time::timeout(PATIENCE, sign).await {
                        return;
                    }
                }
                tokio::time::sleep(AGAIN).await;
            }
        });
        let mut shown = self.lock();
        shown.retain(|_, task| !task.is_finished());
        if let Some(earlier) = shown.insert(at.clone(), task.abort_handle()) {
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
