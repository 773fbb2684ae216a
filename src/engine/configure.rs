//! What an operator wants the entities to be: all of it happens, or none.

use std::collections::BTreeSet;
use std::fmt::Display;

use super::prune::{self, Named};
use super::{
    Applied, Cx, Result, agents, approvals, channels, destinations, mute_name, open, pattern, people, renew, restart,
    retention, rights, schedule, spec, threads, wirings,
};
use crate::model::configure::{Change, Configure, Settings};
use crate::model::effect::Effect;
use crate::model::entity::{Engage, Folder, Origin};
use crate::model::id::AgentId;
use crate::model::report::{Action, ChangeReport, Refusal, Reply};
use crate::state::Write;

/// Makes the entities be as described. The first change that cannot be made refuses the whole.
pub(super) fn configure(cx: &Cx<'_>, txn: &mut Write<'_>, configure: Configure) -> Result<Applied> {
    if let Some(expected) = configure.expected
        && cx.db.configuration_digest(txn)? != expected
    {
        let message = "the configuration changed meanwhile, nothing was done: run the command again";
        return Ok(Applied::refused(Refusal::CHANGED, message.to_owned()));
    }
    let mut reports = Vec::new();
    let named = Named::of(&configure.changes);
    let mut after = Aftermath::default();
    for change in configure.changes {
        if let Some(reason) = decide_form(&change) {
            return Ok(Applied::refused("invalid", reason));
        }
        let made = match change {
            Change::Prune => prune::prune(cx, txn, &named, &mut after)?,
            change => put(cx, txn, change, configure.origin, &mut after)?,
        };
        match made {
            Ok(mut made) => reports.append(&mut made),
            Err(reason) => return Ok(Applied::refused("invalid", reason)),
        }
    }
    approvals::reconsider(cx, txn, &mut after.effects)?;
    renew::agents(cx, txn, &after.renewed, &mut after.effects)?;
    agents::renew_contexts(cx, txn, &mut after)?;
    Ok(Applied::new(Reply::Configured(reports), after.effects))
}

/// What follows from changes: once, however many there are.
#[derive(Default)]
pub(super) struct Aftermath {
    /// What has to be done.
    pub(super) effects: Vec<Effect>,
    /// Agents whose context files say something else now.
    pub(super) changed: BTreeSet<AgentId>,
    /// Agents that are started in another way now.
    pub(super) renewed: BTreeSet<AgentId>,
}

/// What was done, or why nothing can be done.
pub(super) type Made = std::result::Result<Vec<ChangeReport>, String>;

/// One line of a report.
pub(super) fn report(entity: String, action: Action) -> ChangeReport {
    ChangeReport { entity, action }
}

/// That something is not there, and where to look.
pub(super) fn missing(what: &str, name: impl Display) -> String {
    format!("there is no {what} {name}; see `hearth {what}s list`")
}

fn put(cx: &Cx<'_>, txn: &mut Write<'_>, change: Change, origin: Origin, after: &mut Aftermath) -> Result<Made> {
    match change {
        Change::PutSettings(settings) => put_settings(cx, txn, &settings, after),
        Change::PutAgent(folder, settings) => agents::put(cx, txn, (&folder, settings), origin, after),
        Change::RemoveAgent(folder) => agents::remove(cx, txn, &folder, &mut after.effects),
        Change::PurgeAgent(folder) => agents::purge(cx, txn, &folder, &mut after.effects),
        Change::PutUser(user) => people::put(cx, txn, &user, origin),
        Change::RemoveUser(user) => people::remove(cx, txn, &user),
        Change::PutChat(chat) => wirings::put_chat(cx, txn, &chat, origin, after),
        Change::RemoveChat(channel, id) => wirings::remove_chat(cx, txn, (&channel, &id), after),
        Change::RemoveWiring(channel, id, folder) => wirings::remove(cx, txn, (&channel, &id), &folder, after),
        Change::DenyChat(channel, id) => destinations::deny(cx, txn, (&channel, &id), true),
        Change::AllowChat(channel, id) => destinations::deny(cx, txn, (&channel, &id), false),
        Change::Grant(user, role) => rights::grant(cx, txn, (&user, &role), origin),
        Change::Revoke(user, role) => rights::revoke(cx, txn, &user, &role),
        Change::AddMember(folder, user) => rights::add_member(cx, txn, (&folder, &user), origin),
        Change::RemoveMember(folder, user) => rights::remove_member(cx, txn, &folder, &user),
        Change::AddDestination(folder, name, to) => destinations::add(cx, txn, (&folder, &name), &to, after),
        Change::RemoveDestination(folder, name) => destinations::remove(cx, txn, (&folder, &name), after),
        Change::PutChannel(channel) => channels::put(cx, txn, &channel, origin, after),
        Change::RemoveChannel(name) => channels::remove(cx, txn, &name, after),
        Change::Mute(folder, address) => threads::mute(cx, txn, &folder, &address),
        Change::Unmute(folder, address) => threads::unmute(cx, txn, (&folder, &address), &mut after.effects),
        Change::MuteName(folder, name, note) => {
            mute_name::mute(cx, txn, (&folder, &name, note.as_deref()), &mut after.effects)
        }
        Change::UnmuteName(folder, name) => mute_name::unmute(cx, txn, (&folder, &name), &mut after.effects),
        Change::EndSticky(folder, address) => threads::end_sticky(cx, txn, &folder, &address),
        Change::RestartAgent(folder, message) => restart::agent(cx, txn, (&folder, message.as_deref()), after),
        Change::RestartSession(session) => restart::one(cx, txn, session, after),
        Change::OpenSession(folder, address) => open::session(cx, txn, &folder, &address),
        Change::ResetSession(session) => restart::session(cx, txn, session, after),
        Change::SetSessionProvider(session, provider) => restart::provider(cx, txn, (session, provider), after),
        Change::Prune => Ok(Ok(Vec::new())),
    }
}

/// What is wrong with a change whatever the store holds.
fn decide_form(change: &Change) -> Option<String> {
    let Change::PutChat(chat) = change else { return None };
    chat.wirings.iter().find_map(|wiring| {
        let Engage::Pattern(text) = &wiring.engage else { return None };
        let problem = pattern::check(text).err()?;
        Some(format!("the pattern of {} in {}/{} is invalid: {problem}", wiring.agent, chat.channel, chat.platform_id))
    })
}

fn put_settings(cx: &Cx<'_>, txn: &mut Write<'_>, settings: &Settings, after: &mut Aftermath) -> Result<Made> {
    let before = cx.db.settings.get(txn, &())?;
    if before.is_none() && *settings == Settings::default() {
        return Ok(Ok(Vec::new()));
    }
    if let Some(folder) = &settings.default_agent
        && agents::find(cx, txn, folder)?.is_none()
    {
        return Ok(Err(format!("default_agent names {folder}, and there is no such agent: add it or name another")));
    }
    let action = match &before {
        Some(before) if before == settings => Action::Unchanged,
        Some(_) => Action::Updated,
        None => Action::Created,
    };
    let installed = before.clone().unwrap_or_default();
    if (&installed.image, &installed.timezone) != (&settings.image, &settings.timezone) {
        for (id, agent) in cx.db.agents.collect_range(txn, .., usize::MAX)? {
            if spec::differ((&agent.settings, &installed), (&agent.settings, settings)) {
                after.renewed.insert(id);
                after.changed.insert(id);
            }
        }
    }
    if before.as_ref().is_none_or(|before| before.retention != settings.retention) {
        retention::begin_again(cx, txn)?;
    }
    let mut moved = Vec::new();
    if before.and_then(|before| before.timezone) != settings.timezone {
        for agent in agents::in_the_common_zone(cx, txn)? {
            after.changed.insert(agent);
            moved.push((agent, schedule::zone_of(cx, txn, agent)?));
        }
    }
    cx.db.settings.put(txn, &(), settings)?;
    for (agent, lived) in moved {
        schedule::renew_zone(cx, txn, agent, &lived)?;
    }
    Ok(Ok(vec![report("settings".to_owned(), action)]))
}

/// An agent that was removed is nobody's default.
pub(super) fn forget_default(cx: &Cx<'_>, txn: &mut Write<'_>, folder: &Folder) -> Result<()> {
    match cx.db.settings.get(txn, &())? {
        Some(settings) if settings.default_agent.as_ref() == Some(folder) => {
            cx.db.settings.put(txn, &(), &Settings { default_agent: None, ..settings })
        }
        _ => Ok(()),
    }
}
