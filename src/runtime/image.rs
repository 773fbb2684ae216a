//! Chooses the image for an agent's containers.

use crate::model::entity::AgentSettings;
use crate::model::fnv::fnv_1a;

/// The image that `hearth image build` makes for this version of Hearth.
pub const OWN: &str = concat!("localhost/hearth-agent:", env!("CARGO_PKG_VERSION"));

/// Path of the runner in an image.
pub const RUNNER: &str = "/usr/local/bin/hearth-runner";

/// The image for agents without packages, and the base of images with packages.
#[must_use]
pub fn base_of(configured: Option<&str>) -> &str {
    configured.unwrap_or(OWN)
}

/// The image of an agent: its own if it has packages, else the installation's `configured` image, else [`OWN`].
///
/// The name of an agent's own image contains a hash of everything it is built from, so another choice of packages is
/// another image. Image names allow fewer characters than folder names; the hash keeps folders apart that look alike.
#[must_use]
pub fn image_of(install: &str, folder: &str, settings: &AgentSettings, configured: Option<&str>) -> String {
    let base = base_of(configured);
    let packages = &settings.packages;
    if packages.apt.is_empty() && packages.npm.is_empty() {
        return base.to_owned();
    }
    let made_of = format!("{folder} {base} {:?} {:?}", packages.apt, packages.npm);
    format!("localhost/hearth-agent-{install}-{}:{:012x}", plain(folder), fnv_1a(made_of.as_bytes()) >> 16)
}

/// The letters and digits of a folder in lower case, with single `-` between them.
fn plain(folder: &str) -> String {
    let words = folder.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(apt: &[&str], npm: &[&str]) -> AgentSettings {
        let mut settings = AgentSettings::named("A".to_owned());
        settings.packages.apt = apt.iter().map(|name| (*name).to_owned()).collect();
        settings.packages.npm = npm.iter().map(|name| (*name).to_owned()).collect();
        settings
    }

    #[test]
    fn only_packages_need_an_image_of_their_own() {
        let none = with(&[], &[]);
        assert_eq!(image_of("0a", "a", &none, None), format!("localhost/hearth-agent:{}", env!("CARGO_PKG_VERSION")));
        assert_eq!(image_of("0a", "a", &none, Some("my/image:1")), "my/image:1");

        let own = image_of("0a", "Ann__B-", &with(&["jq"], &[]), None);
        assert!(own.starts_with("localhost/hearth-agent-0a-ann-b:"), "{own}");
        assert_eq!(own.rsplit(':').next().map(str::len), Some(12));
        for other in [
            image_of("0a", "ann-b", &with(&["jq"], &[]), None),
            image_of("0a", "Ann__B-", &with(&[], &["jq"]), None),
            image_of("0a", "Ann__B-", &with(&["jq", "tree"], &[]), None),
            image_of("0a", "Ann__B-", &with(&["jq"], &[]), Some("my/image:1")),
        ] {
            assert_ne!(other, own);
        }
    }
}
