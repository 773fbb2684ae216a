//! The engine's input queue. New work is bounded. Input that ends or administers work has its own unbounded queue.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::engine::commit::Submission;
use crate::model::input::Input;
use crate::model::report::Reply;

/// Maximum number of queued inputs of new work.
const WAITING_MAX: usize = 1_024;
/// Maximum bytes of queued new work.
const WAITING_MAX_BYTES: usize = 64 << 20;

/// Answer to the sender of an input: the reply, or why there is none.
pub(super) type InputReply = Result<Reply, String>;

/// A queued input.
pub(super) struct Item {
    pub(super) submission: Submission,
    /// Receives the answer, if the sender waits.
    pub(super) answer: Option<oneshot::Sender<InputReply>>,
}

/// Why new work is not queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotNow {
    /// The queue is full. The sender has to stop reading for a while.
    #[error("the daemon is overloaded: try again in a moment")]
    Busy,
    /// The daemon is stopping or draining.
    #[error("the daemon is stopping: try again once it runs again")]
    Stopping,
}

#[derive(Default)]
pub(super) struct Inbox {
    queues: Mutex<Queues>,
    changed: Condvar,
}

#[derive(Default)]
struct Queues {
    urgent: VecDeque<Item>,
    waiting: VecDeque<Item>,
    waiting_bytes: usize,
    /// New work is rejected.
    draining: bool,
    closed: bool,
}

impl Item {
    /// An input whose sender does not wait.
    pub(super) fn of(input: Input) -> Self {
        Self { submission: Submission::new(input), answer: None }
    }

    fn bytes(&self) -> usize {
        match &self.submission.input {
            Input::Inbound(event) => event.content.raw.as_str().len() + 1_024,
            _ => 1_024,
        }
    }
}

impl Inbox {
    /// Queues new work if there is room for it.
    pub(super) fn offer(&self, item: Item) -> Result<(), NotNow> {
        let mut queues = self.lock();
        let bytes = item.bytes();
        if queues.closed || queues.draining {
            return Err(NotNow::Stopping);
        }
        if queues.waiting.len() >= WAITING_MAX || queues.waiting_bytes + bytes > WAITING_MAX_BYTES {
            return Err(NotNow::Busy);
        }
        queues.waiting_bytes += bytes;
        queues.waiting.push_back(item);
        self.changed.notify_one();
        Ok(())
    }

    /// Queues an input that must not be rejected. A sweep without a waiting sender is merged into an already queued
    /// sweep, so that each observation is reported once.
    pub(super) fn push(&self, mut item: Item) {
        let mut queues = self.lock();
        if queues.closed {
            return;
        }
        if item.answer.is_none()
            && let Input::Sweep(observed) = &mut item.submission.input
            && let Some(Input::Sweep(earlier)) =
                queues.urgent.iter_mut().map(|item| &mut item.submission.input).find(is_sweep)
        {
            earlier.append(observed);
            return;
        }
        queues.urgent.push_back(item);
        self.changed.notify_one();
    }

    /// Waits for inputs and takes at most `max` of them, urgent ones first. None when the queue is closed and empty.
    pub(super) fn take(&self, max: usize) -> Option<Vec<Item>> {
        let mut queues = self.lock();
        while queues.urgent.is_empty() && queues.waiting.is_empty() {
            if queues.closed {
                return None;
            }
            queues = self.changed.wait(queues).unwrap_or_else(PoisonError::into_inner);
        }
        let urgent = queues.urgent.len().min(max);
        let mut taken: Vec<Item> = queues.urgent.drain(..urgent).collect();
        let waiting = queues.waiting.len().min(max - urgent);
        taken.extend(queues.waiting.drain(..waiting));
        queues.waiting_bytes = queues.waiting.iter().map(Item::bytes).sum();
        Some(taken)
    }

    /// Gives queued inputs to `work`, at most `max` at once, until the queue is closed and empty or `work` returns false.
    /// However that ends, also by a panic, senders of inputs that are left hear that there will be no answer.
    pub(super) fn serve(&self, max: usize, mut work: impl FnMut(Vec<Item>) -> bool) {
        let _end = End(self);
        while let Some(items) = self.take(max) {
            if !work(items) {
                return;
            }
        }
    }

    /// Rejects new work from now on. Input that ends or administers work is still accepted.
    pub(super) fn drain(&self) {
        self.lock().draining = true;
    }

    /// Accepts nothing more. Queued inputs can still be taken.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Number of queued inputs.
    pub(super) fn len(&self) -> usize {
        let queues = self.lock();
        queues.urgent.len() + queues.waiting.len()
    }

    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end of a queue that is not served any more.
struct End<'a>(&'a Inbox);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.close();
        // Dropping the items tells their senders.
        while self.0.take(WAITING_MAX).is_some() {}
    }
}

fn is_sweep(input: &&mut Input) -> bool {
    matches!(input, Input::Sweep(_))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::oneshot::error::TryRecvError;

    use super::*;
    use crate::model::address::{Address, ChannelName, ForeignId};
    use crate::model::content::{Content, RawJson};
    use crate::model::id::SessionId;
    use crate::model::input::InboundEvent;
    use crate::model::mailbox::{Beat, Observation};
    use crate::model::message::MessageKind;

    fn event(bytes: usize) -> Item {
        let id = |text: &str| ForeignId::new("id", text).unwrap();
        let raw = RawJson::trusted("x".repeat(bytes));
        Item::of(Input::Inbound(Box::new(InboundEvent {
            source: Address { channel: ChannelName::new("c").unwrap(), platform_id: id("p"), thread: None },
            platform_message: None,
            kind: MessageKind::Chat,
            content: Content { text: String::new(), sender: None, sender_name: None, raw },
            said: None,
            mention: false,
            group: false,
            reply_to: None,
            threads: None,
            cursors: Vec::new(),
            chat_name: None,
            attachments: Vec::new(),
        })))
    }

    #[test]
    fn new_work_is_bounded_by_number_and_bytes_and_the_rest_gets_through() {
        let inbox = Inbox::default();
        for _ in 0..WAITING_MAX {
            assert!(inbox.offer(event(1)).is_ok());
        }
        assert_eq!(inbox.offer(event(1)), Err(NotNow::Busy));
        inbox.push(Item::of(Input::Start));
        let first = inbox.take(1).unwrap();
        assert!(matches!(first[0].submission.input, Input::Start));

        let inbox = Inbox::default();
        assert!(inbox.offer(event(WAITING_MAX_BYTES - 4_096)).is_ok());
        assert_eq!(inbox.offer(event(8_192)), Err(NotNow::Busy));
        drop(inbox.take(9));
        assert!(inbox.offer(event(8_192)).is_ok());
    }

    #[test]
    fn no_sender_waits_for_an_engine_that_has_ended() {
        let asking = |inbox: &Inbox| {
            let (answer, heard) = oneshot::channel();
            inbox.push(Item { answer: Some(answer), ..Item::of(Input::Start) });
            heard
        };
        for panics in [false, true] {
            let inbox = Arc::new(Inbox::default());
            let mut waiting = vec![asking(&inbox), asking(&inbox)];
            let served = Arc::clone(&inbox);
            let work = move |_| if panics { panic!("a test") } else { false };
            let thread = std::thread::spawn(move || served.serve(1, work));
            assert_eq!(thread.join().is_err(), panics);
            waiting.push(asking(&inbox));
            for heard in &mut waiting {
                assert!(matches!(heard.try_recv(), Err(TryRecvError::Closed)), "{panics}");
            }
        }
    }

    #[test]
    fn sweeps_coalesce_and_a_closed_queue_drains() {
        let inbox = Inbox::default();
        let beat = |incarnation| Observation { session: SessionId::new(1), incarnation, beat: Beat::NOW, state: None };
        inbox.push(Item::of(Input::Sweep(vec![beat(1)])));
        inbox.push(Item::of(Input::Sweep(vec![beat(2)])));
        assert_eq!(inbox.len(), 1);
        inbox.drain();
        assert_eq!(inbox.offer(event(1)), Err(NotNow::Stopping));
        inbox.push(Item::of(Input::Sweep(Vec::new())));
        inbox.close();
        assert_eq!(inbox.offer(event(1)), Err(NotNow::Stopping));
        let taken = inbox.take(9).unwrap();
        assert_eq!(taken[0].submission.input, Input::Sweep(vec![beat(1), beat(2)]), "no observation is lost");
        assert_eq!(taken.len(), 1);
        assert!(inbox.take(9).is_none());
    }
}
