//! Agents made by agents: approved first, then group, destinations and note in one transaction.

use super::own::agent_of;
use crate::engine::configure::Aftermath;
use crate::engine::{Cx, Result, agents, notice};
use crate::model::effect::Effect;
use crate::model::entity::{Agent, AgentSettings, Destination, Folder, Origin, Packages, Trust, normalize_name};
use crate::model::id::{AgentId, SessionId};
use crate::state::{Text, Write};

/// How refusals begin.
pub(super) const CANNOT: &str = "Cannot create agent";
/// Longest destination that is made of a name: a folder with room for a number behind it.
const LOCAL_MAX: usize = 58;
/// Agents whose names differ only in the number behind them.
const ALIKE_MAX: usize = 1_000;

/// What would be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    parent: AgentId,
    settings: AgentSettings,
    local: String,
    folder: Folder,
}

/// What an agent of this name would be made of, or why there cannot be one.
pub(super) fn plan(
    cx: &Cx<'_>,
    txn: &Write<'_>,
    session: SessionId,
    name: &str,
) -> Result<std::result::Result<Plan, String>> {
    let Some((parent, agent)) = agent_of(cx, txn, session)? else {
        return Ok(Err("create_agent failed: source agent group not found.".to_owned()));
    };
    let local = decide_local(name);
    if cx.db.destinations.get(txn, &(parent, Text::new(local.as_str())?))?.is_some() {
        let why = format!("{CANNOT} \"{name}\": you already have a destination named \"{local}\".");
        return Ok(Err(why));
    }
    let Some(folder) = free_folder(cx, txn, &local)? else {
        return Ok(Err(format!("{CANNOT} \"{name}\": invalid folder path.")));
    };
    Ok(Ok(Plan { parent, settings: agent.settings, local, folder }))
}

/// Makes the agent, lets it and its maker write to each other, and says so.
pub(super) fn create(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    session: SessionId,
    (name, instructions): (&str, Option<&str>),
    effects: &mut Vec<Effect>,
) -> Result<std::result::Result<(), String>> {
    let plan = match plan(cx, txn, session, name)? {
        Ok(plan) => plan,
        Err(why) => return Ok(Err(why)),
    };
    let settings = decide_settings(plan.settings, name, instructions);
    let child = agents::insert(cx, txn, &plan.folder, settings, Origin::Runtime)?;
    cx.db.destinations.put(txn, &(plan.parent, Text::new(plan.local.as_str())?), &Destination::Agent(child))?;
    cx.db.destinations.put(txn, &(child, Text::new("parent")?), &Destination::Agent(plan.parent))?;
    let mut after = Aftermath::default();
    after.changed.extend([plan.parent, child]);
    agents::renew_contexts(cx, txn, &mut after)?;
    effects.append(&mut after.effects);
    let local = &plan.local;
    let text = format!("Agent \"{local}\" created. You can now message it with <message to=\"{local}\">...</message>.");
    notice::wake_agent(cx, txn, session, &text, effects).map(|_| Ok(()))
}

/// It is driven and limited like its maker and trusted with nothing: no folder it may change, no mounts, no packages, no
/// servers, and never without confinement.
fn decide_settings(maker: AgentSettings, name: &str, instructions: Option<&str>) -> AgentSettings {
    AgentSettings {
        name: name.to_owned(),
        trust: Trust::Untrusted,
        unconfined: false,
        packages: Packages::default(),
        mcp_servers: Vec::new(),
        mounts: Vec::new(),
        instructions: instructions.map(str::to_owned),
        ..maker
    }
}

fn decide_local(name: &str) -> String {
    let mut local = normalize_name(name);
    local.truncate(LOCAL_MAX);
    local.trim_end_matches('-').to_owned()
}

/// A folder that no agent has or had: what an archived one left there is not for others.
fn free_folder(cx: &Cx<'_>, txn: &Write<'_>, local: &str) -> Result<Option<Folder>> {
    let taken = |(_, agent): (AgentId, Agent)| agent.folder;
    let taken: Vec<Folder> = cx.db.agents.range(txn, ..)?.map(|row| row.map(taken)).collect::<Result<Vec<Folder>>>()?;
    let names = (1..ALIKE_MAX).map(|n| if n == 1 { local.to_owned() } else { format!("{local}-{n}") });
    let mut folders = names.filter_map(|name| Folder::new(name).ok());
    if Folder::new(local).is_err() {
        return Ok(None);
    }
    Ok(folders.find(|folder| !taken.iter().any(|taken| taken.as_str().eq_ignore_ascii_case(folder.as_str()))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::entity::{Access, ExtraMount, McpServer, Network};

    #[test]
    fn what_the_maker_may_do_is_not_passed_on() {
        let access = Access::ReadWrite;
        let server = McpServer { name: "s".into(), command: "/bin/s".into(), args: Vec::new(), env: Vec::new() };
        let limited = AgentSettings { network: Network::None, max_parallel: 1, ..AgentSettings::named("Maker".into()) };
        let maker = AgentSettings {
            trust: Trust::Main,
            unconfined: true,
            packages: Packages { apt: vec!["curl".into()], npm: vec!["left".into()] },
            mcp_servers: vec![server],
            mounts: vec![ExtraMount { host_path: "~/projects".into(), container_path: None, access }],
            instructions: Some("Be the owner's.".into()),
            ..limited.clone()
        };
        for instructions in [None, Some("Count.")] {
            let words = instructions.map(str::to_owned);
            let child = AgentSettings { name: "Child".into(), instructions: words, ..limited.clone() };
            assert_eq!(decide_settings(maker.clone(), "Child", instructions), child);
        }
    }

    #[test]
    fn names_become_destinations() {
        for (name, local) in [
            ("Research Bot", "research-bot"),
            ("日本", "unnamed"),
            ("../../etc", "etc"),
            (&"x".repeat(80), &"x".repeat(58)),
            (&format!("{}-y", "x".repeat(57)), &"x".repeat(57)),
        ] {
            assert_eq!(decide_local(name), local, "{name}");
        }
    }
}
