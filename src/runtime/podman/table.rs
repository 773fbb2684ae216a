//! Which sessions have something to do, and what is told about them. Each has a task that carries out its orders one after
//! the other; it ends when nothing runs and nothing is asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::model::id::SessionId;
use crate::model::incarnation::Exit;
use crate::runtime::Spec;
use crate::runtime::register::Register;

/// What is asked about one session.
pub(super) enum Order {
    Ensure(Box<Spec>),
    Kill(u32),
    Inquire(u32),
    /// Something may have ended.
    Look,
    /// The daemon stops.
    End,
}

/// What a session's task has in hand.
pub(super) struct Desk {
    pub(super) session: SessionId,
    pub(super) orders: UnboundedReceiver<Order>,
    /// Highest incarnation whose end was asked for, known before the order's turn comes.
    pub(super) stop: Arc<AtomicU32>,
}

/// How a session's task is reached.
pub(super) struct Entry {
    orders: UnboundedSender<Order>,
    stop: Arc<AtomicU32>,
}

/// All sessions this runtime has to do with.
pub(super) type Table = Register<SessionId, Entry>;

impl Table {
    /// Hands an order to its session's task. Gives the task's desk when there is no task yet.
    pub(super) fn give(&self, session: SessionId, order: Order) -> Option<Desk> {
        let mut entries = self.lock();
        let mut fresh = None;
        let entry = entries.here.entry(session).or_insert_with(|| {
            let (orders, desk) = unbounded_channel();
            let stop = Arc::new(AtomicU32::new(0));
            fresh = Some(Desk { session, orders: desk, stop: Arc::clone(&stop) });
            Entry { orders, stop }
        });
        if let Order::Kill(incarnation) = order {
            entry.stop.fetch_max(incarnation, Ordering::Relaxed);
        }
        if entry.orders.send(order).is_err() {
            tracing::error!(%session, "the task of a session is gone");
        }
        fresh
    }

    /// Asks the tasks of these sessions to look at what they have.
    pub(super) fn look(&self, which: impl Fn(SessionId) -> bool) {
        for (_, entry) in self.lock().here.iter().filter(|(session, _)| which(**session)) {
            // A task that is just ending has nothing to look at.
            drop(entry.orders.send(Order::Look));
        }
    }

    /// Whether the task is to go because nothing is asked of it any more.
    pub(super) fn leave(&self, session: SessionId, orders: &UnboundedReceiver<Order>) -> bool {
        let mut entries = self.lock();
        let idle = orders.is_empty();
        if idle {
            entries.here.remove(&session);
            self.changed();
        }
        idle
    }

    pub(super) fn running(&self, session: SessionId, incarnation: u32) {
        self.lock().told.running(session, incarnation);
    }

    pub(super) fn outdated(&self, session: SessionId, incarnation: u32) {
        self.lock().told.outdated(session, incarnation);
    }

    pub(super) fn gone(&self, session: SessionId, incarnation: u32, exit: Exit, stderr_tail: String) {
        self.lock().told.gone(session, incarnation, exit, stderr_tail);
    }

    /// Why an incarnation is not to be started, if there is a reason.
    pub(super) fn refusal(&self, session: SessionId, incarnation: u32) -> Option<String> {
        self.lock().told.refusal(session, incarnation)
    }
}
