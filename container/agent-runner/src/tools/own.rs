//! Tools that ask about the agent's own setup, request changes of it, or new agents. Pure.

use std::time::Duration;

use serde_json::Value;

use super::arguments::Arguments;
use super::plan::{AcceptedReply, PlannedCall};
use crate::report::Scene;

/// Maximum number of packages in one request.
const PACKAGES: usize = 20;
/// Maximum length of a package's name in bytes.
const PACKAGE_NAME: usize = 214;

/// What `hearth` can be asked about.
pub(super) const TOPICS: [&str; 7] = ["why", "people", "destinations", "tasks", "limits", "requests", "files"];
/// How long the host may take to answer such a question.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn hearth(arguments: &Arguments, scene: &Scene<'_>) -> Result<PlannedCall, String> {
    let mut fields = serde_json::Map::new();
    if let Some(about) = arguments.filled("about").map(str::trim) {
        if !TOPICS.contains(&about) {
            return Err(format!("about is one of {}", TOPICS.join(", ")));
        }
        fields.insert("about".to_owned(), about.into());
    }
    Ok(PlannedCall { patience: PATIENCE, ..PlannedCall::request("hearth", fields, scene, AcceptedReply::OnlyWords) })
}

/// The host searches, and words the result.
pub(super) fn recall(arguments: &Arguments, scene: &Scene<'_>) -> Result<PlannedCall, String> {
    let fields = arguments.pick(&["query", "who", "after", "before", "limit"]);
    if fields.is_empty() {
        return Err("query, who, after or before is required".to_owned());
    }
    Ok(PlannedCall { patience: PATIENCE, ..PlannedCall::request("recall", fields, scene, AcceptedReply::OnlyWords) })
}

pub(super) fn create_agent(arguments: &Arguments, scene: &Scene<'_>) -> Result<PlannedCall, String> {
    let name = arguments.filled("name").ok_or("name is required")?.trim();
    let told = format!("Creating agent \"{name}\". You will be notified when it is ready.");
    let mut fields = arguments.pick(&["instructions"]);
    fields.insert("name".to_owned(), name.into());
    Ok(PlannedCall::request("create_agent", fields, scene, AcceptedReply::Text(told)))
}

pub(super) fn install_packages(arguments: &Arguments, scene: &Scene<'_>) -> Result<PlannedCall, String> {
    let (apt, npm) = (list(arguments, "apt"), list(arguments, "npm"));
    if apt.is_empty() && npm.is_empty() {
        return Err("At least one apt or npm package is required".to_owned());
    }
    if apt.len() + npm.len() > PACKAGES {
        return Err(format!("Maximum {PACKAGES} packages per request"));
    }
    if let Some(wrong) = apt.iter().find(|name| !name.as_str().is_some_and(is_apt_package)) {
        let name = shown(wrong);
        return Err(format!("Invalid apt package name: \"{name}\". Only lowercase letters, digits, and ._+- allowed."));
    }
    if let Some(wrong) = npm.iter().find(|name| !name.as_str().is_some_and(is_npm_package)) {
        return Err(format!("Invalid npm package name: \"{}\". No version specs or shell characters.", shown(wrong)));
    }
    let told = "Package install request submitted. You will be notified when admin approves or rejects.";
    let fields = arguments.pick(&["apt", "npm", "reason"]);
    Ok(PlannedCall::request("install_packages", fields, scene, AcceptedReply::Text(told.to_owned())))
}

pub(super) fn add_mcp_server(arguments: &Arguments, scene: &Scene<'_>) -> Result<PlannedCall, String> {
    let (Some(_), Some(_)) = (arguments.filled("name"), arguments.filled("command")) else {
        return Err("name and command are required".to_owned());
    };
    let told = "MCP server request submitted. You will be notified when admin approves or rejects.";
    let fields = arguments.pick(&["name", "command", "args", "env"]);
    Ok(PlannedCall::request("add_mcp_server", fields, scene, AcceptedReply::Text(told.to_owned())))
}

fn list<'a>(arguments: &'a Arguments, key: &str) -> &'a [Value] {
    arguments.given(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// A rejected name, as text.
fn shown(name: &Value) -> String {
    let text = name.as_str().map_or_else(|| name.to_string(), str::to_owned);
    text.chars().take(60).collect()
}

/// A name ending in `-` is not allowed: `apt-get install` would remove that package.
fn is_apt_package(name: &str) -> bool {
    name.len() <= PACKAGE_NAME && is_plain(name, b"._+-") && !name.ends_with('-')
}

fn is_npm_package(name: &str) -> bool {
    let (scope, rest) = match name.strip_prefix('@') {
        Some(scoped) => match scoped.split_once('/') {
            Some((scope, rest)) => (Some(scope), rest),
            None => return false,
        },
        None => (None, name),
    };
    name.len() <= PACKAGE_NAME && scope.is_none_or(|scope| is_plain(scope, b"._-")) && is_plain(rest, b"._-")
}

/// Lower-case letters and digits, and, except at the beginning, these other bytes.
fn is_plain(text: &str, besides: &[u8]) -> bool {
    let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.bytes().next().is_some_and(letter) && text.bytes().all(|byte| letter(byte) || besides.contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The host checks names with the same table, so that both sides accept the same ones.
    #[test]
    fn names_of_packages_are_judged_as_by_the_host() {
        let table = include_str!("../../../../tests/data/package-names.json");
        let rows: Vec<Value> = serde_json::from_str(table).unwrap();
        assert!(rows.len() > 50, "{}", rows.len());
        for row in rows {
            let name = row["name"].as_str().unwrap();
            let good = match row["kind"].as_str() {
                Some("apt") => is_apt_package(name),
                _ => is_npm_package(name),
            };
            assert_eq!(Some(good), row["good"].as_bool(), "{row}");
        }
    }
}
