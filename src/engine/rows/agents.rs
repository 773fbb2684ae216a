//! Agents: look-ups, time zone and launch configuration.

use crate::model::bound_secret::{self, BoundSecret};
use crate::model::budget::Fallback;
use crate::model::entity::{Agent, AgentSettings, Folder};
use crate::model::id::{AgentId, SessionId};
use crate::model::incarnation::SpecDigest;
use crate::model::session::ChatSession;
use crate::rows::session_providers;
use crate::rules::{launch_spec, texts};
use crate::state::{Basis, Read, Tables, Text};
use crate::time::zone::Zone;
use crate::tx::Tx;
use crate::{Result, readable};
use std::borrow::Cow;
use std::sync::Arc;

/// Whether an agent was removed.
pub(crate) fn is_removed(tx: &Tx<'_, '_>, agent: AgentId) -> Result<bool> {
    Ok(tx.db.agents.get(tx, &agent)?.is_none_or(|agent| agent.archived.is_some()))
}

/// An agent, read once for inputs that are committed together.
pub(crate) fn known(tx: &Tx<'_, '_>, id: AgentId) -> Result<Arc<Agent>> {
    tx.once(Basis::Decisions, &id, || tx.db.agents.require(tx, &id))
}

/// What a session's next incarnation has besides the settings of its agent.
pub(crate) struct LaunchConfig {
    /// Digest of all of it.
    pub(crate) digest: SpecDigest,
    /// The configured image.
    pub(crate) image: Option<String>,
    /// The bound secrets that its agent uses.
    pub(crate) secrets: Vec<BoundSecret>,
}

/// What a session's next incarnation has besides the settings of its agent.
pub(crate) fn of(tx: &Tx<'_, '_>, id: SessionId, session: &ChatSession, agent: &Agent) -> Result<LaunchConfig> {
    let installation = tx.db.settings.get(tx, &())?.unwrap_or_default();
    let settings = settings_in(tx.db, tx, id, session, agent)?;
    let digest = launch_spec::digest(session.epoch, &settings, &installation);
    let secrets = bound_secret::used(&settings.secrets, &installation.secrets);
    Ok(LaunchConfig { digest, image: installation.image, secrets })
}

/// The settings of an agent in one of its sessions: what people chose for the session, else the agent's own. A fallback
/// that drives the session has its own program and model.
pub(crate) fn settings_in<'a>(
    db: &Tables,
    txn: &Read<'_>,
    id: SessionId,
    session: &ChatSession,
    agent: &'a Agent,
) -> Result<Cow<'a, AgentSettings>> {
    let providers = session_providers::of(db, txn, id)?;
    settings_with(db, txn, id, session, agent, providers.fallback())
}

/// Likewise, if this fallback drives the session, or the agent's own provider.
pub(crate) fn settings_with<'a>(
    db: &Tables,
    txn: &Read<'_>,
    id: SessionId,
    session: &ChatSession,
    agent: &'a Agent,
    fallback: Option<&Fallback>,
) -> Result<Cow<'a, AgentSettings>> {
    let mut settings = Cow::Borrowed(&agent.settings);
    match (fallback, session.provider) {
        (Some(fallback), _) => settings = Cow::Owned(fallback.settings(&agent.settings)),
        (None, Some(provider)) => settings.to_mut().provider = provider,
        (None, None) => {}
    }
    let Some(chosen) = readable(db.session_settings.get(txn, &id))? else { return Ok(settings) };
    // These are names of the agent's own provider.
    let of_own = fallback.is_none();
    if chosen.model.is_some() && of_own {
        settings.to_mut().model = chosen.model;
    }
    if chosen.effort.is_some() && of_own {
        settings.to_mut().effort = chosen.effort;
    }
    if let Some(verbosity) = chosen.verbosity {
        settings.to_mut().verbosity = verbosity;
    }
    Ok(settings)
}

/// The time zone configured for an agent, if any.
pub(crate) fn timezone(db: &Tables, txn: &Read<'_>, agent: &Agent) -> Result<Option<String>> {
    match &agent.settings.timezone {
        Some(zone) => Ok(Some(zone.clone())),
        None => Ok(db.settings.get(txn, &())?.and_then(|settings| settings.timezone)),
    }
}

/// The error text for an unknown agent.
pub(crate) fn missing(folder: &Folder) -> String {
    texts::missing("agent", folder)
}

/// An agent that is not archived, by its folder.
pub(crate) fn find(tx: &Tx<'_, '_>, folder: &Folder) -> Result<Option<(AgentId, Agent)>> {
    let Some(id) = tx.db.agents_by_folder.get(tx, &Text::from(folder))? else { return Ok(None) };
    Ok(Some((id, tx.db.agents.require(tx, &id)?)))
}

/// All agents with readable rows, including removed ones.
pub(crate) fn all(tx: &Tx<'_, '_>) -> Result<Vec<(AgentId, Agent)>> {
    tx.db.agents.iter(tx)?.filter_map(|row| readable(row.map(Some)).transpose()).collect()
}

/// Agents without a time zone of their own.
pub(crate) fn in_the_common_zone(tx: &Tx<'_, '_>) -> Result<Vec<AgentId>> {
    let mut all = all(tx)?;
    all.retain(|(_, agent)| agent.archived.is_none() && agent.settings.timezone.is_none());
    Ok(all.into_iter().map(|(id, _)| id).collect())
}

/// The time zone of an agent: its own, the installation's, or the machine's.
pub(crate) fn zone_of(tx: &Tx<'_, '_>, agent: AgentId) -> Result<Zone> {
    let Some(agent) = tx.db.agents.get(tx, &agent)? else { return Ok(tx.cx.zone.clone()) };
    zone_for(tx, &agent)
}

/// Like [`zone_of`]. The configured value was checked. If it is not a time zone any more, the machine's applies.
fn zone_for(tx: &Tx<'_, '_>, agent: &Agent) -> Result<Zone> {
    let configured = timezone(tx.db, tx, agent)?;
    Ok(configured.and_then(|name| Zone::parse(&name).ok()).unwrap_or_else(|| tx.cx.zone.clone()))
}
