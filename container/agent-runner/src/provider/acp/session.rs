//! A session with a running agent: prompts, and what they lead to.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::agent::{Agent, Continuation};
use super::launch::Parameters;
use super::peer::{Heard, Peer};
use super::permission::{self, Asked, Permitted, Permitter};
use super::rpc::{Line, Refusal};
use super::transcript::{self, Record};
use super::trouble::{self, Complaint};
use super::usage::UsageMeter;
use super::words::{self, Call, Chunk, ToolCall, Update, Words};
use crate::failure::Failure;
use crate::outgoing::Utterance;
use crate::provider::dispatch;
use crate::provider::earlier::EarlierText;
use crate::report::Report;
use crate::tool_calls::CalledTool;
use crate::turn::{Turn, TurnError};
use crate::{images, log};

/// Messages of an agent without a tool call in between, after which its turn is cancelled: it asks its model again and
/// again.
const MOST_REPEATS: u32 = 50;
/// Tool calls whose names are kept.
const MOST_CALLS: usize = 256;
/// Maximum length of a notice in the log.
const NOTICE_CHARS: usize = 300;

#[derive(Debug)]
pub(super) struct Session {
    parameters: Parameters,
    peer: Peer,
    agent: Agent,
    id: String,
    is_resumed: bool,
    /// Whether the agent has answered something, so that the session exists on the disk.
    is_proved: bool,
    turns: u64,
    /// Whether results of earlier turns had numbers of tokens.
    has_counted: bool,
    meter: UsageMeter,
    words: Words,
    /// What was written before tools.
    earlier: EarlierText,
    /// The tools under way, by their ids.
    calls: BTreeMap<String, Call>,
    /// The tools of this turn that ended.
    called: Vec<Call>,
    permitter: Permitter,
    /// A tool of this turn that was not allowed, and why.
    denied: Option<(String, String)>,
    /// The prompt that is being answered.
    prompt: Option<u64>,
}

/// A session that was opened with an agent.
#[derive(Debug)]
pub(super) struct OpenedSession {
    pub(super) agent: Agent,
    pub(super) id: String,
    pub(super) is_resumed: bool,
    pub(super) meter: UsageMeter,
}

/// Result of an attempt at a turn.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    /// The turn ended; the report has the result.
    Ended,
    /// The agent does not know the session to go on with.
    Unknown,
    /// The process of earlier turns ended before it wrote anything in this one.
    Stale,
}

/// What the end of a prompt means.
#[derive(Debug)]
enum Verdict {
    /// The agent does not know the session to go on with.
    Unknown,
    Failed(Failure),
    Said(String),
}

impl Session {
    pub(super) fn new(parameters: Parameters, peer: Peer, opened: OpenedSession) -> Self {
        let OpenedSession { agent, id, is_resumed, meter } = opened;
        Self {
            parameters,
            peer,
            agent,
            id,
            is_resumed,
            is_proved: false,
            turns: 0,
            has_counted: false,
            meter,
            words: Words::default(),
            earlier: EarlierText::default(),
            calls: BTreeMap::new(),
            called: Vec::new(),
            permitter: Permitter::default(),
            denied: None,
            prompt: None,
        }
    }

    /// Whether it runs with these parameters.
    pub(super) fn serves(&mut self, parameters: &Parameters) -> bool {
        self.parameters == *parameters && self.peer.is_alive()
    }

    pub(super) fn has_news(&mut self) -> bool {
        self.peer.has_news()
    }

    /// Handles output between turns. Returns whether the process still runs.
    pub(super) fn between(&mut self, report: &mut Report<'_>) -> Result<bool, TurnError> {
        self.peer.between(report)
    }

    /// Asks the agent to cancel the turn.
    pub(super) fn cancel(&mut self) {
        self.peer.notify("session/cancel", &json!({"sessionId": self.id}));
        self.abandon();
    }

    /// Answers the requests for permission that still wait.
    fn abandon(&mut self) {
        for id in self.permitter.abandon() {
            self.peer.answer(&id, &permission::cancelled());
        }
    }

    /// Lets the process end gracefully.
    pub(super) fn close(self) {
        self.peer.close(self.prompt);
    }

    /// Works until the agent has answered the prompt.
    pub(super) fn converse(&mut self, turn: &Turn, report: &mut Report<'_>) -> Result<Attempt, TurnError> {
        self.words.begin();
        self.earlier = EarlierText::default();
        self.denied = None;
        self.called.clear();
        let prompt = self.peer.send("session/prompt", &json!({"sessionId": self.id, "prompt": self.blocks(turn)}));
        self.prompt = Some(prompt);
        let mut is_heard = self.turns == 0;
        self.turns += 1;
        loop {
            for permitted in self.permitter.settle(report)? {
                self.tell(permitted);
            }
            match self.peer.hear_while(self.permitter.is_waiting(), report)? {
                Heard::Nothing => {}
                Heard::Gone(how) if !is_heard => {
                    log::note(format_args!("between turns the agent {how}; it is started again"));
                    report.tools_ended()?;
                    self.prompt = None;
                    return Ok(Attempt::Stale);
                }
                Heard::Gone(how) => return Err(trouble::gone(&how, report.tool()).into()),
                Heard::Line(Line::Answer { id, outcome }) if id == prompt => {
                    self.prompt = None;
                    return self.conclude(outcome, turn, report);
                }
                Heard::Line(line) => {
                    is_heard = true;
                    self.take(line, report)?;
                }
            }
        }
    }

    /// The prompt. The first one of a process has the instructions, if the agent takes them in no other way.
    fn blocks(&self, turn: &Turn) -> Value {
        let block = |text: &str| json!({"type": "text", "text": text});
        let mut blocks = Vec::new();
        if self.turns == 0 && !self.agent.takes_instructions {
            blocks.push(block(&format!("<instructions>\n{}\n</instructions>", self.parameters.instructions)));
        }
        blocks.push(block(&turn.prompt));
        if self.agent.sees_images {
            let images = images::of(&self.parameters.session, turn).into_iter();
            blocks.extend(images.map(|one| json!({"type": "image", "mimeType": one.kind, "data": one.data})));
        }
        blocks.into()
    }

    fn take(&mut self, line: Line, report: &mut Report<'_>) -> Result<(), TurnError> {
        match line {
            Line::Request { id, method, params } if method == "session/request_permission" => {
                self.permit(id, params, report)?;
            }
            Line::Request { id, method, .. } => self.peer.decline(&id, &method),
            Line::Notice { method, mut params } if method == "session/update" => {
                let is_ours = params.get("sessionId").and_then(Value::as_str) == Some(self.id.as_str());
                let update = params.get_mut("update").map(Value::take).unwrap_or_default();
                if is_ours && let Ok(update) = serde_json::from_value(update) {
                    self.update(update, report)?;
                }
            }
            Line::Answer { .. } | Line::Notice { .. } | Line::Noise => {}
        }
        Ok(())
    }

    fn update(&mut self, update: Update, report: &mut Report<'_>) -> Result<(), TurnError> {
        match update {
            Update::AgentMessageChunk(chunk) => {
                if let Some(call) = chunk.usage() {
                    self.meter.call(call);
                }
                self.hear(chunk, report)?;
            }
            Update::Usage(words::UsageUpdate { cost: Some(words::Cost { amount, currency }) }) => {
                self.meter.costs(amount, &currency);
            }
            Update::Usage(_) => {}
            Update::UserMessageChunk(_) => self.words.replayed(),
            Update::ToolCall(call) => {
                self.prove(report)?;
                self.earlier.write(&self.words.tool());
                let verbosity = report.context().provider.verbosity;
                let name = call.name().unwrap_or_default();
                self.earlier.tool_called(name, verbosity).into_iter().try_for_each(|said| report.say(said))?;
                self.started(&call, report)?;
            }
            Update::ToolChanged(call) if call.has_ended() => {
                if let Some(mut known) = self.calls.remove(&call.tool_call_id) {
                    known.learn(&call);
                    let (id, name, kind) = (&call.tool_call_id, &known.name, &known.kind);
                    report.seen(&CalledTool { id, name, kind, input: &known.input }, call.end());
                    known.input = Value::Null;
                    self.note_call(known);
                }
                report.tool_ended(&call.tool_call_id)?;
            }
            Update::Session(info) => {
                if let Some(warning) = info.warning() {
                    notice(warning);
                }
            }
            Update::ToolChanged(call) => {
                if let Some(known) = self.calls.get_mut(&call.tool_call_id) {
                    known.learn(&call);
                }
            }
            Update::Other => {}
        }
        Ok(())
    }

    /// Handles a part of a text.
    fn hear(&mut self, chunk: Chunk, report: &mut Report<'_>) -> Result<(), TurnError> {
        if trouble::is_notice(&self.agent.name, chunk.text()) {
            notice(chunk.text());
            return Ok(());
        }
        match self.words.chunk(chunk) {
            words::Heard::Message => {
                self.prove(report)?;
                if self.words.repeats() > MOST_REPEATS {
                    let why = format!("the agent asked its model {MOST_REPEATS} times without a whole answer");
                    return Err(Failure::passing(why).into());
                }
            }
            words::Heard::Notice(text) => {
                notice(&text);
                if words::tells_of_compaction(&text) {
                    report.say(Utterance::reply("Context compacted.".to_owned()))?;
                }
            }
            words::Heard::Empty => {}
        }
        Ok(())
    }

    fn started(&mut self, call: &ToolCall, report: &mut Report<'_>) -> Result<(), TurnError> {
        let id = &call.tool_call_id;
        if call.has_ended() || self.calls.contains_key(id) || self.calls.len() >= MOST_CALLS {
            return Ok(());
        }
        let mut known = Call::default();
        known.learn(call);
        if known.name.is_empty() {
            "a tool".clone_into(&mut known.name);
        }
        report.tool_started(id, &known.name, None)?;
        self.calls.insert(id.clone(), known);
        Ok(())
    }

    /// Decides about a tool that the agent asks permission for. Some agents announce a tool only so.
    fn permit(&mut self, id: Value, params: Value, report: &mut Report<'_>) -> Result<(), TurnError> {
        let asked = params.get("toolCall").cloned().map(serde_json::from_value::<ToolCall>);
        let Some(Ok(asked)) = asked else {
            self.peer.answer(&id, &permission::cancelled());
            return Ok(());
        };
        self.started(&asked, report)?;
        let mut call = self.calls.get(&asked.tool_call_id).cloned().unwrap_or_default();
        call.learn(&asked);
        let asked = Asked { id, params, call: &asked.tool_call_id, about: &call };
        let policy = self.parameters.permissions;
        if let Some(permitted) = self.permitter.request(asked, policy, report)? {
            self.tell(permitted);
        }
        Ok(())
    }

    fn tell(&mut self, permitted: Permitted) {
        let Permitted { id, answer, denied } = permitted;
        self.denied = denied.or(self.denied.take());
        self.peer.answer(&id, &answer);
    }

    fn note_call(&mut self, call: Call) {
        if self.called.len() < MOST_CALLS {
            self.called.push(call);
        }
    }

    /// Stores the session's id once the agent has answered something.
    fn prove(&mut self, report: &mut Report<'_>) -> Result<(), TurnError> {
        if !self.is_proved {
            self.is_proved = true;
            self.remember(report)?;
        }
        Ok(())
    }

    fn remember(&self, report: &mut Report<'_>) -> Result<(), TurnError> {
        let (agent, session, totals) = (self.agent.name.clone(), self.id.clone(), self.meter.totals().clone());
        let server = self.parameters.server.clone();
        let text = serde_json::to_string(&Continuation { agent, session, server, totals });
        report.remember(Some(&text.map_err(|error| TurnError::Failed(error.to_string()))?))
    }

    /// Reports what a turn used, and stores what the next one is counted from.
    fn count(&mut self, result: Option<&Value>, turn: &Turn, report: &mut Report<'_>) -> Result<(), TurnError> {
        let before = self.meter.totals().clone();
        report.used(self.meter.turn(result, turn.context.provider.model.as_deref()));
        if self.is_proved && *self.meter.totals() != before { self.remember(report) } else { Ok(()) }
    }

    /// Handles the answer to the prompt.
    fn conclude(
        &mut self,
        outcome: Result<Value, Refusal>,
        turn: &Turn,
        report: &mut Report<'_>,
    ) -> Result<Attempt, TurnError> {
        let tool = report.tool().map(str::to_owned);
        report.tools_ended()?;
        for call in std::mem::take(&mut self.calls).into_values() {
            self.note_call(call);
        }
        self.abandon();
        let result = outcome.as_ref().ok().cloned();
        let ended = match self.verdict(outcome, tool.as_deref()) {
            Verdict::Unknown => return Ok(Attempt::Unknown),
            Verdict::Failed(failure) => Err(failure),
            Verdict::Said(text) => Ok(text),
        };
        self.count(result.as_ref(), turn, report)?;
        let said = match &ended {
            Ok(text) => text.clone(),
            Err(failure) => format!("[The turn failed: {}]", failure.error),
        };
        let record = Record { prompt: &turn.prompt, calls: &self.called, said: &said };
        transcript::add(&self.parameters.home, &self.id, &record);
        let outcome = match ended {
            Ok(text) => {
                self.prove(report)?;
                dispatch::addressed(&text).into_iter().try_for_each(|said: Utterance| report.answer(said))?;
                self.note_missing_tools();
                Ok(())
            }
            Err(failure) => Err(failure),
        };
        report.end_part(outcome).map(|()| Attempt::Ended)
    }

    /// What the answer to the prompt means.
    fn verdict(&mut self, outcome: Result<Value, Refusal>, tool: Option<&str>) -> Verdict {
        let is_unproved = self.is_resumed && !self.is_proved;
        let result = match outcome {
            Ok(result) => result,
            Err(refusal) if is_unproved && trouble::is_unknown_session(&refusal, &self.id) => return Verdict::Unknown,
            Err(refusal) => return Verdict::Failed(Complaint::of(&refusal).failure(tool)),
        };
        let reason = result.get("stopReason").and_then(Value::as_str).unwrap_or_default();
        if reason == "refusal" && is_unproved {
            return Verdict::Unknown;
        }
        let text = self.words.text();
        let complaint = Complaint::in_result(&result)
            .or_else(|| Complaint::in_answer(&self.agent.name, text, &result, self.has_counted));
        if let Some(complaint) = complaint {
            return Verdict::Failed(complaint.failure(tool));
        }
        self.has_counted |= result.get("usage").is_some();
        let note = match reason {
            "refusal" => return Verdict::Failed(Failure::lasting("the model refused to answer this")),
            "cancelled" => return Verdict::Failed(Failure::passing("the agent cancelled its turn by itself")),
            "max_tokens" => "\n\n[The answer is cut off: it reached the limit of the model.]",
            "max_turn_requests" => "\n\n[The agent stopped here: it reached its limit of calls of the model.]",
            _ => "",
        };
        Verdict::Said(match &self.denied {
            Some((tool, reason)) if text.is_empty() => format!("The tool {tool} is not allowed here. {reason}"),
            _ => format!("{}{note}", std::mem::take(&mut self.earlier).complete(text.to_owned())),
        })
    }

    /// Some agents silently do not start a server of tools.
    fn note_missing_tools(&self) {
        if self.turns == 1 && !self.peer.relay().has_listed() {
            log::note("the agent has not asked for Hearth's tools; it answers without them");
        }
    }
}

fn notice(text: &str) {
    let text: String = text.chars().take(NOTICE_CHARS).collect();
    log::note(format_args!("a notice of the agent: {text}"));
}
