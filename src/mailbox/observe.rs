//! What a runner says about itself in the files that it keeps rewriting.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hearth_wire::{HEARTBEAT_FILE, Heartbeat, SESSION_FILE, STATE_FILE, SessionFile, State, WIRE_VERSION, limits};
use rustix::fs::RawMode;
use serde::de::DeserializeOwned;

use crate::model::id::SessionId;
use crate::model::incarnation::ToolUse;
use crate::model::mailbox::{Beat, Observation, ObservedState};
use crate::model::time::Millis;

use super::dir::Look;
use super::error::Error;
use super::layout::Mailbox;
use super::{parse, text};

/// Characters of a tool's name.
const TOOL_CHARS: usize = 200;
/// Continuations that one session may have.
const CONTINUATIONS: usize = 16;
/// Bytes of a provider's name.
const PROVIDER_BYTES: usize = 64;
/// The runner may be another user than the host.
const SHARED_FILE: RawMode = 0o644;
/// Bytes of a continuation.
const CONTINUATION_BYTES: usize = 4_096;

/// Remembers what each live runner said last, to tell what changed. Lost at a restart, after which everything is news.
#[derive(Debug, Default)]
pub(super) struct Observer {
    last: Mutex<HashMap<SessionId, Seen>>,
}

/// What a look saw of a live runner. It is news until it is noted.
#[derive(Debug)]
pub struct Sight {
    session: SessionId,
    seen: Seen,
    state: Option<ObservedState>,
    beat: Option<u64>,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Seen {
    incarnation: u32,
    beat: Option<u64>,
    progress: u64,
    tool: Option<ToolUse>,
    /// Tells two uses of one tool apart.
    tool_start: String,
}

impl Observer {
    /// Looks at heartbeat and state of a live incarnation. What other incarnations wrote says nothing about this one.
    pub(super) fn observe(&self, mailbox: &Mailbox, incarnation: u32) -> Result<Sight, Error> {
        let beat = read::<Heartbeat>(mailbox, HEARTBEAT_FILE)?.filter(|h| h.incarnation == incarnation);
        let state = read::<State>(mailbox, STATE_FILE)?.filter(|s| s.incarnation == incarnation);
        let mut seen = self.last(mailbox.session, incarnation);
        let state = state.and_then(|state| seen.news(state));
        Ok(Sight { session: mailbox.session, seen, state, beat: beat.map(|beat| beat.beat) })
    }

    /// Notes what was seen of a heart; with the state only if `wholly`, else that is news again the next time.
    pub(super) fn note(&self, sight: Sight, wholly: bool) -> Option<Observation> {
        let Sight { session, seen, state, beat } = sight;
        let incarnation = seen.incarnation;
        let before = self.last(session, incarnation);
        let is_new = beat.is_some() && before.beat != beat;
        let after = if wholly { seen } else { before };
        self.lock().insert(session, Seen { beat: beat.or(after.beat), ..after });
        let state = state.filter(|_| wholly);
        let beat = if is_new { Beat::New } else { Beat::None };
        (is_new || state.is_some()).then_some(Observation { session, incarnation, beat, state })
    }

    /// Forgets a session that is not live any more.
    pub(super) fn forget(&self, session: SessionId) {
        self.lock().remove(&session);
    }

    fn last(&self, session: SessionId, incarnation: u32) -> Seen {
        let last = self.lock().get(&session).filter(|seen| seen.incarnation == incarnation).cloned();
        last.unwrap_or(Seen { incarnation, ..Seen::default() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Seen>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn news(&mut self, state: State) -> Option<ObservedState> {
        let tool_start = state.tool.as_ref().map(|tool| text::cut(&tool.started_at, TOOL_CHARS)).unwrap_or_default();
        let tool = state
            .tool
            .map(|tool| ToolUse { name: text::cut(&tool.name, TOOL_CHARS), timeout: tool.timeout_ms.map(Millis::new) });
        let progress = state.progress != self.progress;
        if !progress && tool == self.tool && tool_start == self.tool_start {
            return None;
        }
        (self.progress, self.tool, self.tool_start) = (state.progress, tool.clone(), tool_start);
        Some(ObservedState { tool, progress, about: state.about })
    }
}

/// Whether a runner noted what its providers need to go on, or somebody did for it.
pub(super) fn is_noted(mailbox: &Mailbox) -> Result<bool, Error> {
    mailbox.agent.has(OsStr::new(SESSION_FILE))
}

/// Notes what the providers of a session need to go on, before its first runner begins.
pub(super) fn seed(mailbox: &Mailbox, continuations: BTreeMap<String, String>) -> Result<bool, Error> {
    if is_noted(mailbox)? {
        return Ok(false);
    }
    let file = SessionFile { v: WIRE_VERSION, incarnation: 0, epoch: 0, continuations };
    let bytes = serde_json::to_vec(&file).map_err(|error| Error::Unusable {
        path: mailbox.agent.path().join(SESSION_FILE),
        reason: error.to_string(),
    })?;
    mailbox.agent.write(SESSION_FILE, &bytes, SHARED_FILE)?;
    Ok(true)
}

/// What the providers of a session need to go on; empty when there is nothing that can be read.
pub(super) fn continuations(mailbox: &Mailbox) -> Result<BTreeMap<String, String>, Error> {
    let mut continuations =
        read::<SessionFile>(mailbox, SESSION_FILE)?.map(|file| file.continuations).unwrap_or_default();
    continuations.retain(|provider, text| {
        !provider.is_empty() && provider.len() <= PROVIDER_BYTES && text.len() <= CONTINUATION_BYTES
    });
    Ok(continuations.into_iter().take(CONTINUATIONS).collect())
}

/// A file that cannot be read says nothing; the runner will write it again.
fn read<T: DeserializeOwned>(mailbox: &Mailbox, name: &str) -> Result<Option<T>, Error> {
    let Look::Found(bytes) = mailbox.agent.read(OsStr::new(name), limits::JSON_BYTES)? else { return Ok(None) };
    Ok(read_own(&bytes))
}

/// What such a file says.
pub(super) fn read_own<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    parse::versioned(bytes).ok().and_then(|value| serde_json::from_value(value).ok())
}
