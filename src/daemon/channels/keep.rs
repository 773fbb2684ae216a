//! The task of one channel: connects it, keeps it connected, and reconnects it on request.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::secrets::Secrets;
use super::{Channels, ConnectionState};
use crate::channel::Channel;
use crate::channel::health::LineState;
use crate::channel::intake::Ingress;
use crate::channel::telegram;
use crate::channel::webhook::{self, Setup};
use crate::clock;
use crate::daemon::bridges::NewBridge;
use crate::daemon::ingress::{ChannelIngress, Codes};
use crate::model::address::ChannelName;
use crate::model::backoff::Backoff;
use crate::model::channel::{ChannelInstance, ChannelKind};
use crate::model::time::Millis;

/// Waits before a channel that cannot be connected is tried again.
const RECONNECT: Backoff = Backoff::new(Millis::seconds(2), Millis::minutes(5));
/// Waits before the secrets of a channel whose service refuses them are read again.
const REFUSED: Backoff = Backoff::new(Millis::minutes(1), Millis::minutes(10));

/// A request to a channel's task.
pub(super) enum LineRequest {
    /// Reconnect, with the current settings and secrets.
    Reconnect(Option<oneshot::Sender<()>>),
    /// Reconnect if the secrets changed, or if the channel is not connected.
    Compare(oneshot::Sender<SecretCheck>),
}

/// Result of comparing a channel's secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::daemon) enum SecretCheck {
    /// The connection uses the current ones.
    Unchanged,
    /// This one changed: the channel is reconnected.
    Changed(&'static str),
    /// The channel was waiting for its next try, which now starts at once.
    Retried,
    /// They cannot be resolved. The connection keeps its own.
    Unresolved(String),
}

impl LineRequest {
    /// Answers a request when the channel reconnects.
    fn accept(self) {
        // The caller may be gone.
        match self {
            Self::Reconnect(answer) => drop(answer.map(|answer| answer.send(()))),
            Self::Compare(answer) => drop(answer.send(SecretCheck::Retried)),
        }
    }
}

/// A connection that was made.
struct NewConnection {
    channel: Arc<dyn Channel>,
    secrets: Secrets,
}

impl Channels {
    /// Keeps one channel connected as long as it is configured.
    pub(super) async fn keep(self: Arc<Self>, name: ChannelName, mut requests: mpsc::UnboundedReceiver<LineRequest>) {
        let (mut tries, mut asked) = (0_u32, None);
        loop {
            let accepted: Vec<LineRequest> = asked.take().into_iter().chain(pending(&mut requests)).collect();
            let ControlFlow::Continue(row) = self.configured(&name, &requests) else { return };
            let Some(row) = row else { continue };
            self.set(&name, row.kind, ConnectionState::Connecting);
            accepted.into_iter().for_each(LineRequest::accept);
            let codes = Codes {
                pairings: Arc::clone(&self.pairings),
                logins: Arc::clone(&self.logins),
                authenticated: row.kind.authenticates_senders(),
            };
            let ingress: Arc<dyn Ingress> = Arc::new(ChannelIngress::new(&name, &self.context, codes));
            let made = tokio::select! {
                request = requests.recv() => match request {
                    Some(request) => {
                        (tries, asked) = (0, Some(request));
                        continue;
                    }
                    None => return,
                },
                made = self.connect(row.clone(), &ingress) => made,
            };
            let ended = match made {
                Ok(NewConnection { channel, secrets }) => {
                    tries = 0;
                    self.set(&name, row.kind, ConnectionState::Running(Arc::clone(&channel)));
                    ingress.reachable();
                    watch(&row, &*channel, &secrets, &mut requests, REFUSED).await
                }
                Err(why) => {
                    let wait = RECONNECT.wait(tries);
                    tracing::warn!(channel = %name, why, "cannot connect the channel");
                    self.set(&name, row.kind, ConnectionState::Down { why, next_try: clock::wall().plus(wait) });
                    let ended = pause(wait.duration(), &mut requests).await;
                    tries = if let ControlFlow::Continue(None) = ended { tries.saturating_add(1) } else { 0 };
                    ended
                }
            };
            let ControlFlow::Continue(request) = ended else { return };
            asked = request;
        }
    }

    /// The settings of a channel; none if they have to be read again. Breaks if it is not configured any more.
    fn configured(
        &self,
        name: &ChannelName,
        requests: &mpsc::UnboundedReceiver<LineRequest>,
    ) -> ControlFlow<(), Option<ChannelInstance>> {
        match self.settings(name) {
            Ok(Some(row)) => return ControlFlow::Continue(Some(row)),
            Ok(None) => {}
            Err(error) => tracing::error!(channel = %name, %error, "cannot read the channel's settings"),
        }
        if self.forget(name, requests) { ControlFlow::Break(()) } else { ControlFlow::Continue(None) }
    }

    async fn connect(&self, row: ChannelInstance, ingress: &Arc<dyn Ingress>) -> Result<NewConnection, String> {
        let secrets = Secrets::resolve(&row).await?;
        secrets.tell(&row.name, &self.context.known);
        let (name, sessions, now) = (row.name, self.context.bridges.sessions(), clock::wall);
        let (base_url, link_previews) = (row.base_url, row.link_previews);
        let channel = match row.kind {
            ChannelKind::Webhook => {
                let secret = secrets.secret.clone().ok_or("it has no secret")?;
                let listen = row.listen.unwrap_or(webhook::LISTEN);
                let setup = Setup { name, secret, base_url, listen, sessions, link_previews, now };
                webhook::start(setup, Arc::clone(ingress)).await?
            }
            ChannelKind::Telegram => {
                let token = secrets.token.clone().ok_or("it has no token")?;
                let setup = telegram::Setup { name, token, base_url, sessions, link_previews, now };
                let bot = telegram::start(setup, Arc::clone(ingress), &self.context.tokio);
                bot.map_err(|error| error.to_string())?
            }
            ChannelKind::Bridge => {
                let program = row.program.ok_or("it has no command")?;
                self.context
                    .bridges
                    .connect(NewBridge { name, program, secrets: secrets.by_name(), link_previews }, ingress)?
            }
            ChannelKind::Terminal => return Err("the terminal is always connected".to_owned()),
        };
        Ok(NewConnection { channel, secrets })
    }
}

/// The queued requests. One new connection answers all of them.
fn pending(requests: &mut mpsc::UnboundedReceiver<LineRequest>) -> impl Iterator<Item = LineRequest> {
    std::iter::from_fn(|| requests.try_recv().ok())
}

/// Waits before the next try. Returns the request that ends the wait early. Breaks if the channel is gone.
async fn pause(
    wait: Duration,
    requests: &mut mpsc::UnboundedReceiver<LineRequest>,
) -> ControlFlow<(), Option<LineRequest>> {
    match tokio::time::timeout(wait, requests.recv()).await {
        Ok(Some(request)) => ControlFlow::Continue(Some(request)),
        Ok(None) => ControlFlow::Break(()),
        Err(_) => ControlFlow::Continue(None),
    }
}

/// Waits until a running channel has to be reconnected, and returns the request for it, if there is one. While the
/// service refuses the secrets, they are read again from time to time. Breaks if the channel is gone.
async fn watch(
    row: &ChannelInstance,
    channel: &dyn Channel,
    held: &Secrets,
    requests: &mut mpsc::UnboundedReceiver<LineRequest>,
    refused: Backoff,
) -> ControlFlow<(), Option<LineRequest>> {
    let mut looks = 0;
    let mut next = None;
    loop {
        let request = match next.take() {
            Some(request) => Some(request),
            None => pause(refused.wait(looks).duration(), requests).await?,
        };
        let answer = match request {
            Some(LineRequest::Compare(answer)) => Some(answer),
            Some(request) => return ControlFlow::Continue(Some(request)),
            None if channel.health().state == LineState::Refused => {
                looks = looks.saturating_add(1);
                None
            }
            None => {
                looks = 0;
                continue;
            }
        };
        let found = tokio::select! {
            found = compare(row, held) => found,
            // A later request replaces a comparison that takes long.
            later = requests.recv() => match later {
                Some(later) => {
                    next = Some(later);
                    continue;
                }
                None => return ControlFlow::Break(()),
            },
        };
        let is_changed = matches!(found, SecretCheck::Changed(_));
        // The caller may be gone.
        drop(answer.map(|answer| answer.send(found)));
        if is_changed {
            return ControlFlow::Continue(None);
        }
    }
}

async fn compare(row: &ChannelInstance, held: &Secrets) -> SecretCheck {
    match Secrets::resolve(row).await {
        Ok(found) => match found.differs_from(held) {
            Some(what) => {
                tracing::info!(channel = %row.name, "the channel's {what} changed");
                SecretCheck::Changed(what)
            }
            None => SecretCheck::Unchanged,
        },
        Err(why) => {
            tracing::warn!(channel = %row.name, why, "the channel keeps the secrets that it has");
            SecretCheck::Unresolved(why)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::health::Health;
    use crate::model::channel::UnknownChats;
    use crate::model::delivery::Delivery;
    use crate::model::entity::Origin;
    use crate::model::time::Timestamp;

    struct Fake(LineState);

    impl Channel for Fake {
        fn deliver(&self, _: Delivery) {}

        fn health(&self) -> Health {
            Health::of(self.0)
        }
    }

    const SOON: Backoff = Backoff::new(Millis::new(10), Millis::new(10));

    fn row(token: String) -> ChannelInstance {
        ChannelInstance {
            name: ChannelName::new("telegram").unwrap(),
            kind: ChannelKind::Telegram,
            token: Some(token),
            base_url: None,
            secret: None,
            listen: None,
            program: None,
            link_previews: false,
            unknown_chats: UnknownChats::Ask,
            tell_strangers: false,
            origin: Origin::File,
            created: Timestamp::from_millis(0),
        }
    }

    #[tokio::test]
    async fn a_refused_token_that_is_corrected_is_found_without_a_request() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        std::fs::write(&path, "1:wrong").unwrap();
        let row = row(format!("file:{}", path.display()));
        let held = Secrets::resolve(&row).await.unwrap();
        let (_line, mut requests) = mpsc::unbounded_channel();
        let mut look = async |state| {
            let channel = Fake(state);
            let watch = watch(&row, &channel, &held, &mut requests, SOON);
            tokio::time::timeout(Duration::from_millis(300), watch).await.is_ok()
        };
        assert!(!look(LineState::Refused).await, "the token is the same");
        std::fs::write(&path, "1:right").unwrap();
        for state in [LineState::Up, LineState::Down, LineState::Connecting] {
            assert!(!look(state).await, "{state:?}: the service does not refuse the token");
        }
        assert!(look(LineState::Refused).await);
    }

    #[tokio::test]
    async fn a_channel_that_is_gone_ends_its_task() {
        let (line, mut requests) = mpsc::unbounded_channel();
        let (row, held) = (row("cmd:sleep 1000".to_owned()), Secrets { token: None, secret: None });
        let (answer, heard) = oneshot::channel();
        line.send(LineRequest::Compare(answer)).unwrap_or_else(|_| panic!());
        let ended = tokio::join!(watch(&row, &Fake(LineState::Up), &held, &mut requests, SOON), async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            drop(line);
        });
        assert!(ended.0.is_break() && heard.await.is_err());
    }
}
