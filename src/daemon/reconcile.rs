//! Ending what a runtime runs and nobody wants any more: at the start, and every minute.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::Error;
use super::inbox::Heard;
use super::stop::Stop;
use crate::engine::commit::Engine;
use crate::model::id::SessionId;
use crate::runtime::Runtime;
use crate::state;

/// Time between two looks.
const AGAIN: Duration = Duration::from_secs(60);

/// Time after which the store is read again if it could not be.
const PAUSE: Duration = Duration::from_secs(1);

/// Looks on a thread of its own, first when the start of this daemon is committed: a runtime may take its time.
pub(super) fn start(
    runtime: &Arc<dyn Runtime>,
    engine: &Arc<Engine>,
    (stop, started): (&Arc<Stop>, oneshot::Receiver<Heard>),
) -> Result<(), Error> {
    let (runtime, engine, stop) = (Arc::clone(runtime), Arc::clone(engine), Arc::clone(stop));
    let work = move || {
        // What the tables say is wanted only after that.
        if !matches!(started.blocking_recv(), Ok(Ok(_))) {
            return;
        }
        loop {
            runtime.reconcile(&|| live(&engine, &stop));
            runtime.compare_images();
            if stop.asked_within(AGAIN) {
                return;
            }
        }
    };
    std::thread::Builder::new().name("reconcile".to_owned()).spawn(work).map(drop).map_err(Error::Thread)
}

/// What lives. As long as that cannot be read it is not answered, because everything else would be ended.
fn live(engine: &Engine, stop: &Stop) -> Vec<(SessionId, u32)> {
    loop {
        match engine.store().read(|db, txn| db.live.iter(txn)?.collect::<Result<Vec<_>, state::Error>>()) {
            Ok(live) => return live,
            Err(error) => tracing::error!(%error, "which agents are to run cannot be read; it is tried again"),
        }
        if stop.asked_within(PAUSE) {
            // Everything is about to be ended.
            return Vec::new();
        }
    }
}
