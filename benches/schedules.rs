//! Schedules: a sweep when some of many series are due, and repeating series; each beside its floor.

use criterion::Criterion;
use hearth::engine::commit::{Engine, Submission};
use hearth::model::id::AgentId;
use hearth::model::input::Input;
use hearth::model::report::Reply;
use hearth::model::task::{Missed, Overlap, TaskHome, TaskOrigin};
use hearth::model::task_command::{NewTask, TaskCommand};
use hearth::model::time::{Millis, Moment};

use crate::ground::asked::at_most;
use crate::ground::compare::compare;
use crate::ground::{Ground, moment, submission};

/// Pairs of Hearth and its floor.
const PAIRS: usize = 11;
/// Agents; one has at most a thousand tasks.
const AGENTS: u64 = 20;
/// Series that one sweep fires.
const SWEEP: u64 = 100;

/// Series of the large store.
fn series() -> u64 {
    at_most(10_000) as u64
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
        allow: Vec::new(),
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

/// A hundred of ten thousand series are due: each becomes a message for its agent.
fn due(c: &mut Criterion) {
    let tasks: Vec<Submission> = (0..series()).map(|number| task(number, number < SWEEP, Missed::RunOnce)).collect();
    let ground = Ground::new(&configuration(), |engine| prepare(engine, &tasks));
    compare(c, "sweep, 100 of 10,000 series due", &ground, &sweeps(1), (SWEEP as usize, PAIRS));
}

/// A thousand recurrences go on to their next slots, since those that passed are not wanted any more.
fn advanced(c: &mut Criterion) {
    let tasks: Vec<Submission> = (0..1_000).map(|number| task(number, true, Missed::Skip)).collect();
    let ground = Ground::new(&configuration(), |engine| prepare(engine, &tasks));
    compare(c, "1,000 recurrences advanced", &ground, &sweeps(1_000 / SWEEP), (1_000, PAIRS));
}

pub(crate) fn all(c: &mut Criterion) {
    due(c);
    advanced(c);
}
