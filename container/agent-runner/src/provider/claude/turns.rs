//! Runs turns of the CLI: gives it messages, and assigns its results to them.

use std::time::Duration;

use super::covered::What;
use super::session::{Outcome, Session};
use super::wedge::Silence;
use super::{lines, trouble, wedge};
use crate::child::ProcessOutput;
use crate::clock::{Stopwatch, now_ms};
use crate::images;
use crate::log;
use crate::outgoing::Utterance;
use crate::provider::dispatch::{self, ResultAction};
use crate::report::Report;
use crate::turn::{Turn, TurnError};

const SLICE: Duration = Duration::from_millis(100);
/// Polling interval while a tool waits for the host.
const TOOL_SLICE: Duration = Duration::from_millis(20);
/// Polling interval between turns, when the runner also waits for messages.
const BETWEEN: Duration = Duration::from_millis(50);
/// Lines handled between two checks for messages.
const LINES_BETWEEN: usize = 32;

/// Result of an attempt at a turn.
pub(super) enum Attempt {
    /// The turn ended; the report has the result.
    Ended,
    /// The conversation to resume does not exist.
    Unknown,
    /// The process of earlier turns ended before it read anything of this one.
    Stale,
}

impl Session {
    /// Works until results cover every message given to the CLI.
    pub(super) fn converse(&mut self, turn: &Turn, report: &mut Report<'_>) -> Result<Attempt, TurnError> {
        self.signs = trouble::Signs::default();
        self.draft = None;
        let mut since_look = Stopwatch::start();
        let mut is_heard = !self.has_worked;
        // Before the first line of a turn, the host judges the run by its claim.
        let (mut since_line, mut asked) = (None, 0);
        loop {
            report.check()?;
            self.settle(report)?;
            self.show_unfinished(report)?;
            if is_heard && since_look.elapsed() >= SLICE && self.given.takes_more() && turn.native.is_none() {
                since_look = Stopwatch::start();
                if let Some((id, told)) = report.arrivals()? {
                    let seen = images::of(report.root(), &told);
                    self.give_with(What::Arrival(id), &told.prompt, seen)?;
                }
            }
            let slice = if self.is_waiting() { TOOL_SLICE } else { SLICE };
            let line = match self.process.hear(slice) {
                ProcessOutput::Nothing => {
                    // A tool may be silent for as long as the host allows.
                    if let (Some(quiet), None, false) = (since_line, report.tool(), self.is_waiting()) {
                        asked = self.look_after(quiet, asked)?;
                    }
                    continue;
                }
                ProcessOutput::Gone(how) if !self.is_proved && lines::is_unknown_conversation(&how) => {
                    return Ok(Attempt::Unknown);
                }
                ProcessOutput::Gone(how) => {
                    // If the whole group was ended, this is no failure of the turn.
                    report.check()?;
                    if !is_heard {
                        log::note(format_args!("between turns the agent CLI {how}; it is started again"));
                        report.tools_ended()?;
                        return Ok(Attempt::Stale);
                    }
                    return Err(trouble::gone(&how, report.tool()).into());
                }
                ProcessOutput::Unreadable(why) => return Err(TurnError::Failed(format!("the agent CLI {why}"))),
                ProcessOutput::Line(line) => line,
            };
            is_heard = true;
            (since_line, asked) = (Some(Stopwatch::start()), 0);
            let Some(outcome) = self.take(&line, report)? else { continue };
            if let (false, Err(complaint)) = (self.is_proved, &outcome)
                && lines::is_unknown_conversation(&complaint.text)
            {
                return Ok(Attempt::Unknown);
            }
            self.conclude(outcome, turn, report)?;
            if self.given.is_empty() {
                return Ok(Attempt::Ended);
            }
        }
    }

    /// Asks a silent CLI whether it lives. Returns how often it was asked since its last line, or fails if it is wedged.
    fn look_after(&self, since_line: Stopwatch, asked: u32) -> Result<u32, TurnError> {
        match wedge::judge(since_line.elapsed(), asked) {
            Silence::Wait => return Ok(asked),
            Silence::Ask => self.ask_alive(),
            Silence::Wedged => return Err(trouble::wedged().into()),
        }
        Ok(asked.saturating_add(1))
    }

    /// Handles a result for the messages it covers.
    fn conclude(&mut self, outcome: Outcome, turn: &Turn, report: &mut Report<'_>) -> Result<(), TurnError> {
        let covered = self.given.result();
        if covered.is_empty() {
            return unasked(outcome, report);
        }
        let text = match outcome {
            Ok(text) => text,
            Err(complaint) => {
                return match self.draft.take() {
                    // This result was only to improve the draft.
                    Some(draft) => {
                        log::note(format_args!("the agent was asked for a better answer in vain: {}", complaint.text));
                        answer(draft.into_kept(), report)
                    }
                    None => {
                        let failure = trouble::failure(&complaint, &self.signs, report.tool(), now_ms());
                        report.end_part(Err(failure))
                    }
                };
            }
        };
        if turn.native.is_some() && covered.contains(&What::Prompt) {
            let bare = Some(text.trim()).filter(|text| !text.is_empty()).map(Utterance::reply);
            return answer(bare.into_iter().collect(), report);
        }
        match dispatch::decide(&text, report.origin(), &report.context().destinations, self.draft.take()) {
            ResultAction::Said(said) => answer(said, report),
            ResultAction::Again { said, note, draft } => {
                said.into_iter().try_for_each(|utterance| report.answer(utterance))?;
                self.draft = Some(draft);
                self.give(What::Note, &note)
            }
        }
    }

    /// Handles output between turns. Returns whether the process still runs.
    pub(super) fn listen(&mut self, report: &mut Report<'_>) -> Result<bool, TurnError> {
        for _ in 0..LINES_BETWEEN {
            report.check()?;
            self.settle(report)?;
            let patience = if self.is_at_work() { BETWEEN } else { Duration::ZERO };
            match self.process.hear(patience) {
                ProcessOutput::Nothing => break,
                ProcessOutput::Gone(how) | ProcessOutput::Unreadable(how) => {
                    log::note(format_args!("between turns the agent CLI {how}"));
                    report.background(false)?;
                    report.tools_ended()?;
                    return Ok(false);
                }
                ProcessOutput::Line(line) => {
                    if let Some(outcome) = self.take(&line, report)? {
                        // Messages left by a failed turn.
                        self.given.clear();
                        unasked(outcome, report)?;
                        report.tools_ended()?;
                    }
                }
            }
        }
        Ok(true)
    }
}

fn answer(said: Vec<Utterance>, report: &mut Report<'_>) -> Result<(), TurnError> {
    said.into_iter().try_for_each(|utterance| report.answer(utterance))?;
    report.end_part(Ok(()))
}

/// Handles a result without a request, such as the end of a background task. Its text is sent at once.
fn unasked(outcome: Outcome, report: &mut Report<'_>) -> Result<(), TurnError> {
    match outcome {
        Ok(text) => dispatch::addressed(&text).into_iter().try_for_each(|utterance| report.say(utterance)),
        Err(complaint) => {
            log::note(format_args!("a turn without a prompt failed: {}", complaint.text));
            Ok(())
        }
    }
}
