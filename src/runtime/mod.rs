//! EDGE: where agents run. One trait, one file per kind of runtime.

use std::path::PathBuf;
use std::sync::Arc;

use crate::model::entity::{AgentSettings, ProviderKind};
use crate::model::id::SessionId;
use crate::model::incarnation::SpecDigest;
use crate::model::input::RuntimeEvent;
use crate::model::mount::Mount;
use crate::model::session::SessionName;

mod directory;
mod environment;
mod error;
#[cfg(test)]
mod heard;
pub mod image;
mod last;
mod mail;
pub mod podman;
pub mod process;
mod redact;
mod register;
mod told;

pub use error::Error;

/// What to start: one incarnation of one session.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Session.
    pub session: SessionId,
    /// Which incarnation.
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
    /// Zone of its people, as the variable `TZ` says it.
    pub timezone: String,
    /// Digest of what it is started with; a label of its container.
    pub digest: SpecDigest,
    /// Image of its container, if one was configured.
    pub image: Option<String>,
    /// What else it sees of the host's files, checked and resolved.
    pub mounts: Vec<Mount>,
}

/// Who is told what became of incarnations. Called from threads of the runtime, never while it holds a lock.
pub type Events = Arc<dyn Fn(RuntimeEvent) + Send + Sync>;

/// Where agents run. Calls return at once; what became of them comes as events. Every call may come twice.
pub trait Runtime: Send + Sync {
    /// Name for people: `process`, `podman`.
    fn name(&self) -> &'static str;

    /// Whether its agents see files where they are on this machine; otherwise they are mounted at fixed paths.
    fn shows_host_paths(&self) -> bool {
        false
    }

    /// Whether agents run in images, and those of agents with packages have to be built.
    fn builds_images(&self) -> bool {
        false
    }

    /// One line for people: what it is, which version, where.
    fn about(&self) -> String {
        self.name().to_owned()
    }

    /// Starts the incarnation unless it runs already, and reports `Running`, or `Gone` with `NotStarted`.
    fn ensure(&self, spec: Spec);

    /// Ends the incarnation with all its processes and reports `Gone` when, and only when, nothing of it is left.
    fn kill(&self, session: SessionId, incarnation: u32);

    /// Reports `Running` if this daemon's runtime runs the incarnation. Otherwise makes sure that nothing of it is left,
    /// then reports `Gone`.
    fn inquire(&self, session: SessionId, incarnation: u32);

    /// Ends what of this installation runs and is not live: what runs is listed first, then `live` is asked. Waits for
    /// the runtime. A runtime whose agents cannot outlive it has nothing to do.
    fn reconcile(&self, _live: &dyn Fn() -> Vec<(SessionId, u32)>) {}

    /// Reports `Outdated` for what runs from another image than the one that its name means now. Waits for the runtime.
    fn compare_images(&self) {}

    /// Ends everything and waits until it is gone: ten seconds at most, and half a minute where it has to be ended by force
    /// on a busy machine.
    fn shut_down(&self);
}
