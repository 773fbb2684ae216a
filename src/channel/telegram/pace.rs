//! Pauses that the server asked for: while one lasts, nothing is sent where it holds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::model::address::ForeignId;

/// The pauses that last, by chat; none is the one for all chats.
#[derive(Clone, Default)]
pub(super) struct Pace {
    pauses: Arc<Mutex<HashMap<Option<ForeignId>, watch::Receiver<()>>>>,
}

impl Pace {
    /// Begins a pause in a chat. The server does not say whether it means the chat or the bot: when a second chat has to pause
    /// too, all do.
    pub(super) fn pause(&self, chat: &ForeignId, length: Duration) {
        let others = self.lock().keys().any(|held| held.as_ref().is_some_and(|held| held != chat));
        self.hold(Some(chat.clone()), length);
        if others {
            self.hold(None, length);
        }
    }

    /// Waits until nothing holds a chat back.
    pub(super) async fn clear(&self, chat: &ForeignId) {
        while let Some(mut pause) = self.holding(chat) {
            // Nothing is ever sent: the end of the pause is the end of its sender.
            while pause.changed().await.is_ok() {}
        }
    }

    fn holding(&self, chat: &ForeignId) -> Option<watch::Receiver<()>> {
        let pauses = self.lock();
        pauses.get(&None).or_else(|| pauses.get(&Some(chat.clone()))).cloned()
    }

    fn hold(&self, place: Option<ForeignId>, length: Duration) {
        let (end, pause) = watch::channel(());
        self.lock().insert(place.clone(), pause.clone());
        let pace = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(length).await;
            let mut pauses = pace.lock();
            if pauses.get(&place).is_some_and(|held| held.same_channel(&pause)) {
                pauses.remove(&place);
            }
            drop(pauses);
            drop(end);
        });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Option<ForeignId>, watch::Receiver<()>>> {
        self.pauses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
