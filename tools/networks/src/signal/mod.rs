//! The bridge to Signal, by way of signal-cli: people write in direct chats and groups, agents answer there.
//!
//! One thread keeps the connection (`keeper.rs`), and one of each connection reads it into the spool; one thread passes on
//! messages from there (`inbox.rs`), and some send (`outbox.rs`).

mod aside;
mod chat;
mod envelope;
mod files;
mod inbox;
mod keeper;
mod link;
mod outbox;
mod rpc;
mod settings;
mod styled;
mod verdict;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel, sync_channel};
use std::time::Duration;

use hearth_bridge::program::run::{Counts, Threads, Ways, failed, greet, spawn};
use hearth_bridge::program::state::{Side, State};
use hearth_bridge::program::{Daemon, now};
use hearth_bridge::{Capabilities, Choice, FromBridge, Hello, Idempotency, Me, PROTOCOL, Ready};
use serde_json::{Value, json};

use aside::Aside;
use chat::person;
use envelope::Account;
use files::{Files, Source};
use hearth_bridge::program::spool::{Number, Spool};
use inbox::Inbox;
use keeper::{Feed, Keeper};
use link::{Link, Place};
use outbox::Outbox;
use rpc::{Rpc, Trouble, parameters};
use settings::Settings;

/// Threads that deliver.
const POSTS: u32 = 4;
/// After how many seconds signal-cli is tried again if it does not work.
const AGAIN: u64 = 5;
/// And if the account is not linked.
const UNLINKED_AGAIN: u64 = 60;
/// How long signal-cli may take to start: the daemon waits 30 seconds.
const START: Duration = Duration::from_secs(25);
/// The file with the account's id, which only Signal's server knows otherwise.
const SELF: &str = "self";

/// Why the bridge cannot work, and for how many seconds; without them, until its settings change.
struct Fault {
    why: String,
    seconds: Option<u64>,
}

impl Fault {
    fn passing(why: String) -> Self {
        Self { why, seconds: Some(AGAIN) }
    }
}

/// Runs the bridge until the daemon ends it or is gone. `program` is signal-cli, if the command names it.
///
/// # Errors
/// Faults of this machine.
pub(crate) fn run(mut daemon: Daemon, program: Option<&str>) -> io::Result<()> {
    let Some(hello) = greet(&mut daemon, "hearth-networks signal")? else { return Ok(()) };
    let settings = match Settings::of(&hello, program) {
        Ok(settings) => settings,
        Err(why) => return daemon.send(&failed(why, None)),
    };
    let (spool, there) = Spool::open(Path::new("spool"))?;
    let (news, lines) = channel();
    for number in there {
        news.send(number).map_err(io::Error::other)?;
    }
    let feed = Feed { rpc: Rpc::new(&settings.number), spool, news };
    let (link, account) = match begin(&settings, &feed) {
        Ok(begun) => begun,
        Err(Fault { why, seconds }) => return daemon.send(&failed(why, seconds)),
    };
    let state = State::default();
    state.works(Side::Inbox);
    let (ways, threads) = Ways::prepare(&daemon, &hello, &state, Counts { hands: 1, posts: POSTS })?;
    // What a thread said before this would be lost.
    daemon.send(&FromBridge::Ready { ready: Box::new(ready(&account)) })?;
    let keeper = Keeper {
        feed: feed.clone(),
        place: settings.place.clone(),
        number: settings.number,
        state,
        writer: daemon.writer(),
    };
    let parts = Parts { rpc: feed.rpc, spool: feed.spool, account, place: settings.place, lines };
    let mut aside = parts.start(&hello, threads)?;
    spawn("keeper", move || keeper.work(link))?;
    ways.work(daemon, &mut aside)
}

/// Connects, and finds out who the bot is.
fn begin(settings: &Settings, feed: &Feed) -> Result<(Link, Account), Fault> {
    let link = feed.open(&settings.place);
    let link = link.map_err(|no| Fault { seconds: (!no.is_final).then_some(AGAIN), why: no.why })?;
    let until = now() + START;
    let account = kind(&feed.rpc, until).and_then(|is_linked| {
        let id = own_id(&feed.rpc, &settings.number, until)?;
        Ok(Account { number: settings.number.clone(), id, is_linked })
    });
    match account {
        Ok(account) => Ok((link, account)),
        Err(why) => {
            let why = link.close(why);
            feed.rpc.disconnect();
            Err(if is_unlinked(&why) {
                Fault { why: unlinked(&settings.number, &settings.place), seconds: Some(UNLINKED_AGAIN) }
            } else {
                Fault::passing(why)
            })
        }
    }
}

/// Whether the account is a person's, of which this is a linked device: only the account's own device may change its settings.
/// On an account of the bot's own, link previews are off from here on.
fn kind(rpc: &Rpc, until: Duration) -> Result<bool, String> {
    let asked = parameters(json!({ "linkPreviews": false }));
    match rpc.ask("updateConfiguration", asked, until.saturating_sub(now())) {
        Ok(_) => Ok(false),
        Err(Trouble::Refused { code: -1, why, .. }) if !is_unlinked(&why) => Ok(true),
        Err(trouble) => Err(trouble.to_string()),
    }
}

/// The account's id as a person. It never changes, and asking for it is counted by Signal's server.
fn own_id(rpc: &Rpc, number: &str, until: Duration) -> Result<String, String> {
    let known = std::fs::read_to_string(SELF).unwrap_or_default();
    if let Some(id) = known.trim().split_once(' ').filter(|(of, _)| *of == number).and_then(|(_, id)| person(id)) {
        return Ok(id);
    }
    let asked = parameters(json!({ "recipient": [number] }));
    let answer = rpc.ask("getUserStatus", asked, until.saturating_sub(now())).map_err(|trouble| trouble.to_string())?;
    let id = answer.pointer("/0/uuid").and_then(Value::as_str).and_then(person);
    let id = id.ok_or_else(|| format!("signal-cli does not know the id of {number}"))?;
    // Without it, it is asked for again.
    drop(std::fs::write(SELF, format!("{number} {id}\n")));
    Ok(id)
}

/// Whether signal-cli says that it has no such account.
fn is_unlinked(why: &str) -> bool {
    ["is not registered", "Specified account does not exist"].iter().any(|text| why.contains(text))
}

/// What to do about that, for people.
fn unlinked(number: &str, place: &Place) -> String {
    let config = match place {
        Place::Program { directory, .. } => format!(" --config {}", directory.display()),
        Place::Unix(_) | Place::Tcp(_) => String::new(),
    };
    format!(
        "the account {number} is not linked; run `signal-cli{config} link -n Hearth`, and scan its code with your phone"
    )
}

fn ready(account: &Account) -> Ready {
    let capabilities = Capabilities {
        files: true,
        threads: false,
        edits: true,
        opens_direct: false,
        choice: Choice::Numbers,
        idempotency: Idempotency::None,
        card_max: None,
    };
    let name =
        if account.is_linked { format!("{} (a person's account)", account.number) } else { account.number.clone() };
    let me = Me { id: account.id.clone(), name: Some(name) };
    let program = format!("hearth-networks signal {}", env!("CARGO_PKG_VERSION"));
    Ready { protocol: PROTOCOL, program, me: Some(me), capabilities }
}

/// What the threads need.
struct Parts {
    rpc: Rpc,
    spool: Spool,
    account: Account,
    place: Place,
    lines: Receiver<Number>,
}

impl Parts {
    fn start(self, hello: &Hello, threads: Threads) -> io::Result<Aside> {
        let Self { rpc, spool, account, place, lines } = self;
        let source = match place {
            Place::Program { directory, .. } => Source::Directory(settings::attachments(&directory)),
            Place::Unix(_) | Place::Tcp(_) => Source::Daemon(rpc.clone()),
        };
        let files = Files { source, directory: PathBuf::from(&hello.files), max: hello.limits.file };
        if let Some(hand) = threads.hands.into_iter().next() {
            let (names, waits) = (BTreeMap::new(), BTreeMap::new());
            let inbox = Inbox { account: account.clone(), hand, files, spool, lines, names, waits };
            spawn("inbox", move || inbox.work())?;
        }
        for post in threads.posts {
            let mut outbox = Outbox::new(rpc.clone(), account.clone());
            spawn("outbox", move || outbox.work(&post))?;
        }
        let (typing, chats) = sync_channel(aside::WAITING);
        spawn("typing", move || aside::work(&rpc, &chats))?;
        Ok(Aside(typing))
    }
}
