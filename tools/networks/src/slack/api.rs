//! Slack's Web API, as the bot and as the app.

use std::time::Duration;

use hearth_bridge::FILE_BYTES_MAX;
use hearth_bridge::program::settings::part;
use serde_json::Value;

use super::event::text;
use crate::web::{Answer, Ask, Content, Method, NoAnswer, ORDINARY, Uri, Web};

/// Longest pause that Slack can ask for.
const PAUSE_MAX: Duration = Duration::from_secs(3_600);
/// The pause if it does not say how long.
const PAUSE: Duration = Duration::from_secs(30);

/// Errors that mean that a token is refused.
const TOKEN: [&str; 8] = [
    "invalid_auth",
    "not_authed",
    "account_inactive",
    "token_revoked",
    "token_expired",
    "not_allowed_token_type",
    "org_login_required",
    "team_access_not_granted",
];
/// Errors after which a request may have been carried out.
const PASSING: [&str; 5] =
    ["internal_error", "fatal_error", "service_unavailable", "request_timeout", "team_added_to_org"];

/// Why there is no answer, or not the wanted one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Trouble {
    /// Nothing was sent.
    #[error("Slack cannot be reached: {0}")]
    Unreachable(String),
    /// The request may have been carried out.
    #[error("Slack did not answer: {0}")]
    Lost(String),
    /// Slack asks for a pause. Nothing was done.
    #[error("Slack asks for a pause of {} s", .0.as_secs())]
    Paused(Duration),
    /// Slack refuses, with a word of its documentation.
    #[error("Slack refuses: {0}")]
    Refused(String),
}

impl Trouble {
    /// Whether Slack refuses the token.
    pub(super) fn is_token(&self) -> bool {
        matches!(self, Self::Refused(error) if TOKEN.contains(&error.as_str()))
    }

    /// Whether the same can succeed later.
    pub(super) fn is_passing(&self) -> bool {
        !matches!(self, Self::Refused(_)) || self.is_token()
    }

    /// Whether Slack refuses with this word.
    pub(super) fn is(&self, word: &str) -> bool {
        matches!(self, Self::Refused(error) if error == word)
    }
}

impl From<NoAnswer> for Trouble {
    fn from(none: NoAnswer) -> Self {
        match none {
            NoAnswer::Unreachable(why) => Self::Unreachable(why),
            NoAnswer::Lost(why) => Self::Lost(why),
        }
    }
}

#[derive(Clone)]
pub(super) struct Api {
    pub(super) web: Web,
    server: String,
    bot: String,
    app: String,
    /// The daemon's limit for a file, in bytes.
    pub(super) file_max: u64,
}

/// The tokens of an app.
pub(super) struct Tokens {
    /// Bot token, `xoxb-…`.
    pub(super) bot: String,
    /// App-level token for connections, `xapp-…`.
    pub(super) app: String,
}

impl Api {
    pub(super) fn new(server: &str, tokens: &Tokens) -> Self {
        let web = Web::new(concat!("hearth-networks/", env!("CARGO_PKG_VERSION")));
        let bearer = |token: &str| format!("Bearer {token}");
        Self {
            web,
            server: server.to_owned(),
            bot: bearer(&tokens.bot),
            app: bearer(&tokens.app),
            file_max: FILE_BYTES_MAX,
        }
    }

    /// Reads something. The arguments are in the address: not all of these methods take JSON.
    pub(super) fn get(&self, method: &str, arguments: &[(&str, &str)]) -> Result<Value, Trouble> {
        let arguments: Vec<String> = arguments.iter().map(|(name, value)| format!("{name}={}", part(value))).collect();
        let url = format!("{}/api/{method}?{}", self.server, arguments.join("&"));
        self.ask(Ask {
            method: Method::GET,
            url: &url,
            authorization: Some(&self.bot),
            content: Content::Nothing,
            within: ORDINARY,
        })
    }

    pub(super) fn post(&self, method: &str, arguments: &Value) -> Result<Value, Trouble> {
        let url = format!("{}/api/{method}", self.server);
        self.ask(Ask {
            method: Method::POST,
            url: &url,
            authorization: Some(&self.bot),
            content: Content::Json(arguments),
            within: ORDINARY,
        })
    }

    /// The address of a new connection, which works once.
    pub(super) fn connection(&self) -> Result<String, Trouble> {
        let url = format!("{}/api/apps.connections.open", self.server);
        let answer = self.ask(Ask {
            method: Method::POST,
            url: &url,
            authorization: Some(&self.app),
            content: Content::Nothing,
            within: ORDINARY,
        })?;
        let url = text(&answer, "/url").map(str::to_owned);
        url.ok_or_else(|| Trouble::Lost("its answer has no address for a connection".to_owned()))
    }

    /// Answers a press at the address that came with it.
    pub(super) fn answer(&self, url: &str, body: &Value) -> Result<(), Trouble> {
        if !self.is_own(url) {
            return Err(Trouble::Refused("an address that is not one of Slack".to_owned()));
        }
        let ask =
            Ask { method: Method::POST, url, authorization: None, content: Content::Json(body), within: ORDINARY };
        let answer = self.web.ask(ask)?;
        if answer.is_success() { Ok(()) } else { Err(Trouble::Refused(format!("status {}", answer.status))) }
    }

    /// What authorizes as the bot, for an address; nothing if the address is not one of Slack.
    pub(super) fn authorization(&self, url: &str) -> Option<&str> {
        self.is_own(url).then_some(self.bot.as_str())
    }

    /// Whether an address belongs to Slack, or to the server of a test.
    pub(super) fn is_own(&self, url: &str) -> bool {
        if url.strip_prefix(&self.server).is_some_and(|rest| rest.starts_with('/')) {
            return true;
        }
        let Ok(uri) = url.parse::<Uri>() else { return false };
        let is_plain = uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
        let is_slack = |host: &str| host == "slack.com" || host.ends_with(".slack.com");
        uri.scheme_str() == Some("https") && is_plain && uri.host().is_some_and(is_slack)
    }

    fn ask(&self, ask: Ask<'_>) -> Result<Value, Trouble> {
        read(&self.web.ask(ask)?)
    }
}

/// The JSON of an answer, or what Slack says is wrong. Its status is 200 for most of what it refuses.
fn read(answer: &Answer) -> Result<Value, Trouble> {
    let pause = || {
        let named = answer.header("retry-after").and_then(|seconds| seconds.trim().parse().ok());
        Trouble::Paused(named.map_or(PAUSE, Duration::from_secs).min(PAUSE_MAX))
    };
    match answer.status {
        429 => return Err(pause()),
        200..300 => {}
        400..500 => return Err(Trouble::Refused(format!("status {}", answer.status))),
        status => return Err(Trouble::Lost(format!("status {status}"))),
    }
    let value = answer.json()?;
    match (value.get("ok"), text(&value, "/error")) {
        (Some(Value::Bool(true)), _) => Ok(value),
        (Some(Value::Bool(false)), Some("ratelimited" | "rate_limited")) => Err(pause()),
        (Some(Value::Bool(false)), Some(error)) if PASSING.contains(&error) => Err(Trouble::Lost(error.to_owned())),
        (Some(Value::Bool(false)), Some(error)) => Err(Trouble::Refused(error.chars().take(300).collect())),
        _ => Err(Trouble::Lost("its answer does not say whether it was done".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_go_to_slack_only() {
        let tokens = Tokens { bot: "xoxb-1".to_owned(), app: "xapp-1".to_owned() };
        let api = Api::new("https://slack.com", &tokens);
        for url in
            ["https://files.slack.com/files-pri/T-F/x", "https://slack.com/x", "https://hooks.slack.com/actions/x"]
        {
            assert_eq!(api.authorization(url), Some("Bearer xoxb-1"), "{url}");
        }
        for url in [
            "http://files.slack.com/x",
            "https://evil.test/files.slack.com",
            "https://files.slack.com@evil.test/",
            "https://evilslack.com/x",
            "https://slack.com.evil.test/",
            "https://slack.com@evil.test/x",
            "ftp://slack.com/",
            "",
        ] {
            assert_eq!(api.authorization(url), None, "{url}");
        }
        let api = Api::new("http://127.0.0.1:9", &tokens);
        assert!(api.is_own("http://127.0.0.1:9/x") && !api.is_own("http://127.0.0.1:90/x"));
    }
}
