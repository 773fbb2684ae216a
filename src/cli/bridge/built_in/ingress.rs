//! What a channel passes on, as frames.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hearth_bridge::program::FrameWriter;
use hearth_bridge::{Action, Cursors, Event, FromBridge, GivenFile, Opened, Outcome, Sender, Sent, ToBridge};
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};

use crate::channel::intake::{Ingress, NotTaken, Pending, Pressed};
use crate::model::address::{ForeignId, UserId};
use crate::model::content::{Attachment, BlobId, FileBytes};
use crate::model::delivery::{Attempt, Delivery, DeliveryResult};
use crate::model::id::{BodyId, OutboundId};
use crate::model::input::{InboundEvent, Press};
use crate::model::report::{self, RouteReport};

/// A question that the kit has not answered, or a delivery without an outcome.
#[derive(Default)]
struct Open {
    last: u64,
    questions: BTreeMap<u64, oneshot::Sender<ToBridge>>,
    deliveries: BTreeMap<OutboundId, Sending>,
    direct: BTreeMap<UserId, u64>,
}

/// A delivery: its id for the kit, and its files.
struct Sending {
    key: String,
    files: Vec<PathBuf>,
}

/// The way to the kit.
pub(super) struct Frames {
    writer: FrameWriter,
    /// The directory for files of both directions.
    files: PathBuf,
    open: Mutex<Open>,
    /// Whether the kit knows that the channel is ready: nothing may come before.
    is_ready: watch::Sender<bool>,
    /// Nothing is taken any more.
    is_stopped: AtomicBool,
}

impl Frames {
    pub(super) fn new(writer: FrameWriter, files: PathBuf) -> Arc<Self> {
        Arc::new(Self {
            writer,
            files,
            open: Mutex::default(),
            is_ready: watch::Sender::new(false),
            is_stopped: AtomicBool::new(false),
        })
    }

    /// Lets messages pass.
    pub(super) fn ready(&self) {
        self.is_ready.send_replace(true);
    }

    /// Takes no more messages, as the daemon while it ends.
    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
    }

    /// Asks for a direct chat by a number of the kit.
    pub(super) fn opens(&self, user: UserId, seq: u64) {
        self.lock().direct.insert(user, seq);
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a frame. The kit may be gone, and then this process ends.
    fn send(&self, frame: &FromBridge) {
        drop(self.writer.send(frame));
    }

    /// The kit's answer to a question.
    async fn ask(&self, question: impl FnOnce(u64) -> FromBridge) -> Result<ToBridge, NotTaken> {
        // The sender lives as long as this.
        drop(self.is_ready.subscribe().wait_for(|ready| *ready).await);
        if self.is_stopped.load(Ordering::SeqCst) {
            return Err(NotTaken::Later("Hearth is ending".to_owned()));
        }
        let (told, answer) = oneshot::channel();
        let seq = {
            let mut open = self.lock();
            open.last += 1;
            let seq = open.last;
            open.questions.insert(seq, told);
            seq
        };
        self.send(&question(seq));
        match answer.await {
            Ok(ToBridge::Later { why, .. }) => Err(NotTaken::Later(why)),
            Ok(ToBridge::Refused { why, .. }) => Err(NotTaken::Refused(why)),
            Ok(other) => Ok(other),
            Err(_) => Err(NotTaken::Later("the kit is gone".to_owned())),
        }
    }

    /// Passes on an answer of the kit.
    pub(super) fn answer(&self, frame: ToBridge) {
        let (ToBridge::Taken { taken: seq, .. }
        | ToBridge::Later { later: seq, .. }
        | ToBridge::Refused { refused: seq, .. }
        | ToBridge::Wanted { wanted: seq, .. }
        | ToBridge::Pressed { pressed: seq, .. }) = &frame
        else {
            return;
        };
        if let Some(told) = self.lock().questions.remove(seq) {
            // The request may be over.
            drop(told.send(frame));
        }
    }

    /// Remembers what the outcome of a delivery is about.
    pub(super) fn begin(&self, delivery: &Delivery, files: Vec<PathBuf>) {
        self.lock().deliveries.insert(delivery.id, Sending { key: delivery.key.to_string(), files });
    }
}

impl Ingress for Frames {
    fn inbound(&self, event: InboundEvent) -> Pending<'_, Result<RouteReport, NotTaken>> {
        Box::pin(async move {
            let (report, event) = (routed(&event), read(event));
            self.ask(|seq| FromBridge::Event { event, seq, cursors: Cursors::new() }).await.map(|_| report)
        })
    }

    fn rehearsed(&self, event: InboundEvent) -> Pending<'_, Result<RouteReport, NotTaken>> {
        Box::pin(async move {
            let (mut report, wanted) = (routed(&event), read(event));
            if let ToBridge::Wanted { yes: false, .. } = self.ask(|seq| FromBridge::Wanted { wanted, seq }).await? {
                report.outcome = report::Outcome::Dropped;
            }
            Ok(report)
        })
    }

    fn pressed(&self, press: Press) -> Pending<'_, Result<Pressed, NotTaken>> {
        Box::pin(async move {
            let action = Action {
                button: press.button.to_string(),
                user_id: press.by.handle().as_str().to_owned(),
                platform_id: press.at.platform_id.as_str().to_owned(),
                thread_id: press.at.thread.map(|thread| thread.as_str().to_owned()),
            };
            match self.ask(|seq| FromBridge::Action { action, seq }).await? {
                ToBridge::Pressed { decided, text, .. } => Ok(Pressed { decided, text }),
                other => Err(NotTaken::Refused(format!("an unexpected answer: {other:?}"))),
            }
        })
    }

    fn keep(&self, bytes: Vec<u8>) -> Pending<'_, Result<Result<BlobId, String>, NotTaken>> {
        let number = {
            let mut open = self.lock();
            open.last += 1;
            open.last
        };
        // Not its digest: the kit compares the bytes.
        let name = format!("{number:064x}");
        let kept = std::fs::write(self.files.join(&name), bytes).map_err(|error| error.to_string());
        let kept = kept.and_then(|()| BlobId::parse(&name).ok_or(name));
        Box::pin(async { Ok(kept) })
    }

    fn fetched(&self, _body: BodyId, _files: Vec<Attachment>) -> Pending<'_, Result<(), NotTaken>> {
        Box::pin(async { Err(NotTaken::Refused("the kit asks for no files of people".to_owned())) })
    }

    fn outcome(&self, delivery: OutboundId, attempt: Attempt, result: DeliveryResult) {
        let Some((id, files)) = self.lock().deliveries.get_mut(&delivery).map(Sending::ended) else { return };
        // Hearth itself removes the files of other channels.
        files.iter().for_each(|file| drop(std::fs::remove_dir_all(file)));
        let (result, message, why) = match result {
            DeliveryResult::Delivered { platform_message } => (Sent::Delivered, platform_message, None),
            DeliveryResult::Absent => (Sent::Absent, None, None),
            DeliveryResult::NoAdapter => (Sent::Retry, None, Some("it has no base_url".to_owned())),
            DeliveryResult::Retry(why) => (Sent::Retry, None, Some(why)),
            DeliveryResult::Rejected(why) => (Sent::Rejected, None, Some(why)),
            DeliveryResult::Uncertain(why) => (Sent::Uncertain, None, Some(why)),
        };
        let message_id = message.map(|id| id.as_str().to_owned());
        let outcome = Outcome { id, attempt: attempt.number, result, message_id, why, after: None };
        self.send(&FromBridge::Outcome { outcome });
    }

    fn direct_opened(&self, user: UserId, chat: Result<ForeignId, String>) {
        let Some(seq) = self.lock().direct.remove(&user) else { return };
        let (platform_id, why) = match chat {
            Ok(chat) => (Some(chat.as_str().to_owned()), None),
            Err(why) => (None, Some(why)),
        };
        self.send(&FromBridge::Opened { opened: Opened { seq, platform_id, why } });
    }

    fn reachable(&self) {}
}

impl Sending {
    /// Its id, and the files that are needed no more. Another attempt may be under way.
    fn ended(&mut self) -> (String, Vec<PathBuf>) {
        (self.key.clone(), std::mem::take(&mut self.files))
    }
}

/// The report about a message that was accepted.
fn routed(event: &InboundEvent) -> RouteReport {
    RouteReport {
        event: event.platform_message.as_ref().map(|id| id.as_str().to_owned()).unwrap_or_default(),
        chat: None,
        outcome: report::Outcome::Routed,
        reason: None,
        wirings: Vec::new(),
        answer: None,
    }
}

/// A message as a bridge would pass it on: the sender is beside it.
fn read(event: InboundEvent) -> Event {
    let InboundEvent { source, platform_message, content, mention, group, attachments, .. } = event;
    let payload: Value = serde_json::from_str(content.raw.as_str()).unwrap_or_default();
    let message = json!({
        "id": platform_message.map(|id| id.as_str().to_owned()),
        "isMention": mention,
        "isGroup": group,
        "content": payload,
    });
    let thread = source.thread.map(|thread| thread.as_str().to_owned());
    let rest = [
        ("platformId".to_owned(), json!(source.platform_id.as_str())),
        ("threadId".to_owned(), json!(thread)),
        ("message".to_owned(), message),
    ];
    let sender =
        content.sender.map(|id| Sender { id: id.as_str().to_owned(), name: content.sender_name, verified: true });
    Event { sender, files: attachments.into_iter().map(given).collect(), rest: rest.into() }
}

/// A file of a message.
fn given(file: Attachment) -> GivenFile {
    let (path, error) = match file.blob {
        FileBytes::Stored(blob) => (Some(blob.as_str().to_owned()), None),
        FileBytes::Missing(why) => (None, Some(why)),
        FileBytes::Remote(id) => (None, Some(format!("it is still at its network: {id}"))),
    };
    GivenFile { name: Some(file.name), mime: file.mime, path, error }
}
