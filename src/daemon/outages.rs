//! Channels that are not connected for a while: the owner is told.

use std::collections::BTreeMap;

use super::Daemon;
use super::channels::LineStatus;
use super::engine_thread::Item;
use crate::channel::health::LineState;
use crate::model::address::ChannelName;
use crate::model::input::Input;
use crate::model::time::{Awake, Millis};

/// How long a channel has to be down before the owner is told. Most outages are over sooner.
const PATIENCE: Millis = Millis::minutes(3);

/// Channels that are not connected.
#[derive(Debug, Default)]
pub(super) struct Outages(BTreeMap<ChannelName, Outage>);

#[derive(Debug)]
struct Outage {
    since: Awake,
    told: bool,
}

impl Outages {
    /// What the owner has to be told: that a channel is down and why, or that it is up again.
    fn look(&mut self, channels: &[LineStatus], now: Awake) -> Vec<(ChannelName, Option<String>)> {
        self.0.retain(|name, _| channels.iter().any(|channel| channel.name == *name));
        let mut news = Vec::new();
        for LineStatus { name, health, .. } in channels {
            if health.state == LineState::Up {
                news.extend(self.0.remove(name).filter(|outage| outage.told).map(|_| (name.clone(), None)));
                continue;
            }
            let outage = self.0.entry(name.clone()).or_insert(Outage { since: now, told: false });
            if !outage.told && now.since(outage.since) >= PATIENCE {
                outage.told = true;
                let why = health.failure.clone().unwrap_or_else(|| "it does not answer".to_owned());
                news.push((name.clone(), Some(why)));
            }
        }
        news
    }
}

impl Daemon {
    /// Tells the engine which channels have been down for a while, and which are up again.
    pub(super) fn look_at_channels(&self, outages: &mut Outages) {
        let (channels, now) = (self.channels.status(), self.clock.now().awake);
        for (channel, down) in outages.look(&channels, now) {
            self.inbox.push(Item::of(Input::ChannelState(channel, down)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::health::Health;
    use crate::model::channel::ChannelKind;

    #[test]
    fn an_outage_is_told_once_after_a_while_and_so_is_its_end() {
        let name = ChannelName::new("net").unwrap();
        let mut outages = Outages::default();
        let mut look = |state: LineState, minutes: u64| {
            let health = Health { failure: Some("it is gone".to_owned()), ..Health::of(state) };
            let status = LineStatus { name: name.clone(), kind: ChannelKind::Bridge, health };
            outages.look(&[status], Awake::new(1, Millis::minutes(minutes).get()))
        };
        let (down, up) = (vec![(name.clone(), Some("it is gone".to_owned()))], vec![(name.clone(), None)]);
        for (state, minutes, expected) in [
            (LineState::Connecting, 0, vec![]),
            (LineState::Up, 2, vec![]),
            (LineState::Down, 3, vec![]),
            (LineState::Connecting, 5, vec![]),
            (LineState::Down, 6, down.clone()),
            (LineState::Refused, 60, vec![]),
            (LineState::Up, 61, up),
            (LineState::Up, 62, vec![]),
            (LineState::Down, 63, vec![]),
            (LineState::Up, 64, vec![]),
        ] {
            assert_eq!(look(state, minutes), expected, "minute {minutes}");
        }
        assert_eq!(look(LineState::Down, 70), []);
        assert_eq!(look(LineState::Down, 73), down);
    }

    #[test]
    fn a_channel_that_was_removed_is_forgotten() {
        let mut outages = Outages::default();
        let health = Health::of(LineState::Down);
        let status = LineStatus { name: ChannelName::new("net").unwrap(), kind: ChannelKind::Bridge, health };
        let at = |minutes| Awake::new(1, Millis::minutes(minutes).get());
        outages.look(std::slice::from_ref(&status), at(0));
        assert!(outages.look(&[], at(1)).is_empty() && outages.0.is_empty());
        assert!(outages.look(&[status], at(9)).is_empty());
    }
}
