//! Chooses the runtime for the agents of this daemon, once at its start.

use std::path::PathBuf;
use std::sync::Arc;

use super::Error;
use super::image::Limit;
use crate::config::{Paths, env, seams};
use crate::model::configure::{RuntimeKind, Settings};
use crate::runtime::image::base_of;
use crate::runtime::podman::{self, PodmanRuntime, build};
use crate::runtime::process::{Lacking, Lookup, ProcessRuntime, Sandbox, Setup};
use crate::runtime::{Events, Runtime};

/// Inputs of the choice.
#[derive(Debug)]
pub(super) struct RuntimeContext<'a> {
    /// Paths of the data directory.
    pub(super) paths: &'a Paths,
    /// Name of the installation.
    pub(super) install: &'a str,
    /// Settings of the installation.
    pub(super) settings: &'a Settings,
    /// Runtime requested by the command that started the daemon.
    pub(super) asked: Option<RuntimeKind>,
}

/// The runtime of this daemon.
pub(super) struct Chosen {
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) choice: RuntimeChoice,
}

/// How the runtime of a daemon was chosen.
#[derive(Debug)]
pub(super) struct RuntimeChoice {
    /// Why this one, to be read after "because".
    pub(super) why: String,
    /// The configured runtime at that time; none for the best available one.
    pub(super) configured: Option<RuntimeKind>,
    /// Whether the command that started the daemon asked for it.
    pub(super) asked: bool,
}

/// Starts the requested runtime, or else the best available one.
///
/// # Errors
/// [`Error::NoContainers`] if containers were requested but are not available. There is no fallback.
pub(super) fn choose(context: &RuntimeContext<'_>, events: Events) -> Result<Chosen, Error> {
    let (kind, why) = decide(context.asked, context.settings.runtime, || containers(context.settings))?;
    if let (RuntimeKind::Process, None, Some(image)) = (kind, context.asked, unused_image(context.settings)) {
        tracing::warn!(image, "agents run as processes although an image is configured");
    }
    let runtime = match kind {
        RuntimeKind::Process => process(context.paths, events)?,
        RuntimeKind::Podman => containers_of(context, events)?,
    };
    let choice = RuntimeChoice { why, configured: context.settings.runtime, asked: context.asked.is_some() };
    Ok(Chosen { runtime, choice })
}

/// The runtime that a daemon would choose now without a request, and why.
///
/// # Errors
/// As a start would fail.
pub fn rehearse(settings: &Settings) -> Result<(RuntimeKind, String), Error> {
    decide(None, settings.runtime, || containers(settings))
}

/// The image that is configured for containers, if processes may be used instead.
#[must_use]
pub fn unused_image(settings: &Settings) -> Option<&str> {
    settings.image.as_deref().filter(|_| settings.runtime.is_none())
}

/// Whether containers are available: a text with socket and image, or why not, to be read after "because".
fn containers(settings: &Settings) -> Result<String, String> {
    let found = build::Engine::find().map_err(build::Error::from);
    let asked = found.and_then(|engine| Ok((engine.info(&Limit::quiet())?, engine)));
    let (usable, engine) = asked.map_err(|error| error.to_string())?;
    let image = base_of(settings.image.as_deref());
    match engine.has_image(image, &Limit::quiet()) {
        Ok(true) => Ok(format!("{usable} has the image {image}")),
        Ok(false) if settings.image.is_some() => {
            Err(format!("{usable} has no image {image}, which the setting `image` names"))
        }
        Ok(false) => Err(format!("{usable} has no image {image}, which `hearth image build` makes")),
        Err(error) => Err(error.to_string()),
    }
}

fn containers_of(context: &RuntimeContext<'_>, events: Events) -> Result<Arc<dyn Runtime>, Error> {
    let (filter, secrets) = (context.paths.seccomp(), context.paths.secrets());
    let setup = podman::Setup { install: context.install.to_owned(), lookup: lookup(), filter, secrets };
    Ok(Arc::new(PodmanRuntime::start(setup, events)?))
}

pub(super) fn lookup() -> Lookup {
    Arc::new(|name: &str| env::env_lookup(name).map(std::ffi::OsString::from))
}

fn process(paths: &Paths, events: Events) -> Result<Arc<dyn Runtime>, Error> {
    Ok(Arc::new(ProcessRuntime::start(process_setup(paths, paths.run().join("locks"))?, events)?))
}

/// How agents run as processes here.
pub(super) fn process_setup(paths: &Paths, locks: PathBuf) -> Result<Setup, Error> {
    let other = seams::runner();
    let program = other.clone().map_or_else(this_program, Ok)?;
    let setup = Setup::new(program, env::child_path(), locks, lookup());
    let mut setup = setup.guarding(guarded(paths));
    if other.is_some() {
        // Set by a test that accesses files outside the sandbox.
        setup.sandbox = Arc::new(Sandbox::Limited { lacking: Lacking::Program }.into());
    }
    Ok(setup)
}

/// The sandbox for agents that run as processes here. Takes some milliseconds.
#[must_use]
pub fn sandbox(paths: &Paths) -> Sandbox {
    Sandbox::find(&env::child_path(), &guarded(paths))
}

/// Directories that confined agents must not see along with the system's programs.
pub(super) fn guarded(paths: &Paths) -> Vec<PathBuf> {
    let home = env::env_lookup("HOME").map(PathBuf::from);
    let home = home.map(|home| home.canonicalize().unwrap_or(home));
    [Some(paths.data().to_owned()), home].into_iter().flatten().collect()
}

/// Path of this program, valid even after an upgrade replaced its file.
pub(super) fn this_program() -> Result<PathBuf, Error> {
    let own = PathBuf::from("/proc/self/exe");
    if own.exists() {
        return Ok(own);
    }
    std::env::current_exe().map_err(|source| Error::Io { path: "this program".into(), source })
}

fn decide(
    asked: Option<RuntimeKind>,
    setting: Option<RuntimeKind>,
    containers: impl FnOnce() -> Result<String, String>,
) -> Result<(RuntimeKind, String), Error> {
    let by = if asked.is_some() { "--runtime" } else { "hearth.toml" };
    match asked.or(setting) {
        Some(RuntimeKind::Process) => Ok((RuntimeKind::Process, format!("{by} asks for it"))),
        Some(RuntimeKind::Podman) => match containers() {
            Ok(found) => Ok((RuntimeKind::Podman, format!("{by} asks for it, and {found}"))),
            Err(why) => Err(Error::NoContainers { asked: by, why }),
        },
        None => Ok(match containers() {
            Ok(found) => (RuntimeKind::Podman, found),
            Err(why) => (RuntimeKind::Process, why),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_taken_and_nothing_instead_of_it() {
        use RuntimeKind::{Podman, Process};
        let there = || Ok("Podman answers".to_owned());
        let away = || Err("there is no socket".to_owned());
        for (asked, setting, containers, expected) in [
            (None, None, true, "podman: Podman answers"),
            (None, None, false, "process: there is no socket"),
            (None, Some(Process), true, "process: hearth.toml asks for it"),
            (Some(Process), Some(Podman), false, "process: --runtime asks for it"),
            (Some(Podman), Some(Process), true, "podman: --runtime asks for it, and Podman answers"),
            (None, Some(Podman), true, "podman: hearth.toml asks for it, and Podman answers"),
        ] {
            let found = decide(asked, setting, || if containers { there() } else { away() });
            let (kind, why) = found.unwrap();
            assert_eq!(format!("{}: {why}", kind.as_str()), expected);
        }
        for (asked, setting, by) in [(Some(Podman), None, "--runtime"), (None, Some(Podman), "hearth.toml")] {
            let refused = decide(asked, setting, away).unwrap_err().to_string();
            let begin = format!("{by} asks for containers, which are not available, because there is no socket");
            assert!(refused.starts_with(&begin) && refused.contains("runtime process"), "{refused}");
        }
    }
}
