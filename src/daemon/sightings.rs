//! What was seen of live mailboxes and not told yet, and which of them nobody has come to look at.

use std::collections::HashMap;

use crate::model::id::SessionId;
use crate::model::mailbox::{Beat, Observation, ObservedState};

/// Between the looks at mailboxes and the sweeps that are told of them.
#[derive(Debug, Default)]
pub(super) struct Sightings {
    /// What is new, at most one for each session.
    news: HashMap<SessionId, Observation>,
    /// Sessions that a look was asked for and did not end since, and their incarnations.
    unseen: HashMap<SessionId, u32>,
}

impl Sightings {
    /// A look at a session is asked for.
    pub(super) fn expect(&mut self, session: SessionId, incarnation: u32) {
        self.unseen.insert(session, incarnation);
    }

    /// A look has ended.
    pub(super) fn looked(&mut self, session: SessionId, news: Option<Observation>) {
        self.unseen.remove(&session);
        if let Some(later) = news {
            self.join(later, joined);
        }
    }

    /// There is nothing to look at any more, or not yet.
    pub(super) fn forget(&mut self, session: SessionId) {
        self.unseen.remove(&session);
    }

    /// What a sweep is told: what is new, and which looks that an earlier one asked for are not over.
    pub(super) fn take(&mut self) -> Vec<Observation> {
        let mut told: Vec<_> = self.news.drain().map(|(_, news)| news).collect();
        let unseen = |(session, incarnation): (&SessionId, &u32)| Observation {
            session: *session,
            incarnation: *incarnation,
            beat: Beat::Unseen,
            state: None,
        };
        told.extend(self.unseen.iter().map(unseen));
        told
    }

    /// A sweep that was told this did not come about: the next one is told.
    pub(super) fn give_back(&mut self, told: Vec<Observation>) {
        for earlier in told.into_iter().filter(|told| told.beat != Beat::Unseen) {
            self.join(earlier, |later, earlier| joined(earlier, later));
        }
    }

    fn join(&mut self, news: Observation, join: impl FnOnce(Observation, Observation) -> Observation) {
        let session = news.session;
        let both = match self.news.remove(&session) {
            Some(known) => join(known, news),
            None => news,
        };
        self.news.insert(session, both);
    }
}

/// Two observations of a session in one. What another incarnation did does not matter any more.
fn joined(earlier: Observation, later: Observation) -> Observation {
    if earlier.incarnation != later.incarnation {
        return if earlier.incarnation < later.incarnation { later } else { earlier };
    }
    let beat = if earlier.beat == Beat::New { earlier.beat } else { later.beat };
    let state = match (earlier.state, later.state) {
        (Some(before), Some(after)) if before.progress && !after.progress => {
            Some(ObservedState { progress: true, about: before.about, ..after })
        }
        (before, after) => after.or(before),
    };
    Observation { beat, state, ..later }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::incarnation::ToolUse;

    const S: SessionId = SessionId::new(1);

    fn seen(incarnation: u32, beat: Beat, state: Option<ObservedState>) -> Observation {
        Observation { session: S, incarnation, beat, state }
    }

    fn state(tool: Option<&str>, progress: Option<u64>) -> Option<ObservedState> {
        let tool = tool.map(|name| ToolUse { name: name.to_owned(), timeout: None });
        Some(ObservedState { tool, progress: progress.is_some(), about: progress })
    }

    #[test]
    fn a_look_that_is_not_over_at_the_next_sweep_is_told() {
        let mut sightings = Sightings::default();
        assert_eq!(sightings.take(), []);
        sightings.expect(S, 1);
        assert_eq!(sightings.take(), [seen(1, Beat::Unseen, None)]);
        assert_eq!(sightings.take(), [seen(1, Beat::Unseen, None)], "as long as it is not over");
        sightings.looked(S, Some(seen(1, Beat::New, None)));
        assert_eq!(sightings.take(), [seen(1, Beat::New, None)]);
        sightings.expect(S, 2);
        sightings.looked(S, None);
        assert_eq!(sightings.take(), []);
        sightings.expect(S, 3);
        sightings.forget(S);
        assert_eq!(sightings.take(), []);
    }

    #[test]
    fn what_a_failed_sweep_was_told_is_told_again() {
        let mut sightings = Sightings::default();
        sightings.looked(S, Some(seen(1, Beat::New, state(None, Some(2)))));
        let told = sightings.take();
        sightings.looked(S, Some(seen(1, Beat::None, state(Some("Bash"), None))));
        sightings.give_back(told);
        sightings.give_back(vec![seen(1, Beat::Unseen, None)]);
        let mut both = state(Some("Bash"), Some(2));
        assert_eq!(sightings.take(), [seen(1, Beat::New, both.take())], "the newest tool, and that something was done");
        assert_eq!(sightings.take(), []);
        sightings.looked(S, Some(seen(2, Beat::None, state(None, Some(4)))));
        sightings.give_back(vec![seen(1, Beat::New, state(None, Some(2)))]);
        assert_eq!(sightings.take(), [seen(2, Beat::None, state(None, Some(4)))], "an older one is over");
    }
}
