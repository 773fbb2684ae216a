//! Stops agents that run but are no longer wanted: at the start, and every minute.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::Error;
use super::engine_thread::{Inbox, InputReply, Item};
use super::mailbox_workers::{MailboxWorkers, WorkerContext};
use super::stop::Stop;
use super::worker;
use crate::engine::commit::Engine;
use crate::model::incarnation::IncarnationId;
use crate::model::input::Input;
use crate::state;

/// Interval of reconciliation.
const AGAIN: Duration = Duration::from_secs(60);

/// Delay before a failed read of the store is repeated, and first delay before a failed start is repeated.
const PAUSE: Duration = Duration::from_secs(1);

/// Submits the daemon's start input, and starts the reconciliation thread. The thread begins after the start is
/// committed. It is a separate thread because a runtime may be slow.
pub(super) fn start(workers: &MailboxWorkers, stop: &Arc<Stop>) -> Result<(), Error> {
    let WorkerContext { inbox, engine, runtime, gateway, egress, .. } = &workers.context;
    let asked = ask_for_start(inbox);
    let (runtime, engine, stop) = (Arc::clone(runtime), Arc::clone(engine), Arc::clone(stop));
    let (inbox, gateway, egress) = (Arc::clone(inbox), Arc::clone(gateway), Arc::clone(egress));
    let work = move || {
        // The tables are valid for reconciliation only after the start is committed.
        if !is_started(&inbox, &stop, asked, PAUSE) {
            return;
        }
        let live_now = live(&engine, &stop);
        gateway.remove_left(&live_now);
        egress.remove_left(&live_now);
        loop {
            runtime.reconcile(&|| live(&engine, &stop));
            runtime.compare_images();
            if stop.asked_within(AGAIN) {
                return;
            }
        }
    };
    worker::start("reconcile", work).map(drop)
}

fn ask_for_start(inbox: &Inbox) -> oneshot::Receiver<InputReply> {
    let (answer, asked) = oneshot::channel();
    inbox.push(Item { answer: Some(answer), ..Item::of(Input::Start) });
    asked
}

/// Waits until the start is committed. A failed start is repeated after growing delays. Returns false if the daemon
/// ends first.
fn is_started(inbox: &Inbox, stop: &Stop, mut asked: oneshot::Receiver<InputReply>, mut pause: Duration) -> bool {
    loop {
        match asked.blocking_recv() {
            Ok(Ok(_)) => return true,
            Ok(Err(error)) => {
                tracing::error!(error, "cannot look for what an earlier daemon left, retrying");
            }
            Err(_) => return false,
        }
        if stop.asked_within(pause) {
            return false;
        }
        pause = pause.saturating_mul(2).min(AGAIN);
        asked = ask_for_start(inbox);
    }
}

/// The live incarnations. Blocks while the store cannot be read, because an empty answer would stop all agents.
fn live(engine: &Engine, stop: &Stop) -> Vec<IncarnationId> {
    let id = |(session, number)| IncarnationId::new(session, number);
    loop {
        let live = engine.store().read(|db, txn| {
            db.live_incarnations.iter(txn)?.map(|row| row.map(id)).collect::<Result<Vec<_>, state::Error>>()
        });
        match live {
            Ok(live) => return live,
            Err(error) => tracing::error!(%error, "cannot list the agents that should run, retrying"),
        }
        if stop.asked_within(PAUSE) {
            // The daemon is stopping, and so do all agents.
            return Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::report::Reply;

    #[test]
    fn a_start_that_failed_is_tried_again_until_it_is_done_or_the_daemon_ends() {
        let soon = Duration::from_millis(1);
        for (given, started) in [(vec![Err("damaged"), Err("damaged"), Ok(())], true), (vec![Err("damaged")], false)] {
            let (inbox, stop) = (Arc::new(Inbox::default()), Arc::new(Stop::default()));
            let asked = ask_for_start(&inbox);
            let (its_inbox, its_stop) = (Arc::clone(&inbox), Arc::clone(&stop));
            let waiting = std::thread::spawn(move || is_started(&its_inbox, &its_stop, asked, soon));
            for given in given {
                let item = inbox.take(1).unwrap().pop().unwrap();
                assert_eq!(item.submission.input, Input::Start);
                item.answer.unwrap().send(given.map(|()| Reply::Done).map_err(str::to_owned)).unwrap();
            }
            // A request to a closed queue gets no answer.
            inbox.close();
            drop(inbox.take(9));
            assert_eq!(waiting.join().unwrap(), started);
        }
    }

    #[test]
    fn a_daemon_that_stops_tries_no_start_again() {
        let (inbox, stop) = (Inbox::default(), Stop::default());
        let (answer, asked) = oneshot::channel();
        answer.send(Err("damaged".to_owned())).unwrap();
        stop.ask();
        assert!(!is_started(&inbox, &stop, asked, Duration::from_secs(3_600)));
        assert_eq!(inbox.len(), 0);
    }
}
