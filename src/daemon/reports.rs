//! Passes what channels report of deliveries on to the engine.
//!
//! A channel that is not connected reports that it took no delivery, and the message waits until the channel is
//! reachable. Both reports come from different threads: a channel may announce that it is reachable between the moment
//! at which an attempt found it away and the moment at which that attempt is reported. The announcement is then before
//! the outcome in the queue, finds no waiting message, and is used up. [`DeliveryReports`] repeats it in this case.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::engine_thread::{Inbox, Item};
use crate::clock::Clock;
use crate::model::address::{Address, ChannelName};
use crate::model::delivery::{Attempt, DeliveryResult};
use crate::model::id::OutboundId;
use crate::model::input::Input;
use crate::model::time::Awake;

/// The way of outcomes and announcements to the engine. Adapters announce after they changed their state.
pub(super) struct DeliveryReports {
    inbox: Arc<Inbox>,
    clock: Clock,
    /// When each channel was last announced as reachable.
    announced: Mutex<BTreeMap<ChannelName, Awake>>,
}

impl DeliveryReports {
    pub(super) fn new(inbox: &Arc<Inbox>, clock: &Clock) -> Self {
        Self { inbox: Arc::clone(inbox), clock: clock.clone(), announced: Mutex::default() }
    }

    /// The queue that it passes them to.
    pub(super) const fn inbox(&self) -> &Arc<Inbox> {
        &self.inbox
    }

    /// Passes on the outcome of an attempt.
    pub(super) fn outcome(&self, channel: &ChannelName, id: OutboundId, attempt: Attempt, result: DeliveryResult) {
        let waits = matches!(result, DeliveryResult::NoAdapter | DeliveryResult::Absent);
        self.inbox.push(Item::of(Input::Delivered(id, attempt, result)));
        if waits && self.was_announced_since(channel, attempt.since) {
            self.inbox.push(Item::of(Input::Reachable(channel.clone(), None)));
        }
    }

    /// Announces that an address, or a whole channel, is reachable.
    pub(super) fn reachable(&self, channel: &ChannelName, address: Option<Address>) {
        // Before it is queued: an outcome that comes behind it has to see it.
        let now = self.clock.now().awake;
        self.announced.lock().unwrap_or_else(PoisonError::into_inner).insert(channel.clone(), now);
        self.inbox.push(Item::of(Input::Reachable(channel.clone(), address)));
    }

    fn was_announced_since(&self, channel: &ChannelName, began: Awake) -> bool {
        let announced = self.announced.lock().unwrap_or_else(PoisonError::into_inner);
        announced.get(channel).is_some_and(|at| began <= *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order in which inputs are queued when an attempt finds its channel away.
    fn queued(began: u64, announced: bool, result: DeliveryResult) -> Vec<bool> {
        let inbox = Arc::new(Inbox::default());
        let reports = DeliveryReports::new(&inbox, &Clock::start(1));
        let channel = ChannelName::new("net").unwrap();
        if announced {
            reports.reachable(&channel, None);
        }
        reports.reachable(&ChannelName::new("other").unwrap(), None);
        let attempt = Attempt { number: 1, since: Awake::new(1, began) };
        reports.outcome(&channel, OutboundId::new(7), attempt, result);
        let inputs = inbox.take(9).unwrap().into_iter().map(|item| item.submission.input);
        inputs
            .filter(|input| !matches!(input, Input::Reachable(name, _) if *name != channel))
            .map(|input| matches!(input, Input::Reachable(..)))
            .collect()
    }

    #[test]
    fn an_announcement_that_was_made_during_an_attempt_is_repeated_behind_its_outcome() {
        let (outcome, announcement) = (false, true);
        for result in [DeliveryResult::NoAdapter, DeliveryResult::Absent] {
            assert_eq!(queued(0, true, result.clone()), [announcement, outcome, announcement], "{result:?}");
            assert_eq!(queued(u64::MAX, true, result.clone()), [announcement, outcome], "it was reachable before");
            assert_eq!(queued(0, false, result), [outcome]);
        }
        let delivered = DeliveryResult::Delivered { platform_message: None };
        assert_eq!(queued(0, true, delivered), [announcement, outcome]);
    }
}
