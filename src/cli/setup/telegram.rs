//! The step that connects a Telegram bot. Its token is tried at once.

use super::{ConnectedBot, Setup, StepReport, StepState, secret};
use crate::channel::telegram::{Bot, identify};
use crate::cli::{Failure, configuration};
use crate::model::address::ChannelName;
use crate::model::channel::ChannelKind;
use crate::model::configure::{Change, ChannelSpec};

/// Name of the channel that setup creates.
const NAME: &str = "telegram";

/// How a bot is created.
const BOTFATHER: &str = "To talk to your agent on Telegram, open https://t.me/BotFather there, send it /newbot, and copy \
                         the token that it answers with.";

impl Setup<'_> {
    pub(super) fn telegram(&mut self) -> Result<StepReport, Failure> {
        let known = configuration::read(self.paths)?.channels;
        let channel = known.iter().find(|channel| channel.kind == ChannelKind::Telegram);
        if let Some(channel) = channel.filter(|_| self.args.telegram_token_file.is_none()) {
            let name = &channel.name;
            let file = channel.token.as_ref().and_then(|token| token.strip_prefix("file:"));
            let Some(file) = file else {
                return Ok(StepReport::new(StepState::Already, format!("channel {name} is configured")));
            };
            let secret = secret::read(file.as_ref()).map_err(|failure| failure.words().to_owned());
            match secret.and_then(|token| attempt(&token, channel.base_url.as_deref())) {
                Ok(bot) => return Ok(self.connected(StepState::Already, name.clone(), bot)),
                Err(why) if self.ask.is_person() => self.say(&format!("Channel {name} does not work: {why}."))?,
                Err(why) => return Err(Failure::Failed(format!("{why}; give another one with --telegram-token-file"))),
            }
        }
        let spec = match channel {
            Some(channel) => ChannelSpec::from(channel),
            None => ChannelSpec::named(ChannelName::new(NAME)?, ChannelKind::Telegram),
        };
        let base_url = self.args.telegram_base_url.clone().or_else(|| spec.base_url.clone());
        let Some((token, bot)) = self.token(base_url.as_deref())? else {
            return Ok(StepReport::new(StepState::Skipped, "no chat network; `hearth setup` adds one later"));
        };
        let reference = secret::keep(self.paths, &format!("{}.token", spec.name), &token)?;
        let name = spec.name.clone();
        self.put(&Change::PutChannel(ChannelSpec { token: Some(reference), base_url, ..spec }))?;
        Ok(self.connected(StepState::Done, name, bot))
    }

    fn connected(&mut self, state: StepState, channel: ChannelName, bot: Bot) -> StepReport {
        let about = format!("@{} answers on channel {channel}", bot.username);
        self.bot = Some(ConnectedBot { username: bot.username, channel });
        StepReport::new(state, about)
    }

    /// A token that the Bot API accepts, with its bot. None if no bot is wanted.
    fn token(&self, base_url: Option<&str>) -> Result<Option<(String, Bot)>, Failure> {
        if let Some(file) = &self.args.telegram_token_file {
            let token = secret::read(file)?;
            let bot = attempt(&token, base_url)
                .map_err(|why| Failure::Failed(format!("{why}; correct --telegram-token-file")))?;
            return Ok(Some((token, bot)));
        }
        if self.args.no_telegram || !self.ask.is_person() {
            return Ok(None);
        }
        self.say(BOTFATHER)?;
        loop {
            let token = self.ask.secret("Token of the bot (not shown; Enter for no bot): ")?;
            if token.is_empty() {
                return Ok(None);
            }
            match attempt(&token, base_url) {
                Ok(bot) => return Ok(Some((token, bot))),
                Err(why) => self.say(&format!("This does not work: {why}. Try again; Ctrl-C leaves."))?,
            }
        }
    }
}

/// Asks the Bot API whose token this is.
fn attempt(token: &str, base_url: Option<&str>) -> Result<Bot, String> {
    let token = secret::check(token)?;
    super::block_on(identify(base_url, &token)).map_err(|error| error.to_string())?.map_err(|why| why.to_string())
}
