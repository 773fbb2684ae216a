//! The simulated surroundings of the engine: mailboxes with their agents, the runtime, the channels. All in memory and
//! in order. A test decides what the agents write and which effects are lost.

use std::collections::{BTreeMap, BTreeSet};

use hearth::model::content::{Attachment, BlobId, FileBytes, RawJson};
use hearth::model::delivery::{Delivery, DeliveryResult};
use hearth::model::effect::{
    Discard, Effect, Export, ExportedMessage, ExportedReply, Fetch, Launch, RecapLine, Settled, Speak, Transcribe,
};
use hearth::model::group::GroupInput;
use hearth::model::id::{AgentId, OutboundId, SessionId};
use hearth::model::incarnation::Exit;
use hearth::model::input::{Input, RuntimeEvent, Spoken};
use hearth::model::mailbox::{
    Answer, Beat, CollectedRecord, Collection, Failure, Observation, ObservedState, Recipient, Record, RetryHint, Said,
};
use hearth::model::request::RequestedAction;
use hearth::model::skip::{FoundSkip, SkipLook};
use hearth::model::voice::{Made, Transcript, TranscriptState};
use hearth::model::{Millis, Timestamp};

/// A channel's result of a delivery.
pub(crate) type Channel = Box<dyn FnMut(&Delivery) -> Option<DeliveryResult>>;

/// A channel's result of a file request.
pub(crate) type Fetching = Box<dyn FnMut(&Fetch) -> Option<Vec<Attachment>>>;

/// A channel that has every file.
pub(crate) fn fetched(fetch: &Fetch) -> Option<Vec<Attachment>> {
    let mut files = fetch.files.clone();
    for file in files.iter_mut().filter(|file| file.blob.is_remote()) {
        file.blob = FileBytes::Stored(BlobId::of_digest(&[u8::try_from(fetch.body.number() % 256).unwrap(); 32]));
    }
    Some(files)
}

/// What is heard in audio files.
pub(crate) type Hearing = Box<dyn FnMut(&Transcribe) -> Option<Vec<Transcript>>>;

/// Hears the name of each file.
pub(crate) fn heard(of: &Transcribe) -> Option<Vec<Transcript>> {
    let by = Made { tool: of.with.tool.label(), took: Millis::new(7), at: Timestamp::from_millis(0) };
    let one = |file: &Attachment| Transcript {
        file: file.name.clone(),
        state: TranscriptState::Done { text: format!("spoken in {}", file.name), by: by.clone() },
    };
    Some(of.files.iter().map(one).collect())
}

/// Speaks each answer.
fn spoken(of: &Speak) -> Spoken {
    let by = Made { tool: of.with.tool.label(), took: Millis::new(7), at: Timestamp::from_millis(0) };
    let audio = Ok(format!("{}/kept/spoken.{}/answer.mp3", of.session, of.answer));
    Spoken { answer: of.answer, audio, by }
}

/// A channel's result of opening a direct message.
pub(crate) type Direct = Box<dyn FnMut(&hearth::model::UserId) -> Option<Result<hearth::model::ForeignId, String>>>;

/// Mailboxes, runtime and channels.
pub(crate) struct Outside {
    /// Files in the host's half of each session's mailbox.
    pub(crate) inbox: BTreeMap<SessionId, BTreeMap<u64, ExportedMessage>>,
    /// Messages whose files are in each session's mailbox.
    pub(crate) files: BTreeMap<SessionId, BTreeSet<u64>>,
    /// Answers to requests in each mailbox, by name.
    pub(crate) replies: BTreeMap<SessionId, BTreeMap<String, Result<String, String>>>,
    /// The destinations in each session's context.
    pub(crate) destinations: BTreeMap<SessionId, Vec<String>>,
    /// The patterns of tools that people allowed, in each session's context.
    pub(crate) granted: BTreeMap<SessionId, Vec<String>>,
    /// What drives each session's last incarnation, and what it was told at its start.
    pub(crate) started: BTreeMap<SessionId, Started>,
    /// The smallest number an agent may use, from its context.
    pub(crate) numbers: BTreeMap<SessionId, u64>,
    /// Agents' uncollected output.
    pub(crate) written: BTreeMap<SessionId, Vec<CollectedRecord>>,
    /// Skip summaries in the folders of agents.
    pub(crate) skips: BTreeMap<AgentId, Vec<FoundSkip>>,
    /// Whether skip summaries cannot be removed.
    pub(crate) stuck: bool,
    /// Incarnations that run.
    pub(crate) running: BTreeMap<SessionId, u32>,
    /// Every incarnation that ever ran.
    pub(crate) launched: Vec<(SessionId, u32)>,
    /// Every attempt to deliver, in order.
    pub(crate) attempts: Vec<OutboundId>,
    /// Messages that people saw, in order. The channel uses the id as an idempotency key.
    pub(crate) shown: Vec<(OutboundId, String)>,
    /// Outcomes reported to the sources of messages.
    pub(crate) settled: Vec<Settled>,
    /// Threads whose messages are all requested.
    pub(crate) subscribed: Vec<hearth::model::Address>,
    /// The channels' reply to a delivery; none: no outcome is ever reported.
    pub(crate) channel: Channel,
    /// The channels' reply to opening a direct message; none: no outcome is ever reported.
    pub(crate) direct: Direct,
    /// The channels' reply to a file request; none: no outcome is ever reported.
    pub(crate) fetch: Fetching,
    /// What is heard in audio files; none: nothing is ever reported.
    pub(crate) hear: Hearing,
    /// Whether answers are spoken; else nothing is ever reported.
    pub(crate) speaks: bool,
    /// People with whom a direct message was to be opened, in order.
    pub(crate) opened: Vec<hearth::model::UserId>,
    /// Whether the runtime can start anything.
    pub(crate) startable: bool,
    /// Why it cannot.
    pub(crate) start_error: String,
    /// Files to send that were released.
    pub(crate) released: Vec<String>,
    /// Blobs that are not needed any more.
    pub(crate) unneeded: Vec<BlobId>,
    /// Incarnations that could not be started.
    not_started: BTreeSet<(SessionId, u32)>,
    seen: BTreeSet<OutboundId>,
}

/// The start of an incarnation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Started {
    pub(crate) number: u32,
    /// The fallback's memory; none for the agent's own provider.
    pub(crate) memory: Option<String>,
    pub(crate) recap: Vec<RecapLine>,
    pub(crate) model: Option<String>,
    pub(crate) effort: Option<String>,
}

impl Default for Outside {
    fn default() -> Self {
        Self {
            inbox: BTreeMap::new(),
            files: BTreeMap::new(),
            skips: BTreeMap::new(),
            stuck: false,
            replies: BTreeMap::new(),
            destinations: BTreeMap::new(),
            granted: BTreeMap::new(),
            started: BTreeMap::new(),
            numbers: BTreeMap::new(),
            written: BTreeMap::new(),
            running: BTreeMap::new(),
            launched: Vec::new(),
            attempts: Vec::new(),
            shown: Vec::new(),
            settled: Vec::new(),
            subscribed: Vec::new(),
            channel: Box::new(|_| Some(DeliveryResult::Delivered { platform_message: None })),
            fetch: Box::new(fetched),
            hear: Box::new(heard),
            speaks: true,
            direct: Box::new(|user| Some(Ok(user.handle().clone()))),
            opened: Vec::new(),
            startable: true,
            start_error: "no such program".to_owned(),
            released: Vec::new(),
            unneeded: Vec::new(),
            not_started: BTreeSet::new(),
            seen: BTreeSet::new(),
        }
    }
}

impl Outside {
    /// Performs an effect and returns the reported results.
    pub(crate) fn perform(&mut self, effect: Effect) -> Vec<Input> {
        match effect {
            Effect::Export(export) => {
                self.export(*export);
                vec![]
            }
            Effect::Discard(discard) => {
                self.discard(&discard);
                vec![]
            }
            Effect::Launch(launch) => self.start(*launch),
            Effect::Stop(of, number) | Effect::StopNow(of, number) => vec![self.end(of, number, Exit::Signal(15))],
            Effect::TurnBegan(_) | Effect::NetworkPolicy(_) => vec![],
            Effect::Inquire(session, number) => match self.running.get(&session) {
                Some(running) if *running == number => vec![Input::Runtime(RuntimeEvent::Running(session, number))],
                _ => vec![gone(session, number, Exit::Unknown)],
            },
            Effect::CollectRest(session, number) => {
                vec![Input::Collected(Collection { session, found: self.files_of(session), closes: Some(number) })]
            }
            Effect::Deliver(delivery) => self.deliver(&delivery).into_iter().collect(),
            Effect::Settled(settled) => {
                self.settled.push(settled);
                vec![]
            }
            Effect::Fetch(fetch) => self.give_files(&fetch),
            Effect::Transcribe(of) => self.transcribe(&of),
            Effect::Speak(of) if self.speaks => vec![Input::Spoken(spoken(&of))],
            Effect::Speak(_) => vec![],
            Effect::OpenDirect(user) => {
                self.opened.push(user.clone());
                (self.direct)(&user).map(|chat| Input::DirectOpened(user, chat)).into_iter().collect()
            }
            Effect::Subscribe(address) => {
                self.subscribed.push(address);
                vec![]
            }
            // No test of this world has a session-state file.
            Effect::Typing(..) | Effect::Reconnect(_) | Effect::ShareState(_) => vec![],
            Effect::Release(_, files) => {
                self.released.extend(files);
                vec![]
            }
            Effect::Unneeded(files) => {
                self.unneeded.extend(files);
                vec![]
            }
            Effect::LookForSkips(agent, _, after) => {
                let found = self.skips.get(&agent).cloned();
                found
                    .map(|found| Input::Group(agent, GroupInput::Skips(SkipLook { after, found, complete: true })))
                    .into_iter()
                    .collect()
            }
            Effect::Silence(_) => vec![],
            Effect::RemoveSkip { .. } if self.stuck => vec![],
            Effect::RemoveSkip { agent, id, skill, digest, .. } => {
                let is = |found: &FoundSkip| {
                    found.skill == skill && matches!(&found.content, Ok(report) if report.digest == digest)
                };
                self.skips.entry(agent).or_default().retain(|found| !is(found));
                vec![Input::Group(agent, GroupInput::SkipGone(id))]
            }
            Effect::Continue(rest) => vec![Input::Continue(rest)],
        }
    }

    fn start(&mut self, launch: Launch) -> Vec<Input> {
        let (session, number) = (launch.session, launch.incarnation);
        let context = launch.export.context.as_ref().expect("a launch has a context");
        assert_eq!(context.provider, launch.settings.provider);
        let (memory, recap) = (context.memory.clone(), context.recap.clone());
        let (model, effort) = (launch.settings.model.clone(), launch.settings.effort.clone());
        self.started.insert(session, Started { number, memory, recap, model, effort });
        self.export(launch.export);
        // An incarnation that is running need not be started; one that was reported gone never starts again.
        let runs = self.running.get(&session) == Some(&number);
        if !runs && (!self.startable || self.not_started.contains(&(session, number))) {
            self.not_started.insert((session, number));
            return vec![gone(session, number, Exit::NotStarted(self.start_error.clone()))];
        }
        self.launch(session, number)
    }

    fn discard(&mut self, discard: &Discard) {
        let inbox = self.inbox.entry(discard.session).or_default();
        inbox.retain(|seq, _| !discard.seqs.contains(seq));
        let files = self.files.entry(discard.session).or_default();
        files.retain(|seq| !discard.files.contains(seq));
        let written = self.written.entry(discard.session).or_default();
        written.retain(|found| found.files.iter().any(|file| !discard.agent_files.contains(file)));
    }

    fn transcribe(&mut self, of: &Transcribe) -> Vec<Input> {
        (self.hear)(of).map(|heard| Input::Transcribed(of.body, heard)).into_iter().collect()
    }

    fn give_files(&mut self, fetch: &Fetch) -> Vec<Input> {
        (self.fetch)(fetch).map(|files| Input::Fetched(fetch.body, files)).into_iter().collect()
    }

    /// The user restores an older store: the files exchanged with agents do not match it, and no agent runs.
    pub(crate) fn leave_mailboxes(&mut self) {
        self.inbox.clear();
        self.files.clear();
        self.replies.clear();
        self.destinations.clear();
        self.started.clear();
        self.numbers.clear();
        self.written.clear();
        self.running.clear();
        self.launched.clear();
        self.not_started.clear();
    }

    /// Behaves like real runtimes: a running incarnation is not started again, and one that is gone never starts.
    fn launch(&mut self, session: SessionId, number: u32) -> Vec<Input> {
        let known = self.launched.contains(&(session, number));
        if known && self.running.get(&session) != Some(&number) {
            return vec![gone(session, number, Exit::Unknown)];
        }
        if !known {
            let other = self.running.insert(session, number);
            assert_eq!(other, None, "{session} runs twice");
            self.launched.push((session, number));
        }
        vec![Input::Runtime(RuntimeEvent::Running(session, number))]
    }

    fn export(&mut self, export: Export) {
        if let Some(context) = &export.context {
            self.numbers.insert(export.session, context.next_number);
            self.granted.insert(export.session, context.granted.clone());
            let names = context.destinations.iter().map(|destination| destination.name.clone());
            self.destinations.insert(export.session, names.collect());
        }
        if let Some(replies) = export.replies {
            let text = |reply: ExportedReply| (reply.request, reply.answer.map(|json| json.as_str().to_owned()));
            self.replies.insert(export.session, replies.into_iter().map(text).collect());
        }
        let inbox = self.inbox.entry(export.session).or_default();
        let files = self.files.entry(export.session).or_default();
        if export.exact {
            inbox.retain(|seq, _| export.messages.iter().any(|message| message.seq == *seq));
            *files = export.files.iter().map(|kept| kept.seq).collect();
        }
        for message in export.messages {
            files.extend((!message.attachments.is_empty()).then_some(message.seq));
            let whole = message.attachments.iter().all(|file| !file.blob.is_remote());
            assert!(whole, "{} of {} is exported before its files are there", message.seq, export.session);
            inbox.entry(message.seq).or_insert(message);
        }
    }

    fn deliver(&mut self, delivery: &Delivery) -> Option<Input> {
        self.attempts.push(delivery.id);
        let result = (self.channel)(delivery);
        let shown = matches!(result, Some(DeliveryResult::Delivered { .. } | DeliveryResult::Uncertain(_)) | None);
        if shown && self.seen.insert(delivery.id) {
            self.shown.push((delivery.id, delivery.text.clone()));
        }
        result.map(|result| Input::Delivered(delivery.id, delivery.attempt, result))
    }

    /// Ends an incarnation and returns the runtime's report.
    pub(crate) fn end(&mut self, session: SessionId, number: u32, exit: Exit) -> Input {
        if self.running.get(&session) == Some(&number) {
            self.running.remove(&session);
            return gone(session, number, exit);
        }
        gone(session, number, Exit::Unknown)
    }

    /// Files in a mailbox; they stay there until they are discarded.
    pub(crate) fn files_of(&self, session: SessionId) -> Vec<CollectedRecord> {
        self.written.get(&session).cloned().unwrap_or_default()
    }

    /// An agent writes files. Returns what a collection of the mailbox would find now.
    pub(crate) fn write(&mut self, session: SessionId, found: Vec<CollectedRecord>) -> Input {
        self.written.entry(session).or_default().extend(found);
        Input::Collected(Collection { session, found: self.files_of(session), closes: None })
    }

    /// Heartbeats of all running incarnations.
    pub(crate) fn observations(&self) -> Vec<Observation> {
        let beat = |(session, incarnation): (&SessionId, &u32)| Observation {
            session: *session,
            incarnation: *incarnation,
            beat: Beat::NOW,
            state: None,
        };
        self.running.iter().map(beat).collect()
    }
}

pub(crate) fn gone(session: SessionId, incarnation: u32, exit: Exit) -> Input {
    Input::Runtime(RuntimeEvent::Gone { session, incarnation, exit, stderr_tail: String::new() })
}

/// The file with which an incarnation claims a message.
pub(crate) fn claim(seq: u64, incarnation: u32) -> CollectedRecord {
    let file = format!("ack/{seq}.{incarnation}.processing.json");
    CollectedRecord { record: Record::Claim { seq, incarnation }, files: vec![file] }
}

/// The files with which an incarnation ends a turn with answers.
pub(crate) fn end(seq: u64, incarnation: u32, answers: Vec<Said>) -> CollectedRecord {
    let mut files = vec![format!("ack/{seq}.{incarnation}.completed.json")];
    files.extend(answers.iter().map(|said| format!("out/{}.json", said.wire_id)));
    let answers = answers.into_iter().map(|said| Answer::Read(Box::new(said))).collect();
    CollectedRecord {
        record: Record::End { seq, also: vec![], incarnation, failure: None, gated: None, answers },
        files,
    }
}

/// The file with which an incarnation reports a failed turn.
pub(crate) fn failed(seq: u64, incarnation: u32, error: &str) -> CollectedRecord {
    let file = format!("ack/{seq}.{incarnation}.failed.json");
    let failure = Some(Failure { error: error.to_owned(), again: RetryHint::Never });
    CollectedRecord {
        record: Record::End { seq, also: vec![], incarnation, failure, gated: None, answers: vec![] },
        files: vec![file],
    }
}

/// The file with which an incarnation reports a failed turn that may be retried, with further messages of the turn.
pub(crate) fn try_again(seq: u64, also: Vec<u64>, incarnation: u32, again: RetryHint) -> CollectedRecord {
    let file = format!("ack/{seq}.{incarnation}.failed.json");
    let failure = Some(Failure { error: "529 overloaded".to_owned(), again });
    CollectedRecord {
        record: Record::End { seq, also, incarnation, failure, gated: None, answers: vec![] },
        files: vec![file],
    }
}

/// Output of an incarnation; its id contains `number`.
pub(crate) fn said(number: u64, incarnation: u32, in_reply_to: Option<u64>, to: Recipient) -> Said {
    let text = format!("words {number}");
    Said {
        wire_id: format!("out-{incarnation}-{number}"),
        incarnation,
        number,
        in_reply_to,
        to,
        content: RawJson::trusted(format!(r#"{{"text":"{text}"}}"#)),
        text,
        files: vec![],
        deliver_after: None,
        action: RequestedAction::Say,
        request: None,
    }
}

/// The file of a message that is sent during a turn.
pub(crate) fn mid_turn(said: Said) -> CollectedRecord {
    let files = vec![format!("out/{}.json", said.wire_id)];
    CollectedRecord { record: Record::Said(said), files }
}

/// The file of a final answer that no acknowledgement names.
pub(crate) fn leftover(said: Said) -> CollectedRecord {
    let files = vec![format!("out/{}.json", said.wire_id)];
    CollectedRecord { record: Record::Leftover(said), files }
}

/// A look at an agent's state file that shows progress.
pub(crate) fn progress(session: SessionId, incarnation: u32) -> Observation {
    let state = Some(ObservedState { tool: None, progress: true, about: None });
    Observation { session, incarnation, beat: Beat::NOW, state }
}

/// A file that its network keeps.
pub(crate) fn remote(name: &str) -> Attachment {
    let blob = FileBytes::Remote(format!("id of {name}"));
    Attachment { name: name.to_owned(), size: 3, mime: None, blob }
}
