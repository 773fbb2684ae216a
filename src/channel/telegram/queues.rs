//! Outgoing queues, one per chat: messages of a chat stay in order, and a slow chat does not block the others.
//!
//! A delivery that is requested again while it is in progress is not sent twice. Its outcome answers both requests.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::Sleep;

use super::super::intake::Ingress;
use super::api::{Api, Failure};
use super::attachments::AT_ONCE;
use super::line::{ChannelHealth, State as LineState};
use super::memory::{Memory, Stopped};
use super::pace::Pace;
use super::plan::{self, SendPlan};
use super::send::{self, Sending};
use super::{Times, log_line};
use crate::model::address::{ChannelName, ForeignId};
use crate::model::delivery::{Attempt, Delivery, DeliveryAct, DeliveryResult};
use crate::model::id::OutboundId;

pub(super) struct OutgoingQueues {
    pub(super) channel: ChannelName,
    pub(super) api: Arc<Api>,
    pub(super) intake: Arc<dyn Ingress>,
    pub(super) line: Arc<ChannelHealth>,
    pub(super) sessions: PathBuf,
    link_previews: bool,
    pub(super) times: Times,
    pace: Pace,
    uploads: Semaphore,
    stopped: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    chats: HashMap<ForeignId, VecDeque<Job>>,
    /// Deliveries in progress or queued, with the newest attempt of each.
    in_flight: HashMap<OutboundId, Attempt>,
    memory: Memory,
}

struct Job {
    delivery: Delivery,
    /// Elapses when nothing new should be started, because the engine is about to ask for the outcome.
    patience: Pin<Box<Sleep>>,
}

/// The environment of the queues.
pub(super) struct QueueContext {
    pub(super) channel: ChannelName,
    pub(super) api: Arc<Api>,
    pub(super) intake: Arc<dyn Ingress>,
    pub(super) line: Arc<ChannelHealth>,
    pub(super) sessions: PathBuf,
    pub(super) link_previews: bool,
}

impl OutgoingQueues {
    pub(super) fn new(around: QueueContext, times: Times) -> Self {
        let QueueContext { channel, api, intake, line, sessions, link_previews } = around;
        Self {
            channel,
            api,
            intake,
            line,
            sessions,
            link_previews,
            times,
            pace: Pace::default(),
            uploads: Semaphore::new(AT_ONCE),
            stopped: AtomicBool::new(false),
            state: Mutex::default(),
        }
    }

    /// Queues a delivery. Returns at once.
    pub(super) fn give(self: &Arc<Self>, delivery: Delivery, handle: &Handle) {
        let _runtime = handle.enter();
        let patience = Box::pin(tokio::time::sleep(self.times.patience));
        let chat = delivery.to.platform_id.clone();
        let mut state = self.lock();
        if state.in_flight.insert(delivery.id, delivery.attempt).is_some() {
            return;
        }
        let job = Job { delivery, patience };
        match state.chats.get_mut(&chat) {
            Some(queue) => queue.push_back(job),
            None => {
                state.chats.insert(chat.clone(), VecDeque::from([job]));
                let queues = Arc::clone(self);
                handle.spawn(async move { queues.work(chat).await });
            }
        }
    }

    /// Starts no more deliveries; a send in progress finishes.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Sends the queued deliveries of a chat, and ends when the queue is empty.
    async fn work(self: Arc<Self>, chat: ForeignId) {
        while let Some(mut job) = self.next(&chat) {
            let (id, first) = (job.delivery.id, job.delivery.attempt);
            let queues = Arc::clone(&self);
            // A separate task, so that a panic in it cannot stop the chat forever.
            let attempt = tokio::spawn(async move { queues.attempt(&mut job).await });
            let result = attempt.await.unwrap_or_else(|error| DeliveryResult::Uncertain(error.to_string()));
            // Removed before the outcome is reported, because the engine may then request the delivery again.
            let newest = self.lock().in_flight.remove(&id).unwrap_or(first);
            self.intake.outcome(id, newest, result);
        }
    }

    fn next(&self, chat: &ForeignId) -> Option<Job> {
        let mut state = self.lock();
        let job = state.chats.get_mut(chat).and_then(VecDeque::pop_front);
        if job.is_none() {
            state.chats.remove(chat);
        }
        job
    }

    async fn attempt(&self, job: &mut Job) -> DeliveryResult {
        let (id, chat) = (job.delivery.id, job.delivery.to.platform_id.clone());
        if let Some(platform_message) = self.lock().memory.made(id) {
            return DeliveryResult::Delivered { platform_message };
        }
        if job.patience.is_elapsed() {
            return DeliveryResult::Retry("the chat was busy".to_owned());
        }
        let mut plan = match self.begin(&job.delivery) {
            Ok(plan) => plan,
            Err(why) => return DeliveryResult::Rejected(why),
        };
        while let Some(step) = plan.steps.front().cloned() {
            if let Some(result) = self.wait(job, &chat).await {
                return self.stop_at(id, plan, result);
            }
            let sending = Sending {
                api: &self.api,
                sessions: &self.sessions,
                uploads: &self.uploads,
                link_previews: self.link_previews,
                plan: &plan,
            };
            match send::step(&sending, &step).await {
                Ok(message) => {
                    self.line.answered();
                    plan.made(message);
                }
                Err(Failure::Slow(length)) => self.pause(&chat, length),
                // An earlier edit may have needed fewer parts.
                Err(Failure::Refused { description, moved: None })
                    if description.contains("not found") && plan.is_sent_anew() => {}
                Err(Failure::Refused { moved: Some(to), .. }) if plan.chat != json!(to) => {
                    tracing::warn!(channel = %self.channel, %chat, %to, "the group became a supergroup with a new id");
                    self.lock().memory.moved(&chat, to);
                    plan.chat = json!(to);
                }
                Err(failure) => {
                    let result = self.failed(failure, step.is_repeatable());
                    return self.stop_at(id, plan, result);
                }
            }
        }
        let answer = plan.answer();
        self.lock().memory.done(id, &chat, answer.clone(), &plan.texts);
        DeliveryResult::Delivered { platform_message: answer }
    }

    /// The plan of a delivery: the remaining steps, if it was started before.
    fn begin(&self, delivery: &Delivery) -> Result<SendPlan, String> {
        let mut state = self.lock();
        let chat = &delivery.to.platform_id;
        let stopped = state.memory.go_on(delivery.id);
        let mut plan = match &stopped {
            Some(stopped) => stopped.plan.clone(),
            None => {
                let parts = match &delivery.act {
                    DeliveryAct::Edit(message) => state.memory.parts(chat, message),
                    DeliveryAct::Say | DeliveryAct::Ask(_) | DeliveryAct::React(_) => Vec::new(),
                };
                plan::plan(delivery, &parts)?
            }
        };
        if stopped.map_or(delivery.repeated, |stopped| stopped.doubtful) {
            plan.mark();
        }
        if let Some(to) = state.memory.moved_to(chat) {
            plan.chat = json!(to);
        }
        Ok(plan)
    }

    /// Waits until a message may be sent to a chat, or returns the attempt's outcome.
    async fn wait(&self, job: &mut Job, chat: &ForeignId) -> Option<DeliveryResult> {
        if self.stopped.load(Ordering::Relaxed) {
            return Some(DeliveryResult::Retry("the channel is being let go".to_owned()));
        }
        if !self.line.takes_messages() {
            return Some(DeliveryResult::NoAdapter);
        }
        let paused = || Some(DeliveryResult::Retry("the server requests a pause".to_owned()));
        if self.pace.length(chat) > self.times.waits {
            return paused();
        }
        tokio::select! {
            biased;
            () = self.pace.clear(chat) => None,
            () = &mut job.patience => paused(),
        }
    }

    /// Begins a pause in a chat. Deliveries that do not wait for it are tried when it is over.
    fn pause(&self, chat: &ForeignId, length: Duration) {
        self.pace.pause(chat, length);
        if length > self.times.waits {
            let intake = Arc::clone(&self.intake);
            tokio::spawn(async move {
                tokio::time::sleep(length).await;
                intake.reachable();
            });
        }
    }

    /// Records how far an attempt got.
    fn stop_at(&self, id: OutboundId, plan: SendPlan, result: DeliveryResult) -> DeliveryResult {
        let rest = plan.steps.len();
        match result {
            DeliveryResult::Rejected(why) if !plan.ids.is_empty() => {
                DeliveryResult::Rejected(format!("{why}; {} parts were sent, {rest} were not", plan.ids.len()))
            }
            DeliveryResult::Rejected(_) | DeliveryResult::Delivered { .. } => result,
            DeliveryResult::Uncertain(_)
            | DeliveryResult::Retry(_)
            | DeliveryResult::Absent
            | DeliveryResult::NoAdapter => {
                let doubtful = matches!(result, DeliveryResult::Uncertain(_));
                self.lock().memory.stop(id, Stopped { plan, doubtful });
                result
            }
        }
    }

    /// Maps a failed call to the outcome of its delivery.
    fn failed(&self, failure: Failure, repeatable: bool) -> DeliveryResult {
        let words = failure.to_string();
        match failure {
            // The server is unreachable: the message waits for the connection instead of using up attempts.
            Failure::Unreached(_) if !self.line.is_up() => DeliveryResult::NoAdapter,
            Failure::Unreached(_) | Failure::Trouble(_) | Failure::Conflict(_) | Failure::Slow(_) => {
                DeliveryResult::Retry(words)
            }
            Failure::Unclear(_) | Failure::TooLarge if repeatable => DeliveryResult::Retry(words),
            Failure::Unclear(_) | Failure::TooLarge => DeliveryResult::Uncertain(words),
            Failure::Token(_) => {
                log_line(&self.channel, &self.line, LineState::Down { why: words, sending: false });
                DeliveryResult::NoAdapter
            }
            Failure::Refused { description, .. } => DeliveryResult::Rejected(description),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
