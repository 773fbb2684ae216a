//! The last benchmark: reads what the others measured and prints one table, which it also writes to `benches/RESULTS.md`.
//!
//! `cargo bench` runs the benchmarks in the order of Cargo.toml, so this one finds everything.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a benchmark prints, and fails loudly"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// What one benchmark measured.
struct Measured {
    /// Median of one iteration, in nanoseconds.
    nanoseconds: f64,
    /// Inputs of one iteration.
    inputs: u64,
}

fn main() {
    // `cargo bench` says so; run as a test there is nothing to show.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let mut groups: BTreeMap<String, BTreeMap<String, Measured>> = BTreeMap::new();
    for group in entries(&target.join("criterion")) {
        for function in entries(&group) {
            if let Some((name, function, measured)) = read(&function) {
                groups.entry(name).or_default().insert(function, measured);
            }
        }
    }
    let mut table = render(&groups, &target);
    for part in ["bench-house.md", "bench-wake.md"] {
        if let Ok(part) = std::fs::read_to_string(target.join(part)) {
            table.push('\n');
            table.push_str(&part);
        }
    }
    print!("{table}");
    std::fs::write(root().join("benches/RESULTS.md"), table).unwrap();
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir).map(|entries| entries.flatten().map(|entry| entry.path()).collect()).unwrap_or_default()
}

fn read(dir: &Path) -> Option<(String, String, Measured)> {
    let json = |name: &str| -> Option<serde_json::Value> {
        serde_json::from_slice(&std::fs::read(dir.join("new").join(name)).ok()?).ok()
    };
    let about = json("benchmark.json")?;
    let nanoseconds = json("estimates.json")?["median"]["point_estimate"].as_f64()?;
    let inputs = about["throughput"]["Elements"].as_u64().unwrap_or(1);
    let function = about["value_str"].as_str().or_else(|| about["function_id"].as_str())?;
    Some((about["group_id"].as_str()?.to_owned(), function.to_owned(), Measured { nanoseconds, inputs }))
}

fn render(groups: &BTreeMap<String, BTreeMap<String, Measured>>, target: &Path) -> String {
    let mut text = String::from(
        "# Measured\n\nWritten by `cargo bench`. The floor is raw LMDB making the same writes with the same commits, in the same run.\n\
         The last column is the median of pairs measured one right after the other; a disk that others use changes too fast for the two before it to be compared.\n\n\
         | what | Hearth | floor | Hearth / floor |\n|---|---|---|---|\n",
    );
    for (group, functions) in groups {
        match (functions.get("hearth"), functions.get("floor")) {
            (Some(hearth), Some(floor)) => {
                let reached = target.join("bench-reached").join(group);
                let reached = std::fs::read_to_string(reached).unwrap_or_default();
                writeln!(text, "| {group} | {} | {} | {reached} |", shown(hearth), shown(floor)).unwrap();
            }
            _ => {
                for (function, measured) in functions {
                    writeln!(text, "| {group}: {function} | {} | | |", time(measured.nanoseconds)).unwrap();
                }
            }
        }
    }
    text
}

fn rate(measured: &Measured) -> f64 {
    measured.inputs as f64 * 1e9 / measured.nanoseconds
}

fn shown(measured: &Measured) -> String {
    format!("{:.0}/s", rate(measured))
}

fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        short if short < 1e6 => format!("{:.1} µs", short / 1e3),
        long => format!("{:.2} ms", long / 1e6),
    }
}
