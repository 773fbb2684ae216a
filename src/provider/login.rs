//! How agents identify themselves to the APIs of their models: by a variable with a key, at the address of another one.

use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};

use crate::model::gateway::Api;

/// Marks requests with a token of a subscription.
const SUBSCRIPTION: (&str, &str) = ("anthropic-beta", "oauth-2025-04-20");
/// Version of the API.
const VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");

/// What a secret is, which decides the variable and the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credential {
    /// A bearer token of a server of one's own.
    ServerToken,
    /// An API key.
    ApiKey,
    /// A token of a subscription, as `claude setup-token` prints it.
    Subscription,
    /// A key of OpenAI's API, or of a server with the same.
    OpenAiKey,
    /// A key of Google's Gemini API.
    GeminiKey,
}

impl Credential {
    /// Credentials of the agent CLI, in the order in which it prefers them.
    pub const ALL: [Self; 3] = [Self::ServerToken, Self::ApiKey, Self::Subscription];
    /// The variable with the address of the API, if it is not the public one.
    pub const BASE_URL: &'static str = "ANTHROPIC_BASE_URL";

    /// The variable of the agent that holds it.
    #[must_use]
    pub const fn variable(self) -> &'static str {
        match self {
            Self::ServerToken => "ANTHROPIC_AUTH_TOKEN",
            Self::ApiKey => "ANTHROPIC_API_KEY",
            Self::Subscription => "CLAUDE_CODE_OAUTH_TOKEN",
            Self::OpenAiKey => "OPENAI_API_KEY",
            Self::GeminiKey => "GEMINI_API_KEY",
        }
    }

    /// The credential that a variable of another agent holds, for its own server or that of its API.
    #[must_use]
    pub fn of_variable(name: &str) -> Option<Self> {
        match name {
            "ANTHROPIC_API_KEY" => Some(Self::ApiKey),
            "OPENAI_API_KEY" | "COPILOT_PROVIDER_API_KEY" => Some(Self::OpenAiKey),
            "GEMINI_API_KEY" => Some(Self::GeminiKey),
            _ => None,
        }
    }

    /// The API that takes it.
    #[must_use]
    pub const fn api(self) -> Api {
        match self {
            Self::ServerToken | Self::ApiKey | Self::Subscription => Api::Anthropic,
            Self::OpenAiKey => Api::OpenAi,
            Self::GeminiKey => Api::Gemini,
        }
    }

    /// The servers that take it, for people.
    pub(super) const fn servers(self) -> &'static str {
        match self.api() {
            Api::Anthropic => "Claude",
            Api::OpenAi => "OpenAI's API",
            Api::Gemini => "Gemini",
        }
    }

    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ServerToken => "server token",
            Self::ApiKey | Self::OpenAiKey | Self::GeminiKey => "API key",
            Self::Subscription => "subscription token",
        }
    }

    /// What a secret looks like. Servers of one's own accept any form as an API key.
    #[must_use]
    pub fn looks_like(secret: &str) -> Self {
        if secret.trim().starts_with("sk-ant-oat") { Self::Subscription } else { Self::ApiKey }
    }
}

/// A credential for one server. Its `Debug` form lacks the secret.
#[derive(Clone)]
pub struct Login {
    pub(super) credential: Credential,
    pub(super) secret: String,
    pub(super) base: Url,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login")
            .field("credential", &self.credential)
            .field("base", &self.server())
            .finish_non_exhaustive()
    }
}

/// Why a login cannot even be tried.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// The secret cannot be part of a header.
    #[error("the {0} is empty, or contains invalid characters, such as a space or a line break")]
    Secret(&'static str),
    /// Invalid address.
    #[error("the address of the server is not usable: {why}; give one like {} or http://localhost:4000{}", .api.default_server(), .api.base_path())]
    Address {
        why: String,
        /// The API that the server should have.
        api: Api,
    },
}

impl Login {
    /// A credential for a server; without an address, for the public API. White space around both is ignored.
    ///
    /// # Errors
    /// [`LoginError`] if secret or address have the wrong form.
    pub fn new(credential: Credential, secret: &str, base_url: Option<&str>) -> Result<Self, LoginError> {
        let secret = secret.trim();
        if secret.is_empty() || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(LoginError::Secret(credential.as_str()));
        }
        let api = credential.api();
        let address = |why: &str| LoginError::Address { why: why.to_owned(), api };
        let base = base_url.map_or(api.default_server(), str::trim);
        let base = Url::parse(base).map_err(|error| address(&error.to_string()))?;
        if !matches!(base.scheme(), "https" | "http") {
            return Err(address("it begins with neither https:// nor http://"));
        }
        let plain = base.username().is_empty() && base.password().is_none() && base.query().is_none();
        if !plain || base.fragment().is_some() {
            return Err(address("it has more parts than host, port and path"));
        }
        if api == Api::Anthropic && base.path().trim_end_matches('/').ends_with("/v1") {
            return Err(address("omit the /v1 at its end, which the agent CLI adds"));
        }
        Ok(Self { credential, secret: secret.to_owned(), base })
    }

    /// The server, for people.
    #[must_use]
    pub fn server(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// Whether the server is Anthropic's, whose keys have a known form.
    pub(super) fn is_anthropic(&self) -> bool {
        self.server() == Api::Anthropic.default_server()
    }

    /// The address of the list of models.
    pub(super) fn models(&self) -> Url {
        let mut address = self.base.clone();
        if let Ok(mut path) = address.path_segments_mut() {
            path.pop_if_empty().extend(match self.credential.api() {
                Api::Anthropic => &["v1", "models"][..],
                Api::OpenAi => &["models"],
                Api::Gemini => &["v1beta", "models"],
            });
        }
        address
    }

    /// The headers of a request.
    pub(super) fn headers(&self) -> Result<HeaderMap, LoginError> {
        let hidden = |text: String| {
            let mut value = HeaderValue::from_str(&text).map_err(|_| LoginError::Secret(self.credential.as_str()))?;
            value.set_sensitive(true);
            Ok(value)
        };
        let fixed = |(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value));
        let mut headers = HeaderMap::new();
        headers.extend((self.credential.api() == Api::Anthropic).then(|| fixed(VERSION)));
        match self.credential {
            Credential::ApiKey => headers.insert("x-api-key", hidden(self.secret.clone())?),
            Credential::GeminiKey => headers.insert("x-goog-api-key", hidden(self.secret.clone())?),
            Credential::ServerToken | Credential::Subscription | Credential::OpenAiKey => {
                headers.insert(AUTHORIZATION, hidden(format!("Bearer {}", self.secret))?)
            }
        };
        if self.credential == Credential::Subscription {
            headers.extend([fixed(SUBSCRIPTION)]);
        }
        Ok(headers)
    }
}
