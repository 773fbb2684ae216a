//! Known agents of the provider `acp` and the provider `openai`: what each needs, and how it is led to its model.

use super::provider::{NO_TOKEN, attempt};
use super::{Setup, secret};
use crate::cli::Failure;
use crate::model::entity::{AgentSettings, EnvValue, Preset, ProviderKind};
use crate::provider::{Credential, LocalServer, local_servers};

/// Variables with the address of a server with OpenAI's API, and its key.
const OPENAI_URL: &str = "OPENAI_BASE_URL";
const OPENAI_KEY: &str = "OPENAI_API_KEY";
/// Maximum number of listed models.
const MODELS_MAX: usize = 12;

/// What was chosen, and how to go on.
fn chosen(preset: Preset) -> String {
    let known = preset.about();
    let (name, title, package) = (known.name, known.title, known.package.install());
    format!(
        "{name}: {title}. `hearth doctor` starts it and says what is missing; `{package}` installs it on this machine, \
         `hearth image build --with {name}` for agents in containers"
    )
}

/// How an agent is led to its model.
struct Access {
    title: &'static str,
    base_url: &'static str,
    key: &'static str,
    /// Whether it has to be told the name of a model, without and with a server of one's own.
    needs_model: [bool; 2],
}

/// This machine's name in containers, which this program cannot look up.
const IN_CONTAINERS: &str = "host.containers.internal";

impl Access {
    fn of(provider: ProviderKind) -> Self {
        match provider.preset().map(Preset::about) {
            Some(known) => Self {
                title: known.title,
                base_url: known.model.base_url,
                key: known.model.key,
                needs_model: [known.model.chooses, known.model.chooses || known.model.config.is_some()],
            },
            None => Self { title: "the server", base_url: OPENAI_URL, key: OPENAI_KEY, needs_model: [true, true] },
        }
    }

    /// Tries key and server with a request that costs nothing, as `hearth doctor` does. Returns words about it.
    ///
    /// # Errors
    /// Why they do not work.
    fn attempt(&self, base_url: Option<&str>, key: Option<&str>) -> Result<String, String> {
        let untried = |why: &str| Ok(format!("not tried, because {why}"));
        let Some(credential) = Credential::of_variable(self.key) else {
            return untried("its server has another API");
        };
        if base_url.is_none() && (key.is_none() || credential.variable() != self.key) {
            return untried("its program signs in on its own, and only an answer, which costs, shows whether it can");
        }
        if base_url.is_some_and(|url| url.contains(IN_CONTAINERS)) {
            return untried("only containers reach this address");
        }
        let tried = attempt(credential, key.unwrap_or(NO_TOKEN).to_owned(), base_url.map(str::to_owned))?;
        let at = base_url.unwrap_or(credential.api().default_server());
        Ok(match tried.unchecked {
            None if key.is_some() => format!("{at} accepts the key"),
            None => format!("{at} answers"),
            Some(why) => format!("the key could not be tried without cost: {why}"),
        })
    }
}

/// Tries the key and the server of an agent that was set up before.
pub(super) fn tried_before(settings: &AgentSettings) -> Result<String, String> {
    let access = Access::of(settings.provider);
    let value = |name: &str| settings.env.iter().find(|(known, _)| known == name).map(|(_, value)| value);
    let base_url = match value(access.base_url) {
        Some(EnvValue::Plain(url)) => Some(url.as_str()),
        _ => None,
    };
    let key = match value(access.key) {
        Some(EnvValue::Plain(key)) => Some(key.clone()),
        Some(EnvValue::Reference(reference)) => match reference.strip_prefix("file:") {
            Some(file) => Some(secret::read(file.as_ref()).map_err(|failure| failure.words().to_owned())?),
            // Not for commands, which may ask for a password, and variables, which are the daemon's.
            None => return Ok(about(settings, base_url)),
        },
        None => None,
    };
    let words = access.attempt(base_url, key.filter(|key| key != NO_TOKEN).as_deref())?;
    Ok(format!("{}; {words}", about(settings, base_url)))
}

/// What an agent is, and how to go on.
fn about(settings: &AgentSettings, base_url: Option<&str>) -> String {
    let at = base_url.unwrap_or("api.openai.com");
    settings.provider.preset().map_or_else(|| format!("openai, with the server {at}"), chosen)
}

impl Setup<'_> {
    /// Leads an agent to its model.
    pub(super) fn lead_to_model(&self, settings: &mut AgentSettings) -> Result<String, Failure> {
        let access = Access::of(settings.provider);
        let local = if settings.provider == ProviderKind::OpenAi { self.local_servers()? } else { Vec::new() };
        let (base_url, key, words) = match (&self.args.base_url, &self.args.key_file) {
            (None, None) if self.ask.is_person() => self.typed_access(&access, &local)?,
            (base_url, key_file) => {
                let key = key_file.as_deref().map(secret::read).transpose()?;
                let tried = access.attempt(base_url.as_deref(), key.as_deref());
                let words = tried.map_err(|why| Failure::Failed(format!("{why}; correct --key-file or --base-url")))?;
                (base_url.clone(), key, words)
            }
        };
        settings.env.retain(|(name, _)| name != access.base_url && name != access.key);
        let key = match (key, &base_url) {
            (Some(key), _) => {
                let name = format!("{}.{}", self.args.agent, access.key);
                Some(EnvValue::Reference(secret::keep(self.paths, &name, &key)?))
            }
            // Programs of others may not start without a key.
            (None, Some(_)) if settings.provider.preset().is_some() => Some(EnvValue::Plain(NO_TOKEN.to_owned())),
            (None, _) => None,
        };
        settings.env.extend(key.map(|key| (access.key.to_owned(), key)));
        if settings.model.is_none() && self.args.model.is_none() {
            let [without, with] = access.needs_model;
            let needs_model = if base_url.is_some() { with } else { without };
            let listed = local.iter().find(|server| Some(&server.base_url) == base_url.as_ref());
            settings.model =
                self.typed_model(&access, needs_model, listed.map(|server| &server.models[..]).unwrap_or(&[]))?;
        }
        let about = format!("{}; {words}", about(settings, base_url.as_deref()));
        settings.env.extend(base_url.map(|url| (access.base_url.to_owned(), EnvValue::Plain(url))));
        Ok(about)
    }

    /// Servers of models on this machine. They are looked for only if a person is asked.
    fn local_servers(&self) -> Result<Vec<LocalServer>, Failure> {
        if !self.ask.is_person() {
            return Ok(Vec::new());
        }
        let found = super::block_on(local_servers()).unwrap_or_default();
        for LocalServer { name, base_url, models } in &found {
            let models: Vec<&str> = models.iter().take(MODELS_MAX).map(String::as_str).collect();
            self.say(&format!("{name} answers at {base_url}, with: {}", models.join(", ")))?;
        }
        Ok(found)
    }

    /// The address of a server and a key, each if the person has one, with words about their trial. Asks until they work.
    fn typed_access(
        &self,
        access: &Access,
        local: &[LocalServer],
    ) -> Result<(Option<String>, Option<String>, String), Failure> {
        loop {
            let (base_url, key) = self.typed_once(access, local)?;
            match access.attempt(base_url.as_deref(), key.as_deref()) {
                Ok(words) => return Ok((base_url, key, words)),
                Err(why) => self.say(&format!("This does not work: {why}. Try again; Ctrl-C leaves."))?,
            }
        }
    }

    fn typed_once(&self, access: &Access, local: &[LocalServer]) -> Result<(Option<String>, Option<String>), Failure> {
        let given = |text: String| (!text.is_empty()).then_some(text);
        let usual = local.first().map(|server| server.base_url.clone());
        let without = usual.as_deref().unwrap_or("its maker's service");
        let base_url = self.ask.line(&format!("Address of your own server for its model (Enter for {without}): "))?;
        let base_url = given(base_url).or(usual);
        if local.iter().any(|server| Some(&server.base_url) == base_url.as_ref()) {
            return Ok((base_url, None));
        }
        let key = loop {
            let typed =
                self.ask.secret(&format!("Key for {} (Enter for none; not shown while you type): ", access.title))?;
            match given(typed).map(|typed| secret::check(&typed)).transpose() {
                Ok(key) => break key,
                Err(why) => self.say(&format!("This is not a key: {why}."))?,
            }
        };
        Ok((base_url, key))
    }

    /// The name of the model, if the agent has to be told one. `listed` are those of the server; the first one is usual.
    fn typed_model(&self, access: &Access, is_needed: bool, listed: &[String]) -> Result<Option<String>, Failure> {
        if !self.ask.is_person() {
            let why = format!("{} needs the name of a model: add --model", access.title);
            return if is_needed { Err(Failure::Failed(why)) } else { Ok(None) };
        }
        if let Some(model) = self.only_model(listed)? {
            return Ok(Some(model));
        }
        let question = match listed.first() {
            Some(first) => format!("Model (Enter for {first}): "),
            None if is_needed => "Model: ".to_owned(),
            None => "Model (Enter for the agent's own): ".to_owned(),
        };
        loop {
            let typed = self.ask.line(&question)?;
            let model = if typed.is_empty() { listed.first().cloned() } else { Some(typed) };
            if model.is_some() || !is_needed {
                return Ok(model);
            }
        }
    }
}
