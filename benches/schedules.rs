//! Schedules: a sweep when some of many series are due, and series that go on; each beside its floor.

#![allow(missing_docs, unreachable_pub, reason = "criterion's macros make public functions")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::let_underscore_must_use,
    reason = "a benchmark measures time, reads its own settings, and fails loudly"
)]

#[path = "ground/compare.rs"]
mod compare;
#[path = "ground/floor.rs"]
mod floor;
mod ground;

use compare::compare;
use criterion::{Criterion, criterion_group, criterion_main};
use ground::{Ground, moment, submission};
use hearth::engine::commit::{Engine, Submission};
use hearth::model::id::AgentId;
use hearth::model::input::Input;
use hearth::model::report::Reply;
use hearth::model::task::{Missed, NewTask, Overlap, TaskCommand, TaskHome, TaskOrigin};
use hearth::model::time::{Millis, Moment};

/// Pairs of Hearth and its floor.
const PAIRS: usize = 11;
/// Agents; one has at most a thousand tasks.
const AGENTS: u64 = 20;
/// Series that one sweep fires.
const SWEEP: u64 = 100;

/// Series of the large store; `HEARTH_BENCH_SESSIONS_MAX` can make it smaller.
fn series() -> u64 {
    let max = std::env::var("HEARTH_BENCH_SESSIONS_MAX").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000);
    10_000.min(max)
}

fn configuration() -> String {
    let agents: String = (0..AGENTS)
        .map(|number| format!("[[agents]]\nfolder = \"a{number}\"\ntimezone = \"Europe/Berlin\"\n"))
        .collect();
    format!("schema = 1\nmax_containers = 1000\n{agents}")
}

/// A series that was made a day ago; `due` has its first slot an hour ago, the others in half a year.
fn task(number: u64, due: bool, missed: Missed) -> Submission {
    let begin = moment(0).wall;
    let first = if due { begin.minus(Millis::minutes(60)) } else { begin.plus(Millis::days(180)) };
    submission(Input::Task(TaskCommand::Add(Box::new(NewTask {
        agent: AgentId::new(number % AGENTS + 1),
        home: TaskHome::Maintenance,
        prompt: format!("Look at the calendar, number {number}"),
        script: None,
        reply: None,
        first: Some(first.to_string()),
        recurrence: Some(format!("{} {} * * 1-5", number % 60, number % 24)),
        missed,
        overlap: Overlap::Refuse,
        origin: TaskOrigin::Operator,
    }))))
}

fn prepare(engine: &Engine, tasks: &[Submission]) {
    let yesterday = Moment { wall: moment(0).wall.minus(Millis::days(1)), ..moment(0) };
    for group in tasks.chunks(500) {
        let answers = engine.commit(group, yesterday, 7).unwrap();
        let made = |answer: &hearth::engine::commit::Answer| matches!(answer.as_ref().unwrap().reply, Reply::Task(..));
        assert!(answers.iter().all(made), "{answers:?}");
    }
}

fn sweeps(count: u64) -> Vec<Vec<Submission>> {
    (0..count).map(|_| vec![submission(Input::Sweep(Vec::new()))]).collect()
}

fn scenario(c: &mut Criterion, name: &str, ground: &Ground, (groups, inputs): (&[Vec<Submission>], u64)) {
    let trace = floor::trace(ground, groups);
    assert!(trace.iter().all(|commit| !commit.is_empty()), "every sweep fires");
    compare(c, name, ground, (groups, &trace), (inputs, PAIRS));
}

/// A hundred of ten thousand series are due: each becomes a message for its agent.
fn due(c: &mut Criterion) {
    let tasks: Vec<Submission> = (0..series()).map(|number| task(number, number < SWEEP, Missed::RunOnce)).collect();
    let ground = Ground::new(&configuration(), |engine| prepare(engine, &tasks));
    scenario(c, "sweep, 100 of 10,000 series due", &ground, (&sweeps(1), SWEEP));
}

/// A thousand recurrences go on to their next slots, since those that passed are not wanted any more.
fn advanced(c: &mut Criterion) {
    let tasks: Vec<Submission> = (0..1_000).map(|number| task(number, true, Missed::Skip)).collect();
    let ground = Ground::new(&configuration(), |engine| prepare(engine, &tasks));
    scenario(c, "1,000 recurrences advanced", &ground, (&sweeps(1_000 / SWEEP), 1_000));
}

criterion_group!(benches, due, advanced);
criterion_main!(benches);
