//! The simulator of `tests/sim`, for a few days: every run that it ever found something with, and some more. Days that
//! nobody has tried yet are for the simulator itself.

use crate::days::attempt::{Failure, attempt};
use crate::days::plan::Plan;

const SEEDS: &str = include_str!("../sim/seeds.txt");

#[test]
fn every_kept_run_is_accounted_for() {
    for line in SEEDS.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
        let plan = Plan::parse(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        if let Err(failure) = attempt(&plan) {
            let Failure { step, what, place, trail } = failure;
            panic!("{plan}, step {step}: {what} {place:?}\nafter\n{trail}");
        }
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
