//! Seats for connections: their number is bounded, and whoever may speak does not wait for those who only sit there.
//!
//! When all seats are taken, the next connection gets that of whoever stands lowest, and of those the one that has stood
//! there for longest. One that is being served is never asked to leave.
//!
//! What connections bring may take room, of which there is so much for all of them. When it is used up, whoever has some and
//! stands lowest leaves for one that stands higher.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::sync::Notify;

/// How a connection stands, the lowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// It has said little, and nothing that not everybody could.
    Unknown,
    /// It brings much, as long as more comes.
    Bringing,
    /// It has shown that it may speak, and waits for nothing now.
    Known,
    /// It has shown that it may speak, and is being worked for. It stays.
    Served,
}

/// Descriptors that connections leave to the rest of the daemon: the store, its own sockets, pipes and locks of agents,
/// and outgoing connections.
const RESERVED: u64 = 40;
/// Connections that are served however few descriptors there are.
const LEAST: usize = 4;

/// Connections that a listener may have at once: `max`, or fewer where this process may open few files. Of those that are
/// not reserved, the listener gets one part in `parts`.
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

/// All seats of one listener.
#[derive(Clone)]
pub struct Seats(Arc<Shared>);

struct Shared {
    max: usize,
    /// For what all connections bring.
    room: usize,
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
    stands: (Priority, u64),
    asked: bool,
    /// What it has of the room.
    room: usize,
    /// Who is to hear that it is asked.
    waker: Option<Waker>,
}

impl Row {
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

    /// A free seat; if there is none, somebody is asked for theirs, unless somebody was already.
    fn try_take(self: &Arc<Self>) -> Option<Seat> {
        let mut taken = self.taken();
        if taken.rows.len() < self.max {
            let id = taken.next();
            taken.rows.push(Row { id, stands: (Priority::Unknown, id), asked: false, room: 0, waker: None });
            return Some(Seat { shared: Arc::clone(self), id });
        }
        self.ask_lowest(&mut taken);
        None
    }

    /// Asks one connection that is not being served to leave, unless another one was asked already.
    fn ask_lowest(&self, taken: &mut Taken) {
        if !taken.rows.iter().any(|row| row.asked)
            && let Some(lowest) = taken.rows.iter_mut().min_by_key(|row| row.stands)
            && lowest.stands.0 < Priority::Served
        {
            lowest.ask();
            self.changed.notify_waiters();
        }
    }

    /// So much room for one of them, or that it gets none; nothing as long as somebody is leaving for it.
    fn try_room(&self, id: u64, wanted: usize) -> Option<bool> {
        let mut taken = self.taken();
        let others: usize = taken.rows.iter().filter(|row| row.id != id).map(|row| row.room).sum();
        let Some(own) = taken.row(id).filter(|own| !own.asked) else { return Some(false) };
        let stands = own.stands;
        if others.saturating_add(wanted) <= self.room {
            own.room = wanted;
            return Some(true);
        }
        let mut with_room: Vec<&mut Row> = taken.rows.iter_mut().filter(|row| row.id != id && row.room > 0).collect();
        if with_room.iter().any(|row| row.asked) {
            return None;
        }
        let lowest = with_room.iter_mut().min_by_key(|row| row.stands).filter(|lowest| lowest.stands < stands);
        let Some(lowest) = lowest else { return Some(false) };
        lowest.ask();
        self.changed.notify_waiters();
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
    /// So many seats, and no room.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self::with_room(max, 0)
    }

    /// So many seats, and so much room for what is brought to all of them, in a unit of the caller's.
    #[must_use]
    pub fn with_room(max: usize, room: usize) -> Self {
        Self(Arc::new(Shared { max, room, taken: Mutex::default(), changed: Notify::new() }))
    }

    /// A seat, if need be that of somebody else; waits as long as all others are being served.
    pub async fn take(&self) -> Seat {
        self.0.wait(|| self.0.try_take()).await
    }

    /// Has one connection that is not being served leave, because the process lacks its descriptor.
    pub fn give_way(&self) {
        self.0.ask_lowest(&mut self.0.taken());
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
    pub fn place(&self) -> ConnectionHandle {
        ConnectionHandle { shared: Arc::clone(&self.shared), id: self.id }
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
pub struct ConnectionHandle {
    shared: Arc<Shared>,
    id: u64,
}

impl ConnectionHandle {
    /// The connection stands so from now on, or as high as it stood. One that rises just in time stays although it was
    /// asked to leave.
    pub fn rises(&self, to: Priority) {
        self.stands(|from| from.max(to));
    }

    /// The connection has got an answer: it is known if it was, and anything else begins anew.
    pub fn answered(&self) {
        self.stands(|from| if from < Priority::Known { Priority::Unknown } else { Priority::Known });
    }

    /// Takes room until the connection has so much of it, if need be that of one that stands lower and leaves. False if all
    /// who have some stand higher, or the connection has to leave itself.
    pub async fn room(&self, wanted: usize) -> bool {
        self.shared.wait(|| self.shared.try_room(self.id, wanted)).await
    }

    /// Gives all its room back.
    pub fn no_room(&self) {
        self.shared.taken().row(self.id).into_iter().for_each(|row| row.room = 0);
        self.shared.changed.notify_waiters();
    }

    fn stands(&self, to: impl FnOnce(Priority) -> Priority) {
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
    use super::Priority::{Bringing, Known, Served, Unknown};
    use super::*;

    fn asked(seat: &Seat) -> bool {
        seat.poll_leave(&Context::from_waker(Waker::noop())).is_ready()
    }

    /// One seat more than there are is wanted: which of these is asked for?
    fn wanted(seats: &Seats, all: &[Seat]) -> Option<usize> {
        assert!(seats.0.try_take().is_none(), "there is none");
        all.iter().position(asked)
    }

    fn full(standings: &[Priority]) -> (Seats, Vec<Seat>) {
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
    fn few_descriptors_are_shared_among_listeners() {
        assert_eq!(share(None, 256, 2), 256);
        assert_eq!(share(Some(4_096), 256, 2), 256);
        assert_eq!((share(Some(64), 256, 2), share(Some(64), 128, 4)), (12, 6));
        assert_eq!(share(Some(16), 128, 4), LEAST);
    }

    #[test]
    fn an_idle_connection_gives_way_to_a_file() {
        let (seats, all) = full(&[Served, Known, Unknown]);
        seats.give_way();
        assert!(asked(&all[2]) && !asked(&all[1]));
        seats.give_way();
        assert!(!asked(&all[1]), "one after the other");
        let (seats, all) = full(&[Served]);
        seats.give_way();
        assert!(!asked(&all[0]));
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

    #[test]
    fn whoever_stands_lowest_leaves_for_room_and_nobody_leaves_for_one_that_stands_lower() {
        let room = |seat: &Seat, wanted| seat.shared.try_room(seat.id, wanted);
        let seats = Seats::with_room(4, 10);
        let mut all: Vec<Seat> = (0..4).map(|_| seats.0.try_take().unwrap()).collect();
        all[1].place().rises(Bringing);
        all[2].place().rises(Known);
        assert_eq!((room(&all[0], 3), room(&all[1], 3), room(&all[2], 4)), (Some(true), Some(true), Some(true)));
        assert_eq!(room(&all[0], 4), Some(false), "the others stand higher");
        assert_eq!(room(&all[0], 2), Some(true), "it may have less than before");
        all[3].place().rises(Bringing);
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
        all[0].place().rises(Served);
        all[0].place().no_room();
        let last = seats.0.try_take().unwrap();
        assert_eq!(room(&last, 10), Some(true));
        drop(last);
        assert_eq!(room(&all[0], 10), Some(true), "whoever leaves leaves all of it");
    }

    #[tokio::test]
    async fn whoever_waits_for_room_hears_that_somebody_left_or_that_it_has_to_leave() {
        let seats = Seats::with_room(3, 10);
        let (first, second, third) = (seats.take().await, seats.take().await, seats.take().await);
        assert!(first.place().room(6).await && second.place().room(4).await);
        let place = third.place();
        let waiting = tokio::spawn(async move { place.room(5).await });
        first.leave().await;
        drop(first);
        assert!(waiting.await.unwrap());
        let place = second.place();
        place.rises(Bringing);
        let (stays, waits) = (third.place(), tokio::spawn(async move { place.room(9).await }));
        third.leave().await;
        assert!(!stays.room(1).await, "although there is some");
        drop(third);
        assert!(waits.await.unwrap());
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
