//! EDGE: runtimes, where agents run. One trait, one module per kind of runtime.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use crate::model::entity::{AgentSettings, ProviderKind};
use crate::model::gateway::{ModelAccess, Reach};
use crate::model::id::SessionId;
use crate::model::incarnation::{IncarnationId, SpecDigest};
use crate::model::input::RuntimeEvent;
use crate::model::mount::Mount;
use crate::model::network::NetworkAccess;
use crate::model::secrets::Secrets;
use crate::model::session::SessionName;

mod directory;
mod environment;
mod error;
mod event_queue;
mod finished;
pub mod image;
mod owner;
pub mod podman;
pub mod process;
#[cfg(test)]
mod recorder;
mod redact;
mod registry;
pub mod single_run;
mod stderr_tail;

pub use environment::known;
pub use error::Error;

/// Default memory limit of an agent in bytes: enough for a runner, an agent CLI and its tools.
const MEMORY: u64 = 2 << 30;
/// Default limit of processes and threads. It stops fork bombs, not builds.
const PIDS: u32 = 512;

/// What to start: one incarnation of one session.
#[derive(Debug, Clone)]
pub struct Spec {
    pub session: SessionId,
    pub incarnation: u32,
    /// The session's mailbox directory.
    pub session_dir: PathBuf,
    /// The agent group's folder: the agent's working directory.
    pub group_dir: PathBuf,
    /// The agent's home, which holds its `.claude` directory.
    pub home_dir: PathBuf,
    /// How the agent is run.
    pub settings: AgentSettings,
    /// What drives the session.
    pub provider: ProviderKind,
    /// Exported to the agent as `NANOCLAW_SESSION_NAME`.
    pub session_name: SessionName,
    /// Time zone of the agent's users, as a value for `TZ`.
    pub timezone: String,
    /// Digest of the launch configuration; a label of the container.
    pub digest: SpecDigest,
    /// Image of its container, if one was configured.
    pub image: Option<String>,
    /// Further host paths that the agent sees, checked and resolved.
    pub mounts: Vec<Mount>,
    /// Where the runtime puts the resolved secrets before the agent starts.
    pub secrets: Known,
    /// What it gets instead of keys of models, if the gateway keeps some.
    pub model_access: Option<ModelAccess>,
    /// Its way out, if it has a network whose connections the daemon judges.
    pub network_access: Option<NetworkAccess>,
}

/// The secret values that an incarnation was given. Empty until it starts.
pub type Known = Arc<OnceLock<Arc<Secrets>>>;

/// Receives a runtime's events. Called from threads of the runtime, never while the runtime holds a lock.
pub type Events = Arc<dyn Fn(RuntimeEvent) + Send + Sync>;

/// Where agents run. Calls return at once; outcomes are reported as events. Every call may be repeated.
pub trait Runtime: Send + Sync {
    /// Name shown to people: `process`, `podman`.
    fn name(&self) -> &'static str;

    /// Whether agents see files at their paths on this machine. Otherwise files are mounted at fixed paths.
    fn shows_host_paths(&self) -> bool {
        false
    }

    /// How an agent with these settings and this provider can reach the model gateway.
    fn reach(&self, settings: &AgentSettings, provider: ProviderKind) -> Reach;

    /// Whether agents run in images, so that images for agents with packages have to be built.
    fn builds_images(&self) -> bool {
        false
    }

    /// One line for people: kind, version and address.
    fn about(&self) -> String {
        self.name().to_owned()
    }

    /// Starts the incarnation unless it is already running. Reports `Running`, or `Gone` with `NotStarted`.
    fn ensure(&self, spec: Spec);

    /// Asks the incarnation to end, and kills it with all its processes if it has not ended within twelve seconds.
    /// Reports `Gone` when, and only when, nothing of it is left.
    fn kill(&self, session: SessionId, incarnation: u32);

    /// The same, but gives it only a moment to end.
    fn kill_now(&self, session: SessionId, incarnation: u32);

    /// Reports `Running` if this daemon's runtime runs the incarnation. Otherwise makes sure that nothing of it is left,
    /// then reports `Gone`.
    fn inquire(&self, session: SessionId, incarnation: u32);

    /// Ends every incarnation of this installation that is not live. Lists what runs before it calls `live`. Blocks
    /// until the runtime has answered. A runtime whose agents cannot outlive it has nothing to do.
    fn reconcile(&self, _live: &dyn Fn() -> Vec<IncarnationId>) {}

    /// Reports `Outdated` for incarnations whose image is no longer the one that its name refers to. Blocks until the
    /// runtime has answered.
    fn compare_images(&self) {}

    /// Ends everything and waits until it is gone: at most 15 seconds, or half a minute on a busy machine where agents
    /// have to be killed.
    fn shut_down(&self);
}
