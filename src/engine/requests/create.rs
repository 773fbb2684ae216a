//! Creates agents on request of agents. After the approval, one transaction stores the group, destinations and notice.

use crate::Result;
use crate::entities::change::ChangedAgents;
use crate::entities::{agents, change};
use crate::lifecycle::dispatch;
use crate::model::approval_text::destination_name;
use crate::model::entity::{Agent, AgentSettings, Destination, Folder, Network, Origin, Packages, Trust};
use crate::model::id::{AgentId, SessionId};
use crate::model::recall::RecallReach;
use crate::model::starting_hosts::provider_hosts;
use crate::model::tool::{ToolPreset, ToolSettings};
use crate::requests::self_change;
use crate::state::{DestinationKey, Text};
use crate::tx::Tx;

/// How error texts begin.
pub(crate) const CANNOT: &str = "Cannot create agent";

/// Maximum number of agents whose folders differ only in their number.
const ALIKE_MAX: usize = 1_000;

/// The parts of an agent to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewAgentPlan {
    parent: AgentId,
    settings: AgentSettings,
    local: String,
    folder: Folder,
}

/// Plans an agent of this name, or says why it cannot be created.
pub(crate) fn plan(
    tx: &Tx<'_, '_>,
    session: SessionId,
    name: &str,
) -> Result<std::result::Result<NewAgentPlan, String>> {
    let Some((parent, agent)) = self_change::agent_of(tx, session)? else {
        return Ok(Err("create_agent failed: source agent group not found.".to_owned()));
    };
    let local = destination_name(name);
    if tx.db.destinations.get(tx, &DestinationKey { agent: parent, name: Text::new(local.as_str())? })?.is_some() {
        let why = format!("{CANNOT} \"{name}\": you already have a destination named \"{local}\".");
        return Ok(Err(why));
    }
    let Some(folder) = free_folder(tx, &local)? else {
        return Ok(Err(format!("{CANNOT} \"{name}\": invalid folder path.")));
    };
    Ok(Ok(NewAgentPlan { parent, settings: agent.settings, local, folder }))
}

/// Creates the agent, adds destinations between it and its creator, and tells the creator.
pub(crate) fn create(
    tx: &mut Tx<'_, '_>,
    session: SessionId,
    name: &str,
    instructions: Option<&str>,
) -> Result<std::result::Result<(), String>> {
    let plan = match plan(tx, session, name)? {
        Ok(plan) => plan,
        Err(why) => return Ok(Err(why)),
    };
    let settings = decide_settings(plan.settings, name, instructions);
    let child = agents::insert(tx, &plan.folder, settings, Origin::Runtime)?;
    tx.db.destinations.put(
        tx,
        &DestinationKey { agent: plan.parent, name: Text::new(plan.local.as_str())? },
        &Destination::Agent(child),
    )?;
    tx.db.destinations.put(
        tx,
        &DestinationKey { agent: child, name: Text::new("parent")? },
        &Destination::Agent(plan.parent),
    )?;
    let mut after = ChangedAgents::default();
    after.changed.extend([plan.parent, child]);
    change::renew_contexts(tx, &mut after)?;
    let local = &plan.local;
    let text = format!("Agent \"{local}\" created. You can now message it with <message to=\"{local}\">...</message>.");
    dispatch::send_text(tx, session, &text).map(|_| Ok(()))
}

/// The settings of the new agent. It inherits its creator's provider and limits, but no trust: no writable folder, no
/// mounts, no packages, no servers, no variables of the daemon, no bound secrets, no loopback of the host, no search
/// in chats other than the session's, and never without confinement. It reaches its provider and nothing else.
fn decide_settings(maker: AgentSettings, name: &str, instructions: Option<&str>) -> AgentSettings {
    let maker = AgentSettings { trust: Trust::Untrusted, unconfined: false, ..maker };
    let hosts = provider_hosts(maker.provider);
    let (network, allow) = match maker.network {
        Network::None => (Network::None, Vec::new()),
        // Nothing that its creator cannot reach.
        Network::Listed => (Network::Listed, hosts.into_iter().filter(|host| maker.allow.contains(host)).collect()),
        Network::Ask | Network::Public | Network::Host | Network::Open => (maker.default_network(), hosts),
    };
    AgentSettings {
        name: name.to_owned(),
        packages: Packages::default(),
        mcp_servers: Vec::new(),
        mounts: Vec::new(),
        request_env: Vec::new(),
        allow_host_loopback: false,
        folder_access: None,
        network,
        allow,
        secrets: Vec::new(),
        instructions: instructions.map(str::to_owned),
        recall: RecallReach::Chat,
        tools: ToolSettings { preset: maker.tools.preset.max(ToolPreset::Careful), ..maker.tools },
        ..maker
    }
}

/// A folder that no agent has or had. The files of an archived agent must not reach another one.
fn free_folder(tx: &Tx<'_, '_>, local: &str) -> Result<Option<Folder>> {
    let taken = |(_, agent): (AgentId, Agent)| agent.folder;
    let taken: Vec<Folder> = tx.db.agents.range(tx, ..)?.map(|row| row.map(taken)).collect::<Result<Vec<Folder>>>()?;
    let names = (1..ALIKE_MAX).map(|n| if n == 1 { local.to_owned() } else { format!("{local}-{n}") });
    let mut folders = names.filter_map(|name| Folder::new(name).ok());
    if Folder::new(local).is_err() {
        return Ok(None);
    }
    Ok(folders.find(|folder| !taken.iter().any(|taken| taken.as_str().eq_ignore_ascii_case(folder.as_str()))))
}

#[cfg(test)]
mod tests {
    use crate::model::bound_secret::AgentSecret;
    use crate::model::entity::{Access, ExtraMount, McpServer, ProviderKind};
    use crate::requests::create::*;

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
            request_env: vec!["TOKEN".into()],
            allow_host_loopback: true,
            folder_access: Some(access),
            secrets: vec![AgentSecret { variable: "TOKEN".into(), secret: "mine".into() }],
            instructions: Some("Be the owner's.".into()),
            recall: RecallReach::Agent,
            ..limited.clone()
        };
        for instructions in [None, Some("Count.")] {
            let words = instructions.map(str::to_owned);
            let tools = ToolSettings::of(ToolPreset::Careful);
            let child = AgentSettings { name: "Child".into(), instructions: words, tools, ..limited.clone() };
            assert_eq!(decide_settings(maker.clone(), "Child", instructions), child);
        }
    }

    #[test]
    fn a_new_agent_reaches_its_provider_and_nothing_that_its_maker_does_not_reach() {
        let api = provider_hosts(ProviderKind::Claude);
        let home: Vec<_> = ["nas.local:8080".parse().unwrap()].into();
        let both: Vec<_> = [api.clone(), home.clone()].concat();
        for (network, allow, expected) in [
            (Network::None, Vec::new(), (Network::None, Vec::new())),
            (Network::Listed, home.clone(), (Network::Listed, Vec::new())),
            (Network::Listed, both, (Network::Listed, api.clone())),
            (Network::Ask, home, (Network::Listed, api.clone())),
            (Network::Public, Vec::new(), (Network::Listed, api.clone())),
            (Network::Open, Vec::new(), (Network::Listed, api.clone())),
        ] {
            let provider = ProviderKind::Claude;
            let maker = AgentSettings { network, allow, provider, ..AgentSettings::named("Maker".into()) };
            let child = decide_settings(maker, "Child", None);
            assert_eq!((child.network, child.allow), expected, "{network:?}");
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
            assert_eq!(destination_name(name), local, "{name}");
        }
    }
}
