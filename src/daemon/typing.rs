//! Typing indicators for all channels, sent by one thread that sleeps while no agent is at work.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::Error;
use super::worker;
use super::writing::Shown;
use crate::channel::{Channel, Draft};
use crate::clock::Clock;
use crate::model::address::Address;
use crate::model::delivery::{Delivery, DeliveryAct, DeliveryResult};
use crate::model::id::{MessageId, OutboundId, SessionId};
use crate::model::time::Awake;
use crate::state::{self, Store};
use signs::Signs;

mod signs;

/// The sessions whose agents are shown as typing.
pub(super) struct Typing {
    clock: Clock,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    signs: Signs,
    /// Indicators that the thread sends immediately.
    now: Vec<Indicator>,
    over: bool,
}

/// What a channel shows of an agent at work.
pub(super) enum Indicator {
    Typing(SessionId, Address),
    /// It uses this tool now, or none.
    Tool(Address, Option<String>),
}

impl Indicator {
    /// Where it is shown.
    pub(super) const fn at(&self) -> &Address {
        let (Self::Typing(_, at) | Self::Tool(at, _)) = self;
        at
    }

    /// Shows it once. Where the channel shows drafts, `writing` finds what the session's agent is writing, which is shown
    /// in place of the typing indicator. Returns the session of a draft that was shown.
    pub(super) fn show_on(
        &self,
        channel: &dyn Channel,
        writing: impl FnOnce(SessionId, &Address) -> Option<Shown>,
    ) -> Option<SessionId> {
        match self {
            Self::Typing(session, at) => {
                if let Some(shown) = channel.shows_drafts(at).then(|| writing(*session, at)).flatten() {
                    channel.draft(at, Draft { answers: shown.message, text: &shown.text });
                    return Some(*session);
                }
                channel.typing(*session, at);
            }
            Self::Tool(at, tool) => channel.tool(at, tool.as_deref()),
        }
        None
    }
}

impl Typing {
    /// No session is shown.
    pub(super) fn new(clock: &Clock) -> Arc<Self> {
        Arc::new(Self { clock: clock.clone(), state: Mutex::default(), changed: Condvar::new() })
    }

    /// Starts the thread, which shows each indicator with `show`. That returns the session of a draft that it showed.
    pub(super) fn run(
        self: &Arc<Self>,
        show: impl Fn(&Indicator) -> Option<SessionId> + Send + 'static,
    ) -> Result<(), Error> {
        let typing = Arc::clone(self);
        let work = move || {
            while let Some(due) = typing.next() {
                for session in due.iter().filter_map(&show) {
                    typing.lock().signs.drafted(typing.now(), session);
                }
            }
        };
        worker::start("typing", work).map(drop)
    }

    /// Starts the indicator of a session's agent at an address.
    pub(super) fn start(&self, session: SessionId, at: Address) {
        let mut state = self.lock();
        state.signs.start(self.now(), session, at.clone());
        state.now.push(Indicator::Typing(session, at));
        self.changed.notify_one();
    }

    /// Records that the session's agent did something.
    pub(super) fn progress(&self, session: SessionId) {
        self.lock().signs.progress(self.now(), session);
    }

    /// Records that the session's agent uses another tool, or no tool any more.
    pub(super) fn tool(&self, session: SessionId, tool: Option<&str>) {
        let mut state = self.lock();
        if let Some(at) = state.signs.tool(session, tool) {
            state.now.push(Indicator::Tool(at, tool.map(str::to_owned)));
            self.changed.notify_one();
        }
    }

    /// A message is handed to its channel. Edits and reactions do not count as messages.
    pub(super) fn sending(&self, delivery: &Delivery) {
        if matches!(delivery.act, DeliveryAct::Say | DeliveryAct::Ask(_)) {
            self.lock().signs.sending(self.now(), delivery.id, &delivery.to);
        }
    }

    /// Records the result of a delivery.
    pub(super) fn sent(&self, id: OutboundId, result: &DeliveryResult) {
        self.lock().signs.sent(self.now(), id, matches!(result, DeliveryResult::Delivered { .. }));
    }

    /// A message ended. Stops the indicator of its session, unless the session has more work.
    pub(super) fn settled(&self, message: MessageId, store: &Store) {
        if self.lock().signs.is_empty() {
            return;
        }
        match store.read(|db, txn| {
            let Some(message) = db.messages.get(txn, &message)? else { return Ok(None) };
            let session = message.session;
            let claimed = db.claimed_messages.first_in(txn, &session)?.is_some();
            let busy = claimed || db.ready_messages.first_in(txn, &session)?.is_some();
            Ok::<_, state::Error>((!busy).then_some(session))
        }) {
            Ok(Some(session)) => self.over(session),
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "cannot determine whether an agent is still working"),
        }
    }

    /// Stops the indicator of a session.
    pub(super) fn over(&self, session: SessionId) {
        let mut state = self.lock();
        state.signs.stop(session);
        state.now.retain(|due| !matches!(due, Indicator::Typing(shown, _) if *shown == session));
    }

    /// Ends the thread.
    pub(super) fn shut_down(&self) {
        self.lock().over = true;
        self.changed.notify_one();
    }

    /// Waits for indicators that are due. None after [`Typing::shut_down`].
    fn next(&self) -> Option<Vec<Indicator>> {
        let mut state = self.lock();
        loop {
            if state.over {
                return None;
            }
            let now = self.now();
            let mut due = std::mem::take(&mut state.now);
            let (again, next) = state.signs.tick(now);
            due.extend(again.into_iter().map(|(session, at)| Indicator::Typing(session, at)));
            if !due.is_empty() {
                return Some(due);
            }
            state = match next {
                Some(next) => {
                    let wait = next.since(now).duration();
                    self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn now(&self) -> Awake {
        self.clock.now().awake
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
