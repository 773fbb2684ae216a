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
use crate::console::{Certificate, Host, Listening, Views, stamp};
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

#[derive(Default)]
struct Running {
    /// The settings that were applied last.
    applied: Option<Applied>,
    /// The server and its address.
    server: Option<Server>,
    /// Why it does not listen although it should.
    trouble: Option<String>,
}

/// Settings, and the certificate's files at that time.
#[derive(PartialEq, Eq)]
struct Applied {
    settings: ConsoleSettings,
    stamp: String,
}

struct Server {
    /// How addresses of its pages begin.
    origin: String,
    /// The digest of a certificate that Hearth made.
    fingerprint: Option<String>,
    task: JoinHandle<()>,
}

impl Server {
    /// Ends it, and waits until its address is free.
    fn end(mut self, tokio: &Handle) {
        self.task.abort();
        drop(tokio.block_on(&mut self.task));
    }
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
        self.channels.logins().enable(settings.enabled && settings.chat_login);
        let mut running = self.console.running();
        let lives = running.server.as_ref().is_some_and(|server| !server.task.is_finished());
        let directory = self.paths.run().join("console");
        let wanted = Applied { stamp: stamp(&settings, &directory), settings: settings.clone() };
        if running.applied.as_ref() == Some(&wanted) && lives == settings.enabled {
            return;
        }
        let before = running.trouble.take();
        if let Some(server) = running.server.take() {
            server.end(tokio);
        }
        running.applied = Some(wanted);
        if !settings.enabled {
            return;
        }
        let opened =
            Certificate::of(&settings, &directory).map_err(|error| error.to_string()).and_then(|certificate| {
                let fingerprint = certificate.as_ref().and_then(Certificate::to_compare).map(str::to_owned);
                let listening = tokio.block_on(Listening::open(&settings, certificate));
                Ok((listening.map_err(|error| trouble(settings.listen, &error))?, fingerprint))
            });
        match opened {
            Ok((listening, fingerprint)) => {
                let (address, origin) = (listening.address(), listening.origin());
                if let Some(applied) = &mut running.applied {
                    // A certificate may have been made.
                    applied.stamp = stamp(&settings, &directory);
                }
                let host: Arc<dyn Host> = Arc::new(ConsoleHost::new(self, tokio));
                let task = tokio.spawn(async move {
                    if let Err(error) = listening.serve(host, views).await {
                        tracing::warn!(%error, "the console is no longer served");
                    }
                });
                running.server = Some(Server { origin, fingerprint, task });
                tracing::info!(%address, "the console is served");
            }
            Err(why) => {
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
        let (origin, fingerprint) = {
            let running = self.console.running();
            match (&running.server, &running.trouble) {
                (Some(server), _) => (server.origin.clone(), server.fingerprint.clone()),
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
                link: format!("{origin}/sign-in/{}", link.code),
                user: user.to_string(),
                expires: link.expires.to_string(),
                fingerprint,
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
