//! `hearth self-test`: proves on a scratch agent what is promised of confined ones.

use serde::Serialize;

use super::{Done, Failure, out};
use crate::daemon::selftest;

/// The answer of `hearth self-test --json`.
#[derive(Serialize)]
struct Answer {
    /// Whether agents are confined here.
    confined: bool,
    promises: Vec<PromiseJson>,
    /// What confinement cannot do here.
    limits: Vec<String>,
}

#[derive(Serialize)]
struct PromiseJson {
    promise: String,
    held: bool,
    detail: String,
}

/// Runs the test; fails if a promise does not hold.
pub(super) fn self_test(json: bool) -> Done {
    let report = selftest::run()?;
    let broken = report.promises.iter().filter(|promise| !promise.held).count();
    if json {
        let promises = report.promises.into_iter();
        let promises = promises.map(|p| PromiseJson { promise: p.promise, held: p.held, detail: p.detail }).collect();
        out::json(&Answer { confined: report.confined, promises, limits: report.limits })?;
    } else {
        let held = |held| if held { "held" } else { "BROKEN" }.to_owned();
        let row = |p: &selftest::Promise| vec![p.promise.clone(), held(p.held), p.detail.clone()];
        out::table(&["PROMISE", "", "DETAIL"], report.promises.iter().map(row).collect())?;
        report.limits.iter().for_each(|limit| out::note(&format!("note: {limit}")));
    }
    if broken == 0 { Ok(()) } else { Err(Failure::Failed(format!("{broken} promises do not hold"))) }
}
