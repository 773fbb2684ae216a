//! What a provider can do during a turn: move, use tools, speak, remember, take what arrives meanwhile, end a part.
//!
//! Every method may end the runner: each goes through the gate first where it matters.
//!
//! A turn ends as a whole, unless its provider takes messages that arrive while it works: then each of its results ends
//! the *part* it covers. A message is taken in two steps, so that none ends with a result that did not see it: it is
//! claimed and told to the provider, and joins the open part only when the provider shows that it has read it. What was
//! told and never read waits for the next turn.

mod post;

use std::time::Duration;

use hearth_wire::{Context, InMessage, OutId, OutKind, OutMessage, Reply, Retry, WIRE_VERSION, limits};
use serde_json::Value;

use crate::desk::{Desk, Failure};
use crate::log;
use crate::outgoing::{Attachment, Content, Target, Utterance, answered, attachment_names, known_target, pieces};
use crate::runner::compose;
use crate::stop::{Error, Stop};
use crate::strip::strip_payload;

pub(crate) use self::post::{Post, Scene};

/// Answers of one turn; an ack names them all in one file.
const MOST_ANSWERS: usize = 1000;
/// The one request that people see as it is.
const QUESTION: &str = "ask_user_question";
/// How long a question waits that does not say.
const QUESTION_SECONDS: f64 = 300.0;
/// How long after that the host may take to say that nobody answered.
const QUESTION_GRACE: Duration = Duration::from_secs(60);

/// What one turn is about.
#[derive(Debug, Clone)]
pub(crate) struct Turn {
    /// The context as it was when the turn began.
    pub(crate) context: Context,
    /// Messages that only tell what was said, the newest ones.
    pub(crate) background: Vec<InMessage>,
    /// Messages that ask for something; empty only between turns.
    pub(crate) asked: Vec<InMessage>,
    /// All of it as text.
    pub(crate) prompt: String,
    /// Words of the one message that are for the provider itself, as they are: `/compact`.
    pub(crate) native: Option<String>,
}

/// Why a turn has no answer.
#[derive(Debug)]
pub(crate) enum TurnError {
    /// The provider failed and would fail again; the host is told why.
    Failed(String),
    /// The provider failed for a reason that may pass: the host brings the messages back.
    Passing(String, Retry),
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

impl From<Failure> for TurnError {
    fn from(Failure { error, retry }: Failure) -> Self {
        match retry {
            Some(retry) => Self::Passing(error, retry),
            None => Self::Failed(error),
        }
    }
}

/// A provider's side of one turn.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    desk: &'a mut Desk,
    turn: &'a Turn,
    /// The open part: what asks in it, all that ends with it, and what is answered so far.
    asked: Vec<InMessage>,
    seqs: Vec<u64>,
    answers: Vec<OutMessage>,
    /// Told to the provider, not seen to be read yet.
    told: Vec<Arrival>,
}

/// Messages that came while a turn ran, told to its provider together.
#[derive(Debug)]
struct Arrival {
    id: u64,
    messages: Vec<InMessage>,
}

impl<'a> Report<'a> {
    /// Of a turn that was claimed.
    pub(crate) fn new(desk: &'a mut Desk, turn: &'a Turn, seqs: Vec<u64>) -> Self {
        desk.heard.hear(&turn.background);
        desk.heard.hear(&turn.asked);
        Self { desk, turn, asked: turn.asked.clone(), seqs, answers: Vec::new(), told: Vec::new() }
    }

    /// Claims what has arrived and asks, if there is something: its name and its text for the provider.
    pub(crate) fn arrivals(&mut self) -> Result<Option<(u64, String)>, TurnError> {
        let Some(messages) = self.desk.arrived(&self.turn.context.provider.name)? else { return Ok(None) };
        let context = self.desk.gate.pass()?;
        self.desk.numbers.at_least(context.next_number);
        let id = messages.last().map_or(0, |message| message.seq);
        // What an earlier incarnation said was told with the turn's first prompt.
        let context = Context { already_sent: Vec::new(), ..context };
        let told = compose(self.desk.root(), context, messages.clone());
        self.told.push(Arrival { id, messages });
        Ok(Some((id, told.prompt)))
    }

    /// The provider has read these: they end with the result that follows.
    pub(crate) fn join(&mut self, id: u64) {
        let (read, told): (Vec<_>, Vec<_>) = std::mem::take(&mut self.told).into_iter().partition(|told| told.id == id);
        self.told = told;
        for message in read.into_iter().flat_map(|arrival| arrival.messages) {
            self.desk.heard.hear(std::slice::from_ref(&message));
            self.seqs.push(message.seq);
            if message.trigger {
                self.asked.push(message);
            }
        }
    }

    /// Whether something is part of the turn that no result has covered yet.
    pub(crate) fn is_open(&self) -> bool {
        !self.seqs.is_empty()
    }

    /// Ends the open part: its answers stand with its one ack, or it failed. What comes then is another part.
    pub(crate) fn end_part(&mut self, outcome: Result<(), Failure>) -> Result<(), TurnError> {
        let answers = std::mem::take(&mut self.answers);
        let mut seqs = std::mem::take(&mut self.seqs);
        self.asked.clear();
        seqs.sort_unstable();
        let (mut out, mut failed) = (Vec::new(), None);
        match outcome {
            Ok(()) => {
                for message in answers {
                    self.desk.write(&mut |agent| agent.out(&message))?;
                    out.push(message.id);
                }
            }
            Err(failure) => {
                let last = seqs.last().copied().unwrap_or_default();
                log::note(format_args!("the turn of message {last} failed: {}", failure.error));
                for message in answers.iter().filter(|message| !message.files.is_empty()) {
                    self.desk.agent.drop_out_files(&message.id);
                }
                failed = Some(failure);
            }
        }
        // Of more than one ack can end, which only many arrivals together can be, the answers' own goes first.
        let (rest, last) = seqs.split_at(seqs.len().saturating_sub(limits::ENDS_PER_ACK + 1));
        self.desk.end(last, out, failed.as_ref())?;
        for some in rest.chunks(limits::ENDS_PER_ACK + 1) {
            self.desk.end(some, Vec::new(), failed.as_ref())?;
        }
        self.desk.state.settle()?;
        Ok(())
    }

    /// The turn is over, however: what the provider was told and has not read waits again.
    pub(crate) fn leave(self) {
        self.desk.inbox.put_back(self.told.into_iter().flat_map(|arrival| arrival.messages));
    }

    /// The context of the turn.
    pub(crate) fn context(&self) -> &'a Context {
        &self.turn.context
    }

    /// The tool that runs, if one does: the one that may take longest.
    pub(crate) fn tool(&self) -> Option<&str> {
        self.desk.state.tool()
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
    pub(crate) fn ask(&mut self, mut content: Value, target: &Target) -> Result<OutId, TurnError> {
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

    /// Makes messages the host accepts, files written, JSON not yet.
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
        utterance.target = self.desk.heard.in_thread(utterance.target, destination);
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
        let seq = self.asked.last().map_or(0, |message| message.seq);
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
    if action != QUESTION {
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
