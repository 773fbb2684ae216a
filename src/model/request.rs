//! Requests of agents to Hearth, after the mailbox has read and bounded them.

use super::card::CardOption;
use super::entity::{McpServer, Packages};
use super::id::TaskId;
use super::task_command::TaskChange;
use super::time::Millis;
use super::tool::{NewToolCall, ToolCall};

/// Action that an agent wants for something it wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestedAction {
    /// Send it.
    Say,
    /// Replace the text of the message with this number.
    Edit(u64),
    /// Add its text, an emoji, as a reaction to the message with this number.
    React(u64),
    /// A request that Hearth itself handles.
    Request(Box<Request>),
    /// Invalid regardless of the store's content. The agent is told why.
    Impossible(String),
}

/// A request of an agent to Hearth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Ask people a question.
    Question(NewQuestion),
    /// Install packages into the agent's image.
    InstallPackages {
        /// Packages to install.
        packages: Packages,
        /// Reason, in the agent's words.
        reason: Option<String>,
    },
    /// Add an MCP server to the agent.
    AddMcpServer(McpServer),
    /// Create an agent.
    CreateAgent {
        /// Name of the new agent.
        name: String,
        /// First content of its instructions file.
        instructions: Option<String>,
    },
    /// Manage the agent's scheduled tasks.
    Tasks(TaskRequest),
    /// Tell the agent about itself: one topic, or all.
    About(Option<AboutTopic>),
    /// Decide about a tool call.
    UseTool(Box<NewToolCall>),
    /// Record tool calls that are over.
    ToolCalls(Vec<ToolCall>),
    /// Find what was said earlier.
    Recall(RecallRequest),
}

/// A search of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecallRequest {
    /// Words and filters.
    pub query: String,
    /// At most this many texts; none is the default.
    pub limit: Option<u32>,
}

/// What an agent can ask about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AboutTopic {
    /// Why it was asked.
    Why,
    /// Who can talk to it.
    People,
    /// Where it can write.
    Destinations,
    /// Its scheduled tasks.
    Tasks,
    /// What it may and may not do.
    Limits,
    /// Its requests that wait for a decision.
    Requests,
    /// Files of earlier messages.
    Files,
}

impl AboutTopic {
    /// All topics, in the order of an answer.
    pub const ALL: [Self; 7] =
        [Self::Why, Self::People, Self::Destinations, Self::Tasks, Self::Limits, Self::Requests, Self::Files];

    /// The word that agents use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Why => "why",
            Self::People => "people",
            Self::Destinations => "destinations",
            Self::Tasks => "tasks",
            Self::Limits => "limits",
            Self::Requests => "requests",
            Self::Files => "files",
        }
    }
}

/// An agent's request about its scheduled tasks. Times and recurrences are as the agent wrote them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskRequest {
    /// Create a task.
    Schedule {
        /// Text of each message that the task starts.
        prompt: String,
        /// First occurrence.
        first: String,
        /// Recurrence.
        recurrence: Option<String>,
        /// A script that runs first.
        script: Option<String>,
    },
    /// List tasks: `pending`, `paused`, or both.
    List(Option<String>),
    /// Change a task.
    Update(TaskId, Box<TaskChange>),
    /// Cancel a task.
    Cancel(TaskId),
    /// Pause a task.
    Pause(TaskId),
    /// Resume a task.
    Resume(TaskId),
}

/// A question to people, in a form that a card can show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewQuestion {
    /// Heading of the card.
    pub title: String,
    /// What is asked.
    pub body: String,
    /// What can be chosen.
    pub options: Vec<CardOption>,
    /// How long to wait.
    pub timeout: Millis,
}

/// Maximum number of packages in one request.
pub const PACKAGES_MAX: usize = 20;
/// Maximum length of a package's name in characters; the registries' own limits are 214 and below.
const PACKAGE_NAME_MAX: usize = 214;

/// Why the packages of a request cannot be installed; none if they can.
#[must_use]
pub fn packages_problem(packages: &Packages) -> Option<String> {
    let count = packages.apt.len() + packages.npm.len();
    if count == 0 {
        return Some("at least one apt or npm package is required.".to_owned());
    }
    if count > PACKAGES_MAX {
        return Some(format!("max {PACKAGES_MAX} packages per request."));
    }
    let apt = packages.apt.iter().find(|name| !is_apt_package(name));
    let npm = packages.npm.iter().find(|name| !is_npm_package(name));
    let invalid = |kind: &str, name: &String| format!("invalid {kind} package name \"{}\".", shown(name));
    apt.map(|name| invalid("apt", name)).or_else(|| npm.map(|name| invalid("npm", name)))
}

/// Whether a text is a plain apt package name: no version, no option, no shell syntax, and no `-` at the end, which
/// makes `apt-get install` remove the package.
#[must_use]
pub fn is_apt_package(name: &str) -> bool {
    name.len() <= PACKAGE_NAME_MAX && is_plain(name, b"._+-") && !name.ends_with('-')
}

/// Whether a text is the name of an npm package, with or without a scope.
#[must_use]
pub fn is_npm_package(name: &str) -> bool {
    let (scope, rest) = match name.strip_prefix('@') {
        Some(scoped) => match scoped.split_once('/') {
            Some((scope, rest)) => (Some(scope), rest),
            None => return false,
        },
        None => (None, name),
    };
    name.len() <= PACKAGE_NAME_MAX && scope.is_none_or(|scope| is_plain(scope, b"._-")) && is_plain(rest, b"._-")
}

/// Whether a text has only lower-case letters, digits and the bytes in `besides`, and starts with a letter or digit.
fn is_plain(text: &str, besides: &[u8]) -> bool {
    let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.bytes().next().is_some_and(letter) && text.bytes().all(|byte| letter(byte) || besides.contains(&byte))
}

/// Whether a text can be the name of an MCP server: the names of its tools contain it.
#[must_use]
pub fn is_server_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    !name.is_empty() && name.len() <= 64 && name.bytes().all(plain) && name != OWN_SERVER
}

/// The MCP server with Hearth's own tools.
const OWN_SERVER: &str = "nanoclaw";

/// A refused name, shortened and escaped for display.
fn shown(name: &str) -> String {
    name.chars().take(60).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packages(apt: &[&str], npm: &[&str]) -> Packages {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Packages { apt: owned(apt), npm: owned(npm) }
    }

    /// As NanoClaw answers such names.
    #[test]
    fn packages_are_names_and_nothing_else() {
        let many: Vec<String> = (0..21).map(|n| format!("p{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let invalid = |kind: &str, name: &str| Some(format!("invalid {kind} package name \"{name}\"."));
        for (row, apt, npm, problem) in [
            ("none", &[][..], &[][..], Some("at least one apt or npm package is required.".to_owned())),
            ("21 of one kind", &many[..], &[], Some("max 20 packages per request.".to_owned())),
            ("21 of both", &many[..20], &["x"], Some("max 20 packages per request.".to_owned())),
            ("20 are fine", &many[..20], &[], None),
            ("no name for apt", &["Foo"], &[], invalid("apt", "Foo")),
            ("no name for apt", &["ok", "foo;rm"], &[], invalid("apt", "foo;rm")),
            ("no name for apt", &["-x"], &[], invalid("apt", "-x")),
            ("apt", &[""], &[], invalid("apt", "")),
            ("apt", &["a\nb"], &[], invalid("apt", "a\\nb")),
            ("apt", &["jq=1.6"], &[], invalid("apt", "jq=1.6")),
            ("marks that apt has", &["libfoo+1.2"], &[], None),
            ("scopes and marks that npm has", &[], &["@scope/pkg", "pkg.name_1"], None),
            ("no name for npm", &[], &["@Scope/pkg"], invalid("npm", "@Scope/pkg")),
            ("no name for npm", &[], &["a/b"], invalid("npm", "a/b")),
            ("no name for npm", &[], &["pkg@1.0"], invalid("npm", "pkg@1.0")),
            ("npm", &[], &["@scope"], invalid("npm", "@scope")),
            ("npm", &[], &["@/pkg"], invalid("npm", "@/pkg")),
            ("npm", &[], &["pkg+more"], invalid("npm", "pkg+more")),
        ] {
            assert_eq!(packages_problem(&packages(apt, npm)), problem, "{row} {apt:?} {npm:?}");
        }
    }

    /// The program on the agents' side checks names with the same table, so that both sides accept the same ones.
    #[test]
    fn names_of_packages_are_judged_as_on_the_agents_side() {
        let table = include_str!("../../tests/data/package-names.json");
        let rows: Vec<serde_json::Value> = serde_json::from_str(table).unwrap();
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

    #[test]
    fn names_of_servers_are_parts_of_names_of_tools() {
        for (name, good) in [("files", true), ("a_B-1", true), ("", false), ("a b", false), ("nanoclaw", false)] {
            assert_eq!(is_server_name(name), good, "{name}");
        }
        assert!(!is_server_name(&"x".repeat(65)));
    }
}
