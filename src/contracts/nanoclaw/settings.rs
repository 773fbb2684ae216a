//! Converts NanoClaw's container configuration to an agent's settings. Each part is checked on its own by the rules of
//! `hearth.toml`. Invalid parts are skipped and reported, the others are imported.

use serde_json::{Map, Value};

use super::database::Row;
use crate::config::file;
use crate::config::file::write;
use crate::model::configure::{Change, Configure};
use crate::model::entity::{Access, AgentSettings, EnvValue, ExtraMount, Folder, McpServer, ProviderKind, Skills};

/// Parts of variable names whose values are treated as secret.
const SECRETS: [&str; 6] = ["KEY", "TOKEN", "SECRET", "PASS", "AUTH", "CREDENTIAL"];

/// Whether the name of a variable suggests a secret.
pub(super) fn is_secret(name: &str) -> bool {
    let upper = name.to_uppercase();
    SECRETS.iter().any(|part| upper.contains(part))
}

/// An agent's configuration: a row of the host's table, or an old `container.json`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Config(Map<String, Value>);

/// Columns with JSON text, and their names in the file.
const JSON_COLUMNS: [(&str, &str); 5] = [
    ("skills", "skills"),
    ("mcp_servers", "mcpServers"),
    ("packages_apt", "packagesApt"),
    ("packages_npm", "packagesNpm"),
    ("additional_mounts", "additionalMounts"),
];

const TEXT_COLUMNS: [(&str, &str); 7] = [
    ("provider", "provider"),
    ("model", "model"),
    ("effort", "effort"),
    ("image_tag", "imageTag"),
    ("assistant_name", "assistantName"),
    ("max_messages_per_prompt", "maxMessagesPerPrompt"),
    ("cli_scope", "cliScope"),
];

impl Config {
    /// Reads a row. Invalid JSON is reported.
    pub(super) fn of_row(row: &Row, notes: &mut Vec<String>) -> Self {
        let mut config = Map::new();
        for (column, key) in TEXT_COLUMNS {
            if let Some(text) = row.filled(column) {
                config.insert(key.to_owned(), Value::String(text));
            }
        }
        for (column, key) in JSON_COLUMNS {
            let Some(text) = row.filled(column) else { continue };
            match serde_json::from_str(&text) {
                Ok(value) => drop(config.insert(key.to_owned(), value)),
                Err(_) => notes.push(format!("its {column} are not JSON and are skipped")),
            }
        }
        Self(config)
    }

    /// Reads the text of a file or a column.
    pub(super) fn of_json(text: &str, notes: &mut Vec<String>) -> Self {
        let Ok(Value::Object(mut config)) = serde_json::from_str(text) else {
            notes.push("its container configuration is not a JSON object and is skipped".to_owned());
            return Self::default();
        };
        if let Some(Value::Object(mut packages)) = config.remove("packages") {
            for (from, to) in [("apt", "packagesApt"), ("npm", "packagesNpm")] {
                packages.remove(from).map(|value| config.insert(to.to_owned(), value));
            }
        }
        Self(config)
    }

    /// Sets the provider, unless it is already set.
    pub(super) fn or_provider(mut self, provider: Option<String>) -> Self {
        if let Some(provider) = provider {
            self.0.entry("provider").or_insert(Value::String(provider));
        }
        self
    }

    fn text(&self, key: &str) -> Option<String> {
        match self.0.get(key)? {
            Value::String(text) if !text.trim().is_empty() => Some(text.trim().to_owned()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }

    fn texts(&self, key: &str) -> Vec<String> {
        let list = self.0.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    }
}

/// The settings for a configuration text, with notes for the report.
#[must_use]
pub fn settings_of(folder: &Folder, name: &str, json: &str) -> (AgentSettings, Vec<String>) {
    let mut notes = Vec::new();
    let config = Config::of_json(json, &mut notes);
    let settings = settings(folder, name, &config, &mut notes);
    (settings, notes)
}

/// One part of the settings.
struct Part {
    what: String,
    apply: Box<dyn Fn(&mut AgentSettings)>,
    /// Notes for the report if it is applied.
    notes: Vec<String>,
}

impl Part {
    fn new(what: String, apply: impl Fn(&mut AgentSettings) + 'static) -> Self {
        Self { what, apply: Box::new(apply), notes: Vec::new() }
    }
}

/// The settings of an agent, with notes for the report.
pub(super) fn settings(folder: &Folder, name: &str, config: &Config, notes: &mut Vec<String>) -> AgentSettings {
    let mut settings = AgentSettings::named(folder.to_string());
    settings.provider = provider(config, notes);
    // There, every agent could write its folder. Trust would also give it what sessions of all agents share.
    settings.folder_access = Some(Access::ReadWrite);
    let name = config.text("assistantName").unwrap_or_else(|| name.trim().to_owned());
    let mut parts: Vec<Part> = Vec::new();
    if !name.is_empty() {
        parts.push(Part::new(format!("the name {name:?}"), move |to| to.name.clone_from(&name)));
    }
    scalars(config, &mut parts);
    packages(config, &mut parts);
    mounts(config, &mut parts);
    servers(folder, config, &mut parts);
    if let Some(list) = config.0.get("skills").and_then(Value::as_array) {
        let mut names: Vec<String> = list.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        names.sort();
        names.dedup();
        parts.push(Part::new("its list of skills".to_owned(), move |to| to.skills = Skills::Only(names.clone())));
    }
    for part in parts {
        let mut with = settings.clone();
        (part.apply)(&mut with);
        match check(&Change::PutAgent(folder.clone(), with.clone())) {
            Ok(()) => {
                settings = with;
                notes.extend(part.notes);
            }
            Err(why) => notes.push(format!("without {}: {why}", part.what)),
        }
    }
    for (key, what) in [
        ("imageTag", "an image of its own; set `packages` or the installation's `image` instead"),
        ("timeout", "a limit of time, which Hearth has for all agents"),
    ] {
        if config.text(key).is_some() {
            notes.push(format!("without {what}"));
        }
    }
    if config.text("cliScope").is_some_and(|scope| scope == "global") {
        notes
            .push("without its reach over the whole host (cli_scope global), which agents do not have here".to_owned());
    }
    settings
}

/// Checks a change with the configuration parser; the error says what is wrong.
pub(super) fn check(change: &Change) -> Result<(), String> {
    let text = write::write(std::slice::from_ref(change));
    match file::parse("it", &text) {
        Ok(Configure { changes, .. }) if changes.first() == Some(change) => Ok(()),
        Ok(_) => Err("no file could say this".to_owned()),
        Err(bad) => Err(bad.problems.into_iter().map(|problem| problem.what).collect::<Vec<_>>().join("; ")),
    }
}

fn provider(config: &Config, notes: &mut Vec<String>) -> ProviderKind {
    match config.text("provider").map(|provider| provider.to_lowercase()).as_deref() {
        None | Some("claude") => ProviderKind::Claude,
        Some("mock" | "echo") => ProviderKind::Echo,
        Some(other) => {
            notes.push(format!("the provider `{other}` is unknown here and is replaced by `claude`"));
            ProviderKind::Claude
        }
    }
}

fn scalars(config: &Config, parts: &mut Vec<Part>) {
    if let Some(model) = config.text("model") {
        parts.push(Part::new(format!("the model {model:?}"), move |to| to.model = Some(model.clone())));
    }
    if let Some(effort) = config.text("effort") {
        parts.push(Part::new(format!("the effort {effort:?}"), move |to| to.effort = Some(effort.clone())));
    }
    if let Some(most) = config.text("maxMessagesPerPrompt") {
        // An invalid number is replaced by one that no configuration accepts.
        let number = most.parse().unwrap_or(u32::MAX);
        let what = format!("at most {most} messages in a prompt");
        parts.push(Part::new(what, move |to| to.max_prompt_messages = number));
    }
}

fn packages(config: &Config, parts: &mut Vec<Part>) {
    for package in config.texts("packagesApt") {
        let what = format!("the package {package:?} of apt");
        parts.push(Part::new(what, move |to| to.packages.apt.push(package.clone())));
    }
    for package in config.texts("packagesNpm") {
        let what = format!("the package {package:?} of npm");
        parts.push(Part::new(what, move |to| to.packages.npm.push(package.clone())));
    }
}

fn mounts(config: &Config, parts: &mut Vec<Part>) {
    let list = config.0.get("additionalMounts").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for mount in list {
        let text =
            |key: &str| mount.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
        let host_path = text("hostPath").unwrap_or_default();
        // Only an explicit `false` gives the agent write access.
        let writable = mount.get("readonly").and_then(Value::as_bool) == Some(false);
        let access = if writable { Access::ReadWrite } else { Access::ReadOnly };
        let mount = ExtraMount { host_path, container_path: text("containerPath"), access };
        let what = format!("the directory {:?}", mount.host_path);
        parts.push(Part::new(what, move |to| to.mounts.push(mount.clone())));
    }
}

fn servers(folder: &Folder, config: &Config, parts: &mut Vec<Part>) {
    let Some(servers) = config.0.get("mcpServers").and_then(Value::as_object) else { return };
    for (name, server) in servers {
        let text = |key: &str| server.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let args = server.get("args").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let args = args.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let mut notes = Vec::new();
        let env = server.get("env").and_then(Value::as_object).into_iter().flatten();
        let mut env: Vec<_> =
            env.map(|(key, value)| (key.clone(), variable(folder, name, key, value, &mut notes))).collect();
        env.sort_by(|a, b| a.0.cmp(&b.0));
        let server = McpServer { name: name.clone(), command: text("command"), args, env };
        let put = move |to: &mut AgentSettings| {
            to.mcp_servers.push(server.clone());
            to.mcp_servers.sort_by(|a, b| a.name.cmp(&b.name));
        };
        parts.push(Part { notes, ..Part::new(format!("the tools of {name:?}"), put) });
    }
}

/// A variable of a server. A likely secret becomes a reference to a variable with Hearth's own name. So no secret is
/// stored, and NanoClaw's texts never determine where a value is read from.
fn variable(folder: &Folder, server: &str, name: &str, value: &Value, notes: &mut Vec<String>) -> EnvValue {
    if is_secret(name) {
        let own = own_variable(folder, server, name);
        notes.push(format!(
            "the value of {name} for the server {server:?} was not imported; set {own} in Hearth's environment"
        ));
        return EnvValue::Reference(format!("env:{own}"));
    }
    // Even if it looks like a reference.
    EnvValue::Plain(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

/// The variable in Hearth's environment that replaces a server's variable. The names are unique: the agent's and the
/// server's part contain no `_`, so that the parts can be told apart.
fn own_variable(folder: &Folder, server: &str, name: &str) -> String {
    format!("HEARTH_IMPORT_{}_{}_{name}", capitals(folder.as_str()), capitals(server))
}

/// A name in capitals and digits. Any other character becomes `x` and its bytes in hexadecimal.
fn capitals(name: &str) -> String {
    name.bytes().fold(String::new(), |text, byte| match byte {
        b'a'..=b'z' | b'0'..=b'9' => text + &char::from(byte).to_uppercase().to_string(),
        other => text + &format!("x{other:02x}"),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::config::env::is_env_name;

    fn read(json: &str) -> (AgentSettings, Vec<String>) {
        let folder = Folder::new("a").unwrap();
        let (settings, notes) = settings_of(&folder, "Andy", json);
        check(&Change::PutAgent(folder, settings.clone())).unwrap();
        (settings, notes)
    }

    #[test]
    fn what_can_be_is_taken_and_the_rest_is_said() {
        let (settings, notes) = read(
            r#"{"provider":"claude","model":"opus","assistantName":"Bob","maxMessagesPerPrompt":7,"imageTag":"x",
                "packages":{"apt":["jq","no good"],"npm":["left-pad"]},
                "additionalMounts":[{"hostPath":"/srv/a","readonly":false},{"hostPath":""}],
                "mcpServers":{"mail":{"command":"mail","args":["-v"],"env":{"MAIL_TOKEN":"hush","LANG":"C"}},"":{}},
                "skills":["web","web"]}"#,
        );
        assert_eq!((settings.name.as_str(), settings.model.as_deref()), ("Bob", Some("opus")));
        assert_eq!(
            (settings.packages.apt, settings.packages.npm),
            (vec!["jq".to_owned()], vec!["left-pad".to_owned()])
        );
        assert_eq!((settings.max_prompt_messages, settings.mounts.len()), (7, 1));
        assert_eq!(settings.mounts[0].access, Access::ReadWrite);
        assert_eq!(settings.skills, Skills::Only(vec!["web".to_owned()]));
        let env = &settings.mcp_servers[0].env;
        let own = EnvValue::Reference("env:HEARTH_IMPORT_A_MAIL_MAIL_TOKEN".to_owned());
        assert_eq!(env[1], ("MAIL_TOKEN".to_owned(), own));
        assert!(!format!("{settings:?}{notes:?}", settings = settings.mcp_servers).contains("hush"));
        for part in ["package \"no good\"", "the directory \"\"", "the tools of \"\"", "an image", "MAIL_TOKEN"] {
            assert!(notes.iter().any(|note| note.contains(part)), "{part}: {notes:?}");
        }
    }

    #[test]
    fn nonsense_leaves_an_agent_with_its_name() {
        for json in ["", "[]", "{\"model\":{}}", "{\"skills\":\"all\",\"mcpServers\":[],\"additionalMounts\":7}"] {
            assert_eq!(
                read(json).0,
                AgentSettings {
                    provider: ProviderKind::Claude,
                    folder_access: Some(Access::ReadWrite),
                    ..AgentSettings::named("Andy".into())
                }
            );
        }
        assert_eq!(read("{\"provider\":\"mock\"}").0.provider, ProviderKind::Echo);
        assert!(read("{\"provider\":\"codex\"}").1[0].contains("`codex`"));
    }

    /// NanoClaw's files never determine where a value is read from.
    #[test]
    fn no_text_becomes_a_reference() {
        let (settings, notes) = read(
            r#"{"mcpServers":{"x":{"command":"x","env":{"A":"cmd:touch /tmp/x","B":"file:/etc/shadow","C":"env:HOME",
                "D":"env:","API_KEY":"cmd:touch /tmp/y","BRIDGE_SECRET":"hush","N":7,"O":{"a":"cmd:x"}}}}}"#,
        );
        let env: BTreeMap<_, _> = settings.mcp_servers[0].env.iter().cloned().collect();
        let plain = |text: &str| Some(EnvValue::Plain(text.to_owned()));
        for (name, text) in
            [("A", "cmd:touch /tmp/x"), ("B", "file:/etc/shadow"), ("C", "env:HOME"), ("D", "env:"), ("N", "7")]
        {
            assert_eq!(env.get(name).cloned(), plain(text), "{name}");
        }
        for name in ["API_KEY", "BRIDGE_SECRET"] {
            let own = format!("env:HEARTH_IMPORT_A_X_{name}");
            assert_eq!(env.get(name), Some(&EnvValue::Reference(own)), "{name}");
        }
        assert!(!format!("{settings:?}{notes:?}").contains("hush"));
    }

    #[test]
    fn every_variable_has_a_name_of_its_own() {
        let names = ["a", "a-b", "A", "a_b", "a-", "-a", "ab", "b", "x2d", "a1"];
        let mut all = BTreeSet::new();
        for folder in ["a", "a-b", "A", "a_b", "ab", "x2d"] {
            for server in names {
                for name in ["KEY", "_KEY", "key", "B_KEY", "A_B_KEY"] {
                    let own = own_variable(&Folder::new(folder).unwrap(), server, name);
                    assert!(is_env_name(&own), "{own}");
                    assert!(all.insert(own.clone()), "{own}");
                }
            }
        }
    }
}
