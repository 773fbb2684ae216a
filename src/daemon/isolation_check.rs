//! Verifies file sharing between the host and a container. Uses a scratch directory, not the installation.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::image::{Engine, Limit};
use crate::config::temp_dir::{Purpose, TempDir};
use crate::runtime::podman::build::{self, Trial};
pub use crate::runtime::podman::build::{Limited, Tried};

/// Why the trial could not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Podman(#[from] build::Error),
    /// A file of the trial.
    #[error("the scratch directory: {0}")]
    Io(#[from] std::io::Error),
}

/// Runs a short-lived container.
///
/// # Errors
/// [`Error`] if the container could not run. The trial has no result then.
pub fn run(engine: &Engine, image: &str, rootless: bool) -> Result<Tried, Error> {
    let scratch = TempDir::create(Purpose::Trial)?;
    let (shared, fixed) = (scratch.path().join("shared"), scratch.path().join("fixed"));
    for directory in [&shared, &fixed] {
        std::fs::create_dir(directory)?;
        // The container's user differs from the host's, so both need access. The parent directory is private, and the
        // files are worthless.
        std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o777))?;
    }
    std::fs::write(shared.join("from-host"), "hello")?;
    let trial = Trial { image, shared: &shared, fixed: &fixed, rootless };
    let mut tried = engine.try_container(&trial, &Limit::quiet())?;
    tried.shares &= host_sees(&shared);
    Ok(tried)
}

/// Whether the container removed one file and renamed another one into place.
fn host_sees(shared: &Path) -> bool {
    let made = std::fs::read_to_string(shared.join("from-container")).is_ok_and(|text| text == "answer\n");
    made && !shared.join("part").exists() && !shared.join("from-host").exists()
}
