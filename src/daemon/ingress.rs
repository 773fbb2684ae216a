//! Intake of one channel: passes its input to the engine and acknowledges it after the commit. Rejects input that names
//! another channel.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::channel_context::ChannelContext;
use super::engine_thread::{Inbox, Item};
use super::files::{self, BlobGuard};
use super::logins::Logins;
use super::metrics::Metrics;
use super::pairing::Pairings;
use super::reports::DeliveryReports;
use super::typing::Typing;
use crate::channel::intake::{Ingress, NotTaken, Pending, Pressed};
use crate::clock;
use crate::crash;
use crate::engine::commit::{Engine, Submission};
use crate::model::address::{ChannelName, ForeignId, UserId};
use crate::model::channel::{Capabilities, Cursor};
use crate::model::content::{Attachment, BlobId};
use crate::model::delivery::{Attempt, DeliveryResult};
use crate::model::id::{BodyId, OutboundId};
use crate::model::input::{InboundEvent, Input, Press};
use crate::model::message::Reason;
use crate::model::report::{Reply, RouteReport};
use crate::state::ForeignKey;

/// The codes with which the messages of a channel are compared.
pub(super) struct Codes {
    pub(super) pairings: Arc<Pairings>,
    pub(super) logins: Arc<Logins>,
    /// Whether the network proves who a sender is.
    pub(super) authenticated: bool,
}

/// Intake of one channel.
pub(super) struct ChannelIngress {
    channel: ChannelName,
    inbox: Arc<Inbox>,
    reports: Arc<DeliveryReports>,
    engine: Arc<Engine>,
    typing: Arc<Typing>,
    blob_guard: BlobGuard,
    codes: Codes,
    metrics: Arc<Metrics>,
}

impl ChannelIngress {
    /// Creates the intake of a channel.
    pub(super) fn new(channel: &ChannelName, context: &ChannelContext, codes: Codes) -> Self {
        Self {
            channel: channel.clone(),
            inbox: Arc::clone(context.reports.inbox()),
            reports: Arc::clone(&context.reports),
            engine: Arc::clone(&context.engine),
            typing: Arc::clone(&context.typing),
            blob_guard: context.blob_guard.clone(),
            codes,
            metrics: Arc::clone(&context.metrics),
        }
    }

    async fn hand_over(&self, input: Input) -> Result<Reply, NotTaken> {
        let files = files::files_of(&input);
        self.put(Submission::new(input), files).await
    }

    /// Submits an input to the engine, and settles its files after the commit.
    async fn put(&self, submission: Submission, files: Vec<BlobId>) -> Result<Reply, NotTaken> {
        let (answer, heard) = oneshot::channel();
        let is_new_work = matches!(submission.input, Input::Inbound(_));
        let item = Item { submission, answer: Some(answer) };
        if is_new_work {
            self.inbox.offer(item).map_err(|not_now| NotTaken::Later(not_now.to_string()))?;
        } else {
            self.inbox.push(item);
        }
        let heard = heard.await;
        if let Ok(heard) = &heard {
            self.blob_guard.settle(files, heard);
        }
        match heard {
            Ok(Ok(Reply::Refused(refusal))) if refusal.code == Reason::StoreFull.as_str() => {
                Err(NotTaken::Later(refusal.message))
            }
            Ok(Ok(Reply::Refused(refusal))) => Err(NotTaken::Refused(refusal.message)),
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(fault)) => Err(NotTaken::Later(fault)),
            Err(_) => Err(NotTaken::Later("hearth is stopping".to_owned())),
        }
    }

    /// Checks that a channel uses only its own namespace.
    fn check(&self, channel: &ChannelName) -> Result<(), NotTaken> {
        if *channel == self.channel {
            return Ok(());
        }
        Err(NotTaken::Refused(format!("the channel {} cannot speak for {channel}", self.channel)))
    }
}

fn routed(reply: Reply) -> Result<RouteReport, NotTaken> {
    match reply {
        Reply::Routed(report) => Ok(report),
        other => Err(NotTaken::Refused(other.unexpected())),
    }
}

impl Ingress for ChannelIngress {
    fn inbound(&self, event: InboundEvent) -> Pending<'_, Result<RouteReport, NotTaken>> {
        Box::pin(async move {
            self.check(&event.source.channel)?;
            let Codes { pairings, logins, authenticated } = &self.codes;
            let input = match pairings.compare(&event, clock::wall()) {
                Some(used) => Input::PairingCode(Box::new(event), used),
                None => match logins.compare(&event, *authenticated) {
                    Some(used) => Input::LoginCode(Box::new(event), used),
                    None => Input::Inbound(Box::new(event)),
                },
            };
            routed(self.hand_over(input).await?)
        })
    }

    fn rehearsed(&self, event: InboundEvent) -> Pending<'_, Result<RouteReport, NotTaken>> {
        Box::pin(async move {
            self.check(&event.source.channel)?;
            let submission = Submission::new(Input::Inbound(Box::new(event))).dry(true);
            routed(self.put(submission, Vec::new()).await?)
        })
    }

    fn cursors(&self) -> Vec<Cursor> {
        let key = ForeignKey::of(&self.channel);
        match self.engine.store().read(|db, txn| db.bridges.get(txn, &key)) {
            Ok(known) => {
                known.filter(|known| known.channel == self.channel).map(|known| known.cursors).unwrap_or_default()
            }
            Err(error) => {
                tracing::error!(channel = %self.channel, %error, "cannot read how far the bridge has read");
                Vec::new()
            }
        }
    }

    fn store_cursors(&self, cursors: Vec<Cursor>) -> Pending<'_, Result<(), NotTaken>> {
        Box::pin(async move {
            match self.hand_over(Input::BridgeCursors(self.channel.clone(), cursors)).await? {
                Reply::Done => Ok(()),
                other => Err(NotTaken::Refused(other.unexpected())),
            }
        })
    }

    fn bridge_ready(&self, program: String, can: Capabilities) {
        self.inbox.push(Item::of(Input::BridgeReady(self.channel.clone(), program, can)));
    }

    fn pressed(&self, press: Press) -> Pending<'_, Result<Pressed, NotTaken>> {
        Box::pin(async move {
            self.check(press.by.channel())?;
            self.check(&press.at.channel)?;
            match self.hand_over(Input::Pressed(press)).await? {
                Reply::Answered { decided, text } => Ok(Pressed { decided, text }),
                other => Err(NotTaken::Refused(other.unexpected())),
            }
        })
    }

    fn keep(&self, bytes: Vec<u8>) -> Pending<'_, Result<Result<BlobId, String>, NotTaken>> {
        let (files, engine) = (self.blob_guard.files().clone(), Arc::clone(&self.engine));
        Box::pin(async move {
            let kept = tokio::task::spawn_blocking(move || files.keep(engine.store(), &bytes)).await;
            match kept {
                Ok(Ok(kept)) => Ok(kept),
                Ok(Err(no_room)) => Err(NotTaken::Later(no_room.to_string())),
                Err(error) => Err(NotTaken::Later(error.to_string())),
            }
        })
    }

    fn fetched(&self, body: BodyId, files: Vec<Attachment>) -> Pending<'_, Result<(), NotTaken>> {
        Box::pin(async move {
            crash::point("fetched");
            match self.hand_over(Input::Fetched(body, files)).await? {
                Reply::Done => Ok(()),
                other => Err(NotTaken::Refused(other.unexpected())),
            }
        })
    }

    fn outcome(&self, delivery: OutboundId, attempt: Attempt, result: DeliveryResult) {
        crash::point("delivered");
        self.typing.sent(delivery, &result);
        self.metrics.delivered(&self.channel, &result);
        self.reports.outcome(&self.channel, delivery, attempt, result);
    }

    fn direct_opened(&self, user: UserId, chat: Result<ForeignId, String>) {
        self.inbox.push(Item::of(Input::DirectOpened(user, chat)));
    }

    fn reachable(&self) {
        self.reports.reachable(&self.channel, None);
    }
}
