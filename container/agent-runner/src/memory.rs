//! State that outlives the process: `agent/session.json`.

use std::collections::BTreeMap;
use std::sync::Arc;

use hearth_wire::{SessionFile, WIRE_VERSION};

use crate::agent::AgentHalf;
use crate::stop::Error;

/// Key of the numbers that this incarnation may have used, as `<incarnation>:<first unused>`, stored beside the
/// providers. The host deletes answers after storing them, so their numbers would otherwise be unknown after a restart
/// of the same incarnation.
pub(crate) const NUMBERS: &str = "hearth-runner";

/// Continuations of the providers, and the reserved numbers.
#[derive(Debug)]
pub(crate) struct Memory {
    agent: Arc<AgentHalf>,
    incarnation: u32,
    epoch: u32,
    continuations: BTreeMap<String, String>,
    unsaved: bool,
}

impl Memory {
    /// Loads the state. Continuations of an earlier epoch of the session are dropped, but the numbers are kept.
    pub(crate) fn load(agent: Arc<AgentHalf>, incarnation: u32, epoch: u32) -> Self {
        let (known, mut continuations) =
            agent.last_session().map(|session| (session.epoch, session.continuations)).unwrap_or_default();
        if known != epoch {
            continuations.retain(|name, _| name == NUMBERS);
        }
        Self { agent, incarnation, epoch, continuations, unsaved: false }
    }

    /// A provider's continuation.
    pub(crate) fn continuation(&self, provider: &str) -> Option<&str> {
        self.continuations.get(provider).map(String::as_str)
    }

    /// Stores a provider's continuation; `None` means a new conversation.
    pub(crate) fn remember(&mut self, provider: &str, continuation: Option<&str>) -> Result<(), Error> {
        if self.continuation(provider) == continuation {
            return Ok(());
        }
        match continuation {
            Some(value) => self.continuations.insert(provider.to_owned(), value.to_owned()),
            None => self.continuations.remove(provider),
        };
        self.unsaved = true;
        self.flush()
    }

    /// Forgets the continuations of all providers.
    pub(crate) fn forget(&mut self) -> Result<(), Error> {
        let before = self.continuations.len();
        self.continuations.retain(|name, _| name == NUMBERS);
        self.unsaved |= self.continuations.len() != before;
        self.flush()
    }

    /// Writes unsaved changes. On a full disk they stay unsaved: a continuation is worth less than the turn.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        if !self.unsaved {
            return Ok(());
        }
        match self.save() {
            Err(error) if error.is_full_disk() => Ok(()),
            saved => {
                self.unsaved = saved.is_err();
                saved
            }
        }
    }

    /// The first number that this incarnation cannot have used before a restart.
    pub(crate) fn reserved_numbers(&self) -> Option<u64> {
        let (incarnation, number) = self.continuation(NUMBERS)?.split_once(':')?;
        let mine = incarnation.parse() == Ok(self.incarnation);
        if mine { number.parse().ok() } else { None }
    }

    /// Records that numbers below `first_unused` may be used from now on.
    pub(crate) fn reserve_numbers(&mut self, first_unused: u64) -> Result<(), Error> {
        self.remember(NUMBERS, Some(&format!("{}:{first_unused}", self.incarnation)))
    }

    fn save(&self) -> Result<(), Error> {
        self.agent.write_session(&SessionFile {
            v: WIRE_VERSION,
            incarnation: self.incarnation,
            epoch: self.epoch,
            continuations: self.continuations.clone(),
        })
    }
}
