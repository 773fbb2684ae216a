//! What agents ask of Hearth itself, after the mailbox has read and bounded it.

use serde::{Deserialize, Serialize};

use super::card::CardOption;
use super::entity::{McpServer, Packages};
use super::id::{SessionId, TaskId};
use super::task::TaskChange;
use super::time::Millis;

/// What an agent wants done with something it wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// Say it.
    Say,
    /// Put its text in the place of the text of the message with this number.
    Edit(u64),
    /// Put its text, an emoji, under the message with this number.
    React(u64),
    /// Something that Hearth itself does.
    Request(Box<Request>),
    /// It cannot be done, whatever the store holds: the agent is told why.
    Impossible(String),
}

/// Packages that an agent asked for, and that were approved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Install {
    /// Who hears what became of it.
    pub session: SessionId,
    /// Those it asked for.
    pub packages: Packages,
}

/// Something an agent asks of Hearth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Ask people.
    Question(NewQuestion),
    /// Put packages into the agent's image.
    InstallPackages {
        /// Which.
        packages: Packages,
        /// Why, in the agent's words.
        reason: Option<String>,
    },
    /// Give the agent another server of tools.
    AddMcpServer(McpServer),
    /// Make another agent.
    CreateAgent {
        /// Its name.
        name: String,
        /// What it is told about itself.
        instructions: Option<String>,
    },
    /// Something about what it is to do later.
    Tasks(TaskRequest),
}

/// What an agent wants of its scheduled tasks. Times and recurrences are as it wrote them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskRequest {
    /// Another one.
    Schedule {
        /// What it is told.
        prompt: String,
        /// First time.
        first: String,
        /// When it comes again.
        recurrence: Option<String>,
        /// A script that runs first.
        script: Option<String>,
    },
    /// Those there are: `pending`, `paused`, or both.
    List(Option<String>),
    /// A change.
    Update(TaskId, Box<TaskChange>),
    /// An end.
    Cancel(TaskId),
    /// A pause.
    Pause(TaskId),
    /// The end of a pause.
    Resume(TaskId),
}

/// A question to people, in a form that a card can show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewQuestion {
    /// Card title.
    pub title: String,
    /// What is asked.
    pub body: String,
    /// What can be chosen.
    pub options: Vec<CardOption>,
    /// How long to wait.
    pub timeout: Millis,
}

/// Packages that one request may name.
pub const PACKAGES_MAX: usize = 20;
/// Characters of a package's name; the registries' own limits are 214 and below.
const PACKAGE_NAME_MAX: usize = 214;

/// Why packages cannot be installed, whoever asks.
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

/// Whether a text is the name of a package of the distribution, and nothing else: no version, no option, no shell, and no
/// `-` behind it, by which `apt-get install` means that it has to go.
#[must_use]
pub fn is_apt_package(name: &str) -> bool {
    name.len() <= PACKAGE_NAME_MAX && is_plain(name, b"._+-") && !name.ends_with('-')
}

/// Whether a text is the name of a package of npm, with or without a scope.
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

/// Lower-case letters and digits, and these bytes except at the beginning.
fn is_plain(text: &str, besides: &[u8]) -> bool {
    let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.bytes().next().is_some_and(letter) && text.bytes().all(|byte| letter(byte) || besides.contains(&byte))
}

/// Whether a text can be the name of a server of tools: tools carry it in their own names.
#[must_use]
pub fn is_server_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    !name.is_empty() && name.len() <= 64 && name.bytes().all(plain) && name != OWN_SERVER
}

/// The server with Hearth's own tools.
const OWN_SERVER: &str = "nanoclaw";

/// A name that was refused, as far as it can be shown.
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

    /// The program on the agents' side judges the same names by the same table, so that both mean the same by a name.
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
