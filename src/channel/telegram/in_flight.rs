//! Updates that are being processed: which are confirmed, and which have to wait for others.
//!
//! A request for updates confirms all before the number it asks for. Telegram answers with all updates from there on,
//! so unfinished ones are part of every answer until they are finished.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::task::{AbortHandle, JoinError, JoinSet};

/// Maximum number of updates in one answer, and of unconfirmed ones: Telegram shows no others while these are pending.
pub(super) const AT_MOST: usize = 100;

/// Updates in progress, in order within each chat. Dropping this cancels them.
#[derive(Default)]
pub(super) struct InFlight {
    /// All unconfirmed updates, by number.
    heard: BTreeMap<i64, AbortHandle>,
    /// Signals the end of the last update of each chat.
    last: BTreeMap<i64, oneshot::Receiver<()>>,
    tasks: JoinSet<()>,
    /// The number after the last update that may be confirmed.
    next: i64,
}

impl InFlight {
    /// The first unfinished update. Requesting updates from this number confirms all before it.
    pub(super) fn offset(&mut self) -> i64 {
        while let Some(first) = self.heard.first_entry().filter(|first| first.get().is_finished()) {
            let (number, _) = first.remove_entry();
            self.next = number.saturating_add(1);
        }
        self.last.retain(|_, ended| ended.try_recv() == Err(TryRecvError::Empty));
        self.heard.first_key_value().map_or(self.next, |(number, _)| *number)
    }

    /// Number of updates that cannot be confirmed yet. They are part of every answer.
    pub(super) fn unconfirmed(&self) -> usize {
        self.heard.len()
    }

    /// Whether an update is new. Confirmed updates need not be remembered: Telegram does not send them again.
    pub(super) fn is_news(&self, number: i64) -> bool {
        !self.heard.contains_key(&number)
    }

    /// Processes an update after the earlier ones of its chat have ended, in whatever way.
    pub(super) fn begin(&mut self, number: i64, chat: i64, work: impl Future<Output = ()> + Send + 'static) {
        let (over, ended) = oneshot::channel();
        let before = self.last.insert(chat, ended);
        let task = self.tasks.spawn(async move {
            if let Some(before) = before {
                // The sender only signals by being dropped.
                drop(before.await);
            }
            work.await;
            drop(over);
        });
        self.heard.insert(number, task);
    }

    /// Waits up to `patience` until all updates are processed, or longer if the next answer could contain nothing new.
    /// Returns the failures.
    pub(super) async fn wait(&mut self, patience: Duration) -> Vec<JoinError> {
        let mut failed = Vec::new();
        let all = async {
            while let Some(ended) = self.tasks.join_next().await {
                failed.extend(ended.err());
            }
        };
        // On a timeout, the tasks continue.
        drop(tokio::time::timeout(patience, all).await);
        self.offset();
        while self.heard.len() >= AT_MOST {
            let Some(ended) = self.tasks.join_next().await else { break };
            failed.extend(ended.err());
            self.offset();
        }
        failed
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    const SOON: Duration = Duration::from_millis(20);

    /// The processed updates, in order, and gates that let updates proceed.
    #[derive(Default)]
    struct Bench {
        in_flight: InFlight,
        taken: Arc<Mutex<Vec<i64>>>,
        gates: BTreeMap<i64, oneshot::Sender<()>>,
    }

    impl Bench {
        /// Begins an update that is processed once its gate is opened.
        fn begin(&mut self, number: i64, chat: i64) {
            let (open, gate) = oneshot::channel();
            self.gates.insert(number, open);
            let taken = Arc::clone(&self.taken);
            self.in_flight.begin(number, chat, async move {
                gate.await.unwrap();
                taken.lock().unwrap().push(number);
            });
        }

        /// Opens gates, and waits a moment.
        async fn open(&mut self, numbers: &[i64]) -> usize {
            for number in numbers {
                self.gates.remove(number).unwrap().send(()).unwrap();
            }
            self.in_flight.wait(SOON).await.len()
        }

        fn taken(&self) -> Vec<i64> {
            self.taken.lock().unwrap().clone()
        }
    }

    #[tokio::test]
    async fn nothing_behind_one_that_is_not_taken_in_is_confirmed() {
        let mut bench = Bench::default();
        assert_eq!(bench.in_flight.offset(), 0);
        for (number, chat) in [(10, 1), (12, 2), (13, 3)] {
            bench.begin(number, chat);
        }
        bench.open(&[12]).await;
        assert_eq!((bench.taken(), bench.in_flight.offset(), bench.in_flight.unconfirmed()), (vec![12], 10, 3));
        assert!(!bench.in_flight.is_news(12), "it comes again as long as it is not confirmed");
        bench.open(&[10]).await;
        assert_eq!((bench.in_flight.offset(), bench.in_flight.unconfirmed()), (13, 1));
        bench.open(&[13]).await;
        assert_eq!((bench.in_flight.offset(), bench.in_flight.unconfirmed()), (14, 0));
        // After a week without updates Telegram begins with any number, which may be a lower one.
        assert!(bench.in_flight.is_news(5));
        bench.begin(5, 1);
        bench.open(&[5]).await;
        assert_eq!((bench.in_flight.offset(), bench.in_flight.last.len()), (6, 0));
    }

    #[tokio::test]
    async fn what_came_later_in_a_chat_waits_also_for_one_that_panics() {
        let mut bench = Bench::default();
        bench.begin(1, 7);
        bench.begin(2, 7);
        bench.in_flight.begin(3, 7, async { panic!("as the test wants") });
        bench.begin(4, 7);
        assert_eq!((bench.open(&[2, 4]).await, bench.taken()), (0, vec![]));
        assert_eq!((bench.open(&[1]).await, bench.taken()), (1, vec![1, 2, 4]));
        assert_eq!(bench.in_flight.offset(), 5);
    }

    #[tokio::test]
    async fn nothing_is_asked_for_while_an_answer_could_have_nothing_new() {
        let mut bench = Bench::default();
        let many = i64::try_from(AT_MOST).unwrap();
        (0..many).for_each(|number| bench.begin(number, number));
        let rest: Vec<i64> = (1..many).collect();
        for number in &rest {
            bench.gates.remove(number).unwrap().send(()).unwrap();
        }
        assert!(
            tokio::time::timeout(SOON * 4, bench.in_flight.wait(SOON)).await.is_err(),
            "the first one holds them all"
        );
        assert_eq!((bench.taken().len(), bench.in_flight.offset()), (rest.len(), 0));
        bench.open(&[0]).await;
        assert_eq!(bench.in_flight.offset(), many);
    }
}
