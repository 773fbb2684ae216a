//! Serves the socket's clients: events, configuration, status, conversations.

use std::path::Path;
use std::sync::{Arc, PoisonError};

use tokio::sync::mpsc::{self, channel};

use super::pairing::{PairingGuard, PairingState, PairingView, Sender};
use super::runtime::RuntimeChoice;
use super::writing::Following;
use super::{BuildStatus, Daemon, LineStatus, reconnect, references, setup};
use crate::channel::attachments::Arrived;
use crate::channel::event;
use crate::channel::health::LineState;
use crate::channel::terminal::{self, Attachment, TerminalEvent};
use crate::clock;
use crate::model::address::{Address, ForeignId};
use crate::model::channel::ChannelKind;
use crate::model::content::{Content, RawJson};
use crate::model::id::OutgoingId;
use crate::model::input::{InboundEvent, Input};
use crate::model::message::{MessageKind, MessageState, Reason};
use crate::model::report::{Outcome, Refusal, Reply};
use crate::model::routed::RouteResult;
use crate::model::time::Timestamp;
use crate::socket::command::{Answer, ClientCommand};
use crate::socket::protocol::{
    BuildJson, ChannelStatus, DaemonStatus, End, PairingCode, PairingJson, PairingStateJson, Request, Response,
};
use crate::socket::server::{Handler, Requests};
use crate::time::zone::Chosen;

/// Longest text of one message from a terminal, in bytes.
const TEXT_MAX: usize = 256 * 1024;
/// Sent to clients while the daemon is draining.
pub(super) const STOPPING: &str = "the daemon is stopping: try again once it runs again";

impl Handler for Daemon {
    fn token(&self) -> &str {
        self.token()
    }

    async fn serve(self: Arc<Self>, mut requests: Requests, responses: mpsc::Sender<Response>, uid: u32) {
        let (mut talk, mut pairing) = (None, None);
        loop {
            // The read is not cancel-safe, but the other branches end the connection, so nothing is lost.
            let request = tokio::select! {
                request = requests.next() => request,
                () = over(&mut talk) => break,
                () = self.stopped() => break,
            };
            let Some(request) = request else { break };
            let response = match request {
                Ok(Request::Pair { channel }) => Some(self.pair(&channel, &mut pairing)),
                Ok(Request::Pairing) => Some(pairing_state(pairing.as_ref())),
                Ok(request) => self.answer(request, &mut talk, &responses, uid).await,
                Err(message) => Some(refused("invalid", message)),
            };
            // A client that no longer receives responses is disconnected.
            if let Some(response) = response
                && responses.send(response).await.is_err()
            {
                break;
            }
        }
        if let Some(talk) = talk {
            self.terminals().detach(talk.attachment);
            talk.forwarding.abort();
        }
    }
}

/// An attached terminal.
struct Talk {
    address: Address,
    attachment: Attachment,
    forwarding: tokio::task::JoinHandle<()>,
    /// Shows what the agent writes, if the terminal wants it.
    following: Option<Following>,
}

/// Waits until the terminal is detached.
async fn over(talk: &mut Option<Talk>) {
    match talk {
        Some(talk) => drop((&mut talk.forwarding).await),
        None => std::future::pending().await,
    }
}

impl Daemon {
    async fn answer(
        self: &Arc<Self>,
        request: Request,
        talk: &mut Option<Talk>,
        responses: &mpsc::Sender<Response>,
        uid: u32,
    ) -> Option<Response> {
        match request {
            // Requests about pairings are handled elsewhere.
            Request::Hello { .. } | Request::Pair { .. } | Request::Pairing => {
                Some(refused("invalid", "the greeting is over".to_owned()))
            }
            Request::Inject { event, dry_run } => Some(self.inject(event, dry_run).await),
            Request::Submit { command } => Some(self.execute(command).await),
            Request::Sweep { at, dry_run } => Some(self.sweep(at, dry_run).await),
            Request::Reconnect { channel } => Some(self.reconnect(&channel).await),
            Request::Console { user } => Some(self.console_link(user.as_deref(), uid)),
            Request::Status => Some(Response::Status(self.status())),
            Request::Attach { .. } if self.is_draining() => Some(refused("stopping", STOPPING.to_owned())),
            Request::Attach { .. } if talk.is_some() => Some(refused("invalid", "already attached".to_owned())),
            Request::Attach { agent, tools, writing } => match self.attach(agent, tools, responses, uid).await {
                Ok(mut attached) => {
                    attached.following =
                        writing.then(|| Following::start(self, attached.address.clone(), responses.clone()));
                    *talk = Some(attached);
                    None
                }
                Err(message) => Some(refused("attach", message)),
            },
            Request::Say { id, text } => match talk {
                Some(talk) => Some(self.say(talk, &id, text, uid).await.about(id)),
                None => Some(refused("invalid", "attach to an agent first".to_owned())),
            },
            Request::Shown { id } => match (id.parse::<OutgoingId>(), talk) {
                (Ok(id), Some(talk)) => {
                    self.terminals().shown(talk.attachment, id);
                    None
                }
                (Ok(_), None) => Some(refused("invalid", "attach to an agent first".to_owned())),
                (Err(error), _) => Some(refused("invalid", error.to_string())),
            },
        }
    }

    /// Opens a pairing on a channel that is connected and identifies its senders.
    fn pair(&self, channel: &str, pairing: &mut Option<PairingGuard>) -> Response {
        let invalid = |message: String| refused("invalid", message);
        let Some(line) = self.channels().into_iter().find(|line| line.name.as_str() == channel) else {
            return invalid(format!("channel {channel} not found; `hearth channels list` shows all"));
        };
        match (line.kind, line.health.state) {
            // The kind is not known before the first attempt to connect.
            (_, LineState::Connecting) => return refused("down", format!("channel {channel} is connecting")),
            (_, LineState::Down | LineState::Refused) => {
                let why = line.health.failure.unwrap_or_default();
                return refused("down", format!("channel {channel} is down: {why}"));
            }
            (ChannelKind::Webhook, _) => {
                return invalid(format!(
                    "channel {channel} is a webhook: every program with its secret chooses the senders' ids, so a code proves \
                     nothing; name the person with `hearth roles grant {channel}:ID owner`"
                ));
            }
            (ChannelKind::Terminal, _) => return invalid("the terminal needs no pairing".to_owned()),
            (_, LineState::Up) if self.is_draining() => return refused("stopping", STOPPING.to_owned()),
            (_, LineState::Up) => {}
        }
        let now = clock::wall();
        let opened = match self.channels.pairings().open(&line.name, now) {
            Ok(opened) => opened,
            Err(error) => return refused("failed", format!("the system provides no random numbers: {error}")),
        };
        let link = self.channels.channel(&line.name).and_then(|bot| bot.start_link(&opened.codes.linked));
        let code = opened.codes.typed.clone();
        *pairing = Some(opened);
        Response::Code(PairingCode { code, link, expires: now.plus(PairingGuard::LIFE).to_string() })
    }

    async fn inject(self: &Arc<Self>, line: String, dry_run: bool) -> Response {
        // Writing files blocks on the disk, so it must not run on the socket's threads.
        let daemon = Arc::clone(self);
        let read = tokio::task::spawn_blocking(move || daemon.read_event(&line, dry_run));
        let event = match read.await {
            Ok(Ok(event)) => event,
            Ok(Err(refusal)) => {
                let answer = Answer::Routed(RouteResult::invalid(refusal.code, refusal.message));
                return Response::Done { answer };
            }
            Err(error) => return refused("failed", error.to_string()),
        };
        let input = if dry_run { Input::Inbound(Box::new(event)) } else { self.channels.unproved(event) };
        answered(self.submit(input, dry_run).await)
    }

    /// Reads an event and stores its files. One event at a time, because reading takes several times its size in
    /// memory.
    fn read_event(&self, line: &str, dry_run: bool) -> Result<InboundEvent, Refusal> {
        let _alone = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let arrived = event::read(line.as_bytes());
        let arrived = arrived.map_err(|error| Refusal { code: "invalid_event", message: error.to_string() })?;
        if dry_run {
            return Ok(arrived.without_files());
        }
        let event = arrived.keep(|bytes| self.keep(&bytes));
        crate::crash::point("files-kept");
        event.map_err(|no_room| Refusal { code: "store_full", message: no_room.to_string() })
    }

    /// Stores the files of a message from the console.
    ///
    /// # Errors
    /// There is no room for them.
    pub(super) fn keep_files(&self, arrived: Arrived) -> Result<InboundEvent, String> {
        arrived.keep(|bytes| self.keep(&bytes)).map_err(|no_room| no_room.to_string())
    }

    async fn execute(&self, command: ClientCommand) -> Response {
        match command.input() {
            Ok((input, dry_run)) => {
                let channels = if dry_run { Vec::new() } else { reconnect::configured(&input) };
                let mut reply = self.submit(input, dry_run).await;
                if let Ok(Reply::Configured(reports)) = &mut reply {
                    self.compare_secrets(&channels, reports).await;
                }
                answered(reply)
            }
            Err(message) => refused("invalid", message),
        }
    }

    async fn sweep(&self, at: Option<i64>, dry_run: bool) -> Response {
        let swept = match (at, dry_run) {
            (at, true) => self.rehearse_sweep(at.map(Timestamp::from_millis)),
            (None, false) => self.submit(Input::Sweep(Vec::new()), false).await,
            (Some(_), false) => {
                let message = "a daemon is running: add --dry-run, or stop it to sweep at another time";
                return refused("invalid", message.to_owned());
            }
        };
        answered(swept)
    }

    /// State that only a running daemon knows.
    pub fn status(&self) -> DaemonStatus {
        let RuntimeChoice { why, configured, asked } = &self.runtime_choice;
        let Chosen { zone, source, .. } = self.workers.machine_zone();
        DaemonStatus {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            runtime: self.runtime_name().to_owned(),
            runtime_why: why.clone(),
            runtime_setting: configured.map(|kind| kind.as_str().to_owned()),
            runtime_asked: *asked,
            draining: self.is_draining(),
            zone: zone.name().to_owned(),
            zone_from: source.to_string(),
            terminals: self.terminals().count(),
            queued: self.queued(),
            channels: self.channels().into_iter().map(channel_status).collect(),
            builds: self.builds().into_iter().map(build_json).collect(),
            floods: self.workers.floods(),
            unset_variables: self.store().read(references::unset_variables).ok(),
            awake: Some(self.clock.now().awake),
        }
    }

    async fn attach(
        &self,
        agent: Option<String>,
        tools: bool,
        responses: &mpsc::Sender<Response>,
        uid: u32,
    ) -> Result<Talk, String> {
        let plan = self.store().read(|db, txn| setup::plan(db, txn, agent.as_deref(), uid));
        let plan = plan.map_err(|error| error.to_string())?;
        if let Some(configure) = plan.configure
            && let Reply::Refused(refusal) = self.submit(Input::Configure(configure), false).await?
        {
            return Err(refusal.message);
        }
        let address = terminal::address(&plan.agent).map_err(|error| error.to_string())?;
        let (to, mut told) = channel(terminal::QUEUE);
        let provider = self.store().read(|db, txn| setup::provider(db, txn, &plan.agent));
        let owners = self.store().read(setup::owners);
        let attached = Response::Attached {
            agent: plan.agent.to_string(),
            name: plan.agent.to_string(),
            provider: provider.map_err(|error| error.to_string())?,
            owners: owners.map_err(|error| error.to_string())?,
        };
        responses.send(attached).await.map_err(|_| "the client is gone".to_owned())?;
        let personal = terminal::personal(&uid.to_string()).map_err(|error| error.to_string())?;
        let attachment = self.terminals().attach(address.platform_id.clone(), personal.platform_id.clone(), to);
        let forward = responses.clone();
        let sessions = self.paths().sessions();
        let forwarding = tokio::spawn(async move {
            while let Some(told) = told.recv().await {
                if !tools && matches!(told, TerminalEvent::Tool(_)) {
                    continue;
                }
                if forward.send(shown(told, &sessions)).await.is_err() {
                    return;
                }
            }
        });
        self.reachable(address.clone());
        self.reachable(personal);
        Ok(Talk { address, attachment, forwarding, following: None })
    }

    async fn say(&self, talk: &Talk, id: &str, text: String, uid: u32) -> Response {
        let event = match spoken(&talk.address, id, text, uid) {
            Ok(event) => event,
            Err(message) => return refused("invalid", message),
        };
        match self.submit(self.channels.unproved(event), false).await {
            Ok(Reply::Routed(report)) if report.outcome == Outcome::Consumed => {
                let reason = report.reason.map_or_else(String::new, |reason| reason.as_str().to_owned());
                let answer = report.answer.map(|answer| answer.to_string());
                Response::Consumed { id: id.to_owned(), reason, answer }
            }
            Ok(Reply::Routed(report)) => match report.wirings.iter().find_map(|wiring| wiring.message) {
                Some(message) => {
                    if let Some(following) = &talk.following {
                        following.accepted(message);
                    }
                    Response::Accepted { id: id.to_owned(), message: message.to_string() }
                }
                None => {
                    let reason = report.reason.map_or("no agent listens here", Reason::explanation);
                    refused("dropped", format!("the message was not accepted: {reason}"))
                }
            },
            other => answered(other),
        }
    }
}

fn pairing_state(pairing: Option<&PairingGuard>) -> Response {
    let Some(pairing) = pairing else { return refused("invalid", "open a pairing first".to_owned()) };
    let PairingView { state, wrong } = pairing.view(clock::wall());
    let state = match state {
        PairingState::Open => PairingStateJson::Open,
        PairingState::Answered(Sender { user, name }) => PairingStateJson::Answered { user: user.to_string(), name },
        PairingState::Void(why) => PairingStateJson::Void { why: why.to_string() },
    };
    Response::Pairing(PairingJson { wrong, state })
}

fn build_json(status: BuildStatus) -> BuildJson {
    let BuildStatus { agent, image, failed, why, building } = status;
    let state = if building { "building" } else { "waiting" };
    BuildJson { agent, image, state: state.to_owned(), failed, why }
}

fn channel_status(line: LineStatus) -> ChannelStatus {
    ChannelStatus {
        name: line.name.to_string(),
        kind: line.kind.as_str().to_owned(),
        state: match line.health.state {
            LineState::Connecting => "connecting",
            LineState::Up => "up",
            LineState::Down | LineState::Refused => "down",
        }
        .to_owned(),
        why: line.health.failure,
        last_contact: line.health.last_contact.map(|at| at.to_string()),
        next_try: line.health.next_try.map(|at| at.to_string()),
    }
}

/// The payload of a message that is typed here.
fn payload(text: &str, sender: &str, name: &str) -> String {
    serde_json::json!({ "text": text, "senderId": sender, "sender": name }).to_string()
}

/// A message typed at a terminal.
fn spoken(address: &Address, id: &str, text: String, uid: u32) -> Result<InboundEvent, String> {
    if text.len() > TEXT_MAX {
        return Err(format!("the message has {} bytes, at most {TEXT_MAX} are accepted", text.len()));
    }
    let sender = ForeignId::new("the user's id", uid.to_string()).map_err(|error| error.to_string())?;
    let id = ForeignId::optional("the message's id", Some(id.to_owned())).map_err(|error| error.to_string())?;
    let raw = payload(&text, sender.as_str(), "you");
    Ok(InboundEvent {
        source: address.clone(),
        platform_message: id,
        kind: MessageKind::Chat,
        content: Content { text, sender: Some(sender), sender_name: None, raw: RawJson::trusted(raw) },
        said: None,
        mention: true,
        group: false,
        reply_to: None,
        threads: None,
        cursors: Vec::new(),
        chat_name: None,
        attachments: Vec::new(),
    })
}

fn shown(told: TerminalEvent, sessions: &Path) -> Response {
    match told {
        TerminalEvent::Tool(name) => Response::Tool { name },
        TerminalEvent::Message(delivery) => Response::Said {
            id: delivery.key.to_string(),
            speaker: delivery.speaker,
            text: delivery.text,
            files: delivery.files.iter().map(|name| sessions.join(name).display().to_string()).collect(),
            in_reply_to: delivery.in_reply_to.map(|message| message.to_string()),
        },
        TerminalEvent::Settled(settled) => {
            let (state, error) = match settled.state {
                MessageState::Failed { error, .. } => ("failed", Some(error)),
                MessageState::Dropped { reason, .. } => ("dropped", Some(reason.to_string())),
                _ => ("completed", None),
            };
            let answers = settled.answers.iter().map(ToString::to_string).collect();
            let end = End { state: state.to_owned(), error, answers };
            Response::Settled { message: settled.message.to_string(), end }
        }
    }
}

/// The response to a reply of the engine.
fn answered(reply: Result<Reply, String>) -> Response {
    match reply.map(Answer::try_from) {
        Ok(Ok(answer)) => Response::Done { answer },
        Ok(Err(refusal)) => Response::Refused { refusal, id: None },
        Err(message) => refused("failed", message),
    }
}

fn refused(code: &str, message: String) -> Response {
    Response::refused(code, message)
}
