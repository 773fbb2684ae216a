//! The console in the daemon: listens as the configuration says, and lets the pages of `console` read the store and submit
//! inputs.

use std::fs::File;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::Daemon;
use crate::channel::Channel;
use crate::console::{Host, Listening, Views};
use crate::model::address::{ChannelName, UserId};
use crate::model::console::{CHANNEL, ConsoleSettings};
use crate::socket::protocol::{ConsoleLink, Response};

mod host;
mod links;
mod people;
mod words;

pub use people::rank;

use host::ConsoleHost;
use links::Links;

/// The console of a daemon.
pub(super) struct Console {
    /// What pages show, once the command that started the daemon has brought it.
    views: OnceLock<Arc<dyn Views>>,
    links: Links,
    changes: watch::Sender<u64>,
    running: Mutex<Running>,
}

/// What listens.
#[derive(Default)]
struct Running {
    /// The settings that were applied last.
    applied: Option<ConsoleSettings>,
    /// The server and its address.
    server: Option<Server>,
    /// Why it does not listen although it should.
    trouble: Option<String>,
}

struct Server {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Default for Console {
    fn default() -> Self {
        Self {
            views: OnceLock::new(),
            links: Links::default(),
            changes: watch::channel(0).0,
            running: Mutex::default(),
        }
    }
}

impl Console {
    /// Something was committed.
    pub(super) fn changed(&self) {
        self.changes.send_modify(|number| *number = number.wrapping_add(1));
    }

    /// Answers nothing any more.
    pub(super) fn shut_down(&self) {
        self.running().server = None;
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name of the channel.
pub(super) fn channel() -> Result<ChannelName, crate::model::address::BadName> {
    ChannelName::new(CHANNEL)
}

/// The channel of chats in the console.
pub(super) fn as_channel(chats: crate::console::chat::Chats) -> Arc<dyn Channel> {
    Arc::new(chats)
}

impl Daemon {
    /// Lets the console show pages, and listen if the configuration says so.
    pub fn show_console(self: &Arc<Self>, views: Arc<dyn Views>, tokio: &Handle) {
        drop(self.console.views.set(views));
        self.tend_console(tokio);
    }

    /// Applies the console's settings, if they changed or the address could not be bound before.
    pub fn tend_console(self: &Arc<Self>, tokio: &Handle) {
        let Some(views) = self.console.views.get().cloned() else { return };
        let settings = match self.store().read(|db, txn| db.console.get(txn, &())) {
            Ok(settings) => settings.unwrap_or_default(),
            Err(error) => return tracing::warn!(%error, "the console's settings cannot be read"),
        };
        let mut running = self.console.running();
        let lives = running.server.as_ref().is_some_and(|server| !server.task.is_finished());
        if running.applied.as_ref() == Some(&settings) && lives == settings.enabled {
            return;
        }
        let before = running.trouble.take();
        running.server = None;
        running.applied = Some(settings.clone());
        if !settings.enabled {
            return;
        }
        match tokio.block_on(Listening::open(settings.listen)) {
            Ok(listening) => {
                let address = listening.address();
                let host: Arc<dyn Host> = Arc::new(ConsoleHost::new(self, tokio));
                let task = tokio.spawn(async move {
                    if let Err(error) = listening.serve(host, views).await {
                        tracing::warn!(%error, "the console is no longer served");
                    }
                });
                running.server = Some(Server { address, task });
                tracing::info!(%address, "the console is served");
            }
            Err(error) => {
                let why = trouble(settings.listen, &error);
                if before.as_ref() != Some(&why) {
                    tracing::warn!("the console is not served: {why}");
                }
                running.trouble = Some(why);
            }
        }
    }

    /// Why the console does not listen although it should.
    pub fn console_trouble(&self) -> Option<String> {
        self.console.running().trouble.clone()
    }

    /// A file that an agent sent, by the name under which it is kept; none if it is not kept any more.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn sent_file(&self, name: &str) -> Result<Option<File>, String> {
        self.workers.mailboxes().kept(name).map_err(|error| error.to_string())
    }

    /// Has the checks of `hearth doctor` run in a process of their own, without the network. Returns its JSON.
    ///
    /// # Errors
    /// Why that failed.
    pub fn examine(&self) -> Result<String, String> {
        let arguments = ["doctor", "--offline", "--json"].map(str::to_owned);
        super::child::answer(&self.paths, &arguments, &self.stop)
    }

    /// Makes a link that signs a person in once.
    pub(super) fn console_link(&self, user: Option<&str>, uid: u32) -> Response {
        let invalid = |message: String| Response::refused("invalid", message);
        let address = {
            let running = self.console.running();
            match (&running.server, &running.trouble) {
                (Some(server), _) => server.address,
                (None, Some(why)) => return Response::refused("down", why.clone()),
                (None, None) => {
                    return Response::refused(
                        "off",
                        "the console is off: add `[console]` to hearth.toml, and apply it with `hearth apply hearth.toml`"
                            .to_owned(),
                    );
                }
            }
        };
        let user = match user.map_or_else(|| super::setup::user(uid), UserId::parse) {
            Ok(user) => user,
            Err(error) => return invalid(error.to_string()),
        };
        match self.store().read(|db, txn| people::rank(db, txn, &user)) {
            Ok(Some(_)) => {}
            Ok(None) => {
                return invalid(format!(
                    "{user} has no role and is a member of no agent, so the console has nothing to show; name a person with \
                     --user, or grant a role with `hearth roles grant {user} owner`"
                ));
            }
            Err(error) => return Response::refused("failed", error.to_string()),
        }
        match self.console.links.make(&user) {
            Ok(link) => Response::Console(ConsoleLink {
                link: format!("http://{address}/sign-in/{}", link.code),
                user: user.to_string(),
                expires: link.expires.to_string(),
            }),
            Err(error) => Response::refused("failed", format!("the system provides no random numbers: {error}")),
        }
    }
}

fn trouble(address: SocketAddr, error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => format!(
            "port {} is already in use; stop the other program, or change `console.listen` in hearth.toml",
            address.port()
        ),
        _ => format!("{address} cannot be listened on; change `console.listen` in hearth.toml: {error}"),
    }
}
