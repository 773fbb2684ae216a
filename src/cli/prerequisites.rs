//! Prerequisites that an installation lacks before its agents can answer. `hearth status` warns of them and `hearth
//! doctor` fails.
//!
//! Reads only a few rows and the metadata of files: no command runs and no network is used.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::config::{Paths, env};
use crate::console::Rank;
use crate::daemon::references::{ReferenceUser, SecretReference, references, unset_variables};
use crate::daemon::{image, setup};
use crate::model::configure::RuntimeKind;
use crate::model::entity::{Agent, AgentSettings, EnvValue, ProviderKind};
use crate::provider::Credential;
use crate::socket::protocol::DaemonStatus;
use crate::state::{self, Read, Tables};

/// Something that is missing.
#[derive(Debug)]
pub(super) struct Gap {
    /// Name of the check.
    pub(super) check: &'static str,
    pub(super) found: String,
    pub(super) mend: String,
}

/// Everything that is missing, or only what agents lack that a person sees. `env:` references are looked up where agents
/// run: in the daemon if one runs.
pub(super) fn missing(
    paths: &Paths,
    db: &Tables,
    txn: &Read<'_>,
    daemon: Option<&DaemonStatus>,
    rank: &Rank,
) -> Result<Vec<Gap>, state::Error> {
    let all = *rank == Rank::Everything;
    let mut agents = Vec::new();
    for row in db.agents.iter(txn)? {
        let (_, agent) = row?;
        if agent.archived.is_none() && rank.sees(agent.folder.as_str()) {
            agents.push(agent);
        }
    }
    let runtime = db.settings.get(txn, &())?.unwrap_or_default().runtime;
    let mut used = references(db, txn)?;
    used.retain(|one| match &one.user {
        ReferenceUser::Agent(folder) => rank.sees(folder.as_str()),
        ReferenceUser::Secret(_) | ReferenceUser::Channel(_) | ReferenceUser::Voice(_) => all,
    });
    let mut gaps = Vec::new();
    if all {
        gaps.extend(owner(db, txn)?);
        gaps.extend(provider(&agents));
    }
    gaps.extend(secrets(&used, &unset(db, txn, daemon)?, daemon));
    gaps.extend(agents.iter().filter_map(|agent| login(paths, agent)));
    if all {
        gaps.extend(podman(runtime, daemon));
    }
    Ok(gaps)
}

/// Names of variables that are not set where agents run: in the daemon if one runs, else here.
pub(super) fn unset(db: &Tables, txn: &Read<'_>, daemon: Option<&DaemonStatus>) -> Result<Vec<String>, state::Error> {
    match daemon {
        Some(daemon) => Ok(daemon.unset_variables.clone().unwrap_or_default()),
        None => unset_variables(db, txn),
    }
}

fn owner(db: &Tables, txn: &Read<'_>) -> Result<Option<Gap>, state::Error> {
    Ok(setup::owners(db, txn)?.is_empty().then(|| Gap {
        check: "owner",
        found: "there is no owner: Hearth cannot report problems to anyone".to_owned(),
        mend: "`hearth roles grant CHANNEL:ID owner`, or `hearth up` on this machine".to_owned(),
    }))
}

fn provider(agents: &[Agent]) -> Option<Gap> {
    let echoes = agents.iter().all(|agent| agent.settings.provider == ProviderKind::Echo);
    (echoes && !agents.is_empty()).then(|| Gap {
        check: "provider",
        found: "every agent has the provider echo, which only repeats what people write".to_owned(),
        mend: "`hearth setup` sets up a model".to_owned(),
    })
}

/// References to files and variables that do not exist, each once. A running daemon reports those of channels itself.
fn secrets(references: &[SecretReference], unset: &[String], daemon: Option<&DaemonStatus>) -> Vec<Gap> {
    let counts = |one: &&SecretReference| daemon.is_none() || !matches!(one.user, ReferenceUser::Channel(_));
    let mut users: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for one in references.iter().filter(counts) {
        users.entry(&one.reference).or_default().push(one.user.to_string());
    }
    let mut gaps = Vec::new();
    for (reference, mut users) in users {
        let Some((why, mend)) = absent(reference, unset, daemon) else { continue };
        users.dedup();
        gaps.push(Gap { check: "secret", found: format!("{reference} of {}: {why}", users.join(", ")), mend });
    }
    gaps
}

/// Why a reference cannot have a value, and the fix. Commands are not run.
pub(super) fn absent(reference: &str, unset: &[String], daemon: Option<&DaemonStatus>) -> Option<(String, String)> {
    match reference.split_once(':') {
        Some(("env", name)) if unset.iter().any(|one| one == name) => Some(match daemon {
            Some(_) => (
                "the daemon's environment has no such variable".to_owned(),
                format!("set {name} in the daemon's environment, and restart the daemon"),
            ),
            None => (
                "the variable is not set here, and no daemon runs that could have it".to_owned(),
                format!("set {name} where the daemon is started"),
            ),
        }),
        Some(("file", path)) => {
            let why = unusable(Path::new(path))?;
            Some((why, format!("write the secret to {path}, or correct the reference")))
        }
        _ => None,
    }
}

fn unusable(path: &Path) -> Option<String> {
    if !path.is_absolute() {
        return Some("the path is not absolute".to_owned());
    }
    match std::fs::metadata(path) {
        Ok(file) if file.is_file() => None,
        Ok(_) => Some("it is not a regular file".to_owned()),
        Err(error) if error.kind() == ErrorKind::NotFound => Some("the file does not exist".to_owned()),
        Err(error) => Some(format!("the file cannot be read: {error}")),
    }
}

/// The switches by which the agent CLI logs in to a cloud instead, with the cloud's own variables.
const CLOUDS: [&str; 3] = ["CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"];

/// An agent with the provider claude that has neither a key nor a login. Another program may have its own.
fn login(paths: &Paths, agent: &Agent) -> Option<Gap> {
    let settings = &agent.settings;
    if settings.provider != ProviderKind::Claude || !runs_claude(settings) || has_login(settings) {
        return None;
    }
    let folder = &agent.folder;
    if paths.home(folder).join(".claude/.credentials.json").exists() {
        return None;
    }
    Some(Gap {
        check: "login",
        found: format!("agent {folder} has no key and no login for claude"),
        mend: format!("`hearth setup --agent {folder}` asks for a key, and tries it"),
    })
}

fn runs_claude(settings: &AgentSettings) -> bool {
    settings.command.first().is_none_or(|program| Path::new(program).file_name().is_some_and(|name| name == "claude"))
}

fn has_login(settings: &AgentSettings) -> bool {
    let names = Credential::ALL.map(Credential::variable);
    let is_set = |value: &EnvValue| !matches!(value, EnvValue::Plain(text) if text.trim().is_empty());
    settings
        .env
        .iter()
        .any(|(name, value)| is_set(value) && (names.contains(&name.as_str()) || CLOUDS.contains(&name.as_str())))
}

/// Podman that is installed and whose socket is off, unless agents run as processes by choice, or in
/// containers already.
fn podman(runtime: Option<RuntimeKind>, daemon: Option<&DaemonStatus>) -> Option<Gap> {
    let contained = daemon.is_some_and(|daemon| daemon.runtime == RuntimeKind::Podman.as_str());
    let asked = daemon.is_some_and(|daemon| daemon.runtime_asked);
    if runtime == Some(RuntimeKind::Process) || asked || contained || !on_path("podman") {
        return None;
    }
    let why = image::Engine::find().err()?;
    Some(Gap { check: "podman", found: SOCKET_OFF.to_owned(), mend: socket_mend(&why) })
}

/// The problem if Podman is installed but does not answer.
pub(super) const SOCKET_OFF: &str = "Podman is installed but does not answer: agents cannot run in containers";

/// The fix for it.
pub(super) fn socket_mend(why: &impl std::fmt::Display) -> String {
    format!("{why}; then restart the daemon. Or set `runtime = \"process\"` to use no containers")
}

/// Whether a program is on the search path.
pub(super) fn on_path(name: &str) -> bool {
    std::env::split_paths(&env::child_path()).any(|dir| is_program(&dir.join(name)))
}

/// Whether a file can be run.
pub(super) fn is_program(path: &Path) -> bool {
    path.is_file() && std::fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o111 != 0)
}
