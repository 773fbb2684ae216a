//! Channel connections: one task per configured channel connects it, keeps it connected and reconnects it.
//!
//! A channel that cannot connect is shown as down and retried later. The daemon continues without it, and its outgoing
//! messages wait.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, oneshot};

use super::channel_context::ChannelContext;
use super::logins::Logins;
use super::pairing::Pairings;
use super::reports::DeliveryReports;
use super::typing::Indicator;
use super::writing::Shown;
use crate::channel::Channel;
use crate::channel::health::{Health, LineState};
use crate::clock;
use crate::model::address::{Address, ChannelName};
use crate::model::channel::{ChannelInstance, ChannelKind};
use crate::model::id::SessionId;
use crate::model::input::{InboundEvent, Input};
use crate::model::time::Timestamp;
use crate::state::{self, ForeignKey};
use keep::LineRequest;

mod keep;
mod secrets;

pub(super) use keep::SecretCheck;

/// State of a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineStatus {
    pub name: ChannelName,
    pub kind: ChannelKind,
    /// State of its connection.
    pub health: Health,
}

/// Channels that always exist.
pub(super) type FixedChannels = BTreeMap<ChannelName, Arc<dyn Channel>>;

pub(super) struct Channels {
    context: ChannelContext,
    pairings: Arc<Pairings>,
    logins: Arc<Logins>,
    lines: Mutex<BTreeMap<ChannelName, Connection>>,
}

/// One channel and its task.
struct Connection {
    kind: ChannelKind,
    state: ConnectionState,
    /// When earlier connections last had contact with the service.
    last_contact: Option<Timestamp>,
    /// The last failure, until the channel is up again.
    failure: Option<String>,
    /// To its task, which ends when this is dropped.
    requests: mpsc::UnboundedSender<LineRequest>,
}

enum ConnectionState {
    /// The terminal and the console, which have no task.
    Fixed(Arc<dyn Channel>),
    /// An adapter, which knows its state.
    Running(Arc<dyn Channel>),
    Connecting,
    Down {
        why: String,
        next_try: Timestamp,
    },
}

impl Connection {
    fn new(state: ConnectionState, requests: mpsc::UnboundedSender<LineRequest>) -> Self {
        // The task sets the kind after it has read the settings.
        Self { kind: ChannelKind::Terminal, state, last_contact: None, failure: None, requests }
    }

    fn health(&self) -> Health {
        let known = |state| Health { last_contact: self.last_contact, ..Health::of(state) };
        match &self.state {
            ConnectionState::Connecting => Health { failure: self.failure.clone(), ..known(LineState::Connecting) },
            ConnectionState::Down { why, next_try } => {
                Health { failure: Some(why.clone()), next_try: Some(*next_try), ..known(LineState::Down) }
            }
            ConnectionState::Running(channel) | ConnectionState::Fixed(channel) => {
                let health = channel.health();
                let earlier = self.failure.clone().filter(|_| health.state == LineState::Connecting);
                Health {
                    last_contact: health.last_contact.or(self.last_contact),
                    failure: health.failure.or(earlier),
                    ..health
                }
            }
        }
    }

    /// Sets the state, and keeps the information about the service. Returns the previous state.
    fn replace(&mut self, state: ConnectionState) -> ConnectionState {
        let health = self.health();
        (self.last_contact, self.failure) = (health.last_contact, health.failure);
        std::mem::replace(&mut self.state, state)
    }
}

impl Channels {
    /// Creates the channels with those that always exist.
    pub(super) fn new(context: ChannelContext, fixed: FixedChannels) -> Arc<Self> {
        let line = |channel| Connection::new(ConnectionState::Fixed(channel), mpsc::unbounded_channel().0);
        let lines = fixed.into_iter().map(|(name, channel)| (name, line(channel))).collect();
        Arc::new(Self { context, pairings: Arc::default(), logins: Arc::default(), lines: Mutex::new(lines) })
    }

    /// The way of outcomes and announcements to the engine.
    pub(super) const fn reports(&self) -> &Arc<DeliveryReports> {
        &self.context.reports
    }

    /// The input of a message whose sender no network proves: from the console, a terminal or `hearth inject`. A code for
    /// pairing or signing in that it has no longer works, and goes to no agent.
    pub(super) fn unproved(&self, event: InboundEvent) -> Input {
        if let Some(used) = self.pairings.expose(&event, clock::wall()) {
            return Input::PairingCode(Box::new(event), used);
        }
        match self.logins.compare(&event, false) {
            Some(used) => Input::LoginCode(Box::new(event), used),
            None => Input::Inbound(Box::new(event)),
        }
    }

    pub(super) const fn pairings(&self) -> &Arc<Pairings> {
        &self.pairings
    }

    /// Sign-ins to the console by messages.
    pub(super) const fn logins(&self) -> &Arc<Logins> {
        &self.logins
    }

    /// Connects every channel that is configured.
    ///
    /// # Errors
    /// Those of reading the store.
    pub(super) fn connect_all(self: &Arc<Self>) -> Result<(), state::Error> {
        for channel in self.configured_channels()? {
            self.reconnect(&channel.name);
        }
        Ok(())
    }

    /// The channels of the configuration.
    ///
    /// # Errors
    /// Those of reading the store.
    pub(super) fn configured_channels(&self) -> Result<Vec<ChannelInstance>, state::Error> {
        let store = self.context.engine.store();
        store.read(|db, txn| db.channels.iter(txn)?.map(|row| row.map(|(_, channel)| channel)).collect())
    }

    /// Applies a channel's current settings: connects, reconnects or disconnects it.
    pub(super) fn reconnect(self: &Arc<Self>, name: &ChannelName) {
        let mut lines = self.lock();
        if let Some(line) = lines.get(name) {
            // Without a task there is nothing to apply settings to.
            drop(line.requests.send(LineRequest::Reconnect(None)));
            return;
        }
        let (requests, heard) = mpsc::unbounded_channel();
        lines.insert(name.clone(), Connection::new(ConnectionState::Connecting, requests));
        drop(lines);
        self.context.tokio.spawn(Arc::clone(self).keep(name.clone(), heard));
    }

    /// Reconnects a channel at once. None if it has no task. The receiver hears when the old connection is gone.
    pub(super) fn reconnect_now(&self, name: &ChannelName) -> Option<oneshot::Receiver<()>> {
        let (answer, heard) = oneshot::channel();
        self.request(name, LineRequest::Reconnect(Some(answer))).then_some(heard)
    }

    /// Compares a channel's secrets with those of its connection, and reconnects it if one changed. None if it has no
    /// task.
    pub(super) fn compare_secrets(&self, name: &ChannelName) -> Option<oneshot::Receiver<SecretCheck>> {
        let (answer, heard) = oneshot::channel();
        self.request(name, LineRequest::Compare(answer)).then_some(heard)
    }

    fn request(&self, name: &ChannelName, request: LineRequest) -> bool {
        self.lock().get(name).is_some_and(|line| line.requests.send(request).is_ok())
    }

    /// Shows a typing indicator, or a draft that `writing` finds, if its channel is connected. Returns the session of a
    /// draft.
    pub(super) fn show_typing(
        &self,
        indicator: &Indicator,
        writing: impl FnOnce(SessionId, &Address) -> Option<Shown>,
    ) -> Option<SessionId> {
        indicator.show_on(&*self.channel(&indicator.at().channel)?, writing)
    }

    /// A channel that has an adapter at the moment.
    pub(super) fn channel(&self, name: &ChannelName) -> Option<Arc<dyn Channel>> {
        match &self.lock().get(name)?.state {
            ConnectionState::Fixed(channel) | ConnectionState::Running(channel) => Some(Arc::clone(channel)),
            ConnectionState::Connecting | ConnectionState::Down { .. } => None,
        }
    }

    /// State of all configured channels.
    pub(super) fn status(&self) -> Vec<LineStatus> {
        let lines = self.lock();
        let configured = lines.iter().filter(|(_, line)| !matches!(line.state, ConnectionState::Fixed(_)));
        let status = |(name, line): (&ChannelName, &Connection)| LineStatus {
            name: name.clone(),
            kind: line.kind,
            health: line.health(),
        };
        configured.map(status).collect()
    }

    /// Stops all channels from receiving. Deliveries continue.
    pub(super) fn stop_taking(&self) {
        for line in self.lock().values() {
            if let ConnectionState::Running(channel) = &line.state {
                channel.stop_taking();
            }
        }
    }

    /// Disconnects all channels.
    pub(super) fn shut_down(&self) {
        let lines = std::mem::take(&mut *self.lock());
        for line in lines.into_values() {
            if let ConnectionState::Running(channel) = line.state {
                channel.shut_down();
            }
        }
    }

    /// Forgets a channel, unless its settings have just changed and have to be checked once more.
    fn forget(&self, name: &ChannelName, requests: &mpsc::UnboundedReceiver<LineRequest>) -> bool {
        let mut lines = self.lock();
        let is_over = requests.is_empty();
        if is_over {
            lines.remove(name);
        }
        is_over
    }

    fn settings(&self, name: &ChannelName) -> Result<Option<ChannelInstance>, state::Error> {
        self.context.engine.store().read(|db, txn| db.channels.get(txn, &ForeignKey::of(name)))
    }

    /// Sets the state of a line that is still configured. A channel that was running before is disconnected.
    fn set(&self, name: &ChannelName, kind: ChannelKind, state: ConnectionState) {
        let mut lines = self.lock();
        let before = match lines.get_mut(name) {
            Some(line) => {
                line.kind = kind;
                line.replace(state)
            }
            None => state,
        };
        drop(lines);
        if let ConnectionState::Running(channel) = before {
            channel.shut_down();
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ChannelName, Connection>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
