//! A webhook: any program that speaks signed JSON over HTTP, a bridge to a network that Hearth does not know.
//!
//! Inbound (`inbound`): a web service that answers a message or a pressed button when it is committed, and asks to come
//! again when there is no room for it. Outbound (`attempt`): one request per delivery, with Hearth's id of it as the key
//! by which the receiver knows one that comes again. `docs/webhook.md` is the protocol.
//!
//! Nothing here knows who may talk to whom: there is nothing cached that a change of the configuration would have to reach.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokio::runtime::Handle;
use tokio::sync::watch;

use super::Channel;
use super::intake::Intake;
use crate::model::address::{Address, ChannelName, UserId};
use crate::model::delivery::{Delivery, DeliveryResult};
use crate::model::id::SessionId;
use crate::model::time::Timestamp;
use crate::seats::Place;
use attempt::Body;
pub use entrance::Entrance;
use inbound::Gate;
pub use judge::{check, press, sign};
use post::Receiver;
use signature::Key;

mod attempt;
mod entrance;
mod inbound;
mod judge;
mod pause;
mod post;
mod signature;
#[cfg(test)]
mod tests;
mod typing;
mod wire;

/// Where a webhook listens if nothing else is said: for programs of this machine only.
pub const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8787);

/// Why nothing can be said through a channel without a receiver.
const NO_RECEIVER: &str = "the channel has no base_url: set it in hearth.toml to where its receiver listens";

/// What a webhook needs to know.
pub struct Setup {
    /// Name of the channel: the namespace of its chats and people.
    pub name: ChannelName,
    /// What both sides sign with.
    pub secret: String,
    /// Where the receiver is; without one the channel only takes in.
    pub base_url: Option<String>,
    /// Where to listen.
    pub listen: SocketAddr,
    /// Directory that the names of files to send are relative to.
    pub sessions: PathBuf,
    /// The wall clock.
    pub now: fn() -> Timestamp,
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setup").field("name", &self.name).field("listen", &self.listen).finish_non_exhaustive()
    }
}

/// A webhook that listens.
struct Webhook {
    receiver: Option<Arc<Receiver>>,
    intake: Arc<dyn Intake>,
    sessions: Arc<PathBuf>,
    /// The receiver does not know of signs that somebody is at work.
    no_signs: Arc<AtomicBool>,
    closed: watch::Sender<bool>,
    tokio: Handle,
}

/// Starts a webhook: listens from now on, until it is shut down.
///
/// # Errors
/// What is wrong, for people: the secret is empty, the address is in use, TLS cannot be set up.
pub async fn start(setup: Setup, intake: Arc<dyn Intake>) -> Result<Arc<dyn Channel>, String> {
    let (webhook, _) = open(setup, intake).await?;
    Ok(webhook)
}

async fn open(setup: Setup, intake: Arc<dyn Intake>) -> Result<(Arc<Webhook>, SocketAddr), String> {
    let Setup { name, secret, base_url, listen, sessions, now } = setup;
    let key = Key::new(&secret).ok_or("its secret is empty; choose a long random one")?;
    let (closed, closing) = watch::channel(false);
    let receiver = base_url.map(|url| Receiver::new(&url, key.clone(), now, Arc::clone(&intake), closing.clone()));
    let receiver = receiver.transpose()?.map(Arc::new);
    let refused = |error: std::io::Error| {
        format!("it cannot listen on {listen}: {error}; stop what does, or set another `listen` in hearth.toml")
    };
    let entrance = Entrance::open(listen).await.map_err(refused)?;
    let address = entrance.address().map_err(refused)?;
    let gate = Arc::new(Gate { name, key, intake: Arc::clone(&intake), now, closed: closing.clone() });
    let mut closing = closing;
    let until = async move {
        // A dropped channel is a closed one.
        drop(closing.wait_for(|closed| *closed).await);
    };
    let service = inbound::router(gate).into_make_service_with_connect_info::<Place>();
    let service = axum::serve(entrance, service).with_graceful_shutdown(until);
    tokio::spawn(service.into_future());
    let (sessions, no_signs) = (Arc::new(sessions), Arc::default());
    Ok((Arc::new(Webhook { receiver, intake, sessions, no_signs, closed, tokio: Handle::current() }), address))
}

impl Channel for Webhook {
    fn deliver(&self, delivery: Delivery) {
        let (intake, sessions) = (Arc::clone(&self.intake), Arc::clone(&self.sessions));
        let Some(receiver) = self.receiver.clone() else {
            intake.outcome(delivery.id, delivery.attempt, DeliveryResult::Rejected(NO_RECEIVER.to_owned()));
            return;
        };
        self.tokio.spawn(async move {
            let result = attempt::deliver(&receiver, &sessions, &delivery).await;
            intake.outcome(delivery.id, delivery.attempt, result);
        });
    }

    fn open_direct(&self, user: UserId) {
        let intake = Arc::clone(&self.intake);
        let Some(receiver) = self.receiver.clone() else {
            intake.direct_opened(user, Err(NO_RECEIVER.to_owned()));
            return;
        };
        self.tokio.spawn(async move {
            let chat = attempt::open_direct(&receiver, &user).await;
            intake.direct_opened(user, chat);
        });
    }

    fn subscribe(&self, thread: &Address) {
        let Some(receiver) = self.receiver.clone() else { return };
        let thread = thread.clone();
        self.tokio.spawn(async move {
            let sent = attempt::exchange(&receiver, Body::Text(wire::about_place("subscribe", &thread))).await;
            tracing::debug!(?sent, "the receiver was told of a thread");
        });
    }

    fn trouble(&self) -> Option<String> {
        self.receiver.as_ref().and_then(|receiver| receiver.trouble())
    }

    fn shut_down(&self) {
        self.closed.send_replace(true);
    }

    fn typing(&self, _session: SessionId, at: &Address) {
        if let Some(receiver) = &self.receiver {
            typing::show(&self.no_signs, receiver, at, &self.tokio);
        }
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.shut_down();
    }
}
