//! Seats for connections: their number is bounded, and whoever may speak does not wait for those who only sit there.
//!
//! When all seats are taken, the next connection gets that of whoever stands lowest, and of those the one that has stood
//! there for longest. One that is being served is never asked to leave.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::sync::Notify;

/// How a connection stands, the lowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// It has said little, and nothing that not everybody could.
    Unknown,
    /// It brings much, as long as more comes.
    Bringing,
    /// It has shown that it may speak, and waits for nothing now.
    Known,
    /// It has shown that it may speak, and is being worked for. It stays.
    Served,
}

/// All seats of one listener.
#[derive(Clone)]
pub struct Seats(Arc<Shared>);

struct Shared {
    max: usize,
    taken: Mutex<Taken>,
    /// Somebody left, or stands elsewhere.
    changed: Notify,
}

#[derive(Default)]
struct Taken {
    /// Orders what happens, and names rows.
    last: u64,
    rows: Vec<Row>,
}

struct Row {
    id: u64,
    /// How, and since when.
    stands: (Standing, u64),
    asked: bool,
    /// Who is to hear that it is asked.
    waker: Option<Waker>,
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

    /// A free seat; if there is none, somebody is asked for theirs, unless somebody was already.
    fn try_take(self: &Arc<Self>) -> Option<Seat> {
        let mut taken = self.taken();
        if taken.rows.len() < self.max {
            let id = taken.next();
            taken.rows.push(Row { id, stands: (Standing::Unknown, id), asked: false, waker: None });
            return Some(Seat { shared: Arc::clone(self), id });
        }
        if !taken.rows.iter().any(|row| row.asked)
            && let Some(lowest) = taken.rows.iter_mut().min_by_key(|row| row.stands)
            && lowest.stands.0 < Standing::Served
        {
            lowest.asked = true;
            lowest.waker.take().into_iter().for_each(Waker::wake);
        }
        None
    }

    /// Looks again after each change, until there is something.
    async fn wait<T>(&self, mut look: impl FnMut() -> Option<T>) -> T {
        loop {
            let mut changed = pin!(self.changed.notified());
            // What changes while it is looked at is not missed.
            changed.as_mut().enable();
            match look() {
                Some(found) => return found,
                None => changed.await,
            }
        }
    }
}

impl Seats {
    /// So many seats.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self(Arc::new(Shared { max, taken: Mutex::default(), changed: Notify::new() }))
    }

    /// A seat, if need be that of somebody else; waits as long as all others are being served.
    pub async fn take(&self) -> Seat {
        self.0.wait(|| self.0.try_take()).await
    }

    /// Waits until nobody has a seat.
    pub async fn emptied(&self) {
        self.0.wait(|| self.0.taken().rows.is_empty().then_some(())).await;
    }
}

/// The seat of a connection, free when this is dropped.
pub struct Seat {
    shared: Arc<Shared>,
    id: u64,
}

impl Seat {
    /// Ready when the connection has to leave.
    pub fn poll_leave(&self, cx: &Context<'_>) -> Poll<()> {
        match self.shared.taken().row(self.id) {
            Some(row) if !row.asked => {
                row.waker = Some(cx.waker().clone());
                Poll::Pending
            }
            _ => Poll::Ready(()),
        }
    }

    /// Waits until the connection has to leave.
    pub async fn leave(&self) {
        poll_fn(|cx| self.poll_leave(cx)).await;
    }

    /// By which it is said how the connection stands.
    #[must_use]
    pub fn place(&self) -> Place {
        Place { shared: Arc::clone(&self.shared), id: self.id }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.shared.taken().rows.retain(|row| row.id != self.id);
        self.shared.changed.notify_waiters();
    }
}

/// Which seat it is, for those who learn who has it. It does not keep the seat.
#[derive(Clone)]
pub struct Place {
    shared: Arc<Shared>,
    id: u64,
}

impl Place {
    /// The connection stands so from now on, or as high as it stood. One that rises just in time stays although it was
    /// asked to leave.
    pub fn rises(&self, to: Standing) {
        self.stands(|from| from.max(to));
    }

    /// The connection has got an answer: it is known if it was, and anything else begins anew.
    pub fn answered(&self) {
        self.stands(|from| if from < Standing::Known { Standing::Unknown } else { Standing::Known });
    }

    fn stands(&self, to: impl FnOnce(Standing) -> Standing) {
        let mut taken = self.shared.taken();
        let now = taken.next();
        if let Some(row) = taken.row(self.id) {
            let to = to(row.stands.0);
            row.asked &= to <= row.stands.0;
            row.stands = (to, now);
        }
        drop(taken);
        self.shared.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::Standing::{Bringing, Known, Served, Unknown};
    use super::*;

    fn asked(seat: &Seat) -> bool {
        seat.poll_leave(&Context::from_waker(Waker::noop())).is_ready()
    }

    /// One seat more than there are is wanted: which of these is asked for?
    fn wanted(seats: &Seats, all: &[Seat]) -> Option<usize> {
        assert!(seats.0.try_take().is_none(), "there is none");
        all.iter().position(asked)
    }

    fn full(standings: &[Standing]) -> (Seats, Vec<Seat>) {
        let seats = Seats::new(standings.len());
        let all = standings.iter().map(|standing| {
            let seat = seats.0.try_take().unwrap();
            seat.place().rises(*standing);
            seat
        });
        let all = all.collect();
        (seats, all)
    }

    #[test]
    fn the_lowest_leaves_first_and_of_those_the_one_that_was_there_for_longest() {
        let (seats, mut all) = full(&[Served, Known, Bringing, Unknown, Unknown]);
        for next in [3, 3, 2, 1] {
            assert_eq!(wanted(&seats, &all), Some(next));
            assert_eq!(wanted(&seats, &all), Some(next), "one after the other");
            drop(all.remove(next));
            all.push(seats.0.try_take().unwrap());
            all[4].place().rises(Served);
        }
        assert_eq!(wanted(&seats, &all), None, "all are being served");
        all[4].place().answered();
        assert_eq!(wanted(&seats, &all), Some(4), "but not for ever");
    }

    #[test]
    fn whoever_brings_more_or_got_an_answer_is_not_the_next() {
        let (seats, all) = full(&[Bringing, Bringing, Served]);
        all[0].place().rises(Bringing);
        assert_eq!(wanted(&seats, &all), Some(1));
        let (seats, all) = full(&[Unknown, Unknown]);
        all[0].place().answered();
        assert_eq!(wanted(&seats, &all), Some(1));
        let (seats, all) = full(&[Bringing, Unknown, Known]);
        all[0].place().answered();
        all[2].place().answered();
        assert_eq!(wanted(&seats, &all), Some(1), "what was brought is forgotten with the answer");
        all[1].place().rises(Known);
        assert_eq!(wanted(&seats, &all), Some(0));
    }

    #[test]
    fn whoever_rises_just_in_time_stays_and_somebody_else_leaves() {
        let (seats, all) = full(&[Unknown, Unknown]);
        assert_eq!(wanted(&seats, &all), Some(0));
        all[0].place().rises(Unknown);
        assert_eq!(wanted(&seats, &all), Some(0), "which has said nothing new");
        all[0].place().rises(Served);
        assert_eq!(wanted(&seats, &all), Some(1));
    }

    #[tokio::test]
    async fn those_who_wait_hear_what_changes() {
        let seats = Seats::new(1);
        let one = seats.take().await;
        one.place().rises(Served);
        let more = seats.clone();
        let waiting = tokio::spawn(async move { more.take().await });
        tokio::task::yield_now().await;
        one.place().answered();
        one.leave().await;
        drop(one);
        let one = waiting.await.unwrap();
        let all = seats.clone();
        let waiting = tokio::spawn(async move { all.emptied().await });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(one);
        waiting.await.unwrap();
    }
}
