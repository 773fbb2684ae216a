//! Removes secret values from texts: the variables that the host handed over as secrets, and those whose names suggest
//! a secret.

use std::borrow::Cow;
use std::sync::OnceLock;

use crate::env::{self, INCARNATION_VARIABLE, SECRET_NAMES_VARIABLE};

/// Minimum length of a likely secret; shorter values could be part of ordinary words.
const SHORTEST: usize = 8;
/// Minimum length of a known secret.
const SHORTEST_HANDED: usize = 6;
/// Replaces a secret.
const PLACE: &str = "[redacted]";

static SECRETS: OnceLock<Vec<String>> = OnceLock::new();

/// The text without secrets.
pub(crate) fn redacted(text: &str) -> Cow<'_, str> {
    without(text, SECRETS.get_or_init(|| secret(env::all())))
}

/// The secret values and each of their lines, longest first, since one may contain another.
fn secret(variables: impl Iterator<Item = (String, String)>) -> Vec<String> {
    let variables: Vec<(String, String)> = variables.collect();
    let handed = variables.iter().find(|(name, _)| name == SECRET_NAMES_VARIABLE);
    let handed: Vec<&str> = handed.map(|(_, names)| names.split(',').collect()).unwrap_or_default();
    let mut values = Vec::new();
    for (name, value) in &variables {
        let shortest = match name.as_str() {
            // Its value is a number that any message may contain.
            INCARNATION_VARIABLE => continue,
            name if handed.contains(&name) => SHORTEST_HANDED,
            name if is_secret(name) => SHORTEST,
            _ => continue,
        };
        let lines = std::iter::once(value.as_str()).chain(value.lines().map(str::trim));
        values.extend(lines.filter(|text| text.len() >= shortest).map(str::to_owned));
    }
    values.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    values.dedup();
    values
}

/// Whether a variable's name suggests a secret. All variables of MCP servers are references, which may be secret
/// whatever their name.
fn is_secret(name: &str) -> bool {
    let name = name.to_uppercase();
    if name == SECRET_NAMES_VARIABLE {
        return false;
    }
    ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL"].iter().any(|word| name.contains(word))
        || name.starts_with("HEARTH_MCP_")
}

fn without<'a>(text: &'a str, secrets: &[String]) -> Cow<'a, str> {
    let mut text = Cow::Borrowed(text);
    for secret in secrets {
        if text.contains(secret.as_str()) {
            text = Cow::Owned(text.replace(secret.as_str(), PLACE));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_secret_names_are_hidden() {
        let variables = [
            ("ANTHROPIC_API_KEY", "sk-ant-123456"),
            ("my_token", "sk-ant-123456-longer"),
            ("HEARTH_MCP_demo_LOGIN", "ann@example"),
            ("SHORT_KEY", "1"),
            ("PATH", "/usr/bin:/bin"),
            ("MADE", "handed"),
            ("PEM", "first line\nsecond line\n"),
            (INCARNATION_VARIABLE, "12345678"),
            (SECRET_NAMES_VARIABLE, "MADE,PEM,HEARTH_INCARNATION"),
        ];
        let secrets = secret(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        assert_eq!(
            secrets,
            [
                "first line\nsecond line\n",
                "sk-ant-123456-longer",
                "sk-ant-123456",
                "ann@example",
                "second line",
                "first line",
                "handed"
            ]
        );
        let text = "key sk-ant-123456, token sk-ant-123456-longer, 1 /usr/bin:/bin ann@example";
        assert_eq!(without(text, &secrets), "key [redacted], token [redacted], 1 /usr/bin:/bin [redacted]");
        assert!(matches!(without("nothing", &secrets), Cow::Borrowed("nothing")));
    }
}
