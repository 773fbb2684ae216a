//! Schedule of typing indicators. Pure: the caller passes the time.

use std::collections::HashMap;

use crate::model::address::Address;
use crate::model::id::{OutboundId, SessionId};
use crate::model::time::{Awake, Millis};

/// Interval between two indicators of a session. Networks show one for about five seconds.
pub(super) const AGAIN: Millis = Millis::seconds(4);
/// Interval between two drafts of a text that an agent is writing.
const DRAFT_AGAIN: Millis = Millis::seconds(1);
/// Time after the start during which an agent without progress is still shown.
const GRACE: Millis = Millis::seconds(15);
/// Maximum age of the last progress at which an agent counts as working.
const FRESH: Millis = Millis::seconds(6);
/// Pause after a visible message was delivered.
const PAUSE: Millis = Millis::seconds(10);
/// Maximum number of sessions shown. Further sessions get only their first indicator.
const SESSIONS_MAX: usize = 512;
/// Maximum number of deliveries in progress that are tracked.
const SENDING_MAX: usize = 1_024;
/// Time after which a delivery without a result is no longer tracked.
const SENDING: Millis = Millis::seconds(60);

/// Sessions whose agents are shown as typing.
#[derive(Debug, Default)]
pub(super) struct Signs {
    shown: HashMap<SessionId, Sign>,
    /// Deliveries in progress to addresses where an agent is shown, with their start.
    sending: HashMap<OutboundId, (Address, Awake)>,
}

#[derive(Debug)]
struct Sign {
    at: Address,
    began: Awake,
    tool: Option<String>,
    progress: Option<Awake>,
    paused: Option<Awake>,
    next: Awake,
}

impl Signs {
    /// Starts the indicator of a session at an address. The caller sends the first one at once. A session that is
    /// already shown moves to the new address, with a new [`GRACE`] and without a pause.
    pub(super) fn start(&mut self, now: Awake, session: SessionId, at: Address) {
        if !self.shown.contains_key(&session) && self.shown.len() >= SESSIONS_MAX {
            return;
        }
        let sign = Sign { at, began: now, tool: None, progress: None, paused: None, next: now.plus(AGAIN) };
        self.shown.insert(session, sign);
    }

    /// Records that the session's agent did something.
    pub(super) fn progress(&mut self, now: Awake, session: SessionId) {
        if let Some(sign) = self.shown.get_mut(&session) {
            sign.progress = Some(now);
        }
    }

    /// A draft of the session's text was shown: the next one is due soon.
    pub(super) fn drafted(&mut self, now: Awake, session: SessionId) {
        if let Some(sign) = self.shown.get_mut(&session) {
            sign.next = now.plus(DRAFT_AGAIN);
        }
    }

    /// The session's agent uses a tool, or none. Returns its address if that is a change.
    pub(super) fn tool(&mut self, session: SessionId, tool: Option<&str>) -> Option<Address> {
        let sign = self.shown.get_mut(&session).filter(|sign| sign.tool.as_deref() != tool)?;
        sign.tool = tool.map(str::to_owned);
        Some(sign.at.clone())
    }

    /// A visible message is being delivered. No indicator may follow it.
    pub(super) fn sending(&mut self, now: Awake, id: OutboundId, to: &Address) {
        if self.sending.len() < SENDING_MAX && self.shown.values().any(|sign| sign.at == *to) {
            self.sending.insert(id, (to.clone(), now));
        }
    }

    /// Records the result of a delivery.
    pub(super) fn sent(&mut self, now: Awake, id: OutboundId, delivered: bool) {
        let Some((to, _)) = self.sending.remove(&id) else { return };
        if delivered {
            for sign in self.shown.values_mut().filter(|sign| sign.at == to) {
                sign.paused = Some(now.plus(PAUSE));
            }
        }
    }

    /// Stops the indicator: the session has no more work, or no agent.
    pub(super) fn stop(&mut self, session: SessionId) {
        self.shown.remove(&session);
    }

    /// Whether no session is shown.
    pub(super) fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }

    /// Indicators that are due, and the time of the next ones; none if no session is shown.
    pub(super) fn tick(&mut self, now: Awake) -> (Vec<(SessionId, Address)>, Option<Awake>) {
        self.sending.retain(|_, (_, since)| since.plus(SENDING) > now);
        let sending = &self.sending;
        let mut due = Vec::new();
        self.shown.retain(|session, sign| {
            if sign.next > now {
                return true;
            }
            sign.next = now.plus(AGAIN);
            let paused = sign.paused.is_some_and(|until| now < until);
            if paused || sending.values().any(|(to, _)| *to == sign.at) {
                return true;
            }
            let new = now < sign.began.plus(GRACE);
            let fresh = sign.progress.is_some_and(|progress| now < progress.plus(FRESH));
            if new || fresh {
                due.push((*session, sign.at.clone()));
            }
            new || fresh
        });
        if self.shown.is_empty() {
            self.sending.clear();
        }
        (due, self.shown.values().map(|sign| sign.next).min())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::address::{ChannelName, ForeignId};

    const SESSION: SessionId = SessionId::new(1);

    fn at(place: &str) -> Address {
        let platform_id = ForeignId::new("place", place).unwrap();
        Address { channel: ChannelName::new("net").unwrap(), platform_id, thread: None }
    }

    fn second(second: u64) -> Awake {
        Awake::new(1, second * 1_000)
    }

    /// An event at a second.
    type Event<'a> = (u64, &'a dyn Fn(&mut Signs, Awake));

    /// Applies events at the given seconds, and returns when an indicator was sent to which address, until none is
    /// shown.
    fn run(events: &[Event<'_>]) -> Vec<(u64, String)> {
        let (mut signs, mut seen) = (Signs::default(), Vec::new());
        for now in 0..=120 {
            for (_, event) in events.iter().filter(|(when, _)| *when == now) {
                event(&mut signs, second(now));
            }
            let (due, next) = signs.tick(second(now));
            seen.extend(due.into_iter().map(|(_, at)| (now, at.platform_id.as_str().to_owned())));
            assert_eq!(next.is_none(), signs.is_empty());
            assert!(next.is_none_or(|next| next > second(now)));
        }
        assert!(signs.is_empty() && signs.sending.is_empty(), "{signs:?}");
        seen
    }

    fn seconds(events: &[Event<'_>]) -> Vec<u64> {
        run(events).into_iter().map(|(when, _)| when).collect()
    }

    fn start(signs: &mut Signs, now: Awake) {
        signs.start(now, SESSION, at("a"));
    }

    fn progress(signs: &mut Signs, now: Awake) {
        signs.progress(now, SESSION);
    }

    #[test]
    fn every_four_seconds_for_fifteen_and_then_as_long_as_something_happens() {
        // The caller of `start` sends the first indicator, at second 0.
        assert_eq!(seconds(&[(0, &start)]), [4, 8, 12]);
        assert_eq!(seconds(&[(0, &start), (14, &progress)]), [4, 8, 12, 16]);
        assert_eq!(seconds(&[(0, &start), (11, &progress), (19, &progress)]), [4, 8, 12, 16, 20, 24]);
        assert_eq!(seconds(&[(0, &start), (10, &progress)]), [4, 8, 12], "six seconds are too long ago");
        assert_eq!(seconds(&[(0, &start), (17, &progress)]), [4, 8, 12], "what has stopped stays so");
        assert_eq!(seconds(&[(0, &progress), (3, &progress)]), [] as [u64; 0], "nobody is shown unasked");
    }

    #[test]
    fn what_people_see_pauses_it_for_ten_seconds() {
        let id = OutboundId::new(1);
        let sending = |signs: &mut Signs, now: Awake| signs.sending(now, id, &at("a"));
        let delivered = |signs: &mut Signs, now: Awake| signs.sent(now, id, true);
        let failed = |signs: &mut Signs, now: Awake| signs.sent(now, id, false);
        let work: &dyn Fn(&mut Signs, Awake) = &progress;
        let busy: Vec<_> = (1..24).map(|second| (second, work)).collect();
        let mut events = vec![(0, &start as &dyn Fn(&mut Signs, Awake)), (5, &sending), (5, &delivered)];
        events.extend(&busy);
        assert_eq!(seconds(&events), [4, 16, 20, 24, 28]);
        // No indicator follows a message in delivery, and a failed delivery causes no pause.
        let slow = [(0, &start as &dyn Fn(&mut Signs, Awake)), (3, &sending), (9, &failed)];
        assert_eq!(seconds(&slow), [12]);
        // A delivery to another address changes nothing.
        let elsewhere = |signs: &mut Signs, now: Awake| {
            signs.sending(now, id, &at("b"));
            signs.sent(now, id, true);
        };
        assert_eq!(seconds(&[(0, &start), (3, &elsewhere)]), [4, 8, 12]);
        // The pause ends after the grace: an agent without progress since is not shown again.
        let pause = [(0, &start as &dyn Fn(&mut Signs, Awake)), (9, &sending), (9, &delivered)];
        assert_eq!(seconds(&pause), [4, 8]);
        // A missing result does not suppress indicators for ever.
        let lost = [(0, &start as &dyn Fn(&mut Signs, Awake)), (5, &sending), (63, &progress)];
        assert_eq!(seconds(&lost), [4, 68]);
    }

    #[test]
    fn the_end_stops_it_and_a_new_message_moves_it() {
        let stop = |signs: &mut Signs, _: Awake| signs.stop(SESSION);
        assert_eq!(seconds(&[(0, &start), (6, &stop), (7, &progress)]), [4]);
        let elsewhere = |signs: &mut Signs, now: Awake| signs.start(now, SESSION, at("b"));
        let moved = run(&[(0, &start), (6, &elsewhere)]);
        let expected = [(4, "a"), (10, "b"), (14, "b"), (18, "b")];
        assert_eq!(moved, expected.map(|(when, place)| (when, place.to_owned())));
        // A new message ends the pause after an answer.
        let id = OutboundId::new(1);
        let answered = |signs: &mut Signs, now: Awake| {
            signs.sending(now, id, &at("a"));
            signs.sent(now, id, true);
        };
        assert_eq!(seconds(&[(0, &start), (5, &answered), (6, &start)]), [4, 10, 14, 18]);
    }

    #[test]
    fn a_change_of_the_tool_is_told_once() {
        let mut signs = Signs::default();
        assert_eq!(signs.tool(SESSION, Some("Search")), None, "no one waits for this session");
        signs.start(second(0), SESSION, at("a"));
        assert_eq!(signs.tool(SESSION, None), None);
        assert_eq!(signs.tool(SESSION, Some("Search")), Some(at("a")));
        assert_eq!(signs.tool(SESSION, Some("Search")), None);
        assert_eq!(signs.tool(SESSION, None), Some(at("a")));
    }

    #[test]
    fn sessions_are_independent_and_bounded() {
        let mut signs = Signs::default();
        for session in 0..600 {
            signs.start(second(0), SessionId::new(session), at("a"));
        }
        assert_eq!(signs.shown.len(), SESSIONS_MAX);
        signs.stop(SessionId::new(0));
        let (due, next) = signs.tick(second(4));
        assert_eq!((due.len(), next), (SESSIONS_MAX - 1, Some(second(8))));
        for id in 0..2_000 {
            signs.sending(second(5), OutboundId::new(id), &at("a"));
        }
        assert_eq!(signs.sending.len(), SENDING_MAX);
    }
}
