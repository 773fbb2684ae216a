//! Workspace sessions: appending to one, beside raw LMDB, and finding the newest of very many.

use criterion::{BenchmarkId, Criterion};
use hearth::engine::commit::{Engine, Submission};
use hearth::engine::workspaces::view;
use hearth::model::content::RawJson;
use hearth::model::id::SessionId;
use hearth::model::input::Input;
use hearth::model::record::{RecordBody, SessionRecord, SpeakerRole};
use hearth::model::session_command::{ForkSession, Guard, Home, NewSession, SessionCommand};
use hearth::model::time::Timestamp;
use hearth::model::workspace::WorkspaceKey;
use hearth::model::workspace_command::WorkspaceInput;
use hearth::model::workspace_sight::WorkspaceSight;

use crate::ground::asked::{Asked, at_most, commits};
use crate::ground::compare::compare;
use crate::ground::{Ground, moment, submission};

/// Pairs of which the middle one counts.
const PAIRS: usize = 9;

fn home() -> Home {
    let sight =
        WorkspaceSight { path: b"/home/ada/project".to_vec(), witness: None, project: None, also_at: Vec::new() };
    Home::Seen(Box::new(sight))
}

fn record() -> SessionRecord {
    let text = "a message of about two hundred bytes, which is what people and programs say to each other when they work \
                on something together and want to come to an end of it before the evening of the same day comes";
    let blocks = RawJson::trusted(format!("[{{\"text\":\"{text}\",\"type\":\"text\"}}]"));
    let body = RecordBody::Message { role: SpeakerRole::User, blocks, usage: None, ends_turn: None };
    SessionRecord { at: Timestamp::from_millis(5), body, extra: None }
}

fn command(command: SessionCommand) -> Submission {
    submission(Input::Workspace(Box::new(WorkspaceInput::Session(command))))
}

fn new() -> Submission {
    let (label, title, model, times, source) = (None, None, None, None, None);
    let records = vec![record()];
    command(SessionCommand::Create(Box::new(NewSession { home: home(), label, title, model, times, source, records })))
}

/// A store with so many sessions of one directory.
fn filled(count: usize) -> Ground {
    Ground::new("", |engine| {
        let mut left = count;
        while left > 0 {
            let some = left.min(500);
            let group: Vec<Submission> = (0..some).map(|_| new()).collect();
            let answers = engine.commit(&group, moment(u64::try_from(count - left).unwrap()), 7).unwrap();
            assert!(answers.iter().all(|answer| !answer.as_ref().unwrap().reply.is_refusal()));
            left -= some;
        }
    })
}

fn workspace(engine: &Engine) -> WorkspaceKey {
    engine.store().read(|db, txn| db.workspaces.first(txn, ..)).unwrap().unwrap().0
}

fn find(c: &mut Criterion) {
    let size = at_most(100_000);
    let name = format!("workspace sessions, {size} in one directory");
    if !Asked::now().wants(&name) {
        return;
    }
    let ground = filled(size);
    let engine = ground.engine();
    let key = workspace(&engine);
    let mut group = c.benchmark_group(name);
    group.bench_function(BenchmarkId::from_parameter("list the newest 50"), |b| {
        b.iter(|| engine.store().read(|db, txn| view::newest(db, txn, key, 50)).unwrap());
    });
    group.bench_function(BenchmarkId::from_parameter("latest"), |b| {
        b.iter(|| engine.store().read(|db, txn| view::latest(db, txn, key, |_, _| false)).unwrap());
    });
    group.finish();
}

fn append(c: &mut Criterion) {
    let ground = filled(at_most(1_000));
    let append = |number: usize| {
        let id = SessionId::new(u64::try_from(number % 10).unwrap() + 1);
        vec![command(SessionCommand::Append(id, vec![record()], Guard::default()))]
    };
    let groups: Vec<Vec<Submission>> = (0..commits()).map(append).collect();
    compare(c, "workspace sessions, one record per commit", &ground, &groups, (groups.len(), PAIRS));
}

fn fork(c: &mut Criterion) {
    let ground = filled(10);
    let wanted = |upto| ForkSession { parent: SessionId::new(1), home: home(), label: None, branch: None, upto };
    let groups: Vec<Vec<Submission>> =
        (0..commits()).map(|_| vec![command(SessionCommand::Fork(Box::new(wanted(None))))]).collect();
    compare(c, "workspace sessions, one fork per commit", &ground, &groups, (groups.len(), PAIRS));
}

pub(crate) fn all(c: &mut Criterion) {
    find(c);
    append(c);
    fork(c);
}
