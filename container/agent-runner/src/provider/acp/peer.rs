//! The agent's process as the other end of the protocol: requests to it, and what it sends meanwhile.

use std::time::Duration;

use serde_json::Value;

use super::permission;
use super::rpc::{self, Line, Refusal};
use super::trouble;
use super::words::Update;
use crate::child::{LineProcess, ProcessOutput};
use crate::clock::Stopwatch;
use crate::failure::Failure;
use crate::log;
use crate::report::Report;
use crate::tools::Relay;
use crate::turn::TurnError;

const SLICE: Duration = Duration::from_millis(100);
/// Polling interval while the agent's client of tools is connected, whose messages wait for the next slice.
const TOOL_SLICE: Duration = Duration::from_millis(20);
/// How long an agent may take to cancel a turn before its process is ended.
const CANCELLING: Duration = Duration::from_secs(2);
/// A repeated conversation counts as complete after this time without an update.
const REPLAY_PAUSE: Duration = Duration::from_millis(300);
/// Maximum time to wait for a repeated conversation.
const REPLAY_MAX: Duration = Duration::from_secs(5);
/// Lines handled between turns at a time.
const LINES_BETWEEN: usize = 32;

/// A running agent.
#[derive(Debug)]
pub(super) struct Peer {
    process: LineProcess,
    relay: Relay,
    next: u64,
    /// Whether the agent said that it has repeated the whole conversation.
    has_replayed: bool,
}

/// What was heard within a slice of time.
#[derive(Debug)]
pub(super) enum Heard {
    Nothing,
    Line(Line),
    /// The process has ended, and how.
    Gone(String),
}

impl Peer {
    pub(super) const fn new(process: LineProcess, relay: Relay) -> Self {
        Self { process, relay, next: 1, has_replayed: false }
    }

    pub(super) fn is_alive(&mut self) -> bool {
        self.process.is_alive()
    }

    pub(super) fn has_news(&mut self) -> bool {
        self.process.has_news()
    }

    pub(super) const fn relay(&self) -> &Relay {
        &self.relay
    }

    /// Sends a request. Returns its id.
    pub(super) fn send(&mut self, method: &str, params: &Value) -> u64 {
        let id = self.next;
        self.next += 1;
        self.process.tell(rpc::request(id, method, params));
        id
    }

    pub(super) fn notify(&self, method: &str, params: &Value) {
        self.process.tell(rpc::notice(method, params));
    }

    pub(super) fn answer(&self, id: &Value, result: &Value) {
        self.process.tell(rpc::answer(id, result));
    }

    /// Answers a request that does not belong to a turn.
    pub(super) fn decline(&self, id: &Value, method: &str) {
        if method == "session/request_permission" {
            return self.answer(id, &permission::cancelled());
        }
        self.process.tell(rpc::unknown_method(id, method));
    }

    /// Waits for a line, and passes on messages of the tools.
    pub(super) fn hear(&mut self, report: &mut Report<'_>) -> Result<Heard, TurnError> {
        self.hear_while(false, report)
    }

    /// The same. `waits` says that a tool waits for the host, so that its answer is passed on soon.
    pub(super) fn hear_while(&mut self, waits: bool, report: &mut Report<'_>) -> Result<Heard, TurnError> {
        report.check()?;
        self.relay.serve(report)?;
        match self.process.hear(if waits || self.relay.is_used() { TOOL_SLICE } else { SLICE }) {
            ProcessOutput::Nothing => Ok(Heard::Nothing),
            ProcessOutput::Gone(how) => {
                // If the whole group was ended, this is no failure of the turn.
                report.check()?;
                Ok(Heard::Gone(how))
            }
            ProcessOutput::Unreadable(why) => Err(TurnError::Failed(format!("the agent {why}"))),
            ProcessOutput::Line(line) => {
                report.progress()?;
                let parsed = rpc::parse(&line);
                if matches!(parsed, Line::Noise) {
                    log::note(format_args!("the agent wrote {} bytes that are not of the protocol", line.len()));
                }
                Ok(Heard::Line(parsed))
            }
        }
    }

    /// Sends a request and waits for its answer. Updates meanwhile belong to no turn.
    pub(super) fn call(
        &mut self,
        method: &str,
        params: &Value,
        patience: Duration,
        report: &mut Report<'_>,
    ) -> Result<Result<Value, Refusal>, TurnError> {
        let (request, watch) = (self.send(method, params), Stopwatch::start());
        while watch.elapsed() < patience {
            match self.hear(report)? {
                Heard::Line(Line::Answer { id, outcome }) if id == request => return Ok(outcome),
                Heard::Line(line) => self.aside(&line),
                Heard::Gone(how) => return Err(trouble::gone(&how, None).into()),
                Heard::Nothing => {}
            }
        }
        let seconds = patience.as_secs();
        Err(Failure::passing(format!("the agent did not answer `{method}` within {seconds} s")).into())
    }

    /// Waits for a line that belongs to no turn. Returns whether the process still runs.
    pub(super) fn listen(&mut self, report: &mut Report<'_>) -> Result<bool, TurnError> {
        match self.hear(report)? {
            Heard::Line(line) => self.aside(&line),
            Heard::Nothing => {}
            Heard::Gone(_) => return Ok(false),
        }
        Ok(true)
    }

    /// Waits until the agent has repeated the conversation that it was asked to go on with.
    pub(super) fn after_replay(&mut self, report: &mut Report<'_>) -> Result<(), TurnError> {
        let (whole, mut pause) = (Stopwatch::start(), Stopwatch::start());
        while !self.has_replayed && pause.elapsed() < REPLAY_PAUSE && whole.elapsed() < REPLAY_MAX {
            match self.hear(report)? {
                Heard::Line(line) => {
                    self.aside(&line);
                    pause = Stopwatch::start();
                }
                Heard::Gone(how) => return Err(trouble::gone(&how, None).into()),
                Heard::Nothing => {}
            }
        }
        Ok(())
    }

    /// Handles output between turns. Returns whether the process still runs.
    pub(super) fn between(&mut self, report: &mut Report<'_>) -> Result<bool, TurnError> {
        for _ in 0..LINES_BETWEEN {
            if !self.has_news() {
                return Ok(true);
            }
            match self.hear(report)? {
                Heard::Line(line) => self.aside(&line),
                Heard::Nothing => {}
                Heard::Gone(how) => {
                    log::note(format_args!("between turns the agent {how}"));
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Handles a line that belongs to no turn.
    fn aside(&mut self, line: &Line) {
        match line {
            Line::Request { id, method, .. } => self.decline(id, method),
            Line::Notice { params, .. } => {
                let update = params.get("update").cloned().map(serde_json::from_value);
                self.has_replayed |= matches!(update, Some(Ok(Update::Session(info))) if info.ends_replay());
            }
            Line::Answer { .. } | Line::Noise => {}
        }
    }

    /// Ends the process gracefully. If a turn was cancelled, the agent has a moment to end it.
    pub(super) fn close(mut self, cancelled: Option<u64>) {
        let watch = Stopwatch::start();
        while let Some(request) = cancelled
            && watch.elapsed() < CANCELLING
        {
            match self.process.hear(SLICE) {
                ProcessOutput::Line(line) => match rpc::parse(&line) {
                    Line::Answer { id, .. } if id == request => break,
                    Line::Request { id, method, .. } => self.decline(&id, &method),
                    Line::Answer { .. } | Line::Notice { .. } | Line::Noise => {}
                },
                ProcessOutput::Nothing => {}
                ProcessOutput::Gone(_) | ProcessOutput::Unreadable(_) => break,
            }
        }
        self.process.close();
    }
}
