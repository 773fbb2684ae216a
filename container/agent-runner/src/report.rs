//! What a provider can do during a turn: move, use tools, speak, remember.
//!
//! Every method may end the runner: each goes through the gate first where it matters.

use std::sync::Arc;
use std::time::Duration;

use hearth_wire::{Ack, AckStatus, Context, InMessage, OutId, OutKind, OutMessage, Reply, WIRE_VERSION, limits};
use serde_json::Value;

use crate::agent::AgentHalf;
use crate::clock::{Stopwatch, now_iso};
use crate::gate::Gate;
use crate::host::HostHalf;
use crate::log;
use crate::memory::Memory;
use crate::numbers::Numbers;
use crate::outgoing::{Attachment, Content, Target, Utterance, answered, attachment_names, known_target, pieces};
use crate::state::StateBoard;
use crate::stop::{Error, Stop};

/// Answers of one turn; an ack names them all in one file.
const MOST_ANSWERS: usize = 1000;
/// How long a full disk is waited out, and how often it is tried.
const FULL_DISK_PATIENCE: Duration = Duration::from_secs(60);
const FULL_DISK_PAUSE: Duration = Duration::from_millis(500);
/// How long a question waits that does not say.
const QUESTION_SECONDS: f64 = 300.0;
/// How long after that the host may take to say that nobody answered.
const QUESTION_GRACE: Duration = Duration::from_secs(60);
/// Bytes of an error that the host is told.
const ERROR_BYTES: usize = 4096;

/// What one turn is about.
#[derive(Debug)]
pub(crate) struct Turn {
    /// The context as it was when the turn began.
    pub(crate) context: Context,
    /// Messages that only tell what was said, the newest ones.
    pub(crate) background: Vec<InMessage>,
    /// Messages that ask for something; never empty.
    pub(crate) asked: Vec<InMessage>,
    /// All of it as text.
    pub(crate) prompt: String,
}

/// Why a turn has no answer.
#[derive(Debug)]
pub(crate) enum TurnError {
    /// The provider failed; the host is told why.
    Failed(String),
    /// The runner must end.
    Stopped(Stop),
}

impl From<Stop> for TurnError {
    fn from(stop: Stop) -> Self {
        Self::Stopped(stop)
    }
}

impl From<Error> for TurnError {
    fn from(error: Error) -> Self {
        Self::Stopped(Stop::Broken(error))
    }
}

/// What the runner holds for as long as it lives.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) host: HostHalf,
    pub(crate) gate: Gate,
    pub(crate) agent: Arc<AgentHalf>,
    pub(crate) memory: Memory,
    pub(crate) numbers: Numbers,
    pub(crate) state: StateBoard,
}

impl Desk {
    /// Writes something of a turn, if this incarnation still may. A full disk is waited out for a while: giving up would
    /// mean to do the whole turn again.
    fn write(&mut self, attempt: &mut dyn FnMut(&AgentHalf) -> Result<(), Error>) -> Result<(), Stop> {
        let waiting = Stopwatch::start();
        let mut said = false;
        loop {
            self.gate.pass()?;
            match attempt(&self.agent) {
                Err(error) if error.is_full_disk() && waiting.elapsed() < FULL_DISK_PATIENCE => {
                    if !said {
                        log::note(format_args!("{error}; waiting for room"));
                    }
                    said = true;
                    std::thread::sleep(FULL_DISK_PAUSE);
                }
                written => return Ok(written?),
            }
        }
    }

    /// Takes messages: each has a claim of its own.
    pub(crate) fn claim(&mut self, seqs: &[u64]) -> Result<(), Stop> {
        for seq in seqs {
            let ack = self.ack(*seq, AckStatus::Processing);
            self.write(&mut |agent| agent.ack(&ack))?;
        }
        Ok(())
    }

    /// Ends all messages of a turn with one ack, that of the last: well, or badly with an error.
    pub(crate) fn end(&mut self, seqs: &[u64], out: Vec<OutId>, error: Option<&str>) -> Result<(), Stop> {
        let Some((last, others)) = seqs.split_last() else { return Ok(()) };
        let status = if error.is_some() { AckStatus::Failed } else { AckStatus::Completed };
        let error = error.map(|text| text.get(..text.floor_char_boundary(ERROR_BYTES)).unwrap_or(text).to_owned());
        let ack = Ack { out, ends: others.to_vec(), error, ..self.ack(*last, status) };
        self.write(&mut |agent| agent.ack(&ack))
    }

    /// An ack that says nothing more.
    fn ack(&self, seq: u64, status: AckStatus) -> Ack {
        let (out, ends, incarnation) = (Vec::new(), Vec::new(), self.gate.incarnation());
        Ack {
            v: WIRE_VERSION,
            seq,
            incarnation,
            status,
            at: now_iso(),
            out,
            ends,
            error: None,
            gated: None,
            retry: None,
        }
    }
}

/// A provider's side of one turn.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    desk: &'a mut Desk,
    turn: &'a Turn,
    answers: Vec<OutMessage>,
}

impl<'a> Report<'a> {
    pub(crate) fn new(desk: &'a mut Desk, turn: &'a Turn) -> Self {
        Self { desk, turn, answers: Vec::new() }
    }

    /// To be called in every pause, at least every 250 ms: whether the work may go on.
    pub(crate) fn check(&mut self) -> Result<(), TurnError> {
        self.desk.gate.check()?;
        self.desk.state.flush()?;
        self.desk.memory.flush()?;
        Ok(())
    }

    /// The provider did something.
    pub(crate) fn progress(&mut self) -> Result<(), TurnError> {
        self.desk.gate.check()?;
        self.desk.state.progress()?;
        Ok(())
    }

    /// A tool starts; `call` is how its end will name it.
    pub(crate) fn tool_started(&mut self, call: &str, name: &str, timeout_ms: Option<u64>) -> Result<(), TurnError> {
        self.desk.gate.pass()?;
        self.desk.state.progress()?;
        self.desk.state.tool_started(call, name, timeout_ms)?;
        Ok(())
    }

    pub(crate) fn tool_ended(&mut self, call: &str) -> Result<(), TurnError> {
        self.desk.state.progress()?;
        self.desk.state.tool_ended(call)?;
        Ok(())
    }

    /// No tool runs any more.
    pub(crate) fn tools_ended(&mut self) -> Result<(), TurnError> {
        self.desk.state.settle()?;
        Ok(())
    }

    /// Says something at once; it stands whatever becomes of the turn.
    pub(crate) fn say(&mut self, utterance: Utterance) -> Result<(), TurnError> {
        self.desk.state.progress()?;
        for message in self.prepare(utterance, false)? {
            self.desk.write(&mut |agent| agent.out(&message))?;
        }
        Ok(())
    }

    /// Asks the host for something; the name of the request. A tool counts as running until it is answered.
    pub(crate) fn ask(&mut self, content: Value, target: &Target) -> Result<OutId, TurnError> {
        let (name, timeout_ms) = request_tool(&content);
        let in_reply_to = answered(&self.turn.asked, target, None);
        let mut message = self.blank(target, false, in_reply_to)?;
        (message.kind, message.content) = (OutKind::System, content);
        message.request_id = Some(message.id.clone());
        let size = serde_json::to_vec(&message).map(|bytes| bytes.len() as u64).unwrap_or(u64::MAX);
        if size > self.turn.context.limits.max_json_bytes.min(limits::JSON_BYTES) {
            return Err(TurnError::Failed(format!("a request to the host is too large: {size} bytes")));
        }
        self.tool_started(message.id.as_str(), &name, timeout_ms)?;
        self.desk.write(&mut |agent| agent.out(&message))?;
        Ok(message.id)
    }

    /// Says something at once and asks how that went; the names of the requests, one for each part of a long text.
    pub(crate) fn say_and_ask(&mut self, utterance: Utterance) -> Result<Vec<OutId>, TurnError> {
        self.desk.state.progress()?;
        let mut asked = Vec::new();
        for mut message in self.prepare(utterance, false)? {
            message.request_id = Some(message.id.clone());
            self.desk.write(&mut |agent| agent.out(&message))?;
            asked.push(message.id);
        }
        Ok(asked)
    }

    /// The host's answer to a request, if it has come.
    pub(crate) fn reply(&mut self, request: &OutId) -> Result<Option<Reply>, TurnError> {
        match self.desk.host.reply(request) {
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

    /// Keeps something as an answer: it is sent if the turn ends well.
    pub(crate) fn answer(&mut self, utterance: Utterance) -> Result<(), TurnError> {
        self.desk.state.progress()?;
        if self.answers.len() >= MOST_ANSWERS {
            return Err(TurnError::Failed(format!("the provider gave more than {MOST_ANSWERS} answers in one turn")));
        }
        let prepared = self.prepare(utterance, true)?;
        self.answers.extend(prepared);
        Ok(())
    }

    /// Where the provider was, if it said so before.
    pub(crate) fn continuation(&self) -> Option<String> {
        self.desk.memory.continuation(&self.turn.context.provider.name).map(str::to_owned)
    }

    /// Notes where the provider is; with `None`, that it begins anew.
    pub(crate) fn remember(&mut self, continuation: Option<&str>) -> Result<(), TurnError> {
        self.desk.memory.remember(&self.turn.context.provider.name, continuation)?;
        Ok(())
    }

    /// Notes where the provider is, if it said so.
    pub(crate) fn remember_some(&mut self, continuation: Option<String>) -> Result<(), TurnError> {
        continuation.map_or(Ok(()), |continuation| self.remember(Some(&continuation)))
    }

    /// Writes the answers of a turn that ended well and returns their ids.
    pub(crate) fn finish(self) -> Result<Vec<OutId>, Stop> {
        let mut ids = Vec::new();
        for message in self.answers {
            self.desk.write(&mut |agent| agent.out(&message))?;
            ids.push(message.id);
        }
        Ok(ids)
    }

    /// Takes back what a turn that failed wanted to answer.
    pub(crate) fn give_up(self) {
        for message in self.answers.iter().filter(|message| !message.files.is_empty()) {
            self.desk.agent.drop_out_files(&message.id);
        }
    }

    /// Makes messages the host accepts, files written, JSON not yet.
    fn prepare(&mut self, mut utterance: Utterance, is_final: bool) -> Result<Vec<OutMessage>, TurnError> {
        let context = &self.turn.context;
        let destination = match known_target(context, &utterance.target) {
            Some(destination) => destination,
            None => {
                utterance = undeliverable(utterance);
                None
            }
        };
        let in_reply_to = answered(&self.turn.asked, &utterance.target, destination);
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
                Ok(mut content) => self.desk.write(&mut |agent| agent.out_file(id, &file.name, &mut content))?,
                Err(reason) => {
                    self.desk.agent.drop_out_files(id);
                    return Err(TurnError::Failed(reason));
                }
            }
        }
        Ok(())
    }

    /// A message with an identity of its own and nothing in it.
    fn blank(&mut self, target: &Target, is_final: bool, in_reply_to: Option<u64>) -> Result<OutMessage, TurnError> {
        let incarnation = self.desk.gate.incarnation();
        let number = self.desk.numbers.take(&mut self.desk.memory)?;
        let seq = self.turn.asked.last().map_or(0, |message| message.seq);
        let id = OutId::new(format!("{incarnation}-{number}-{seq}")).map_err(TurnError::Failed)?;
        let (kind, content) = Content::Text(String::new()).into_parts();
        let (destination, address) = match target {
            Target::Reply => (None, None),
            Target::Destination(name) => (Some(name.clone()), None),
            Target::Address(address) => (None, Some(address.clone())),
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

/// What a request looks like to the host while it waits: a tool that may take as long as people may.
fn request_tool(content: &Value) -> (String, Option<u64>) {
    let action = content.get("action").and_then(Value::as_str).unwrap_or("request");
    let name: String = action.chars().take(64).collect();
    if action != "ask_user_question" {
        return (name, None);
    }
    let seconds = content.get("timeout").and_then(Value::as_f64).unwrap_or(QUESTION_SECONDS);
    let timeout = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX).saturating_add(QUESTION_GRACE);
    (name, Some(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)))
}

/// Words for a place nobody knows are said where the question came from, so that somebody sees them.
fn undeliverable(utterance: Utterance) -> Utterance {
    let Target::Destination(name) = &utterance.target else { return utterance };
    let note = format!("[meant for {name:?}, which is not a known destination]");
    let content = match utterance.content {
        Content::Text(text) => Content::Text(format!("{note} {text}")),
        Content::Payload { content, .. } => Content::Text(format!("{note} {content}")),
    };
    Utterance { content, target: Target::Reply, files: utterance.files }
}

/// The content as one or more that fit a message like `like`.
fn fitting(like: &OutMessage, content: Content, limit: u64) -> Result<Vec<Content>, String> {
    let fits = |content: Content| {
        let (kind, content) = content.into_parts();
        // Later pieces have higher numbers, which may have more digits; a few bytes are kept for them.
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
