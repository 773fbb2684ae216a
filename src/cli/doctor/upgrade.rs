//! `hearth doctor --before-upgrade`: what this program would do with a store that an older one uses. It upgrades a copy.

use std::path::Path;

use super::containers;
use super::{Check, CheckStatus, bad, ok, sound};
use crate::cli::configuration::{AgentEntry, Configuration};
use crate::cli::image::ImageSettings;
use crate::cli::{Failure, configuration, service};
use crate::clock;
use crate::config::temp_dir::{Purpose, TempDir};
use crate::config::{Paths, file};
use crate::daemon::image::{self, Engine, Freshness};
use crate::model::configure::RuntimeKind;
use crate::model::entity::Network;
use crate::socket::client::Error as SocketError;
use crate::socket::protocol::DaemonStatus;
use crate::state::{self, Missing, Options, Reader, Store, migrate};

/// Name of the checks about the store.
const STORE: &str = "store";
/// Formats since the first one, and what their migration changes for people.
const BROUGHT: [(u32, &str); 10] = [
    (
        2,
        "new messages go out under ids with an epoch, like 5f0c91ab-mo17, and agents with `network = \"open\"` keep \
         `allow_host_loopback = true`, which new ones do not have",
    ),
    (3, "no visible change; it keeps older programs from reading records that they do not understand"),
    (
        4,
        "agents no longer get the keys of their models, which the gateway adds to their requests; one whose program does \
         not read the address of its model's server from the environment needs `gateway = false`",
    ),
    (
        5,
        "messages that use far too much of models end at the caps of their agents; budgets and fallbacks can be configured",
    ),
    (6, "no visible change; agents keep the network they have, and rules for it can be configured"),
    (
        7,
        "agents go on using their tools without questions, and `tools` of an agent can change that; the console in the browser \
         is off until `[console]` is configured; `hearth search` finds what was said, and earlier messages are indexed beside \
         normal work, which takes a while",
    ),
    (
        8,
        "no visible change; agents go on finding what was said in their own chat, and `recall` of an agent can change that",
    ),
    (
        9,
        "no visible change; people can be allowed to sign in to the console from a chat, and it can be reached over TLS",
    ),
    (10, "no visible change; voice messages can be transcribed once `[voice]` is configured"),
    (11, "no visible change; answers can be spoken once `[voice.speak]` is configured"),
];

/// All checks. Nothing in the data directory is changed.
pub(super) fn before_upgrade(
    paths: &Paths,
    daemon: &Result<Option<DaemonStatus>, SocketError>,
) -> Result<Vec<Check>, Failure> {
    let mut checks = vec![running(daemon)];
    let file = paths.data().join("hearth.toml");
    let scratch = TempDir::create(Purpose::Upgrade)?;
    let copy = Paths::find(Some(&scratch.path().join("data")))?;
    match state::copy_into(paths.data(), copy.data()) {
        Ok(format) => {
            checks.push(migrations(format));
            checks.extend(tried(&copy, format, &file));
        }
        Err(error) => checks.push(bad(STORE, CheckStatus::Fail, error.to_string(), mend(&error))),
    }
    checks.extend(toml(&file));
    checks.extend(service::names_no_installation(paths).unwrap_or(false).then(|| {
        let found = "its file names no installation, so it would also run another store in the same directory";
        bad("service", CheckStatus::Warn, found, "run `hearth service install` after the upgrade")
    }));
    Ok(checks)
}

fn mend(error: &state::Error) -> &'static str {
    match error {
        state::Error::NewerFormat { .. } => "this program is older than the store: upgrade to a newer one",
        state::Error::NoStore { .. } => "specify the data directory with --data",
        _ => "the store is copied to the directory for temporary files (TMPDIR), which must have enough space",
    }
}

fn running(daemon: &Result<Option<DaemonStatus>, SocketError>) -> Check {
    let name = "daemon";
    let this = env!("CARGO_PKG_VERSION");
    match daemon {
        Ok(None) => ok(name, format!("none is running; this program is version {this}")),
        Ok(Some(daemon)) => ok(
            name,
            format!("version {} is running and continues to run; this program is version {this}", daemon.version),
        ),
        Err(error) => ok(name, format!("this program, version {this}, cannot talk to it: {error}")),
    }
}

fn migrations(format: u32) -> Check {
    let steps = BROUGHT.iter().filter(|(to, _)| *to > format);
    let steps: Vec<String> = steps.map(|(to, brought)| format!("to format {to}: {brought}")).collect();
    if steps.is_empty() {
        return ok("migrations", format!("none: the store has format {format}, which this program writes too"));
    }
    let backup = "before the upgrade, the first start makes a backup that the older program can restore";
    ok("migrations", format!("from format {format} {}; {backup}", steps.join("; ")))
}

/// Upgrades the copy, and looks at the result.
fn tried(copy: &Paths, format: u32, toml: &Path) -> Vec<Check> {
    let upgraded = || -> Result<Reader, Failure> {
        let mut options = Options::new(clock::random()?);
        options.reserve_bytes = 0;
        options.missing = Missing::Refuse;
        Store::open(copy.data(), options)?.close();
        Ok(Reader::open(copy.data())?)
    };
    let reader = match upgraded() {
        Ok(done) => done,
        Err(failure) => {
            let found = format!("a copy could not be upgraded: {}", failure.words());
            return vec![bad("upgrade", CheckStatus::Fail, found, "keep using the older program, and report this")];
        }
    };
    let mut checks = Vec::new();
    if format < migrate::FORMAT {
        checks.push(ok("upgrade", "a copy was backed up and upgraded"));
    }
    checks.push(sound(&reader));
    match reader.read(configuration::collect) {
        Ok(known) => {
            checks.extend((format < 2).then(|| containers::loopback(&known, true)).flatten());
            checks.push(defaults(&known, toml));
        }
        Err(error) => checks.push(bad("entities", CheckStatus::Fail, error.to_string(), "report this")),
    }
    checks.extend(images(copy));
    checks
}

/// Agents that would lose `network = "open"`, the default before, with the next file that omits the key.
fn defaults(known: &Configuration, toml: &Path) -> Check {
    let name = "defaults";
    let named = std::fs::read_to_string(toml).map(|text| file::named_keys(&text)).unwrap_or_default();
    let would_lose = |agent: &&AgentEntry| {
        let settings = &agent.settings;
        let is_named = named.get(&format!("agent {}", agent.folder)).is_some_and(|keys| keys.contains("network"));
        settings.network == Network::Open && settings.default_network() != Network::Open && !is_named
    };
    let agents: Vec<&str> = known.agents.iter().filter(would_lose).map(|agent| agent.folder.as_str()).collect();
    if agents.is_empty() {
        return ok(name, "no agent relies on a default that changed");
    }
    let found = format!(
        "agents whose tables in hearth.toml have no `network` get `ask`, untrusted ones `listed`, and no longer `open`, when the \
         file is applied; until then these keep `open`: {}",
        agents.join(", ")
    );
    let mend = "write `network = \"open\"` into their tables to keep it, or `allow` with the hosts that they need";
    bad(name, CheckStatus::Warn, found, mend)
}

/// The images that this program would build anew.
fn images(copy: &Paths) -> Option<Check> {
    let name = "images";
    let settings = ImageSettings::read(copy).ok()?;
    if settings.runtime() == Some(RuntimeKind::Process) {
        return None;
    }
    let listed = Engine::find().ok().map(|engine| image::list(&engine, settings.install(), &settings.agents()))?;
    let listed = match listed {
        Ok(listed) => listed,
        Err(error) => return Some(bad(name, CheckStatus::Warn, error.to_string(), "read Podman's error")),
    };
    let old = listed.iter().filter(|one| one.image.is_some() && one.freshness == Freshness::Outdated);
    let old: Vec<&str> = old.map(|one| one.name.as_str()).collect();
    if old.is_empty() {
        return Some(ok(name, "no image has to be built"));
    }
    let mend = "run `hearth image build` of this program before the daemon is restarted";
    Some(bad(name, CheckStatus::Warn, format!("to be built: {}", old.join(", ")), mend))
}

/// Whether this program accepts the configuration file.
fn toml(path: &Path) -> Option<Check> {
    let name = "hearth.toml";
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => return Some(bad(name, CheckStatus::Warn, error.to_string(), "make it readable")),
    };
    Some(match file::parse(&path.display().to_string(), &text) {
        Ok(_) => ok(name, "this program accepts it"),
        Err(error) => bad(name, CheckStatus::Warn, error.to_string(), "correct it before the next `hearth apply`"),
    })
}
