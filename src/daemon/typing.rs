//! Showing people that agents are at work: for every channel in one place, by one thread that sleeps while nobody is shown.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::Error;
use super::switchboard::Switchboard;
use crate::clock::Clock;
use crate::model::address::Address;
use crate::model::delivery::{Delivery, DeliveryAct, DeliveryResult};
use crate::model::id::{MessageId, OutboundId, SessionId};
use crate::model::time::Awake;
use crate::state::{self, Store};
use signs::Signs;

mod signs;

/// Who is shown.
pub(super) struct Typing {
    clock: Clock,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    signs: Signs,
    /// What the thread has to show at once.
    now: Vec<(SessionId, Address)>,
    over: bool,
}

impl Typing {
    /// Nobody is shown.
    pub(super) fn new(clock: &Clock) -> Arc<Self> {
        Arc::new(Self { clock: clock.clone(), state: Mutex::default(), changed: Condvar::new() })
    }

    /// Starts the thread.
    pub(super) fn run(self: &Arc<Self>, switchboard: &Arc<Switchboard>) -> Result<(), Error> {
        let (typing, switchboard) = (Arc::clone(self), Arc::clone(switchboard));
        let work = move || {
            while let Some(due) = typing.next() {
                for (session, at) in due {
                    if let Some(channel) = switchboard.channel(&at.channel) {
                        channel.typing(session, &at);
                    }
                }
            }
        };
        std::thread::Builder::new().name("typing".to_owned()).spawn(work).map(drop).map_err(Error::Thread)
    }

    /// Shows a session's agent at a place from now on.
    pub(super) fn start(&self, session: SessionId, at: Address) {
        let mut state = self.lock();
        state.signs.start(self.now(), session, at.clone());
        state.now.push((session, at));
        self.changed.notify_one();
    }

    /// The session's agent did something.
    pub(super) fn progress(&self, session: SessionId) {
        self.lock().signs.progress(self.now(), session);
    }

    /// A message is handed to its channel. Edits and reactions are not seen as news.
    pub(super) fn sending(&self, delivery: &Delivery) {
        if matches!(delivery.act, DeliveryAct::Say | DeliveryAct::Ask(_)) {
            self.lock().signs.sending(self.now(), delivery.id, &delivery.to);
        }
    }

    /// What became of it.
    pub(super) fn sent(&self, id: OutboundId, result: &DeliveryResult) {
        self.lock().signs.sent(self.now(), id, matches!(result, DeliveryResult::Delivered { .. }));
    }

    /// A message ended; with it the sign of its session, unless there is more to do in it.
    pub(super) fn settled(&self, message: MessageId, store: &Store) {
        if self.lock().signs.is_empty() {
            return;
        }
        match store.read(|db, txn| {
            let Some(message) = db.messages.get(txn, &message)? else { return Ok(None) };
            let session = message.session;
            let claimed = db.claims.first_in(txn, &session)?.is_some();
            let busy = claimed || db.ready.first_in(txn, &session)?.is_some();
            Ok::<_, state::Error>((!busy).then_some(session))
        }) {
            Ok(Some(session)) => self.over(session),
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "it is not known whether an agent is still at work"),
        }
    }

    /// Nobody works in a session any more.
    pub(super) fn over(&self, session: SessionId) {
        let mut state = self.lock();
        state.signs.stop(session);
        state.now.retain(|(shown, _)| *shown != session);
    }

    /// Shows nobody any more, for good.
    pub(super) fn shut_down(&self) {
        self.lock().over = true;
        self.changed.notify_one();
    }

    /// Waits for signs that are due. None when it is over.
    fn next(&self) -> Option<Vec<(SessionId, Address)>> {
        let mut state = self.lock();
        loop {
            if state.over {
                return None;
            }
            let now = self.now();
            let mut due = std::mem::take(&mut state.now);
            let (again, next) = state.signs.tick(now);
            due.extend(again);
            if !due.is_empty() {
                return Some(due);
            }
            state = match next {
                Some(next) => {
                    let wait = next.since(now).duration();
                    self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn now(&self) -> Awake {
        self.clock.now().awake
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
