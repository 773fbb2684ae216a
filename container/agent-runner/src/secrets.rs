//! Values that must not be seen: those of this process's variables whose names say that they are secret.

use std::borrow::Cow;
use std::sync::OnceLock;

use crate::env;

/// Shorter values are too likely to be part of ordinary words.
const SHORTEST: usize = 8;
/// What is said in their place.
const PLACE: &str = "[redacted]";

static SECRETS: OnceLock<Vec<String>> = OnceLock::new();

/// The text without them.
pub(crate) fn redacted(text: &str) -> Cow<'_, str> {
    without(text, SECRETS.get_or_init(|| secret(env::all())))
}

/// The values to hide, longest first, since one may contain another.
fn secret(variables: impl Iterator<Item = (String, String)>) -> Vec<String> {
    let named = variables.filter(|(name, value)| is_secret(name) && value.len() >= SHORTEST);
    let mut values: Vec<String> = named.map(|(_, value)| value).collect();
    values.sort_by_key(|value| std::cmp::Reverse(value.len()));
    values
}

/// Servers of tools have all their variables as references, which may be secret whatever they are called.
fn is_secret(name: &str) -> bool {
    let name = name.to_uppercase();
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
        ];
        let secrets = secret(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        assert_eq!(secrets, ["sk-ant-123456-longer", "sk-ant-123456", "ann@example"]);
        let text = "key sk-ant-123456, token sk-ant-123456-longer, 1 /usr/bin:/bin ann@example";
        assert_eq!(without(text, &secrets), "key [redacted], token [redacted], 1 /usr/bin:/bin [redacted]");
        assert!(matches!(without("nothing", &secrets), Cow::Borrowed("nothing")));
    }
}
