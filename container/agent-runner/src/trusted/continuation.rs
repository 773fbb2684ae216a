//! The session id if there is no database: the provider's continuation.

use hearth_wire::{AGENT_DIR, CONTEXT_FILE, Context, HOST_DIR, SESSION_FILE, SessionFile};

use crate::host::read_json;
use crate::memory::NUMBERS;
use crate::roots::Roots;

/// The current provider's continuation; without a context, the only one that exists.
pub(crate) fn of_session(roots: &Roots) -> Option<String> {
    let session: SessionFile = read_json(&roots.session.join(AGENT_DIR).join(SESSION_FILE)).ok()?;
    let context: Option<Context> = read_json(&roots.session.join(HOST_DIR).join(CONTEXT_FILE)).ok();
    if let Some(context) = context {
        let current = session.epoch == context.epoch;
        return session.continuations.get(&context.provider.name).filter(|_| current).cloned();
    }
    let mut known = session.continuations.into_iter().filter(|(provider, _)| provider != NUMBERS);
    let (_, first) = known.next()?;
    if known.next().is_some() { None } else { Some(first) }
}
