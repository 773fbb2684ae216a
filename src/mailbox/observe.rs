//! Reads the files that a runner keeps rewriting: heartbeat, state and continuations.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hearth_wire::{
    HEARTBEAT_FILE, Heartbeat, SESSION_FILE, STATE_FILE, SessionFile, State, WIRE_VERSION, Writing, limits,
};
use rustix::fs::RawMode;
use serde::de::DeserializeOwned;

use crate::model::id::SessionId;
use crate::model::incarnation::ToolUse;
use crate::model::mailbox::{Beat, CollectedRecord, Observation, ObservedState, ObservedWriting, Record};
use crate::model::secrets::Secrets;
use crate::model::time::Millis;

use super::dir::{Dir, DirEntry};
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
const CONTINUATION_BYTES: usize = 4_096;

/// Remembers the last state of each live runner, to detect changes. Lost at a restart; then everything counts as new.
#[derive(Debug, Default)]
pub(super) struct Observer {
    last: Mutex<HashMap<SessionId, Seen>>,
}

/// Observation of a live runner. Stays new until it is recorded with `note`.
#[derive(Debug)]
pub struct RunnerObservation {
    session: SessionId,
    seen: Seen,
    state: Option<ObservedState>,
    beat: Option<Heartbeat>,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Seen {
    incarnation: u32,
    beat: Option<u64>,
    progress: u64,
    tool: Option<ToolUse>,
    /// Distinguishes two uses of the same tool.
    tool_start: String,
}

impl Observer {
    /// Reads heartbeat and state of a live incarnation. Files of other incarnations are ignored.
    pub(super) fn observe(
        &self,
        session: SessionId,
        agent: &Dir,
        incarnation: u32,
    ) -> Result<RunnerObservation, Error> {
        let beat = read::<Heartbeat>(agent, HEARTBEAT_FILE)?.filter(|h| h.incarnation == incarnation);
        let state = read::<State>(agent, STATE_FILE)?.filter(|s| s.incarnation == incarnation);
        let mut seen = self.last(session, incarnation);
        let state = state.and_then(|state| seen.news(state));
        Ok(RunnerObservation { session, seen, state, beat })
    }

    /// Records an observed heartbeat. The state is recorded only if `wholly`; otherwise it stays new.
    pub(super) fn note(&self, sight: RunnerObservation, wholly: bool) -> Option<Observation> {
        let RunnerObservation { session, seen, state, beat } = sight;
        let incarnation = seen.incarnation;
        let before = self.last(session, incarnation);
        let new = beat.filter(|beat| before.beat != Some(beat.beat));
        let after = if wholly { seen } else { before };
        self.lock().insert(session, Seen { beat: beat.map(|beat| beat.beat).or(after.beat), ..after });
        let state = state.filter(|_| wholly);
        let is_news = new.is_some() || state.is_some();
        let beat = new.map_or(Beat::None, |new| Beat::resting(Millis::new(new.rest_ms.unwrap_or(0))));
        is_news.then_some(Observation { session, incarnation, beat, state })
    }

    /// Forgets a session that is no longer live.
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

/// The tools that an incarnation that is gone used in its last turn, if it said so.
pub(super) fn tools(mailbox: &Mailbox, incarnation: u32) -> Result<Option<CollectedRecord>, Error> {
    let state = read::<State>(&mailbox.agent, STATE_FILE)?.filter(|state| state.incarnation == incarnation);
    let ran = state.map(|state| state.ran).unwrap_or_default();
    let names: Vec<String> = ran.iter().take(limits::TOOLS).map(|name| text::cut(name, TOOL_CHARS)).collect();
    Ok((!names.is_empty()).then(|| CollectedRecord { record: Record::Tools(names), files: Vec::new() }))
}

/// The text that a runner says its agent is writing, and the position of the message that it answers. Characters that
/// control a terminal are removed, then secrets.
pub(super) fn writing(agent: &Dir, incarnation: u32, secrets: &Secrets) -> Result<Option<ObservedWriting>, Error> {
    let state = read::<State>(agent, STATE_FILE)?.filter(|state| state.incarnation == incarnation);
    Ok(state.and_then(|state| state.writing).map(|Writing { in_reply_to, text }| {
        let printable = text.chars().filter_map(|c| match c {
            c if c.is_whitespace() => Some(' '),
            c => Some(c).filter(|c| !c.is_control()),
        });
        let backwards: Vec<char> = printable.rev().take(limits::WRITING_CHARS).collect();
        let tail: String = backwards.into_iter().rev().collect();
        let clean = secrets.clean(&tail, &mut BTreeSet::new());
        ObservedWriting { in_reply_to, text: secrets.within(&clean).to_owned() }
    }))
}

/// Whether continuations are stored, by a runner or by [`seed`].
pub(super) fn is_noted(mailbox: &Mailbox) -> Result<bool, Error> {
    mailbox.agent.has(OsStr::new(SESSION_FILE))
}

/// Stores continuations for a session's providers before its first runner starts.
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

/// Continuations of a session's providers; empty if there are none that can be read.
pub(super) fn continuations(mailbox: &Mailbox) -> Result<BTreeMap<String, String>, Error> {
    let mut continuations =
        read::<SessionFile>(&mailbox.agent, SESSION_FILE)?.map(|file| file.continuations).unwrap_or_default();
    continuations.retain(|provider, text| {
        !provider.is_empty() && provider.len() <= PROVIDER_BYTES && text.len() <= CONTINUATION_BYTES
    });
    Ok(continuations.into_iter().take(CONTINUATIONS).collect())
}

/// An unreadable file counts as missing: the runner will write it again.
fn read<T: DeserializeOwned>(agent: &Dir, name: &str) -> Result<Option<T>, Error> {
    let DirEntry::Found(bytes) = agent.read(OsStr::new(name), limits::JSON_BYTES)? else { return Ok(None) };
    Ok(read_own(&bytes))
}

/// Parses such a file.
pub(super) fn read_own<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    parse::versioned(bytes).ok().and_then(|value| serde_json::from_value(value).ok())
}
