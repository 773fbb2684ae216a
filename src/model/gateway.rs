//! The model gateway: the APIs of models, the variables that hold their keys, and the calls that passed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::access::Network;
use super::agent::{AgentSettings, EnvValue};
use super::host::Host;
use super::id::{MessageId, SessionId};
use super::ip_scope::IpScope;
use super::spend::Tokens;
use super::time::Timestamp;

/// An API of models, by the form of its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Api {
    /// Anthropic's Messages API, and servers with the same.
    Anthropic,
    /// OpenAI's API, and servers with the same.
    OpenAi,
    /// Google's Gemini API.
    Gemini,
}

impl Api {
    /// All APIs.
    pub const ALL: [Self; 3] = [Self::Anthropic, Self::OpenAi, Self::Gemini];

    /// The word in paths of the gateway and for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::Gemini => "gemini",
        }
    }

    /// The variable with the server's address.
    #[must_use]
    pub const fn base_variable(self) -> &'static str {
        match self {
            Self::Anthropic => "ANTHROPIC_BASE_URL",
            Self::OpenAi => "OPENAI_BASE_URL",
            Self::Gemini => "GOOGLE_GEMINI_BASE_URL",
        }
    }

    /// The server's address if that variable is not set.
    #[must_use]
    pub const fn default_server(self) -> &'static str {
        match self {
            Self::Anthropic => "https://api.anthropic.com",
            Self::OpenAi => "https://api.openai.com/v1",
            Self::Gemini => "https://generativelanguage.googleapis.com",
        }
    }

    /// The path of the gateway that stands for the server's address.
    #[must_use]
    pub const fn base_path(self) -> &'static str {
        match self {
            Self::Anthropic => "/anthropic",
            Self::OpenAi => "/openai/v1",
            Self::Gemini => "/gemini",
        }
    }
}

/// Whether a server's address, like `http://localhost:11434/v1`, is on this machine or in its network.
#[must_use]
pub fn is_near(url: &str) -> bool {
    is_here(url)
        || match host_of(url) {
            Some(Host::Name(name)) => name.is_local(),
            Some(Host::Address(address)) => IpScope::of(address) == IpScope::Local,
            None => false,
        }
}

/// Whether a server's address is on this machine.
fn is_here(url: &str) -> bool {
    match host_of(url) {
        Some(Host::Name(name)) => name.is_localhost() || name.as_str() == "host.containers.internal",
        Some(Host::Address(address)) => IpScope::of(address) == IpScope::Loopback,
        None => false,
    }
}

fn host_of(url: &str) -> Option<Host> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).map_or(host, |(host, _)| host);
    host.parse().ok()
}

/// A header that carries a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyHeader {
    /// `x-api-key: KEY`.
    ApiKey,
    /// `authorization: Bearer KEY`.
    Bearer,
    /// `x-goog-api-key: KEY`.
    GoogleKey,
}

impl KeyHeader {
    /// Its name, in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ApiKey => "x-api-key",
            Self::Bearer => "authorization",
            Self::GoogleKey => "x-goog-api-key",
        }
    }

    /// The text before the key.
    #[must_use]
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Bearer => "Bearer ",
            Self::ApiKey | Self::GoogleKey => "",
        }
    }
}

/// A variable that holds the key of an API.
#[derive(Debug, PartialEq, Eq)]
pub struct KeyVariable {
    /// Name of the environment variable.
    pub name: &'static str,
    /// The API that its key is for.
    pub api: Api,
    /// The header in which programs send it.
    pub header: KeyHeader,
    /// How real keys begin, where programs check that.
    pub begins: &'static str,
}

/// The variables whose values the gateway keeps from agents. Of two with the same header, programs prefer the first.
pub const KEY_VARIABLES: [KeyVariable; 6] = [
    key("ANTHROPIC_API_KEY", Api::Anthropic, KeyHeader::ApiKey, "sk-ant-api03-"),
    key("ANTHROPIC_AUTH_TOKEN", Api::Anthropic, KeyHeader::Bearer, ""),
    key("CLAUDE_CODE_OAUTH_TOKEN", Api::Anthropic, KeyHeader::Bearer, "sk-ant-oat01-"),
    key("OPENAI_API_KEY", Api::OpenAi, KeyHeader::Bearer, "sk-"),
    key("GEMINI_API_KEY", Api::Gemini, KeyHeader::GoogleKey, ""),
    key("GOOGLE_API_KEY", Api::Gemini, KeyHeader::GoogleKey, ""),
];

const fn key(name: &'static str, api: Api, header: KeyHeader, begins: &'static str) -> KeyVariable {
    KeyVariable { name, api, header, begins }
}

/// Stands for the key of a server that wants none.
static NO_KEY: EnvValue = EnvValue::Plain(String::new());

/// The variables of an agent that the gateway keeps from it, and those for servers that it reaches without a key.
#[must_use]
pub fn bound(settings: &AgentSettings) -> Vec<(&'static KeyVariable, &EnvValue)> {
    if !settings.gateway {
        return Vec::new();
    }
    let mut found = keys(settings);
    let keyless = Api::ALL.into_iter().filter(|api| found.iter().all(|(key, _)| key.api != *api));
    let keyless: Vec<_> = keyless.filter_map(|api| without_key(settings, api)).map(|key| (key, &NO_KEY)).collect();
    found.extend(keyless);
    found
}

/// The variable that gets a placeholder although the agent has no key: its server is on this machine or in its network,
/// and from a network of its own the agent reaches it only through the gateway.
fn without_key(settings: &AgentSettings, api: Api) -> Option<&'static KeyVariable> {
    let is_apart = !settings.unconfined && (settings.network == Network::None || settings.network.has_rules());
    let is_address = |(name, value): &(String, EnvValue)| {
        name == api.base_variable() && matches!(value, EnvValue::Plain(url) if is_near(url))
    };
    if !is_apart || !settings.env.iter().any(is_address) {
        return None;
    }
    let of_preset = settings.provider.preset().map(|preset| preset.about().model.key);
    let name = match api {
        Api::Anthropic => "ANTHROPIC_AUTH_TOKEN",
        Api::OpenAi => "OPENAI_API_KEY",
        Api::Gemini => "GEMINI_API_KEY",
    };
    let of_api = |name: &str| KEY_VARIABLES.iter().find(|key| key.api == api && key.name == name);
    of_preset.and_then(of_api).or_else(|| of_api(name))
}

/// The variables of an agent that it has although the gateway could keep them from it.
#[must_use]
pub fn given(settings: &AgentSettings) -> Vec<&'static str> {
    let given = if settings.gateway { Vec::new() } else { keys(settings) };
    given.into_iter().map(|(key, _)| key.name).collect()
}

fn keys(settings: &AgentSettings) -> Vec<(&'static KeyVariable, &EnvValue)> {
    let value = |key: &KeyVariable| settings.env.iter().find(|(name, _)| name == key.name).map(|(_, value)| value);
    KEY_VARIABLES.iter().filter_map(|key| Some((key, value(key)?))).collect()
}

/// Values of an incarnation's variables that the gateway needs. They are in memory only.
#[derive(Default)]
pub struct KeyValues(Mutex<BTreeMap<String, Vec<u8>>>);

impl KeyValues {
    /// Stores the value of a variable.
    pub fn put(&self, variable: &str, value: &[u8]) {
        self.lock().insert(variable.to_owned(), value.to_vec());
    }

    /// The value of a variable, if it is known.
    #[must_use]
    pub fn get(&self, variable: &str) -> Option<Vec<u8>> {
        self.lock().get(variable).cloned()
    }

    /// All values with their names.
    #[must_use]
    pub fn all(&self) -> Vec<(String, Vec<u8>)> {
        self.lock().iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for KeyValues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} values", self.lock().len())
    }
}

/// How an incarnation can reach the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// By a Unix socket that the runtime shows to it, because it has a network of its own. `owner` is the user that it
    /// runs as, if that is not the daemon's.
    Socket {
        /// The user.
        owner: Option<u32>,
    },
    /// By a port of the machine's loopback address, because it shares the machine's network.
    Port,
    /// Not at all.
    Nowhere,
}

/// Where the gateway listens for one incarnation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GatewayAddress {
    /// A directory with the socket [`SOCKET`].
    Socket(PathBuf),
    /// A port of the loopback address.
    Port(u16),
    /// Nowhere.
    None,
}

/// Name of the socket in its directory.
pub const SOCKET: &str = "model.sock";

/// What an incarnation gets instead of keys.
#[derive(Debug, Clone)]
pub struct ModelAccess {
    /// The variables and what they get instead of the key.
    pub placeholders: Vec<(&'static str, String)>,
    /// The APIs whose addresses lead to the gateway.
    pub apis: Vec<Api>,
    /// Where the gateway listens.
    pub address: GatewayAddress,
    /// Where the runtime puts the real values.
    pub values: Arc<KeyValues>,
}

impl ModelAccess {
    /// What a variable gets instead of its value.
    #[must_use]
    pub fn placeholder(&self, variable: &str) -> Option<&str> {
        self.placeholders.iter().find(|(name, _)| *name == variable).map(|(_, value)| value.as_str())
    }

    /// The directory of the socket, if there is one.
    #[must_use]
    pub fn directory(&self) -> Option<&Path> {
        match &self.address {
            GatewayAddress::Socket(directory) => Some(directory),
            GatewayAddress::Port(_) | GatewayAddress::None => None,
        }
    }

    /// Whether a variable is the address of an API that leads to the gateway.
    #[must_use]
    pub fn is_address(&self, variable: &str) -> bool {
        self.apis.iter().any(|api| api.base_variable() == variable)
    }
}

/// What a request asks of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Anthropic: an answer.
    Messages,
    /// OpenAI: an answer, in the older form.
    Chat,
    /// OpenAI: an answer.
    Responses,
    /// Gemini: an answer.
    Generate,
    /// OpenAI: vectors for texts.
    Embeddings,
    /// The number of tokens of a prompt. Costs nothing.
    Count,
    /// The list of models. Costs nothing.
    Models,
}

impl Operation {
    /// The word for programs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Generate => "generate",
            Self::Embeddings => "embeddings",
            Self::Count => "count",
            Self::Models => "models",
        }
    }
}

impl Operation {
    /// Whether it uses tokens that cost something.
    #[must_use]
    pub const fn costs(self) -> bool {
        !matches!(self, Self::Count | Self::Models)
    }
}

/// What a message may still use of models. None is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allowance {
    /// Tokens.
    pub tokens: Option<u64>,
    /// Calls.
    pub calls: Option<u32>,
}

/// A turn that began: what its message may still use. A message that is tried again has used something before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnBegan {
    /// The session that the turn is in.
    pub session: SessionId,
    /// The run that the turn is in.
    pub incarnation: u32,
    /// The message whose turn it is.
    pub message: MessageId,
    /// What is left of its caps.
    pub left: Allowance,
}

/// A limit of what one message may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cap {
    /// Input and output together.
    Tokens,
    /// Calls of models.
    Calls,
    /// Length of a turn in minutes.
    Minutes,
}

/// A request that the gateway refused because its turn had reached a cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OverCap {
    /// The message of the turn.
    pub message: Option<MessageId>,
    /// The cap that was exceeded.
    pub cap: Cap,
}

/// A finished request to a server of models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelCall {
    /// The session that called.
    pub session: SessionId,
    /// The run that called.
    pub incarnation: u32,
    /// Unique within the incarnation, also after the daemon was restarted. Grows.
    pub number: u64,
    /// The API that was called.
    pub api: Api,
    /// What was asked.
    pub operation: Operation,
    /// The model: what the server says, else what the request says.
    pub model: Option<String>,
    /// Status of the answer; none if there was none.
    pub status: Option<u16>,
    /// What the server counted, as far as it was seen.
    pub usage: Option<Tokens>,
    /// When the request came.
    pub began: Timestamp,
    /// When the last byte went out, or the connection broke.
    pub ended: Timestamp,
    /// Whether the whole answer was seen. Otherwise more may have been used than `usage` says.
    pub complete: bool,
    /// The cap because of which the gateway did not send the request.
    pub over: Option<OverCap>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::agent::{Preset, ProviderKind};

    #[test]
    fn known_variables_are_bound_unless_the_agent_opts_out() {
        let mut settings = AgentSettings::named("A".to_owned());
        let plain = |text: &str| EnvValue::Plain(text.to_owned());
        settings.env = vec![
            ("ANTHROPIC_API_KEY".to_owned(), plain("a")),
            ("ANTHROPIC_AUTH_TOKEN".to_owned(), EnvValue::Reference("env:B".to_owned())),
            ("OTHER_KEY".to_owned(), plain("c")),
        ];
        let names = |settings: &AgentSettings| bound(settings).iter().map(|(key, _)| key.name).collect::<Vec<_>>();
        assert_eq!(names(&settings), ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"]);
        assert_eq!(given(&settings), [""; 0]);
        settings.gateway = false;
        assert_eq!(names(&settings), [""; 0]);
        assert_eq!(given(&settings), ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"]);
    }

    #[test]
    fn a_near_server_without_a_key_gets_a_placeholder_in_an_own_network() {
        let plain = |name: &str, text: &str| (name.to_owned(), EnvValue::Plain(text.to_owned()));
        let mut settings = AgentSettings::named("A".to_owned());
        settings.network = Network::Ask;
        settings.provider = ProviderKind::OpenAi;
        let names = |settings: &AgentSettings| bound(settings).iter().map(|(key, _)| key.name).collect::<Vec<_>>();
        assert_eq!(names(&settings), [""; 0]);
        for (url, bound) in [
            ("http://127.0.0.1:11434/v1", true),
            ("http://localhost:8080", true),
            ("http://host.containers.internal:8080", true),
            ("http://192.168.1.5:11434/v1", true),
            ("https://api.example.org/v1", false),
        ] {
            settings.env = vec![plain("OPENAI_BASE_URL", url)];
            assert_eq!(names(&settings) == ["OPENAI_API_KEY"], bound, "{url}");
        }
        settings.env =
            vec![plain("OPENAI_BASE_URL", "http://[::1]:1/v1"), plain("ANTHROPIC_BASE_URL", "http://a.local")];
        assert_eq!(names(&settings), ["ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY"]);
        settings.provider = ProviderKind::Preset(Preset::ClaudeAcp);
        assert_eq!(names(&settings), ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"]);
        settings.env.push(plain("OPENAI_API_KEY", "sk-x"));
        assert_eq!(names(&settings), ["OPENAI_API_KEY", "ANTHROPIC_API_KEY"]);
        for opened in [
            AgentSettings { network: Network::Open, ..settings.clone() },
            AgentSettings { network: Network::Host, ..settings.clone() },
            AgentSettings { unconfined: true, ..settings.clone() },
        ] {
            assert_eq!(names(&opened), ["OPENAI_API_KEY"]);
        }
        assert_eq!(names(&AgentSettings { gateway: false, ..settings }), [""; 0]);
    }

    #[test]
    fn values_are_not_shown() {
        let values = KeyValues::default();
        values.put("A", b"hush");
        assert_eq!(format!("{values:?}"), "1 values");
        assert_eq!((values.get("A"), values.get("B")), (Some(b"hush".to_vec()), None));
    }
}
