//! The secrets of a channel: resolved when it connects, and compared later. Their values are only in memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::daemon::runtime;
use crate::gateway::opened::KnownSecrets;
use crate::model::address::ChannelName;
use crate::model::channel::ChannelInstance;
use crate::runtime::process::resolve_reference;

/// Time limit for all secrets of a channel. A command has a shorter one; a file may be on a file system that hangs.
const LOOKUP: Duration = Duration::from_secs(15);

/// What the references of a channel resolve to.
#[derive(PartialEq, Eq)]
pub(super) struct Secrets {
    pub(super) token: Option<String>,
    pub(super) secret: Option<String>,
}

impl Secrets {
    /// Resolves the references of a channel. This may run commands; they are killed if the future is dropped.
    ///
    /// # Errors
    /// Why one of them has no value, for people.
    pub(super) async fn resolve(channel: &ChannelInstance) -> Result<Self, String> {
        let both =
            async { tokio::try_join!(value("token", channel.token.clone()), value("secret", channel.secret.clone())) };
        let late = |_| format!("its secrets could not be read within {} s", LOOKUP.as_secs());
        let (token, secret) = tokio::time::timeout(LOOKUP, both).await.map_err(late)??;
        Ok(Self { token, secret })
    }

    /// Adds the values to those that agents must not send anywhere.
    pub(super) fn tell(&self, channel: &ChannelName, known: &KnownSecrets) {
        for (what, value) in [("token", &self.token), ("secret", &self.secret)] {
            if let Some(value) = value {
                known.add(&format!("channels.{channel}.{what}"), value.as_bytes());
            }
        }
    }

    /// Those that there are, by name.
    pub(super) fn by_name(&self) -> BTreeMap<String, String> {
        let both = [("token", &self.token), ("secret", &self.secret)];
        both.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?))).collect()
    }

    /// Name of the first secret that differs.
    pub(super) fn differs_from(&self, other: &Self) -> Option<&'static str> {
        match (self.token == other.token, self.secret == other.secret) {
            (false, _) => Some("token"),
            (true, false) => Some("secret"),
            (true, true) => None,
        }
    }
}

async fn value(what: &'static str, reference: Option<String>) -> Result<Option<String>, String> {
    let Some(reference) = reference else { return Ok(None) };
    // Dropped with this future.
    let waiting = Arc::new(());
    let waiter = Arc::downgrade(&waiting);
    let find = move || resolve_reference(&reference, &runtime::lookup(), &|| waiter.strong_count() == 0);
    let found = tokio::task::spawn_blocking(find).await.map_err(|error| error.to_string())?;
    let value = found.map_err(|error| format!("its {what} was not found: {error}"))?;
    value.into_string().map(Some).map_err(|_| format!("its {what} is not text"))
}
