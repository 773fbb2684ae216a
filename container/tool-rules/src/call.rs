//! A tool call and what can be seen of it.

use serde_json::Value;

use crate::{path, shell};

/// Where an agent works, as it sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// Its working directory, absolute.
    pub folder: String,
    /// Directories that count as its folder, absolute.
    pub inside: Vec<String>,
    /// Names of the destinations that are the conversation itself.
    pub conversation: Vec<String>,
}

impl Place {
    /// Whether a path is in the agent's folder. Paths that a shell completes are not.
    pub(crate) fn holds(&self, directory: &str, word: &str) -> bool {
        let is_known = !word.starts_with('~') && !word.contains('$') && !word.contains('`');
        let path = path::resolve(directory, word);
        is_known && self.inside.iter().any(|inside| path::is_below(&path, inside))
    }
}

/// A tool call.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// Name of the tool.
    pub tool: &'a str,
    /// What the agent's program says that the tool does, in the words of the Agent Client Protocol; empty if it says
    /// nothing.
    pub kind: &'a str,
    pub input: &'a Value,
    /// Where the agent works.
    pub place: &'a Place,
}

/// Fields that hold a command.
const COMMANDS: [&str; 3] = ["command", "cmd", "script"];
/// Fields that hold a path.
const PATHS: [&str; 13] = [
    "file_path",
    "path",
    "notebook_path",
    "filePath",
    "absolute_path",
    "abs_path",
    "dir_path",
    "directory",
    "dir",
    "file",
    "source",
    "destination",
    "target_file",
];
/// Fields that hold an address.
const ADDRESSES: [&str; 4] = ["url", "uri", "urls", "href"];

impl Call<'_> {
    /// The shell command, if it has one.
    pub(crate) fn command(&self) -> Option<String> {
        let found = COMMANDS.iter().find_map(|name| self.input.get(name));
        match found? {
            Value::String(text) => Some(text.clone()),
            Value::Array(words) => Some(shell::of_words(&words.iter().filter_map(Value::as_str).collect::<Vec<_>>())),
            _ => None,
        }
    }

    /// The paths, absolute.
    pub(crate) fn paths(&self) -> Vec<String> {
        let given = PATHS.iter().filter_map(|name| self.input.get(name)).flat_map(texts);
        given.map(|text| path::resolve(&self.place.folder, &text)).collect()
    }

    /// The hosts of addresses, in lower case.
    pub(crate) fn hosts(&self) -> Vec<String> {
        let given = ADDRESSES.iter().filter_map(|name| self.input.get(name)).flat_map(texts);
        given.filter_map(|text| host(&text)).collect()
    }

    /// A field of the input as text. Dots lead into objects.
    pub(crate) fn field(&self, name: &str) -> Option<String> {
        let value = name.split('.').try_fold(self.input, |value, name| value.get(name))?;
        match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(truth) => Some(truth.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }
}

fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(values) => values.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// The host of an address, in lower case. Without a scheme, the address begins with the host.
pub(crate) fn host(address: &str) -> Option<String> {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#', '\\']).next()?;
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next()?,
        None => host.split(':').next()?,
    };
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    (!host.is_empty()).then_some(host)
}
