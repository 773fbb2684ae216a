//! The step that chooses the provider. A key is tried at once, and kept if its server accepts it.

use super::ask::Choice;
use super::{Setup, StepReport, StepState, known, secret, skills};
use crate::cli::{Failure, configuration};
use crate::model::configure::Change;
use crate::model::entity::{AgentSettings, EnvValue, Network, ProviderKind, Trust};
use crate::model::starting_hosts::{provider_hosts, starting_hosts};
use crate::model::tool::{ToolPreset, ToolSettings};
use crate::provider::{Accepted, Credential, Login, OFFERS, Offer, try_login};

/// Token for a server that does not need one.
pub(super) const NO_TOKEN: &str = "none-needed";
/// Maximum number of listed models.
const MODELS_MAX: usize = 12;

/// How the agent CLI logs in.
const LOGINS: [Choice<'static>; 3] = [
    Choice { name: "API key", about: "from console.anthropic.com; you pay for each answer" },
    Choice {
        name: "subscription",
        about: "Claude Pro, Max or Team: run `claude setup-token` in another terminal and copy the token; answers count \
                towards its limits",
    },
    Choice { name: "own server", about: "the address of a server with the same API, like LiteLLM or Ollama" },
];

/// A login that its server accepted.
pub(super) struct Tried {
    credential: Credential,
    secret: String,
    base_url: Option<String>,
    /// Models that the server offers, if it lists them.
    models: Vec<String>,
    /// Why only an answer can show whether it works.
    pub(super) unchecked: Option<String>,
}

impl Tried {
    /// The result, for people.
    fn words(&self) -> String {
        let what = self.credential.as_str();
        match &self.unchecked {
            None => format!("a working {what}"),
            Some(why) => format!("a {what} that could not be tried without cost: {why}"),
        }
    }
}

impl Setup<'_> {
    pub(super) fn provider(&mut self) -> Result<StepReport, Failure> {
        let found = self.settings_of_agent()?;
        if let Some(settings) = found.as_ref().filter(|settings| self.keeps(settings)) {
            match tried_before(settings) {
                Ok(about) if self.args.model.is_none() || self.args.model == settings.model => {
                    return Ok(StepReport::new(StepState::Already, about));
                }
                Ok(about) => {
                    let settings = AgentSettings { model: self.args.model.clone(), ..settings.clone() };
                    self.put(&Change::PutAgent(self.args.agent.clone(), settings))?;
                    return Ok(StepReport::new(StepState::Done, about));
                }
                Err(why) if self.ask.is_person() => self.say(&format!("Not working: {why}"))?,
                Err(why) => return Err(Failure::Failed(format!("{why}; give another key with --key-file"))),
            }
        }
        let before = found.as_ref().map(|settings| settings.provider);
        let mut settings = found.unwrap_or_else(|| AgentSettings {
            trust: Trust::Main,
            ..AgentSettings::named(self.args.agent.to_string())
        });
        settings.provider = match self.args.provider {
            Some(super::ProviderArg(provider)) => provider,
            None if self.args.names_provider() => ProviderKind::Claude,
            None => self.choose_provider()?,
        };
        let about = match settings.provider {
            ProviderKind::Claude => self.log_in(&mut settings)?,
            ProviderKind::Preset(_) | ProviderKind::OpenAi => self.lead_to_model(&mut settings)?,
            _ => "echo: repeats what you write".to_owned(),
        };
        settings.model = self.args.model.clone().or(settings.model);
        // An agent that worked before keeps its network, and goes on using its tools.
        if before.is_none_or(|before| before == ProviderKind::Echo) {
            self.limit_network(&mut settings)?;
            if settings.tools == ToolSettings::default() {
                settings.tools = ToolSettings::of(ToolPreset::Careful);
            }
        }
        if before == Some(ProviderKind::Echo) && settings.provider == ProviderKind::Echo {
            return Ok(StepReport::new(StepState::Already, about));
        }
        let answers_itself = settings.provider != ProviderKind::Echo;
        self.put(&Change::PutAgent(self.args.agent.clone(), settings))?;
        if answers_itself {
            let skills = skills::put(self.paths)?;
            if !skills.is_empty() {
                self.say(&format!("Skills for your agents are in {}.", self.paths.skills().display()))?;
            }
        }
        Ok(StepReport::new(StepState::Done, about))
    }

    /// Gives a new agent rules for its network, and offers hosts that it may reach without a question.
    fn limit_network(&self, settings: &mut AgentSettings) -> Result<(), Failure> {
        if settings.network == Network::Open {
            settings.network = settings.default_network();
        }
        if settings.provider == ProviderKind::Echo || !settings.network.has_rules() || !settings.allow.is_empty() {
            return Ok(());
        }
        let listed = starting_hosts(settings.provider);
        let shown = listed.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        self.say(&format!(
            "Your agent asks you before it connects to a host that its list, `allow` in hearth.toml, does not have. For a start, \
             the list can have the hosts of its provider, registries of packages, and hosts of Git: {shown}."
        ))?;
        let takes_all = !self.ask.is_person() || self.args.yes || self.ask.yes("List them?", true)?;
        settings.allow = if takes_all { listed } else { provider_hosts(settings.provider) };
        Ok(())
    }

    /// Whether the agent has a provider that the options do not replace.
    fn keeps(&self, settings: &AgentSettings) -> bool {
        let wanted = self.args.provider.map(|super::ProviderArg(provider)| provider);
        settings.provider != ProviderKind::Echo
            && !self.args.names_login()
            && wanted.is_none_or(|wanted| wanted == settings.provider)
    }

    /// The settings of the agent; none if it does not exist yet.
    pub(super) fn settings_of_agent(&self) -> Result<Option<AgentSettings>, Failure> {
        let known = configuration::read(self.paths)?;
        let found = known.agents.into_iter().find(|agent| agent.folder == self.args.agent);
        Ok(found.map(|agent| agent.settings))
    }

    fn choose_provider(&self) -> Result<ProviderKind, Failure> {
        let about = super::PROVIDERS.map(|super::ProviderArg(provider)| match provider.preset() {
            Some(preset) => preset.about().title.to_owned(),
            None => {
                let offer = OFFERS.iter().find(|offer| offer.provider == provider);
                let about = |Offer { is, needs, costs, .. }: &Offer| format!("{is}\nneeds: {needs}\ncosts: {costs}");
                offer.map(about).unwrap_or_default()
            }
        });
        let choices = super::PROVIDERS.iter().zip(&about);
        let choices: Vec<Choice<'_>> =
            choices.map(|(provider, about)| Choice { name: provider.0.as_str(), about }).collect();
        self.say(
            "Choose what answers. The agents with one line have programs of their own: setup says how to install the one that \
             you choose. They cost what their models cost.",
        )?;
        let chosen = self.ask.choose(&choices)?;
        Ok(super::PROVIDERS.get(chosen).map_or(ProviderKind::Echo, |provider| provider.0))
    }

    /// Finds a working login, from the options or from the person, and puts it into the agent's environment.
    fn log_in(&self, settings: &mut AgentSettings) -> Result<String, Failure> {
        let tried = if self.args.names_login() { self.given_login()? } else { self.typed_login()? };
        let (about, variable) = (tried.words(), tried.credential.variable());
        let value = if tried.secret == NO_TOKEN {
            EnvValue::Plain(tried.secret)
        } else {
            EnvValue::Reference(secret::keep(self.paths, &format!("{}.{variable}", self.args.agent), &tried.secret)?)
        };
        let ours =
            |name: &str| name == Credential::BASE_URL || Credential::ALL.iter().any(|one| one.variable() == name);
        settings.env.retain(|(name, _)| !ours(name));
        settings.env.push((variable.to_owned(), value));
        let server = tried.base_url.clone();
        settings.env.extend(tried.base_url.map(|url| (Credential::BASE_URL.to_owned(), EnvValue::Plain(url))));
        if server.is_some() && self.args.model.is_none() && self.ask.is_person() {
            settings.model = self.choose_model(&tried.models)?;
        }
        let at = server.map(|server| format!(" at {server}")).unwrap_or_default();
        Ok(format!("claude, with {about}{at}"))
    }

    fn choose_model(&self, models: &[String]) -> Result<Option<String>, Failure> {
        if let Some(model) = self.only_model(models)? {
            return Ok(Some(model));
        }
        if !models.is_empty() {
            let shown = models.iter().take(MODELS_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
            let more = models.len().saturating_sub(MODELS_MAX);
            let more = if more == 0 { String::new() } else { format!(" and {more} more") };
            self.say(&format!("This server offers {shown}{more}."))?;
        }
        let model = self.ask.line("Model (Enter for the default of the agent CLI): ")?;
        Ok((!model.is_empty()).then_some(model))
    }

    /// The model of a server that has no other. The person is told, not asked.
    pub(super) fn only_model(&self, models: &[String]) -> Result<Option<String>, Failure> {
        let [model] = models else { return Ok(None) };
        self.say(&format!("Your agent uses {model}, the only model of this server."))?;
        Ok(Some(model.clone()))
    }

    /// The login that the options name. One that does not work ends the setup.
    fn given_login(&self) -> Result<Tried, Failure> {
        let base_url = self.args.base_url.clone();
        let secret = match &self.args.key_file {
            Some(file) => secret::read(file)?,
            None => NO_TOKEN.to_owned(),
        };
        let credential = credential(&secret, base_url.as_deref());
        let tried = attempt(credential, secret, base_url);
        tried.map_err(|why| Failure::Failed(format!("{why}; correct --key-file or --base-url")))
    }

    /// Asks for the address of a server until it is one.
    fn address(&self) -> Result<String, Failure> {
        loop {
            let typed = self.ask.line("Address, like http://localhost:4000: ")?;
            match Login::new(Credential::ServerToken, NO_TOKEN, Some(&typed)) {
                Ok(_) => return Ok(typed),
                Err(why) => self.say(&format!("This is not an address: {why}."))?,
            }
        }
    }

    /// Asks until a login works.
    fn typed_login(&self) -> Result<Tried, Failure> {
        let own_server = self.ask.choose(&LOGINS)? == 2;
        loop {
            let base_url = if own_server { Some(self.address()?) } else { None };
            let question = if own_server { "Token, if it wants one" } else { "Key or token" };
            let typed = self.ask.secret(&format!("{question} (not shown while you type): "))?;
            let typed = if own_server && typed.is_empty() { NO_TOKEN.to_owned() } else { typed };
            let credential = credential(&typed, base_url.as_deref());
            self.say(&format!("Trying it at {}…", base_url.as_deref().unwrap_or("api.anthropic.com")))?;
            match attempt(credential, typed, base_url) {
                Ok(tried) => return Ok(tried),
                Err(why) => self.say(&format!("This does not work: {why}. Try again; Ctrl-C leaves."))?,
            }
        }
    }
}

/// The kind of credential that a secret is for a server.
fn credential(secret: &str, base_url: Option<&str>) -> Credential {
    base_url.map_or_else(|| Credential::looks_like(secret), |_| Credential::ServerToken)
}

/// Asks the server whether it accepts a login.
pub(super) fn attempt(credential: Credential, secret: String, base_url: Option<String>) -> Result<Tried, String> {
    let login = Login::new(credential, &secret, base_url.as_deref()).map_err(|error| error.to_string())?;
    match super::block_on(try_login(&login)).map_err(|error| error.to_string())?.map_err(|why| why.to_string())? {
        Accepted::Models(models) => Ok(Tried { credential, secret, base_url, models, unchecked: None }),
        Accepted::Unchecked(why) => {
            Ok(Tried { credential, secret, base_url, models: Vec::new(), unchecked: Some(why) })
        }
    }
}

/// Tries the login of an agent that was set up before.
fn tried_before(settings: &AgentSettings) -> Result<String, String> {
    let provider = settings.provider.as_str();
    if matches!(settings.provider, ProviderKind::Preset(_) | ProviderKind::OpenAi) {
        return known::tried_before(settings);
    }
    if settings.provider != ProviderKind::Claude {
        return Ok(format!("{provider}: {}", settings.command.join(" ")));
    }
    let value = |name: &str| settings.env.iter().find(|(known, _)| known == name).map(|(_, value)| value);
    let found = Credential::ALL.into_iter().find_map(|one| Some((one, value(one.variable())?)));
    let (credential, value_of) = found.ok_or_else(|| format!("agent {} has no key", settings.name))?;
    let secret = match value_of {
        EnvValue::Plain(text) => text.clone(),
        EnvValue::Reference(reference) => match reference.strip_prefix("file:") {
            Some(file) => secret::read(file.as_ref()).map_err(|failure| failure.words().to_owned())?,
            // Not for commands, which may ask for a password, and variables, which are the daemon's.
            None => return Ok(format!("{provider}, with {} from {reference}", credential.variable())),
        },
    };
    let base_url = match value(Credential::BASE_URL) {
        Some(EnvValue::Plain(url)) => Some(url.clone()),
        _ => None,
    };
    attempt(credential, secret, base_url).map(|tried| format!("{provider}, with {}", tried.words()))
}
