//! Agent images: which ones an installation needs, how they are built, and whether they are current.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::clock::Clock;
use crate::model::entity::AgentSettings;
pub use crate::runtime::image::OWN;
use crate::runtime::image::image_of;
use crate::runtime::podman::build::runner::{self, Machine};
use crate::runtime::podman::build::{AgentImage, BaseImage, Watch, base_digest};
pub use crate::runtime::podman::build::{Engine, Error, Image, Options};
pub use crate::runtime::podman::{Info, Unusable};

/// Time limit of a build. A build that waits for the network takes the whole time.
const BUILD: Duration = Duration::from_mins(15);
/// Time limit of any other Podman call.
const ANSWER: Duration = Duration::from_secs(30);
/// File name of the runner, the program inside agents' containers.
const RUNNER: &str = "hearth-runner";

/// Receives the progress of a build.
pub trait Progress {
    /// The build of an image begins.
    fn begin(&self, image: &str);

    /// A line of Podman's output, not sanitized.
    fn said(&self, line: &str);

    /// Whether the build is cancelled.
    fn is_over(&self) -> bool {
        false
    }
}

/// Options for the base image, from which all agents can be started.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// A statically linked runner; none means that Hearth searches for one.
    pub runner: Option<PathBuf>,
    /// Other build options.
    pub options: Options,
}

/// An agent, as far as its image is concerned.
#[derive(Debug, Clone, Copy)]
pub struct Agent<'a> {
    pub install: &'a str,
    pub folder: &'a str,
    /// Settings of the agent, including its packages.
    pub settings: &'a AgentSettings,
    /// Image that is configured for the installation.
    pub configured: Option<&'a str>,
}

/// An image that was built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    pub image: String,
    pub id: String,
    /// How long it took.
    pub took: Duration,
    /// Its size, including layers shared with other images.
    pub bytes: u64,
}

/// Whether an image equals one that would be built now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// The image is current.
    Current,
    /// The image has other contents or an older base.
    Outdated,
    /// The image is needed but does not exist.
    Missing,
    /// No agent uses it any more.
    Unused,
    /// No runner is available here for the comparison.
    Unknown,
}

impl Freshness {
    /// For people and programs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Outdated => "outdated",
            Self::Missing => "missing",
            Self::Unused => "unused",
            Self::Unknown => "unknown",
        }
    }
}

/// An image, or the lack of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub name: String,
    /// Folder of the agent that it is for; none for the base.
    pub agent: Option<String>,
    /// None if it is missing.
    pub image: Option<Image>,
    /// Whether it is current.
    pub freshness: Freshness,
}

/// Builds the image that all agents can be started from.
///
/// # Errors
/// [`Error`]; nothing has changed then.
pub fn build_base(engine: &Engine, wanted: &Wanted, progress: &dyn Progress) -> Result<Built, Error> {
    let machine = machine(engine)?;
    let base = BaseImage { runner: find_runner(wanted.runner.as_deref(), machine)?, options: wanted.options.clone() };
    timed(engine, OWN, progress, |watch| engine.build_base(&base, watch))
}

/// The options with which these images were built, as recorded in the base image: the configured one or Hearth's own.
#[must_use]
pub fn remembered(images: &[Image], configured: Option<&str>) -> Options {
    let named = |name: &str| images.iter().find(|image| image.names.iter().any(|known| known == name));
    let found = configured.and_then(named).or_else(|| named(OWN));
    found.map(|image| image.options.clone()).unwrap_or_default()
}

/// Builds the image of an agent with packages. Incarnations that run keep theirs.
///
/// # Errors
/// [`Error`]; nothing has changed then.
pub fn build_for(
    engine: &Engine,
    agent: &Agent<'_>,
    options: &Options,
    progress: &dyn Progress,
) -> Result<Built, Error> {
    let name = agent.image();
    let wanted = AgentImage {
        image: &name,
        base: agent.configured.unwrap_or(OWN),
        install: agent.install,
        folder: agent.folder,
        packages: &agent.settings.packages,
    };
    timed(engine, &name, progress, |watch| engine.build_agent(&wanted, options, watch))
}

/// The images that these agents need, and those that are no longer used.
///
/// # Errors
/// [`Error`] if Podman cannot be asked.
pub fn list(engine: &Engine, install: &str, agents: &[Agent<'_>]) -> Result<Vec<Listed>, Error> {
    let quiet = Limit::quiet();
    let images = engine.images(&quiet)?;
    let runner = machine(engine).and_then(|machine| find_runner(None, machine)).ok();
    let with = remembered(&images, None).with;
    let expected = runner.and_then(|runner| base_digest(&runner, &with).ok());
    let mut wanted: Vec<(String, Option<String>)> = vec![(OWN.to_owned(), None)];
    let own = agents.iter().filter(|agent| agent.needs_own());
    wanted.extend(own.map(|agent| (agent.image(), Some(agent.folder.to_owned()))));
    let mut listed: Vec<Listed> = wanted
        .into_iter()
        .map(|(name, agent)| {
            let image = images.iter().find(|image| image.names.contains(&name)).cloned();
            let freshness = freshness(image.as_ref(), agent.is_some(), &images, expected.as_deref());
            Listed { name, agent, image, freshness }
        })
        .collect();
    for image in images {
        let ours = image.agent.as_ref().is_none_or(|(_, of)| of == install);
        let known = listed.iter().any(|one| one.image.as_ref().is_some_and(|known| known.id == image.id));
        if let (true, false, Some(name)) = (ours, known, image.names.first().cloned()) {
            let agent = image.agent.as_ref().map(|(folder, _)| folder.clone());
            listed.push(Listed { name, agent, image: Some(image), freshness: Freshness::Unused });
        }
    }
    Ok(listed)
}

/// Podman's description of itself.
///
/// # Errors
///
/// [`Error`] if it does not answer.
pub fn info(engine: &Engine) -> Result<Info, Error> {
    engine.info(&Limit::quiet())
}

impl Agent<'_> {
    /// Whether the agent has packages and so needs an image of its own.
    #[must_use]
    pub const fn needs_own(&self) -> bool {
        !self.settings.packages.apt.is_empty() || !self.settings.packages.npm.is_empty()
    }

    /// Name of its image.
    #[must_use]
    pub fn image(&self) -> String {
        image_of(self.install, self.folder, self.settings, self.configured)
    }
}

fn freshness(image: Option<&Image>, own: bool, images: &[Image], expected: Option<&str>) -> Freshness {
    let Some(image) = image else { return Freshness::Missing };
    let base = images.iter().find(|image| image.names.iter().any(|name| name == OWN));
    let expected = if own { base.and_then(|base| base.digest.as_deref()) } else { expected };
    match (image.digest.as_deref(), expected) {
        // Built on an image that is not Hearth's, so its contents are unknown.
        (None, _) | (_, None) => Freshness::Unknown,
        (Some(is), Some(should)) if is == should => Freshness::Current,
        (Some(_), Some(_)) => Freshness::Outdated,
    }
}

fn timed(
    engine: &Engine,
    name: &str,
    progress: &dyn Progress,
    build: impl FnOnce(&dyn Watch) -> Result<String, Error>,
) -> Result<Built, Error> {
    progress.begin(name);
    let watch = Limit::new(BUILD, Some(progress));
    let id = build(&watch)?;
    let took = watch.passed();
    let bytes = engine.images(&Limit::quiet())?.into_iter().find(|image| image.id == id).map_or(0, |image| image.bytes);
    Ok(Built { image: name.to_owned(), id, took, bytes })
}

/// The processor that containers run on.
fn machine(engine: &Engine) -> Result<Machine, Error> {
    let info = info(engine)?;
    let what = "its processor is neither amd64 nor arm64, and there is no agents' image for another one";
    info.machine().ok_or_else(|| Error::Unclear { socket: engine.socket().clone(), what })
}

/// The runner for an image: the given one, or the first candidate that fits.
fn find_runner(given: Option<&Path>, machine: Machine) -> Result<PathBuf, Error> {
    if let Some(path) = given {
        let path = path.to_owned();
        return match runner::check(&path, machine) {
            Ok(()) => Ok(path),
            Err(problem) => Err(Error::Runner { path, problem }),
        };
    }
    let program = std::env::current_exe().unwrap_or_default();
    first_runner(candidates(&program, machine), machine)
}

/// The first of these files that is a runner for this processor.
fn first_runner(candidates: Vec<PathBuf>, machine: Machine) -> Result<PathBuf, Error> {
    let mut tried = Vec::new();
    for path in candidates {
        match runner::check(&path, machine) {
            Ok(()) => return Ok(path),
            Err(problem) => tried.push(format!("{} ({problem})", path.display())),
        }
    }
    Err(Error::NoRunner { tried: tried.join(", ") })
}

/// Candidate paths of the runner: where packages and `install.sh` put it (`<prefix>/lib/hearth/` for
/// `<prefix>/bin/hearth`), beside this program, and the output path of `cargo runner` if this program runs from its build
/// directory (`target/<profile>/hearth`, or one directory deeper in tests).
fn candidates(program: &Path, machine: Machine) -> Vec<PathBuf> {
    let installed = program.ancestors().nth(2).map(|prefix| prefix.join("lib/hearth").join(RUNNER));
    let beside = program.parent().map(|dir| dir.join(RUNNER));
    let built = format!("{machine}-unknown-linux-gnu/release/{RUNNER}");
    let above = program.ancestors().skip(2).take(2).map(|dir| dir.join(&built));
    installed.into_iter().chain(beside).chain(above).collect()
}

/// Time limit for a Podman call.
pub struct Limit<'a> {
    clock: Clock,
    most: Duration,
    progress: Option<&'a dyn Progress>,
}

impl<'a> Limit<'a> {
    fn new(most: Duration, progress: Option<&'a dyn Progress>) -> Self {
        Self { clock: Clock::start(0), most, progress }
    }

    /// A limit for short calls, without progress.
    #[must_use]
    pub fn quiet() -> Self {
        Self::new(ANSWER, None)
    }

    fn passed(&self) -> Duration {
        Duration::from_millis(self.clock.now().awake.ms())
    }
}

impl Watch for Limit<'_> {
    fn said(&self, line: &str) {
        if let Some(progress) = self.progress {
            progress.said(line);
        }
    }

    fn expired(&self) -> bool {
        self.passed() > self.most || self.progress.is_some_and(Progress::is_over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(name: &str, digest: Option<&str>) -> Image {
        let names = vec![name.to_owned()];
        let digest = digest.map(str::to_owned);
        Image {
            names,
            id: name.to_owned(),
            bytes: 1,
            created: 0,
            version: None,
            digest,
            agent: None,
            options: Options::default(),
        }
    }

    #[test]
    fn an_image_is_current_if_it_is_made_of_the_same() {
        let images = [image(OWN, Some("a")), image("own", Some("a")), image("old", Some("b")), image("x", None)];
        let [base, own, old, foreign] = &images;
        for (image, is_own, expected, result) in [
            (None, false, Some("a"), Freshness::Missing),
            (Some(base), false, Some("a"), Freshness::Current),
            (Some(base), false, Some("b"), Freshness::Outdated),
            (Some(base), false, None, Freshness::Unknown),
            (Some(own), true, None, Freshness::Current),
            (Some(old), true, Some("b"), Freshness::Outdated),
            (Some(foreign), true, Some("a"), Freshness::Unknown),
        ] {
            assert_eq!(freshness(image, is_own, &images, expected), result, "{image:?} {expected:?}");
        }
    }

    #[test]
    fn a_runner_is_found_where_packages_put_it_beside_the_program_and_where_cargo_leaves_it() {
        for (program, runner) in [
            ("/usr/bin/hearth", "/usr/lib/hearth/hearth-runner"),
            ("/opt/hearth/hearth", "/opt/hearth/hearth-runner"),
            ("/src/target/debug/hearth", "/src/target/x86_64-unknown-linux-gnu/release/hearth-runner"),
            ("/src/target/debug/deps/it", "/src/target/x86_64-unknown-linux-gnu/release/hearth-runner"),
        ] {
            let looked = candidates(Path::new(program), Machine::X86_64);
            assert!(looked.iter().any(|path| path == Path::new(runner)), "{program}: {looked:?}");
        }
    }

    #[test]
    fn without_a_runner_the_one_missing_command_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("bin/hearth");
        let refused = first_runner(candidates(&program, Machine::X86_64), Machine::X86_64).unwrap_err().to_string();
        assert!(refused.contains("run `./install.sh --from-source` in Hearth's source"), "{refused}");
        assert!(refused.contains(dir.path().join("lib/hearth/hearth-runner").to_str().unwrap()), "{refused}");
    }
}
