//! Performs effects after the commit. All actions of the daemon on the outside world start here.

use std::sync::Arc;

use super::channels::Channels;
use super::engine_thread::{Inbox, Item};
use super::files::BlobGc;
use super::mailbox_workers::{Job, MailboxWorkers};
use super::reports::DeliveryReports;
use super::skips::Skips;
use super::state_file_sync::Groups;
use super::stop::Stop;
use super::typing::Typing;
use super::voice::Voice;
use crate::crash;
use crate::engine::commit::Engine;
use crate::model::delivery::{Delivery, DeliveryResult, NOT_RUNNING};
use crate::model::effect::Effect;
use crate::model::input::Input;
use crate::runtime::Runtime;

/// The parts of the daemon that effects act on.
pub(super) struct Executor {
    pub(super) workers: Arc<MailboxWorkers>,
    /// Where agents run.
    pub(super) runtime: Arc<dyn Runtime>,
    /// Channels, by name.
    pub(super) channels: Arc<Channels>,
    /// Removes files that are no longer needed.
    pub(super) removals: BlobGc,
    /// The thread that looks for skip summaries.
    pub(super) skips: Arc<Skips>,
    pub(super) voice: Arc<Voice>,
    pub(super) typing: Arc<Typing>,
    /// Whether anything new may be begun.
    pub(super) stop: Arc<Stop>,
    /// The store, for reading.
    pub(super) engine: Arc<Engine>,
    /// Session state of agent groups.
    pub(super) groups: Groups,
    /// The way of outcomes of deliveries to the engine.
    pub(super) reports: Arc<DeliveryReports>,
    /// Queue for the outcomes of everything else.
    pub(super) inbox: Arc<Inbox>,
}

impl Executor {
    /// Performs an effect. Never blocks.
    pub(super) fn perform(&self, effect: Effect) {
        match effect {
            Effect::Export(export) => self.workers.give(export.session, Job::Export(export)),
            Effect::Discard(discard) => self.workers.give(discard.session, Job::Discard(discard)),
            Effect::Launch(launch) => self.workers.give(launch.session, Job::Launch(launch)),
            Effect::CollectRest(session, number) => self.workers.give(session, Job::CollectRest(session, number)),
            Effect::Stop(session, number) => {
                crash::point("stop");
                self.runtime.kill(session, number);
            }
            Effect::StopNow(session, number) => {
                crash::point("stop");
                self.workers.close_gateway(session, number);
                self.workers.close_network(session, number);
                self.runtime.kill_now(session, number);
            }
            // After the launch, which has an older policy.
            Effect::NetworkPolicy(of) => self.workers.give(of.session, Job::NetworkPolicy(of)),
            Effect::TurnBegan(turn) => self.workers.turn_began(turn),
            Effect::Inquire(session, number) => {
                self.workers.follow(session, number);
                self.workers.give(session, Job::Admit(session, number));
                self.runtime.inquire(session, number);
            }
            Effect::Deliver(delivery) => self.deliver(*delivery),
            Effect::Settled(settled) => {
                self.typing.settled(settled.message, self.engine.store());
                if let Some(channel) = self.channels.channel(&settled.source.channel) {
                    channel.settled(settled);
                }
            }
            // A channel that is down gets the request when it comes up.
            Effect::Fetch(fetch) => {
                if let Some(channel) = self.channels.channel(&fetch.channel) {
                    crash::point("fetch");
                    channel.fetch(*fetch);
                }
            }
            Effect::Transcribe(of) => {
                crash::point("transcribe");
                self.voice.transcribe(*of);
            }
            Effect::Speak(of) => {
                crash::point("speak");
                self.voice.speak(*of);
            }
            Effect::Silence(answer) => self.voice.silence(answer),
            Effect::OpenDirect(user) => match self.channels.channel(user.channel()) {
                Some(channel) => channel.open_direct(user),
                None => self.inbox.push(Item::of(Input::DirectOpened(user, Err(NOT_RUNNING.to_owned())))),
            },
            Effect::Subscribe(address) => {
                if let Some(channel) = self.channels.channel(&address.channel) {
                    channel.subscribe(&address);
                }
            }
            // A message that has just arrived does not begin a turn while draining.
            Effect::Typing(..) if self.stop.is_draining() => {}
            Effect::Typing(session, address) => self.typing.start(session, address),
            Effect::Reconnect(channel) => self.channels.reconnect(&channel),
            Effect::Release(session, files) => self.workers.give(session, Job::Release(session, files)),
            Effect::Unneeded(files) => self.removals.forget(files),
            Effect::LookForSkips(agent, folder, after) => self.skips.look(agent, folder, after),
            Effect::RemoveSkip { agent, id, folder, skill, digest } => {
                self.skips.remove(agent, id, folder, skill, digest);
            }
            Effect::ShareState(agent) => self.groups.share(agent),
            Effect::Continue(rest) => self.inbox.push(Item::of(Input::Continue(rest))),
        }
    }

    fn deliver(&self, delivery: Delivery) {
        match self.channels.channel(&delivery.to.channel) {
            Some(channel) => {
                crash::point("attempted");
                self.typing.sending(&delivery);
                channel.deliver(delivery);
            }
            None => {
                let Delivery { id, attempt, to, .. } = delivery;
                self.reports.outcome(&to.channel, id, attempt, DeliveryResult::NoAdapter);
            }
        }
    }
}
