//! What a process of an agent is started with.

use std::path::PathBuf;

use hearth_presets::Preset;
use hearth_wire::{Context, McpServer, Permissions, Provider};
use serde_json::{Value, json};

use super::known::{Prepared, prepare};
use crate::addendum;
use crate::child::{Launch, environment};
use crate::env;
use crate::roots::Roots;

/// The parameters of a process. It is kept as long as they stay the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parameters {
    pub(super) launch: Launch,
    /// Home and session directory of the agent.
    pub(super) home: PathBuf,
    pub(super) session: PathBuf,
    pub(super) instructions: String,
    pub(super) preset: Option<Preset>,
    /// A configuration file below the agent's home, and its text.
    pub(super) file: Option<(&'static str, String)>,
    pub(super) mode: Option<String>,
    pub(super) permissions: Permissions,
    /// Whether it is set to ask before it uses tools.
    asks: bool,
    pub(super) model: Option<String>,
    /// Whether the agent knows the model from its start.
    pub(super) is_model_named: bool,
    pub(super) effort: Option<String>,
    /// The address of a server that a conversation keeps.
    pub(super) server: Option<String>,
    servers: Vec<McpServer>,
}

/// The name of Hearth's own tools among an agent's servers.
const OWN_SERVER: &str = "nanoclaw";

impl Parameters {
    /// # Errors
    /// What is missing in the agent's configuration.
    pub(super) fn of(context: &Context, roots: &Roots) -> Result<Self, String> {
        let provider = &context.provider;
        let preset = preset(provider)?;
        // Rules decide only about calls that the agent asks about.
        let asks = provider.permissions != Permissions::Allow || !context.tools.is_open();
        let Prepared { env, file, model, is_model_named, server } = match preset {
            Some(preset) => prepare(preset.about(), provider, asks, &env::variable)?,
            None => Prepared { model: provider.model.clone(), ..Prepared::default() },
        };
        let mut argv = provider.command.clone();
        if let (true, Some(preset)) = (argv.is_empty(), preset) {
            argv.extend(preset.about().command.iter().map(|word| (*word).to_owned()));
        }
        if argv.is_empty() {
            return Err("there is no program to start: set the agent's `command`".to_owned());
        }
        let env = environment(context, roots).into_iter().chain(env).collect();
        Ok(Self {
            // Set if another agent started the daemon: this one would consider itself part of that one.
            launch: Launch { argv, env, without: vec!["CLAUDECODE", "NODE_OPTIONS"] },
            home: roots.home.clone(),
            session: roots.session.clone(),
            instructions: addendum::instructions(context),
            preset,
            file,
            mode: provider.mode.clone(),
            permissions: provider.permissions,
            asks,
            model,
            is_model_named,
            effort: provider.effort.clone(),
            server,
            servers: context.mcp_servers.clone(),
        })
    }

    /// The mode that the agent with this name in the handshake is set to.
    pub(super) fn mode(&self, agent: &str) -> Option<&str> {
        let permitting = Preset::of_agent(agent).or(self.preset).map(|preset| &preset.about().permissions);
        self.mode.as_deref().or_else(|| if self.asks { permitting?.ask } else { permitting?.allow })
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

fn preset(provider: &Provider) -> Result<Option<Preset>, String> {
    let Some(name) = &provider.preset else { return Ok(None) };
    let unknown =
        || format!("this runner does not know the provider {name}: it is older than the daemon; build the image again");
    Preset::named(name).map(Some).ok_or_else(unknown)
}
