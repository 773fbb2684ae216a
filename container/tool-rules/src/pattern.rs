//! Patterns of tool calls: `NAME` or `NAME(ARGUMENT)`.

use std::fmt;

use crate::call::{self, Call};
use crate::glob::{self, Part, Star};
use crate::{path, shell};

/// Maximum length of a pattern in characters.
pub const PATTERN_CHARS: usize = 1_000;
/// Maximum length of a tool's name in characters.
const NAME_CHARS: usize = 128;
/// Maximum length of a command that a pattern is made of, in characters.
const COMMAND_CHARS: usize = 400;

/// A pattern of tool calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    name: Vec<Part>,
    about: Option<Subject>,
}

/// What of a call a pattern is about.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Subject {
    /// The command, else the path, else the host: whichever a call has.
    Any(String),
    Command(String),
    Path(String),
    Host(String),
    Field(String, Vec<Part>),
}

/// How a pattern is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// All calls that it may cover.
    Wide,
    /// Only calls that it certainly covers.
    Narrow,
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// What is wrong, and what to write instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.chars().count() > PATTERN_CHARS || text.chars().any(char::is_control) {
            return Err(format!(
                "a pattern has at most {PATTERN_CHARS} characters and no control characters; write a shorter one with `*`"
            ));
        }
        let (name, about) = match text.split_once('(') {
            Some((name, rest)) => {
                let about = rest.strip_suffix(')').ok_or("the `)` at the end is missing; write `Tool(argument)`")?;
                (name, Some(Subject::parse(about)?))
            }
            None => (text, None),
        };
        if !is_name(name) {
            return Err(
                "it has to begin with a tool's name: letters, digits, `_`, `-`, `.`, `:`, `/`, spaces and `*`; write \
                 `Tool` or `Tool(argument)`"
                    .to_owned(),
            );
        }
        Ok(Self { text: text.to_owned(), name: glob::parts(name, Star::Any), about })
    }

    /// The narrowest pattern that covers a call, if there is one that people can read.
    #[must_use]
    pub fn of(call: &Call<'_>) -> Option<Self> {
        let (paths, hosts) = (call.paths(), call.hosts());
        let about = match (call.command(), paths.as_slice(), hosts.as_slice()) {
            (Some(command), ..) => {
                (command.chars().count() <= COMMAND_CHARS).then(|| format!("(command:{})", glob::escaped(&command)))?
            }
            (None, [path], _) => format!("(path:{})", glob::escaped(path)),
            (None, [], [host]) => format!("(host:{host})"),
            (None, [], []) => match call.field("to").filter(|to| !to.is_empty()) {
                Some(to) => format!("(@to={})", glob::escaped(&to)),
                None => String::new(),
            },
            _ => return None,
        };
        if call.tool.contains('*') {
            return None;
        }
        Self::parse(&format!("{}{about}", call.tool)).ok().filter(|pattern| pattern.covers(call))
    }

    /// Whether it is about a call, as far as it can be.
    pub(crate) fn touches(&self, call: &Call<'_>) -> bool {
        self.compare(call, Reading::Wide)
    }

    /// Whether it is surely about all of a call.
    pub(crate) fn covers(&self, call: &Call<'_>) -> bool {
        self.compare(call, Reading::Narrow)
    }

    fn compare(&self, call: &Call<'_>, reading: Reading) -> bool {
        glob::matches(&self.name, call.tool) && self.about.as_ref().is_none_or(|about| about.compare(call, reading))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn is_name(name: &str) -> bool {
    let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/' | '*' | ' ');
    !name.trim().is_empty() && name.trim() == name && name.chars().count() <= NAME_CHARS && name.chars().all(known)
}

impl Subject {
    fn parse(text: &str) -> Result<Self, String> {
        let about = match text.split_once(':') {
            Some(("command", rest)) => Self::Command(rest.to_owned()),
            Some(("path", rest)) => Self::Path(rest.to_owned()),
            Some(("host" | "domain", rest)) => Self::Host(rest.to_ascii_lowercase()),
            _ => match text.strip_prefix('@') {
                Some(field) => {
                    let (name, value) = field.split_once('=').ok_or("after `@` comes a field: `@name=value`")?;
                    Self::Field(name.to_owned(), glob::parts(value, Star::Any))
                }
                None => Self::Any(text.to_owned()),
            },
        };
        match &about {
            Self::Any(text) | Self::Command(text) | Self::Path(text) | Self::Host(text) | Self::Field(text, _)
                if text.trim().is_empty() =>
            {
                Err("between `(` and `)` nothing is said; leave the parentheses out, or say which calls".to_owned())
            }
            Self::Path(text) if text.starts_with('~') => {
                Err("a path cannot begin with `~`, because the agent's home is another one; write the whole path"
                    .to_owned())
            }
            _ => Ok(about),
        }
    }

    fn compare(&self, call: &Call<'_>, reading: Reading) -> bool {
        match self {
            Self::Command(text) => call.command().is_some_and(|command| of_command(text, &command, reading)),
            Self::Path(text) => of_paths(text, call, reading),
            Self::Host(text) => of_hosts(text, call, reading),
            Self::Field(name, value) => call.field(name).is_some_and(|found| glob::matches(value, &found)),
            Self::Any(text) => {
                if let Some(command) = call.command() {
                    of_command(text, &command, reading)
                } else if !call.paths().is_empty() {
                    of_paths(text, call, reading)
                } else if !call.hosts().is_empty() {
                    of_hosts(&text.to_ascii_lowercase(), call, reading)
                } else {
                    // Nothing shows what the call is about.
                    reading == Reading::Wide
                }
            }
        }
    }
}

fn of_command(text: &str, command: &str, reading: Reading) -> bool {
    let command = command.trim();
    let is_same = |pattern: &str, command: &str| glob::matches(&glob::parts(pattern, Star::Any), command);
    let compare = |command: &str| match text.strip_suffix(":*") {
        // An escaped star is not one.
        Some(prefix) => {
            is_same(prefix, command)
                || command
                    .char_indices()
                    .filter(|(_, c)| c.is_whitespace())
                    .any(|(at, _)| command.get(..at).is_some_and(|start| is_same(prefix, start)))
        }
        None => is_same(text, command),
    };
    match reading {
        Reading::Narrow => {
            let is_exact = glob::parts(text, Star::Any).iter().all(|part| matches!(part, Part::Char(_)));
            (shell::is_simple(command) || (is_exact && !text.ends_with(":*"))) && compare(command)
        }
        Reading::Wide => {
            compare(command)
                || shell::parse(command)
                    .iter()
                    .any(|simple| compare(&simple.words.join(" ")) || compare(&simple.bare().join(" ")))
        }
    }
}

fn of_paths(text: &str, call: &Call<'_>, reading: Reading) -> bool {
    let folder = &call.place.folder;
    let whole = if text.starts_with('/') { text.to_owned() } else { format!("{}/{text}", glob::escaped(folder)) };
    let parts = glob::parts(&whole, Star::WithinName);
    let top = whole.strip_suffix("/**").map(|top| glob::parts(top, Star::WithinName));
    let is_it = |path: &String| glob::matches(&parts, path) || top.as_ref().is_some_and(|top| glob::matches(top, path));
    let paths = call.paths();
    match (reading, call.command()) {
        (Reading::Narrow, Some(_)) => false,
        (Reading::Narrow, None) => !paths.is_empty() && paths.iter().all(is_it),
        (Reading::Wide, command) => {
            let simple = command.map(|command| shell::parse(&command)).unwrap_or_default();
            let words = simple.iter().flat_map(|simple| simple.words.iter().chain(&simple.outputs));
            let named: Vec<String> = words.map(|word| path::resolve(folder, word)).collect();
            paths.iter().chain(&named).any(is_it)
        }
    }
}

fn of_hosts(text: &str, call: &Call<'_>, reading: Reading) -> bool {
    let is_it = |host: &String| match text.strip_prefix("*.") {
        Some(domain) => host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.')),
        None => text == "*" || host == text,
    };
    let hosts = call.hosts();
    match (reading, call.command()) {
        (Reading::Narrow, Some(_)) => false,
        (Reading::Narrow, None) => !hosts.is_empty() && hosts.iter().all(is_it),
        (Reading::Wide, command) => {
            let simple = command.map(|command| shell::parse(&command)).unwrap_or_default();
            let named: Vec<String> =
                simple.iter().flat_map(|simple| &simple.words).filter_map(|word| call::host(word)).collect();
            hosts.iter().chain(&named).any(is_it)
        }
    }
}
