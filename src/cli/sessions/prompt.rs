//! `hearth sessions prompt`: the prompt that the agent of a session would get now.

use agent_runner::{Roots, prompt_of};

use crate::cli::{Done, daemon_status, entity, lookup, print};
use crate::config::{Machine, Paths};
use crate::engine::peek;
use crate::mailbox::Mailboxes;
use crate::model::id::SessionId;
use crate::state::Reader;

/// Name of the runtime in which agents see their directories at fixed paths.
const CONTAINERS: &str = "podman";

/// Prints the prompt.
pub(super) fn prompt(paths: &Paths, reader: &Reader, session: SessionId, json: bool) -> Done {
    let found = reader.read(|db, txn| match lookup::session(db, txn, session)? {
        Some(row) => peek(db, txn, session, &row).map(Some),
        None => Ok(None),
    })?;
    let (view, messages) = found.ok_or_else(|| entity::missing("session", &session.to_string()))?;
    // A running daemon knows more about this machine. Without one, this command's own environment decides.
    let daemon = daemon_status::ask(paths).unwrap_or_default();
    let machine = daemon.as_ref().map(|daemon| daemon.zone.as_str());
    let zone = Machine::look().zone(view.timezone.as_deref(), machine).zone;
    let in_container = daemon.is_some_and(|daemon| daemon.runtime.starts_with(CONTAINERS));
    let root = if in_container { Roots::default().session } else { paths.sessions().join(session.to_string()) };
    let (told, context) = Mailboxes::told(session, "", zone.name(), &view, &messages)?;
    let text = prompt_of(&told, &context, &root)?;
    if !messages.iter().any(|message| message.trigger) {
        print::note("no queued message asks for a turn");
    }
    if json { print::json(&serde_json::json!({ "prompt": text })) } else { print::verbatim(text.trim_end()) }
}
