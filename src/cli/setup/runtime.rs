//! The step that chooses where agents run.

use super::ask::Choice;
use super::{Setup, StepReport, StepState};
use crate::cli::{Failure, configuration, image};
use crate::config::env;
use crate::daemon::{rehearse, sandbox};
use crate::model::configure::{Change, RuntimeKind, Settings};
use crate::model::entity::{AgentSettings, EnvValue, Hold, Network, ProviderKind};
use crate::model::gateway::bound;
use crate::provider::Credential;

/// The command that installs the agent CLI for processes. The image contains the CLI.
const CLI: &str = "npm install -g @anthropic-ai/claude-code";
/// A description of confined processes.
const CONFINED: &str = "agents are confined processes of your user, which see their own folder and what you give them, \
                        with rules for their network where bubblewrap is installed; packages for agents are not installed";

impl Setup<'_> {
    pub(super) fn place(&mut self) -> Result<StepReport, Failure> {
        let known = configuration::read(self.paths)?.settings.unwrap_or_default();
        let agent = self.settings_of_agent()?.unwrap_or_else(|| AgentSettings::named(String::new()));
        let runtime = self.args.runtime.map(super::RuntimeArg::kind).or(known.runtime);
        if agent.provider == ProviderKind::Echo && runtime.is_none() {
            return Ok(StepReport::new(StepState::Skipped, "echo needs neither containers nor confinement"));
        }
        let (kind, why) = self.find_runtime(&Settings { runtime, ..known.clone() })?;
        let mut state = StepState::Already;
        // If containers were found, the choice is left to the daemon.
        let chosen = (self.args.runtime.is_some() || kind == RuntimeKind::Process).then_some(kind);
        if chosen.is_some() && known.runtime != chosen {
            self.put(&Change::PutSettings(Settings { runtime: chosen, ..known }))?;
            state = StepState::Done;
        }
        if kind == RuntimeKind::Process {
            state = self.confine(&agent, state)?;
            self.find_cli(&agent)?;
            state = self.open_network(state)?;
        }
        if kind == RuntimeKind::Podman && bound(&agent).is_empty() && reaches_by_loopback(&agent) {
            self.say(
                "The model's server is at this machine's loopback address, which a container cannot reach: use host.containers.internal instead, and set allow_host_loopback = true; see docs/models.md.",
            )?;
        }
        let place = if kind == RuntimeKind::Podman { "in containers" } else { "as processes" };
        Ok(StepReport::new(state, format!("{place}, because {why}")))
    }

    /// Decides between containers and processes. Asks if containers are not available and were not ruled out.
    fn find_runtime(&self, settings: &Settings) -> Result<(RuntimeKind, String), Failure> {
        loop {
            let why = match (rehearse(settings), settings.runtime) {
                (Ok((kind, why)), Some(_)) => return Ok((kind, why)),
                (Ok((RuntimeKind::Podman, why)), None) => return Ok((RuntimeKind::Podman, why)),
                (Ok((RuntimeKind::Process, why)), None) => why,
                (Err(error), _) if self.ask.is_person() => error.to_string(),
                (Err(error), _) => return Err(error.into()),
            };
            if !self.ask.is_person() {
                return Ok((RuntimeKind::Process, why));
            }
            self.say(&format!("Containers isolate agents best, but are not available: {why}."))?;
            let with_podman = crate::daemon::image::Engine::find().is_ok();
            let again = if with_podman {
                Choice { name: "build", about: "build the image now, which takes some minutes" }
            } else {
                Choice { name: "look again", about: "after you did that in another terminal" }
            };
            let process = Choice { name: "processes", about: CONFINED };
            match self.ask.choose(&[again, process])? {
                0 if with_podman => {
                    if let Err(failure) = image::build_all(self.paths) {
                        self.say(&format!("This failed: {}", failure.words()))?;
                    }
                }
                0 => {}
                _ => return Ok((RuntimeKind::Process, "you chose it".to_owned())),
            }
        }
    }

    /// Where processes cannot be confined, lets the person decide whether the agent may run unconfined.
    fn confine(&mut self, agent: &AgentSettings, state: StepState) -> Result<StepState, Failure> {
        let sandbox = sandbox(self.paths);
        let Some(why) = sandbox.missing() else { return Ok(state) };
        if agent.hold(agent.provider, false) != Hold::NeedsUnconfined {
            return Ok(state);
        }
        self.say(&format!("Processes cannot be confined here: {why}."))?;
        let question = "Allow this agent to do everything that your user may do?";
        if !(self.args.unconfined || self.ask.is_person() && self.ask.yes(question, false)?) {
            let mend = "install what `hearth doctor` names, use containers, or add --unconfined";
            return Err(Failure::Failed(format!("the agent cannot be confined here: {why}; {mend}")));
        }
        let settings = AgentSettings { unconfined: true, ..agent.clone() };
        self.put(&Change::PutAgent(self.args.agent.clone(), settings))?;
        Ok(StepState::Done)
    }

    /// Where an agent's network cannot be limited, lets the person decide whether the agent may reach everything.
    /// Otherwise it would not start. An agent that may run unconfined may do that, too.
    fn open_network(&mut self, state: StepState) -> Result<StepState, Failure> {
        let is_limited = |agent: &AgentSettings| agent.network.has_rules() && agent.provider != ProviderKind::Echo;
        let Some(agent) = self.settings_of_agent()?.filter(is_limited) else { return Ok(state) };
        let lack = sandbox(self.paths).lacks_networks();
        if agent.unconfined {
            self.say("It reaches everything that your user reaches over the network.")?;
        } else if let Some((why, mend)) = lack {
            // What bubblewrap prints may end its sentence.
            let because = why.trim_end_matches('.');
            self.say(&format!(
                "What this agent reaches over the network cannot be limited here: {because}. To limit it, {mend}."
            ))?;
            let question = "Let it reach everything?";
            if !(self.args.open_network || self.ask.is_person() && self.ask.yes(question, false)?) {
                return Err(Failure::Failed(format!(
                    "the agent's network cannot be limited here: {why}; {mend}, use containers, or add --open-network"
                )));
            }
        } else {
            return Ok(state);
        }
        let settings = AgentSettings { network: Network::Open, ..agent };
        self.put(&Change::PutAgent(self.args.agent.clone(), settings))?;
        Ok(StepState::Done)
    }

    /// Without a container, the agent CLI is a program of this machine.
    fn find_cli(&self, agent: &AgentSettings) -> Result<(), Failure> {
        let needed = agent.provider == ProviderKind::Claude && agent.command.is_empty();
        let found = || std::env::split_paths(&env::child_path()).any(|dir| dir.join("claude").is_file());
        while needed && !found() {
            let what = format!("The program `claude` is not on the PATH. Install it with:\n\n    {CLI}\n");
            if !self.ask.is_person() {
                return Err(Failure::Failed(format!("the program `claude` is not on the PATH: run `{CLI}`")));
            }
            self.say(&what)?;
            self.ask.wait("Press Enter to look again: ")?;
        }
        Ok(())
    }
}

/// Whether the agent's model is at an address that refers to another machine inside a container.
fn reaches_by_loopback(agent: &AgentSettings) -> bool {
    agent.env.iter().any(|(name, value)| match value {
        EnvValue::Plain(url) if name == Credential::BASE_URL => {
            let host = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
            ["localhost", "127.", "[::1]"].iter().any(|start| host.starts_with(start))
        }
        _ => false,
    })
}
