//! Starts an agent of the provider `acp` for a moment and asks it what it is. `hearth doctor` shows the answer.

use std::time::Duration;

use agent_runner::handshake::{HANDSHAKE_FILE, HANDSHAKE_VARIABLE, HandshakeResult};

pub use agent_runner::handshake::{Handshake, Offered};

use crate::model::entity::EnvValue;
use crate::model::incarnation::Exit;
use crate::runtime::Spec;
use crate::runtime::single_run::SingleRun;

/// Time for a handshake, including the start of a container on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Starts an incarnation whose runner shakes hands instead of working. `read` reads a file of the agent's half of the
/// mailbox.
///
/// # Errors
/// Why the agent says nothing, for people.
pub fn shake(
    run: SingleRun,
    mut spec: Spec,
    read: impl FnOnce(&str) -> Result<Option<Vec<u8>>, String>,
) -> Result<Handshake, String> {
    spec.settings.env.push((HANDSHAKE_VARIABLE.to_owned(), EnvValue::Plain("1".to_owned())));
    let (exit, stderr) = run.run(spec, PATIENCE).map_err(|why| format!("{why}; the image may be an older one"))?;
    match exit {
        Exit::NotStarted(reason) => Err(reason),
        Exit::Code(0) => {
            let result = read(HANDSHAKE_FILE)?.and_then(|bytes| serde_json::from_slice::<HandshakeResult>(&bytes).ok());
            result.unwrap_or_else(|| Err("its runner wrote no result".to_owned()))
        }
        other => Err(format!("its runner ended with {other:?}: {}", stderr.trim())),
    }
}
