//! The simulator of `tests/sim` with fixed seeds: the stored runs, and runs with switches. `HEARTH_SEED=3` or
//! `HEARTH_SEED=1-12` gives the runs with switches other seeds. The simulator's own program tries random seeds.

use crate::days::attempt::{Failure, attempt};
use crate::days::plan::Plan;
use crate::world::chance::seeds;

const SEEDS: &str = include_str!("../sim/seeds.txt");

fn parsed(line: &str) -> Plan {
    Plan::parse(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

fn run(plan: &Plan) {
    if let Err(Failure { step, what, place, trail }) = attempt(plan) {
        panic!("{plan}, step {step}: {what} {place:?}\nafter\n{trail}");
    }
}

/// Runs a plan with each of the seeds.
fn run_seeds(usual: &str, line: &str) {
    seeds(usual).for_each(|seed| run(&Plan { seed, ..parsed(line) }));
}

#[test]
fn all_work_completes_by_sweeps_alone() {
    let mix = "say:8,again:2,work:12,die:2,crash:1,thread:1,errand:2,command:1,skew:3,sweep:6";
    run_seeds("1-3", &format!("days=40 steps=100 effects=dropped mix={mix} check=every"));
}

#[test]
fn approvals_are_decided_once_by_those_who_may() {
    let mix = "say:8,again:2,press:6,word:2,command:2,crash:1,sweep:4,quiet:2";
    let switches = "setting=strangers effects=dropped network=flaky check=every";
    run_seeds("1-2", &format!("days=400 steps=150 {switches} mix={mix}"));
}

#[test]
fn twice_is_once_and_a_group_is_its_inputs_in_order() {
    let mix = "say:4,again:1,crowd:4,stray:6,work:8,look:1,die:1,thread:1,task:3,press:1,sweep:2";
    run_seeds("1-3", &format!("days=40 steps=60 inputs=twice mix={mix} check=every"));
}

/// Runs that take long.
mod long {
    use super::{SEEDS, parsed, run, run_seeds};

    /// Side by side: one after the other, they would be the last test by minutes.
    #[test]
    fn every_kept_run_is_accounted_for() {
        let kept = SEEDS.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
        std::thread::scope(|scope| kept.for_each(|line| drop(scope.spawn(|| run(&parsed(line))))));
    }

    const SCHEDULES: &str = "mix=due:16,quiet:8,suspend:3,back:1,ahead:1,crash:2,die:1,task:9";

    #[test]
    fn a_year_of_ten_zones_leaves_no_slot_unaccounted_for() {
        run_seeds("1", &format!("days=366 setting=zones effects=kept {SCHEDULES} check=10"));
    }

    /// As many years as `HEARTH_YEARS` says.
    #[test]
    fn many_years_of_ten_zones_leave_no_slot_unaccounted_for() {
        let years: u32 = std::env::var("HEARTH_YEARS").map_or(3, |years| years.parse().unwrap());
        run_seeds("3", &format!("days={} setting=zones effects=kept {SCHEDULES} check=200", years * 366));
    }
}

#[test]
fn a_plan_is_read_as_it_is_written() {
    for line in [
        "seed=7 days=3 steps=90 without=say,cut idle=3-9,12-14 check=every",
        "seed=1 days=9 mix=say:2,skew:1 effects=dropped setting=strangers network=flaky inputs=twice check=10",
    ] {
        assert_eq!(parsed(line).to_string(), line);
    }
    assert_eq!(parsed("seed=2 days=5 # what it was").to_string(), "seed=2 days=5");
    for bad in [
        "seed",
        "seed=x",
        "without=nothing",
        "idle=3",
        "check=never",
        "colour=red",
        "mix=nothing",
        "mix=say:x",
        "effects=x",
        "setting=x",
        "network=good",
        "inputs=once",
    ] {
        assert!(Plan::parse(bad).is_err(), "{bad}");
    }
}
