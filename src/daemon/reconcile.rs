//! Ending what a runtime runs and nobody wants any more: at the start, and every minute.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::Error;
use super::inbox::{Heard, Inbox, Item};
use super::stop::Stop;
use crate::engine::commit::Engine;
use crate::model::id::SessionId;
use crate::model::input::Input;
use crate::runtime::Runtime;
use crate::state;

/// Time between two looks.
const AGAIN: Duration = Duration::from_secs(60);

/// Time after which the store is read again if it could not be, and the first before a start is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// Puts in the start of this daemon, and looks on a thread of its own, first when that is committed: a runtime may take its
/// time.
pub(super) fn start(
    runtime: &Arc<dyn Runtime>,
    engine: &Arc<Engine>,
    (inbox, stop): (&Arc<Inbox>, &Arc<Stop>),
) -> Result<(), Error> {
    let asked = ask_for_start(inbox);
    let (runtime, engine, stop) = (Arc::clone(runtime), Arc::clone(engine), Arc::clone(stop));
    let inbox = Arc::clone(inbox);
    let work = move || {
        // What the tables say is wanted only after that.
        if !is_started(&inbox, &stop, asked, PAUSE) {
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

fn ask_for_start(inbox: &Inbox) -> oneshot::Receiver<Heard> {
    let (answer, asked) = oneshot::channel();
    inbox.push(Item { answer: Some(answer), ..Item::of(Input::Start) });
    asked
}

/// Waits until the start is committed; one that failed is asked for again, after longer and longer pauses. False if the
/// daemon ends first.
fn is_started(inbox: &Inbox, stop: &Stop, mut asked: oneshot::Receiver<Heard>, mut pause: Duration) -> bool {
    loop {
        match asked.blocking_recv() {
            Ok(Ok(_)) => return true,
            Ok(Err(error)) => {
                tracing::error!(error, "what an earlier daemon left could not be looked for; it is tried again");
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
            // What is still asked of a queue that is closed is answered by nobody.
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
