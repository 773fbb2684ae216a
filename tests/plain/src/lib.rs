//! The two modules that read variables for tests, compiled as in a release: the workspace's `Cargo.toml` turns debug
//! assertions off for this package. The rest of Hearth comes from the ordinary build.

pub use agent_runner::confine;
pub use hearth::model;

/// The runner's variables, none of which is set. Without `env_lookup`, a build that reads the daemon's fails.
pub mod env {
    pub use agent_runner::{INCARNATION_VARIABLE, LIFE_VARIABLE, LOCK_VARIABLE, ROOTS_VARIABLE};

    pub(crate) fn variable(_name: &str) -> Option<String> {
        None
    }
}
#[path = "../../../container/agent-runner/src/roots.rs"]
pub mod roots;
#[path = "../../../src/config/seams.rs"]
pub mod seams;

/// Starts a runner without variables, which fails.
///
/// # Errors
/// The variable that is missing.
pub fn start() -> Result<roots::Start, roots::StartError> {
    roots::Roots::from_env().and_then(|_| roots::Start::from_env())
}
