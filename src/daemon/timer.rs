//! The clock thread: submits a sweep at every tick and whenever something is due in between, and reports clock changes.
//!
//! A sleeping machine runs no threads. After it wakes, the thread waits for the rest of its tick and sweeps. That sweep
//! handles everything that became due in the meantime.

use std::sync::Arc;

use super::engine_thread::Item;
use super::outages::Outages;
use super::worker;
use super::{Daemon, Error};
use crate::clock::{self, Between, Step, Watch};
use crate::model::input::{ClockChange, Input};
use crate::model::time::Millis;

/// Interval for restoring the store's reserve and checking the machine's time zone.
const HOUSEKEEPING: Millis = Millis::minutes(1);
/// Smaller backward steps of the clock are ignored: they delay nothing for long.
const BACK_MIN: Millis = Millis::minutes(1);

/// Starts the clock thread.
pub(super) fn start(daemon: &Arc<Daemon>) -> Result<(), Error> {
    let daemon = Arc::clone(daemon);
    let run = move || {
        let (mut watch, mut outages) = (Watch::start(), Outages::default());
        let mut housekeeping = daemon.clock.now().awake;
        loop {
            daemon.alarm.wait(clock::TICK);
            if daemon.stop.is_asked() {
                return;
            }
            daemon.take_in(watch.look());
            daemon.inbox.push(Item::of(Input::Sweep(daemon.workers.look())));
            daemon.maintain_store();
            let now = daemon.clock.now().awake;
            if now.since(housekeeping) >= HOUSEKEEPING {
                housekeeping = now;
                daemon.run_housekeeping();
                daemon.look_at_channels(&mut outages);
            }
        }
    };
    worker::start("ticks", run).map(drop)
}

impl Daemon {
    fn take_in(&self, Between { slept, step }: Between) {
        if slept > Millis::ZERO {
            tracing::info!("the machine was suspended for {slept}");
        }
        match step {
            Step::None => {}
            Step::Forward(by) => tracing::info!("the clock was set ahead by {by}"),
            Step::Back(by) => {
                tracing::info!("the clock was set back by {by}");
                if by > BACK_MIN {
                    self.inbox.push(Item::of(Input::Clock(ClockChange::SetBack(by))));
                }
            }
        }
    }

    /// Clears the reader slots of dead processes, and releases half of the reserve when the disk is full.
    ///
    /// LMDB does not reuse pages that were freed after the oldest read transaction began. The slot of a dead reader
    /// never ends, so under load the file grows by megabytes each second. Without the reserve, an agent could not
    /// report the end of its turn on a full disk.
    fn maintain_store(&self) {
        let store = self.engine.store();
        match store.clear_stale_readers().and_then(|_| store.share_reserve()) {
            Ok(true) => tracing::warn!("the disk is full: half of the reserve is released for agents' output"),
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "cannot clean up the store"),
        }
    }

    fn run_housekeeping(&self) {
        if let Err(error) = self.engine.store().restore_reserve() {
            tracing::warn!(%error, "cannot restore the store's reserve");
        }
        self.look_at_folders();
        if let Some(zone) = self.workers.look_at_zone() {
            tracing::info!("the machine's time zone is now {zone}");
            let before = self.engine.move_to(zone);
            self.inbox.push(Item::of(Input::Clock(ClockChange::Zone(before.name().to_owned()))));
        }
    }
}
