//! How the agent CLI identifies itself to its API: by one of three variables, at the address of a fourth.

use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};

/// Address of the public API.
const PUBLIC: &str = "https://api.anthropic.com";
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
}

impl Credential {
    /// All, in the order in which the CLI prefers them.
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
        }
    }

    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ServerToken => "server token",
            Self::ApiKey => "API key",
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
    #[error("ANTHROPIC_BASE_URL is not usable: {0}; give one like {PUBLIC} or http://localhost:4000")]
    Address(String),
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
        let address = |why: &str| LoginError::Address(why.to_owned());
        let base = base_url.map_or(PUBLIC, str::trim);
        let base = Url::parse(base).map_err(|error| LoginError::Address(error.to_string()))?;
        if !matches!(base.scheme(), "https" | "http") {
            return Err(address("it begins with neither https:// nor http://"));
        }
        let plain = base.username().is_empty() && base.password().is_none() && base.query().is_none();
        if !plain || base.fragment().is_some() {
            return Err(address("it has more parts than host, port and path"));
        }
        if base.path().trim_end_matches('/').ends_with("/v1") {
            return Err(address("omit the /v1 at its end, which the agent CLI adds"));
        }
        Ok(Self { credential, secret: secret.to_owned(), base })
    }

    /// The server, for people.
    #[must_use]
    pub fn server(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// Whether the server is the public API, whose keys have a known form.
    pub(super) fn is_public(&self) -> bool {
        self.server() == PUBLIC
    }

    /// The address of the list of models.
    pub(super) fn models(&self) -> Url {
        let mut address = self.base.clone();
        if let Ok(mut path) = address.path_segments_mut() {
            path.pop_if_empty().extend(["v1", "models"]);
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
        let mut headers = HeaderMap::from_iter([fixed(VERSION)]);
        match self.credential {
            Credential::ApiKey => headers.insert("x-api-key", hidden(self.secret.clone())?),
            Credential::ServerToken | Credential::Subscription => {
                headers.insert(AUTHORIZATION, hidden(format!("Bearer {}", self.secret))?)
            }
        };
        if self.credential == Credential::Subscription {
            headers.extend([fixed(SUBSCRIPTION)]);
        }
        Ok(headers)
    }
}
