//! What `hearth status` reads does not grow with the number of sessions.

use std::path::Path;

use super::{Around, collect};
use crate::cli::report::Report;
use crate::cli::{transcripts, warnings, watch};
use crate::config::Paths;
use crate::console::Rank;
use crate::daemon::sandbox;
use crate::model::address::ForeignId;
use crate::model::entity::{Agent, AgentSettings, Folder, Origin};
use crate::model::id::{AgentId, ChatId, SessionId};
use crate::model::incarnation::{Incarnation, IncarnationId, Phase, SpecDigest};
use crate::model::session::{ChatSession, Route, Session, SessionName, SessionStatus};
use crate::model::time::{Awake, Millis, Timestamp};
use crate::model::workspace::{Discriminator, Fingerprint, Workspace, WorkspaceKey};
use crate::state::{self, Options, Reader, SessionKey, Store, touched};

const AGENT: AgentId = AgentId::new(1);
const WORKSPACE: WorkspaceKey =
    WorkspaceKey { fingerprint: Fingerprint::from_number(7), discriminator: Discriminator(0) };
const CREATED: Timestamp = Timestamp::from_millis(1_700_000_000_000);

fn session(number: u64, active: Timestamp, messages: u64) -> Session {
    let thread = ForeignId::new("thread", number.to_string()).unwrap();
    Session::Chat(ChatSession {
        agent: AGENT,
        route: Route::PerThread(ChatId::new(1), Some(thread)),
        name: SessionName::Default,
        reply: None,
        status: SessionStatus::Active,
        last_number: 0,
        last_incarnation: 0,
        live: None,
        provider: None,
        epoch: 0,
        failed_starts: 0,
        start_after: None,
        messages,
        context_version: 0,
        created: CREATED,
        active,
    })
}

/// Adds sessions that were active a minute apart, or all in the same one.
fn add(data: &Path, numbers: std::ops::Range<u64>, apart: Millis, messages: u64) {
    let store = Store::open(data, Options { reserve_bytes: 0, ..Options::new(1) }).unwrap();
    let agent = Agent {
        folder: Folder::new("main").unwrap(),
        settings: AgentSettings::named("main".to_owned()),
        origin: Origin::Runtime,
        created: CREATED,
        archived: None,
        installs: Vec::new(),
    };
    let workspace = Workspace {
        path: b"groups/main".to_vec(),
        former_paths: Vec::new(),
        aliases: Vec::new(),
        agent: Some(AGENT),
        witness: None,
        project: None,
        replaced: None,
        current: None,
        created: CREATED,
    };
    let written = store.write(|db, txn| {
        db.agents.put(txn, &AGENT, &agent)?;
        db.workspaces.put(txn, &WORKSPACE, &workspace)?;
        for number in numbers {
            let key = SessionKey { workspace: WORKSPACE, session: SessionId::new(number) };
            let active = CREATED.plus(Millis::new(apart.get() * number));
            db.sessions.put(txn, &key, &session(number, active, messages))?;
        }
        Ok::<_, state::Error>(())
    });
    written.unwrap();
}

/// The rows that one look reads, and its messages about long conversations.
fn look(paths: &Paths) -> (u64, Vec<String>) {
    let (reader, sandbox) = (Reader::open(paths.data()).unwrap(), sandbox(paths));
    let usage = reader.usage(paths.data()).unwrap();
    let around = Around { paths, daemon: None, sandbox: &sandbox, usage: &usage };
    let before = touched::rows();
    let long: Result<_, state::Error> = reader.read(|db, txn| {
        let report = Report::read(db, txn)?;
        collect(db, txn, true, &report)?;
        watch::collect(db, txn, &report)?;
        warnings::read(db, txn, &report, &around, &Rank::Everything)?;
        transcripts::long(paths, db, txn)
    });
    (touched::rows() - before, long.unwrap().into_iter().map(|(_, words)| words).collect())
}

#[test]
fn status_reads_no_more_rows_of_many_sessions() {
    for apart in [Millis::minutes(1), Millis::ZERO] {
        let place = tempfile::tempdir().unwrap();
        let paths = Paths::find(Some(place.path())).unwrap();
        add(paths.data(), 1..2_001, apart, 600);
        let (few, _) = look(&paths);
        add(paths.data(), 2_001..6_001, apart, 600);
        let (many, long) = look(&paths);
        assert!(few > 0 && many <= few + few / 10, "{few} rows of 2,000 sessions, {many} of 6,000");
        assert_eq!(long.len(), 200);
    }
}

/// What works comes before what only has a process, and within the same state the most recent one comes first.
#[test]
fn sessions_at_work_come_before_idle_ones() {
    let place = tempfile::tempdir().unwrap();
    let paths = Paths::find(Some(place.path())).unwrap();
    add(paths.data(), 1..5, Millis::minutes(1), 1);
    let store = Store::open(paths.data(), Options { reserve_bytes: 0, ..Options::new(1) }).unwrap();
    let written = store.write(|db, txn| {
        for number in 1..5 {
            let key = SessionKey { workspace: WORKSPACE, session: SessionId::new(number) };
            let Session::Chat(mut session) = db.sessions.require(txn, &key)? else { continue };
            session.live = Some(1);
            db.sessions.put(txn, &key, &Session::Chat(session))?;
            let run = IncarnationId::new(key.session, 1);
            let mut row = Incarnation::new(Awake::new(1, 0), CREATED, SpecDigest::new(0));
            if number != 2 {
                row.phase = Phase::Running;
            }
            db.incarnations.put(txn, &run, &row)?;
        }
        Ok::<_, state::Error>(())
    });
    written.unwrap();
    drop(store);
    let reader = Reader::open(paths.data()).unwrap();
    let view = reader.read(|db, txn| watch::collect(db, txn, &Report::read(db, txn)?)).unwrap();
    let order: Vec<&str> = view.sessions.iter().map(|one| one.session.as_str()).collect();
    assert_eq!(order, ["se2", "se4", "se3", "se1"]);
}

#[test]
fn only_conversations_that_were_active_lately_are_called_long() {
    let place = tempfile::tempdir().unwrap();
    let paths = Paths::find(Some(place.path())).unwrap();
    add(paths.data(), 1..2, Millis::minutes(1), 501);
    add(paths.data(), 2..150, Millis::minutes(1), 500);
    let (_, long) = look(&paths);
    assert!(long.len() == 1 && long[0].starts_with("session se1 of main has 501 messages"), "{long:?}");
    add(paths.data(), 150..300, Millis::minutes(1), 500);
    assert_eq!(look(&paths).1, [""; 0]);
}
