//! `claude`: the Claude Code CLI, driven over its JSON lines. One process lives through turns; each turn is one user
//! message and ends with the CLI's `result` line.
//!
//! The id of the conversation is stored at the first line that proves that it exists on disk (an assistant's or a good
//! result): the CLI announces it earlier, but a process that is killed then leaves no conversation behind.

mod addressed;
mod launch;
mod lines;

use std::time::Duration;

use serde_json::Value;

use self::addressed::addressed;
use self::launch::Conversation;
use self::lines::Line;
use super::Provider;
use crate::child::{Heard, Launch, LineProcess};
use crate::prompt::instructions;
use crate::report::{Report, Turn, TurnError};
use crate::roots::Roots;
use crate::tools::Server;
use crate::{env, log};

const SLICE: Duration = Duration::from_millis(200);
/// The same while a tool of ours waits for the host.
const TOOL_SLICE: Duration = Duration::from_millis(20);

/// The CLI, once it runs.
#[derive(Debug)]
pub(crate) struct Claude {
    roots: Roots,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    /// What it was started for; a change of the context asks for another process.
    base: Launch,
    instructions: String,
    process: LineProcess,
    /// It was asked to resume a conversation and has not shown yet that it could.
    resuming: bool,
    tools: Server,
    /// Calls of tools that wait, and the CLI's requests they came in.
    calls: Vec<(Value, String)>,
}

/// How an attempt at a turn ended.
enum Attempt {
    Answered(String),
    Failed(String),
    /// The conversation to resume does not exist.
    Unknown,
}

impl Claude {
    pub(crate) fn new(roots: Roots) -> Self {
        Self { roots, running: None }
    }

    /// The process for this turn: the one that runs, if it still is what the context asks for.
    fn running(&mut self, turn: &Turn, known: Option<String>) -> Result<Running, String> {
        let base = launch::base(&turn.context, &self.roots, &env::is_set);
        let instructions = instructions(&turn.context);
        if let Some(mut running) = self.running.take() {
            if running.base == base && running.instructions == instructions && running.process.is_alive() {
                return Ok(running);
            }
            running.process.close();
        }
        let conversation = Conversation::choose(known).map_err(|error| format!("no id for a conversation: {error}"))?;
        let launch = launch::with_conversation(&base, &conversation);
        let process = LineProcess::start(&launch, &self.roots.group)?;
        process.tell(lines::initialize(&instructions));
        let resuming = matches!(conversation, Conversation::Resumed(_));
        Ok(Running { base, instructions, process, resuming, tools: Server::new(), calls: Vec::new() })
    }

    fn attempt(&mut self, turn: &Turn, report: &mut Report<'_>) -> Result<Attempt, TurnError> {
        let mut running = self.running(turn, report.continuation()).map_err(TurnError::Failed)?;
        running.finish_last_turn(report)?;
        running.process.tell(lines::user(&turn.prompt));
        loop {
            report.check()?;
            running.settle(report)?;
            let slice = if running.tools.is_waiting() { TOOL_SLICE } else { SLICE };
            let line = match running.process.hear(slice) {
                Heard::Nothing => continue,
                Heard::Gone(how) if running.resuming && lines::is_unknown_conversation(&how) => {
                    return Ok(Attempt::Unknown);
                }
                Heard::Gone(how) => return Ok(Attempt::Failed(format!("the agent CLI {how}"))),
                Heard::Line(line) => line,
            };
            match running.take(&line, report)? {
                None => {}
                Some(Err(error)) if running.resuming && lines::is_unknown_conversation(&error) => {
                    return Ok(Attempt::Unknown);
                }
                Some(outcome) => {
                    self.running = Some(running);
                    return Ok(outcome.map_or_else(Attempt::Failed, Attempt::Answered));
                }
            }
        }
    }
}

impl Running {
    /// Does what a line asks for; the turn's outcome, if it is over.
    fn take(&mut self, line: &str, report: &mut Report<'_>) -> Result<Option<Result<String, String>>, TurnError> {
        report.progress()?;
        match lines::parse(line) {
            Line::Assistant { session, calls } => {
                self.resuming = false;
                report.remember_some(session)?;
                for call in calls {
                    report.tool_started(&call.id, &call.name, call.timeout_ms)?;
                }
            }
            Line::ToolResults(calls) => {
                for call in calls {
                    report.tool_ended(&call)?;
                }
            }
            Line::Result { session, outcome } => {
                if outcome.is_ok() {
                    self.resuming = false;
                    report.remember_some(session)?;
                }
                return Ok(Some(outcome));
            }
            Line::Mcp { request, message } => self.serve(request, message, report)?,
            Line::Asks(request) => self.process.tell(lines::refusal(&request)),
            Line::Other => {}
            Line::Noise => log::note(format_args!("the agent CLI wrote {} bytes that are no JSON", line.len())),
        }
        Ok(None)
    }

    /// Serves the tools that live here.
    fn serve(&mut self, request: String, message: Value, report: &mut Report<'_>) -> Result<(), TurnError> {
        let id = message.get("id").cloned();
        match (self.tools.take(message, report)?, id) {
            (None, Some(id)) => self.calls.push((id, request)),
            (answer, _) => self.process.tell(lines::tools_answer(&request, answer)),
        }
        Ok(())
    }

    fn settle(&mut self, report: &mut Report<'_>) -> Result<(), TurnError> {
        for (id, answer) in self.tools.settle(report)? {
            if let Some(at) = self.calls.iter().position(|(call, _)| *call == id) {
                let (_, request) = self.calls.swap_remove(at);
                self.process.tell(lines::tools_answer(&request, Some(answer)));
            }
        }
        Ok(())
    }

    /// Hears what came after the last turn's end. A result there is of a turn nobody asked for, such as the end of
    /// something that ran in the background; it is said at once.
    fn finish_last_turn(&mut self, report: &mut Report<'_>) -> Result<(), TurnError> {
        while let Heard::Line(line) = self.process.hear(Duration::ZERO) {
            if let Some(Ok(text)) = self.take(&line, report)? {
                for utterance in addressed(&text) {
                    report.say(utterance)?;
                }
            }
        }
        Ok(())
    }
}

impl Provider for Claude {
    fn turn(&mut self, turn: &Turn, report: &mut Report<'_>) -> Result<(), TurnError> {
        let mut attempt = self.attempt(turn, report)?;
        if matches!(attempt, Attempt::Unknown) {
            log::note("the conversation to resume does not exist any more; a new one begins");
            report.remember(None)?;
            attempt = self.attempt(turn, report)?;
        }
        match attempt {
            Attempt::Answered(text) => addressed(&text).into_iter().try_for_each(|utterance| report.answer(utterance)),
            Attempt::Failed(error) => Err(TurnError::Failed(error)),
            Attempt::Unknown => {
                Err(TurnError::Failed("the agent CLI resumes a conversation nobody asked for".to_owned()))
            }
        }
    }
}
