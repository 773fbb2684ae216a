//! Tasks in their simplest form, on a grid of minutes: which of their times are used, and which are not.

use std::collections::BTreeMap;

use hearth::model::id::{SessionId, TaskId};
use hearth::model::report::Reply;
use hearth::model::task::{FireOutcome, Missed, NewTask, Overlap, TaskCommand, TaskHome, TaskOrigin};
use hearth::model::{Input, Millis, Timestamp, id::AgentId};
use proptest::prelude::*;

use crate::world::World;
use crate::world::outside::{claim, end};

const MINUTE: i64 = 60_000;

/// What became of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Used,
    Skipped,
    Waits,
}

/// A task and what became of its times, in minutes since the beginning.
#[derive(Debug)]
struct Series {
    next: i64,
    every: i64,
    /// How many that were missed are made up for.
    made_up: usize,
    queues: bool,
    paused: bool,
    runs: bool,
    waits: Option<i64>,
    fates: BTreeMap<i64, Fate>,
}

impl Series {
    /// Somebody looks at the clock. Of the times that passed, the newest ones are wanted, the others were missed; of those
    /// that are wanted while a run goes on, one may wait.
    fn look(&mut self, now: i64) {
        if self.paused || self.next > now {
            return;
        }
        let passed: Vec<i64> = (0..).map(|n| self.next + n * self.every).take_while(|slot| *slot <= now).collect();
        self.next += self.every * i64::try_from(passed.len()).unwrap();
        let (missed, wanted) = passed.split_at(passed.len().saturating_sub(self.made_up));
        self.fates.extend(missed.iter().map(|slot| (*slot, Fate::Skipped)));
        if !self.runs {
            self.fates.extend(wanted.iter().map(|slot| (*slot, Fate::Used)));
            self.runs = true;
            return;
        }
        self.fates.extend(wanted.iter().map(|slot| (*slot, Fate::Skipped)));
        if let (true, Some(newest)) = (self.queues, wanted.last()) {
            self.fates.extend(self.waits.map(|old| (old, Fate::Skipped)));
            self.fates.insert(*newest, Fate::Waits);
            self.waits = Some(*newest);
        }
    }

    /// The run is over; what waited for that runs.
    fn end(&mut self) {
        self.runs = self.waits.is_some();
        self.fates.extend(self.waits.take().map(|slot| (slot, Fate::Used)));
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    /// Minutes awake, then a sweep.
    Pass(i64),
    /// The agent ends all it has to do.
    End,
    Pause,
    Resume,
}

fn a_step() -> impl Strategy<Value = Step> {
    prop_oneof![4 => (1..40_i64).prop_map(Step::Pass), 3 => Just(Step::End), 1 => Just(Step::Pause), 1 => Just(Step::Resume)]
}

fn make(world: &mut World, series: &Series, missed: Missed) -> TaskId {
    let start = world.now().wall;
    let new = NewTask {
        agent: AgentId::new(1),
        home: TaskHome::Maintenance,
        prompt: "Water the plants".to_owned(),
        script: None,
        reply: None,
        first: Some(start.plus(Millis::minutes(u64::try_from(series.next).unwrap())).to_string()),
        recurrence: Some(format!("{}m", series.every)),
        missed,
        overlap: if series.queues { Overlap::Queue } else { Overlap::Refuse },
        origin: TaskOrigin::Operator,
    };
    match world.put(Input::Task(TaskCommand::Add(Box::new(new)))) {
        Reply::Task(id, _) => id,
        other => panic!("{other:?}"),
    }
}

/// The agent ends everything that lies in its mailbox, once.
fn end_all(world: &mut World) {
    let session = SessionId::new(1);
    let Some(number) = world.outside.running.get(&session).copied() else { return };
    let seqs: Vec<u64> =
        world.outside.inbox.get(&session).map(|inbox| inbox.keys().copied().collect()).unwrap_or_default();
    let turns = seqs.iter().flat_map(|seq| [claim(*seq, number), end(*seq, number, vec![])]).collect();
    let input = world.outside.write(session, turns);
    world.put(input);
}

/// Every time that was looked at, and what became of it.
fn fates(world: &World, id: TaskId, (start, every): (Timestamp, i64)) -> BTreeMap<i64, Fate> {
    let minute = |at: Timestamp| (at.millis() - start.millis()) / MINUTE;
    let rows = world.read(|db, txn| db.fires.collect_prefix(txn, &id, usize::MAX));
    let mut fates = BTreeMap::new();
    for ((_, at), fire) in &rows {
        if let FireOutcome::Skipped { until, .. } = fire.outcome {
            let mut slot = minute(*at);
            while slot <= minute(until) {
                fates.insert(slot, Fate::Skipped);
                slot += every;
            }
        }
    }
    for ((_, at), fire) in &rows {
        match fire.outcome {
            FireOutcome::Skipped { .. } => {}
            FireOutcome::Queued => drop(fates.insert(minute(*at), Fate::Waits)),
            _ => drop(fates.insert(minute(*at), Fate::Used)),
        }
    }
    fates
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Every time of a series is used, skipped or waits, as the reference says.
    #[test]
    fn a_series_is_its_reference(
        (first, every) in (1..30_i64, 1..15_i64), made_up in 1..4_usize, queues in any::<bool>(),
        steps in proptest::collection::vec(a_step(), 1..30),
    ) {
        let mut world = World::in_memory();
        world.apply("[[agents]]\nfolder = \"a\"\n");
        let start = world.now().wall;
        let (fates_then, next) = (BTreeMap::new(), first);
        let mut series =
            Series { next, every, made_up, queues, paused: false, runs: false, waits: None, fates: fates_then };
        let missed = if made_up == 1 { Missed::RunOnce } else { Missed::RunAll(u32::try_from(made_up).unwrap()) };
        let id = make(&mut world, &series, missed);
        let mut now = 0;
        for step in steps {
            match step {
                Step::Pass(minutes) => {
                    now += minutes;
                    // The agent beats and gets on with it all the time: only the clock matters here.
                    world.step_clock(minutes * MINUTE);
                    world.sweep();
                    series.look(now);
                }
                Step::End => {
                    world.settle();
                    end_all(&mut world);
                    series.end();
                }
                Step::Pause => {
                    world.put(Input::Task(TaskCommand::Pause(id)));
                    series.paused = true;
                }
                Step::Resume => {
                    world.put(Input::Task(TaskCommand::Resume(id)));
                    world.sweep();
                    series.paused = false;
                    series.look(now);
                }
            }
            world.settle();
            prop_assert_eq!(fates(&world, id, (start, every)), series.fates.clone(), "after {:?}", step);
        }
    }
}
