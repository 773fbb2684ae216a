//! Which image an agent's containers are made of. Building images and starting containers agree upon it here.

use sha2::{Digest, Sha256};

use crate::model::entity::AgentSettings;

/// The image for agents that need nothing of their own, when none was configured: that of this very version.
pub const DEFAULT: &str = concat!("localhost/hearth-agent:", env!("CARGO_PKG_VERSION"));

/// The program in an image that is the runner.
pub const RUNNER: &str = "/usr/local/bin/hearth-runner";

/// The image an agent without packages of its own uses, and the one that an image with packages is made from.
#[must_use]
pub fn base_of(configured: Option<&str>) -> &str {
    configured.unwrap_or(DEFAULT)
}

/// The image of an agent's containers. With packages it is one of the agent's own, named after everything that it is made
/// of: when base or packages change it is another one. `install` is the installation's id.
#[must_use]
pub fn image_of(install: &str, folder: &str, settings: &AgentSettings, configured: Option<&str>) -> String {
    let packages = &settings.packages;
    let base = base_of(configured);
    if packages.apt.is_empty() && packages.npm.is_empty() {
        return base.to_owned();
    }
    let mut digest = Sha256::new();
    for (kind, list) in
        [("base", std::slice::from_ref(&base.to_owned())), ("apt", &packages.apt), ("npm", &packages.npm)]
    {
        for word in list {
            // No name holds a zero byte, so no two lists give the same text.
            digest.update(format!("{kind}\0{word}\0"));
        }
    }
    let digits: String = digest.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    // Names of images have small letters only, and no two separators next to each other.
    let name: String = format!("{install}-{folder}").bytes().map(spell).collect();
    format!("localhost/hearth-agent-{name}:{digits}")
}

/// Capitals and separators are spelt out, so that folders that differ in them only have different images.
fn spell(byte: u8) -> String {
    match byte {
        b'A'..=b'Z' => format!("x{}x", char::from(byte.to_ascii_lowercase())),
        b'_' => "xux".to_owned(),
        _ => char::from(byte).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::entity::Packages;

    fn with(apt: &[&str], npm: &[&str]) -> AgentSettings {
        let own = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect();
        AgentSettings { packages: Packages { apt: own(apt), npm: own(npm) }, ..AgentSettings::named("A".to_owned()) }
    }

    #[test]
    fn without_packages_it_is_the_configured_one() {
        assert_eq!(image_of("1f", "main", &with(&[], &[]), None), DEFAULT);
        assert_eq!(image_of("1f", "main", &with(&[], &[]), Some("localhost/mine:3")), "localhost/mine:3");
    }

    #[test]
    fn whatever_goes_into_it_makes_another_one() {
        let one = image_of("1f", "main", &with(&["jq"], &[]), None);
        assert!(one.starts_with("localhost/hearth-agent-1f-main:") && one.len() == 43, "{one}");
        assert_eq!(one, image_of("1f", "main", &with(&["jq"], &[]), None));
        for other in [
            image_of("1f", "main", &with(&[], &["jq"]), None),
            image_of("1f", "main", &with(&["jq", "git"], &[]), None),
            image_of("1f", "main", &with(&["jq"], &[]), Some("localhost/mine:3")),
            image_of("1f", "Main", &with(&["jq"], &[]), None),
            image_of("2f", "main", &with(&["jq"], &[]), None),
        ] {
            assert_ne!(one, other);
            assert!(!other.bytes().any(|byte| byte.is_ascii_uppercase()), "{other}");
        }
    }
}
