//! Measures a scenario and its floor in one run.

use std::path::PathBuf;

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput};
use hearth::engine::commit::Submission;

use super::Ground;
use super::asked::{Asked, target};
use super::floor;

/// Measures groups of inputs, and the floor under them, which the writes of each commit are. `inputs` is how many
/// things are done by all of them; of `pairs` of both, one right after the other, comes the ratio of the table.
pub(crate) fn compare(
    c: &mut Criterion,
    name: &str,
    ground: &Ground,
    groups: &[Vec<Submission>],
    (inputs, pairs): (usize, usize),
) {
    let asked = Asked::now();
    if !asked.wants(name) {
        return;
    }
    let trace = floor::trace(ground, groups);
    assert!(trace.iter().all(|commit| !commit.is_empty()), "{name}: every commit writes something");
    let mut group = c.benchmark_group(name);
    group.sampling_mode(SamplingMode::Flat).sample_size(10).throughput(Throughput::Elements(inputs as u64));
    group.bench_function(BenchmarkId::from_parameter("hearth"), |b| {
        b.iter_custom(|times| (0..times).map(|_| floor::run(ground, groups)).sum());
    });
    group.bench_function(BenchmarkId::from_parameter("floor"), |b| {
        b.iter_custom(|times| (0..times).map(|_| floor::floor(ground, &trace)).sum());
    });
    group.finish();
    if asked.is_real() {
        let reached = floor::reached(ground, groups, &trace, asked.size(pairs, 5, 1));
        std::fs::create_dir_all(place()).unwrap();
        std::fs::write(place().join(name), format!("{reached:.2}")).unwrap();
    }
}

/// Where is left what was reached of each floor.
pub(crate) fn place() -> PathBuf {
    target().join("bench-reached")
}
