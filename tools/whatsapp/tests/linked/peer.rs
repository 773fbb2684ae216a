//! A person: another device, with the library of the bridge, and its messages.

use std::path::Path;
use std::sync::Arc;

use tokio::runtime::Runtime;
use whatsapp_rust::bot::{Bot, BotHandle};
use whatsapp_rust::http::{HttpClient, HttpRequest, HttpResponse, UreqHttpClient};
use whatsapp_rust::prelude::{ChannelEventHandler, Event, MessageExt as _, SqliteStore, wa};
use whatsapp_rust::transport::TokioWebSocketTransportFactory;
use whatsapp_rust::{Client, Jid, anyhow, async_channel, async_trait};

use crate::world::{PATIENCE, World, address};

/// The stand-in has the files.
struct Files(UreqHttpClient, std::net::SocketAddr);

#[async_trait]
impl HttpClient for Files {
    async fn execute(&self, mut request: HttpRequest) -> anyhow::Result<HttpResponse> {
        let path = request.url.trim_start_matches("https://").split_once('/').map_or("", |(_, path)| path).to_owned();
        request.url = format!("http://{}/{path}", self.1);
        self.0.execute(request).await
    }
}

/// A message that a person got.
#[derive(Debug, Clone)]
pub(crate) struct Heard {
    pub(crate) id: String,
    pub(crate) text: String,
    pub(crate) message: Arc<wa::Message>,
}

pub(crate) struct Peer {
    pub(crate) client: Arc<Client>,
    handle: Option<BotHandle>,
    events: async_channel::Receiver<Arc<Event>>,
    runtime: Runtime,
    _directory: tempfile::TempDir,
}

impl Peer {
    /// A device of a number, linked and connected.
    pub(crate) fn new(world: &World, number: &str, device: u16) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let (handler, events) = ChannelEventHandler::new();
        let bot = runtime.block_on(build(world, directory.path()));
        let client = bot.client();
        client.subscribe_handler(handler).detach();
        let entered = runtime.enter();
        let handle = bot.spawn();
        drop(entered);
        let peer = Self { client, handle: Some(handle), events, runtime, _directory: directory };
        let code = peer.next("a code", |event| match event {
            Event::PairingQrCode(code) => Some(code.code.clone()),
            _ => None,
        });
        world.scan(&code, number, device);
        let jid = address(number, device);
        world.until("the keys of a person", |known| {
            known.devices.get(&jid).is_some_and(|device| device.has_keys()).then_some(())
        });
        peer
    }

    fn next<T>(&self, what: &str, mut is: impl FnMut(&Event) -> Option<T>) -> T {
        let found = self.runtime.block_on(async {
            tokio::time::timeout(PATIENCE, async {
                loop {
                    if let Some(found) = is(&self.events.recv().await.unwrap()) {
                        return found;
                    }
                }
            })
            .await
        });
        found.unwrap_or_else(|_| panic!("{what} did not come"))
    }

    /// The next message.
    pub(crate) fn heard(&self) -> Heard {
        self.next("a message", |event| messages(event).into_iter().next())
    }

    /// The next messages, however long they take; none when the connection has ended.
    pub(crate) fn heard_at_last(&self) -> Option<Vec<Heard>> {
        self.runtime.block_on(async { self.events.recv().await.ok().map(|event| messages(&event)) })
    }

    /// Sends; the id of the message.
    pub(crate) fn send(&self, to: &str, message: wa::Message) -> String {
        let to: Jid = to.parse().unwrap();
        self.runtime.block_on(self.client.send_message(to, message)).unwrap().message_id
    }

    pub(crate) fn say(&self, to: &str, text: &str) -> String {
        self.send(to, wa::Message { conversation: Some(text.to_owned()), ..Default::default() })
    }

    pub(crate) fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }
}

fn messages(event: &Event) -> Vec<Heard> {
    let Event::Messages(batch) = event else { return Vec::new() };
    let heard = batch.messages.iter().map(|found| {
        let text = found.message.get_base_message().text_content().unwrap_or_default().to_owned();
        Heard { id: found.info.id.clone(), text, message: Arc::clone(&found.message) }
    });
    heard.collect()
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            handle.abort();
        }
    }
}

async fn build(world: &World, directory: &Path) -> Bot {
    let store = SqliteStore::new(directory.join("peer.db").to_str().unwrap()).await.unwrap();
    let transport = TokioWebSocketTransportFactory::new().with_url(format!("ws://{}/ws", world.address));
    let builder = Bot::builder().with_backend(store).with_transport_factory(transport).skip_history_sync();
    let builder = builder.with_http_client(Files(UreqHttpClient::new(), world.address)).with_version((2, 3_000, 1));
    builder.build().await.unwrap()
}
