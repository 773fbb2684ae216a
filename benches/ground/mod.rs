//! Shared parts of the benchmarks: stores that are set up once and copied.

pub(crate) mod asked;
pub(crate) mod compare;
pub(crate) mod daemon;
pub(crate) mod floor;
pub(crate) mod part;
pub(crate) mod plain;
pub(crate) mod server;

use std::path::{Path, PathBuf};
use std::time::Instant;

use hearth::config::file;
use hearth::engine::commit::{Engine, Submission};
use hearth::model::ForeignId;
use hearth::model::id::{AgentId, ChatId, SessionId};
use hearth::model::input::Input;
use hearth::model::policy::Policy;
use hearth::model::report::Reply;
use hearth::model::session::{ChatSession, Route, Session, SessionName};
use hearth::model::time::{Awake, Moment, Timestamp};
use hearth::state::{self, Options, SessionKey, Store};

/// Where stores are made: `HEARTH_BENCH_DIR`, by default under `target/`, so that they lie on a real disk.
pub(crate) fn place() -> PathBuf {
    let default = || asked::target().join("bench-stores");
    let place = std::env::var_os("HEARTH_BENCH_DIR").map_or_else(default, PathBuf::from);
    std::fs::create_dir_all(&place).unwrap();
    place
}

/// A moment: `ms` after the start of the first run.
pub(crate) fn moment(ms: u64) -> Moment {
    Moment { wall: Timestamp::from_millis(1_800_000_000_000 + i64::try_from(ms).unwrap()), awake: Awake::new(1, ms) }
}

/// An input on its own.
pub(crate) fn submission(input: Input) -> Submission {
    Submission::new(input)
}

/// One inbound event.
pub(crate) fn event(channel: &str, chat: &str, id: &str, sender: &str) -> Submission {
    let text = "a message of about two hundred bytes, which is what people write to an agent when they want something \
                done and say what it is, why they want it and by when they would like to have it";
    let line = format!(
        r#"{{"channelType":"{channel}","platformId":"{chat}","message":{{"id":"{id}","kind":"chat","content":{{"text":"{text}","senderId":"{sender}"}}}}}}"#
    );
    submission(Input::Inbound(Box::new(hearth::channel::event::parse(line.as_bytes()).unwrap())))
}

/// A store that a scenario starts from.
pub(crate) struct Ground {
    /// Its data directory.
    pub(crate) dir: tempfile::TempDir,
}

impl Ground {
    /// A store with a configuration, and whatever `prepare` does to it.
    pub(crate) fn new(configuration: &str, prepare: impl FnOnce(&Engine)) -> Self {
        let dir = tempfile::tempdir_in(place()).unwrap();
        let engine = open(dir.path());
        if !configuration.is_empty() {
            let configure = Input::Configure(file::parse("hearth.toml", configuration).unwrap());
            let answers = engine.commit(&[submission(configure)], moment(0), 7).unwrap();
            assert!(matches!(answers[0].as_ref().unwrap().reply, Reply::Configured(_)), "{answers:?}");
        }
        prepare(&engine);
        Self { dir }
    }

    /// A copy of the store, on the disk. The store is closed, so its file can be copied.
    pub(crate) fn copy(&self) -> Self {
        let dir = tempfile::tempdir_in(place()).unwrap();
        std::fs::create_dir(dir.path().join("store")).unwrap();
        let file = |root: &Path| root.join("store/data.mdb");
        std::fs::copy(file(self.dir.path()), file(dir.path())).unwrap();
        std::fs::File::open(file(dir.path())).unwrap().sync_all().unwrap();
        Self { dir }
    }

    /// Opens the engine over the store.
    pub(crate) fn engine(&self) -> Engine {
        open(self.dir.path())
    }
}

fn open(data: &Path) -> Engine {
    let store = Store::open(data, Options { reserve_bytes: 0, ..Options::new(1) }).unwrap();
    Engine::new(store, Policy { backlog_max: u64::MAX, ..Policy::STANDARD }, b"/groups".to_vec())
}

/// Sessions that have nothing to do, as many messages ago they did.
pub(crate) fn idle_sessions(engine: &Engine, count: u64) {
    let store = engine.store();
    store
        .write(|db, txn| {
            let agent = AgentId::new(1);
            let workspace = db.workspaces_by_agent.require(txn, &agent)?;
            for number in 0..count {
                let id: SessionId = db.allocate(txn)?;
                let thread = ForeignId::new("thread", format!("t{number}")).unwrap();
                let route = Route::PerThread(ChatId::new(1), Some(thread));
                let at = moment(0).wall;
                let session = ChatSession::new(agent, SessionName::Default, route, None, at);
                let session = ChatSession { last_number: 2, last_incarnation: 1, context_version: 1, ..session };
                let session = Session::Chat(session);
                db.sessions.put(txn, &SessionKey { workspace, session: id }, &session)?;
            }
            Ok::<_, state::Error>(())
        })
        .unwrap();
}

/// An inbound event in a thread of its chat.
pub(crate) fn threaded(thread: usize, id: &str) -> Submission {
    let mut one = event("bench", "c", id, "1");
    if let Input::Inbound(event) = &mut one.input {
        event.source.thread = Some(ForeignId::new("thread", format!("t{thread}")).unwrap());
    }
    one
}

/// Now, for measuring.
pub(crate) fn now() -> Instant {
    Instant::now()
}
