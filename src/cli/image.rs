//! `hearth image build` and `hearth image list`: images for agents.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;

use super::entity::no_agent;
use super::listed::{self, Column, Listed, or_empty};
use super::progress::Building;
use super::{Done, Failure, configuration, human_size, human_time, print};
use crate::config::Paths;
use crate::daemon::image::{self, Agent, Built, Engine, Freshness, Limit, Options, Wanted};
use crate::model::configure::RuntimeKind;
use crate::model::entity::{AgentSettings, Folder, Preset};
use crate::model::time::Timestamp;
use crate::state::{self, Reader};

#[derive(Debug, Subcommand)]
pub(super) enum ImageCommand {
    /// Build the image that agents run in, and the images of agents with packages
    Build(BuildArgs),
    /// List Hearth's images and whether each is up to date
    List,
}

#[derive(Debug, Default, Args)]
#[command(
    after_help = "Needs Podman and its socket, a statically linked runner (packages and `./install.sh --from-source` install one), and a network to fetch packages and the agent CLI. Steps that did not change are taken from Podman's cache.
--base, --cli, --registry, --trust and --with are stored with the image and used by later builds, including the daemon's; --forget ignores them.
A build that fails, is interrupted or takes longer than 15 minutes does not change existing images."
)]
pub(super) struct BuildArgs {
    /// Only the images of these agents [default: the base, and of every agent with packages]
    agents: Vec<String>,
    /// Image to build on [default: a pinned Debian]
    #[arg(long, value_name = "NAME")]
    base: Option<String>,
    /// Statically linked runner [default: the one installed with this program, or built by `cargo runner`]
    #[arg(long, value_name = "FILE")]
    runner: Option<PathBuf>,
    /// Use this unpacked agent CLI (directory or program) instead of fetching it
    #[arg(long, value_name = "PATH")]
    cli: Option<PathBuf>,
    /// Registry of npm packages [default: the public one]
    #[arg(long, value_name = "URL")]
    registry: Option<String>,
    /// Certificates to trust while fetching, for proxies that intercept TLS; they are not kept in the image
    #[arg(long, value_name = "FILE")]
    trust: Option<PathBuf>,
    /// Known agents to install as well, such as `opencode,codex`
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = known_agent)]
    with: Vec<Preset>,
    /// Do not reuse the options of the last build
    #[arg(long)]
    forget: bool,
    /// Build without the cache, to pick up the distribution's updates
    #[arg(long)]
    fresh: bool,
}

impl BuildArgs {
    /// Whether the base is meant as well.
    const fn says_of_base(&self) -> bool {
        self.agents.is_empty()
            || self.base.is_some()
            || self.runner.is_some()
            || self.cli.is_some()
            || !self.with.is_empty()
            || self.forget
    }

    /// The build options from the flags.
    fn options(&self) -> Options {
        Options {
            base: self.base.clone(),
            cli: self.cli.clone(),
            registry: self.registry.clone(),
            trust: self.trust.clone(),
            with: self.with.clone(),
            fresh: self.fresh,
        }
    }
}

fn known_agent(name: &str) -> Result<Preset, String> {
    Preset::named(name).ok_or_else(|| {
        let names = Preset::ALL.map(|preset| preset.about().name).join(", ");
        format!("Hearth does not know this agent; it knows {names}")
    })
}

/// The answer of `hearth image build --json`.
#[derive(Debug, Serialize)]
struct BuiltAnswer {
    images: Vec<BuiltImage>,
}

#[derive(Debug, Serialize)]
pub(super) struct BuiltImage {
    image: String,
    /// Folder of the agent; null for the base.
    agent: Option<String>,
    id: String,
    seconds: f64,
    bytes: u64,
}

/// An image that Hearth built or needs.
#[derive(Debug, Serialize)]
struct ListedImage {
    image: String,
    agent: Option<String>,
    /// `current`, `outdated`, `missing`, `unused` or `unknown`.
    state: &'static str,
    /// Null for a missing one, as are the following fields.
    id: Option<String>,
    version: Option<String>,
    created: Option<String>,
    bytes: Option<u64>,
}

impl Listed for ListedImage {
    const PLURAL: &'static str = "images";
    const COLUMNS: &'static [Column<Self>] = &[
        ("IMAGE", |one| one.image.clone()),
        ("AGENT", |one| or_empty(one.agent.as_ref())),
        ("VERSION", |one| or_empty(one.version.as_ref())),
        ("SIZE", |one| one.bytes.map(human_size::decimal).unwrap_or_default()),
        ("CREATED", |one| one.created.as_deref().map(human_time::age).unwrap_or_default()),
        ("STATE", |one| one.state.to_owned()),
    ];
}

/// Settings of the store that concern images.
pub(super) struct ImageSettings {
    install: String,
    configured: Option<String>,
    runtime: Option<RuntimeKind>,
    agents: Vec<(Folder, AgentSettings)>,
}

/// Does what was asked.
pub(super) fn image(paths: &Paths, command: &ImageCommand, json: bool) -> Done {
    match command {
        ImageCommand::Build(args) => build(paths, args, json),
        ImageCommand::List => list(paths, json),
    }
}

impl ImageSettings {
    /// Reads the settings. Without a store, only the base image is needed.
    pub(super) fn read(paths: &Paths) -> Result<Self, Failure> {
        let known = configuration::read(paths)?;
        let install = match Reader::open(paths.data()) {
            Ok(reader) => reader.read(|db, txn| db.meta.get(txn, &()))?.map(|meta| format!("{:016x}", meta.install)),
            Err(state::Error::NoStore { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let agents = known.agents.into_iter().map(|agent| (agent.folder, agent.settings)).collect();
        let settings = known.settings.unwrap_or_default();
        let (configured, runtime) = (settings.image, settings.runtime);
        Ok(Self { install: install.unwrap_or_default(), configured, runtime, agents })
    }

    pub(super) fn install(&self) -> &str {
        &self.install
    }

    /// Image that is configured for the installation.
    pub(super) fn configured(&self) -> Option<&str> {
        self.configured.as_deref()
    }

    /// The configured runtime; none means the best available one.
    pub(super) const fn runtime(&self) -> Option<RuntimeKind> {
        self.runtime
    }

    pub(super) fn agents(&self) -> Vec<Agent<'_>> {
        let agent = |(folder, settings)| self.agent(folder, settings);
        self.agents.iter().map(|(folder, settings)| agent((folder, settings))).collect()
    }

    fn agent<'a>(&'a self, folder: &'a Folder, settings: &'a AgentSettings) -> Agent<'a> {
        Agent { install: &self.install, folder: folder.as_str(), settings, configured: self.configured.as_deref() }
    }

    /// The agents whose images are to be built. Unknown names are reported before the first build.
    fn chosen(&self, names: &[String]) -> Result<Vec<Agent<'_>>, Failure> {
        let agents = self.agents();
        if names.is_empty() {
            return Ok(agents.into_iter().filter(Agent::needs_own).collect());
        }
        let choose = |name: &String| match agents.iter().find(|agent| agent.folder == name) {
            Some(agent) if agent.needs_own() => Ok(*agent),
            Some(_) => Err(Failure::Failed(format!(
                "agent {name} has no packages and uses the image {}; add some with `packages` in hearth.toml",
                image::OWN
            ))),
            None => Err(no_agent(name)),
        };
        names.iter().map(choose).collect()
    }
}

/// `hearth image build` without options.
pub(super) fn build_all(paths: &Paths) -> Done {
    build(paths, &BuildArgs::default(), false)
}

fn build(paths: &Paths, args: &BuildArgs, json: bool) -> Done {
    let wishes = ImageSettings::read(paths)?;
    let chosen = wishes.chosen(&args.agents)?;
    let engine = Engine::find()?;
    let said = args.options();
    let options = if args.forget { said } else { said.or(remembered(&engine, &wishes)?) };
    let wanted = Wanted { runner: args.runner.clone(), options: options.clone() };
    let progress = Building::new();
    let mut images = Vec::new();
    if args.says_of_base() || wants_base(&engine, &wishes)? {
        images.push(shape(image::build_base(&engine, &wanted, &progress)?, None));
    }
    for agent in chosen {
        let built = image::build_for(&engine, &agent, &options, &progress)?;
        images.push(shape(built, Some(agent.folder)));
    }
    drop(progress);
    if json {
        return print::json(&BuiltAnswer { images });
    }
    print(&images)
}

/// A line for each image that was built.
pub(super) fn print(images: &[BuiltImage]) -> Done {
    images.iter().try_for_each(|built| {
        let short = built.id.get(..12).unwrap_or(&built.id);
        print::line(&format!("{}: {short}, {}, {:.1} s", built.image, human_size::decimal(built.bytes), built.seconds))
    })
}

/// Builds the image of an agent: its own one if it has packages, after an outdated base; otherwise the base.
pub(super) fn rebuild(paths: &Paths, folder: &str) -> Result<Vec<BuiltImage>, Failure> {
    let wishes = ImageSettings::read(paths)?;
    let agents = wishes.agents();
    let Some(agent) = agents.iter().find(|agent| agent.folder == folder) else {
        return Err(no_agent(folder));
    };
    if let (false, Some(image)) = (agent.needs_own(), wishes.configured()) {
        return Err(Failure::Failed(format!(
            "agent {folder} uses the image {image}, which Hearth does not build: build it, and restart without --rebuild"
        )));
    }
    let engine = Engine::find()?;
    let options = remembered(&engine, &wishes)?;
    let progress = Building::new();
    let mut images = Vec::new();
    if !agent.needs_own() || wants_base(&engine, &wishes)? {
        let wanted = Wanted { runner: None, options: options.clone() };
        images.push(shape(image::build_base(&engine, &wanted, &progress)?, None));
    }
    if agent.needs_own() {
        images.push(shape(image::build_for(&engine, agent, &options, &progress)?, Some(folder)));
    }
    Ok(images)
}

/// The options that the existing images were built with.
fn remembered(engine: &Engine, wishes: &ImageSettings) -> Result<Options, Failure> {
    Ok(image::remembered(&engine.images(&Limit::quiet())?, wishes.configured()))
}

/// Whether the base for agents' images is missing or outdated.
fn wants_base(engine: &Engine, wishes: &ImageSettings) -> Result<bool, Failure> {
    if wishes.configured().is_some() {
        return Ok(false);
    }
    let listed = image::list(engine, wishes.install(), &[])?;
    Ok(listed.iter().any(|one| matches!(one.freshness, Freshness::Missing | Freshness::Outdated)))
}

fn shape(built: Built, agent: Option<&str>) -> BuiltImage {
    let agent = agent.map(str::to_owned);
    let seconds = built.took.as_secs_f64();
    BuiltImage { image: built.image, agent, id: built.id, seconds, bytes: built.bytes }
}

fn list(paths: &Paths, json: bool) -> Done {
    let wishes = ImageSettings::read(paths)?;
    let engine = Engine::find()?;
    let found = image::list(&engine, wishes.install(), &wishes.agents())?;
    let images: Vec<ListedImage> = found.into_iter().map(listed_shape).collect();
    let missing = images.iter().any(|one| one.state == Freshness::Missing.as_str());
    listed::list(&images, json, "no images")?;
    if missing && !json {
        print::note("run `hearth image build` to build the missing images");
    }
    Ok(())
}

fn listed_shape(listed: image::Listed) -> ListedImage {
    let created = |image: &image::Image| Timestamp::from_millis(image.created.saturating_mul(1_000)).to_string();
    ListedImage {
        state: listed.freshness.as_str(),
        agent: listed.agent,
        id: listed.image.as_ref().map(|image| image.id.clone()),
        version: listed.image.as_ref().and_then(|image| image.version.clone()),
        created: listed.image.as_ref().map(created),
        bytes: listed.image.as_ref().map(|image| image.bytes),
        image: listed.name,
    }
}
