//! The one match over effects: everything the daemon does to the world begins here, after the commit.

use std::sync::Arc;

use super::crash;
use super::files::Removals;
use super::inbox::{Inbox, Item};
use super::mailroom::{Job, Mailroom};
use super::switchboard::Switchboard;
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
            Effect::Stop(session, number) => self.runtime.kill(session, number),
            Effect::Inquire(session, number) => {
                self.mailroom.follow(session, number);
                self.runtime.inquire(session, number);
            }
            Effect::Deliver(delivery) => match self.switchboard.channel(&delivery.to.channel) {
                Some(channel) => {
                    crash::point("attempted");
                    channel.deliver(*delivery);
                }
                None => self.inbox.push(Item::of(Input::Delivered(delivery.id, DeliveryResult::NoAdapter))),
            },
            Effect::Settled(settled) => {
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
            Effect::Typing(session, address) => {
                if let Some(channel) = self.switchboard.channel(&address.channel) {
                    channel.typing(session, &address);
                }
            }
            Effect::Reconnect(channel) => self.switchboard.reconnect(&channel),
            Effect::Release(session, files) => self.mailroom.give(session, Job::Release(session, files)),
            Effect::Unneeded(files) => self.removals.forget(files),
            Effect::Continue(rest) => self.inbox.push(Item::of(Input::Continue(rest))),
        }
    }
}
