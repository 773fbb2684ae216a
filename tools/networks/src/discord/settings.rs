//! What the channel's settings say.

use hearth_bridge::Hello;
use hearth_bridge::program::settings::{address, only, secret, setting, switch};

const SERVER: &str = "https://discord.com";
/// Names of settings.
const NAMES: [&str; 3] = ["base_url", "content", "server"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The address of the API, without a slash at its end.
    pub(crate) server: String,
    /// Whether the bot reads messages that do not address it, for which Discord wants a switch in the bot's settings.
    pub(crate) reads_all: bool,
    pub(crate) token: String,
}

impl Settings {
    pub(crate) fn of(hello: &Hello) -> Result<Self, String> {
        only(hello, &NAMES)?;
        let server = setting(hello, "server").or(setting(hello, "base_url")).unwrap_or(SERVER);
        let token = secret(hello, "token", "the bot's token")?;
        Ok(Self { server: address(server, SERVER)?, reads_all: switch(hello, "content")?, token })
    }

    /// Whether the token may be sent to an address of the gateway, which the server names.
    pub(crate) fn is_gateway(&self, url: &str) -> bool {
        if self.server.starts_with("http://") {
            return url.starts_with("ws://127.0.0.1:");
        }
        let host = url.strip_prefix("wss://").map(|rest| rest.split(['/', '?', ':']).next().unwrap_or_default());
        let own = self.server.trim_start_matches("https://");
        host.is_some_and(|host| host == own || [".discord.gg", ".discord.com"].iter().any(|end| host.ends_with(end)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_goes_to_gateways_of_discord_only() {
        let settings = |server: &str| Settings { server: server.to_owned(), reads_all: false, token: "t".to_owned() };
        let discord = settings(SERVER);
        for url in
            ["wss://gateway.discord.gg", "wss://gateway-us-east1-b.discord.gg/?v=10", "wss://gateway.discord.gg:443"]
        {
            assert!(discord.is_gateway(url), "{url}");
        }
        for url in [
            "ws://gateway.discord.gg",
            "wss://discord.gg.evil.test",
            "wss://evildiscord.gg",
            "wss://evil.test/.discord.gg",
            "wss://user@evil.test",
            "https://gateway.discord.gg",
            "",
        ] {
            assert!(!discord.is_gateway(url), "{url}");
        }
        assert!(settings("http://127.0.0.1:80").is_gateway("ws://127.0.0.1:81"));
        assert!(!settings("http://127.0.0.1:80").is_gateway("ws://evil.test:81"));
    }
}
