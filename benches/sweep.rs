//! The sweep: its cost follows the work that is due, not the size of the store.

use criterion::{BenchmarkId, Criterion, SamplingMode};
use hearth::engine::commit::{Engine, Submission};
use hearth::model::id::SessionId;
use hearth::model::input::{Input, RuntimeEvent};
use hearth::model::mailbox::{Beat, CollectedRecord, Collection, Observation, Record};
use hearth::model::time::{Awake, Moment};

use crate::ground::asked::Asked;
use crate::ground::{Ground, idle_sessions, moment, now, submission, threaded};

/// Incarnations that run at once in the busy cases.
const BUSY: u64 = 1_000;

const CONFIGURATION: &str = r#"
schema = 1
max_containers = 1000
[[agents]]
folder = "a"
max_parallel = 1000
[[users]]
id = "bench:1"
roles = ["owner"]
[[chats]]
channel = "bench"
platform_id = "c"
[[chats.wirings]]
agent = "a"
engage = "pattern"
pattern = "."
session = "per-thread"
"#;

/// Incarnations that run, each with a claim.
fn busy_sessions(engine: &Engine) {
    let routed: Vec<Submission> = (0..BUSY as usize).map(|number| threaded(number, &format!("m{number}"))).collect();
    engine.commit(&routed, moment(0), 7).unwrap();
    let sessions = (1..=BUSY).map(SessionId::new);
    let running = sessions.clone().map(|id| submission(Input::Runtime(RuntimeEvent::Running(id, 1))));
    engine.commit(&running.collect::<Vec<_>>(), moment(0), 7).unwrap();
    let claim = |session| {
        let record = Record::Claim { seq: 2, incarnation: 1 };
        submission(Input::Collected(Collection {
            session,
            found: vec![CollectedRecord { record, files: vec![] }],
            closes: None,
        }))
    };
    engine.commit(&sessions.map(claim).collect::<Vec<_>>(), moment(0), 7).unwrap();
}

fn sweep_at(ms: u64) -> (Vec<Submission>, Moment) {
    (vec![submission(Input::Sweep(Vec::new()))], Moment { awake: Awake::new(1, ms), ..moment(ms) })
}

fn idle(c: &mut Criterion) {
    let (name, asked) = ("sweep, nothing due", Asked::now());
    if !asked.wants(name) {
        return;
    }
    let mut group = c.benchmark_group(name);
    for size in asked.sizes() {
        let ground = Ground::new(CONFIGURATION, |engine| idle_sessions(engine, size as u64));
        let engine = ground.engine();
        let (sweep, at) = sweep_at(1_000);
        group.bench_function(BenchmarkId::from_parameter(format!("{size} idle sessions")), |b| {
            b.iter(|| engine.commit(&sweep, at, 7).unwrap());
        });
    }
    group.finish();
}

fn young_claims(c: &mut Criterion) {
    let name = "sweep, 1,000 running";
    if !Asked::now().wants(name) {
        return;
    }
    let ground = Ground::new(CONFIGURATION, busy_sessions);
    let engine = ground.engine();
    let (sweep, at) = sweep_at(20_000);
    let mut group = c.benchmark_group(name);
    group.sample_size(10);
    group.bench_function(BenchmarkId::from_parameter("young claims"), |b| {
        b.iter(|| engine.commit(&sweep, at, 7).unwrap());
    });
    group.finish();
}

/// A thousand claims that are stuck: the sweep asks for the end of their incarnations.
fn stuck_claims(c: &mut Criterion) {
    let name = "sweep, 1,000 stuck";
    if !Asked::now().wants(name) {
        return;
    }
    let ground = Ground::new(CONFIGURATION, busy_sessions);
    let beats =
        (1..=BUSY).map(|id| Observation { session: SessionId::new(id), incarnation: 1, beat: Beat::NOW, state: None });
    let groups = [vec![submission(Input::Sweep(beats.collect()))]];
    let late = |engine: &Engine| {
        let begin = now();
        engine.commit(&groups[0], Moment { awake: Awake::new(1, 61_000), ..moment(61_000) }, 7).unwrap();
        now() - begin
    };
    let mut group = c.benchmark_group(name);
    group.sampling_mode(SamplingMode::Flat).sample_size(10);
    group.bench_function(BenchmarkId::from_parameter("hearth"), |b| {
        b.iter_custom(|times| (0..times).map(|_| late(&ground.copy().engine())).sum());
    });
    group.finish();
}

pub(crate) fn all(c: &mut Criterion) {
    idle(c);
    young_claims(c);
    stuck_claims(c);
}
