//! Which of its agent's providers drives a session, and what the others missed of the conversation.

use serde::{Deserialize, Serialize};

use super::agent::AgentSettings;
use super::budget::Fallback;
use super::fnv::fnv_1a;
use super::time::Timestamp;

/// What a provider does not know of a conversation, because another one answered meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// The provider; none is the agent's own.
    pub of: Option<Fallback>,
    /// The number of the last message that it can know.
    pub known: u64,
    /// Earlier messages that it does not know, because they had not ended.
    pub open: Vec<u64>,
}

impl Gap {
    /// Whether the provider does not know a message.
    #[must_use]
    pub fn misses(&self, number: u64) -> bool {
        number > self.known || self.open.contains(&number)
    }
}

/// Why a fallback drives a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandIn {
    /// The provider that is used instead.
    pub fallback: Fallback,
    /// Time since which it is.
    pub since: Timestamp,
    /// Why the provider before it takes no work.
    pub why: String,
}

/// The providers of a session, after one of them has stood in for another, or after a reset.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionProviders {
    /// The fallback that drives it; none is the agent's own provider.
    pub stand_in: Option<StandIn>,
    /// What its providers missed. One that does not drive it and has no gap has never had a part in the conversation.
    pub gaps: Vec<Gap>,
    /// The number of the last message before the newest reset. No provider is told earlier ones.
    pub reset: u64,
}

impl SessionProviders {
    /// The fallback that drives the session; none is the agent's own provider.
    #[must_use]
    pub fn fallback(&self) -> Option<&Fallback> {
        self.stand_in.as_ref().map(|stand_in| &stand_in.fallback)
    }

    /// What the provider that drives the session missed.
    #[must_use]
    pub fn gap(&self) -> Option<&Gap> {
        self.gaps.iter().find(|gap| gap.of.as_ref() == self.fallback())
    }

    /// Lets another provider drive the session. The one before it knows the messages up to `known`, without the `open`
    /// ones. Gaps of providers that the agent does not have any more are forgotten.
    pub fn switch(&mut self, to: Option<StandIn>, listed: &[Fallback], known: u64, open: Vec<u64>) {
        let before = std::mem::replace(&mut self.stand_in, to).map(|stand_in| stand_in.fallback);
        self.add(Gap { of: before, known, open });
        self.add(Gap { of: self.fallback().cloned(), known: self.reset, open: Vec::new() });
        self.gaps.retain(|gap| gap.of.as_ref().is_none_or(|of| listed.contains(of)));
    }

    /// An earlier gap of the same provider was never closed, so it is wider.
    fn add(&mut self, gap: Gap) {
        if self.gaps.iter().all(|known| known.of != gap.of) {
            self.gaps.push(gap);
        }
    }

    /// The current provider's turn succeeded: it has seen the whole conversation.
    pub fn catch_up(&mut self) {
        let of = self.fallback().cloned();
        self.gaps.retain(|gap| gap.of != of);
    }

    /// The conversation begins anew after the message with this number.
    pub fn begin_anew(&mut self, number: u64) {
        self.gaps.clear();
        self.reset = number;
    }
}

impl Fallback {
    /// The settings of its runs: its own program and model, and its own defaults for what depends on them.
    #[must_use]
    pub fn settings(&self, of: &AgentSettings) -> AgentSettings {
        let Self { provider, command, model } = self.clone();
        AgentSettings { provider, command, model, effort: None, mode: None, ..of.clone() }
    }

    /// The name under which the runner keeps its continuation: one that no other provider of the agent has.
    #[must_use]
    pub fn memory(&self) -> String {
        let digest = fnv_1a(format!("{self:?}").as_bytes());
        format!("{}-{digest:016x}", self.provider.as_str())
    }
}

impl std::fmt::Display for Fallback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.provider.as_str())?;
        self.model.as_ref().map_or(Ok(()), |model| write!(f, " with the model {model}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::entity::ProviderKind;

    fn stand_in(model: &str) -> StandIn {
        let fallback = Fallback { provider: ProviderKind::Claude, command: Vec::new(), model: Some(model.to_owned()) };
        StandIn { fallback, since: Timestamp::from_millis(0), why: "429".to_owned() }
    }

    fn misses(providers: &SessionProviders) -> Vec<u64> {
        let gap = providers.gap();
        (1..=12).filter(|number| gap.is_some_and(|gap| gap.misses(*number))).collect()
    }

    /// 4 waits while 6 is answered; then another provider takes over, and the first one returns.
    #[test]
    fn a_provider_misses_what_others_answered() {
        let (first, second) = (stand_in("a"), stand_in("b"));
        let listed = [first.fallback.clone(), second.fallback.clone()];
        let mut providers = SessionProviders::default();
        assert_eq!(misses(&providers), [0; 0]);
        providers.begin_anew(2);
        providers.switch(Some(first), &listed, 7, vec![4]);
        assert_eq!(misses(&providers), (3..=12).collect::<Vec<_>>(), "nothing from before the reset");
        // It took over and failed at once: it still misses the same, and so does the first one.
        providers.switch(Some(second), &listed, 7, vec![4]);
        providers.catch_up();
        assert_eq!(misses(&providers), [0; 0]);
        providers.switch(None, &listed, 10, vec![]);
        assert_eq!(misses(&providers), [4, 8, 9, 10, 11, 12]);
        providers.switch(Some(stand_in("a")), &listed, 10, vec![]);
        assert_eq!(misses(&providers), (3..=12).collect::<Vec<_>>());
        providers.switch(Some(stand_in("b")), &listed, 10, vec![]);
        assert_eq!(misses(&providers), [11, 12]);
    }

    #[test]
    fn what_an_agent_no_longer_lists_is_forgotten() {
        let mut providers = SessionProviders::default();
        providers.switch(Some(stand_in("a")), &[stand_in("a").fallback], 3, vec![]);
        providers.switch(None, &[], 5, vec![]);
        assert_eq!(providers.gaps.iter().map(|gap| gap.of.clone()).collect::<Vec<_>>(), [None]);
        providers.begin_anew(5);
        assert_eq!(providers, SessionProviders { reset: 5, ..SessionProviders::default() });
    }

    #[test]
    fn each_fallback_has_a_memory_of_its_own() {
        assert_ne!(stand_in("a").fallback.memory(), stand_in("b").fallback.memory());
    }
}
