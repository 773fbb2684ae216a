//! The bridge to Slack, over Socket Mode: people write in channels and direct chats, agents answer there.
//!
//! Connections are read by threads of their own (`sockets.rs`); one thread passes on messages (`inbox.rs`), one pressed
//! buttons (`presses.rs`), and some send (`outbox.rs`). A message is acknowledged to Slack once it is stored.

mod api;
mod card;
mod emoji;
mod event;
mod file;
mod history;
mod inbox;
mod mrkdwn;
mod outbox;
mod people;
mod presses;
mod sockets;
mod text;

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use hearth_bridge::program::hand::Hand;
use hearth_bridge::program::run::{Counts, Network, Threads, Ways, failed, greet, spawn};
use hearth_bridge::program::settings::{address, only, secret, setting};
use hearth_bridge::program::state::{Side, State};
use hearth_bridge::program::{Daemon, FrameWriter};
use hearth_bridge::{Capabilities, Choice, FromBridge, Hello, Idempotency, Me, Opened, PROTOCOL, Place, Ready};

use api::{Api, Tokens, Trouble};
use event::{Bot, text};
use inbox::{Inbox, News, Read};
use outbox::Outbox;
use people::People;
use presses::Presses;
use sockets::Sockets;

const SERVER: &str = "https://slack.com";
/// Names of settings.
const SETTINGS: [&str; 3] = ["base_url", "server", "silence"];
/// Seconds without any sign of Slack after which a connection is left, usually and at least.
const SILENCE: u64 = 30;
const SILENCE_MIN: u64 = 2;
/// Threads that deliver.
const POSTS: u32 = 4;
/// Events that may wait.
const EVENTS: usize = 1_000;
/// Seconds for which Slack knows the ids of messages.
const WINDOW: u64 = 60;
/// After how many seconds Slack is tried again if it cannot be reached.
const AGAIN: u64 = 5;

/// Runs the bridge until the daemon ends it or is gone.
///
/// # Errors
/// Faults of this machine.
pub(crate) fn run(mut daemon: Daemon) -> io::Result<()> {
    let Some(hello) = greet(&mut daemon, "hearth-networks slack")? else { return Ok(()) };
    let (api, silence) = match settings(&hello).and_then(|api| Ok((api, silence(&hello)?))) {
        Ok(set) => set,
        Err(why) => return daemon.send(&failed(why, None)),
    };
    let (bot, first) = match begin(&api) {
        Ok(begun) => begun,
        Err((why, seconds)) => return daemon.send(&failed(why, seconds)),
    };
    let state = State::default();
    // Slack has just answered.
    state.works(Side::Inbox);
    let counts = Counts { hands: 2, posts: POSTS };
    let (ways, threads) = Ways::prepare(&daemon, &hello, &state, counts)?;
    let parts = Parts { api, bot, writer: daemon.writer(), state, first, silence };
    let ready = ready(&parts.bot);
    // What a thread said before this would be lost.
    daemon.send(&FromBridge::Ready { ready: Box::new(ready) })?;
    let mut slack = parts.start(&hello, threads)?;
    ways.work(daemon, &mut slack)
}

fn settings(hello: &Hello) -> Result<Api, String> {
    only(hello, &SETTINGS)?;
    let server = setting(hello, "server").or(setting(hello, "base_url")).unwrap_or(SERVER);
    let bot = secret(hello, "token", "the bot token, which begins with `xoxb-`,")?;
    let app = secret(hello, "secret", "the app token, which begins with `xapp-`,")?;
    if bot.starts_with("xapp-") || app.starts_with("xoxb-") {
        return Err(
            "`token` is the bot token (`xoxb-`), and `secret` the app token (`xapp-`); exchange them".to_owned()
        );
    }
    let mut api = Api::new(&address(server, SERVER)?, &Tokens { bot, app });
    api.file_max = hello.limits.file;
    Ok(api)
}

/// How long Slack may say nothing.
fn silence(hello: &Hello) -> Result<Duration, String> {
    if !hello.settings.contains_key("silence") {
        return Ok(Duration::from_secs(SILENCE));
    }
    let seconds = setting(hello, "silence").and_then(|text| text.parse().ok());
    let seconds = seconds.filter(|seconds| (SILENCE_MIN..=SILENCE).contains(seconds));
    let wrong = || format!("`silence` must be a number of seconds from {SILENCE_MIN} to {SILENCE}, in quotes");
    seconds.map(Duration::from_secs).ok_or_else(wrong)
}

/// Who the bot is, and the address of the first connection, if there is one yet; otherwise why not, and for how long.
fn begin(api: &Api) -> Result<(Bot, Option<String>), (String, Option<u64>)> {
    let answer = api.post("auth.test", &serde_json::json!({})).map_err(|trouble| match trouble {
        Trouble::Refused(error) => (format!("Slack does not accept the bot token: {error}"), None),
        Trouble::Paused(pause) => (trouble.to_string(), Some(pause.as_secs() + 1)),
        other => (other.to_string(), Some(AGAIN)),
    })?;
    let word = |place| text(&answer, place).map(str::to_owned);
    let (Some(user), Some(id)) = (word("/user_id"), word("/bot_id")) else {
        return Err(("`token` is not that of a bot; copy the bot token, which begins with `xoxb-`".to_owned(), None));
    };
    let bot = Bot { user, id, name: word("/user").unwrap_or_else(|| "bot".to_owned()) };
    match api.connection() {
        Ok(url) => Ok((bot, Some(url))),
        Err(Trouble::Refused(error)) => Err((sockets::refused(&error), None)),
        Err(_) => Ok((bot, None)),
    }
}

fn ready(bot: &Bot) -> Ready {
    let capabilities = Capabilities {
        files: true,
        threads: true,
        edits: true,
        opens_direct: true,
        choice: Choice::Buttons,
        idempotency: Idempotency::Window { seconds: WINDOW },
        card_max: Some(card::CARD),
    };
    let me = Me { id: bot.user.clone(), name: Some(bot.name.clone()) };
    let program = format!("hearth-networks slack {}", env!("CARGO_PKG_VERSION"));
    Ready { protocol: PROTOCOL, program, me: Some(me), capabilities }
}

/// What the threads need.
struct Parts {
    api: Api,
    bot: Bot,
    writer: FrameWriter,
    state: State,
    first: Option<String>,
    silence: Duration,
}

impl Parts {
    fn start(self, hello: &Hello, threads: Threads) -> io::Result<Slack> {
        let Self { api, bot, writer, state, first, silence } = self;
        let (news, to_read) = sync_channel(EVENTS);
        let (presses, pressed) = sync_channel(presses::WAITING);
        let (directs, to_open) = channel();
        let mut hands = threads.hands.into_iter();
        if let Some(hand) = hands.next() {
            let inbox = inbox(&api, &bot, hand, to_read, hello);
            spawn("inbox", move || inbox.work())?;
        }
        if let Some(hand) = hands.next() {
            let presses = Presses { api: api.clone(), hand, pressed };
            spawn("presses", move || presses.work())?;
        }
        for post in threads.posts {
            let outbox = Outbox { api: api.clone(), bot: bot.clone(), writer: writer.clone() };
            spawn("outbox", move || outbox.work(&post))?;
        }
        let (opener, opened) = (api.clone(), writer.clone());
        spawn("directs", move || open_all(&opener, &opened, &to_open))?;
        let sockets = Sockets { api, state, writer, news: news.clone(), presses, first, silence };
        spawn("sockets", move || sockets.work())?;
        Ok(Slack { news, directs })
    }
}

fn inbox(api: &Api, bot: &Bot, hand: Hand, news: Receiver<News>, hello: &Hello) -> Inbox {
    Inbox {
        api: api.clone(),
        bot: bot.clone(),
        people: People::new(api.clone()),
        hand,
        files: PathBuf::from(&hello.files),
        news,
        read: Read::of(&hello.cursors),
        rest: inbox::Rest::default(),
    }
}

/// A direct chat that has to be opened.
struct Direct {
    person: String,
    seq: u64,
}

/// Opens direct chats until the main loop ends.
fn open_all(api: &Api, writer: &FrameWriter, directs: &Receiver<Direct>) {
    while let Ok(Direct { person, seq }) = directs.recv() {
        let (platform_id, why) = match outbox::open(api, &person) {
            Ok(chat) => (Some(chat), None),
            Err(trouble) => (None, Some(trouble.to_string())),
        };
        if writer.send(&FromBridge::Opened { opened: Opened { seq, platform_id, why } }).is_err() {
            return;
        }
    }
}

/// What the main loop passes on besides deliveries.
struct Slack {
    news: SyncSender<News>,
    directs: Sender<Direct>,
}

impl Network for Slack {
    /// Slack shows no bot typing.
    fn typing(&mut self, _place: Place) {}

    fn open_direct(&mut self, person: String, seq: u64) -> Option<Opened> {
        // Its thread lives as long as this one.
        drop(self.directs.send(Direct { person, seq }));
        None
    }

    fn subscribe(&mut self, thread: Place) {
        // A thread that does not fit is only not read after gaps.
        drop(self.news.try_send(News::Subscribe(thread)));
    }
}
