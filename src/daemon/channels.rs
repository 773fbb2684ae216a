//! Channel connections: one task per configured channel connects it, keeps it connected and reconnects it.
//!
//! A channel that cannot connect is shown as down and retried later. The daemon continues without it, and its outgoing
//! messages wait.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::channel_context::ChannelContext;
use super::ingress::ChannelIngress;
use super::pairing::Pairings;
use super::typing::Indicator;
use crate::channel::Channel;
use crate::channel::intake::Ingress;
use crate::channel::telegram;
use crate::channel::webhook::{self, Setup};
use crate::clock;
use crate::config::env;
use crate::model::address::ChannelName;
use crate::model::backoff::Backoff;
use crate::model::channel::{ChannelInstance, ChannelKind};
use crate::model::time::Millis;
use crate::runtime::process::{Lookup, resolve_reference};
use crate::state::{self, ForeignKey};

/// Waits before a channel that cannot be connected is tried again.
const RECONNECT: Backoff = Backoff::new(Millis::seconds(2), Millis::minutes(5));

/// State of a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineStatus {
    /// Its name.
    pub name: ChannelName,
    /// Its type.
    pub kind: ChannelKind,
    /// Why it is down; none if it is up.
    pub down: Option<String>,
}

/// All channels.
pub(super) struct Channels {
    context: ChannelContext,
    pairings: Arc<Pairings>,
    lines: Mutex<BTreeMap<ChannelName, Connection>>,
}

/// One channel and its task.
struct Connection {
    kind: ChannelKind,
    state: ConnectionState,
    /// Incremented when the settings change. Dropped with the line, which ends its task.
    changed: watch::Sender<u64>,
}

enum ConnectionState {
    Fixed(Arc<dyn Channel>),
    Up(Arc<dyn Channel>),
    Down(String),
}

impl Channels {
    /// Creates the channels with the terminal channel, which always exists.
    pub(super) fn new(context: ChannelContext, terminal: ChannelName, terminals: Arc<dyn Channel>) -> Arc<Self> {
        let line = Connection {
            kind: ChannelKind::Terminal,
            state: ConnectionState::Fixed(terminals),
            changed: watch::Sender::new(0),
        };
        Arc::new(Self { context, pairings: Arc::default(), lines: Mutex::new(BTreeMap::from([(terminal, line)])) })
    }

    /// Open pairings.
    pub(super) const fn pairings(&self) -> &Arc<Pairings> {
        &self.pairings
    }

    /// Connects every channel that is configured.
    ///
    /// # Errors
    /// Those of reading the store.
    pub(super) fn connect_all(self: &Arc<Self>) -> Result<(), state::Error> {
        let names = self.context.engine.store().read(|db, txn| {
            db.channels.iter(txn)?.map(|row| row.map(|(_, channel)| channel.name)).collect::<Result<Vec<_>, _>>()
        })?;
        for name in names {
            self.reconnect(&name);
        }
        Ok(())
    }

    /// Applies a channel's current settings: connects, reconnects or disconnects it.
    pub(super) fn reconnect(self: &Arc<Self>, name: &ChannelName) {
        let mut lines = self.lock();
        if let Some(line) = lines.get(name) {
            line.changed.send_modify(|count| *count += 1);
            return;
        }
        let changed = watch::Sender::new(0);
        let heard = changed.subscribe();
        let state = ConnectionState::Down("it is being connected".to_owned());
        lines.insert(name.clone(), Connection { kind: ChannelKind::Terminal, state, changed });
        drop(lines);
        self.context.tokio.spawn(Arc::clone(self).keep(name.clone(), heard));
    }

    /// Shows a typing indicator, if its channel is connected.
    pub(super) fn show_typing(&self, indicator: &Indicator) {
        if let Some(channel) = self.channel(&indicator.at().channel) {
            indicator.show_on(&*channel);
        }
    }

    /// A channel that is up.
    pub(super) fn channel(&self, name: &ChannelName) -> Option<Arc<dyn Channel>> {
        match &self.lock().get(name)?.state {
            ConnectionState::Fixed(channel) | ConnectionState::Up(channel) => Some(Arc::clone(channel)),
            ConnectionState::Down(_) => None,
        }
    }

    /// State of all configured channels.
    pub(super) fn status(&self) -> Vec<LineStatus> {
        let lines = self.lock();
        let status = lines.iter().filter_map(|(name, line)| {
            let down = match &line.state {
                ConnectionState::Fixed(_) => return None,
                ConnectionState::Up(channel) => channel.trouble(),
                ConnectionState::Down(why) => Some(why.clone()),
            };
            Some(LineStatus { name: name.clone(), kind: line.kind, down })
        });
        status.collect()
    }

    /// Stops all channels from receiving. Deliveries continue.
    pub(super) fn stop_taking(&self) {
        for line in self.lock().values() {
            if let ConnectionState::Up(channel) = &line.state {
                channel.stop_taking();
            }
        }
    }

    /// Disconnects all channels.
    pub(super) fn shut_down(&self) {
        let lines = std::mem::take(&mut *self.lock());
        for line in lines.into_values() {
            if let ConnectionState::Up(channel) = line.state {
                channel.shut_down();
            }
        }
    }

    /// Keeps one channel connected as long as it is configured.
    async fn keep(self: Arc<Self>, name: ChannelName, mut changed: watch::Receiver<u64>) {
        let mut tries = 0_u32;
        loop {
            changed.mark_unchanged();
            let row = match self.settings(&name) {
                Ok(Some(row)) => row,
                Ok(None) if self.forget(&name, &changed) => return,
                Ok(None) => continue,
                Err(error) => {
                    tracing::error!(channel = %name, %error, "the channel's settings cannot be read");
                    if self.forget(&name, &changed) {
                        return;
                    }
                    continue;
                }
            };
            let ingress: Arc<dyn Ingress> = Arc::new(ChannelIngress::new(&name, &self.context, &self.pairings));
            let over = match self.connect(row.clone(), &ingress).await {
                Ok(channel) => {
                    tries = 0;
                    tracing::info!(channel = %name, "connected");
                    self.set(&name, row.kind, ConnectionState::Up(channel));
                    ingress.reachable();
                    changed.changed().await.is_err()
                }
                Err(why) => {
                    tracing::warn!(channel = %name, why, "the channel cannot be connected");
                    self.set(&name, row.kind, ConnectionState::Down(why));
                    let wait = RECONNECT.wait(tries).duration();
                    tries = tries.saturating_add(1);
                    let heard = tokio::time::timeout(wait, changed.changed()).await;
                    matches!(heard, Ok(Err(_)))
                }
            };
            self.set(&name, row.kind, ConnectionState::Down("it is being connected".to_owned()));
            if over {
                return;
            }
        }
    }

    /// Forgets a channel, unless its settings have just changed and have to be checked once more.
    fn forget(&self, name: &ChannelName, changed: &watch::Receiver<u64>) -> bool {
        let mut lines = self.lock();
        let is_over = !changed.has_changed().unwrap_or(false);
        if is_over {
            lines.remove(name);
        }
        is_over
    }

    fn settings(&self, name: &ChannelName) -> Result<Option<ChannelInstance>, state::Error> {
        self.context.engine.store().read(|db, txn| db.channels.get(txn, &ForeignKey::of(name)))
    }

    /// Sets the state of a line that is still configured. A channel that was up before is disconnected.
    fn set(&self, name: &ChannelName, kind: ChannelKind, state: ConnectionState) {
        let mut lines = self.lock();
        let before = match lines.get_mut(name) {
            Some(line) => {
                line.kind = kind;
                std::mem::replace(&mut line.state, state)
            }
            None => state,
        };
        drop(lines);
        if let ConnectionState::Up(channel) = before {
            channel.shut_down();
        }
    }

    async fn connect(&self, row: ChannelInstance, ingress: &Arc<dyn Ingress>) -> Result<Arc<dyn Channel>, String> {
        let token = secret("token", row.token.clone()).await?;
        let secret = secret("secret", row.secret.clone()).await?;
        let (name, sessions) = (row.name, self.context.sessions.clone());
        match row.kind {
            ChannelKind::Webhook => {
                let link_previews = row.link_previews;
                let secret = secret.ok_or("it has no secret")?;
                let listen = row.listen.unwrap_or(webhook::LISTEN);
                let setup =
                    Setup { name, secret, base_url: row.base_url, listen, sessions, link_previews, now: clock::wall };
                webhook::start(setup, Arc::clone(ingress)).await
            }
            ChannelKind::Telegram => {
                let token = token.ok_or("it has no token")?;
                let setup =
                    telegram::Setup { name, token, base_url: row.base_url, sessions, link_previews: row.link_previews };
                let bot = telegram::start(setup, Arc::clone(ingress), &self.context.tokio);
                bot.map(|bot| bot as Arc<dyn Channel>).map_err(|error| error.to_string())
            }
            ChannelKind::Terminal => Err("the terminal is always connected".to_owned()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ChannelName, Connection>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Resolves a secret reference. This may run a command, which takes time.
async fn secret(what: &'static str, reference: Option<String>) -> Result<Option<String>, String> {
    let Some(reference) = reference else { return Ok(None) };
    let find = move || {
        let lookup: Lookup = Arc::new(|name: &str| env::env_lookup(name).map(std::ffi::OsString::from));
        resolve_reference(&reference, &lookup)
    };
    let found = tokio::task::spawn_blocking(find).await.map_err(|error| error.to_string())?;
    let value = found.map_err(|error| format!("its {what} was not found: {error}"))?;
    value.into_string().map(Some).map_err(|_| format!("its {what} is not text"))
}
