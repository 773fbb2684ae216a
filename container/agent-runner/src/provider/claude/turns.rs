//! Turns of the CLI: what it is given, what it answers, and what of it is whose.

use std::time::Duration;

use super::covered::What;
use super::dispatch::{self, Verdict};
use super::session::{Outcome, Session};
use super::{lines, trouble};
use crate::child::Heard;
use crate::clock::{Stopwatch, now_ms};
use crate::log;
use crate::outgoing::Utterance;
use crate::report::{Report, Turn, TurnError};

const SLICE: Duration = Duration::from_millis(100);
/// The same while a tool of ours waits for the host.
const TOOL_SLICE: Duration = Duration::from_millis(20);
/// The same between turns, where messages of people are waited for at the same time.
const BETWEEN: Duration = Duration::from_millis(50);
/// Lines that are heard between two looks for messages.
const LINES_BETWEEN: usize = 32;

/// How an attempt at a turn ended.
pub(super) enum Attempt {
    /// Well or badly: the report knows.
    Ended,
    /// The conversation to go on with does not exist.
    Unknown,
    /// The process of earlier turns was gone before it took anything of this one.
    Stale,
}

impl Session {
    /// Works until everything it was given is covered by results.
    pub(super) fn converse(&mut self, turn: &Turn, report: &mut Report<'_>) -> Result<Attempt, TurnError> {
        self.signs = trouble::Signs::default();
        self.draft = None;
        let mut since_look = Stopwatch::start();
        let mut is_heard = !self.has_worked;
        loop {
            report.check()?;
            self.settle(report)?;
            if is_heard && since_look.elapsed() >= SLICE && self.given.takes_more() && turn.native.is_none() {
                since_look = Stopwatch::start();
                if let Some((id, text)) = report.arrivals()? {
                    self.give(What::Arrival(id), &text).map_err(TurnError::Failed)?;
                }
            }
            let slice = if self.is_waiting() { TOOL_SLICE } else { SLICE };
            let line = match self.process.hear(slice) {
                Heard::Nothing => continue,
                Heard::Gone(how) if !self.is_proved && lines::is_unknown_conversation(&how) => {
                    return Ok(Attempt::Unknown);
                }
                Heard::Gone(how) => {
                    // Whoever ended both wants no turn to fail.
                    report.check()?;
                    if !is_heard {
                        log::note(format_args!("between turns the agent CLI {how}; it is started again"));
                        report.tools_ended()?;
                        return Ok(Attempt::Stale);
                    }
                    return Err(trouble::gone(&how, (self.has_worked, report.tool())).into());
                }
                Heard::Line(line) => line,
            };
            is_heard = true;
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

    /// What a result means for what it covers.
    fn conclude(&mut self, outcome: Outcome, turn: &Turn, report: &mut Report<'_>) -> Result<(), TurnError> {
        let covered = self.given.result();
        if covered.is_empty() {
            return unasked(outcome, report);
        }
        let text = match outcome {
            Ok(text) => text,
            Err(complaint) => {
                return match self.draft.take() {
                    // It was only asked to say something better.
                    Some(draft) => {
                        log::note(format_args!("the agent was asked for a better answer in vain: {}", complaint.text));
                        answer(draft.into_kept(), report)
                    }
                    None => {
                        let failure = trouble::failure(&complaint, &self.signs, (report.tool(), now_ms()));
                        report.end_part(Err(failure))
                    }
                };
            }
        };
        if turn.native.is_some() && covered.contains(&What::Prompt) {
            let bare = Some(text.trim()).filter(|text| !text.is_empty()).map(Utterance::reply);
            return answer(bare.into_iter().collect(), report);
        }
        match dispatch::decide(&text, &report.context().destinations, self.draft.take()) {
            Verdict::Said(said) => answer(said, report),
            Verdict::Again { said, note, draft } => {
                said.into_iter().try_for_each(|utterance| report.answer(utterance))?;
                self.draft = Some(draft);
                self.give(What::Note, &note).map_err(TurnError::Failed)
            }
        }
    }

    /// Hears what comes between turns. Whether it still runs.
    pub(super) fn listen(&mut self, report: &mut Report<'_>) -> Result<bool, TurnError> {
        for _ in 0..LINES_BETWEEN {
            report.check()?;
            self.settle(report)?;
            let patience = if self.is_at_work() { BETWEEN } else { Duration::ZERO };
            match self.process.hear(patience) {
                Heard::Nothing => break,
                Heard::Gone(how) => {
                    log::note(format_args!("between turns the agent CLI {how}"));
                    report.tools_ended()?;
                    return Ok(false);
                }
                Heard::Line(line) => {
                    if let Some(outcome) = self.take(&line, report)? {
                        // What a turn that was given up left behind.
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

/// A result of something nobody asked for, such as the end of what ran in the background, is said at once.
fn unasked(outcome: Outcome, report: &mut Report<'_>) -> Result<(), TurnError> {
    match outcome {
        Ok(text) => dispatch::addressed(&text).into_iter().try_for_each(|utterance| report.say(utterance)),
        Err(complaint) => {
            log::note(format_args!("a turn nobody asked for failed: {}", complaint.text));
            Ok(())
        }
    }
}
