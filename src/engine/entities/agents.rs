//! Agents: created with a workspace of their own, changed in place, archived when removed.

use crate::entities::change::{ChangeResult, ChangedAgents};
use crate::entities::{roles, threads, wirings};
use crate::lifecycle::{network, rate_limit};
use crate::model::effect::Effect;
use crate::model::entity::{Agent, AgentSettings, Folder, Origin};
use crate::model::id::AgentId;
use crate::model::incarnation::StopReason;
use crate::model::input::Continuation;
use crate::model::report::Action;
use crate::rows::{agents, host_grants, settings};
use crate::rules::launch_spec;
use crate::tx::Tx;
use crate::{Result, entities, lifecycle, rows, schedule};
use std::collections::BTreeSet;

/// Creates an agent or changes its settings. Live incarnations are told.
pub(crate) fn put(
    tx: &mut Tx<'_, '_>,
    folder: &Folder,
    settings: AgentSettings,
    origin: Origin,
    after: &mut ChangedAgents,
) -> Result<ChangeResult> {
    let entity = format!("agent {folder}");
    let Some((id, mut agent)) = agents::find(tx, folder)? else {
        insert(tx, folder, settings, origin)?;
        return Ok(Ok(vec![entities::change::report(entity, Action::Created)]));
    };
    if agent.settings == settings {
        return Ok(Ok(vec![entities::change::report(entity, Action::Unchanged)]));
    }
    let installed = tx.db.settings.get(tx, &())?.unwrap_or_default();
    if launch_spec::differ(&agent.settings, &installed, &settings, &installed) {
        after.renewed.insert(id);
    }
    let lived = agents::zone_of(tx, id)?;
    let moved = agent.settings.timezone != settings.timezone;
    let reach = |settings: &AgentSettings| (settings.network, settings.allow.clone(), settings.deny.clone());
    let reaches_other = reach(&agent.settings) != reach(&settings);
    agent.settings = settings;
    tx.db.agents.put(tx, &id, &agent)?;
    if reaches_other {
        network::renew(tx, id)?;
    }
    if moved {
        schedule::change::renew_zone(tx, id, &lived)?;
    }
    after.changed.insert(id);
    Ok(Ok(vec![entities::change::report(entity, Action::Updated)]))
}

/// Archives an agent. From this transaction on it receives, starts and exports nothing. Its waiting messages are
/// dropped in further inputs. Its folder stays.
pub(crate) fn remove(tx: &mut Tx<'_, '_>, folder: &Folder) -> Result<ChangeResult> {
    let Some((id, mut agent)) = agents::find(tx, folder)? else {
        return Ok(Err(agents::missing(folder)));
    };
    agent.archived = Some(tx.now.wall);
    tx.db.agents.put(tx, &id, &agent)?;
    rate_limit::forget(tx, id)?;
    tx.db.frozen_agents.delete(tx, &id)?;
    host_grants::forget_agent(tx, id)?;
    roles::forget_agent(tx, id)?;
    settings::forget_default(tx, folder)?;
    // Destinations first, because removing a wiring searches the destinations that are left.
    for (key, _) in tx.db.destinations.collect_prefix(tx, &id, usize::MAX)? {
        tx.db.destinations.delete(tx, &key)?;
    }
    wirings::remove_all_of(tx, id)?;
    threads::forget_agent(tx, id)?;
    schedule::change::forget_agent(tx, id)?;
    for live in lifecycle::live_of(tx, |agent| agent == id)? {
        lifecycle::stop(tx, live, StopReason::AgentRemoved)?;
    }
    tx.effects.push(Effect::Continue(Continuation::DropMessagesOf(id)));
    Ok(Ok(vec![entities::change::report(format!("agent {folder}"), Action::Removed)]))
}

/// Archives an agent whose directory will be removed. Refused while an incarnation of it lives. An archived agent stays
/// as it is, so that an interrupted removal can be repeated.
pub(crate) fn purge(tx: &mut Tx<'_, '_>, folder: &Folder) -> Result<ChangeResult> {
    let mut ever = BTreeSet::new();
    for (id, agent) in tx.db.agents.collect_range(tx, .., usize::MAX)? {
        if agent.folder == *folder {
            ever.insert(id);
        }
    }
    for (session, number) in tx.db.live_incarnations.collect_range(tx, .., usize::MAX)? {
        if rows::sessions::load(tx, session)?.is_some_and(|row| ever.contains(&row.agent)) {
            return Ok(Err(format!(
                "run {session}.{number} of agent {folder} has not ended, so its directory stays and nothing was changed; \
                 `hearth agents remove {folder}` ends it, add --purge when it is gone"
            )));
        }
    }
    match agents::find(tx, folder)? {
        Some(_) => remove(tx, folder),
        None if ever.is_empty() => Ok(Err(agents::missing(folder))),
        None => Ok(Ok(vec![entities::change::report(format!("agent {folder}"), Action::Unchanged)])),
    }
}

/// Stores a new agent with its workspace.
pub(crate) fn insert(tx: &mut Tx<'_, '_>, folder: &Folder, settings: AgentSettings, origin: Origin) -> Result<AgentId> {
    let id = tx.db.allocate(tx)?;
    let agent =
        Agent { folder: folder.clone(), settings, origin, created: tx.now.wall, archived: None, installs: Vec::new() };
    tx.db.agents.put(tx, &id, &agent)?;
    entities::sessions::make_workspace(tx, id, folder)?;
    Ok(id)
}

#[cfg(test)]
mod tests {
    use crate::entities::agents::*;
    use crate::scene::{Scene, folder, settings};

    #[test]
    fn what_was_removed_can_still_be_purged() {
        let scene = Scene::new();
        let purge = |name: &str| scene.tell(|tx, _| purge(tx, &folder(name)));
        assert_eq!(purge("a").unwrap(), "removed agent a");
        assert_eq!(purge("a").unwrap(), "unchanged agent a", "an interrupted removal is repeated");
        assert!(purge("z").unwrap_err().starts_with("agent z not found"));
        scene.done(|tx, after| put(tx, &folder("a"), settings(), Origin::Runtime, after));
        assert_eq!(purge("a").unwrap(), "removed agent a", "another one of the same name");
        assert_eq!(scene.keys("agents_by_folder"), ["b"]);
        assert!(scene.keys("wirings").is_empty());
    }
}
