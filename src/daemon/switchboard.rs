//! The networks that are connected: one task per configured channel connects it, keeps it and connects it again.
//!
//! A channel that cannot be connected is down, visibly and for a while; the daemon goes on without it, and what is to go out
//! through it waits.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;

use super::door::Door;
use super::files::Fates;
use super::inbox::Inbox;
use super::metrics::Metrics;
use super::typing::Typing;
use crate::channel::Channel;
use crate::channel::intake::Intake;
use crate::channel::telegram;
use crate::channel::webhook::{self, Setup};
use crate::clock;
use crate::config::env;
use crate::engine::commit::Engine;
use crate::model::address::ChannelName;
use crate::model::channel::{ChannelInstance, ChannelKind};
use crate::runtime::process::{Lookup, resolve_reference};
use crate::state::{self, ForeignKey};

/// Waits before a channel that could not be connected is connected again; the last one repeats.
const AGAIN: [u64; 6] = [2, 5, 10, 30, 60, 300];

/// How a channel is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineStatus {
    /// Its name.
    pub name: ChannelName,
    /// What drives it.
    pub kind: ChannelKind,
    /// Why it is down; none if it is up.
    pub down: Option<String>,
}

/// All channels.
pub(super) struct Switchboard {
    around: Around,
    lines: Mutex<BTreeMap<ChannelName, Line>>,
}

/// What the channels' tasks need.
pub(super) struct Around {
    /// Where they run.
    pub(super) tokio: Handle,
    /// Where what happens on them goes.
    pub(super) inbox: Arc<Inbox>,
    /// Where their settings are.
    pub(super) engine: Arc<Engine>,
    /// Directory that the names of files to send are relative to.
    pub(super) sessions: PathBuf,
    /// Who hears what became of deliveries.
    pub(super) typing: Arc<Typing>,
    /// What becomes of the files of what is handed over.
    pub(super) fates: Fates,
    /// Who counts deliveries.
    pub(super) metrics: Arc<Metrics>,
}

/// One channel and its task.
struct Line {
    kind: ChannelKind,
    state: LineState,
    /// Rises when the settings changed; dropped with the line, which ends its task.
    changed: watch::Sender<u64>,
}

enum LineState {
    Fixed(Arc<dyn Channel>),
    Up(Arc<dyn Channel>),
    Down(String),
}

impl Switchboard {
    /// A switchboard with the channel that is always there.
    pub(super) fn new(around: Around, terminal: ChannelName, terminals: Arc<dyn Channel>) -> Arc<Self> {
        let line =
            Line { kind: ChannelKind::Terminal, state: LineState::Fixed(terminals), changed: watch::Sender::new(0) };
        Arc::new(Self { around, lines: Mutex::new(BTreeMap::from([(terminal, line)])) })
    }

    /// Connects every channel that is configured.
    ///
    /// # Errors
    /// Those of reading the store.
    pub(super) fn connect_all(self: &Arc<Self>) -> Result<(), state::Error> {
        let names = self.around.engine.store().read(|db, txn| {
            db.channels.iter(txn)?.map(|row| row.map(|(_, channel)| channel.name)).collect::<Result<Vec<_>, _>>()
        })?;
        for name in names {
            self.reconnect(&name);
        }
        Ok(())
    }

    /// Looks at a channel's settings again: connects it, connects it anew, or lets it go.
    pub(super) fn reconnect(self: &Arc<Self>, name: &ChannelName) {
        let mut lines = self.lock();
        if let Some(line) = lines.get(name) {
            line.changed.send_modify(|count| *count += 1);
            return;
        }
        let changed = watch::Sender::new(0);
        let heard = changed.subscribe();
        let state = LineState::Down("it is being connected".to_owned());
        lines.insert(name.clone(), Line { kind: ChannelKind::Terminal, state, changed });
        drop(lines);
        self.around.tokio.spawn(Arc::clone(self).keep(name.clone(), heard));
    }

    /// A channel that is up.
    pub(super) fn channel(&self, name: &ChannelName) -> Option<Arc<dyn Channel>> {
        match &self.lock().get(name)?.state {
            LineState::Fixed(channel) | LineState::Up(channel) => Some(Arc::clone(channel)),
            LineState::Down(_) => None,
        }
    }

    /// How all configured channels are.
    pub(super) fn status(&self) -> Vec<LineStatus> {
        let lines = self.lock();
        let status = lines.iter().filter_map(|(name, line)| {
            let down = match &line.state {
                LineState::Fixed(_) => return None,
                LineState::Up(channel) => channel.trouble(),
                LineState::Down(why) => Some(why.clone()),
            };
            Some(LineStatus { name: name.clone(), kind: line.kind, down })
        });
        status.collect()
    }

    /// Lets no channel ask for anything new; deliveries go on.
    pub(super) fn stop_taking(&self) {
        for line in self.lock().values() {
            if let LineState::Up(channel) = &line.state {
                channel.stop_taking();
            }
        }
    }

    /// Lets every channel go: nothing is handed over any more.
    pub(super) fn shut_down(&self) {
        let lines = std::mem::take(&mut *self.lock());
        for line in lines.into_values() {
            if let LineState::Up(channel) = line.state {
                channel.shut_down();
            }
        }
    }

    /// Keeps one channel connected as long as it is configured.
    async fn keep(self: Arc<Self>, name: ChannelName, mut changed: watch::Receiver<u64>) {
        let mut tries = 0_usize;
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
            let door: Arc<dyn Intake> = Arc::new(Door::new(&name, &self.around));
            let over = match self.connect(row.clone(), &door).await {
                Ok(channel) => {
                    tries = 0;
                    tracing::info!(channel = %name, "connected");
                    self.set(&name, row.kind, LineState::Up(channel));
                    door.reachable();
                    changed.changed().await.is_err()
                }
                Err(why) => {
                    tracing::warn!(channel = %name, why, "the channel cannot be connected");
                    self.set(&name, row.kind, LineState::Down(why));
                    let wait = AGAIN.get(tries).or(AGAIN.last()).copied().unwrap_or_default();
                    tries = tries.saturating_add(1);
                    let heard = tokio::time::timeout(Duration::from_secs(wait), changed.changed()).await;
                    matches!(heard, Ok(Err(_)))
                }
            };
            self.set(&name, row.kind, LineState::Down("it is being connected".to_owned()));
            if over {
                return;
            }
        }
    }

    /// Forgets a channel, unless it was changed just now: then it has to be looked at once more.
    fn forget(&self, name: &ChannelName, changed: &watch::Receiver<u64>) -> bool {
        let mut lines = self.lock();
        let is_over = !changed.has_changed().unwrap_or(false);
        if is_over {
            lines.remove(name);
        }
        is_over
    }

    fn settings(&self, name: &ChannelName) -> Result<Option<ChannelInstance>, state::Error> {
        self.around.engine.store().read(|db, txn| db.channels.get(txn, &ForeignKey::of(name)))
    }

    /// Sets the state of a line that is still wanted; a channel that was up before is let go.
    fn set(&self, name: &ChannelName, kind: ChannelKind, state: LineState) {
        let mut lines = self.lock();
        let before = match lines.get_mut(name) {
            Some(line) => {
                line.kind = kind;
                std::mem::replace(&mut line.state, state)
            }
            None => state,
        };
        drop(lines);
        if let LineState::Up(channel) = before {
            channel.shut_down();
        }
    }

    async fn connect(&self, row: ChannelInstance, door: &Arc<dyn Intake>) -> Result<Arc<dyn Channel>, String> {
        let token = secret("token", row.token.clone()).await?;
        let secret = secret("secret", row.secret.clone()).await?;
        let (name, sessions) = (row.name, self.around.sessions.clone());
        match row.kind {
            ChannelKind::Webhook => {
                let secret = secret.ok_or("it has no secret")?;
                let listen = row.listen.unwrap_or(webhook::LISTEN);
                let setup = Setup { name, secret, base_url: row.base_url, listen, sessions, now: clock::wall };
                webhook::start(setup, Arc::clone(door)).await
            }
            ChannelKind::Telegram => {
                let token = token.ok_or("it has no token")?;
                let setup = telegram::Setup { name, token, base_url: row.base_url, sessions };
                let bot = telegram::start(setup, Arc::clone(door), &self.around.tokio);
                bot.map(|bot| bot as Arc<dyn Channel>).map_err(|error| error.to_string())
            }
            ChannelKind::Terminal => Err("the terminal is always connected".to_owned()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ChannelName, Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The value of a reference. Finding it may start a command, which takes time.
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
