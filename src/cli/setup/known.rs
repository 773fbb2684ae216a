//! Known agents of the provider `acp`: what each needs, and how it is led to its model.

use super::{Setup, secret};
use crate::cli::Failure;
use crate::model::entity::{AgentSettings, EnvValue, Preset};

/// What an agent is, for people who choose one.
pub(super) fn about(preset: Preset) -> String {
    let known = preset.about();
    let (package, name) = (known.package.install(), known.name);
    format!(
        "{}\nneeds: its program where agents run: `{package}`, or `hearth image build --with {name}`; and a key, a login of \
         its own, or the address of a server for its model\ncosts: what its model costs",
        known.title
    )
}

/// What was chosen, and how to go on.
pub(super) fn chosen(preset: Preset) -> String {
    let known = preset.about();
    let (name, title, package) = (known.name, known.title, known.package.install());
    format!(
        "{name}: {title}. `hearth doctor` starts it and says what is missing; `{package}` installs it on this machine, \
         `hearth image build --with {name}` for agents in containers"
    )
}

impl Setup<'_> {
    /// Leads a known agent to its model.
    pub(super) fn set_up_known(&self, preset: Preset, settings: &mut AgentSettings) -> Result<String, Failure> {
        let access = &preset.about().model;
        let (base_url, key) = match (&self.args.base_url, &self.args.key_file) {
            (None, None) if self.ask.is_person() => self.typed_access(preset)?,
            (base_url, key_file) => (base_url.clone(), key_file.as_deref().map(secret::read).transpose()?),
        };
        settings.env.retain(|(name, _)| name != access.base_url && name != access.key);
        if let Some(key) = key {
            let reference = secret::keep(self.paths, &format!("{}.{}", self.args.agent, access.key), &key)?;
            settings.env.push((access.key.to_owned(), EnvValue::Reference(reference)));
        }
        if settings.model.is_none() && self.args.model.is_none() {
            settings.model = self.model_of_known(preset, base_url.is_some())?;
        }
        settings.env.extend(base_url.map(|url| (access.base_url.to_owned(), EnvValue::Plain(url))));
        Ok(chosen(preset))
    }

    /// The address of a server and a key, each if the person has one.
    fn typed_access(&self, preset: Preset) -> Result<(Option<String>, Option<String>), Failure> {
        let given = |text: String| (!text.is_empty()).then_some(text);
        let title = preset.about().title;
        let base_url = self.ask.line("Address of your own server for its model (Enter for its maker's service): ")?;
        let key = loop {
            let typed = self.ask.secret(&format!("Key for {title} (Enter for none; not shown while you type): "))?;
            match given(typed).map(|typed| secret::check(&typed)).transpose() {
                Ok(key) => break key,
                Err(why) => self.say(&format!("This is not a key: {why}."))?,
            }
        };
        Ok((given(base_url), key))
    }

    /// The name of the model, if the agent has to be told one.
    fn model_of_known(&self, preset: Preset, has_server: bool) -> Result<Option<String>, Failure> {
        let access = &preset.about().model;
        let is_needed = access.chooses || (has_server && access.config.is_some());
        if !self.ask.is_person() {
            let why = format!("{} needs the name of a model: add --model", preset.about().title);
            return if is_needed { Err(Failure::Failed(why)) } else { Ok(None) };
        }
        loop {
            let typed = self.ask.line(if is_needed { "Model: " } else { "Model (Enter for the agent's own): " })?;
            if !typed.is_empty() || !is_needed {
                return Ok((!typed.is_empty()).then_some(typed));
            }
        }
    }
}
