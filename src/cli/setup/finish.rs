//! The last steps: the service, the owner, the first message, and what to do next.

use super::{Setup, StepReport, StepState, file};
use crate::cli::{Failure, chat, configuration, service};
use crate::model::configure::RoleSpec;

/// Asks little of a model, so that it costs little.
const HELLO: &str = "Hello! Who are you, in one sentence?";

impl Setup<'_> {
    pub(super) fn service(&mut self) -> Result<StepReport, Failure> {
        if let Some(name) = service::installed(self.paths)? {
            return Ok(StepReport::new(StepState::Already, format!("{name} is installed")));
        }
        let without = "`hearth run` runs Hearth while its terminal is open";
        if self.args.no_service || !self.agrees("Start Hearth now and whenever you log in?")? {
            return Ok(StepReport::new(StepState::Skipped, without));
        }
        match service::install_now(self.paths) {
            Ok(installed) => Ok(StepReport::new(StepState::Done, installed)),
            Err(failure) => Ok(StepReport::new(StepState::Skipped, format!("{}; {without}", super::words(&failure)))),
        }
    }

    pub(super) fn owner(&mut self) -> Result<StepReport, Failure> {
        let known = configuration::read(self.paths)?;
        let owners = known.users.iter().filter(|user| user.spec.roles.contains(&RoleSpec::Owner));
        let owners: Vec<String> = owners.map(|user| user.spec.id.to_string()).collect();
        if owners.is_empty() {
            return Ok(StepReport::new(StepState::Skipped, "your first message in this terminal makes you the owner"));
        }
        Ok(StepReport::new(StepState::Already, format!("owner: {}", owners.join(", "))))
    }

    pub(super) fn message(&mut self) -> Result<StepReport, Failure> {
        if self.args.no_message {
            return Ok(StepReport::new(StepState::Skipped, "no message was sent"));
        }
        let text = match &self.args.message {
            Some(text) => text.clone(),
            None if self.ask.is_person() && !self.args.yes => {
                let typed = self.ask.line(&format!("Write to your agent [{HELLO}]: "))?;
                if typed.is_empty() { HELLO.to_owned() } else { typed }
            }
            None => HELLO.to_owned(),
        };
        let answered = chat::ask(self.paths, self.args.agent.as_str(), &text)?;
        for answer in &answered.texts {
            self.say(&format!("  {}: {}", self.args.agent, answer.replace('\n', "\n  ")))?;
        }
        if answered.failed {
            let why = answered.error.unwrap_or_else(|| "the agent did not answer".to_owned());
            return Err(Failure::Failed(format!(
                "{why}\n`hearth why latest` explains what happened; `hearth setup` tries it again"
            )));
        }
        self.answers = answered.texts;
        Ok(StepReport::new(StepState::Done, format!("{} answered", self.args.agent)))
    }

    /// What a person can do now.
    pub(super) fn next_steps(&self) -> Vec<String> {
        let mut next = Vec::new();
        if let Some(bot) = &self.bot {
            next.push(format!("write to https://t.me/{bot}, and allow it with `hearth approvals`"));
        }
        if !matches!(service::installed(self.paths), Ok(Some(_))) {
            next.push("hearth run           run Hearth in this terminal".to_owned());
        }
        next.push("hearth chat          talk to your agent here".to_owned());
        next.push("hearth status        what runs, what waits, what is wrong".to_owned());
        next.push("hearth why latest    what happened to the newest message, and why".to_owned());
        next.push(format!("hearth apply {}    after you changed this file", file::path(self.paths).display()));
        next
    }
}
