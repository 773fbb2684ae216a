//! The webhook channel: a bridge program connects Hearth to another network, with signed JSON over HTTP.
//!
//! Inbound (`inbound`): a web service that answers a message or a pressed button once it is committed, and asks for a
//! repeat when there is no room. Outbound (`attempt`): one request per delivery, with Hearth's delivery id as the key
//! by which the receiver detects repeats. `docs/webhook.md` describes the protocol.
//!
//! Nothing is cached about permissions, so changes of the configuration apply at once.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokio::runtime::Handle;
use tokio::sync::watch;

use super::Channel;
use super::health::{Health, LastContact, LineState};
use super::intake::Ingress;
use crate::connections::ConnectionHandle;
use crate::model::address::{Address, ChannelName, UserId};
use crate::model::delivery::{Delivery, DeliveryResult};
use crate::model::id::SessionId;
use crate::model::time::Timestamp;
use attempt::Body;
pub use entrance::{Caller, Entrance};
use inbound::RequestContext;
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

/// Default listening address: only programs on this machine can connect.
pub const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8787);

/// Why nothing can be sent through a channel without a receiver.
const NO_RECEIVER: &str = "the channel has no base_url: set it in hearth.toml to where its receiver listens";

/// Configuration of a webhook.
pub struct Setup {
    /// Name of the channel: the namespace of its chats and people.
    pub name: ChannelName,
    /// The shared secret for signatures.
    pub secret: String,
    /// Address of the receiver. Without one the channel only receives.
    pub base_url: Option<String>,
    /// Listening address.
    pub listen: SocketAddr,
    /// Directory that names of outgoing files are relative to.
    pub sessions: PathBuf,
    /// Whether the receiver may let its network fetch link previews.
    pub link_previews: bool,
    /// The wall clock.
    pub now: fn() -> Timestamp,
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setup").field("name", &self.name).field("listen", &self.listen).finish_non_exhaustive()
    }
}

/// A running webhook.
struct Webhook {
    receiver: Option<Arc<Receiver>>,
    intake: Arc<dyn Ingress>,
    sessions: Arc<PathBuf>,
    contact: Arc<LastContact>,
    /// The receiver does not support typing indicators.
    no_signs: Arc<AtomicBool>,
    closed: watch::Sender<bool>,
    tokio: Handle,
}

/// Starts a webhook. It listens until it is shut down.
///
/// # Errors
/// What is wrong, worded for people: the secret is empty, the address is in use, TLS cannot be set up.
pub async fn start(setup: Setup, intake: Arc<dyn Ingress>) -> Result<Arc<dyn Channel>, String> {
    let (webhook, _) = open(setup, intake).await?;
    Ok(webhook)
}

async fn open(setup: Setup, intake: Arc<dyn Ingress>) -> Result<(Arc<Webhook>, SocketAddr), String> {
    let Setup { name, secret, base_url, listen, sessions, link_previews, now } = setup;
    let key = Key::new(&secret).ok_or("its secret is empty; choose a long random one")?;
    let (closed, closing) = watch::channel(false);
    let contact = Arc::new(LastContact::new());
    let receiver = base_url.map(|url| Receiver::new(&url, key.clone(), now, Arc::clone(&intake), closing.clone()));
    let receiver = receiver.transpose()?.map(|mut receiver| {
        receiver.link_previews = link_previews;
        receiver.contact = Arc::clone(&contact);
        Arc::new(receiver)
    });
    let refused = |error: std::io::Error| {
        format!("cannot listen on {listen}: {error}; stop the program that does, or change `listen` in hearth.toml")
    };
    let entrance = Entrance::open(listen).await.map_err(refused)?;
    let address = entrance.address().map_err(refused)?;
    tracing::info!(channel = %name, %address, "listening");
    let gate = RequestContext {
        name,
        key,
        intake: Arc::clone(&intake),
        now,
        contact: Arc::clone(&contact),
        closed: closing.clone(),
    };
    let mut closing = closing;
    let until = async move {
        // Dropping the channel closes it.
        drop(closing.wait_for(|closed| *closed).await);
    };
    let service = inbound::router(Arc::new(gate)).into_make_service_with_connect_info::<ConnectionHandle>();
    let service = axum::serve(entrance, service).with_graceful_shutdown(until);
    tokio::spawn(service.into_future());
    let (sessions, no_signs) = (Arc::new(sessions), Arc::default());
    let tokio = Handle::current();
    Ok((Arc::new(Webhook { receiver, intake, sessions, contact, no_signs, closed, tokio }), address))
}

impl Channel for Webhook {
    fn deliver(&self, delivery: Delivery) {
        let (intake, sessions) = (Arc::clone(&self.intake), Arc::clone(&self.sessions));
        let Some(receiver) = self.receiver.clone() else {
            // The message waits, as for a missing channel.
            intake.outcome(delivery.id, delivery.attempt, DeliveryResult::NoAdapter);
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
            tracing::debug!(?sent, "sent a thread subscription to the receiver");
        });
    }

    fn health(&self) -> Health {
        let failure = self.receiver.as_ref().and_then(|receiver| receiver.trouble());
        let next_try = self.receiver.as_ref().and_then(|receiver| receiver.pause.end());
        let state = if failure.is_some() { LineState::Down } else { LineState::Up };
        Health { state, last_contact: self.contact.get(), next_try: next_try.filter(|_| failure.is_some()), failure }
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
