//! Generates the table of docs/providers.md from the list of known agents. With `HEARTH_UPDATE_DOCS=1` the test writes it.

use hearth::model::entity::Preset;
use hearth_presets::{Package, Trial};

use crate::host::documents::generated;

fn table() -> String {
    let mut text =
        "\n| provider | agent | package | server of your own | key | reads | sessions and login, in its home | \
                    its tokens count | tried with Hearth |\n|---|---|---|---|---|---|---|---|---|\n"
            .to_owned();
    for preset in Preset::ALL {
        let known = preset.about();
        let package = match known.package {
            Package::Npm { name, node: Some(node), .. } => format!("npm `{name}`, Node {node}"),
            Package::Npm { name, node: None, .. } => format!("npm `{name}`"),
            Package::Pypi { name, .. } => format!("PyPI `{name}`"),
        };
        let reads = known.instructions.unwrap_or("CLAUDE.md");
        let tried = match known.trial {
            Trial::Hearth => "yes",
            Trial::Recorded => "no",
        };
        let (title, version) = (known.title, known.package.version());
        text.push_str(&format!(
            "| `{}` | {title} {version} | {package} | `{}` | `{}` | `{reads}` | `{}` | {} | {tried} |\n",
            known.name,
            known.model.base_url,
            known.model.key,
            known.sessions,
            known.counting.as_str()
        ));
    }
    text.push('\n');
    text
}

#[test]
fn the_page_shows_the_known_agents() {
    generated("docs/providers.md", "presets: generated from container/presets/src/table.rs", "presets", &table());
}

/// Each can be named, and names none of the others.
#[test]
fn known_agents_have_names_of_their_own() {
    for preset in Preset::ALL {
        let known = preset.about();
        assert_eq!(Preset::named(known.name), Some(preset));
        assert_eq!(Preset::of_agent(known.handshake), Some(preset));
        assert!(!known.command.is_empty());
    }
}
