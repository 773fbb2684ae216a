//! Known agents, built into the image as `hearth image build --with` does it.

use hearth::model::entity::Preset;

use super::{Podman, fetching, listed, with_podman};
use crate::host::skipped;

/// Gives the common image back its name, which other tests rely on.
struct Kept<'a> {
    podman: &'a Podman,
    id: String,
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        self.podman.command(&["tag", &self.id, &self.podman.image]);
    }
}

/// Starts an agent, greets it as Hearth does, and shows its first line.
const GREET: &str = r#"export HOME=/tmp/home; mkdir $HOME; cd $HOME
(echo '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}'; sleep 50) |
timeout 45 COMMAND 2> errors | head -n 1; head -c 2000 errors >&2"#;

#[test]
fn known_agents_are_in_the_image_and_start() {
    let Some(named) = std::env::var("HEARTH_IMAGE_AGENTS").ok().filter(|named| !named.is_empty()) else {
        return skipped("known agents in the image take minutes; HEARTH_IMAGE_AGENTS=opencode,codex builds these");
    };
    let Some((host, podman)) = with_podman() else { return };
    let known: Vec<Preset> = named.split(',').map(|name| Preset::named(name).expect(name)).collect();
    let before = listed(&host).into_iter().find(|(name, ..)| *name == podman.image).unwrap();
    let _kept = Kept { podman: &podman, id: before.2.unwrap() };
    let fetch = fetching();
    let fetch: Vec<&str> = fetch.iter().map(String::as_str).collect();
    let built = host.run(&[&["image", "build", "--json", "--with", &named], &fetch[..]].concat(), b"");
    assert_eq!(built.code, Some(0), "{built:#?}");
    let installed = podman.shell(&podman.image, "npm ls --global --prefix /usr/local --depth 0 2>&1; node --version");
    for preset in known {
        let about = preset.about();
        // Name and version, as npm lists them.
        assert!(about.package.is_python() || installed.contains(&about.package.spec()), "{}: {installed}", about.name);
        let begun = podman.shell(&podman.image, &GREET.replace("COMMAND", &about.command.join(" ")));
        let answer: serde_json::Value =
            serde_json::from_str(&begun).unwrap_or_else(|_| panic!("{}: {begun}", about.name));
        assert_eq!(answer["result"]["agentInfo"]["name"], about.handshake, "{answer}");
    }
}
