//! The simulator of `tests/sim`, for a few days: every run that it ever found something with, some more, and one that
//! nobody has tried yet where `HEARTH_SIMULATE` names a seed.

use crate::days::attempt::{Failure, attempt};
use crate::days::plan::Plan;

/// Days of a new seed: an unoptimised build does them in about twenty seconds.
const NEW_DAYS: u64 = 15;

const SEEDS: &str = include_str!("../sim/seeds.txt");

#[test]
fn every_kept_run_is_accounted_for() {
    for line in SEEDS.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
        is_accounted_for(&Plan::parse(line).unwrap_or_else(|error| panic!("{error}: {line}")));
    }
}

/// `.ci/run` takes the commit for the seed, so that every change brings other days with it.
#[test]
fn days_of_a_new_seed_are_accounted_for() {
    let Ok(seed) = std::env::var("HEARTH_SIMULATE") else {
        eprintln!("skipped: HEARTH_SIMULATE names no seed");
        return;
    };
    let seed = seed.parse().expect("HEARTH_SIMULATE is a number");
    is_accounted_for(&Plan::new(seed, NEW_DAYS));
}

fn is_accounted_for(plan: &Plan) {
    if let Err(failure) = attempt(plan) {
        let Failure { step, what, place, trail } = failure;
        panic!("{plan}, step {step}: {what} {place:?}\nafter\n{trail}");
    }
}

#[test]
fn a_plan_is_read_as_it_is_written() {
    let line = "seed=7 days=3 steps=90 without=say,cut idle=3-9,12-14 check=every";
    assert_eq!(Plan::parse(line).unwrap().to_string(), line);
    assert_eq!(Plan::parse("seed=2 days=5 # what it was").unwrap().to_string(), "seed=2 days=5");
    for bad in ["seed", "seed=x", "without=nothing", "idle=3", "check=never", "colour=red"] {
        assert!(Plan::parse(bad).is_err(), "{bad}");
    }
}
