//! The results table of all benchmarks: printed, and, after a run of everything, written to `benches/RESULTS.md`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::ground::asked::{Asked, target};
use crate::ground::part::{self, Part};
use crate::ground::{compare, place};
use crate::{at_size, console, gateway, idle, ledger, model, recall, sizes, tools, wake, ways};

/// What criterion measured at one thing.
struct Measured {
    /// Median of one iteration, in nanoseconds.
    nanoseconds: f64,
    /// Things that are done in one iteration.
    inputs: u64,
}

/// Forgets what earlier runs left, so that nothing of them comes into the table.
pub(crate) fn forget() {
    for left in [target().join("criterion"), compare::place(), part::place()] {
        match std::fs::remove_dir_all(&left) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("{}: {error}", left.display()),
            _ => {}
        }
    }
}

/// Prints the table, and writes the one of a run of everything; one that is not `whole` says so. After a run of a part,
/// the file keeps the numbers of the whole run before: beside them, those of another run would not be comparable.
pub(crate) fn report(asked: &Asked, whole: bool) {
    let mut groups: BTreeMap<String, BTreeMap<String, Measured>> = BTreeMap::new();
    for group in entries(&target().join("criterion")) {
        for function in entries(&group) {
            if let Some((name, function, measured)) = read(&function) {
                groups.entry(name).or_default().insert(function, measured);
            }
        }
    }
    let mut table = head(whole);
    table += &render(&groups);
    for name in [
        ledger::NAME,
        sizes::NAME,
        sizes::ALONE,
        at_size::NAME,
        ways::NAME,
        gateway::NAME,
        wake::NAME,
        model::NAME,
        tools::NAME,
        idle::NAME,
        recall::NAME,
        console::NAME,
    ] {
        table.push('\n');
        table += &Part::kept(name).unwrap_or_else(|| format!("Not measured: {name}.\n"));
    }
    print!("{table}");
    if asked.is_everything() {
        std::fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/RESULTS.md"), table).unwrap();
    } else {
        println!("\nbenches/RESULTS.md is as before: only a run of everything writes it");
    }
}

fn head(whole: bool) -> String {
    let mut text = "# Measured\n\n".to_owned();
    if !whole {
        text += "**Not complete: a part of this run failed.**\n\n";
    }
    let how = if Asked::now().size(0, 1, 0) == 1 { " -- --quick" } else { "" };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    // Major and minor: the rest names a build.
    let kernel = release.split(|c: char| !c.is_ascii_digit()).take(2).collect::<Vec<_>>().join(".");
    writeln!(
        text,
        "Written by `cargo bench{how}` on a machine with {processors} processors, Linux {kernel}, stores on {}. The floor is raw \
         LMDB making the same writes with the same commits in the same order of keys, in the same run.\nThe last column \
         is the median of pairs measured one right after the other; a disk that others use changes too fast for the two \
         before it to be compared.\n",
        file_system(&place())
    )
    .unwrap();
    text
}

/// What kind of file system a directory lies on.
fn file_system(place: &Path) -> String {
    let place = place.canonicalize().unwrap();
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let mounted = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let (at, kind) = (PathBuf::from(words.next()?), words.next()?.to_owned());
        place.starts_with(&at).then(|| (at.components().count(), kind))
    };
    mounts.lines().filter_map(mounted).max_by_key(|(depth, _)| *depth).map_or_else(String::new, |(_, kind)| kind)
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

fn render(groups: &BTreeMap<String, BTreeMap<String, Measured>>) -> String {
    let mut text = "| what | Hearth | floor | Hearth / floor |\n|---|---|---|---|\n".to_owned();
    for (group, functions) in groups {
        match (functions.get("hearth"), functions.get("floor")) {
            (Some(hearth), Some(floor)) => {
                let reached = std::fs::read_to_string(compare::place().join(group)).unwrap_or_default();
                writeln!(text, "| {group} | {} | {} | {reached} |", rate(hearth), rate(floor)).unwrap();
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

fn rate(measured: &Measured) -> String {
    format!("{:.0}/s", measured.inputs as f64 * 1e9 / measured.nanoseconds)
}

fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        short if short < 1e6 => format!("{:.1} µs", short / 1e3),
        long => format!("{:.2} ms", long / 1e6),
    }
}
