//! Writes entities as `hearth.toml`: the inverse of reading it, with the same words.

use super::agents::{ACCESS, PERMISSIONS, RECALLS, TECHNICAL_SKIPS, TRUSTS, VERBOSITIES};
use super::channels::{KINDS, UNKNOWN_CHATS};
use super::chats::{CONTEXT_FROM, IGNORED, MODES, Mode, SENDERS, SESSIONS, UNKNOWN_SENDERS};
use super::section::{key, quoted};
pub use super::users::role_word;
use super::{SCHEMA, budgets, console, section, sight, voice};
use crate::config::env::is_env_name;
use crate::model::backup_plan::BackupPlan;
use crate::model::bound_secret::{AgentSecret, BoundSecret};
use crate::model::channel::BridgeSetting;
use crate::model::configure::{Change, ChannelSpec, ChatSpec, Settings, UserSpec, WiringSpec};
use crate::model::entity::{
    Access, AgentSettings, Engage, EnvValue, ExtraMount, Folder, Limits, McpServer, Packages, Skills,
};
use crate::model::network::HostRule;
use crate::model::retention::Retention;
use crate::model::spend::Price;
use crate::time::every::Every;

/// A value in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Text(String),
    /// A number or a flag.
    Plain(String),
    /// A list of strings.
    Texts(Vec<String>),
    Env(Vec<(String, EnvValue)>),
    /// A table of anything.
    Table(Vec<(String, Value)>),
    /// A list of such tables.
    Tables(Vec<Vec<(String, Value)>>),
}

/// The keys of one table of the file, in the order in which they are written. A key that is not there has its default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fields(Vec<(String, Value)>);

impl Value {
    /// A number or a flag as typed. Anything else stays a string, for the reader to refuse.
    #[must_use]
    pub fn typed(text: &str) -> Self {
        let plain = text.parse::<i64>().is_ok() || matches!(text, "true" | "false");
        if plain { Self::Plain(text.trim_start_matches('+').to_owned()) } else { Self::Text(text.to_owned()) }
    }

    fn toml(&self) -> String {
        match self {
            Self::Text(text) => quoted(text),
            Self::Plain(text) => text.clone(),
            Self::Texts(texts) => format!("[{}]", texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", ")),
            Self::Env(variables) => {
                let pair = |(name, value): &(String, EnvValue)| {
                    let name = if is_env_name(name) { name.clone() } else { quoted(name) };
                    format!("{name} = {}", variable(value).toml())
                };
                format!("{{ {} }}", variables.iter().map(pair).collect::<Vec<_>>().join(", "))
            }
            Self::Table(fields) => {
                let field = |(name, value): &(String, Value)| {
                    let name = if is_env_name(name) { name.clone() } else { quoted(name) };
                    format!("{name} = {}", value.toml())
                };
                format!("{{ {} }}", fields.iter().map(field).collect::<Vec<_>>().join(", "))
            }
            Self::Tables(tables) => {
                let tables: Vec<String> = tables.iter().map(|table| Self::Table(table.clone()).toml()).collect();
                format!("[{}]", tables.join(", "))
            }
        }
    }
}

impl std::fmt::Display for Value {
    /// For people.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) | Self::Plain(text) => f.write_str(text),
            Self::Texts(texts) => f.write_str(&texts.join(", ")),
            Self::Env(variables) => {
                let pair = |(name, value): &(String, EnvValue)| match variable(value) {
                    Self::Text(text) => format!("{name}={text}"),
                    other => format!("{name}={}", other.toml()),
                };
                f.write_str(&variables.iter().map(pair).collect::<Vec<_>>().join(", "))
            }
            Self::Table(fields) => {
                let fields: Vec<String> = fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
                f.write_str(&fields.join("; "))
            }
            Self::Tables(tables) => {
                let tables: Vec<String> = tables.iter().map(|table| Self::Table(table.clone()).to_string()).collect();
                f.write_str(&tables.join(" | "))
            }
        }
    }
}

impl Fields {
    /// The keys of an agent.
    #[must_use]
    pub fn of_agent(folder: &Folder, settings: &AgentSettings) -> Self {
        let mut fields = Self::default();
        fields.text("folder", folder.as_str());
        fields.text("name", &settings.name);
        fields.text("provider", settings.provider.as_str());
        fields.texts("command", &settings.command);
        fields.env(&settings.env);
        fields.line("model", settings.model.as_deref());
        fields.line("effort", settings.effort.as_deref());
        fields.text("trust", word(&TRUSTS, settings.trust));
        fields.plain("unconfined", settings.unconfined);
        fields.texts("blocked_tools", &settings.blocked_tools);
        fields.plain("max_prompt_messages", settings.max_prompt_messages);
        fields.plain("max_parallel", settings.max_parallel);
        fields.table("packages", packages(&settings.packages));
        fields.table("mcp_servers", settings.mcp_servers.iter().map(server).collect());
        if let Some(instructions) = &settings.instructions {
            fields.text("instructions", instructions);
        }
        fields.line("timezone", settings.timezone.as_deref());
        fields.text("network", settings.network.as_str());
        fields.texts("allow", &rules(&settings.allow));
        fields.texts("deny", &rules(&settings.deny));
        let variable = |one: &AgentSecret| (one.variable.clone(), Value::Text(one.secret.clone()));
        fields.table("secrets", settings.secrets.iter().map(variable).collect());
        if !settings.mounts.is_empty() {
            fields.set("mounts", Value::Tables(settings.mounts.iter().map(mount).collect()));
        }
        fields.table("limits", limits(&settings.limits));
        if let Skills::Only(names) = &settings.skills {
            fields.set("skills", Value::Texts(names.clone()));
        }
        fields.text("technical_skips", word(&TECHNICAL_SKIPS, settings.technical_skips));
        fields.texts("request_env", &settings.request_env);
        fields.plain("allow_host_loopback", settings.allow_host_loopback);
        if let Some(access) = settings.folder_access {
            fields.text("folder_access", word(&ACCESS, access));
        }
        fields.plain("gateway", settings.gateway);
        fields.texts("models", &settings.models);
        fields.line("mode", settings.mode.as_deref());
        fields.chosen("verbosity", &VERBOSITIES, settings.verbosity);
        fields.chosen("permissions", &PERMISSIONS, settings.permissions);
        fields.chosen("on_limit", &budgets::ON_LIMIT, settings.on_limit);
        fields.chosen("recall", &RECALLS, settings.recall);
        fields.table("caps", budgets::write_caps(settings.caps));
        if let Some(fallback) = budgets::write_fallback(&settings.fallback) {
            fields.set("fallback", fallback);
        }
        if let Some(tools) = sight::tools(&settings.tools) {
            fields.set("tools", tools);
        }
        fields
    }

    /// The keys of a person.
    #[must_use]
    pub fn of_user(user: &UserSpec) -> Self {
        let mut fields = Self::default();
        fields.text("id", &user.id.to_string());
        fields.line("name", user.name.as_deref());
        fields.texts("roles", &user.roles.iter().map(role_word).collect::<Vec<_>>());
        fields.texts("member_of", &user.member_of.iter().map(Folder::to_string).collect::<Vec<_>>());
        fields
    }

    /// The keys of a chat, without its wirings.
    #[must_use]
    pub fn of_chat(chat: &ChatSpec) -> Self {
        let mut fields = Self::default();
        fields.text("channel", chat.channel.as_str());
        fields.text("platform_id", chat.platform_id.as_str());
        fields.line("name", chat.name.as_deref());
        fields.plain("group", chat.group);
        fields.text("unknown_senders", word(&UNKNOWN_SENDERS, chat.unknown_senders));
        fields
    }

    /// The keys of a wiring.
    #[must_use]
    pub fn of_wiring(wiring: &WiringSpec) -> Self {
        let mut fields = Self::default();
        fields.text("agent", wiring.agent.as_str());
        match &wiring.engage {
            Engage::Pattern(pattern) => {
                fields.text("engage", word(&MODES, Mode::Pattern));
                fields.text("pattern", pattern);
            }
            Engage::Mention => fields.text("engage", word(&MODES, Mode::Mention)),
            Engage::MentionSticky => fields.text("engage", word(&MODES, Mode::Sticky)),
        }
        fields.text("senders", word(&SENDERS, wiring.senders));
        fields.text("ignored", word(&IGNORED, wiring.ignored));
        fields.text("session", word(&SESSIONS, wiring.session));
        fields.plain("priority", wiring.priority);
        if let Some(whose) = wiring.context_from {
            fields.text("context_from", word(&CONTEXT_FROM, whose));
        }
        fields
    }

    /// The keys of a channel instance; its name is in the heading.
    #[must_use]
    pub fn of_channel(channel: &ChannelSpec) -> Self {
        let mut fields = Self::default();
        fields.text("type", word(&KINDS, channel.kind));
        fields.line("token", channel.token.as_deref());
        fields.line("base_url", channel.base_url.as_deref());
        fields.line("secret", channel.secret.as_deref());
        fields.line("listen", channel.listen.map(|address| address.to_string()).as_deref());
        if let Some(program) = &channel.program {
            let text = |one: &BridgeSetting| (one.name.clone(), Value::Text(one.value.clone()));
            fields.texts("command", &program.command);
            fields.table("settings", program.told().map(text).collect());
            fields.line("notices", program.notices());
            fields.plain("unconfined", program.unconfined);
        }
        fields.plain("link_previews", channel.link_previews);
        fields.text("unknown_chats", word(&UNKNOWN_CHATS, channel.unknown_chats));
        fields.plain("tell_strangers", channel.tell_strangers);
        fields
    }

    /// The keys at the top.
    #[must_use]
    pub fn of_settings(settings: &Settings) -> Self {
        let mut fields = Self::default();
        fields.line("default_agent", settings.default_agent.as_ref().map(Folder::as_str));
        fields.number("store_max_bytes", settings.store_max_bytes);
        fields.number("session_files_max_bytes", settings.session_files_max_bytes);
        fields.number("max_containers", settings.max_containers);
        fields.line("timezone", settings.timezone.as_deref());
        if let Some(runtime) = settings.runtime {
            fields.text("runtime", word(&sight::RUNTIMES, runtime));
        }
        fields.line("image", settings.image.as_deref());
        let Retention { bodies, journal, attachments, dedup, drops } = settings.retention;
        let kinds = [
            ("bodies", bodies),
            ("journal", journal),
            ("attachments", attachments),
            ("dedup", dedup),
            ("drops", drops),
        ];
        for (kind, keep) in kinds {
            fields.line(&format!("retention.{kind}"), keep.map(|keep| keep.to_string()).as_deref());
        }
        if let Some(BackupPlan { every, keep, to, with_secrets }) = &settings.backup {
            fields
                .text("backup.every", &Every::of(*every).map_or_else(|_| every.get().to_string(), |it| it.to_string()));
            fields.plain("backup.keep", keep);
            fields.line("backup.to", to.as_deref());
            fields.plain("backup.with_secrets", with_secrets);
        }
        let prices = settings.prices.iter().map(|known| (known.model.clone(), Value::Table(price(known.price))));
        fields.table("prices", prices.collect());
        budgets::write(&mut fields, settings);
        fields.table("secrets", settings.secrets.iter().map(secret).collect());
        if let Some(voice) = &settings.voice {
            voice::commands(voice).iter().for_each(|(key, words)| fields.texts(key, words));
            voice::lines(voice).iter().for_each(|(key, text)| fields.line(key, Some(text)));
            voice::numbers(voice).iter().for_each(|(key, number)| fields.plain(key, number));
        }
        fields
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    /// Sets a key.
    pub fn set(&mut self, key: &str, value: Value) {
        match self.0.iter_mut().find(|(known, _)| known == key) {
            Some((_, old)) => *old = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }

    /// Removes a key, so that it has its default. Returns whether it was set.
    pub fn clear(&mut self, key: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|(known, _)| known != key);
        self.0.len() != before
    }

    /// The keys and their values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// The lines of the file: a heading, unless it is empty, and a line per key.
    #[must_use]
    pub fn toml(&self, heading: &str) -> String {
        let heading = if heading.is_empty() { String::new() } else { format!("\n{heading}\n") };
        self.0.iter().fold(heading, |text, (key, value)| text + &format!("{key} = {}\n", value.toml()))
    }

    fn text(&mut self, key: &str, text: &str) {
        self.set(key, Value::Text(text.to_owned()));
    }

    /// Text that the reader accepts only as one line; imported messages may contain other characters.
    fn line(&mut self, key: &str, text: Option<&str>) {
        if let Some(text) = text.filter(|text| section::is_line(text)) {
            self.text(key, text);
        }
    }

    /// The keys and their values.
    pub(super) fn into_list(self) -> Vec<(String, Value)> {
        self.0
    }

    pub(super) fn plain(&mut self, key: &str, value: impl std::fmt::Display) {
        self.set(key, Value::Plain(value.to_string()));
    }

    /// A number, if it is set.
    fn number(&mut self, key: &str, number: Option<impl std::fmt::Display>) {
        if let Some(number) = number {
            self.plain(key, number);
        }
    }

    /// A word, unless it is the default.
    fn chosen<T: PartialEq + Default>(&mut self, key: &str, words: &[(&'static str, T)], value: T) {
        if value != T::default() {
            self.text(key, word(words, value));
        }
    }

    fn texts(&mut self, key: &str, texts: &[String]) {
        if !texts.is_empty() {
            self.set(key, Value::Texts(texts.to_vec()));
        }
    }

    fn table(&mut self, key: &str, fields: Vec<(String, Value)>) {
        if !fields.is_empty() {
            self.set(key, Value::Table(fields));
        }
    }

    fn env(&mut self, variables: &[(String, EnvValue)]) {
        if !variables.is_empty() {
            self.set("env", Value::Env(variables.to_vec()));
        }
    }
}

/// A variable's value in the file. Plain text that looks like a reference is written as a table.
#[must_use]
pub fn variable(value: &EnvValue) -> Value {
    match value {
        EnvValue::Plain(text) if EnvValue::is_reference(text) => {
            Value::Table(vec![("value".to_owned(), Value::Text(text.clone()))])
        }
        EnvValue::Plain(text) | EnvValue::Reference(text) => Value::Text(text.clone()),
    }
}

fn rules(rules: &[HostRule]) -> Vec<String> {
    rules.iter().map(HostRule::to_string).collect()
}

fn packages(packages: &Packages) -> Vec<(String, Value)> {
    let mut fields = Fields::default();
    fields.texts("apt", &packages.apt);
    fields.texts("npm", &packages.npm);
    fields.0
}

fn mount(mount: &ExtraMount) -> Vec<(String, Value)> {
    let mut fields = Fields::default();
    fields.text("host_path", &mount.host_path);
    fields.line("container_path", mount.container_path.as_deref());
    fields.plain("readonly", mount.access == Access::ReadOnly);
    fields.0
}

fn limits(limits: &Limits) -> Vec<(String, Value)> {
    let mut fields = Fields::default();
    if let Some(bytes) = limits.memory {
        fields.set("memory", sight::memory_value(bytes));
    }
    fields.number("cpu", limits.cpu.map(|milli| f64::from(milli) / 1_000.0));
    fields.number("pids", limits.pids);
    fields.0
}

fn server(server: &McpServer) -> (String, Value) {
    let mut fields = Fields::default();
    fields.text("command", &server.command);
    fields.texts("args", &server.args);
    fields.env(&server.env);
    (server.name.clone(), Value::Table(fields.0))
}

fn secret(secret: &BoundSecret) -> (String, Value) {
    let mut fields = Fields::default();
    fields.text("value", &secret.value);
    fields.texts("hosts", &secret.hosts.iter().map(ToString::to_string).collect::<Vec<_>>());
    fields.text("header", &secret.header.to_string());
    fields.texts("requests", &secret.requests.iter().map(ToString::to_string).collect::<Vec<_>>());
    (secret.name.clone(), Value::Table(fields.0))
}

fn price(price: Price) -> Vec<(String, Value)> {
    let Price { input, output, cache_read, cache_write } = price;
    let mut fields = Fields::default();
    for (key, micros) in
        [("input", input), ("output", output), ("cache_read", cache_read), ("cache_write", cache_write)]
    {
        fields.plain(key, micros as f64 / 1e6);
    }
    fields.0
}

/// The first line of every file.
#[must_use]
pub fn head() -> String {
    format!("schema = {SCHEMA}\n")
}

/// The table of one entity in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityTable {
    /// The entity's name in reports, like `agent main`.
    pub entity: String,
    heading: String,
    pub fields: Fields,
}

/// The tables of the entities that the changes put, in the order in which a file has them.
#[must_use]
pub fn tables(changes: &[Change]) -> Vec<EntityTable> {
    let mut tables = Vec::new();
    let mut add = |entity: String, heading: String, fields| tables.push(EntityTable { entity, heading, fields });
    for change in changes {
        if let Change::PutSettings(settings) = change {
            add("settings".to_owned(), String::new(), Fields::of_settings(settings));
        }
    }
    for change in changes {
        match change {
            Change::PutAgent(folder, settings) => {
                add(format!("agent {folder}"), "[[agents]]".to_owned(), Fields::of_agent(folder, settings));
            }
            Change::PutUser(user) => add(format!("user {}", user.id), "[[users]]".to_owned(), Fields::of_user(user)),
            Change::PutChat(chat) => {
                let place = format!("{}/{}", chat.channel, chat.platform_id);
                add(format!("chat {place}"), "[[chats]]".to_owned(), Fields::of_chat(chat));
                for wiring in &chat.wirings {
                    let entity = format!("wiring {place} -> {}", wiring.agent);
                    add(entity, "[[chats.wirings]]".to_owned(), Fields::of_wiring(wiring));
                }
            }
            Change::PutConsole(settings) => {
                let mut fields = Fields::default();
                for (key, value) in console::keys(settings) {
                    fields.set(key, Value::typed(&value));
                }
                fields.texts("names", &settings.names);
                add("console".to_owned(), "[console]".to_owned(), fields);
            }
            Change::PutChannel(channel) => {
                let heading = format!("[channels.{}]", key(channel.name.as_str()));
                add(format!("channel {}", channel.name), heading, Fields::of_channel(channel));
            }
            _ => {}
        }
    }
    tables
}

/// A file with these tables.
#[must_use]
pub fn text(tables: &[EntityTable]) -> String {
    tables.iter().fold(head(), |text, table| text + &table.fields.toml(&table.heading))
}

/// A file that describes the entities as the changes make them; reading it gives the same changes.
#[must_use]
pub fn write(changes: &[Change]) -> String {
    text(&tables(changes))
}

fn word<T: PartialEq>(words: &[(&'static str, T)], value: T) -> &'static str {
    words.iter().find(|(_, known)| *known == value).map_or("", |(word, _)| word)
}
