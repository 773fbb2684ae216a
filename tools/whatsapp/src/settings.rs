//! What the channel's settings say.

use hearth_bridge::Hello;
use hearth_bridge::program::settings::{only, setting};

use crate::server::Server;

/// Names of settings.
#[cfg(not(debug_assertions))]
const NAMES: [&str; 1] = ["account"];
#[cfg(debug_assertions)]
const NAMES: [&str; 2] = ["account", "server"];

/// Whose account it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A person's, whose chats are private.
    Person,
    /// The bot's own. People who write to it write to the bot.
    Bot,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) owner: Owner,
    pub(crate) server: Server,
}

impl Settings {
    pub(crate) fn of(hello: &Hello) -> Result<Self, String> {
        only(hello, &NAMES)?;
        let owner = match setting(hello, "account") {
            None | Some("personal") => Owner::Person,
            Some("bot") => Owner::Bot,
            Some(_) => return Err("`account` must be \"personal\" or \"bot\"".to_owned()),
        };
        let server = match setting(hello, "server") {
            None => Server::WhatsApp,
            Some(text) => Server::stand_in(text).ok_or("`server` must be a port of this machine")?,
        };
        Ok(Self { owner, server })
    }
}
