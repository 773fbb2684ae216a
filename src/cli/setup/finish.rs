//! The last steps: the service, the owner, the first message, and what to do next.

use super::{Setup, StepReport, StepState, file};
use crate::cli::channels::pair::{Confirm, pair_by};
use crate::cli::{Failure, chat, configuration, service};
use crate::daemon::opening::Opening;
use crate::model::address::{ChannelName, UserId};
use crate::model::configure::RoleSpec;

/// A cheap request for a model.
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
            Err(failure) => Ok(StepReport::new(StepState::Skipped, format!("{}; {without}", failure.words()))),
        }
    }

    /// Pairs the owner on the bot's channel, unless it has an owner.
    pub(super) fn owner(&mut self) -> Result<StepReport, Failure> {
        let owners = self.owners()?;
        let channel = self.bot.as_ref().map(|bot| bot.channel.clone());
        if let Some(channel) = channel.filter(|channel| owners.iter().all(|owner| owner.channel() != channel))
            && self.wants_pairing()?
        {
            return self.pair(&channel);
        }
        if owners.is_empty() {
            return Ok(StepReport::new(StepState::Skipped, "your first message in this terminal makes you the owner"));
        }
        let owners = owners.iter().map(UserId::to_string).collect::<Vec<_>>().join(", ");
        Ok(StepReport::new(StepState::Already, format!("owner: {owners}")))
    }

    fn owners(&self) -> Result<Vec<UserId>, Failure> {
        let users = configuration::read(self.paths)?.users.into_iter();
        let owners = users.filter(|user| user.spec.roles.contains(&RoleSpec::Owner));
        Ok(owners.map(|user| user.spec.id).collect())
    }

    fn wants_pairing(&self) -> Result<bool, Failure> {
        let question = "Make your Telegram account an owner, so that approvals reach you there?";
        Ok(self.args.pair || self.ask.is_person() && !self.args.yes && self.ask.yes(question, true)?)
    }

    fn pair(&self, channel: &ChannelName) -> Result<StepReport, Failure> {
        let confirm = if self.ask.is_person() { Confirm::Ask } else { Confirm::Skip };
        let mut paired = None;
        let done = chat::with_daemon(self.paths, Opening::Existing, |mut client| {
            paired = pair_by(self.paths, &mut client, channel.as_str(), confirm, false)?;
            Ok(())
        });
        Ok(match (done, paired) {
            (Ok(()), Some(user)) => StepReport::new(StepState::Done, format!("{user} is an owner")),
            (Ok(()), None) => StepReport::new(StepState::Skipped, "you declined"),
            (Err(failure @ Failure::Exit(_)), _) => return Err(failure),
            (Err(failure), _) => StepReport::new(
                StepState::Skipped,
                format!("{}; `hearth channels pair {channel}` does it later", failure.words()),
            ),
        })
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

    /// Suggestions for the person's next steps.
    pub(super) fn next_steps(&self) -> Vec<String> {
        let mut next = Vec::new();
        if let Some(bot) = &self.bot {
            // Suggested also if the owners cannot be read.
            if !self.owners().is_ok_and(|owners| owners.iter().any(|owner| *owner.channel() == bot.channel)) {
                next.push(format!("hearth channels pair {}   approve requests on your phone", bot.channel));
            }
            next.push(format!("write to https://t.me/{}, and allow it with `hearth approvals`", bot.username));
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
