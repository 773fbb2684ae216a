//! What a process of an agent is started with.

use hearth_wire::{Context, McpServer};
use serde_json::{Value, json};

use crate::addendum;
use crate::child::{Launch, environment};
use crate::env;
use crate::roots::Roots;

/// The parameters of a process. It is kept as long as they stay the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parameters {
    pub(super) launch: Launch,
    pub(super) instructions: String,
    pub(super) model: Option<String>,
    pub(super) effort: Option<String>,
    servers: Vec<McpServer>,
}

/// The name of Hearth's own tools among an agent's servers.
const OWN_SERVER: &str = "nanoclaw";

impl Parameters {
    pub(super) fn of(context: &Context, roots: &Roots) -> Self {
        let provider = &context.provider;
        let launch =
            Launch { argv: provider.command.clone(), env: environment(context, roots), without: vec!["NODE_OPTIONS"] };
        Self {
            launch,
            instructions: addendum::instructions(context),
            model: provider.model.clone(),
            effort: provider.effort.clone(),
            servers: context.mcp_servers.clone(),
        }
    }

    /// The servers of tools in the protocol's form: Hearth's own, which is started with `own`, and those of the agent.
    /// Secret values are in the line to the agent's standard input, and in no arguments.
    pub(super) fn servers(&self, own: &[String]) -> Value {
        let (program, arguments) = own.split_first().map_or(("", own), |(program, rest)| (program.as_str(), rest));
        let mut all = vec![json!({"name": OWN_SERVER, "command": program, "args": arguments, "env": []})];
        for McpServer { name, command, args, env, secret_env } in &self.servers {
            if name == OWN_SERVER {
                continue;
            }
            let secret = secret_env.iter().map(|(name, variable)| (name, env::variable(variable).unwrap_or_default()));
            let plain = env.iter().map(|(name, value)| (name, value.clone()));
            let env: Vec<Value> =
                plain.chain(secret).map(|(name, value)| json!({"name": name, "value": value})).collect();
            all.push(json!({"name": name, "command": command, "args": args, "env": env}));
        }
        Value::Array(all)
    }
}
