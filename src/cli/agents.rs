//! `hearth agents`.

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use serde::{Serialize, Serializer};

use super::agent_rules::RulesCommand;
use super::change::Configured;
use super::configuration::{self, AgentEntry, Configuration};
use super::entity::{self, text, texts, typed};
use super::image::{self, BuiltImage};
use super::listed::{self, Column, Listed};
use super::{
    Done, Failure, agent_network, agent_rules, agent_state, change, daemon_status, mount_args, print, purge, zone,
};
use crate::config::Paths;
use crate::config::file;
use crate::config::file::write::{Fields, Value};
use crate::contracts::home;
use crate::model::configure::Change;
use crate::model::entity::{EnvValue, Folder};

#[derive(Debug, Subcommand)]
pub(super) enum AgentsCommand {
    /// List the agents
    List,
    /// Show one agent
    Show {
        /// Its folder
        folder: String,
    },
    /// Show what its sessions share in session-state.json
    State {
        /// Its folder
        folder: String,
    },
    /// Add an agent
    Add {
        /// Its folder: 1 to 64 letters, digits, `_` and `-`
        folder: String,
        #[command(flatten)]
        keys: AgentKeys,
    },
    /// Change an agent; keys that are not given keep their values
    Set {
        /// Its folder
        folder: String,
        #[command(flatten)]
        keys: AgentKeys,
        /// Reset this key to its default
        #[arg(long, value_name = "KEY", value_parser = clearable())]
        clear: Vec<String>,
        /// Remove this variable from its environment
        #[arg(long, value_name = "NAME")]
        unset_env: Vec<String>,
    },
    /// Restart an agent now; messages in progress are requeued, which costs no try
    Restart {
        /// Its folder
        folder: String,
        /// Message for each of its sessions, which start at once; without it they start when needed
        #[arg(long, value_name = "TEXT")]
        message: Option<String>,
        /// Build its image first, like `hearth image build`; if that fails, nothing is restarted
        #[arg(long)]
        rebuild: bool,
    },
    /// Stop its running turns now; their messages end and are not repeated
    Stop {
        /// Its folder
        folder: String,
    },
    /// Stop its running turns and give it no work; its messages wait
    Freeze {
        /// Its folder
        folder: String,
    },
    /// List and change what decides about its tool calls
    Rules {
        #[command(subcommand)]
        command: RulesCommand,
    },
    /// Let a frozen agent work again
    Unfreeze {
        /// Its folder
        folder: String,
    },
    /// Remove an agent and its wirings, and drop its queued messages; its directory is kept
    Remove {
        /// Its folder
        folder: String,
        /// Also remove its directory in groups/ after it has stopped; its home is kept
        #[arg(long)]
        purge: bool,
    },
}

/// All keys except the one that identifies the agent.
fn clearable() -> PossibleValuesParser {
    PossibleValuesParser::new(file::AGENT_KEYS.iter().copied().filter(|key| *key != "folder"))
}

/// The keys of `[[agents]]`; what they accept is what hearth.toml accepts.
#[derive(Debug, Args)]
pub(super) struct AgentKeys {
    /// Its display name
    #[arg(long)]
    name: Option<String>,
    /// `echo`, `command`, `claude`, `acp`, or a known agent like `opencode`; docs/providers.md lists them
    #[arg(long)]
    provider: Option<String>,
    /// The provider's program, then its arguments; repeat for each word
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    command: Vec<String>,
    /// A variable: NAME=text, or NAME=env:X, NAME=file:/path, NAME=cmd:program
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// Model of the provider
    #[arg(long)]
    model: Option<String>,
    /// Reasoning effort of the provider
    #[arg(long)]
    effort: Option<String>,
    /// How much of what it writes people get: `normal`, or `verbose` with what it writes before it uses tools
    #[arg(long)]
    verbosity: Option<String>,
    /// Where its tool `recall` finds what was said: the `chat` of its session, or all chats of the `agent`
    #[arg(long)]
    recall: Option<String>,
    /// Mode of an agent with the Agent Client Protocol [default: the one that its permissions need]
    #[arg(long)]
    mode: Option<String>,
    /// Whether such an agent may use the tools that it asks about: `allow`, `ask` or `deny`
    #[arg(long)]
    permissions: Option<String>,
    /// What happens to its messages when a budget is spent: `ask`, `hold` or `warn`
    #[arg(long)]
    on_limit: Option<String>,
    /// `main`, `trusted` or `untrusted`
    #[arg(long)]
    trust: Option<String>,
    /// What it may do with its folder: `read-only` or `read-write`, whatever its trust is
    #[arg(long, value_name = "ACCESS")]
    folder_access: Option<String>,
    /// `true` lets it run unconfined, with all the rights of your user
    #[arg(long, value_name = "true|false", num_args = 0..=1, default_missing_value = "true")]
    unconfined: Option<String>,
    /// What happens to its tool calls without a rule: `open`, `careful` or `locked`
    #[arg(long, value_name = "PRESET")]
    tools: Option<String>,
    /// A rule about its tool calls, like 'ask Bash(git push:*)'; repeat for more, they replace the earlier ones
    #[arg(long, value_name = "RULE")]
    tool_rules: Vec<String>,
    /// A tool it may not use; repeat for more
    #[arg(long, value_name = "TOOL")]
    blocked_tools: Vec<String>,
    /// Most context messages in one prompt
    #[arg(long, value_name = "NUMBER")]
    max_prompt_messages: Option<String>,
    /// Most sessions of it that run at once
    #[arg(long, value_name = "NUMBER")]
    max_parallel: Option<String>,
    /// Time zone of its people: a name like Europe/Berlin, or an offset like +02:00
    #[arg(long, value_name = "ZONE", allow_hyphen_values = true)]
    timezone: Option<String>,
    /// Skips that a retry would likely fix: `tell` people about them, or `retry` silently
    #[arg(long)]
    technical_skips: Option<String>,
    /// What it may connect to: `none`, `listed`, `ask`, `public`, `host` or `open`; docs/network.md says what they mean. A new
    /// agent gets `ask`, an untrusted one `listed`
    #[arg(long)]
    network: Option<String>,
    /// A host that it may connect to, like `github.com`, `*.example.org` or `nas.local:8080`; repeat for more
    #[arg(long, value_name = "HOST[:PORT]")]
    allow: Vec<String>,
    /// A host that it may not connect to, whatever else allows it; repeat for more
    #[arg(long, value_name = "HOST[:PORT]")]
    deny: Vec<String>,
    /// A variable that stands for a secret of `[secrets]`, which only the secret's hosts get: NAME=SECRET
    #[arg(long, value_name = "NAME=SECRET")]
    secrets: Vec<String>,
    /// `true` lets its containers reach this machine's own services when their network is `open`
    #[arg(long, value_name = "true|false", num_args = 0..=1, default_missing_value = "true")]
    allow_host_loopback: Option<String>,
    /// `false` gives it the keys of its models, which Hearth otherwise keeps from it
    #[arg(long, value_name = "true|false", num_args = 0..=1, default_missing_value = "true")]
    gateway: Option<String>,
    /// A model it may use; repeat for more. Without any, it may use all
    #[arg(long, value_name = "MODEL")]
    models: Vec<String>,
    /// A variable of the daemon's environment that its requests may refer to; repeat for more
    #[arg(long, value_name = "NAME")]
    request_env: Vec<String>,
    /// A directory or file it can see, read-only unless followed by `:rw`; repeat for more
    #[arg(long, value_name = "PATH[:PLACE][:ro|rw]")]
    mounts: Vec<String>,
    /// Memory limit of each of its containers, like 2GiB
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// Processor limit of each of its containers, like 1.5
    #[arg(long, value_name = "NUMBER")]
    cpu: Option<String>,
    /// Most processes and threads in each of its containers
    #[arg(long, value_name = "NUMBER")]
    pids: Option<String>,
    /// What begins its memory, CLAUDE.local.md: a text, or file:PATH, which is read now. A memory that exists stays
    #[arg(long, value_name = "TEXT|file:PATH")]
    instructions: Option<String>,
    /// `all`, or the name of a skill it has; repeat for more
    #[arg(long, value_name = "all|NAME")]
    skills: Vec<String>,
}

/// Lists, shows and changes agents.
pub(super) fn agents(paths: &Paths, command: &AgentsCommand, json: bool) -> Done {
    let known = configuration::read(paths)?;
    match command {
        AgentsCommand::List => listed::list(&known.agents, json, "no agents"),
        AgentsCommand::Show { folder } => show(paths, find(&known, folder)?, common_zone(&known), json),
        AgentsCommand::State { folder } => agent_state::state(paths, find(&known, folder)?.id, folder, json),
        AgentsCommand::Add { folder, keys } => {
            if find(&known, folder).is_ok() {
                return Err(entity::exists("agent", folder, "agents"));
            }
            let mut fields = Fields::default();
            fields.set("folder", Value::Text(folder.clone()));
            keys.put(&mut fields, &[], &[])?;
            if keys.network.is_none() {
                agent_network::put(folder, &mut fields);
            }
            let toml = entity::toml(&[("[[agents]]", &fields)]);
            mount_args::warn_of_writable(folder, &toml);
            change::put(paths, &known, toml, json)?;
            note_memory(paths, folder, keys)
        }
        AgentsCommand::Set { folder, keys, clear, unset_env } => {
            let agent = find(&known, folder)?;
            let mut fields = agent.keys();
            keys.put(&mut fields, clear, unset_env)?;
            let toml = entity::toml(&[("[[agents]]", &fields)]);
            mount_args::warn_of_writable(folder, &toml);
            change::put(paths, &known, toml, json)?;
            note_memory(paths, folder, keys)
        }
        AgentsCommand::Restart { folder, message, rebuild } => restart(paths, folder, message.as_ref(), *rebuild, json),
        AgentsCommand::Stop { folder } => stop(paths, folder, json),
        AgentsCommand::Freeze { folder } => {
            change::edit(paths, Change::FreezeAgent(Folder::new(folder.as_str())?), json)
        }
        AgentsCommand::Rules { command } => agent_rules::rules(paths, command, json),
        AgentsCommand::Unfreeze { folder } => {
            change::edit(paths, Change::UnfreezeAgent(Folder::new(folder.as_str())?), json)
        }
        AgentsCommand::Remove { folder, purge: true } => purge::agent(paths, folder, json),
        AgentsCommand::Remove { folder, purge: false } => {
            change::edit(paths, Change::RemoveAgent(Folder::new(folder.as_str())?), json)
        }
    }
}

impl AgentKeys {
    fn put(&self, fields: &mut Fields, clear: &[String], unset_env: &[String]) -> Done {
        let given = vec![
            ("name", text(self.name.as_ref())),
            ("provider", text(self.provider.as_ref())),
            ("command", texts(&self.command)),
            ("model", text(self.model.as_ref())),
            ("effort", text(self.effort.as_ref())),
            ("verbosity", text(self.verbosity.as_ref())),
            ("recall", text(self.recall.as_ref())),
            ("mode", text(self.mode.as_ref())),
            ("permissions", text(self.permissions.as_ref())),
            ("on_limit", text(self.on_limit.as_ref())),
            ("trust", text(self.trust.as_ref())),
            ("folder_access", text(self.folder_access.as_ref())),
            ("unconfined", typed(self.unconfined.as_ref())),
            ("blocked_tools", texts(&self.blocked_tools)),
            ("max_prompt_messages", typed(self.max_prompt_messages.as_ref())),
            ("max_parallel", typed(self.max_parallel.as_ref())),
            ("timezone", text(self.timezone.as_ref())),
            ("technical_skips", text(self.technical_skips.as_ref())),
            ("network", text(self.network.as_ref())),
            ("allow", texts(&self.allow)),
            ("deny", texts(&self.deny)),
            ("allow_host_loopback", typed(self.allow_host_loopback.as_ref())),
            ("gateway", typed(self.gateway.as_ref())),
            ("models", texts(&self.models)),
            ("request_env", texts(&self.request_env)),
            ("mounts", mount_args::mounts(&self.mounts)),
            ("skills", mount_args::skills(&self.skills)),
            ("instructions", self.instructions.as_deref().map(read_instructions).transpose()?),
        ];
        if self.timezone.as_deref() == Some("") {
            let text = "--timezone is empty: omit it, or remove the time zone with `hearth agents set AGENT --clear \
             timezone`";
            return Err(Failure::Failed(text.to_owned()));
        }
        if let [only] = self.command.as_slice()
            && let Some((program, _)) = only.trim().split_once(char::is_whitespace)
        {
            return Err(Failure::Failed(format!(
                "`--command` is one word with spaces, `{only}`: give `{program}` and each of its arguments with a --command of its own"
            )));
        }
        entity::overlay(fields, given, clear);
        self.put_secrets(fields)?;
        agent_rules::put(fields, self.tools.as_deref(), &self.tool_rules)?;
        mount_args::put_limits(fields, [("memory", &self.memory), ("cpu", &self.cpu), ("pids", &self.pids)]);
        self.put_env(fields, unset_env)
    }

    fn put_secrets(&self, fields: &mut Fields) -> Done {
        let mut secrets = match fields.get("secrets") {
            Some(Value::Table(secrets)) => secrets.clone(),
            _ => Vec::new(),
        };
        for given in &self.secrets {
            let pair =
                given.split_once('=').ok_or_else(|| Failure::Failed("--secrets takes NAME=SECRET".to_owned()))?;
            secrets.retain(|(name, _)| name != pair.0);
            secrets.push((pair.0.to_owned(), Value::Text(pair.1.to_owned())));
        }
        if !secrets.is_empty() {
            fields.set("secrets", Value::Table(secrets));
        }
        Ok(())
    }

    fn put_env(&self, fields: &mut Fields, unset: &[String]) -> Done {
        let mut variables = match fields.get("env") {
            Some(Value::Env(variables)) => variables.clone(),
            _ => Vec::new(),
        };
        variables.retain(|(name, _)| !unset.contains(name));
        for given in &self.env {
            // The error does not repeat the input, because it may contain a secret.
            let pair = given.split_once('=').ok_or_else(|| Failure::Failed("--env takes NAME=VALUE".to_owned()))?;
            variables.retain(|(name, _)| name != pair.0);
            variables.push((pair.0.to_owned(), EnvValue::from_bare(pair.1.to_owned())));
        }
        if variables.is_empty() {
            fields.clear("env");
        } else {
            fields.set("env", Value::Env(variables));
        }
        Ok(())
    }
}

/// The text of `--instructions`.
fn read_instructions(given: &str) -> Result<Value, Failure> {
    let text = match given.strip_prefix("file:") {
        Some(file) => std::fs::read_to_string(file)
            .map_err(|error| Failure::Failed(format!("cannot read the instructions in {file}: {error}")))?,
        None => given.to_owned(),
    };
    if text.trim().is_empty() {
        return Err(Failure::Failed(
            "--instructions is empty: omit it, or remove them with `hearth agents set AGENT --clear instructions`"
                .to_owned(),
        ));
    }
    Ok(Value::Text(text))
}

/// Notes that new instructions do not reach an agent whose memory exists.
fn note_memory(paths: &Paths, folder: &str, keys: &AgentKeys) -> Done {
    let memory = paths.group(&Folder::new(folder)?).join(home::LOCAL);
    if keys.instructions.is_some() && std::fs::symlink_metadata(&memory).is_ok_and(|found| found.len() > 0) {
        let memory = memory.display();
        print::warning(&format!(
            "{memory} exists and stays as it is: instructions only begin a new memory; edit that file to change what \
             {folder} is told now"
        ));
    }
    Ok(())
}

fn find<'c>(known: &'c Configuration, folder: &str) -> Result<&'c AgentEntry, Failure> {
    Folder::new(folder)?;
    let found = known.agents.iter().find(|agent| agent.folder.as_str() == folder);
    found.ok_or_else(|| entity::no_agent(folder))
}

fn facts(agent: &AgentEntry) -> Vec<(&'static str, Option<String>)> {
    vec![
        ("id", Some(agent.id.to_string())),
        ("origin", Some(configuration::origin(agent.origin).to_owned())),
        ("created", Some(agent.created.to_string())),
    ]
}

impl AgentEntry {
    fn keys(&self) -> Fields {
        Fields::of_agent(&self.folder, &self.settings)
    }
}

impl Serialize for AgentEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        entity::json(&facts(self), &self.keys()).serialize(serializer)
    }
}

impl Listed for AgentEntry {
    const PLURAL: &'static str = "agents";
    const COLUMNS: &'static [Column<Self>] = &[
        ("AGENT", |one| one.folder.to_string()),
        ("NAME", |one| one.settings.name.clone()),
        ("PROVIDER", |one| entity::cell(&one.keys(), "provider")),
        ("MODEL", |one| entity::cell(&one.keys(), "model")),
        ("TRUST", |one| entity::cell(&one.keys(), "trust")),
        ("ORIGIN", |one| configuration::origin(one.origin).to_owned()),
    ];
}

/// The answer of `hearth agents restart --rebuild --json`.
#[derive(Debug, Serialize)]
struct RestartAnswer {
    images: Vec<BuiltImage>,
    #[serde(flatten)]
    done: Configured,
}

fn restart(paths: &Paths, folder: &str, message: Option<&String>, rebuild: bool, json: bool) -> Done {
    let images = if rebuild { image::rebuild(paths, folder)? } else { Vec::new() };
    if !json {
        image::print(&images)?;
    }
    let edit = Change::RestartAgent(Folder::new(folder)?, message.cloned());
    let done = change::submit_edit(paths, edit)?;
    match (rebuild, json) {
        (true, true) => print::json(&RestartAnswer { images, done }),
        (_, false) if done.changes.is_empty() => print::line(&nothing_restarted(folder, message.is_some())),
        _ => change::print(&done, json),
    }
}

/// What a restart of an agent without a running session did. Only running sessions get the message.
fn nothing_restarted(folder: &str, message: bool) -> String {
    let unsent = if message { ", and the message was not sent to anyone" } else { "" };
    format!("no session of {folder} is running: its queued messages are retried now{unsent}")
}

fn stop(paths: &Paths, folder: &str, json: bool) -> Done {
    let done = change::submit_edit(paths, Change::StopAgent(Folder::new(folder)?))?;
    if !json && done.changes.is_empty() {
        return print::line(&format!("nothing to stop: {folder} has no turn under way"));
    }
    change::print(&done, json)
}

/// The time zone that is configured for all agents.
pub(super) fn common_zone(known: &Configuration) -> Option<&str> {
    known.settings.as_ref().and_then(|settings| settings.timezone.as_deref())
}

fn show(paths: &Paths, agent: &AgentEntry, common_zone: Option<&str>, json: bool) -> Done {
    let fields = agent.keys();
    let daemon = daemon_status::ask(paths).unwrap_or_default();
    let (holds, from) = zone::that_holds(daemon.as_ref(), agent.settings.timezone.as_deref(), common_zone);
    let mut facts = facts(agent);
    facts.push(("zone", Some(holds.to_string())));
    facts.push(("zone_from", Some(from)));
    let mounts = mount_args::judged(paths, &agent.settings);
    let skills = home::skill_names(paths, &agent.settings.skills)?;
    if json {
        let mut shown = entity::json(&facts, &fields);
        if let (Some(map), false) = (shown.as_object_mut(), mounts.is_empty()) {
            map.insert("mounts".to_owned(), serde_json::to_value(&mounts)?);
        }
        if let Some(map) = shown.as_object_mut() {
            map.insert("skills_given".to_owned(), skills.into());
            map.insert("left_out".to_owned(), home::left_out(paths, &agent.settings)?.into());
        }
        return print::json(&shown);
    }
    entity::show(&facts, &fields)?;
    print::line(&format!(
        "{:20} {}",
        "skills given",
        if skills.is_empty() { "none".to_owned() } else { skills.join(", ") }
    ))?;
    mount_args::print(&mounts)?;
    for what in home::left_out(paths, &agent.settings)? {
        print::warning(&format!("agent {} does not get {what}", agent.folder));
    }
    Ok(())
}
