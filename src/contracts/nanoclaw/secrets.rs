//! The names of keys and tokens in NanoClaw's `.env`. Their values are not kept.

use super::Error;
use super::found::{Inventory, Kind};
use super::settings::is_secret;
use crate::config::env::is_env_name;
use crate::contracts::dir::{Content, Dir};

/// Maximum size of the file.
const SIZE_MAX: u64 = 1 << 20;
/// Maximum number of names in the report.
const NAMES_MAX: usize = 100;

/// The text of `.env`; empty if there is none.
pub(super) fn text(root: &Dir) -> Result<String, Error> {
    let bytes = match root.read(".env".as_ref(), SIZE_MAX)? {
        Content::Whole(bytes) => bytes,
        Content::Absent | Content::Refused(_) => Vec::new(),
    };
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Lists each key and token with the line that refers to it.
pub(super) fn list(root: &Dir, found: &mut Inventory) -> Result<(), Error> {
    for name in names(&text(root)?) {
        let line = match name.as_str() {
            "TELEGRAM_BOT_TOKEN" => "add `token = \"env:TELEGRAM_BOT_TOKEN\"` below [channels.telegram]".to_owned(),
            "ANTHROPIC_API_KEY" | "ANTHROPIC_AUTH_TOKEN" | "CLAUDE_CODE_OAUTH_TOKEN" => {
                format!("add `env = {{ {name} = \"env:{name}\" }}` to each of [[agents]]")
            }
            _ => format!("if an agent or a channel needs it, refer to it as `\"env:{name}\"`"),
        };
        let why = format!("values are not imported: set {name} in Hearth's environment, and in hearth.toml {line}");
        found.leave(Kind::Other, format!(".env {name}"), why);
    }
    Ok(())
}

/// The names that suggest a secret and have a value, each once.
fn names(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for line in text.lines().map(str::trim) {
        let line = line.strip_prefix("export ").unwrap_or(line);
        let Some((name, value)) = line.split_once('=') else { continue };
        let name = name.trim();
        let is_set = !value.trim().trim_matches(['"', '\'']).is_empty();
        if is_set && is_env_name(name) && is_secret(name) && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names.truncate(NAMES_MAX);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_secrets_with_a_value_are_listed() {
        let text = "# A_KEY=1\nASSISTANT_NAME=Andy\nexport TELEGRAM_BOT_TOKEN='hush'\nEMPTY_TOKEN=\"\"\nB_KEY = x\nB_KEY=y\n\
                    bad name_KEY=x\n\u{1b}[2J_KEY=x\nSECRET\n";
        assert_eq!(names(text), ["TELEGRAM_BOT_TOKEN", "B_KEY"]);
    }
}
