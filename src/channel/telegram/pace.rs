//! Pauses that the server asked for. During a pause nothing is sent to the chats it applies to.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::model::address::ForeignId;

/// Current pauses by chat; `None` is the pause of all chats.
#[derive(Clone, Default)]
pub(super) struct Pace {
    pauses: Arc<Mutex<HashMap<Option<ForeignId>, Pause>>>,
}

#[derive(Clone)]
struct Pause {
    length: Duration,
    /// Nothing is ever sent on it. The pause ends when its sender is dropped.
    over: watch::Receiver<()>,
}

impl Pace {
    /// Starts a pause in a chat. The server does not say whether it means the chat or the bot: when a second chat gets
    /// a pause, all chats pause.
    pub(super) fn pause(&self, chat: &ForeignId, length: Duration) {
        let others = self.lock().keys().any(|held| held.as_ref().is_some_and(|held| held != chat));
        self.hold(Some(chat.clone()), length);
        if others {
            self.hold(None, length);
        }
    }

    /// Waits until no pause applies to a chat.
    pub(super) async fn clear(&self, chat: &ForeignId) {
        while let Some(mut pause) = self.holding(chat) {
            while pause.over.changed().await.is_ok() {}
        }
    }

    /// The length of the pause that applies to a chat.
    pub(super) fn length(&self, chat: &ForeignId) -> Duration {
        self.holding(chat).map_or(Duration::ZERO, |pause| pause.length)
    }

    fn holding(&self, chat: &ForeignId) -> Option<Pause> {
        let pauses = self.lock();
        pauses.get(&None).or_else(|| pauses.get(&Some(chat.clone()))).cloned()
    }

    fn hold(&self, place: Option<ForeignId>, length: Duration) {
        let (end, over) = watch::channel(());
        let pause = Pause { length, over };
        self.lock().insert(place.clone(), pause.clone());
        let pace = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(length).await;
            let mut pauses = pace.lock();
            if pauses.get(&place).is_some_and(|held| held.over.same_channel(&pause.over)) {
                pauses.remove(&place);
            }
            drop(pauses);
            drop(end);
        });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Option<ForeignId>, Pause>> {
        self.pauses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    async fn held(pace: &Pace, chat: &str) -> bool {
        let chat = ForeignId::new("a chat", chat).unwrap();
        tokio::time::timeout(Duration::ZERO, pace.clear(&chat)).await.is_err()
    }

    fn run(check: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(check);
    }

    #[test]
    fn when_two_chats_have_to_pause_all_do() {
        run(async {
            let pace = Pace::default();
            let [a, b] = ["8", "9"].map(|chat| ForeignId::new("a chat", chat).unwrap());
            pace.pause(&a, HOUR);
            pace.pause(&a, HOUR);
            assert!(held(&pace, "8").await);
            assert!(!held(&pace, "9").await && !held(&pace, "10").await, "one chat is one chat, however often");
            pace.pause(&b, HOUR);
            assert!(held(&pace, "8").await && held(&pace, "9").await && held(&pace, "10").await);
        });
    }

    #[test]
    fn a_pause_ends_and_a_later_one_is_not_ended_by_the_first() {
        run(async {
            let pace = Pace::default();
            let chat = ForeignId::new("a chat", "8").unwrap();
            pace.pause(&chat, Duration::ZERO);
            pace.clear(&chat).await;
            pace.pause(&chat, Duration::ZERO);
            pace.pause(&chat, HOUR);
            tokio::time::sleep(Duration::from_millis(5)).await;
            assert!(held(&pace, "8").await && pace.length(&chat) == HOUR);
        });
    }
}
