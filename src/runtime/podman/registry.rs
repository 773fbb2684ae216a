//! The sessions that have work to do. Each has a task that handles its orders one after the other. The task ends when
//! nothing runs and there are no orders.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::model::id::SessionId;
use crate::model::incarnation::Exit;
use crate::runtime::Spec;
use crate::runtime::registry::Registry;

/// An order for one session.
pub(super) enum Order {
    Ensure(Box<Spec>),
    Kill(u32),
    /// Kill this run, for a person who waits.
    KillNow(u32),
    Inquire(u32),
    /// A container may have ended.
    Look,
    /// The daemon stops.
    End,
}

/// The orders of a session's task.
pub(super) struct SessionOrders {
    pub(super) session: SessionId,
    pub(super) orders: UnboundedReceiver<Order>,
    /// Highest incarnation that was asked to stop. Visible before the order is handled.
    pub(super) stop: Arc<AtomicU32>,
}

/// How to reach a session's task.
pub(super) struct Entry {
    orders: UnboundedSender<Order>,
    stop: Arc<AtomicU32>,
}

/// All sessions that this runtime handles.
pub(super) type Sessions = Registry<SessionId, Entry>;

impl Sessions {
    /// Passes an order to its session's task. Returns the orders for a new task if there is no task yet.
    pub(super) fn give(&self, session: SessionId, order: Order) -> Option<SessionOrders> {
        let mut entries = self.lock();
        let mut fresh = None;
        let entry = entries.here.entry(session).or_insert_with(|| {
            let (sender, orders) = unbounded_channel();
            let stop = Arc::new(AtomicU32::new(0));
            fresh = Some(SessionOrders { session, orders, stop: Arc::clone(&stop) });
            Entry { orders: sender, stop }
        });
        if let Order::Kill(incarnation) | Order::KillNow(incarnation) = order {
            entry.stop.fetch_max(incarnation, Ordering::Relaxed);
        }
        if entry.orders.send(order).is_err() {
            tracing::error!(%session, "the task of a session is gone");
        }
        fresh
    }

    /// Asks the tasks of these sessions to check their containers.
    pub(super) fn look(&self, which: impl Fn(SessionId) -> bool) {
        for (_, entry) in self.lock().here.iter().filter(|(session, _)| which(**session)) {
            // A task that is just ending has nothing to check.
            drop(entry.orders.send(Order::Look));
        }
    }

    /// Whether the task may end because it has no more orders.
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

    /// Why an incarnation must not be started, if there is a reason.
    pub(super) fn refusal(&self, session: SessionId, incarnation: u32) -> Option<String> {
        self.lock().told.refusal(session, incarnation)
    }
}
