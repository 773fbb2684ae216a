//! The one match over effects: everything the daemon does to the world begins here, after the commit.

use std::sync::Arc;

use super::files::Removals;
use super::groups::Groups;
use super::inbox::{Inbox, Item};
use super::mailroom::{Job, Mailroom};
use super::skips::Skips;
use super::stop::Stop;
use super::switchboard::Switchboard;
use super::typing::Typing;
use crate::crash;
use crate::engine::commit::Engine;
use crate::model::delivery::DeliveryResult;
use crate::model::effect::Effect;
use crate::model::input::Input;
use crate::runtime::Runtime;

/// What effects act on.
pub(super) struct World {
    /// Mailboxes.
    pub(super) mailroom: Arc<Mailroom>,
    /// Where agents run.
    pub(super) runtime: Arc<dyn Runtime>,
    /// Networks, by the name of their instance.
    pub(super) switchboard: Arc<Switchboard>,
    /// Where files go that nobody needs any more.
    pub(super) removals: Removals,
    /// Who looks for skip summaries.
    pub(super) skips: Arc<Skips>,
    /// Who is shown to be at work.
    pub(super) typing: Arc<Typing>,
    /// Whether anything new may be begun.
    pub(super) stop: Arc<Stop>,
    /// The store, for reading.
    pub(super) engine: Arc<Engine>,
    /// Session state of agent groups.
    pub(super) groups: Groups,
    /// Where outcomes go.
    pub(super) inbox: Arc<Inbox>,
}

impl World {
    /// Carries out an effect. Nothing here waits.
    pub(super) fn perform(&self, effect: Effect) {
        match effect {
            Effect::Export(export) => self.mailroom.give(export.session, Job::Export(export)),
            Effect::Discard(discard) => self.mailroom.give(discard.session, Job::Discard(discard)),
            Effect::Launch(launch) => self.mailroom.give(launch.session, Job::Launch(launch)),
            Effect::CollectRest(session, number) => self.mailroom.give(session, Job::CollectRest(session, number)),
            Effect::Stop(session, number) => {
                crash::point("stop");
                self.runtime.kill(session, number);
            }
            Effect::Inquire(session, number) => {
                self.mailroom.follow(session, number);
                self.runtime.inquire(session, number);
            }
            Effect::Deliver(delivery) => match self.switchboard.channel(&delivery.to.channel) {
                Some(channel) => {
                    crash::point("attempted");
                    self.typing.sending(&delivery);
                    channel.deliver(*delivery);
                }
                None => {
                    let nobody = Input::Delivered(delivery.id, delivery.attempt, DeliveryResult::NoAdapter);
                    self.inbox.push(Item::of(nobody));
                }
            },
            Effect::Settled(settled) => {
                self.typing.settled(settled.message, self.engine.store());
                if let Some(channel) = self.switchboard.channel(&settled.source.channel) {
                    channel.settled(settled);
                }
            }
            Effect::OpenDirect(user) => match self.switchboard.channel(user.channel()) {
                Some(channel) => channel.open_direct(user),
                None => self.inbox.push(Item::of(Input::DirectOpened(user, Err("no adapter".to_owned())))),
            },
            Effect::Subscribe(address) => {
                if let Some(channel) = self.switchboard.channel(&address.channel) {
                    channel.subscribe(&address);
                }
            }
            // What has just come is not begun with any more.
            Effect::Typing(..) if self.stop.is_draining() => {}
            Effect::Typing(session, address) => self.typing.start(session, address),
            Effect::Reconnect(channel) => self.switchboard.reconnect(&channel),
            Effect::Release(session, files) => self.mailroom.give(session, Job::Release(session, files)),
            Effect::Unneeded(files) => self.removals.forget(files),
            Effect::LookForSkips(agent, folder, after) => self.skips.look(agent, folder, after),
            Effect::RemoveSkip { agent, id, folder, skill, digest } => {
                self.skips.remove((agent, id), folder, (skill, digest));
            }
            Effect::ShareState(agent) => self.groups.share(agent),
            Effect::Continue(rest) => self.inbox.push(Item::of(Input::Continue(rest))),
        }
    }
}
