//! Test support: a store for single transactions, with their replies and the rows they leave.

use super::entities::change::{ChangeResult, ChangedAgents};
use super::entities::{agents, wirings};
use super::rules::pattern::Patterns;
use super::tx::counted::CountedWords;
use super::tx::entropy::Entropy;
use super::{Cx, Result, Tx, configure, hooks};
use crate::model::address::{ChannelName, ForeignId, UserId};
use crate::model::configure::{ChatSpec, WiringSpec};
use crate::model::entity::{AgentSettings, Engage, Folder, Ignored, Origin, SenderScope, SessionMode, UnknownSenders};
use crate::model::policy::Policy;
use crate::model::report::ChangeReport;
use crate::model::time::{Awake, Moment, Timestamp};
use crate::state::dump::{self, Format};
use crate::state::{Error, Options, Store, check};
use crate::time::zone::Zone;

/// A store whose clock advances by one second per transaction.
pub(super) struct Scene {
    store: Store,
    patterns: Patterns,
    second: std::cell::Cell<i64>,
    _directory: tempfile::TempDir,
}

/// Why a transaction is undone.
enum Stop {
    Refused(String),
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Scene {
    /// Creates agents `a` and `b`, and the chat `net/C`, in which `a` listens, all by commands.
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = Options { map_bytes: Some(64 << 20), reserve_bytes: 0, margin_bytes: 0, ..Options::new(7) };
        let store = Store::open(directory.path(), options).unwrap();
        let scene =
            Self { store, patterns: Patterns::default(), second: std::cell::Cell::new(0), _directory: directory };
        for name in ["a", "b"] {
            scene.done(|tx, after| agents::put(tx, &folder(name), settings(), Origin::Runtime, after));
        }
        scene.done(|tx, after| wirings::put_chat(tx, &chat("C", &["a"]), Origin::Runtime, after));
        scene
    }

    /// Runs a transaction and returns its report, or the reason why it was refused and undone.
    pub(super) fn tell(
        &self,
        work: impl FnOnce(&mut Tx<'_, '_>, &mut ChangedAgents) -> Result<ChangeResult>,
    ) -> std::result::Result<String, String> {
        self.second.set(self.second.get() + 1);
        let now = Moment { wall: Timestamp::from_millis(self.second.get() * 1_000), awake: Awake::new(1, 0) };
        let done = self.store.write(|db, txn| {
            let (policy, patterns) = (&Policy::STANDARD, &self.patterns);
            let entropy = &Entropy::of(1);
            let (groups_path, zone, steady) = (b"/groups".as_slice(), &Zone::utc(), true);
            let cx = Cx {
                entropy,
                groups_path,
                zone,
                builds: false,
                has_room: true,
                steady,
                patterns,
                salvage: None,
                counted: &CountedWords::default(),
                hooks,
            };
            let mut tx = Tx::new(db, policy, now, cx, txn);
            work(&mut tx, &mut ChangedAgents::default())?.map_err(Stop::Refused)
        });
        let line = |one: &ChangeReport| format!("{} {}", one.action.as_str(), one.entity);
        match done {
            Ok(reports) => Ok(reports.iter().map(line).collect::<Vec<_>>().join(", ")),
            Err(Stop::Refused(reason)) => Err(reason),
            Err(Stop::Failed(error)) => panic!("{error}"),
        }
    }

    /// Runs a transaction that must not be refused.
    pub(super) fn done(
        &self,
        work: impl FnOnce(&mut Tx<'_, '_>, &mut ChangedAgents) -> Result<ChangeResult>,
    ) -> String {
        self.tell(work).unwrap()
    }

    /// Sets the clock. The next transaction is one second later.
    pub(super) fn jump(&self, to: Timestamp) {
        self.second.set(to.millis() / 1_000);
    }

    /// The rows of a table, as the dump shows them.
    pub(super) fn rows(&self, table: &str) -> Vec<String> {
        let options = dump::Options { format: Format::Text, table: Some(table.to_owned()), bodies: true };
        let mut text = Vec::new();
        dump::dump(self.store.reader(), &options, &mut text).unwrap();
        String::from_utf8(text).unwrap().lines().skip(1).map(str::to_owned).collect()
    }

    /// The keys of a table's rows.
    pub(super) fn keys(&self, table: &str) -> Vec<String> {
        self.rows(table).iter().map(|row| row.split(": ").next().unwrap().to_owned()).collect()
    }

    /// The digest of the configuration.
    pub(super) fn digest(&self) -> u64 {
        self.store.read(|db, txn| db.configuration_digest(txn)).unwrap()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let violations = check::check_in_parts(self.store.reader()).unwrap();
            assert!(violations.is_empty(), "{violations:?}");
        }
    }
}

pub(super) fn folder(name: &str) -> Folder {
    Folder::new(name).unwrap()
}

pub(super) fn person(id: &str) -> UserId {
    UserId::parse(id).unwrap()
}

pub(super) fn place(id: &str) -> (ChannelName, ForeignId) {
    (ChannelName::new("net").unwrap(), ForeignId::new("chat", id).unwrap())
}

pub(super) fn settings() -> AgentSettings {
    AgentSettings::named("An agent".to_owned())
}

/// A chat wired to these agents.
pub(super) fn chat(id: &str, agents: &[&str]) -> ChatSpec {
    let (channel, platform_id) = place(id);
    let wiring = |agent: &&str| WiringSpec {
        agent: folder(agent),
        engage: Engage::Mention,
        senders: SenderScope::All,
        ignored: Ignored::Drop,
        session: SessionMode::Shared,
        priority: 0,
        context_from: None,
    };
    let wirings = agents.iter().map(wiring).collect();
    ChatSpec { channel, platform_id, name: None, group: false, unknown_senders: UnknownSenders::Strict, wirings }
}

#[test]
fn a_digest_follows_what_is_configured() {
    let scene = Scene::new();
    let mut seen = vec![scene.digest()];
    let mut differs = |scene: &Scene| {
        let digest = scene.digest();
        let new = !seen.contains(&digest);
        seen.push(digest);
        new
    };
    scene.done(|tx, after| agents::put(tx, &folder("a"), settings(), Origin::Runtime, after));
    assert!(!differs(&scene), "nothing is different");
    scene.done(|tx, after| agents::put(tx, &folder("c"), settings(), Origin::Runtime, after));
    assert!(differs(&scene));
    let other = AgentSettings { max_parallel: 5, ..settings() };
    scene.done(|tx, after| agents::put(tx, &folder("c"), other, Origin::Runtime, after));
    assert!(differs(&scene));
    scene.done(|tx, after| wirings::put_chat(tx, &chat("C", &["a", "c"]), Origin::Runtime, after));
    assert!(differs(&scene));
    scene.done(|tx, _| agents::remove(tx, &folder("c")));
    assert!(differs(&scene));
}

/// A change based on an outdated configuration is refused with its own code and does nothing.
#[test]
fn a_change_that_expects_another_configuration_is_refused() {
    use crate::model::configure::{Change, Configure};
    use crate::model::report::{Refusal, Reply};
    let scene = Scene::new();
    let before = scene.digest();
    let put = |expected| Configure {
        changes: vec![Change::PutAgent(folder("c"), settings())],
        origin: Origin::Runtime,
        by: None,
        expected: Some(expected),
    };
    let mut replies = Vec::new();
    for expected in [before ^ 1, before, before] {
        scene.done(|tx, _| {
            replies.push(configure::configure(tx, put(expected))?);
            Ok(Ok(Vec::new()))
        });
    }
    let refused = |reply: &Reply| matches!(reply, Reply::Refused(refusal) if refusal.code == Refusal::CHANGED);
    assert_eq!(replies.iter().map(refused).collect::<Vec<_>>(), [true, false, true], "{replies:?}");
}
