//! Runs test cases in parallel.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::Result;

/// Runs every case, at most `most` at a time. The results have the order of the cases; a panic is an error.
pub(crate) fn side_by_side<C: Sync, T: Send>(most: usize, cases: &[C], run: impl Fn(&C) -> T + Sync) -> Vec<Result<T>> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, Result<T>)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..most.min(cases.len()) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::SeqCst);
                    let Some(case) = cases.get(at) else { return };
                    let result = catch_unwind(AssertUnwindSafe(|| run(case)));
                    results.lock().unwrap_or_else(PoisonError::into_inner).push((at, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap();
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

/// The same; returns the cases that panicked.
pub(crate) fn failing<C: Sync>(most: usize, cases: &[C], run: impl Fn(&C) + Sync) -> Vec<&C> {
    let results = side_by_side(most, cases, run);
    cases.iter().zip(results).filter(|(_, result)| result.is_err()).map(|(case, _)| case).collect()
}
