//! Agents: made with a workspace of their own, changed in place, archived when removed.

use std::collections::BTreeSet;

use super::configure::{self, Aftermath, Made, report};
use super::export::Of;
use super::requests::replies;
use super::{Cx, Result, export, lifecycle, readable, rights, schedule, sessions, spec, threads, wirings};
use crate::model::effect::{Effect, Export};
use crate::model::entity::{Agent, AgentSettings, Folder, Origin};
use crate::model::id::AgentId;
use crate::model::incarnation::StopReason;
use crate::model::input::Continuation;
use crate::model::report::Action;
use crate::state::{Text, Write};

/// Makes an agent, or gives it other settings; incarnations that live are told.
pub(super) fn put(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (folder, settings): (&Folder, AgentSettings),
    origin: Origin,
    after: &mut Aftermath,
) -> Result<Made> {
    let entity = format!("agent {folder}");
    let Some((id, mut agent)) = find(cx, txn, folder)? else {
        insert(cx, txn, folder, settings, origin)?;
        return Ok(Ok(vec![report(entity, Action::Created)]));
    };
    if agent.settings == settings {
        return Ok(Ok(vec![report(entity, Action::Unchanged)]));
    }
    let installed = cx.db.settings.get(txn, &())?.unwrap_or_default();
    if spec::differ((&agent.settings, &installed), (&settings, &installed)) {
        after.renewed.insert(id);
    }
    let lived = schedule::zone_of(cx, txn, id)?;
    let moved = agent.settings.timezone != settings.timezone;
    agent.settings = settings;
    cx.db.agents.put(txn, &id, &agent)?;
    if moved {
        schedule::renew_zone(cx, txn, id, &lived)?;
    }
    after.changed.insert(id);
    Ok(Ok(vec![report(entity, Action::Updated)]))
}

/// Archives an agent: from this transaction on nothing routes to it, wakes it or is exported. What waited for it is
/// dropped in further inputs; its folder stays.
pub(super) fn remove(cx: &Cx<'_>, txn: &mut Write<'_>, folder: &Folder, effects: &mut Vec<Effect>) -> Result<Made> {
    let Some((id, mut agent)) = find(cx, txn, folder)? else {
        return Ok(Err(missing(folder)));
    };
    agent.archived = Some(cx.now.wall);
    cx.db.agents.put(txn, &id, &agent)?;
    cx.db.agents_by_folder.delete(txn, &Text::from(folder))?;
    cx.db.hold_offs.delete(txn, &id)?;
    rights::forget_agent(cx, txn, id)?;
    configure::forget_default(cx, txn, folder)?;
    // Destinations first: each wiring looks for its own among those that are left.
    for (key, _) in cx.db.destinations.collect_prefix(txn, &id, usize::MAX)? {
        cx.db.destinations.delete(txn, &key)?;
    }
    wirings::remove_all_of(cx, txn, id)?;
    threads::forget_agent(cx, txn, id)?;
    schedule::forget_agent(cx, txn, id)?;
    for live in lifecycle::living(cx, txn, |agent| agent == id)? {
        lifecycle::stop(cx, txn, live, StopReason::AgentRemoved, effects)?;
    }
    effects.push(Effect::Continue(Continuation::DropMessagesOf(id)));
    Ok(Ok(vec![report(format!("agent {folder}"), Action::Removed)]))
}

/// Archives an agent whose directory is going to be removed; nobody may work in it any more. One that is archived already
/// stays as it is, so that an interrupted removal can be repeated.
pub(super) fn purge(cx: &Cx<'_>, txn: &mut Write<'_>, folder: &Folder, effects: &mut Vec<Effect>) -> Result<Made> {
    let mut ever = BTreeSet::new();
    for (id, agent) in cx.db.agents.collect_range(txn, .., usize::MAX)? {
        if agent.folder == *folder {
            ever.insert(id);
        }
    }
    for (session, number) in cx.db.live.collect_range(txn, .., usize::MAX)? {
        if sessions::load(cx, txn, session)?.is_some_and(|row| ever.contains(&row.agent)) {
            return Ok(Err(format!(
                "incarnation {session}.{number} of agent {folder} still lives, so its directory stays and nothing was \
                 changed; `hearth agents remove {folder}` ends it, add --purge when it is gone"
            )));
        }
    }
    match find(cx, txn, folder)? {
        Some(_) => remove(cx, txn, folder, effects),
        None if ever.is_empty() => Ok(Err(missing(folder))),
        None => Ok(Ok(vec![report(format!("agent {folder}"), Action::Unchanged)])),
    }
}

/// That there is no such agent, and where to look.
pub(super) fn missing(folder: &Folder) -> String {
    configure::missing("agent", folder)
}

/// An agent that is not archived, by its folder.
pub(super) fn find(cx: &Cx<'_>, txn: &Write<'_>, folder: &Folder) -> Result<Option<(AgentId, Agent)>> {
    let Some(id) = cx.db.agents_by_folder.get(txn, &Text::from(folder))? else { return Ok(None) };
    Ok(Some((id, cx.db.agents.require(txn, &id)?)))
}

/// All agents whose rows can be read, those that were removed as well.
pub(super) fn all(cx: &Cx<'_>, txn: &Write<'_>) -> Result<Vec<(AgentId, Agent)>> {
    cx.db.agents.iter(txn)?.filter_map(|row| readable(row.map(Some)).transpose()).collect()
}

/// The agents that have no zone of their own.
pub(super) fn in_the_common_zone(cx: &Cx<'_>, txn: &Write<'_>) -> Result<Vec<AgentId>> {
    let mut all = all(cx, txn)?;
    all.retain(|(_, agent)| agent.archived.is_none() && agent.settings.timezone.is_none());
    Ok(all.into_iter().map(|(id, _)| id).collect())
}

/// Rewrites the context files of live sessions of agents for which something in them changed.
pub(super) fn renew_contexts(cx: &Cx<'_>, txn: &mut Write<'_>, after: &mut Aftermath) -> Result<()> {
    if after.changed.is_empty() {
        return Ok(());
    }
    for (session, _) in lifecycle::living(cx, txn, |agent| after.changed.contains(&agent))? {
        let (row, ()) = sessions::update(cx, txn, session, |row| {
            row.context_version = row.context_version.saturating_add(1);
        })?;
        let agent = cx.db.agents.require(txn, &row.agent)?;
        let context = Some(export::context_view(cx, txn, Of { id: session, session: &row, agent: &agent })?);
        let (messages, replies) = (Vec::new(), Some(replies::of(cx, txn, session, row.live)?));
        after.effects.push(Effect::Export(Box::new(Export { session, context, messages, replies, exact: false })));
    }
    Ok(())
}

/// Stores a new agent with a workspace of its own.
pub(super) fn insert(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    folder: &Folder,
    settings: AgentSettings,
    origin: Origin,
) -> Result<AgentId> {
    let id = cx.db.allocate(txn)?;
    let agent =
        Agent { folder: folder.clone(), settings, origin, created: cx.now.wall, archived: None, installs: Vec::new() };
    cx.db.agents.put(txn, &id, &agent)?;
    cx.db.agents_by_folder.put(txn, &Text::from(folder), &id)?;
    sessions::make_workspace(cx, txn, id, folder)?;
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::scene::{Scene, folder, settings};

    #[test]
    fn what_was_removed_can_still_be_purged() {
        let scene = Scene::new();
        let purge = |name: &str| scene.tell(|cx, txn, after| purge(cx, txn, &folder(name), &mut after.effects));
        assert_eq!(purge("a").unwrap(), "removed agent a");
        assert_eq!(purge("a").unwrap(), "unchanged agent a", "an interrupted removal is repeated");
        assert!(purge("z").unwrap_err().starts_with("there is no agent z"));
        scene.done(|cx, txn, after| put(cx, txn, (&folder("a"), settings()), Origin::Runtime, after));
        assert_eq!(purge("a").unwrap(), "removed agent a", "another one of the same name");
        assert_eq!(scene.keys("agents_by_folder"), ["b"]);
        assert!(scene.keys("wirings").is_empty());
    }
}
