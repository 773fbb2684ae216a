//! `agent/state.json`: the provider's progress, and the running tool.

use std::sync::Arc;
use std::time::Duration;

use hearth_wire::{State, Tool, WIRE_VERSION, Writing, limits};

use crate::agent::AgentHalf;
use crate::clock::{Stopwatch, now_iso};
use crate::stop::Error;

/// Events in quick succession share a write; the host only needs to see that the count changes.
const AT_MOST_EVERY: Duration = Duration::from_millis(100);
/// Interval at which output that goes on counts as progress, which costs the host a commit.
const FLOW: Duration = Duration::from_secs(3);

/// How work in the background is called.
const BACKGROUND: &str = "background task";
/// Time for which the host may wait for a sign of it; the longest that it accepts.
const BACKGROUND_MS: u64 = 2 * 60 * 60 * 1000;

/// The current state, and when it was last written.
#[derive(Debug)]
pub(crate) struct StateBoard {
    agent: Arc<AgentHalf>,
    state: State,
    /// Running tools, by the provider's id of the call.
    tools: Vec<(String, Tool)>,
    /// Work that goes on between turns.
    background: Option<Tool>,
    /// Claimed and unfinished messages, in order of their claims.
    open: Vec<u64>,
    unwritten: bool,
    since_write: Stopwatch,
    since_progress: Stopwatch,
}

impl StateBoard {
    /// Continues the count of an earlier process of the same incarnation.
    pub(crate) fn start(agent: Arc<AgentHalf>, incarnation: u32) -> Result<Self, Error> {
        let before = agent.last_state().filter(|last| last.incarnation == incarnation).map_or(0, |last| last.progress);
        let (v, last_progress) = (WIRE_VERSION, now_iso());
        let state = State {
            v,
            incarnation,
            progress: before,
            last_progress,
            about: None,
            tool: None,
            ran: Vec::new(),
            writing: None,
        };
        agent.write_state(&state)?;
        let (since_write, since_progress) = (Stopwatch::start(), Stopwatch::start());
        let (tools, open) = (Vec::new(), Vec::new());
        Ok(Self { agent, state, tools, background: None, open, unwritten: false, since_write, since_progress })
    }

    /// Records a claim. Progress is attributed to the oldest unfinished claim. The first one begins a turn.
    pub(crate) fn claimed(&mut self, seq: u64) {
        if self.open.is_empty() {
            self.state.ran.clear();
        }
        if !self.open.contains(&seq) {
            self.open.push(seq);
        }
        // The next write no longer has work in the background.
        if self.tools.is_empty() && self.state.tool.take().is_some() {
            self.unwritten = true;
        }
    }

    /// Records finished messages. Until the next claim, progress is still attributed to them.
    pub(crate) fn ended(&mut self, seqs: &[u64]) {
        self.open.retain(|seq| !seqs.contains(seq));
    }

    /// Records activity of the provider.
    pub(crate) fn progress(&mut self) -> Result<(), Error> {
        self.state.progress = self.state.progress.saturating_add(1);
        self.state.last_progress = now_iso();
        self.since_progress = Stopwatch::start();
        self.state.about = self.open.first().copied().or(self.state.about);
        self.unwritten = true;
        self.flush()
    }

    /// Records that the provider's output goes on. It counts as progress now and then.
    pub(crate) fn flows(&mut self) -> Result<(), Error> {
        if self.since_progress.elapsed() >= FLOW { self.progress() } else { self.flush() }
    }

    /// Whether a change would be written now.
    pub(crate) fn is_writable(&self) -> bool {
        self.since_write.elapsed() >= AT_MOST_EVERY
    }

    /// Records the text that the provider is writing.
    pub(crate) fn writing(&mut self, writing: Option<Writing>) -> Result<(), Error> {
        self.unwritten |= writing != self.state.writing;
        self.state.writing = writing;
        self.flush()
    }

    /// Records the start of a tool. `call` identifies it at its end.
    pub(crate) fn tool_started(&mut self, call: &str, name: &str, timeout_ms: Option<u64>) -> Result<(), Error> {
        let known = self.tools.iter_mut().find(|(known, _)| known == call);
        match known {
            // Already known: the provider may announce a start more than once.
            Some((_, tool)) => tool.timeout_ms = timeout_ms.or(tool.timeout_ms),
            None => {
                let tool = Tool { name: name.to_owned(), timeout_ms, started_at: now_iso() };
                if self.state.ran.len() < limits::TOOLS && !self.state.ran.iter().any(|ran| ran == name) {
                    self.state.ran.push(name.to_owned());
                    self.unwritten = true;
                }
                self.tools.push((call.to_owned(), tool));
            }
        }
        self.tools_changed()
    }

    /// Records whether work goes on in the background. Between turns it is in the state file as a tool, so that the host
    /// waits for its end.
    pub(crate) fn background(&mut self, runs: bool) -> Result<(), Error> {
        if runs != self.background.is_some() {
            let tool = || Tool { name: BACKGROUND.to_owned(), timeout_ms: Some(BACKGROUND_MS), started_at: now_iso() };
            self.background = runs.then(tool);
        }
        self.tools_changed()
    }

    /// The running tool with the longest timeout.
    pub(crate) fn tool(&self) -> Option<&str> {
        self.longest().map(|tool| tool.name.as_str())
    }

    pub(crate) fn tool_ended(&mut self, call: &str) -> Result<(), Error> {
        self.tools.retain(|(known, _)| known != call);
        self.tools_changed()
    }

    /// The turn is over: clears the tools and the unfinished text, and writes the state.
    pub(crate) fn settle(&mut self) -> Result<(), Error> {
        self.unwritten |= self.state.writing.take().is_some();
        self.tools.clear();
        self.tools_changed()?;
        if self.unwritten { self.write() } else { Ok(()) }
    }

    /// Writes unsaved changes, unless the last write was a moment ago.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        if self.unwritten && self.is_writable() { self.write() } else { Ok(()) }
    }

    fn longest(&self) -> Option<&Tool> {
        self.tools.iter().map(|(_, tool)| tool).max_by_key(|tool| tool.timeout_ms.unwrap_or(0))
    }

    /// Of several tools the file contains the one with the longest timeout, because the host must wait for it. Work in
    /// the background must not hide a turn that hangs.
    fn tools_changed(&mut self) -> Result<(), Error> {
        let background = self.background.as_ref().filter(|_| self.open.is_empty());
        let shown = self.longest().or(background).cloned();
        if shown == self.state.tool {
            return self.flush();
        }
        self.state.tool = shown;
        self.write()
    }

    fn write(&mut self) -> Result<(), Error> {
        self.since_write = Stopwatch::start();
        match self.agent.write_state(&self.state) {
            // An unwritten state is no reason to fail a turn. The next write contains everything.
            Err(error) if error.is_full_disk() => self.unwritten = true,
            written => {
                written?;
                self.unwritten = false;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Work in the background is shown between turns only, and does not end with a turn.
    #[test]
    fn background_work_is_shown_between_turns() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(hearth_wire::AGENT_DIR)).unwrap();
        let agent = Arc::new(AgentHalf::new(dir.path(), None));
        let mut board = StateBoard::start(Arc::clone(&agent), 1).unwrap();
        let shown = || agent.last_state().unwrap().tool.map(|tool| tool.name);
        board.claimed(2);
        board.tool_started("t", "Bash", None).unwrap();
        board.background(true).unwrap();
        assert_eq!(shown().as_deref(), Some("Bash"));
        board.tool_ended("t").unwrap();
        assert_eq!((shown(), board.tool()), (None, None));
        board.ended(&[2]);
        board.settle().unwrap();
        assert_eq!((shown().as_deref(), board.tool()), (Some(BACKGROUND), None));
        board.claimed(4);
        board.settle().unwrap();
        assert_eq!(shown(), None, "the next turn is judged by itself");
        board.ended(&[4]);
        board.background(false).unwrap();
        assert_eq!(shown(), None);
    }

    /// Progress after the end of a message does not count for a message that is retried later.
    #[test]
    fn what_happens_is_about_what_was_claimed_first_and_has_not_ended() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(hearth_wire::AGENT_DIR)).unwrap();
        let mut board = StateBoard::start(Arc::new(AgentHalf::new(dir.path(), None)), 1).unwrap();
        let mut about = |claimed: &[u64], ended: &[u64]| {
            claimed.iter().for_each(|seq| board.claimed(*seq));
            board.ended(ended);
            board.progress().unwrap();
            board.state.about
        };
        assert_eq!(about(&[], &[]), None);
        assert_eq!(about(&[6, 8, 6], &[]), Some(6));
        assert_eq!(about(&[10], &[8]), Some(6));
        assert_eq!(about(&[], &[6]), Some(10));
        assert_eq!(about(&[], &[10]), Some(10), "nothing else is claimed");
        assert_eq!(about(&[4], &[]), Some(4), "an older one comes back");
    }
}
