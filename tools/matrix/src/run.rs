//! The main loop: passes on what the daemon says.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel, sync_channel};
use std::thread::{Builder, sleep};
use std::time::Duration;

use hearth_bridge::program::{Daemon, Delivered, now};
use hearth_bridge::{
    Capabilities, Choice, Failed, FromBridge, Hello, Idempotency, Me, Opened, PROTOCOL, Ready, ToBridge, Until,
};
use serde_json::Value;

use crate::api::{Api, Trouble, part};
use crate::directs::Directs;
use crate::event::{Bot, text};
use crate::hand::Hand;
use crate::inbox::{Inbox, Place};
use crate::invites::Invites;
use crate::noticed::Noticed;
use crate::outbox::{Job, Outbox};
use crate::rooms::Rooms;
use crate::settings::{Settings, is_user};
use crate::signs::{Shower, Sign, Signs, WAITING};
use crate::state::{Side, State};

/// How long the first answer is waited for.
const FIRST: Duration = Duration::from_secs(20);
/// After how many seconds a server that cannot be reached is tried again.
const AGAIN: u64 = 5;
/// How long deliveries are waited for at the end.
const LAST: Duration = Duration::from_secs(4);
const TICK: Duration = Duration::from_millis(50);
/// Seconds for which a server knows transaction ids: Synapse forgets them after a day.
const WINDOW: u64 = 72_000;
/// Longest card, in UTF-16 code units.
const CARD: usize = 8_000;

/// Runs the bridge until the daemon ends it or is gone.
///
/// # Errors
/// Faults of this machine.
pub fn run() -> io::Result<()> {
    let mut daemon = Daemon::inherited()?;
    let hello = daemon.hello()?;
    if !hello.protocol.contains(&PROTOCOL) {
        return daemon.send(&failed(format!("hearth-matrix speaks protocol {PROTOCOL} only"), None));
    }
    let settings = Settings::of(&hello).and_then(|settings| {
        let token = hello.secrets.get("token").cloned().ok_or("the access token is missing: set `token`")?;
        let is_fine = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        if is_fine {
            Ok((settings, token))
        } else {
            Err("the access token has spaces or signs that none has".to_owned())
        }
    });
    let (settings, token) = match settings {
        Ok(settings) => settings,
        Err(why) => return daemon.send(&failed(why, None)),
    };
    let api = Api::new(&settings.server, &token);
    let (bot, device) = match who(&api) {
        Ok(found) => found,
        Err(trouble) if trouble.is_token() => {
            return daemon.send(&failed("the server does not accept the access token".to_owned(), None));
        }
        Err(trouble) => return daemon.send(&failed(trouble.to_string(), Some(AGAIN))),
    };
    let ready = ready(&bot, device.as_deref(), Path::new("."))?;
    let ways = start(&mut daemon, &hello, Parts { settings, api, bot })?;
    daemon.send(&FromBridge::Ready { ready: Box::new(ready) })?;
    work(daemon, &ways)
}

fn failed(why: String, seconds: Option<u64>) -> FromBridge {
    let until = seconds.map_or_else(|| Until::Word("changed".to_owned()), Until::Seconds);
    FromBridge::Failed { failed: Failed { why, until: Some(until) } }
}

/// Who the bot is, and on which device.
fn who(api: &Api) -> Result<(Bot, Option<String>), Trouble> {
    let answer = api.get_within("client/v3/account/whoami", FIRST)?;
    let lost = || Trouble::Lost("it does not say who the bot is".to_owned());
    let id = text(&answer, "/user_id").filter(|id| is_user(id)).ok_or_else(lost)?.to_owned();
    let name = api.get(&format!("client/v3/profile/{}/displayname", part(&id))).unwrap_or(Value::Null);
    let name = text(&name, "/displayname").filter(|name| !name.trim().is_empty()).map(str::to_owned);
    Ok((Bot { id, name }, text(&answer, "/device_id").map(str::to_owned)))
}

fn ready(bot: &Bot, device: Option<&str>, directory: &Path) -> io::Result<Ready> {
    let capabilities = Capabilities {
        threads: true,
        edits: true,
        choice: Choice::Numbers,
        idempotency: idempotency(device, directory)?,
        card_max: Some(CARD),
        ..Capabilities::default()
    };
    let me = Me { id: bot.id.clone(), name: bot.name.clone() };
    let program = format!("hearth-matrix {}", env!("CARGO_PKG_VERSION"));
    Ok(Ready { protocol: PROTOCOL, program, me: Some(me), capabilities })
}

/// How the server recognises a repeat: by its transaction id and the device. After a login on another device, what may have
/// been sent by the old one is marked.
fn idempotency(device: Option<&str>, directory: &Path) -> io::Result<Idempotency> {
    let path = directory.join("device");
    let before = match std::fs::read_to_string(&path) {
        Ok(before) => Some(before),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let device = device.unwrap_or_default();
    let is_same = before.as_deref().is_none_or(|before| before == device);
    let new = path.with_extension("new");
    std::fs::write(&new, device)?;
    std::fs::rename(&new, &path)?;
    Ok(if is_same { Idempotency::Window { seconds: WINDOW } } else { Idempotency::None })
}

/// What the threads need.
struct Parts {
    settings: Settings,
    api: Api,
    bot: Bot,
}

/// The ways to the other threads.
struct Ways {
    answers: Sender<ToBridge>,
    jobs: Sender<Job>,
    open: Arc<AtomicUsize>,
    signs: Signs,
    is_closed: Arc<AtomicBool>,
    state: State,
}

fn start(daemon: &mut Daemon, hello: &Hello, Parts { settings, api, bot }: Parts) -> io::Result<Ways> {
    let directory = Path::new(".");
    let (state, rooms) = (State::default(), Rooms::new(api.clone()));
    // The server has just answered.
    state.works(Side::Inbox);
    let directs = Directs::open(api.clone(), &bot.id, rooms.clone(), directory)?;
    let (answers, answers_receiver) = channel();
    let (jobs, jobs_receiver) = channel();
    let (signs, signs_receiver) = sync_channel(WAITING);
    let (open, is_closed, signs) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default(), Signs(signs));
    let hand = Hand { writer: daemon.writer(), answers: answers_receiver, is_closed: Arc::clone(&is_closed), seq: 0 };
    let inbox = Inbox {
        api: api.clone(),
        bot: bot.clone(),
        state: state.clone(),
        rooms: rooms.clone(),
        directs: directs.clone(),
        invites: Invites { api: api.clone(), me: bot.id.clone(), from: settings.invites },
        noticed: Noticed::open(directory)?,
        signs: signs.clone(),
        hand,
        files: PathBuf::from(&hello.files),
        place: Place::of(&hello.cursors),
        stored: None,
    };
    let outbox = Outbox {
        api: api.clone(),
        kind: settings.kind,
        state: state.clone(),
        rooms,
        directs: directs.clone(),
        writer: daemon.writer(),
        jobs: jobs_receiver,
        open: Arc::clone(&open),
        delivered: Delivered::open(directory)?,
        files: PathBuf::from(&hello.files),
        paused: Duration::ZERO,
    };
    let shower = Shower { api, me: bot.id, directs, signs: signs_receiver };
    let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| Builder::new().name(name.to_owned()).spawn(work).map(drop);
    spawn("inbox", Box::new(|| inbox.work()))?;
    spawn("outbox", Box::new(|| outbox.work()))?;
    spawn("signs", Box::new(|| shower.work()))?;
    Ok(Ways { answers, jobs, open, signs, is_closed, state })
}

fn work(mut daemon: Daemon, ways: &Ways) -> io::Result<()> {
    loop {
        while let Some(frame) = daemon.frame() {
            if matches!(frame, ToBridge::ShutDown { .. }) {
                let end = now() + LAST;
                while ways.open.load(Ordering::SeqCst) > 0 && now() < end {
                    sleep(TICK);
                }
                return Ok(());
            }
            pass_on(&mut daemon, frame, ways)?;
        }
        match daemon.read() {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

fn pass_on(daemon: &mut Daemon, frame: ToBridge, ways: &Ways) -> io::Result<()> {
    match frame {
        ToBridge::Deliver { deliver } => {
            ways.open.fetch_add(1, Ordering::SeqCst);
            ways.jobs.send(Job { deliver: *deliver, came: now() }).map_err(io::Error::other)
        }
        ToBridge::Taken { .. } | ToBridge::Refused { .. } | ToBridge::Later { .. } | ToBridge::Wanted { .. } => {
            ways.answers.send(frame).map_err(io::Error::other)
        }
        ToBridge::Ping { ping } => daemon.send(&FromBridge::Pong { pong: ping, rest: ways.state.pong() }),
        ToBridge::Typing { typing } => {
            ways.signs.show(Sign::Typing { chat: typing.platform_id });
            Ok(())
        }
        ToBridge::OpenDirect { open_direct, seq } => {
            // A person's id is their chat.
            let opened = Opened { seq, platform_id: Some(open_direct.user_id), why: None };
            daemon.send(&FromBridge::Opened { opened })
        }
        ToBridge::StopTaking { .. } => {
            ways.is_closed.store(true, Ordering::SeqCst);
            Ok(())
        }
        // Every message of a room arrives.
        ToBridge::Hello { .. } | ToBridge::Pressed { .. } | ToBridge::Subscribe { .. } | ToBridge::ShutDown { .. } => {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_device_promises_nothing_until_the_next_start() {
        let directory = tempfile::tempdir().unwrap();
        let of = |device| idempotency(Some(device), directory.path()).unwrap();
        let window = Idempotency::Window { seconds: WINDOW };
        assert_eq!([of("A"), of("A"), of("B"), of("B")], [window, window, Idempotency::None, window]);
    }
}
