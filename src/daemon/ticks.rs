//! Time passes: a sweep at every tick, and in between when something is due; and what happens to the machine's clocks.
//!
//! A sleeping machine runs no thread. When it wakes, the thread that ticks waits for what was left of its second and
//! sweeps: whatever became due meanwhile is done then.

use std::sync::Arc;

use super::inbox::Item;
use super::{Daemon, Error};
use crate::clock::{self, Between, Step, Watch};
use crate::model::input::{ClockChange, Input};
use crate::model::time::Millis;

/// Time between tries to have the store's reserve again, and looks at the machine's zone.
const HOUSEKEEPING: Millis = Millis::minutes(1);
/// A clock that was set back by less makes nobody wait for long.
const BACK_MIN: Millis = Millis::minutes(1);

/// Starts the thread that ticks.
pub(super) fn start(daemon: &Arc<Daemon>) -> Result<(), Error> {
    let daemon = Arc::clone(daemon);
    let run = move || {
        let mut watch = Watch::start();
        let mut housekeeping = daemon.clock.now().awake;
        loop {
            daemon.alarm.wait(clock::TICK);
            if daemon.stop.is_asked() {
                return;
            }
            daemon.take_in(watch.look());
            daemon.inbox.push(Item::of(Input::Sweep(daemon.mailroom.look())));
            daemon.tend_store();
            let now = daemon.clock.now().awake;
            if now.since(housekeeping) >= HOUSEKEEPING {
                housekeeping = now;
                daemon.keep_house();
            }
        }
    };
    std::thread::Builder::new().name("ticks".to_owned()).spawn(run).map(drop).map_err(Error::Thread)
}

impl Daemon {
    fn take_in(&self, Between { slept, step }: Between) {
        if slept > Millis::ZERO {
            tracing::info!("the machine slept for {slept}");
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

    /// As long as somebody reads the store, no page is used again that was freed since, and one who died reads for ever:
    /// under load the file grows by megabytes each second.
    /// And on a full disk no agent could say that it is done.
    fn tend_store(&self) {
        let store = self.engine.store();
        match store.clear_stale_readers().and_then(|_| store.share_reserve()) {
            Ok(true) => tracing::warn!("the disk is full: half of the reserve goes to what agents have to write"),
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "the store could not be tidied"),
        }
    }

    fn keep_house(&self) {
        if let Err(error) = self.engine.store().restore_reserve() {
            tracing::warn!(%error, "the store's reserve could not be restored");
        }
        self.look_at_folders();
        if let Some(zone) = self.mailroom.look_at_zone() {
            tracing::info!("the machine is in the zone {zone} now");
            let before = self.engine.move_to(zone);
            self.inbox.push(Item::of(Input::Clock(ClockChange::Zone(before.name().to_owned()))));
        }
    }
}
