//! Reference for tasks, on a grid of minutes: which slots run and with which outcome, and which are skipped with which
//! reason.

use hearth::state::OccurrenceId;
use std::collections::BTreeMap;

use hearth::model::id::{AgentId, SessionId, TaskId};
use hearth::model::mailbox::{CollectedRecord, Record};
use hearth::model::report::Reply;
use hearth::model::task::{FireOutcome, Gated, Missed, Overlap, SkipReason, TaskHome, TaskOrigin, TaskState};
use hearth::model::task_command::{NewTask, TaskCommand};
use hearth::model::{Input, Millis, Timestamp};
use proptest::prelude::*;

use crate::world::World;
use crate::world::chance::cases;
use crate::world::outside::{claim, end, failed};

const MINUTE: i64 = 60_000;

/// The maximum delay, in minutes, of a task that skips missed runs.
const LATE: i64 = 5;

/// Outcome of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Runs,
    Over(Ending),
    /// Nothing could run at that time.
    Missed,
    /// An earlier slot ran instead.
    TooEarly,
    Waits,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Done,
    Failed,
    /// Its script reported that there is nothing to do.
    Gated,
}

/// A task and the outcomes of its slots, in minutes since the beginning.
#[derive(Debug)]
struct Series {
    /// None if there is no further slot.
    next: Option<i64>,
    /// None: it runs once.
    every: Option<i64>,
    missed: Missed,
    queues: bool,
    paused: bool,
    cancelled: bool,
    runs: Vec<i64>,
    waits: Option<i64>,
    fates: BTreeMap<i64, Fate>,
}

impl Series {
    fn new((first, every): (i64, Option<i64>), missed: Missed, queues: bool) -> Self {
        let (runs, fates) = (Vec::new(), BTreeMap::new());
        let next = Some(first);
        Self { next, every, missed, queues, paused: false, cancelled: false, runs, waits: None, fates }
    }

    fn state(&self) -> TaskState {
        match (self.cancelled, self.next, self.paused) {
            (true, ..) => TaskState::Cancelled,
            (_, None, _) => TaskState::Done,
            (_, _, true) => TaskState::Paused,
            (..) => TaskState::Active,
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.state(), TaskState::Cancelled | TaskState::Done)
    }

    fn passed(&self, now: i64) -> Vec<i64> {
        let grid = |next: i64| match self.every {
            Some(every) => (0..).map(|n| next + n * every).take_while(|slot| *slot <= now).collect(),
            None => vec![next],
        };
        self.next.filter(|next| *next <= now).map(grid).unwrap_or_default()
    }

    /// A sweep. Of the slots that passed, the newest ones run and the others are missed. If a run is in progress, one
    /// of the slots may wait. Used slots are neither run nor missed.
    fn look(&mut self, now: i64) {
        let rests = self.paused || self.cancelled;
        let Some(next) = self.next.filter(|next| !rests && *next <= now) else { return };
        let passed = self.passed(now);
        self.next = self.every.map(|every| next + every * i64::try_from(passed.len()).unwrap());
        let wanted = match self.missed {
            Missed::RunOnce => 1,
            Missed::RunAll(most) => usize::try_from(most).unwrap(),
            Missed::Skip => usize::from(passed.last().is_some_and(|newest| now - newest <= LATE)),
        };
        let (missed, wanted) = passed.split_at(passed.len().saturating_sub(wanted));
        self.skip(missed, Fate::Missed);
        let wanted: Vec<i64> = wanted.iter().copied().filter(|slot| !self.fates.contains_key(slot)).collect();
        if self.runs.is_empty() {
            return wanted.into_iter().for_each(|slot| self.run(slot));
        }
        self.skip(&wanted, Fate::TooEarly);
        if let (true, Some(newest)) = (self.queues, wanted.last()) {
            self.fates.extend(self.waits.map(|old| (old, Fate::TooEarly)));
            self.fates.insert(*newest, Fate::Waits);
            self.waits = Some(*newest);
        }
    }

    fn skip(&mut self, slots: &[i64], fate: Fate) {
        for slot in slots {
            self.fates.entry(*slot).or_insert(fate);
        }
    }

    fn run(&mut self, slot: i64) {
        self.runs.push(slot);
        self.fates.insert(slot, Fate::Runs);
    }

    /// The run in progress ends. A slot that waited for it runs, even if the series is paused.
    fn end(&mut self, ending: Ending) {
        self.fates.extend(self.runs.drain(..).map(|slot| (slot, Fate::Over(ending))));
        self.waits.take().into_iter().for_each(|slot| self.run(slot));
    }

    /// The series is cancelled. A run in progress continues, but a waiting slot does not run, and slots that passed
    /// during a pause are not used.
    fn cancel(&mut self, now: i64) {
        self.cancelled = true;
        self.skip(&self.passed(now), Fate::Missed);
        self.fates.extend(self.waits.take().map(|slot| (slot, Fate::TooEarly)));
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    /// Minutes, then a sweep.
    Pass(i64),
    /// The agent ends all its messages.
    End(Ending),
    Pause,
    Resume,
    /// Runs now, in addition to its schedule.
    Run,
    Cancel,
}

fn a_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (1..40_i64).prop_map(Step::Pass),
        4 => Just(Step::End(Ending::Done)),
        1 => Just(Step::End(Ending::Failed)),
        1 => Just(Step::End(Ending::Gated)),
        2 => Just(Step::Pause),
        3 => Just(Step::Resume),
        2 => Just(Step::Run),
        1 => Just(Step::Cancel),
    ]
}

fn a_policy() -> impl Strategy<Value = Missed> {
    prop_oneof![Just(Missed::RunOnce), Just(Missed::Skip), (1..4_u32).prop_map(Missed::RunAll)]
}

fn make(world: &mut World, series: &Series) -> TaskId {
    let start = world.now().wall;
    let minutes = |next: i64| start.plus(Millis::minutes(u64::try_from(next).unwrap())).to_string();
    let new = NewTask {
        agent: AgentId::new(1),
        home: TaskHome::Maintenance,
        prompt: "Water the plants".to_owned(),
        script: None,
        reply: None,
        first: series.next.map(minutes),
        recurrence: series.every.map(|every| format!("{every}m")),
        missed: series.missed,
        overlap: if series.queues { Overlap::Queue } else { Overlap::Refuse },
        origin: TaskOrigin::Operator,
        allow: Vec::new(),
    };
    match world.put(Input::Task(TaskCommand::Add(Box::new(new)))) {
        Reply::Task(id, _) => id,
        other => panic!("{other:?}"),
    }
}

/// The agent ends every message in its mailbox, once.
fn end_all(world: &mut World, ending: Ending) {
    let session = SessionId::new(1);
    let Some(number) = world.outside.running.get(&session).copied() else { return };
    let seqs: Vec<u64> =
        world.outside.inbox.get(&session).map(|inbox| inbox.keys().copied().collect()).unwrap_or_default();
    let turns = seqs.iter().flat_map(|seq| [claim(*seq, number), ended(*seq, number, ending)]).collect();
    let input = world.outside.write(session, turns);
    world.put(input);
}

fn ended(seq: u64, number: u32, ending: Ending) -> CollectedRecord {
    let mut found = match ending {
        Ending::Failed => failed(seq, number, "no water"),
        Ending::Done | Ending::Gated => end(seq, number, vec![]),
    };
    if let (Ending::Gated, Record::End { gated, .. }) = (ending, &mut found.record) {
        *gated = Some(Gated { why: "it rains".to_owned(), failed: false });
    }
    found
}

/// Every processed slot, with its outcome.
fn fates(world: &World, id: TaskId, (start, every): (Timestamp, Option<i64>)) -> BTreeMap<i64, Fate> {
    let minute = |at: Timestamp| (at.millis() - start.millis()) / MINUTE;
    let rows = world.read(|db, txn| db.task_runs.collect_prefix(txn, &id, usize::MAX));
    let mut fates = BTreeMap::new();
    for (OccurrenceId { at, .. }, fire) in &rows {
        if let FireOutcome::Skipped { until, reason, .. } = fire.outcome {
            let fate = match reason {
                SkipReason::Missed => Fate::Missed,
                SkipReason::StillRunning => Fate::TooEarly,
            };
            let mut slot = minute(*at);
            while slot <= minute(until) {
                fates.insert(slot, fate);
                slot += every.unwrap_or(i64::MAX - slot);
            }
        }
    }
    for (OccurrenceId { at, .. }, fire) in &rows {
        let fate = match fire.outcome {
            FireOutcome::Skipped { .. } => continue,
            FireOutcome::Queued => Fate::Waits,
            FireOutcome::Running(_) => Fate::Runs,
            FireOutcome::Done(_) => Fate::Over(Ending::Done),
            FireOutcome::Failed(..) => Fate::Over(Ending::Failed),
            FireOutcome::Gated(..) | FireOutcome::ScriptFailed(..) => Fate::Over(Ending::Gated),
        };
        fates.insert(minute(*at), fate);
    }
    fates
}

/// A task in a world, and its expected state.
struct Pair {
    world: World,
    series: Series,
    id: TaskId,
    start: Timestamp,
    now: i64,
}

impl Pair {
    fn of(series: Series) -> Self {
        let mut world = World::new();
        world.apply("[[agents]]\nfolder = \"a\"\n");
        let start = world.now().wall;
        let id = make(&mut world, &series);
        Self { world, series, id, start, now: 0 }
    }

    fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        let (world, series, now) = (&mut self.world, &mut self.series, self.now);
        let tell = |world: &mut World, command| matches!(world.put(Input::Task(command)), Reply::Task(..));
        match step {
            Step::Pass(minutes) => {
                self.now += minutes;
                // The agent sends heartbeats and makes progress all the time: only the clock matters here.
                world.step_clock(minutes * MINUTE);
                world.sweep();
                series.look(self.now);
            }
            Step::End(ending) => {
                world.settle();
                end_all(world, ending);
                series.end(ending);
            }
            Step::Cancel if !series.is_over() => {
                prop_assert!(tell(world, TaskCommand::Cancel(self.id)));
                series.cancel(now);
            }
            Step::Pause if !series.is_over() => {
                prop_assert!(tell(world, TaskCommand::Pause(self.id)));
                series.paused = true;
            }
            Step::Resume if !series.is_over() => {
                prop_assert!(tell(world, TaskCommand::Resume(self.id)));
                series.paused = false;
                series.look(now);
            }
            // A slot that already has a record is not examined further.
            Step::Run if series.fates.contains_key(&now) => {}
            Step::Run => {
                let may = !series.is_over() && series.runs.is_empty();
                prop_assert_eq!(tell(world, TaskCommand::Run(self.id)), may);
                if may {
                    series.run(now);
                }
            }
            Step::Cancel | Step::Pause | Step::Resume => {
                prop_assert!(!tell(world, TaskCommand::Resume(self.id)), "what is over stays over");
            }
        }
        self.world.settle();
        let Self { world, series, id, start, .. } = self;
        prop_assert_eq!(fates(world, *id, (*start, series.every)), series.fates.clone(), "after {:?}", step);
        let task = world.read(|db, txn| db.tasks.require(txn, id));
        prop_assert_eq!(task.state, series.state(), "after {:?}", step);
        let next = task.next.map(|at| (at.millis() - start.millis()) / MINUTE);
        prop_assert_eq!(next, series.next.filter(|_| !series.cancelled), "after {:?}", step);
        Ok(())
    }
}

proptest! {
    #![proptest_config(cases(64))]

    /// Every slot of a series is used, skipped or waiting, as in the reference.
    #[test]
    fn a_series_is_its_reference(
        first in 1..30_i64, every in prop::option::weighted(0.9, 1..15_i64), missed in a_policy(), queues in any::<bool>(),
        steps in proptest::collection::vec(a_step(), 1..30),
    ) {
        let mut pair = Pair::of(Series::new((first, every), missed, queues));
        for step in steps {
            pair.step(step)?;
        }
    }
}
