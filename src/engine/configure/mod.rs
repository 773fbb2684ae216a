//! Applies an operator's configuration changes, all or none.

use crate::configure::prune::Named;
use crate::decisions::reconsider;
use crate::entities::change::{ChangeResult, ChangedAgents};
use crate::entities::{
    channels, console, destinations, halt, hosts, mutes, people, restart, roles, sessions, threads, tool_rules, wirings,
};
use crate::lifecycle::{budget, rollout};
use crate::model::address::UserId;
use crate::model::configure::{Change, Configure, Settings};
use crate::model::entity::{Engage, Origin};
use crate::model::host_grant::HostDecision;
use crate::model::report::{Action, Refusal, Reply};
use crate::model::task_command::TaskCommand;
use crate::rows::{budgets, settings};
use crate::rules::{launch_spec, pattern};
use crate::tx::Tx;
use crate::{Result, entities, rows, schedule};

pub(crate) mod by_person;
pub(crate) mod prune;

/// Applies all changes. The first one that is impossible refuses the whole request.
pub(crate) fn configure(tx: &mut Tx<'_, '_>, configure: Configure) -> Result<Reply> {
    if let Some(expected) = configure.expected
        && tx.db.configuration_digest(tx)? != expected
    {
        let message = "the configuration changed meanwhile, nothing was done: run the command again";
        return Ok(Reply::refused(Refusal::CHANGED, message.to_owned()));
    }
    let by = configure.by.as_ref();
    let mut reports = Vec::new();
    let named = Named::of(&configure.changes);
    let people = configure.changes.iter().filter_map(Change::person).cloned().collect();
    let mut after = ChangedAgents::default();
    for change in configure.changes {
        if let Some(reason) = decide_form(&change) {
            return Ok(Reply::refused("invalid", reason));
        }
        let made = match change {
            Change::Prune => prune::prune(tx, &named, &mut after)?,
            change => put(tx, change, Author { origin: configure.origin, by }, &mut after)?,
        };
        match made {
            Ok(mut made) => reports.append(&mut made),
            Err(reason) => return Ok(Reply::refused("invalid", reason)),
        }
    }
    budget::reconsider(tx)?;
    reconsider::reconsider(tx, &people)?;
    rollout::agents(tx, &after.renewed)?;
    entities::change::renew_contexts(tx, &mut after)?;
    Ok(Reply::Configured(reports))
}

/// Who makes a change.
#[derive(Clone, Copy)]
struct Author<'a> {
    origin: Origin,
    /// The person; none is the operator of this machine.
    by: Option<&'a UserId>,
}

fn put(tx: &mut Tx<'_, '_>, change: Change, author: Author<'_>, after: &mut ChangedAgents) -> Result<ChangeResult> {
    let Author { origin, by } = author;
    match change {
        Change::PutSettings(settings) => put_settings(tx, &settings, after),
        Change::PutAgent(folder, settings) => entities::agents::put(tx, &folder, settings, origin, after),
        Change::RemoveAgent(folder) => entities::agents::remove(tx, &folder),
        Change::PurgeAgent(folder) => entities::agents::purge(tx, &folder),
        Change::PutUser(user) => people::put(tx, &user, origin),
        Change::RemoveUser(user) => people::remove(tx, &user),
        Change::PutChat(chat) => wirings::put_chat(tx, &chat, origin, after),
        Change::RemoveChat(channel, id) => wirings::remove_chat(tx, &channel, &id, after),
        Change::RemoveWiring(channel, id, folder) => wirings::remove(tx, &channel, &id, &folder, after),
        Change::DenyChat(channel, id) => destinations::deny(tx, &channel, &id, true),
        Change::AllowChat(channel, id) => destinations::deny(tx, &channel, &id, false),
        Change::Grant(user, role) => roles::grant(tx, &user, &role, by),
        Change::Revoke(user, role) => roles::revoke(tx, &user, &role),
        Change::AddMember(folder, user) => roles::add_member(tx, &folder, &user, by),
        Change::RemoveMember(folder, user) => roles::remove_member(tx, &folder, &user),
        Change::AddDestination(folder, name, to) => destinations::add(tx, &folder, &name, &to, after),
        Change::RemoveDestination(folder, name) => destinations::remove(tx, &folder, &name, after),
        Change::PutConsole(settings) => console::put(tx, &settings),
        Change::PutChannel(channel) => channels::put(tx, &channel, origin, after),
        Change::RemoveChannel(name) => channels::remove(tx, &name, after),
        Change::Mute(folder, address) => threads::mute(tx, &folder, &address),
        Change::Unmute(folder, address) => threads::unmute(tx, &folder, &address),
        Change::MuteName(folder, name, note) => mutes::mute(tx, &folder, &name, note.as_deref()),
        Change::UnmuteName(folder, name) => mutes::unmute(tx, &folder, &name),
        Change::EndSticky(folder, address) => threads::end_sticky(tx, &folder, &address),
        Change::RestartAgent(folder, message) => restart::agent(tx, &folder, message.as_deref(), after),
        Change::StopAgent(folder) => halt::stop(tx, &folder, by),
        Change::FreezeAgent(folder) => halt::freeze(tx, &folder, by),
        Change::UnfreezeAgent(folder) => halt::unfreeze(tx, &folder),
        Change::AllowHost(folder, to) => {
            hosts::decide(tx, &folder, &to, hosts::Decided { decision: HostDecision::Always, by })
        }
        Change::DenyHost(folder, to) => {
            hosts::decide(tx, &folder, &to, hosts::Decided { decision: HostDecision::Never, by })
        }
        Change::RevokeHost(folder, to) => hosts::revoke(tx, &folder, &to),
        Change::RestartSession(session) => restart::one(tx, session, after),
        Change::OpenSession(folder, address) => sessions::session(tx, &folder, &address),
        Change::ResetSession(session) => restart::session(tx, session, after),
        Change::SetSessionProvider(session, provider) => restart::provider(tx, session, provider, after),
        Change::ChooseForSession(session, choice) => restart::choose(tx, session, choice, after),
        Change::AllowTool(folder, pattern, task) => tool_rules::allow(tx, &folder, &pattern, task, after),
        Change::ForgetToolGrant(folder, id) => tool_rules::forget(tx, &folder, id, after),
        Change::Prune => Ok(Ok(Vec::new())),
    }
}

/// Carries out an operator's command about tasks.
pub(crate) fn task(tx: &mut Tx<'_, '_>, command: TaskCommand) -> Result<Reply> {
    Ok(match schedule::change::command(tx, command, None)? {
        Ok((id, task)) => Reply::Task(id, Box::new(task)),
        Err(why) => Reply::refused("invalid", why),
    })
}

/// Why a change is invalid regardless of what the store holds.
fn decide_form(change: &Change) -> Option<String> {
    let Change::PutChat(chat) = change else { return None };
    chat.wirings.iter().find_map(|wiring| {
        let Engage::Pattern(text) = &wiring.engage else { return None };
        let problem = pattern::check(text).err()?;
        Some(format!("the pattern of {} in {}/{} is invalid: {problem}", wiring.agent, chat.channel, chat.platform_id))
    })
}

fn put_settings(tx: &mut Tx<'_, '_>, settings: &Settings, after: &mut ChangedAgents) -> Result<ChangeResult> {
    let before = tx.db.settings.get(tx, &())?;
    if before.is_none() && *settings == Settings::default() {
        return Ok(Ok(Vec::new()));
    }
    if let Some(folder) = &settings.default_agent
        && rows::agents::find(tx, folder)?.is_none()
    {
        return Ok(Err(format!(
            "default_agent is {folder}, and there is no such agent: add the agent, or choose another"
        )));
    }
    let action = match &before {
        Some(before) if before == settings => Action::Unchanged,
        Some(_) => Action::Updated,
        None => Action::Created,
    };
    let installed = before.clone().unwrap_or_default();
    let launching = |of: &Settings| (of.image.clone(), of.timezone.clone(), of.secrets.clone());
    if launching(&installed) != launching(settings) {
        for (id, agent) in tx.db.agents.collect_range(tx, .., usize::MAX)? {
            if launch_spec::differ(&agent.settings, &installed, &agent.settings, settings) {
                after.renewed.insert(id);
                after.changed.insert(id);
            }
        }
    }
    budgets::forget_states(tx, settings)?;
    if before.as_ref().is_none_or(|before| before.retention != settings.retention) {
        settings::begin_again(tx)?;
    }
    let mut moved = Vec::new();
    if before.and_then(|before| before.timezone) != settings.timezone {
        for agent in rows::agents::in_the_common_zone(tx)? {
            after.changed.insert(agent);
            moved.push((agent, rows::agents::zone_of(tx, agent)?));
        }
    }
    tx.db.settings.put(tx, &(), settings)?;
    for (agent, lived) in moved {
        schedule::change::renew_zone(tx, agent, &lived)?;
    }
    Ok(Ok(vec![entities::change::report("settings".to_owned(), action)]))
}
