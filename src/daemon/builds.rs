//! Builds missing images for agents with packages, one at a time. Missing images are found by comparing the tables with
//! Podman's list of images, so an interrupted build is repeated.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Error;
use super::engine_thread::{Inbox, Item};
use super::image::{self, Agent, Limit, Progress};
use super::stop::Stop;
use super::worker;
use crate::clock::Clock;
use crate::engine::commit::Engine;
use crate::model::backoff::Backoff;
use crate::model::entity::{self, Folder};
use crate::model::id::AgentId;
use crate::model::input::Input;
use crate::model::time::{Awake, Millis};
use crate::runtime::Runtime;
use crate::state;

/// Interval for reading the store.
const LOOK: Duration = Duration::from_secs(2);
/// Number of looks after which Podman is asked even if the configuration has not changed.
const ASK_EVERY: u32 = 30;
/// Delay after failures.
const WAITS: Backoff = Backoff::new(Millis::minutes(1), Millis::minutes(60));

/// A build that is running or has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildStatus {
    /// Folder of the agent.
    pub agent: String,
    /// Name of the image.
    pub image: String,
    /// How often it failed before.
    pub failed: u32,
    /// Why it failed last.
    pub why: Option<String>,
    /// Whether it is running. Otherwise it is retried later.
    pub building: bool,
}

/// Running and failed builds.
#[derive(Debug, Default)]
pub(super) struct Builds {
    /// By the name of the image.
    known: Mutex<HashMap<String, TrackedBuild>>,
}

#[derive(Debug)]
struct TrackedBuild {
    status: BuildStatus,
    again: Awake,
}

/// Dependencies of the builder.
pub(super) struct BuildContext {
    /// Queue for outcomes.
    pub(super) inbox: Arc<Inbox>,
    /// The store, for reading.
    pub(super) engine: Arc<Engine>,
    /// Where agents run.
    pub(super) runtime: Arc<dyn Runtime>,
    /// Whether anything new may be begun.
    pub(super) stop: Arc<Stop>,
    /// What time it is.
    pub(super) clock: Clock,
    /// Name of the installation.
    pub(super) install: String,
}

/// An agent with packages, from the store.
type AgentPackages = (AgentId, entity::Agent);

impl Builds {
    /// Running and failed builds, sorted by the agents' folders.
    pub(super) fn status(&self) -> Vec<BuildStatus> {
        let mut status: Vec<BuildStatus> = self.lock().values().map(|known| known.status.clone()).collect();
        status.sort_by(|a, b| a.agent.cmp(&b.agent));
        status
    }

    /// Starts the builder's thread, which runs until the daemon stops.
    pub(super) fn start(self: &Arc<Self>, context: BuildContext) -> Result<(), Error> {
        let builds = Arc::clone(self);
        let work = move || {
            let (mut seen, mut looks) = (None, 0_u32);
            while !context.stop.asked_within(LOOK) {
                if context.stop.is_draining() {
                    continue;
                }
                let wanted = match wanted(&context.engine) {
                    Ok(wanted) => wanted,
                    Err(error) => {
                        tracing::warn!(%error, "cannot determine which images agents need, retrying");
                        continue;
                    }
                };
                looks = looks.wrapping_add(1);
                if seen.as_ref() == Some(&wanted) && !looks.is_multiple_of(ASK_EVERY) {
                    continue;
                }
                builds.look(&context, &wanted.0, wanted.1.as_deref());
                seen = Some(wanted);
            }
        };
        worker::start("builds", work).map(drop)
    }

    /// Builds the missing images of these agents, and reports the results to the engine.
    fn look(&self, context: &BuildContext, rows: &[AgentPackages], configured: Option<&str>) {
        let agents: Vec<(&AgentPackages, Agent<'_>)> =
            rows.iter().map(|row| (row, agent(context, row, configured))).collect();
        self.lock().retain(|image, _| agents.iter().any(|(_, agent)| agent.image() == *image));
        if agents.is_empty() {
            return;
        }
        let found = image::Engine::find()
            .map_err(image::Error::from)
            .and_then(|engine| Ok((engine.images(&Limit::quiet())?, engine)));
        let (images, engine) = match found {
            Ok(found) => found,
            Err(error) => return tracing::warn!(%error, "cannot list Podman's images, retrying"),
        };
        let options = image::remembered(&images, configured);
        for ((id, row), agent) in agents {
            let name = agent.image();
            let packages = row.settings.packages.clone();
            if images.iter().any(|image| image.names.contains(&name)) {
                self.lock().remove(&name);
                if !row.installs.is_empty() {
                    context.inbox.push(Item::of(Input::Built(*id, packages, Ok(()))));
                }
            } else if !context.stop.is_draining() && self.begin(context, &row.folder, &name) {
                let built = image::build_for(&engine, &agent, &options, &Quiet(&context.stop));
                if context.stop.is_asked() || context.stop.is_draining() && built.is_err() {
                    return;
                }
                let built = built.map(drop).map_err(|error| error.to_string());
                self.end(context, &name, built.as_ref().err());
                context.inbox.push(Item::of(Input::Built(*id, packages, built)));
                context.runtime.compare_images();
            }
        }
    }

    /// Marks a build as running. Returns false if it failed and its delay has not passed yet.
    fn begin(&self, context: &BuildContext, folder: &Folder, image: &str) -> bool {
        let now = context.clock.now().awake;
        let mut all = self.lock();
        let known = all.entry(image.to_owned()).or_insert_with(|| {
            let (agent, image) = (folder.to_string(), image.to_owned());
            TrackedBuild { status: BuildStatus { agent, image, failed: 0, why: None, building: false }, again: now }
        });
        let now = known.again <= now;
        known.status.building = now;
        if now {
            tracing::info!(agent = %folder, image, "building an image");
        }
        now
    }

    fn end(&self, context: &BuildContext, image: &str, failure: Option<&String>) {
        let mut all = self.lock();
        let Some(why) = failure else {
            tracing::info!(image, "an image was built");
            all.remove(image);
            return;
        };
        if let Some(TrackedBuild { status, again }) = all.get_mut(image) {
            let wait = WAITS.wait(status.failed);
            tracing::warn!(image, why, wait_s = wait.get() / 1_000, "cannot build an image, retrying");
            *again = context.clock.now().awake.plus(wait);
            (status.failed, status.why, status.building) = (status.failed.saturating_add(1), Some(why.clone()), false);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, TrackedBuild>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Agents with packages, and the image configured for the installation. Damaged rows are skipped, so that they do not
/// block other agents.
fn wanted(engine: &Engine) -> Result<(Vec<AgentPackages>, Option<String>), state::Error> {
    engine.store().read(|db, txn| {
        let configured = db.settings.get(txn, &())?.and_then(|settings| settings.image);
        let needs = |row: &AgentPackages| {
            let packages = &row.1.settings.packages;
            row.1.archived.is_none() && !(packages.apt.is_empty() && packages.npm.is_empty())
        };
        let mut rows = Vec::new();
        for row in db.agents.iter(txn)? {
            match row {
                Err(error) if error.is_damage() => {}
                row => rows.extend(Some(row?).filter(needs)),
            }
        }
        Ok((rows, configured))
    })
}

fn agent<'a>(context: &'a BuildContext, (_, row): &'a AgentPackages, configured: Option<&'a str>) -> Agent<'a> {
    Agent { install: &context.install, folder: row.folder.as_str(), settings: &row.settings, configured }
}

/// Discards Podman's output. A build is cancelled when the daemon stops.
struct Quiet<'a>(&'a Stop);

impl Progress for Quiet<'_> {
    fn begin(&self, _image: &str) {}

    fn said(&self, line: &str) {
        tracing::debug!(line, "a build goes on");
    }

    fn is_over(&self) -> bool {
        self.0.is_asked()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::commit::Submission;
    use crate::model::configure::{Change, Configure};
    use crate::model::entity::{AgentSettings, Origin};
    use crate::model::policy::Policy;
    use crate::model::time::{Moment, Timestamp};

    #[test]
    fn an_agent_that_is_damaged_keeps_no_other_image_waiting() {
        let directory = tempfile::tempdir().unwrap();
        let options = state::Options { map_bytes: Some(64 << 20), reserve_bytes: 0, ..state::Options::new(7) };
        let open = || {
            let store = state::Store::open(directory.path(), options.clone()).unwrap();
            Engine::new(store, Policy::STANDARD, b"/groups".to_vec())
        };
        let wanted_of = |engine: &Engine| -> Vec<String> {
            wanted(engine).unwrap().0.iter().map(|(_, agent)| agent.folder.to_string()).collect()
        };
        let engine = open();
        let put = |folder: &str| {
            let mut settings = AgentSettings::named(format!("Unmistakable {folder}"));
            settings.packages.apt = vec!["jq".to_owned()];
            Change::PutAgent(Folder::new(folder).unwrap(), settings)
        };
        let configure = Configure::new(vec![put("a"), put("b")], Origin::Runtime);
        let one = Submission::new(Input::Configure(configure));
        let now = Moment { wall: Timestamp::from_millis(0), awake: Awake::new(1, 0) };
        assert!(engine.commit(&[one], now, 1).unwrap().iter().all(Result::is_ok));
        assert_eq!(wanted_of(&engine), ["a", "b"]);
        drop(engine);
        let path = directory.path().join("store/data.mdb");
        let mut bytes = std::fs::read(&path).unwrap();
        let text = b"Unmistakable a";
        let here = |window: &[u8]| window == text;
        let places: Vec<usize> =
            (0..bytes.len()).filter(|at| bytes[*at..].get(..text.len()).is_some_and(here)).collect();
        assert!(!places.is_empty());
        places.into_iter().for_each(|at| bytes[at] ^= 0x20);
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(wanted_of(&open()), ["b"]);
    }
}
