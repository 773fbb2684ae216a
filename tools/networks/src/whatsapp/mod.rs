//! The bridge to WhatsApp, by Meta's Cloud API: people write to a number of a business, agents answer there.
//!
//! WhatsApp's reports come over HTTP (`http.rs`) and are answered once they are on disk (`webhook.rs`); one thread passes on
//! the messages from there (`inbox.rs`), and some send (`outbox.rs`).

mod api;
mod aside;
mod card;
mod failure;
mod http;
mod inbox;
mod media;
mod outbox;
mod person;
mod report;
mod settings;
mod signature;
mod statuses;
mod webhook;

use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{channel, sync_channel};

use hearth_bridge::program::run::{Counts, Threads, Ways, failed, greet, spawn};
use hearth_bridge::program::state::{Side, State};
use hearth_bridge::program::{Daemon, FrameWriter};
use hearth_bridge::{Capabilities, Choice, FromBridge, Hello, Idempotency, Me, PROTOCOL, Ready};
use serde_json::{Map, Value, json};

use api::{Api, Trouble};
use aside::{Aside, Heard};
use http::Answer;
use inbox::Inbox;
use outbox::Outbox;
use settings::Settings;
use statuses::Statuses;
use webhook::Webhook;

use hearth_bridge::program::spool::Spool;

/// Threads that deliver.
const POSTS: u32 = 4;
/// After how many seconds WhatsApp is tried again if it cannot be reached.
const AGAIN: u64 = 5;

/// Why the bridge cannot work, and for how many seconds; without them, until its settings change.
struct Fault {
    why: String,
    seconds: Option<u64>,
}

/// Runs the bridge until the daemon ends it or is gone.
///
/// # Errors
/// Faults of this machine.
pub(crate) fn run(mut daemon: Daemon) -> io::Result<()> {
    let Some(hello) = greet(&mut daemon, "hearth-networks whatsapp")? else { return Ok(()) };
    let settings = match Settings::of(&hello) {
        Ok(settings) => settings,
        Err(why) => return daemon.send(&failed(why, None)),
    };
    let mut api = Api::new(&settings.server, &settings.number, &settings.token);
    api.file_max = hello.limits.file;
    let begun = match begin(&api, &settings) {
        Ok(begun) => begun,
        Err(Fault { why, seconds }) => return daemon.send(&failed(why, seconds)),
    };
    let state = State::default();
    // WhatsApp has just answered.
    state.works(Side::Inbox);
    let (ways, threads) = Ways::prepare(&daemon, &hello, &state, Counts { hands: 1, posts: POSTS })?;
    let ready = ready(&settings.number, begun.shown);
    // What a thread said before this would be lost.
    daemon.send(&FromBridge::Ready { ready: Box::new(ready) })?;
    let parts = Parts { api, settings, listener: begun.listener, writer: daemon.writer(), state };
    let mut aside = parts.start(&hello, threads)?;
    ways.work(daemon, &mut aside)
}

/// What the bridge begins with.
struct Begun {
    /// The number as people see it.
    shown: String,
    listener: TcpListener,
}

/// Asks whether the token is accepted, and opens the port.
fn begin(api: &Api, settings: &Settings) -> Result<Begun, Fault> {
    let shown = api.shown().map_err(|trouble| Fault {
        why: trouble.to_string(),
        seconds: match trouble {
            Trouble::Token(_) | Trouble::Refused(_) | Trouble::Unfit(_) => None,
            Trouble::Paused(pause) => Some(pause.as_secs() + 1),
            Trouble::Unreachable(_) | Trouble::Lost(_) => Some(AGAIN),
        },
    })?;
    let listener = http::listen(settings.listen).map_err(|why| Fault { why, seconds: Some(AGAIN) })?;
    Ok(Begun { shown, listener })
}

fn ready(number: &str, shown: String) -> Ready {
    let capabilities = Capabilities {
        files: true,
        threads: false,
        edits: false,
        opens_direct: false,
        choice: Choice::Buttons,
        idempotency: Idempotency::None,
        card_max: Some(card::CARD),
    };
    let me = Me { id: number.to_owned(), name: Some(shown) };
    let program = format!("hearth-networks whatsapp {}", env!("CARGO_PKG_VERSION"));
    Ready { protocol: PROTOCOL, program, me: Some(me), capabilities }
}

/// What the threads need.
struct Parts {
    api: Api,
    settings: Settings,
    listener: TcpListener,
    writer: FrameWriter,
    state: State,
}

impl Parts {
    fn start(self, hello: &Hello, threads: Threads) -> io::Result<Aside> {
        let Self { api, settings, listener, writer, state } = self;
        let (spool, there) = Spool::open(Path::new("spool"))?;
        let (statuses, heard) = (Statuses::default(), Heard::default());
        let (news, reports) = channel();
        let waiting = Arc::new(AtomicUsize::new(there.len()));
        for number in there {
            news.send(number).map_err(io::Error::other)?;
        }
        let Settings { number, path, verify, key, .. } = settings;
        if let Some(hand) = threads.hands.into_iter().next() {
            let files = PathBuf::from(&hello.files);
            let inbox = Inbox {
                api: api.clone(),
                hand,
                number: number.clone(),
                files,
                spool: spool.clone(),
                reports,
                waiting: Arc::clone(&waiting),
                heard: heard.clone(),
                waits: BTreeMap::new(),
            };
            spawn("inbox", move || inbox.work())?;
        }
        for post in threads.posts {
            let outbox = Outbox { api: api.clone(), statuses: statuses.clone(), writer: writer.clone() };
            spawn("outbox", move || outbox.work(&post))?;
        }
        let (typing, people) = sync_channel(aside::WAITING);
        spawn("typing", move || aside::work(&api, &heard, &people))?;
        let webhook = Webhook { path, verify, key, number, statuses, state, spool, news, waiting };
        let answer: Arc<Answer> = Arc::new(move |request: &http::Request| webhook.answer(request));
        spawn("entrance", move || http::serve(&listener, &answer))?;
        Ok(Aside(typing))
    }
}

/// The content of a message that is a text.
fn text(text: &str, previews: bool) -> Map<String, Value> {
    let body = json!({ "body": text, "preview_url": previews });
    Map::from_iter([("type".to_owned(), json!("text")), ("text".to_owned(), body)])
}
