//! Observations of live mailboxes between two sweeps: state changes, the newest heartbeats, and unfinished looks.
//!
//! Heartbeats are kept in memory only, so that they cost no commits.

use std::collections::HashMap;

use crate::model::id::SessionId;
use crate::model::mailbox::{Beat, Observation, ObservedState};
use crate::model::time::{Awake, Millis};

/// Buffers observations between mailbox looks and sweeps.
#[derive(Debug, Default)]
pub(super) struct Heartbeats {
    /// Live runners whose mailbox was read at least once.
    runners: HashMap<SessionId, Runner>,
    /// Sessions with a requested look that has not ended, and their incarnations.
    unseen: HashMap<SessionId, u32>,
}

/// A live runner.
#[derive(Debug)]
struct Runner {
    incarnation: u32,
    /// Its newest heartbeat, if there was one.
    heart: Option<Heart>,
    /// When the last look ended. Silence is measured up to this moment, because a daemon that did not look cannot know.
    looked: Awake,
    /// A change of its state file that was not passed to a sweep yet.
    state: Option<ObservedState>,
}

#[derive(Debug, Clone, Copy)]
struct Heart {
    /// When the beat was seen.
    at: Awake,
    /// How long the runner rests after this beat.
    rest: Millis,
}

impl Heartbeats {
    /// A look at a session was requested.
    pub(super) fn expect(&mut self, session: SessionId, incarnation: u32) {
        self.unseen.insert(session, incarnation);
    }

    /// A look has ended. Forgets a session that is not live.
    pub(super) fn looked(&mut self, session: SessionId, live: Option<u32>, news: Option<Observation>, now: Awake) {
        self.unseen.remove(&session);
        self.note(session, live, news, now);
    }

    /// A message was written for the runner of a session. If the runner rests, its rest ends now: the next heartbeat is
    /// due after the usual interval.
    pub(super) fn brought(&mut self, session: SessionId, live: Option<u32>, news: Option<Observation>, now: Awake) {
        if let Some(heart) = self.note(session, live, news, now).and_then(|runner| runner.heart.as_mut())
            && heart.rest > Millis::ZERO
        {
            *heart = Heart { at: now, rest: Millis::ZERO };
        }
    }

    /// Forgets a session without a live mailbox.
    pub(super) fn forget(&mut self, session: SessionId) {
        self.unseen.remove(&session);
        self.runners.remove(&session);
    }

    /// Observations for a sweep: one for each runner, and one for each look that an earlier sweep requested and that
    /// has not ended.
    pub(super) fn take(&mut self) -> Vec<Observation> {
        let mut told: Vec<_> = self.runners.iter_mut().map(|(session, runner)| runner.tell(*session)).collect();
        let unseen = |(session, incarnation): (&SessionId, &u32)| Observation {
            session: *session,
            incarnation: *incarnation,
            beat: Beat::Unseen,
            state: None,
        };
        told.extend(self.unseen.iter().map(unseen));
        told
    }

    /// Returns the observations of a failed sweep, for the next one.
    pub(super) fn give_back(&mut self, told: Vec<Observation>) {
        for Observation { session, incarnation, state, .. } in told {
            if let Some(runner) = self.runners.get_mut(&session).filter(|runner| runner.incarnation == incarnation) {
                runner.state = joined(state, runner.state.take());
            }
        }
    }

    fn note(
        &mut self,
        session: SessionId,
        live: Option<u32>,
        news: Option<Observation>,
        now: Awake,
    ) -> Option<&mut Runner> {
        let Some(incarnation) = live else {
            self.runners.remove(&session);
            return None;
        };
        let new = || Runner { incarnation, heart: None, looked: now, state: None };
        let runner = self.runners.entry(session).or_insert_with(new);
        if runner.incarnation != incarnation {
            *runner = new();
        }
        runner.looked = now;
        if let Some(news) = news.filter(|news| news.incarnation == incarnation) {
            runner.take_in(news);
        }
        Some(runner)
    }
}

impl Runner {
    fn take_in(&mut self, news: Observation) {
        if let Beat::Heard { rest, .. } = news.beat {
            self.heart = Some(Heart { at: self.looked, rest });
        }
        self.state = joined(self.state.take(), news.state);
    }

    fn tell(&mut self, session: SessionId) -> Observation {
        let heard = |heart: Heart| Beat::Heard { ago: self.looked.since(heart.at), rest: heart.rest };
        let beat = self.heart.map_or(Beat::None, heard);
        Observation { session, incarnation: self.incarnation, beat, state: self.state.take() }
    }
}

/// Merges the changes that two looks at a state file found.
fn joined(earlier: Option<ObservedState>, later: Option<ObservedState>) -> Option<ObservedState> {
    match (earlier, later) {
        (Some(before), Some(after)) if before.progress && !after.progress => {
            Some(ObservedState { progress: true, about: before.about, ..after })
        }
        (before, after) => after.or(before),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::incarnation::ToolUse;

    const S: SessionId = SessionId::new(1);
    const FIRST: Option<u32> = Some(1);
    const REST: Millis = Millis::minutes(10);

    fn at(seconds: u64) -> Awake {
        Awake::new(1, seconds * 1_000)
    }

    fn seen(incarnation: u32, beat: Beat, state: Option<ObservedState>) -> Observation {
        Observation { session: S, incarnation, beat, state }
    }

    fn heard(seconds_ago: u64) -> Observation {
        seen(1, Beat::Heard { ago: Millis::seconds(seconds_ago), rest: Millis::ZERO }, None)
    }

    fn state(tool: Option<&str>, progress: Option<u64>) -> Option<ObservedState> {
        let tool = tool.map(|name| ToolUse { name: name.to_owned(), timeout: None });
        Some(ObservedState { tool, progress: progress.is_some(), about: progress })
    }

    #[test]
    fn a_look_that_is_not_over_at_the_next_sweep_is_told() {
        let mut heartbeats = Heartbeats::default();
        assert_eq!(heartbeats.take(), []);
        heartbeats.expect(S, 1);
        assert_eq!(heartbeats.take(), [seen(1, Beat::Unseen, None)]);
        assert_eq!(heartbeats.take(), [seen(1, Beat::Unseen, None)], "as long as it is not over");
        heartbeats.looked(S, FIRST, Some(seen(1, Beat::NOW, None)), at(1));
        assert_eq!(heartbeats.take(), [seen(1, Beat::NOW, None)]);
        heartbeats.expect(S, 2);
        heartbeats.looked(S, Some(2), None, at(2));
        assert_eq!(heartbeats.take(), [seen(2, Beat::None, None)], "another one has not beaten");
        heartbeats.expect(S, 3);
        heartbeats.forget(S);
        assert_eq!(heartbeats.take(), []);
        heartbeats.looked(S, None, None, at(3));
        assert_eq!(heartbeats.take(), [], "what is not live is not remembered");
    }

    #[test]
    fn every_sweep_is_told_how_old_the_last_beat_was_at_the_last_look() {
        let mut heartbeats = Heartbeats::default();
        heartbeats.looked(S, FIRST, Some(seen(1, Beat::NOW, None)), at(10));
        for seconds in [11, 30, 50] {
            heartbeats.looked(S, FIRST, None, at(seconds));
            assert_eq!(heartbeats.take(), [heard(seconds - 10)]);
            assert_eq!(heartbeats.take(), [heard(seconds - 10)], "without a look nothing is known of the time since");
        }
        heartbeats.looked(S, FIRST, Some(seen(1, Beat::NOW, None)), at(51));
        assert_eq!(heartbeats.take(), [heard(0)]);
    }

    #[test]
    fn a_message_ends_the_rest_of_its_runner() {
        let mut heartbeats = Heartbeats::default();
        let resting = |ago| seen(1, Beat::Heard { ago: Millis::seconds(ago), rest: REST }, None);
        heartbeats.looked(S, FIRST, Some(seen(1, Beat::resting(REST), None)), at(10));
        heartbeats.looked(S, FIRST, None, at(100));
        assert_eq!(heartbeats.take(), [resting(90)]);
        heartbeats.brought(S, FIRST, None, at(100));
        heartbeats.looked(S, FIRST, None, at(120));
        assert_eq!(heartbeats.take(), [heard(20)], "silence counts from the message");
        heartbeats.looked(S, FIRST, Some(seen(1, Beat::resting(REST), None)), at(121));
        assert_eq!(heartbeats.take(), [resting(0)], "it did its turn and rests again");
        // The heartbeat that began the rest was read only after the message arrived.
        heartbeats.brought(S, FIRST, Some(seen(1, Beat::resting(REST), None)), at(130));
        heartbeats.looked(S, FIRST, None, at(140));
        assert_eq!(heartbeats.take(), [heard(10)]);
        // A working runner gets no extra time from another message.
        heartbeats.looked(S, FIRST, Some(seen(1, Beat::NOW, None)), at(150));
        heartbeats.brought(S, FIRST, None, at(170));
        heartbeats.looked(S, FIRST, None, at(175));
        assert_eq!(heartbeats.take(), [heard(25)]);
    }

    #[test]
    fn what_a_failed_sweep_was_told_is_told_again() {
        let mut heartbeats = Heartbeats::default();
        heartbeats.looked(S, FIRST, Some(seen(1, Beat::NOW, state(None, Some(2)))), at(1));
        let told = heartbeats.take();
        heartbeats.looked(S, FIRST, Some(seen(1, Beat::None, state(Some("Bash"), None))), at(2));
        heartbeats.give_back(told);
        heartbeats.give_back(vec![seen(1, Beat::Unseen, None)]);
        let both = seen(1, heard(1).beat, state(Some("Bash"), Some(2)));
        assert_eq!(heartbeats.take(), [both], "the newest tool, and that something was done");
        assert_eq!(heartbeats.take(), [heard(1)]);
        heartbeats.looked(S, Some(2), Some(seen(2, Beat::None, state(None, Some(4)))), at(3));
        heartbeats.give_back(vec![seen(1, Beat::NOW, state(None, Some(2)))]);
        assert_eq!(heartbeats.take(), [seen(2, Beat::None, state(None, Some(4)))], "an older one is over");
    }
}
