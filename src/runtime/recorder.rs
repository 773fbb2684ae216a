//! Test helper for both runtimes: records the events that a runtime reports.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use super::Events;
use crate::model::id::SessionId;
use crate::model::incarnation::Exit;
use crate::model::input::RuntimeEvent;

/// Generous, because the machine may be busy; a passing test does not wait for it.
pub(in crate::runtime) const DEADLINE: Duration = Duration::from_secs(120);

/// Polls a condition.
pub(in crate::runtime) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..DEADLINE.as_millis() / 10 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("never: {what}");
}

/// Events in their order.
#[derive(Clone, Default)]
pub(in crate::runtime) struct RecordedEvents(Arc<(Mutex<Vec<RuntimeEvent>>, Condvar)>);

impl RecordedEvents {
    pub(in crate::runtime) fn listener(&self) -> Events {
        let heard = self.clone();
        Arc::new(move |event| {
            heard.0.0.lock().unwrap().push(event);
            heard.0.1.notify_all();
        })
    }

    pub(in crate::runtime) fn all(&self) -> Vec<RuntimeEvent> {
        self.0.0.lock().unwrap().clone()
    }

    pub(in crate::runtime) fn count(&self, which: impl Fn(&RuntimeEvent) -> bool) -> usize {
        self.all().iter().filter(|event| which(event)).count()
    }

    pub(in crate::runtime) fn clear(&self) {
        self.0.0.lock().unwrap().clear();
    }

    /// Waits for the first event for which `f` returns a value.
    pub(in crate::runtime) fn wait<T>(&self, what: &str, find: impl Fn(&RuntimeEvent) -> Option<T>) -> T {
        let (events, changed) = &*self.0;
        let none = |events: &mut Vec<RuntimeEvent>| !events.iter().any(|event| find(event).is_some());
        let (events, _) = changed.wait_timeout_while(events.lock().unwrap(), DEADLINE, none).unwrap();
        events.iter().find_map(find).unwrap_or_else(|| panic!("never heard of {what}; heard {events:?}"))
    }

    pub(in crate::runtime) fn running(&self, session: SessionId, incarnation: u32) {
        let expected = RuntimeEvent::Running(session, incarnation);
        self.wait("running", |event| (*event == expected).then_some(()));
    }

    pub(in crate::runtime) fn gone(&self, session: SessionId, incarnation: u32) -> (Exit, String) {
        self.wait(&format!("the end of {session}.{incarnation}"), |event| match event {
            RuntimeEvent::Gone { session: s, incarnation: i, exit, stderr_tail }
                if (*s, *i) == (session, incarnation) =>
            {
                Some((exit.clone(), stderr_tail.clone()))
            }
            _ => None,
        })
    }

    /// The reason why it was not started.
    pub(in crate::runtime) fn refused(&self, session: SessionId, incarnation: u32) -> String {
        match self.gone(session, incarnation) {
            (Exit::NotStarted(reason), _) => reason,
            (exit, tail) => panic!("started: {exit:?} {tail}"),
        }
    }

    pub(in crate::runtime) fn count_gone(&self) -> usize {
        self.count(|event| matches!(event, RuntimeEvent::Gone { .. }))
    }
}
