//! The start: what the settings say, who the bot is, and the threads.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use hearth_bridge::program::run::{Counts, Network, Ways, failed, greet, spawn};
use hearth_bridge::program::settings::{part, secret};
use hearth_bridge::program::state::{Side, State};
use hearth_bridge::program::{Daemon, log};
use hearth_bridge::{
    Capabilities, Choice, FromBridge, Hello, Idempotency, Me, Opened, PROTOCOL, Place as Typing, Ready,
};
use serde_json::Value;

use crate::api::{Api, Trouble};
use crate::crypto::{Crypto, Device, NEWS, People, Verifier, Verifying, checked};
use crate::directs::Directs;
use crate::event::{Bot, text};
use crate::inbox::{Inbox, Place, Sealed};
use crate::invites::Invites;
use crate::keeper::keep;
use crate::noticed::Noticed;
use crate::outbox::Outbox;
use crate::parked::ParkedMessages;
use crate::rooms::Rooms;
use crate::settings::{Settings, is_user};
use crate::signs::{Shower, Sign, Signs, WAITING};
use crate::waiting::Passed;

/// How long the first answer is waited for.
const FIRST: Duration = Duration::from_secs(20);
/// After how many seconds a server that cannot be reached is tried again.
const AGAIN: u64 = 5;
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
    let Some(hello) = greet(&mut daemon, "hearth-matrix")? else { return Ok(()) };
    let settings = Settings::of(&hello).and_then(|settings| {
        let given = hello.secrets.contains_key("secret").then(|| secret(&hello, "secret", "the recovery key"));
        let recovery = given.transpose()?.map(|key| checked(&key)).transpose()?;
        Ok((settings, secret(&hello, "token", "the access token")?, recovery))
    });
    let (settings, token, recovery) = match settings {
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
    let people = People { agreed: settings.identities.clone(), verifies: settings.verifies.clone(), recovery };
    let crypto = encryption(&api, people, &bot, device.as_deref())?;
    // Before it is ready: a message to a device without keys can never be read there.
    if let Some(Err(trouble)) = crypto.as_ref().map(Crypto::upkeep) {
        log(&format!("the keys of this device are not at the server yet: {trouble}"));
    }
    let (ways, mut signs) = start(&daemon, &hello, Parts { settings, api, bot, crypto })?;
    daemon.send(&FromBridge::Ready { ready: Box::new(ready) })?;
    ways.work(daemon, &mut signs)
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
        files: true,
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

/// The keys of the bot's device. Without them, rooms without encryption work.
fn encryption(api: &Api, people: People, bot: &Bot, device: Option<&str>) -> io::Result<Option<Crypto>> {
    let Some(device) = device else {
        log("the access token belongs to no device, so encrypted rooms cannot be read: log in for another one");
        return Ok(None);
    };
    let own = Device { user: &bot.id, id: device };
    let crypto = Crypto::open(api, &own, Path::new("."), people)?;
    if crypto.is_none() {
        log(&format!(
            "the keys of the device {device} are not here, so encrypted rooms cannot be read: log in for another access token"
        ));
    }
    Ok(crypto)
}

/// What the threads need.
struct Parts {
    settings: Settings,
    api: Api,
    bot: Bot,
    crypto: Option<Crypto>,
}

fn start(daemon: &Daemon, hello: &Hello, Parts { settings, api, bot, crypto }: Parts) -> io::Result<(Ways, Signs)> {
    let directory = Path::new(".");
    let table = crypto.as_ref().map(|crypto| crypto.table().clone());
    let (state, rooms) = (State::default(), Rooms::new(api.clone(), table));
    // The server has just answered.
    state.works(Side::Inbox);
    let directs = Directs::open(api.clone(), &bot.id, (rooms.clone(), crypto.clone()), directory)?;
    let (signs, signs_receiver) = sync_channel(WAITING);
    let signs = Signs(signs);
    let (verifying, news) = sync_channel(NEWS);
    let verifying = Verifying(verifying);
    if let Some(crypto) = &crypto {
        let verifier = Verifier::new(crypto.clone(), api.clone(), rooms.clone(), settings.verifies.clone());
        spawn("verify", move || verifier.work(&news))?;
        if crypto.has_recovery() {
            let crypto = crypto.clone();
            spawn("backup", move || keep(&crypto))?;
        }
    }
    let (ways, threads) = Ways::prepare(daemon, hello, &state, Counts { hands: 1, posts: 1 })?;
    for hand in threads.hands {
        let inbox = Inbox {
            api: api.clone(),
            bot: bot.clone(),
            state: state.clone(),
            rooms: rooms.clone(),
            directs: directs.clone(),
            invites: Invites { api: api.clone(), me: bot.id.clone(), from: settings.invites.clone() },
            noticed: Noticed::open(directory)?,
            sealed: crypto.clone().map(|crypto| sealed(crypto, settings.patience)).transpose()?,
            signs: signs.clone(),
            verifying: verifying.clone(),
            hand,
            files: PathBuf::from(&hello.files),
            file_max: hello.limits.file,
            place: Place::of(&hello.cursors),
            stored: None,
            waits: BTreeMap::new(),
            passed: Passed::default(),
        };
        spawn("inbox", || inbox.work())?;
    }
    for post in threads.posts {
        let (rooms, directs) = (rooms.clone(), directs.clone());
        let outbox = Outbox {
            api: api.clone(),
            kind: settings.kind,
            rooms,
            directs,
            crypto: crypto.clone(),
            renewed: BTreeSet::new(),
            paused: Duration::ZERO,
        };
        spawn("outbox", move || outbox.work(&post))?;
    }
    let shower = Shower { api, me: bot.id, directs, signs: signs_receiver };
    spawn("signs", || shower.work())?;
    Ok((ways, signs))
}

fn sealed(crypto: Crypto, patience: i64) -> io::Result<Sealed> {
    let parked = ParkedMessages::open(crypto.table().clone()).map_err(io::Error::other)?;
    Ok(Sealed { crypto, parked, patience, told: BTreeMap::new() })
}

impl Network for Signs {
    fn typing(&mut self, place: Typing) {
        self.show(Sign::Typing { chat: place.platform_id });
    }

    fn open_direct(&mut self, person: String, seq: u64) -> Option<Opened> {
        // A person's id is their chat.
        Some(Opened { seq, platform_id: Some(person), why: None })
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
