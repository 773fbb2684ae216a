//! Resolves references to secrets, and tries keys and tokens by calls that cost nothing and change nothing.

use std::collections::BTreeMap;

use super::{Check, CheckStatus, bad, ok};
use crate::channel::telegram::identify;
use crate::cli::{prerequisites, setup};
use crate::daemon::references::{self, SecretReference};
use crate::model::channel::{ChannelInstance, ChannelKind};
use crate::model::entity::{AgentSettings, EnvValue, Folder, ProviderKind};
use crate::provider::{Accepted, Credential, Login, Rejected, try_login};
use crate::socket::protocol::DaemonStatus;
use crate::state::{self, Read, Reader, Tables};

/// What the checks may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Commands of `cmd:` references, and the network.
    Online,
    /// Neither.
    Offline,
}

/// A key of an agent, with the address of the server that it is for.
#[derive(Debug, PartialEq, Eq)]
struct Key {
    agent: Folder,
    provider: ProviderKind,
    /// The variable that holds it.
    variable: &'static str,
    credential: Credential,
    value: EnvValue,
    base_url: Option<EnvValue>,
}

/// What is tried.
struct Wanted {
    references: Vec<SecretReference>,
    keys: Vec<Key>,
    bots: Vec<ChannelInstance>,
    /// Variables that are not set where agents run.
    unset: Vec<String>,
}

/// Why an `env:` reference is not resolved while a daemon runs.
pub(super) const IN_THE_DAEMON: &str = "it is a variable of the running daemon, which this command cannot read; to try it, keep \
     it in a file and refer to it with `file:`, or stop the daemon and run `hearth doctor` where the variable is set";

/// The result of resolving a reference.
enum Resolved {
    Value(String),
    /// It has no value, which another check reports.
    Failed,
    /// It was not resolved; with the reason.
    Untried(&'static str),
}

/// Resolves every reference once, then tries the keys and tokens.
pub(super) fn trials(reader: &Reader, daemon: Option<&DaemonStatus>, reach: Reach) -> Vec<Check> {
    let wanted = match reader.read(|db, txn| collect(db, txn, daemon)) {
        Ok(wanted) => wanted,
        Err(error) => return vec![bad("secret", CheckStatus::Fail, error.to_string(), "run `hearth check`")],
    };
    let mut checks = Vec::new();
    let mut values = BTreeMap::new();
    for one in &wanted.references {
        if !values.contains_key(&one.reference) {
            let (resolved, check) = resolve(one, &wanted.unset, daemon, reach);
            checks.extend(check);
            values.insert(one.reference.clone(), resolved);
        }
    }
    if reach == Reach::Online {
        checks.extend(wanted.keys.iter().filter_map(|key| try_key(key, &values)));
        checks.extend(wanted.bots.iter().filter_map(|channel| try_bot(channel, &values)));
    }
    checks
}

fn collect(db: &Tables, txn: &Read<'_>, daemon: Option<&DaemonStatus>) -> Result<Wanted, state::Error> {
    let mut keys: Vec<Key> = Vec::new();
    for row in db.agents.iter(txn)? {
        let (_, agent) = row?;
        if agent.archived.is_none() {
            for key in keys_of(&agent.folder, &agent.settings) {
                let same = |known: &Key| {
                    (known.credential, &known.value, &known.base_url) == (key.credential, &key.value, &key.base_url)
                };
                if !keys.iter().any(same) {
                    keys.push(key);
                }
            }
        }
    }
    let mut bots = Vec::new();
    for row in db.channels.iter(txn)? {
        let (_, channel) = row?;
        bots.extend((channel.kind == ChannelKind::Telegram).then_some(channel));
    }
    let unset = prerequisites::unset(db, txn, daemon)?;
    Ok(Wanted { references: references::references(db, txn)?, keys, bots, unset })
}

fn keys_of(agent: &Folder, settings: &AgentSettings) -> Vec<Key> {
    let value = |wanted: &str| settings.env.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
    let provider = settings.provider;
    let key = |credential: Credential, variable: &'static str, base_url: &str| {
        let base_url = value(base_url);
        Some(Key { agent: agent.clone(), provider, variable, credential, value: value(variable)?, base_url })
    };
    match provider {
        ProviderKind::Claude => {
            let of_cli = |credential: Credential| key(credential, credential.variable(), Credential::BASE_URL);
            Credential::ALL.into_iter().filter_map(of_cli).collect()
        }
        ProviderKind::OpenAi => {
            let credential = Credential::OpenAiKey;
            key(credential, credential.variable(), credential.api().base_variable()).into_iter().collect()
        }
        ProviderKind::Preset(preset) => {
            let model = &preset.about().model;
            let credential = Credential::of_variable(model.key);
            let found = credential.and_then(|credential| key(credential, model.key, model.base_url));
            // Without a server of one's own, another variable holds a key for the maker's.
            found
                .filter(|key| key.base_url.is_some() || key.credential.variable() == key.variable)
                .into_iter()
                .collect()
        }
        ProviderKind::Echo | ProviderKind::Command | ProviderKind::Acp => Vec::new(),
    }
}

fn resolve(
    one: &SecretReference,
    unset: &[String],
    daemon: Option<&DaemonStatus>,
    reach: Reach,
) -> (Resolved, Option<Check>) {
    let SecretReference { reference, user } = one;
    if prerequisites::absent(reference, unset, daemon).is_some() {
        return (Resolved::Failed, None);
    }
    if reference.starts_with("cmd:") && reach == Reach::Offline {
        let found = format!("the command of {user} was not run");
        return (Resolved::Untried("its command was not run"), Some(ok("secret", found)));
    }
    if reference.starts_with("env:") && daemon.is_some() {
        return (Resolved::Untried(IN_THE_DAEMON), None);
    }
    // A command may contain text that must not be shown on a terminal.
    let named = if reference.starts_with("cmd:") { "cmd: reference" } else { reference };
    let failed = |why: String| {
        let mend = "correct the reference or its target; agents that use it do not start until then";
        (Resolved::Failed, Some(bad("secret", CheckStatus::Fail, format!("{named} of {user}: {why}"), mend)))
    };
    match references::resolve(reference) {
        Ok(value) if value.is_empty() => failed("its value is empty".to_owned()),
        Ok(value) => match value.into_string() {
            Ok(text) => (Resolved::Value(text), Some(ok("secret", format!("{named} of {user} has a value")))),
            Err(_) => failed("its value is not UTF-8".to_owned()),
        },
        Err(error) => {
            let source = std::error::Error::source(&error).map(|source| format!(": {source}")).unwrap_or_default();
            failed(format!("{error}{source}"))
        }
    }
}

fn look_up<'v>(value: &'v EnvValue, values: &'v BTreeMap<String, Resolved>) -> Result<&'v str, Option<&'static str>> {
    match value {
        EnvValue::Plain(text) => Ok(text),
        EnvValue::Reference(reference) => match values.get(reference) {
            Some(Resolved::Value(text)) => Ok(text),
            Some(Resolved::Untried(why)) => Err(Some(why)),
            Some(Resolved::Failed) | None => Err(None),
        },
    }
}

fn try_key(key: &Key, values: &BTreeMap<String, Resolved>) -> Option<Check> {
    let Key { agent, provider, variable, credential, value, base_url } = key;
    let name = "key";
    let what = format!("{variable} of agent {agent}");
    let base = base_url.as_ref().map(|url| look_up(url, values)).transpose();
    let (secret, base) = match (look_up(value, values), base) {
        (Ok(secret), Ok(base)) => (secret, base),
        (Err(why), _) | (_, Err(why)) => return why.map(|why| ok(name, format!("{what} was not tried: {why}"))),
    };
    let rejected = |why: &Rejected| {
        let result = if matches!(why, Rejected::RateLimited(_)) { CheckStatus::Warn } else { CheckStatus::Fail };
        let provider = provider.as_str();
        let mend =
            format!("`hearth setup --agent {agent} --provider {provider} --key-file FILE` tries and keeps another key");
        bad(name, result, format!("{what}: {why}"), mend)
    };
    let login = match Login::new(*credential, secret, base) {
        Ok(login) => login,
        Err(error) => return Some(rejected(&error.into())),
    };
    Some(match setup::block_on(try_login(&login)) {
        Ok(Ok(Accepted::Models(_))) => ok(name, format!("{} accepts {what}", login.server())),
        Ok(Ok(Accepted::Unchecked(why))) => ok(name, format!("{what} could not be verified: {why}")),
        Ok(Err(why)) => rejected(&why),
        Err(error) => {
            bad(name, CheckStatus::Fail, format!("{what} cannot be tried: {error}"), "check the system's limits")
        }
    })
}

fn try_bot(channel: &ChannelInstance, values: &BTreeMap<String, Resolved>) -> Option<Check> {
    let name = &channel.name;
    let what = format!("the token of channel {name}");
    let token = match look_up(&EnvValue::Reference(channel.token.clone()?), values) {
        Ok(token) => token.to_owned(),
        Err(why) => return why.map(|why| ok("bot", format!("{what} was not tried: {why}"))),
    };
    Some(match setup::block_on(identify(channel.base_url.as_deref(), token.trim())) {
        Ok(Ok(bot)) => ok("bot", format!("@{} answers on channel {name}", bot.username)),
        Ok(Err(why)) => {
            let mend = "`hearth setup --telegram-token-file FILE` tries and keeps another token";
            bad("bot", CheckStatus::Fail, format!("{what}: {why}"), mend)
        }
        Err(error) => {
            bad("bot", CheckStatus::Fail, format!("{what} cannot be tried: {error}"), "check the system's limits")
        }
    })
}
