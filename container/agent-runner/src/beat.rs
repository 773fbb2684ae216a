//! The heartbeat: that this process runs, whatever its provider does.

use std::sync::Arc;
use std::time::Duration;

use hearth_wire::{Heartbeat, WIRE_VERSION};

use crate::agent::AgentHalf;
use crate::gate::Gate;
use crate::log;
use crate::stop::{Error, Stop};

/// Time between two beats.
const EVERY: Duration = Duration::from_secs(5);

/// Beats once and starts the thread that goes on, for as long as this incarnation may. Beats of one incarnation rise
/// through a restart.
pub(crate) fn start(agent: &Arc<AgentHalf>, mut gate: Gate) -> Result<(), Error> {
    let incarnation = gate.incarnation();
    let before = agent.last_heartbeat().filter(|last| last.incarnation == incarnation).map_or(0, |last| last.beat);
    let mut heartbeat = Heartbeat { v: WIRE_VERSION, incarnation, beat: before + 1 };
    agent.write_heartbeat(&heartbeat)?;
    let agent = Arc::clone(agent);
    let beat_on = move || {
        let mut failing = false;
        loop {
            std::thread::sleep(EVERY);
            match gate.check() {
                Ok(()) => {}
                // The loop stops for the same reason, and says it.
                Err(Stop::Superseded { .. } | Stop::Asked) => return,
                // Whoever may not go on does not beat; but what cannot be read now may be read the next time, and the
                // loop may not even have missed it.
                Err(Stop::Broken(_)) => continue,
            }
            heartbeat.beat += 1;
            let beaten = agent.write_heartbeat(&heartbeat);
            if let (Err(error), false) = (&beaten, failing) {
                log::note(format_args!("no heartbeat: {error}"));
            }
            failing = beaten.is_err();
        }
    };
    let thread = std::thread::Builder::new().name("beat".to_owned()).spawn(beat_on);
    thread.map(drop).map_err(|source| Error::Thread { name: "beat", source })
}
