//! One running process of the CLI: handles its lines during and between turns.

use std::path::Path;

use hearth_wire::{Context, OutId};
use serde_json::Value;

use super::covered::{UncoveredMessages, What};
use super::lines::{self, Complaint, StreamLine};
use super::trouble::Signs;
use super::usage::UsageMeter;
use super::{compaction, control, hooks};
use crate::child::{Launch, LineProcess};
use crate::images::Image;
use crate::outgoing::Utterance;
use crate::provider::dispatch::Draft;
use crate::provider::earlier::EarlierText;
use crate::provider::unfinished::UnfinishedText;
use crate::report::{Report, ToolAnswer};
use crate::roots::Roots;
use crate::tool_calls::{CallEnd, CalledTool};
use crate::tools::Server;
use crate::turn::TurnError;
use crate::{ids, log};

/// The CLI version that this provider was tested with. Versions differ in relevant ways.
const PINNED: &str = "2.1.329";

/// A running process.
#[derive(Debug)]
pub(super) struct Session {
    /// Its parameters; if the context changes them, a new process is needed.
    made_for: (Launch, String),
    pub(super) process: LineProcess,
    roots: Roots,
    /// Whether its conversation is known to exist on disk.
    pub(super) is_proved: bool,
    /// Whether it has started to work on something.
    pub(super) has_worked: bool,
    pub(super) given: UncoveredMessages,
    pub(super) draft: Option<Draft>,
    pub(super) signs: Signs,
    /// The text that the model is writing.
    unfinished: UnfinishedText,
    /// What the model wrote before it called tools.
    earlier: EarlierText,
    /// Whether it is working, asked or not.
    is_busy: bool,
    tools: Server,
    usage: UsageMeter,
    /// MCP messages whose answers are pending: their ids, and the CLI's requests.
    waiting: Vec<(Value, String)>,
    /// Tool calls that people are asked about.
    asked: Vec<AskedCall>,
}

/// A tool call that a person is asked about.
#[derive(Debug)]
struct AskedCall {
    /// Id of the CLI's request.
    hook: String,
    /// Id of the call.
    call: String,
    /// Name of the tool, and the timeout that the call declares.
    tool: String,
    timeout: Option<u64>,
    /// The question to the host.
    request: OutId,
}

/// Result of a turn of the CLI.
pub(super) type Outcome = Result<String, Complaint>;

impl Session {
    pub(super) fn new(made_for: (Launch, String), process: LineProcess, roots: Roots) -> Self {
        Self {
            made_for,
            process,
            roots,
            is_proved: false,
            has_worked: false,
            given: UncoveredMessages::default(),
            draft: None,
            signs: Signs::default(),
            unfinished: UnfinishedText::default(),
            earlier: EarlierText::default(),
            is_busy: false,
            tools: Server::new(),
            usage: UsageMeter::default(),
            waiting: Vec::new(),
            asked: Vec::new(),
        }
    }

    /// Whether it runs with these parameters.
    pub(super) fn serves(&mut self, base: &Launch, instructions: &str) -> bool {
        self.made_for.0 == *base && self.made_for.1 == instructions && self.process.is_alive()
    }

    /// Gives it a message.
    pub(super) fn give(&mut self, what: What, text: &str) -> Result<(), TurnError> {
        self.give_with(what, text, Vec::new())
    }

    /// Gives it a message with images.
    pub(super) fn give_with(&mut self, what: What, text: &str, images: Vec<Image>) -> Result<(), TurnError> {
        let uuid = ids::random().map_err(|error| TurnError::Failed(format!("no id for a message: {error}")))?;
        self.process.tell(control::user(text, images, &uuid));
        self.given.give(uuid, what);
        Ok(())
    }

    pub(super) fn interrupt(&self) {
        self.process.tell(control::interrupt());
    }

    /// Asks whether it lives.
    pub(super) fn ask_alive(&self) {
        self.process.tell(control::ask_alive());
    }

    /// Lets it end gracefully.
    pub(super) fn close(self) {
        self.process.close();
    }

    /// Whether there is anything to handle.
    pub(super) fn has_news(&mut self) -> bool {
        self.is_at_work() || self.process.has_news()
    }

    /// Whether a tool waits for the host.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty() || !self.asked.is_empty()
    }

    /// Whether it is working or waits for an answer.
    pub(super) fn is_at_work(&self) -> bool {
        self.is_busy || self.is_waiting()
    }

    /// Passes on answers of the MCP server. To be called in every pause.
    pub(super) fn settle(&mut self, report: &mut Report<'_>) -> Result<(), TurnError> {
        self.settle_asked(report)?;
        if self.waiting.is_empty() {
            return Ok(());
        }
        for (id, answer) in self.tools.settle(report)? {
            if let Some(place) = self.waiting.iter().position(|(known, _)| *known == id) {
                let (_, request) = self.waiting.swap_remove(place);
                self.process.tell(control::mcp_answer(&request, &answer));
            }
        }
        Ok(())
    }

    /// Answers the CLI about calls that people decided about.
    fn settle_asked(&mut self, report: &mut Report<'_>) -> Result<(), TurnError> {
        for asked in std::mem::take(&mut self.asked) {
            match report.decision(&asked.call, &asked.request)? {
                None | Some(ToolAnswer::Asked(_)) => self.asked.push(asked),
                Some(ToolAnswer::Allowed) => {
                    report.tool_started(&asked.call, &asked.tool, asked.timeout)?;
                    self.process.tell(control::answer(&asked.hook, &hooks::go_on()));
                }
                Some(ToolAnswer::Denied(reason)) => {
                    report.tool_ended(&asked.call)?;
                    self.process.tell(control::answer(&asked.hook, &hooks::deny(&reason)));
                }
            }
        }
        Ok(())
    }

    /// Shows the text that the model is writing, if it has changed. To be called in every pause.
    pub(super) fn show_unfinished(&mut self, report: &mut Report<'_>) -> Result<(), TurnError> {
        if self.unfinished.is_new() && report.shows_writing() {
            let own = report.own_destinations();
            report.writing(self.unfinished.show(|name| own.contains(&name)))?;
        }
        Ok(())
    }

    /// Handles a line. Returns the result if the line ends a turn.
    pub(super) fn take(&mut self, line: &str, report: &mut Report<'_>) -> Result<Option<Outcome>, TurnError> {
        let length = line.len();
        let line = lines::parse(line);
        match line {
            // The answer proves that the CLI is alive, not that the turn makes progress.
            StreamLine::Alive => return Ok(None),
            StreamLine::Text(_) | StreamLine::Begins | StreamLine::Flows => report.flows()?,
            _ => report.progress()?,
        }
        match line {
            StreamLine::Init(version) => self.begin(&version),
            StreamLine::Assistant { session, text, calls } => {
                self.is_proved = true;
                report.remember_some(session)?;
                self.earlier.write(&text);
                let verbosity = report.context().provider.verbosity;
                for call in &calls {
                    self.earlier
                        .tool_called(&call.name, verbosity)
                        .into_iter()
                        .try_for_each(|said| report.say(said))?;
                }
                for call in calls {
                    report.tool_started(&call.id, &call.name, call.timeout_ms)?;
                }
            }
            StreamLine::ToolResults(calls) => calls.iter().try_for_each(|call| report.tool_ended(call))?,
            // The text of a turn without a request answers no message.
            StreamLine::Text(piece) if self.given.is_read() => self.unfinished.push(&piece),
            StreamLine::Begins => self.unfinished.clear(),
            StreamLine::Result { session, outcome, usage } => {
                self.unfinished.clear();
                report.used(self.usage.since_last(usage));
                if outcome.is_ok() {
                    self.is_proved = true;
                    report.remember_some(session)?;
                }
                let earlier = std::mem::take(&mut self.earlier);
                return Ok(Some(outcome.map(|text| earlier.complete(text))));
            }
            StreamLine::Queued => self.given.queued(),
            StreamLine::Took(uuid) => {
                if let Some(What::Arrival(id)) = self.given.took(&uuid) {
                    report.join(id);
                }
            }
            StreamLine::Busy(busy) => self.is_busy = busy,
            StreamLine::Background(tasks) => report.background(tasks > 0)?,
            StreamLine::Compacted(tokens) => report.say(Utterance::reply(compaction::notice(tokens)))?,
            StreamLine::Retries { status, error } => {
                self.signs.retried = status;
                let status = status.map_or("no answer".to_owned(), |status| status.to_string());
                log::note(format_args!("the model's API is asked again ({status}, {error})"));
            }
            StreamLine::Exhausted { until } => {
                self.signs.exhausted_until = until.and_then(|seconds| seconds.checked_mul(1000));
            }
            StreamLine::Asks(id, request) => self.serve(&id, request, report)?,
            StreamLine::Withdraws(id) => self.withdraw(&id, report)?,
            StreamLine::Alive | StreamLine::Text(_) | StreamLine::Flows | StreamLine::Other => {}
            StreamLine::Noise => log::note(format_args!("the agent CLI wrote {length} bytes that are not JSON")),
        }
        Ok(None)
    }

    /// The CLI does not wait any more for the answer to a request.
    fn withdraw(&mut self, id: &str, report: &mut Report<'_>) -> Result<(), TurnError> {
        for (call, _) in self.waiting.extract_if(.., |(_, request)| request == id) {
            self.tools.forget(&call);
        }
        for asked in self.asked.extract_if(.., |asked| asked.hook == id) {
            report.undecided(&asked.call, &asked.request)?;
        }
        Ok(())
    }

    fn begin(&mut self, version: &str) {
        if version != PINNED && !self.has_worked {
            log::note(format_args!("the agent CLI is {version:?}, Hearth was tried with {PINNED}; going on"));
        }
        self.has_worked = true;
    }

    /// Answers a request of the CLI, now or later.
    fn serve(&mut self, id: &str, mut request: Value, report: &mut Report<'_>) -> Result<(), TurnError> {
        let word = |request: &Value, name: &str| request.get(name).and_then(Value::as_str).unwrap_or("").to_owned();
        match word(&request, "subtype").as_str() {
            "hook_callback" => {
                let event = word(&request, "callback_id");
                let input = request.get("input").cloned().unwrap_or_default();
                if let Some(answer) = self.hook(id, &event, &input, report)? {
                    self.process.tell(control::answer(id, &answer));
                }
            }
            "mcp_message" if word(&request, "server_name") == control::SERVER => {
                let message = request.get_mut("message").map(Value::take).unwrap_or_default();
                let name = message.get("id").cloned();
                match (self.tools.take(message, report)?, name) {
                    (Some(answer), _) => self.process.tell(control::mcp_answer(id, &answer)),
                    (None, Some(name)) => self.waiting.push((name, id.to_owned())),
                    (None, None) => self.process.tell(control::mcp_answer(id, &control::mcp_nothing())),
                }
            }
            _ => self.process.tell(control::refusal(id)),
        }
        Ok(())
    }

    /// The answer to a hook; none if it comes later.
    fn hook(
        &mut self,
        id: &str,
        event: &str,
        input: &Value,
        report: &mut Report<'_>,
    ) -> Result<Option<Value>, TurnError> {
        let word = |name: &str| input.get(name).and_then(Value::as_str).unwrap_or("");
        let call = word("tool_use_id");
        match event {
            "PreToolUse" => return self.before_tool(id, input, report),
            "PostToolUse" => {
                report.call_ended(call, CallEnd::Ran);
                report.tool_ended(call)?;
            }
            "PostToolUseFailure" => {
                report.call_ended(call, CallEnd::Failed);
                report.tool_ended(call)?;
            }
            "PreCompact" => {
                self.archive(Path::new(word("transcript_path")), report.context());
                let wanted = compaction::instructions(&report.context().destinations);
                // The CLI adds a hook's message for the user to the instructions for the summary.
                return Ok(Some(serde_json::json!({"continue": true, "systemMessage": wanted})));
            }
            _ => {}
        }
        Ok(Some(hooks::go_on()))
    }

    /// Decides whether the CLI may use a tool, or asks.
    fn before_tool(&mut self, id: &str, input: &Value, report: &mut Report<'_>) -> Result<Option<Value>, TurnError> {
        let word = |name: &str| input.get(name).and_then(Value::as_str).unwrap_or("");
        let (tool, call) = (word("tool_name"), word("tool_use_id"));
        let given = input.get("tool_input").unwrap_or(&Value::Null);
        let called = CalledTool { id: call, name: tool, kind: "", input: given };
        if let Some(reason) = hooks::refusal(tool, &report.context().blocked_tools) {
            report.blocked(&called);
            report.tool_ended(call)?;
            return Ok(Some(hooks::deny(&reason)));
        }
        let timeout = hooks::declared_timeout(tool, given);
        match report.judge(&called)? {
            ToolAnswer::Allowed => {
                report.tool_started(call, tool, timeout)?;
                Ok(Some(hooks::go_on()))
            }
            ToolAnswer::Denied(reason) => {
                report.tool_ended(call)?;
                Ok(Some(hooks::deny(&reason)))
            }
            ToolAnswer::Asked(request) => {
                let (hook, call, tool) = (id.to_owned(), call.to_owned(), tool.to_owned());
                self.asked.push(AskedCall { hook, call, tool, timeout, request });
                Ok(None)
            }
        }
    }

    /// Archives the transcript. A failure does not stop the compaction.
    fn archive(&self, transcript: &Path, context: &Context) {
        match compaction::archive(transcript, context, &self.roots) {
            Ok(Some(path)) => log::note(format_args!("the conversation is archived in {}", path.display())),
            Ok(None) => {}
            Err(error) => log::note(format_args!("the conversation is compacted without an archive: {error}")),
        }
    }
}
