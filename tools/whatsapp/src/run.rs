//! The start of the bridge, and its threads.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hearth_bridge::program::run::{Counts, Threads, Ways, failed, greet, spawn};
use hearth_bridge::program::spool::{Number, Spool};
use hearth_bridge::program::state::{Side, State};
use hearth_bridge::program::{Daemon, log};
use hearth_bridge::{Capabilities, Choice, FromBridge, Hello, Idempotency, Me, PROTOCOL, Ready};
use whatsapp_rust::Client;

use crate::acks::Acks;
use crate::aside::{self, Aside};
use crate::chat::Chat;
use crate::device::{Directory, Lock};
use crate::inbox::{Inbox, Keep};
use crate::library_log;
use crate::outbox::Outbox;
use crate::received::{Account, People};
use crate::session::{Session, prepare, runtime};
use crate::settings::{Owner, Settings};
use crate::store::ask_again;
use crate::watch::{Look, UNLINKED_AGAIN, Watch, link_again};

/// Threads that deliver.
const POSTS: u32 = 4;
/// After how many seconds keys are looked for again that another process has, or that cannot be opened.
const AGAIN: u64 = 10;
/// How long the bridge waits for the first connection before it is ready. A daemon that ends waits for 5 seconds.
const BEGIN: Duration = Duration::from_secs(3);

/// Why the bridge cannot work, and for how many seconds.
struct Fault {
    why: String,
    seconds: u64,
}

/// Runs the bridge until the daemon ends it or is gone.
///
/// # Errors
/// Faults of this machine.
pub(crate) fn run() -> io::Result<()> {
    let mut daemon = Daemon::inherited()?;
    let Some(hello) = greet(&mut daemon, "hearth-whatsapp")? else { return Ok(()) };
    let settings = match Settings::of(&hello) {
        Ok(settings) => settings,
        Err(why) => return daemon.send(&failed(why, None)),
    };
    library_log::begin();
    let directory = Directory::new(Path::new("."))?;
    let _lock = match own(&directory)? {
        Ok(lock) => lock,
        Err(Fault { why, seconds }) => return daemon.send(&failed(why, Some(seconds))),
    };
    let runtime = runtime()?;
    let (spool, sender, news) = open_spool()?;
    let (state, acks) = (State::default(), Acks::default());
    let account = Account { number: Chat::Number(String::new()), hidden: None, owner: settings.owner };
    let account = Arc::new(Mutex::new(account));
    let keep = Keep {
        account: Arc::clone(&account),
        spool: spool.clone(),
        news: sender,
        people: Mutex::new(People::default()),
    };
    let is_new = Arc::<AtomicBool>::default();
    let watch = Watch {
        state: state.clone(),
        writer: daemon.writer(),
        acks: acks.clone(),
        directory: directory.clone(),
        is_new: Arc::clone(&is_new),
    };
    let (sender, missing) = channel();
    let bot = runtime.block_on(async {
        let (builder, store) = prepare(&directory, settings.server, sender).await?;
        let bot = builder.with_inbound_durability_hook(keep).with_event_handler(watch).build().await;
        Ok((bot.map_err(|error| format!("the session cannot be prepared: {error}"))?, store))
    });
    let (bot, store) = match bot {
        Ok(prepared) => prepared,
        Err(why) => return daemon.send(&failed(why, Some(AGAIN))),
    };
    let session = Session { client: bot.client(), runtime: runtime.handle().clone() };
    let Some(own) = account_of(&session.client, settings.owner) else {
        let why = link_again("the device is not linked", &directory);
        return daemon.send(&failed(why, Some(UNLINKED_AGAIN)));
    };
    let ready = ready(&own);
    if let Ok(mut account) = account.lock() {
        *account = own;
    }
    let (ways, threads) = Ways::prepare(&daemon, &hello, &state, Counts { hands: 1, posts: POSTS })?;
    let _entered = runtime.enter();
    let _handle = bot.spawn();
    // Between two questions of the daemon, what is said first would stand for long.
    if !session.begins(BEGIN) {
        state.fails(Side::Inbox, "it is being connected".to_owned());
    }
    // What a thread said before this would be lost.
    daemon.send(&FromBridge::Ready { ready: Box::new(ready) })?;
    let look = Look { session: session.clone(), state, owner: settings.owner, is_new };
    let asking = session.clone();
    spawn("missing", move || ask_again(&asking, &store, &missing))?;
    let parts = Parts { settings, session, spool, news, acks };
    let mut aside = parts.start(&hello, threads)?;
    spawn("look", move || look.work())?;
    ways.work(daemon, &mut aside)
}

/// The spool, and a channel of what arrives in it. What is there already comes first.
fn open_spool() -> io::Result<(Spool, Sender<Number>, Receiver<Number>)> {
    let (spool, there) = Spool::open(Path::new("spool"))?;
    let (sender, news) = channel();
    for number in there {
        sender.send(number).map_err(io::Error::other)?;
    }
    Ok((spool, sender, news))
}

/// Locks the keys, if there are any.
fn own(directory: &Directory) -> io::Result<Result<Lock, Fault>> {
    let Some(lock) = directory.lock()? else {
        let why = "the device is being linked, or another process uses it".to_owned();
        return Ok(Err(Fault { why, seconds: AGAIN }));
    };
    let unlinked = || (!directory.has_keys()).then(|| "the device is not linked".to_owned());
    Ok(match directory.unlinked().or_else(unlinked) {
        Some(why) => Err(Fault { why: link_again(&why, directory), seconds: UNLINKED_AGAIN }),
        None => Ok(lock),
    })
}

/// The account of a linked device.
fn account_of(client: &Client, owner: Owner) -> Option<Account> {
    let number = client.pn().as_ref().and_then(Chat::of)?;
    Some(Account { number, hidden: client.lid().as_ref().and_then(Chat::of), owner })
}

fn ready(account: &Account) -> Ready {
    let capabilities = Capabilities {
        threads: false,
        edits: true,
        opens_direct: false,
        files: true,
        choice: Choice::Numbers,
        // Whether the server or the apps drop a repeat with the same id is not documented.
        idempotency: Idempotency::None,
        card_max: None,
    };
    let whose = match account.owner {
        Owner::Person => "a person's account",
        Owner::Bot => "the bot's account",
    };
    let me = Me { id: account.number.to_string(), name: Some(format!("+{} ({whose}, unofficial)", account.number)) };
    let program = format!("hearth-whatsapp {} (unofficial)", env!("CARGO_PKG_VERSION"));
    Ready { protocol: PROTOCOL, program, me: Some(me), capabilities }
}

/// What the threads need.
struct Parts {
    settings: Settings,
    session: Session,
    spool: Spool,
    news: Receiver<Number>,
    acks: Acks,
}

impl Parts {
    fn start(self, hello: &Hello, threads: Threads) -> io::Result<Aside> {
        let Self { settings, session, spool, news, acks } = self;
        if let Some(hand) = threads.hands.into_iter().next() {
            let (owner, files) = (settings.owner, PathBuf::from(&hello.files));
            let waits = BTreeMap::new();
            let file_max = hello.limits.file;
            let inbox = Inbox { owner, session: session.clone(), hand, files, file_max, spool, news, waits };
            spawn("inbox", move || inbox.work())?;
        }
        let pace = settings.server.pace();
        for post in threads.posts {
            let outbox = Outbox { session: session.clone(), acks: acks.clone(), pace: pace.clone() };
            spawn("outbox", move || outbox.work(&post))?;
        }
        let (typing, chats) = sync_channel(aside::WAITING);
        spawn("typing", move || aside::work(&session, &chats))?;
        log("this bridge is unofficial: WhatsApp may ban accounts that use it");
        Ok(Aside(typing))
    }
}
