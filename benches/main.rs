//! The numbers of Hearth, all in one program. `cargo bench` measures everything and writes `benches/RESULTS.md`;
//! `cargo bench -- NAME` measures and prints what has NAME in its name, `cargo bench -- --quick` everything less often.
//! As a test (`cargo test --benches`) everything runs once, small.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::let_underscore_must_use,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "benchmarks measure time, start the program, read their own settings, print, and fail loudly"
)]

mod at_size;
mod console;
mod egress;
mod gateway;
mod ground;
mod idle;
mod ledger;
mod model;
mod recall;
mod routing;
mod schedules;
mod sessions;
mod sizes;
mod sweep;
mod table;
mod time;
mod tools;
mod wake;
mod ways;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Duration;

use criterion::Criterion;
use ground::asked::Asked;

/// What criterion measures, each beside its floor where it has one.
const COMPARED: &[fn(&mut Criterion)] =
    &[routing::all, at_size::routing, sweep::all, schedules::all, sessions::all, time::all];
/// What is measured otherwise, most of it at the real program.
const PROGRAM: &[fn(&Asked)] = &[
    ledger::all,
    ways::all,
    gateway::all,
    wake::all,
    model::all,
    tools::all,
    idle::all,
    sizes::all,
    at_size::all,
    recall::all,
    console::all,
];

fn main() -> ExitCode {
    let asked = Asked::now();
    if asked.is_everything() {
        table::forget();
    }
    let times = Criterion::default().warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    let mut criterion = times.configure_from_args();
    // What fails must not cost the numbers of the rest.
    let mut whole = true;
    for measure in COMPARED {
        whole &= catch_unwind(AssertUnwindSafe(|| measure(&mut criterion))).is_ok();
    }
    criterion.final_summary();
    for measure in PROGRAM {
        whole &= catch_unwind(AssertUnwindSafe(|| measure(&asked))).is_ok();
    }
    if asked.is_real() {
        table::report(&asked, whole);
    }
    if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
