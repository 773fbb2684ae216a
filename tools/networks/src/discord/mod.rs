//! The bridge to Discord: people write in servers and direct chats, agents answer there.
//!
//! One thread reads the gateway (`gateway.rs`), one passes messages on (`inbox.rs`), one buttons (`presses.rs`), some send
//! (`outbox.rs`), and one does what delays no message (`aside.rs`). The place in the session of the gateway and the last
//! message of each channel are stored by the daemon in the commit of each message.

mod aside;
mod budget;
mod card;
mod channels;
mod files;
mod gateway;
mod inbox;
mod limits;
mod message;
mod news;
mod outbox;
mod places;
mod presses;
mod rest;
mod settings;
mod snowflake;
mod upload;

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel, sync_channel};
use std::thread::sleep;
use std::time::Duration;

use hearth_bridge::program::Daemon;
use hearth_bridge::program::run::{Counts, Ways, failed, greet, spawn};
use hearth_bridge::program::state::{Side, State, seconds};
use hearth_bridge::{Capabilities, Choice, FromBridge, Hello, Idempotency, Me, PROTOCOL, Ready};

use aside::{Aside, Worker};
use budget::Budget;
use channels::Channels;
use gateway::Gateway;
use inbox::{Inbox, Shared};
use message::User;
use outbox::Outbox;
use places::Places;
use presses::Presser;
use rest::{Rest, Trouble};
use settings::Settings;
use snowflake::Snowflake;

/// After how many seconds Discord is tried again if it cannot be reached.
const AGAIN: u64 = 5;
/// Seconds for which Discord surely knows nonces; its documentation says "the past few minutes".
const WINDOW: u64 = 120;
/// Longest card, in UTF-16 code units. Its text is sent in several messages if that is needed.
const CARD: usize = 8_000;
/// How long the gateway is waited for at the start. After that, answers leave, and the bridge says that it does not hear.
const FIRST: Duration = Duration::from_secs(15);
/// Threads that send.
const POSTS: u32 = 4;

/// Runs the bridge until the daemon ends it or is gone.
///
/// # Errors
/// Faults of this machine.
pub(crate) fn run(mut daemon: Daemon) -> io::Result<()> {
    let Some(hello) = greet(&mut daemon, "hearth-networks")? else { return Ok(()) };
    let settings = match Settings::of(&hello) {
        Ok(settings) => settings,
        Err(why) => return daemon.send(&failed(why, None)),
    };
    let rest = Rest::new(&settings, daemon.writer());
    let me = match who(&rest) {
        Ok(me) => me,
        Err(Trouble::Token) => {
            return daemon.send(&failed(
                "Discord does not accept the token; set `token` to the one of the bot".to_owned(),
                None,
            ));
        }
        Err(Trouble::Paused(pause)) => {
            return daemon.send(&failed("Discord asks for a pause".to_owned(), Some(pause.as_secs().max(AGAIN))));
        }
        Err(trouble) => return daemon.send(&failed(trouble.to_string(), Some(AGAIN))),
    };
    let ready = ready(&me);
    let (works, session) = channel();
    let (ways, mut aside) = start(&daemon, &hello, Parts { settings, rest, me, works })?;
    if session.recv_timeout(FIRST) == Err(RecvTimeoutError::Disconnected) {
        // It cannot work, and the daemon is told why.
        sleep(Duration::from_secs(2));
        return Ok(());
    }
    daemon.send(&FromBridge::Ready { ready: Box::new(ready) })?;
    ways.work(daemon, &mut aside)
}

/// Who the bot is.
fn who(rest: &Rest) -> Result<User, Trouble> {
    let answer = rest.get("users/@me".to_owned(), "me", "")?;
    serde_json::from_value(answer).map_err(|_| Trouble::Lost("Discord does not say who the bot is".to_owned()))
}

fn ready(me: &User) -> Ready {
    let capabilities = Capabilities {
        files: true,
        threads: true,
        edits: true,
        opens_direct: true,
        choice: Choice::Buttons,
        idempotency: Idempotency::Window { seconds: WINDOW },
        card_max: Some(CARD),
    };
    let me = Me { id: me.id.to_string(), name: Some(format!("@{}", me.username)) };
    let program = format!("hearth-networks discord {}", env!("CARGO_PKG_VERSION"));
    Ready { protocol: PROTOCOL, program, me: Some(me), capabilities }
}

/// What the threads need.
struct Parts {
    settings: Settings,
    rest: Rest,
    me: User,
    /// Told when the gateway works.
    works: Sender<()>,
}

fn start(daemon: &Daemon, hello: &Hello, Parts { settings, rest, me, works }: Parts) -> io::Result<(Ways, Aside)> {
    let state = State::default();
    // Discord has just answered, but tells of no message before there is a session. The daemon may ask before that.
    state.works(Side::Inbox);
    state.fails(Side::Inbox, "the gateway of Discord has not answered yet, so no message arrives".to_owned());
    let mut places = Places::of(&hello.cursors);
    if places.at == Snowflake::default() {
        // What was there before the channel is not for an agent.
        places.at = Snowflake::at(seconds());
    }
    let (news, told) = sync_channel(news::WAITING);
    let (presses, pressed) = sync_channel(presses::WAITING);
    let (tasks, todo) = sync_channel(aside::WAITING);
    let (ways, threads) = Ways::prepare(daemon, hello, &state, Counts { hands: 2, posts: POSTS })?;
    let session = places.session.clone().filter(|session| session.intents == gateway::intents(&settings));
    let shared = Shared::new(places);
    let mut hands = threads.hands.into_iter();
    if let Some(hand) = hands.next() {
        let inbox = Inbox {
            rest: rest.clone(),
            me,
            state: state.clone(),
            channels: Channels::new(rest.clone()),
            places: shared.clone(),
            hand,
            news: told,
            files: PathBuf::from(&hello.files),
            file_max: hello.limits.file,
            pending: BTreeSet::new(),
            began: Duration::ZERO,
            passed: None,
            stored: Duration::ZERO,
        };
        spawn("inbox", || inbox.work())?;
    }
    if let Some(hand) = hands.next() {
        let presser = Presser { rest: rest.clone(), hand, presses: pressed };
        spawn("presses", || presser.work())?;
    }
    for post in threads.posts {
        let outbox = Outbox { rest: rest.clone() };
        spawn("outbox", move || outbox.work(&post))?;
    }
    let worker = Worker { rest: rest.clone(), places: shared, writer: daemon.writer(), tasks: todo };
    spawn("aside", || worker.work())?;
    let budget = Budget::open(PathBuf::from("sessions"));
    let gateway = Gateway { rest, settings, state, news, presses, session, budget, works: Some(works), vain: 0 };
    spawn("gateway", || gateway.work())?;
    Ok((ways, Aside(tasks)))
}
