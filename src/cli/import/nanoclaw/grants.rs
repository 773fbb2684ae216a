//! Commands and access that an import grants to agents, shown verbatim for the operator's consent.

use serde::Serialize;

use crate::contracts::nanoclaw::{Inventory, Item, Kind, Outcome};
use crate::model::entity::{Access, AgentSettings, EnvValue, ExtraMount, McpServer};

/// One command, directory or package of an agent.
#[derive(Debug, Serialize)]
pub(super) struct Grant<'a> {
    agent: &'a str,
    kind: &'static str,
    /// Name of the server, path of the directory on this machine, or name of the package.
    name: &'a str,
    /// The server's program and arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    command: Vec<&'a str>,
    /// The server's variables.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    env: Vec<Variable<'a>>,
    /// Where the agent sees the directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    container_path: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    access: Option<&'static str>,
    /// Everything in one line of printable ASCII.
    pub(super) shown: String,
}

/// A variable without its value, which may be a secret.
#[derive(Debug, Serialize)]
struct Variable<'a> {
    name: &'a str,
    /// Reference that is resolved when the agent starts; none for a plain value.
    reference: Option<&'a str>,
}

/// The grants of all imported agents, in their order.
pub(super) fn grants<'a>(found: &'a Inventory, items: &[Item]) -> Vec<Grant<'a>> {
    let is_taken = |name: &str| {
        items.iter().any(|item| item.kind == Kind::Agent && item.outcome == Outcome::Taken && item.name == name)
    };
    let taken = found.agents.iter().filter(|(folder, _)| is_taken(folder.as_str()));
    taken.flat_map(|(folder, settings)| of_agent(folder.as_str(), settings)).collect()
}

fn of_agent<'a>(agent: &'a str, settings: &'a AgentSettings) -> Vec<Grant<'a>> {
    let servers = settings.mcp_servers.iter().map(|found| server(agent, found));
    let mounts = settings.mounts.iter().map(|found| mount(agent, found));
    let apt = settings.packages.apt.iter().map(|name| package(agent, "apt", name));
    let npm = settings.packages.npm.iter().map(|name| package(agent, "npm", name));
    servers.chain(mounts).chain(apt).chain(npm).collect()
}

fn server<'a>(agent: &'a str, server: &'a McpServer) -> Grant<'a> {
    let command: Vec<&str> = std::iter::once(&server.command).chain(&server.args).map(String::as_str).collect();
    let words = command.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    let mut shown = format!("{agent} runs the MCP server {}: {words}", quoted(&server.name));
    let env: Vec<Variable<'_>> = server.env.iter().map(|(name, value)| variable(name, value)).collect();
    for (at, Variable { name, reference }) in env.iter().enumerate() {
        let value = reference.map_or_else(String::new, |reference| format!(" = {}", reference.escape_default()));
        shown.push_str(if at == 0 { ", with " } else { ", " });
        shown.push_str(&format!("{}{value}", name.escape_default()));
    }
    Grant { command, env, ..grant(agent, "mcp_server", &server.name, shown) }
}

fn variable<'a>(name: &'a str, value: &'a EnvValue) -> Variable<'a> {
    let reference = match value {
        EnvValue::Plain(_) => None,
        EnvValue::Reference(reference) => Some(reference.as_str()),
    };
    Variable { name, reference }
}

fn mount<'a>(agent: &'a str, mount: &'a ExtraMount) -> Grant<'a> {
    let verb = match mount.access {
        Access::ReadOnly => "reads",
        Access::ReadWrite => "reads and changes",
    };
    let place = mount.container_path.as_deref().map_or_else(String::new, |path| format!(", as {}", quoted(path)));
    let shown = format!("{agent} {verb} {}{place}", quoted(&mount.host_path));
    Grant {
        container_path: mount.container_path.as_deref(),
        access: Some(mount.access.as_str()),
        ..grant(agent, "mount", &mount.host_path, shown)
    }
}

fn package<'a>(agent: &'a str, of: &'static str, name: &'a str) -> Grant<'a> {
    let shown = format!("{agent} has the {of} package {} in its image", quoted(name));
    grant(agent, of, name, shown)
}

fn grant<'a>(agent: &'a str, kind: &'static str, name: &'a str, shown: String) -> Grant<'a> {
    Grant { agent, kind, name, command: Vec::new(), env: Vec::new(), container_path: None, access: None, shown }
}

/// Escapes everything but printable ASCII, so that different texts look different.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.escape_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_characters_are_seen() {
        let env = vec![
            ("A".to_owned(), EnvValue::Plain("secret".to_owned())),
            ("KEY".to_owned(), EnvValue::Reference("env:HEARTH_IMPORT_A_M_KEY".to_owned())),
        ];
        let args = vec!["-c".to_owned(), "x\u{202e}\u{200b} \n\"é".to_owned()];
        let found = McpServer { name: "m".to_owned(), command: "/bin/sh".to_owned(), args, env };
        let shown = r#"a runs the MCP server "m": "/bin/sh" "-c" "x\u{202e}\u{200b} \n\"\u{e9}", with A, KEY = env:HEARTH_IMPORT_A_M_KEY"#;
        assert_eq!(server("a", &found).shown, shown);
        let found = ExtraMount { host_path: "~/a\tb".to_owned(), container_path: None, access: Access::ReadWrite };
        assert_eq!(mount("a", &found).shown, r#"a reads and changes "~/a\tb""#);
    }
}
