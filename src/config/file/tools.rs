//! Parses an agent's packages, MCP servers and instructions.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::env;
use super::section::{Keys, Problems, Section, excerpt};
use crate::model::entity::{McpServer, Packages};
use crate::model::request::{is_apt_package, is_npm_package, is_server_name};

const PACKAGES: Keys = Keys { place: "`packages`", known: &["apt", "npm"], later: &[] };
const SERVER: Keys = Keys { place: "an MCP server", known: &["command", "args", "env"], later: &[] };

/// Longest instructions, in bytes.
const INSTRUCTIONS_MAX: usize = 32 * 1024;

/// `packages = { apt = […], npm = […] }`.
pub(super) fn packages(problems: &mut Problems<'_>, section: &Section<'_>) -> Packages {
    let Some(section) = section.table(problems, "packages", &PACKAGES) else { return Packages::default() };
    let mut list = |key: &str, good: fn(&str) -> bool| {
        let mut names: Vec<String> = Vec::new();
        for (at, name) in section.texts(problems, key) {
            if !good(name) {
                problems.add(
                    at,
                    format!("`{}` is not the name of a package of {key}; correct or remove it", excerpt(name)),
                );
            } else if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        names
    };
    Packages { apt: list("apt", is_apt_package), npm: list("npm", is_npm_package) }
}

/// `[agents.mcp_servers.<name>]`, sorted by name.
pub(super) fn servers(problems: &mut Problems<'_>, section: &Section<'_>) -> Vec<McpServer> {
    let mut servers = Vec::new();
    for (name, at, value) in tables(problems, section) {
        if !is_server_name(name) {
            let what =
                "cannot be the name of an MCP server; use 1 to 64 letters, digits, `_` and `-`, but not `nanoclaw`";
            problems.add(at, format!("`{}` {what}", excerpt(name)));
        }
        let section = Section::new(&SERVER, value.span().start, value.get_ref());
        section.check_keys(problems);
        servers.extend(server(problems, &section, name));
    }
    servers.sort_by(|a, b| a.name.cmp(&b.name));
    servers
}

/// An agent's instructions, used when its folder is created.
pub(super) fn instructions(problems: &mut Problems<'_>, section: &Section<'_>) -> Option<String> {
    let (at, text) = section.text(problems, "instructions")?;
    if text.len() > INSTRUCTIONS_MAX || text.contains('\0') {
        problems.add(at, format!("`instructions` is a text of at most {INSTRUCTIONS_MAX} bytes; shorten it"));
        return None;
    }
    (!text.trim().is_empty()).then(|| text.to_owned())
}

fn tables<'d>(problems: &mut Problems<'_>, section: &Section<'d>) -> Vec<(&'d str, usize, Spanned<&'d DeTable<'d>>)> {
    let Some(value) = section.get("mcp_servers") else { return Vec::new() };
    let wrong = "`mcp_servers` is a table of tables; begin each server with [agents.mcp_servers.name]";
    let Some(all) = value.get_ref().as_table() else {
        problems.add(value.span().start, wrong);
        return Vec::new();
    };
    let mut found = Vec::new();
    for (name, value) in all {
        match value.get_ref() {
            DeValue::Table(table) => {
                found.push((name.get_ref().as_ref(), name.span().start, Spanned::new(value.span(), table)));
            }
            _ => problems.add(value.span().start, wrong),
        }
    }
    found
}

fn server(problems: &mut Problems<'_>, section: &Section<'_>, name: &str) -> Option<McpServer> {
    let command = section.needed(problems, "command");
    let args = section.texts(problems, "args");
    for (at, word) in command.iter().chain(&args) {
        if word.contains('\0') || (word.trim().is_empty() && command.is_some_and(|(first, _)| first == *at)) {
            problems.add(*at, "`command` names a program, and neither it nor `args` have NUL characters; correct it");
        }
    }
    let env = env::variables(problems, section, |_| false);
    let args = args.into_iter().map(|(_, word)| word.to_owned()).collect();
    Some(McpServer { name: name.to_owned(), command: command?.1.to_owned(), args, env })
}
