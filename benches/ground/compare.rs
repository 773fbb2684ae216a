//! A scenario beside its floor, as a benchmark.

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput};
use hearth::engine::commit::Submission;

use crate::floor::{self, Write};
use crate::ground::{Ground, reached_place};

/// Measures groups of inputs, and the floor under them, which the writes of each commit are. `inputs` is how many things
/// are done by all of them; `pairs` how often both are run for the figure of the table.
pub(crate) fn compare(
    c: &mut Criterion,
    name: &str,
    ground: &Ground,
    (groups, trace): (&[Vec<Submission>], &[Vec<Write>]),
    (inputs, pairs): (u64, usize),
) {
    let mut group = c.benchmark_group(name);
    group.sampling_mode(SamplingMode::Flat).sample_size(10).throughput(Throughput::Elements(inputs));
    group.bench_function(BenchmarkId::from_parameter("hearth"), |b| {
        b.iter_custom(|times| (0..times).map(|_| floor::run(ground, groups)).sum());
    });
    group.bench_function(BenchmarkId::from_parameter("floor"), |b| {
        b.iter_custom(|times| (0..times).map(|_| floor::floor(ground, trace)).sum());
    });
    group.finish();
    // A name on the command line chooses: what was not measured keeps the figure of its last run.
    let chosen = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let measured = chosen.is_none_or(|chosen| name.contains(&chosen));
    if measured && std::env::args().any(|argument| argument == "--bench") {
        let reached = floor::reached(ground, groups, trace, pairs);
        std::fs::write(reached_place(name), format!("{reached:.2}")).unwrap();
    }
}
