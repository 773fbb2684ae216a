//! Backups, and runs after a restore: the store has its earlier state, and only the clock and the networks know of the
//! days in between. An outgoing id that the networks have seen never stands for another message.

use std::path::PathBuf;

use super::Sim;
use super::invariants::Memory;
use super::people::Event;
use crate::slots::Book;
use crate::world::chance::Chance;

/// One in this many steps is followed by a backup or a restore.
const SELDOM: u64 = 150;

/// The state when a backup was made.
pub(super) struct Saved {
    /// Holds the backup until it is dropped.
    _place: tempfile::TempDir,
    backup: PathBuf,
    memory: Memory,
    events: Vec<Event>,
    book: Book,
    doomed: bool,
}

impl Sim {
    /// Occasionally makes a backup, or restores the newest one, perhaps again. The random numbers are separate from
    /// those of the steps, so that the steps are the same as without.
    pub(super) fn back_up_or_restore(&mut self) {
        let mut chance = Chance::of_step(!self.plan.seed, self.step);
        if !chance.one_in(SELDOM) || self.is_tight() {
            return;
        }
        match self.saved.take() {
            Some(saved) if chance.one_in(2) => self.restore(saved),
            _ => self.back_up(),
        }
    }

    fn back_up(&mut self) {
        let place = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let backup = place.path().join("it");
        self.world.back_up(&backup);
        let (memory, events, book) = (self.memory.clone(), self.events.clone(), self.book.clone());
        self.saved = Some(Saved { _place: place, backup, memory, events, book, doomed: self.doomed });
        self.count("backups");
    }

    /// Files exchanged between agents and the daemon belong to the replaced store.
    fn restore(&mut self, saved: Saved) {
        self.forget();
        self.world.restore(&saved.backup);
        self.world.outside.leave_mailboxes();
        self.platform.borrow_mut().goes_on_with_a_restored_house();
        (self.memory, self.events, self.book) = (saved.memory.clone(), saved.events.clone(), saved.book.clone());
        self.doomed = saved.doomed;
        self.minds.clear();
        self.numbers.clear();
        self.outputs.clear();
        self.looked.clear();
        self.saved = Some(saved);
        self.started();
        self.count("restores");
        self.prove();
    }
}
