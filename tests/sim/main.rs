//! Runs the simulator: `cargo run --release --example simulate -- --seed 7 --days 1000`.
//!
//! A run of many days consists of lives of a hundred days each. Every life ends with an account of everything. A
//! failing run is shrunk and printed as a line for `tests/sim/seeds.txt`, which the ordinary tests run again.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a simulation fails by panicking, and tells people what it found"
)]
#![allow(dead_code, reason = "the world is shared with tests that need more of it")]

mod days;
mod shrink;
#[path = "../it/slots/mod.rs"]
mod slots;
mod tried;
#[path = "../it/world/mod.rs"]
mod world;

use std::process::ExitCode;

use clap::Parser;

use days::attempt::{Failure, PLACE, attempt};
use days::plan::Plan;
use tried::Tried;

/// Days of one life.
const LIFE: u64 = 100;

/// Simulates an installation under everything that can go wrong, and checks after every step that nothing is lost
#[derive(Debug, Parser)]
#[command(name = "simulate")]
struct Arguments {
    /// First seed; every life has the next one.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Simulated days in all.
    #[arg(long, default_value_t = 1_000)]
    days: u64,
    /// Days after which everything is accounted for and a new installation begins
    #[arg(long, default_value_t = LIFE)]
    life: u64,
    /// Maximum number of steps in each life
    #[arg(long)]
    steps: Option<u64>,
    /// `every`: the whole store is checked after every step.
    #[arg(long, value_parser = ["every", "some"], default_value = "some")]
    check: String,
    /// A line of `seeds.txt` to run instead.
    #[arg(long, value_parser = Plan::parse)]
    plan: Option<Plan>,
    /// Report the failure without shrinking the run
    #[arg(long)]
    no_shrink: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // The panic is reported once, with its seed.
    std::panic::set_hook(Box::new(|panic| PLACE.set(panic.location().map(ToString::to_string))));
    let mut all = Tried::default();
    for plan in plans(&arguments) {
        match attempt(&plan) {
            Ok(told) => {
                println!("{plan}: {told}");
                all.add(&plan, &told);
            }
            Err(failure) => {
                tell(&plan, &failure, !arguments.no_shrink);
                return ExitCode::FAILURE;
            }
        }
    }
    println!("all is accounted for: {all}");
    let missing = all.missing();
    if missing.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("and yet this never happened, so that nobody knows whether it would have been: {}", missing.join(", "));
    ExitCode::FAILURE
}

fn plans(arguments: &Arguments) -> Vec<Plan> {
    if let Some(plan) = &arguments.plan {
        return vec![plan.clone()];
    }
    let life = arguments.life.clamp(1, arguments.days.max(1));
    let lives = arguments.days.div_ceil(life);
    let plan = |number| {
        let days = life.min(arguments.days - number * life);
        let check = (arguments.check == "every").then_some(1);
        Plan { steps: arguments.steps, check, ..Plan::new(arguments.seed + number, days) }
    };
    (0..lives).map(plan).collect()
}

fn tell(plan: &Plan, failure: &Failure, shrinks: bool) {
    println!("{plan}: failed in step {}\n{}", failure.step, failure.what);
    let (plan, failure) = if shrinks {
        println!("making it short …");
        shrink::shrink(plan, failure)
    } else {
        (plan.clone(), failure.clone())
    };
    println!("\nthe last inputs:\n{}\n\nstep {}: {}\n", failure.trail, failure.step, failure.what);
    println!("to run it again: cargo run --release --example simulate -- --plan '{plan}'");
    println!("once it is mended, tests/sim/seeds.txt keeps it:\n{plan}");
}
