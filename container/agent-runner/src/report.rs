//! A provider's interface during a turn: progress, tools, messages, continuations, new arrivals, and the ends of parts.
//!
//! Every method may return the runner's stop; the gate is checked first where it matters.
//!
//! A turn ends as a whole, unless its provider accepts messages while it works. Then each of its results ends the
//! *part* it covers. An arriving message is added in two steps, so that no result ends a message that it does not
//! cover: the message is claimed and given to the provider, and joins the open part once the provider shows that it has
//! read it. Messages that were never read wait for the next turn.

mod post;
mod tools;

use std::path::Path;
use std::time::Duration;

use hearth_wire::{
    Context, DestinationTarget, InMessage, OutId, OutKind, OutMessage, Reply, Usage, WIRE_VERSION, Writing, limits,
};
use serde_json::Value;

use crate::failure::Failure;
use crate::log;
use crate::outgoing::{
    Attachment, Content, Origin, OutgoingRecipient, Utterance, answered, attachment_names, known_target, pieces,
};
use crate::runner_state::RunnerState;
use crate::strip::strip_payload;
use crate::turn::{Turn, TurnError};
use crate::usage;

pub(crate) use self::post::{Post, Scene};
pub(crate) use self::tools::ToolAnswer;

/// Maximum number of answers in one turn; an ack lists them all in one file.
const MOST_ANSWERS: usize = 1000;
/// The one request whose content people see unchanged.
const QUESTION: &str = "ask_user_question";
/// The question whether a tool may be used.
const USE_TOOL: &str = "use_tool";
/// How long a person may take to decide about a tool, in milliseconds. The host ends the wait earlier.
const DECISION_MS: u64 = 2 * 60 * 60 * 1000;
/// Default timeout of a question in seconds.
const QUESTION_SECONDS: f64 = 300.0;
/// Additional time for the host to report that a question was not answered.
const QUESTION_GRACE: Duration = Duration::from_secs(60);

/// The name of a provider's continuation.
fn memory_of(provider: &hearth_wire::Provider) -> &str {
    provider.memory.as_deref().unwrap_or(&provider.name)
}

/// A provider's handle of one turn.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    state: &'a mut RunnerState,
    turn: &'a Turn,
    /// The open part: its triggering messages, all messages that end with it, and the answers so far.
    asked: Vec<InMessage>,
    seqs: Vec<u64>,
    answers: Vec<OutMessage>,
    /// Messages given to the provider that it has not read yet.
    told: Vec<Arrival>,
}

/// Messages that arrived during a turn and were given to the provider together.
#[derive(Debug)]
struct Arrival {
    id: u64,
    messages: Vec<InMessage>,
}

impl<'a> Report<'a> {
    /// The report of a claimed turn.
    pub(crate) fn new(state: &'a mut RunnerState, turn: &'a Turn, seqs: Vec<u64>) -> Self {
        state.heard.hear(&turn.background);
        state.heard.hear(&turn.asked);
        Self { state, turn, asked: turn.asked.clone(), seqs, answers: Vec::new(), told: Vec::new() }
    }

    /// Claims newly arrived messages if one of them triggers. Returns their id and what the provider gets.
    pub(crate) fn arrivals(&mut self) -> Result<Option<(u64, Turn)>, TurnError> {
        let Some(messages) = self.state.arrived(&self.turn.context.provider.name)? else { return Ok(None) };
        let context = self.state.gate.pass()?;
        self.state.numbers.at_least(context.next_number);
        let id = messages.last().map_or(0, |message| message.seq);
        // The turn's first prompt already showed the messages of an earlier incarnation.
        let context = Context { already_sent: Vec::new(), recap: Vec::new(), ..context };
        let told = Turn::compose(self.state.root(), context, messages.clone());
        self.told.push(Arrival { id, messages });
        Ok(Some((id, told)))
    }

    /// Marks messages as read: they end with the next result.
    pub(crate) fn join(&mut self, id: u64) {
        let (read, told): (Vec<_>, Vec<_>) = std::mem::take(&mut self.told).into_iter().partition(|told| told.id == id);
        self.told = told;
        for message in read.into_iter().flat_map(|arrival| arrival.messages) {
            self.state.heard.hear(std::slice::from_ref(&message));
            self.seqs.push(message.seq);
            if message.trigger {
                self.asked.push(message);
            }
        }
    }

    /// Whether the turn contains messages that no result covers yet.
    pub(crate) fn is_open(&self) -> bool {
        !self.seqs.is_empty()
    }

    /// Records what the provider used of models. The next ack of a turn says it.
    pub(crate) fn used(&mut self, usages: Vec<Usage>) {
        for usage in usages {
            match self.state.usage.iter_mut().find(|known| known.model == usage.model) {
                Some(known) => usage::add(known, &usage),
                None => self.state.usage.push(usage),
            }
        }
    }

    /// Ends the open part: its answers take effect with its ack, or it failed. A new part begins.
    pub(crate) fn end_part(&mut self, outcome: Result<(), Failure>) -> Result<(), TurnError> {
        self.state.calls.abandon();
        self.report_all_calls()?;
        let answers = std::mem::take(&mut self.answers);
        let mut seqs = std::mem::take(&mut self.seqs);
        self.asked.clear();
        seqs.sort_unstable();
        let (mut out, mut failed) = (Vec::new(), None);
        match outcome {
            Ok(()) => {
                for message in answers {
                    self.state.write(&mut |agent| agent.out(&message))?;
                    out.push(message.id);
                }
            }
            Err(failure) => {
                let last = seqs.last().copied().unwrap_or_default();
                log::note(format_args!("the turn of message {last} failed: {}", failure.error));
                for message in answers.iter().filter(|message| !message.files.is_empty()) {
                    self.state.agent.drop_out_files(&message.id);
                }
                failed = Some(failure);
            }
        }
        // Only many arrivals together can exceed the limit of one ack. In that case the ack with the answers is written
        // first.
        let (rest, last) = seqs.split_at(seqs.len().saturating_sub(limits::ENDS_PER_ACK + 1));
        self.state.end(last, out, failed.as_ref())?;
        for some in rest.chunks(limits::ENDS_PER_ACK + 1) {
            self.state.end(some, Vec::new(), failed.as_ref())?;
        }
        self.state.board.settle()?;
        Ok(())
    }

    /// Ends the turn, whatever its result. Messages that the provider has not read wait for the next one.
    pub(crate) fn leave(self) {
        self.state.inbox.put_back(self.told.into_iter().flat_map(|arrival| arrival.messages));
    }

    /// The session's directory, in which the host's files are.
    pub(crate) fn root(&self) -> &Path {
        self.state.root()
    }

    /// The context of the turn.
    pub(crate) fn context(&self) -> &'a Context {
        &self.turn.context
    }

    /// The running tool, if any: of several, the one with the longest timeout.
    pub(crate) fn tool(&self) -> Option<&str> {
        self.state.board.tool()
    }

    /// Whether to continue. To be called in every pause, at least every 250 ms.
    pub(crate) fn check(&mut self) -> Result<(), TurnError> {
        self.state.gate.check()?;
        self.state.board.flush()?;
        self.state.memory.flush()?;
        self.report_calls()
    }

    /// Records activity of the provider.
    pub(crate) fn progress(&mut self) -> Result<(), TurnError> {
        self.state.gate.check()?;
        self.state.board.progress()?;
        Ok(())
    }

    /// Records that the provider's output goes on.
    pub(crate) fn flows(&mut self) -> Result<(), TurnError> {
        self.state.gate.check()?;
        self.state.board.flows()?;
        Ok(())
    }

    /// Whether a text that is not complete would be shown now.
    pub(crate) fn shows_writing(&self) -> bool {
        self.state.board.is_writable()
    }

    /// Where the messages of the open part came from.
    pub(crate) fn origin(&self) -> Origin {
        Origin::of(&self.asked, self.turn.context.reply.as_ref())
    }

    /// The destinations that are the chat to which text without a destination goes.
    pub(crate) fn own_destinations(&self) -> Vec<&'a str> {
        let Some(reply) = self.asked.last().and_then(|message| message.reply.as_ref()) else { return Vec::new() };
        let is_own = |target: &DestinationTarget| match target {
            DestinationTarget::Channel { channel, platform_id } => {
                (channel, platform_id) == (&reply.channel, &reply.platform_id)
            }
            DestinationTarget::Agent { .. } => false,
        };
        let own = self.turn.context.destinations.iter().filter(|destination| is_own(&destination.target));
        own.map(|destination| destination.name.as_str()).collect()
    }

    /// Shows the end of a text that is not complete, or, if it is empty, that there is none. Answers to commands of the
    /// provider are shown only as a whole.
    pub(crate) fn writing(&mut self, text: String) -> Result<(), TurnError> {
        let asked = self.asked.last().filter(|_| self.turn.native.is_none() && !text.is_empty());
        let writing = asked.map(|message| Writing { in_reply_to: message.seq, text });
        self.state.board.writing(writing)?;
        Ok(())
    }

    /// Records the start of a tool. `call` identifies it at its end.
    pub(crate) fn tool_started(&mut self, call: &str, name: &str, timeout_ms: Option<u64>) -> Result<(), TurnError> {
        self.state.gate.pass()?;
        self.state.board.progress()?;
        self.state.board.tool_started(call, name, timeout_ms)?;
        Ok(())
    }

    pub(crate) fn tool_ended(&mut self, call: &str) -> Result<(), TurnError> {
        self.state.board.progress()?;
        self.state.board.tool_ended(call)?;
        Ok(())
    }

    /// Records that no tool runs any more.
    pub(crate) fn tools_ended(&mut self) -> Result<(), TurnError> {
        self.state.board.settle()?;
        Ok(())
    }

    /// Records whether the provider works in the background.
    pub(crate) fn background(&mut self, runs: bool) -> Result<(), TurnError> {
        self.state.board.background(runs)?;
        Ok(())
    }

    /// Sends a message at once, whatever the turn's result.
    pub(crate) fn say(&mut self, utterance: Utterance) -> Result<(), TurnError> {
        self.state.board.progress()?;
        for message in self.prepare(utterance, false)? {
            self.state.write(&mut |agent| agent.out(&message))?;
        }
        Ok(())
    }

    /// Sends a request to the host and returns its id. It counts as a running tool until it is answered.
    pub(crate) fn ask(&mut self, mut content: Value, target: &OutgoingRecipient) -> Result<OutId, TurnError> {
        let (name, timeout_ms) = request_tool(&content);
        if name == QUESTION {
            strip_payload(&mut content);
        }
        let in_reply_to = answered(&self.asked, target, None);
        let mut message = self.blank(target, false, in_reply_to)?;
        (message.kind, message.content) = (OutKind::System, content);
        message.request_id = Some(message.id.clone());
        let size = serde_json::to_vec(&message).map(|bytes| bytes.len() as u64).unwrap_or(u64::MAX);
        if size > self.turn.context.limits.max_json_bytes.min(limits::JSON_BYTES) {
            return Err(TurnError::Failed(format!("a request to the host is too large: {size} bytes")));
        }
        self.tool_started(message.id.as_str(), &name, timeout_ms)?;
        self.state.write(&mut |agent| agent.out(&message))?;
        Ok(message.id)
    }

    /// Sends a message at once and asks for the result. Returns the ids of the requests, one for each part of a long
    /// text.
    pub(crate) fn say_and_ask(&mut self, utterance: Utterance) -> Result<Vec<OutId>, TurnError> {
        self.state.board.progress()?;
        let mut asked = Vec::new();
        for mut message in self.prepare(utterance, false)? {
            message.request_id = Some(message.id.clone());
            self.state.write(&mut |agent| agent.out(&message))?;
            asked.push(message.id);
        }
        Ok(asked)
    }

    /// The host's answer to a request, if available.
    pub(crate) fn reply(&mut self, request: &OutId) -> Result<Option<Reply>, TurnError> {
        match self.state.host.reply(request) {
            Ok(None) => Ok(None),
            Ok(Some(reply)) => {
                self.tool_ended(request.as_str())?;
                Ok(Some(reply))
            }
            Err(error) if error.is_final() => Err(TurnError::Failed(format!("the host's answer: {error}"))),
            Err(error) => {
                log::note(format_args!("{error}; trying again"));
                Ok(None)
            }
        }
    }

    /// Adds an answer, which is sent if the turn succeeds.
    pub(crate) fn answer(&mut self, utterance: Utterance) -> Result<(), TurnError> {
        self.state.board.progress()?;
        if self.answers.len() >= MOST_ANSWERS {
            return Err(TurnError::Failed(format!("the provider gave more than {MOST_ANSWERS} answers in one turn")));
        }
        let prepared = self.prepare(utterance, true)?;
        self.answers.extend(prepared);
        Ok(())
    }

    /// The provider's stored continuation.
    pub(crate) fn continuation(&self) -> Option<String> {
        self.state.memory.continuation(memory_of(&self.turn.context.provider)).map(str::to_owned)
    }

    /// Stores the provider's continuation; `None` means a new conversation.
    pub(crate) fn remember(&mut self, continuation: Option<&str>) -> Result<(), TurnError> {
        self.state.memory.remember(memory_of(&self.turn.context.provider), continuation)?;
        Ok(())
    }

    /// Forgets the continuations of all providers: each begins a new conversation.
    pub(crate) fn forget(&mut self) -> Result<(), TurnError> {
        self.state.memory.forget()?;
        Ok(())
    }

    /// Stores the provider's continuation, if there is one.
    pub(crate) fn remember_some(&mut self, continuation: Option<String>) -> Result<(), TurnError> {
        continuation.map_or(Ok(()), |continuation| self.remember(Some(&continuation)))
    }

    /// Builds messages that the host accepts. Writes their attachments, but not their JSON.
    fn prepare(&mut self, mut utterance: Utterance, is_final: bool) -> Result<Vec<OutMessage>, TurnError> {
        let context = &self.turn.context;
        utterance.content = match utterance.content.for_people() {
            Some(content) => content,
            None if utterance.files.is_empty() => return Ok(Vec::new()),
            None => Content::Text(String::new()),
        };
        let destination = match known_target(context, &utterance.target) {
            Some(destination) => destination,
            None => {
                utterance = undeliverable(utterance);
                None
            }
        };
        let in_reply_to = answered(&self.asked, &utterance.target, destination);
        utterance.target = self.state.heard.in_thread(utterance.target, destination);
        let limit = context.limits.max_json_bytes.min(limits::JSON_BYTES);
        let names = attachment_names(&utterance.files).map_err(TurnError::Failed)?;
        let Utterance { content, target, files } = utterance;
        let mut like = self.blank(&target, is_final, in_reply_to)?;
        like.files = names;
        let mut messages = Vec::new();
        for content in fitting(&like, content, limit).map_err(TurnError::Failed)? {
            let first = messages.is_empty();
            let mut piece = if first { like.clone() } else { self.blank(&target, is_final, in_reply_to)? };
            (piece.kind, piece.content) = content.into_parts();
            piece.files.clear();
            messages.push(piece);
        }
        if let (Some(last), false) = (messages.last_mut(), files.is_empty()) {
            last.files = like.files;
            self.write_files(&last.id, &files)?;
        }
        Ok(messages)
    }

    fn write_files(&mut self, id: &OutId, files: &[Attachment]) -> Result<(), TurnError> {
        let max = self.turn.context.limits.max_file_bytes.min(limits::FILE_BYTES);
        for file in files {
            match file.open(max) {
                Ok(mut content) => self.state.write(&mut |agent| agent.out_file(id, &file.name, &mut content))?,
                Err(reason) => {
                    self.state.agent.drop_out_files(id);
                    return Err(TurnError::Failed(reason));
                }
            }
        }
        Ok(())
    }

    /// An empty message with its own id.
    fn blank(
        &mut self,
        target: &OutgoingRecipient,
        is_final: bool,
        in_reply_to: Option<u64>,
    ) -> Result<OutMessage, TurnError> {
        let incarnation = self.state.gate.incarnation();
        let number = self.state.numbers.take(&mut self.state.memory)?;
        let seq = self.asked.last().map_or(0, |message| message.seq);
        let id = OutId::new(format!("{incarnation}-{number}-{seq}")).map_err(TurnError::Failed)?;
        let (kind, content) = Content::Text(String::new()).into_parts();
        let (destination, address) = match target {
            OutgoingRecipient::Reply => (None, None),
            OutgoingRecipient::Destination(name) => (Some(name.clone()), None),
            OutgoingRecipient::Address(address) => (None, Some(address.clone())),
        };
        Ok(OutMessage {
            v: WIRE_VERSION,
            id,
            incarnation,
            number,
            is_final,
            in_reply_to,
            kind,
            destination,
            address,
            content,
            files: Vec::new(),
            request_id: None,
            deliver_after: None,
        })
    }
}

/// A pending request as a tool in the state file, with a timeout long enough for people.
fn request_tool(content: &Value) -> (String, Option<u64>) {
    let action = content.get("action").and_then(Value::as_str).unwrap_or("request");
    let name: String = action.chars().take(64).collect();
    if action == USE_TOOL {
        return (name, Some(DECISION_MS));
    }
    if action != QUESTION {
        return (name, None);
    }
    let seconds = content.get("timeout").and_then(Value::as_f64).unwrap_or(QUESTION_SECONDS);
    let timeout = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX).saturating_add(QUESTION_GRACE);
    (name, Some(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)))
}

/// Redirects a message for an unknown destination to the chat that asked, so that people there see it.
fn undeliverable(utterance: Utterance) -> Utterance {
    let OutgoingRecipient::Destination(name) = &utterance.target else { return utterance };
    let note = format!("[meant for {name:?}, which is not a known destination]");
    let content = match utterance.content {
        Content::Text(text) => Content::Text(format!("{note} {text}")),
        Content::Payload { content, .. } => Content::Text(format!("{note} {content}")),
    };
    Utterance { content, target: OutgoingRecipient::Reply, files: utterance.files }
}

/// Splits the content into parts that fit into messages like `like`.
fn fitting(like: &OutMessage, content: Content, limit: u64) -> Result<Vec<Content>, String> {
    let fits = |content: Content| {
        let (kind, content) = content.into_parts();
        // Later parts have higher numbers, which may have more digits; some bytes are reserved for them.
        let bytes =
            serde_json::to_vec(&OutMessage { kind, content, ..like.clone() }).map(|bytes| bytes.len() as u64 + 64);
        bytes.is_ok_and(|bytes| bytes <= limit)
    };
    if fits(content.clone()) {
        return Ok(vec![content]);
    }
    match content {
        Content::Text(text) => pieces(&text, &|piece| fits(Content::Text(piece.to_owned())))
            .map(|pieces| pieces.into_iter().map(Content::Text).collect())
            .ok_or_else(|| {
                format!("the provider's text of {} bytes is too long to be sent, even in pieces", text.len())
            }),
        Content::Payload { .. } => Err(format!("a payload has more than the {limit} bytes a message may have")),
    }
}
