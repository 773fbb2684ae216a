//! A limit for the connections of a listener that idle clients cannot exhaust.
//!
//! At the limit, a new connection evicts the one of the lowest priority, and among those the one that has had it for
//! longest. A connection that is being served is never evicted.
//!
//! Connections also share a budget for the bytes they upload. When it is used up, a connection may evict another one of
//! lower priority that uses some of it.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::sync::Notify;

/// Priority of a connection, the lowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// It has not authenticated.
    Unknown,
    /// It has not authenticated, and keeps sending much.
    Uploading,
    /// It has authenticated and is idle.
    Authenticated,
    /// It has authenticated and a request of it is being handled. It is not evicted.
    Serving,
}

/// Descriptors reserved for the rest of the daemon: the store, its sockets, pipes and locks of agents, and outgoing
/// connections.
const RESERVED: u64 = 40;
/// Minimum number of connections, however few descriptors there are.
const LEAST: usize = 4;

/// Maximum number of connections of a listener: `max`, or fewer if this process may open few files. Of the descriptors
/// that are not reserved, the listener gets one part in `parts`.
#[must_use]
pub fn within_descriptors(max: usize, parts: u64) -> usize {
    share(rustix::process::getrlimit(rustix::process::Resource::Nofile).current, max, parts)
}

fn share(limit: Option<u64>, max: usize, parts: u64) -> usize {
    let Some(limit) = limit else { return max };
    let share = limit.saturating_sub(RESERVED) / parts.max(1);
    usize::try_from(share).unwrap_or(usize::MAX).clamp(LEAST.min(max), max)
}

/// Whether no more files can be opened, by this process or on this machine.
#[must_use]
pub fn out_of_descriptors(error: &std::io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// The limit of one listener.
#[derive(Clone)]
pub struct ConnectionLimit(Arc<Shared>);

struct Shared {
    max: usize,
    /// Budget of all connections.
    budget: usize,
    taken: Mutex<Taken>,
    /// A connection ended, or has another priority.
    changed: Notify,
}

#[derive(Default)]
struct Taken {
    /// The last number, which orders events and identifies rows.
    last: u64,
    rows: Vec<Row>,
}

struct Row {
    id: u64,
    priority: Priority,
    /// Number of the event that gave it this priority.
    since: u64,
    /// It has to end.
    asked: bool,
    /// Its part of the budget.
    used: usize,
    /// Wakes the task that waits for its eviction.
    waker: Option<Waker>,
}

impl Row {
    /// Its rank in the order of eviction.
    const fn rank(&self) -> (Priority, u64) {
        (self.priority, self.since)
    }

    fn ask(&mut self) {
        self.asked = true;
        self.waker.take().into_iter().for_each(Waker::wake);
    }
}

impl Taken {
    const fn next(&mut self) -> u64 {
        self.last = self.last.saturating_add(1);
        self.last
    }

    fn row(&mut self, id: u64) -> Option<&mut Row> {
        self.rows.iter_mut().find(|row| row.id == id)
    }
}

impl Shared {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new connection, if the limit allows one; else evicts another one, unless one is being evicted already.
    fn try_accept(self: &Arc<Self>) -> Option<Connection> {
        let mut taken = self.taken();
        if taken.rows.len() < self.max {
            let id = taken.next();
            taken.rows.push(Row { id, priority: Priority::Unknown, since: id, asked: false, used: 0, waker: None });
            return Some(Connection { shared: Arc::clone(self), id });
        }
        self.evict_lowest(&mut taken);
        None
    }

    /// Evicts one connection that is not being served, unless one is being evicted already.
    fn evict_lowest(&self, taken: &mut Taken) {
        if !taken.rows.iter().any(|row| row.asked)
            && let Some(lowest) = taken.rows.iter_mut().min_by_key(|row| row.rank())
            && lowest.priority < Priority::Serving
        {
            lowest.ask();
            self.changed.notify_waiters();
        }
    }

    /// Sets a connection's part of the budget and returns whether it got it; `None` while another one is being evicted for
    /// it.
    fn try_reserve(&self, id: u64, wanted: usize) -> Option<bool> {
        let mut taken = self.taken();
        let others: usize = taken.rows.iter().filter(|row| row.id != id).map(|row| row.used).sum();
        let Some(own) = taken.row(id).filter(|own| !own.asked) else { return Some(false) };
        let rank = own.rank();
        if others.saturating_add(wanted) <= self.budget {
            own.used = wanted;
            return Some(true);
        }
        let mut using: Vec<&mut Row> = taken.rows.iter_mut().filter(|row| row.id != id && row.used > 0).collect();
        if using.iter().any(|row| row.asked) {
            return None;
        }
        let lowest = using.iter_mut().min_by_key(|row| row.rank()).filter(|lowest| lowest.rank() < rank);
        let Some(lowest) = lowest else { return Some(false) };
        lowest.ask();
        self.changed.notify_waiters();
        None
    }

    /// Repeats `look` after each change until it returns something.
    async fn wait<T>(&self, mut look: impl FnMut() -> Option<T>) -> T {
        loop {
            let mut changed = pin!(self.changed.notified());
            // Enabled first, so that no change during `look` is missed.
            changed.as_mut().enable();
            match look() {
                Some(found) => return found,
                None => changed.await,
            }
        }
    }
}

impl ConnectionLimit {
    /// A limit of `max` connections without a budget.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self::with_budget(max, 0)
    }

    /// A limit of `max` connections with a common budget, in any unit.
    #[must_use]
    pub fn with_budget(max: usize, budget: usize) -> Self {
        Self(Arc::new(Shared { max, budget, taken: Mutex::default(), changed: Notify::new() }))
    }

    /// Waits until another connection is allowed, evicting one if needed.
    pub async fn acquire(&self) -> Connection {
        self.0.wait(|| self.0.try_accept()).await
    }

    /// Evicts one connection that is not being served, because the process lacks its descriptor.
    pub fn evict_idle(&self) {
        self.0.evict_lowest(&mut self.0.taken());
    }

    /// Waits until all connections have ended.
    pub async fn drained(&self) {
        self.0.wait(|| self.0.taken().rows.is_empty().then_some(())).await;
    }
}

/// A counted connection. Dropping this ends the count.
pub struct Connection {
    shared: Arc<Shared>,
    id: u64,
}

impl Connection {
    /// Ready when the connection has to end.
    pub fn poll_evicted(&self, cx: &Context<'_>) -> Poll<()> {
        match self.shared.taken().row(self.id) {
            Some(row) if !row.asked => {
                row.waker = Some(cx.waker().clone());
                Poll::Pending
            }
            _ => Poll::Ready(()),
        }
    }

    /// Waits until the connection has to end.
    pub async fn evicted(&self) {
        poll_fn(|cx| self.poll_evicted(cx)).await;
    }

    /// A handle to change the connection's priority.
    #[must_use]
    pub fn handle(&self) -> ConnectionHandle {
        ConnectionHandle { shared: Arc::clone(&self.shared), id: self.id }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.taken().rows.retain(|row| row.id != self.id);
        self.shared.changed.notify_waiters();
    }
}

/// A handle to change a connection's priority and part of the budget. It does not keep the connection counted.
#[derive(Clone)]
pub struct ConnectionHandle {
    shared: Arc<Shared>,
    id: u64,
}

impl ConnectionHandle {
    /// Raises the priority; it never falls by this. A connection that is raised before it has ended is not evicted.
    pub fn raise(&self, to: Priority) {
        self.set_priority(|from| from.max(to));
    }

    /// Lowers the priority after an answer: an authenticated connection stays authenticated.
    pub fn answered(&self) {
        self.set_priority(
            |from| if from < Priority::Authenticated { Priority::Unknown } else { Priority::Authenticated },
        );
    }

    /// Reserves a part of the budget, `wanted` in all, evicting a connection of lower priority if needed. Returns false if
    /// all connections that have a part are of higher priority, or this one is being evicted.
    pub async fn reserve(&self, wanted: usize) -> bool {
        self.shared.wait(|| self.shared.try_reserve(self.id, wanted)).await
    }

    /// Returns its part of the budget.
    pub fn release(&self) {
        self.shared.taken().row(self.id).into_iter().for_each(|row| row.used = 0);
        self.shared.changed.notify_waiters();
    }

    fn set_priority(&self, to: impl FnOnce(Priority) -> Priority) {
        let mut taken = self.shared.taken();
        let now = taken.next();
        if let Some(row) = taken.row(self.id) {
            let to = to(row.priority);
            row.asked &= to <= row.priority;
            (row.priority, row.since) = (to, now);
        }
        drop(taken);
        self.shared.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::Priority::{Authenticated, Serving, Unknown, Uploading};
    use super::*;

    fn asked(connection: &Connection) -> bool {
        connection.poll_evicted(&Context::from_waker(Waker::noop())).is_ready()
    }

    /// Index of the connection that is evicted for a new one.
    fn wanted(limit: &ConnectionLimit, all: &[Connection]) -> Option<usize> {
        assert!(limit.0.try_accept().is_none(), "there is none");
        all.iter().position(asked)
    }

    fn full(standings: &[Priority]) -> (ConnectionLimit, Vec<Connection>) {
        let limit = ConnectionLimit::new(standings.len());
        let all = standings.iter().map(|standing| {
            let connection = limit.0.try_accept().unwrap();
            connection.handle().raise(*standing);
            connection
        });
        let all = all.collect();
        (limit, all)
    }

    #[test]
    fn few_descriptors_are_shared_among_listeners() {
        assert_eq!(share(None, 256, 2), 256);
        assert_eq!(share(Some(4_096), 256, 2), 256);
        assert_eq!((share(Some(64), 256, 2), share(Some(64), 128, 4)), (12, 6));
        assert_eq!(share(Some(16), 128, 4), LEAST);
    }

    #[test]
    fn an_idle_connection_gives_way_to_a_file() {
        let (limit, all) = full(&[Serving, Authenticated, Unknown]);
        limit.evict_idle();
        assert!(asked(&all[2]) && !asked(&all[1]));
        limit.evict_idle();
        assert!(!asked(&all[1]), "one after the other");
        let (limit, all) = full(&[Serving]);
        limit.evict_idle();
        assert!(!asked(&all[0]));
    }

    #[test]
    fn the_lowest_priority_is_evicted_first_and_of_those_the_oldest() {
        let (limit, mut all) = full(&[Serving, Authenticated, Uploading, Unknown, Unknown]);
        for next in [3, 3, 2, 1] {
            assert_eq!(wanted(&limit, &all), Some(next));
            assert_eq!(wanted(&limit, &all), Some(next), "one after the other");
            drop(all.remove(next));
            all.push(limit.0.try_accept().unwrap());
            all[4].handle().raise(Serving);
        }
        assert_eq!(wanted(&limit, &all), None, "all are being served");
        all[4].handle().answered();
        assert_eq!(wanted(&limit, &all), Some(4), "but not for ever");
    }

    #[test]
    fn a_connection_that_sends_more_or_got_an_answer_is_not_the_next() {
        let (limit, all) = full(&[Uploading, Uploading, Serving]);
        all[0].handle().raise(Uploading);
        assert_eq!(wanted(&limit, &all), Some(1));
        let (limit, all) = full(&[Unknown, Unknown]);
        all[0].handle().answered();
        assert_eq!(wanted(&limit, &all), Some(1));
        let (limit, all) = full(&[Uploading, Unknown, Authenticated]);
        all[0].handle().answered();
        all[2].handle().answered();
        assert_eq!(wanted(&limit, &all), Some(1), "what was brought is forgotten with the answer");
        all[1].handle().raise(Authenticated);
        assert_eq!(wanted(&limit, &all), Some(0));
    }

    #[test]
    fn a_connection_that_is_raised_in_time_stays_and_another_is_evicted() {
        let (limit, all) = full(&[Unknown, Unknown]);
        assert_eq!(wanted(&limit, &all), Some(0));
        all[0].handle().raise(Unknown);
        assert_eq!(wanted(&limit, &all), Some(0), "which has said nothing new");
        all[0].handle().raise(Serving);
        assert_eq!(wanted(&limit, &all), Some(1));
    }

    #[test]
    fn the_budget_is_taken_from_lower_priorities_only() {
        let room = |connection: &Connection, wanted| connection.shared.try_reserve(connection.id, wanted);
        let limit = ConnectionLimit::with_budget(4, 10);
        let mut all: Vec<Connection> = (0..4).map(|_| limit.0.try_accept().unwrap()).collect();
        all[1].handle().raise(Uploading);
        all[2].handle().raise(Authenticated);
        assert_eq!((room(&all[0], 3), room(&all[1], 3), room(&all[2], 4)), (Some(true), Some(true), Some(true)));
        assert_eq!(room(&all[0], 4), Some(false), "the others have higher priorities");
        assert_eq!(room(&all[0], 2), Some(true), "it may have less than before");
        all[3].handle().raise(Uploading);
        assert_eq!(room(&all[3], 4), None);
        assert_eq!(all.iter().position(asked), Some(0));
        assert_eq!(room(&all[3], 4), None, "one after the other");
        assert_eq!(room(&all[0], 1), Some(false), "it has to leave");
        drop(all.remove(0));
        assert_eq!(
            room(&all[2], 4),
            None,
            "which was not enough: of those that bring, the one that did for longest leaves"
        );
        assert_eq!(all.iter().position(asked), Some(0));
        drop(all.remove(0));
        assert_eq!(room(&all[1], 4), Some(true));
        assert_eq!(room(&all[0], 11), None, "the one that is known gets it from the other one");
        drop(all.remove(1));
        assert_eq!(room(&all[0], 11), Some(false), "there is no more than all of it");
        all[0].handle().raise(Serving);
        all[0].handle().release();
        let last = limit.0.try_accept().unwrap();
        assert_eq!(room(&last, 10), Some(true));
        drop(last);
        assert_eq!(room(&all[0], 10), Some(true), "a connection that ends returns all of it");
    }

    #[tokio::test]
    async fn waiting_for_the_budget_ends_with_the_end_of_another_connection_or_its_own_eviction() {
        let limit = ConnectionLimit::with_budget(3, 10);
        let (first, second, third) = (limit.acquire().await, limit.acquire().await, limit.acquire().await);
        assert!(first.handle().reserve(6).await && second.handle().reserve(4).await);
        let place = third.handle();
        let waiting = tokio::spawn(async move { place.reserve(5).await });
        first.evicted().await;
        drop(first);
        assert!(waiting.await.unwrap());
        let place = second.handle();
        place.raise(Uploading);
        let (stays, waits) = (third.handle(), tokio::spawn(async move { place.reserve(9).await }));
        third.evicted().await;
        assert!(!stays.reserve(1).await, "although there is some");
        drop(third);
        assert!(waits.await.unwrap());
    }

    #[tokio::test]
    async fn waiting_ends_with_each_change() {
        let limit = ConnectionLimit::new(1);
        let one = limit.acquire().await;
        one.handle().raise(Serving);
        let more = limit.clone();
        let waiting = tokio::spawn(async move { more.acquire().await });
        tokio::task::yield_now().await;
        one.handle().answered();
        one.evicted().await;
        drop(one);
        let one = waiting.await.unwrap();
        let all = limit.clone();
        let waiting = tokio::spawn(async move { all.drained().await });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(one);
        waiting.await.unwrap();
    }
}
