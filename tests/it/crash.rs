//! Crashes of the daemon at each of its steps, combined with crashes of the agent at each of its steps.
//!
//! The agent is `tests/agent.py`, which knows only the contract and counts its turns outside of any transaction. Each
//! cell of the table is a separate installation: three messages, one crash of each side, and as many starts as
//! necessary.
//!
//! An ordinary run takes a third of the cells, `HEARTH_ALL_POINTS=1` all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::host::beside::failing;
use crate::host::deaths::POINTS;
use crate::host::disk::copy_store;
use crate::host::raw::{self, Raw};
use crate::host::terminal::{Shown, terminal_event, to_be_shown, watch};
use crate::host::{Host, TERMINAL, skipped, wait_for};

/// Points that a daemon does not reach if the agent is not running at that moment.
const MAYBE: [&str; 2] = ["export:", "exported:"];

/// Steps of the agent, as `tests/agent.py` names them.
const AGENT: [&str; 12] = [
    "none",
    "started",
    "beaten",
    "listed",
    "claimed-first",
    "claimed-all",
    "working",
    "said-now",
    "answer-file",
    "answer-written",
    "ack-temp",
    "ack-written",
];

/// Number of cells at the same time: they wait more than they work.
const THREADS: usize = 10;

#[test]
fn every_death_is_survived() {
    let every = std::env::var_os("HEARTH_ALL_POINTS").is_some();
    let cells = cells(|row, column| every || in_a_third(row, column));
    let all = POINTS.len() * AGENT.len();
    if cells.len() < all {
        let count = cells.len();
        skipped(format_args!("daemon and agent crash in {count} of {all} combinations; HEARTH_ALL_POINTS=1 takes all"));
    }
    let origin = origin();
    let failed = failing(THREADS, &cells, |(point, nth, step)| Cell::new(&origin, point, *nth, step).run());
    let failed: Vec<String> =
        failed.into_iter().map(|(point, nth, step)| format!("host {point}:{nth}, agent {step}")).collect();
    assert!(failed.is_empty(), "{} of {} cells failed:\n{}", failed.len(), cells.len(), failed.join("\n"));
}

/// The chosen cells of the table, by row and column.
fn cells(chosen: impl Fn(usize, usize) -> bool) -> Vec<(&'static str, u32, &'static str)> {
    let mut cells = Vec::new();
    for (row, (point, nth)) in POINTS.iter().enumerate() {
        for (column, step) in AGENT.iter().enumerate() {
            if chosen(row, column) {
                cells.push((*point, *nth, *step));
            }
        }
    }
    cells
}

/// Those in which at most one side crashes, and a quarter of the others, so that each point of one side is combined with
/// some of the other side's.
const fn in_a_third(row: usize, column: usize) -> bool {
    row == 0 || column == 0 || (row + column).is_multiple_of(4)
}

#[test]
fn a_third_of_the_table_has_every_point_of_both_sides() {
    let third = cells(in_a_third);
    for (row, (point, nth)) in POINTS.iter().enumerate().skip(1) {
        let steps = third.iter().filter(|cell| (cell.0, cell.1) == (*point, *nth)).count();
        assert!(steps >= 3, "{row}: {point}:{nth} has {steps}");
    }
    for step in &AGENT[1..] {
        let points = third.iter().filter(|cell| cell.2 == *step).count();
        assert!(points >= 6, "{step} has {points}");
    }
    assert_eq!(cells(|_, _| true).len(), POINTS.len() * AGENT.len());
}

/// The beginning of every cell: the first message was accepted without a daemon.
fn origin() -> Host {
    let host = Host::new();
    host.apply(TERMINAL);
    host.done(&["inject", "--json"], terminal_event("m1").to_string().as_bytes());
    host
}

/// One cell of the table.
struct Cell {
    host: Host,
    point: String,
    step: &'static str,
    host_deaths: usize,
}

impl Cell {
    fn new(origin: &Host, point: &str, nth: u32, step: &'static str) -> Self {
        let mut host = Host::before_the_first_start();
        copy_store(origin, &host);
        let agent = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/agent.py");
        host.env.push(("HEARTH_TEST_RUNNER".to_owned(), agent.to_owned()));
        host.env.push(("HEARTH_TEST_BACKOFF_MS".to_owned(), "10".to_owned()));
        let group = host.data().join("groups/main");
        std::fs::create_dir_all(&group).unwrap();
        let asked = json!({
            "HEARTH_TEST_EFFECTS": "effects",
            "HEARTH_TEST_DIE_AT": if step == "none" { "" } else { step },
            "HEARTH_TEST_DIE_ONCE": "died",
        });
        std::fs::write(group.join("agent-test.json"), asked.to_string()).unwrap();
        Self { host, point: format!("{point}:{nth}"), step, host_deaths: 0 }
    }

    fn run(mut self) {
        let (shown, over) = (Shown::default(), AtomicBool::new(false));
        let crash = ("HEARTH_TEST_CRASH_AT".to_owned(), self.point.clone());
        self.host.env.push(crash);
        self.host.launch();
        self.host.env.retain(|(name, _)| name != "HEARTH_TEST_CRASH_AT");
        let data = self.host.data();
        std::thread::scope(|scope| {
            scope.spawn(|| watch(&data, &shown, &over));
            let told = std::panic::AssertUnwindSafe(|| self.go_on(&shown));
            let done = std::panic::catch_unwind(told);
            over.store(true, Ordering::SeqCst);
            if let Err(panic) = done {
                std::panic::resume_unwind(panic);
            }
        });
        self.judge(&shown.into_inner().unwrap());
    }

    /// Injects the other messages, and starts the daemon again whenever it died, until everything has ended and was
    /// shown.
    fn go_on(&mut self, shown: &Shown) {
        self.inject("m2");
        self.wait_over(shown, &["m1", "m2"]);
        self.inject("m3");
        self.wait_over(shown, &["m1", "m2", "m3"]);
        let ended = self.host.stop();
        assert!(!ended.stderr.contains(" ERROR "), "{ended:#?}");
        if ended.signal == Some(9) {
            self.host_deaths += 1;
        } else {
            assert_eq!(ended.code, Some(0), "{ended:#?}");
        }
        self.host.check();
    }

    fn wait_over(&mut self, shown: &Shown, messages: &[&str]) {
        wait_for("everything to be answered and shown", || {
            self.revive();
            let answered = |shown: &BTreeMap<_, _>| messages.iter().all(|message| answers(shown).contains(message));
            // The store is examined last, because that is much more work.
            (answered(&shown.lock().unwrap()) && self.is_over(shown)).then_some(())
        });
    }

    /// An injection that a dying daemon did not answer is repeated: an event with an id counts once.
    fn inject(&mut self, id: &str) {
        let request = json!({"do": "inject", "event": terminal_event(id).to_string(), "dry_run": false});
        wait_for("an event to be accepted", || {
            self.revive();
            let mut raw = Raw::try_greet(&self.host.data())?;
            raw.say(&request).ok()?;
            let heard = raw.try_hear().ok()??;
            raw::outcome(&heard).filter(|outcome| ["routed", "duplicate"].contains(outcome)).map(drop)
        });
    }

    /// Starts the daemon again if it died.
    fn revive(&mut self) {
        if self.host.daemon().is_some_and(|daemon| daemon.try_end().is_some()) {
            let ended = self.host.ended();
            assert_eq!((ended.signal, self.host_deaths), (Some(9), 0), "the daemon ended: {ended:#?}");
            assert!(!ended.stderr.contains(" ERROR "), "{ended:#?}");
            self.host_deaths += 1;
            self.host.check();
            self.host.launch();
        }
    }

    fn is_over(&self, shown: &Shown) -> bool {
        let ended = |state: &Value| state.get("Completed").or(state.get("Failed")).is_some();
        let states = self.host.states();
        let live: BTreeSet<String> = to_be_shown(&self.host).into_keys().collect();
        let shown: BTreeSet<String> = shown.lock().unwrap().keys().cloned().collect();
        states.iter().all(ended) && live.is_subset(&shown)
    }

    fn judge(&self, shown: &BTreeMap<String, String>) {
        let agent_died = self.host.data().join("groups/main/died").exists();
        assert_eq!(agent_died, self.step != "none", "the agent died as it should");
        let may_live = self.step != "none" && MAYBE.iter().any(|point| self.point.starts_with(point));
        let died = usize::from(!self.point.starts_with("none"));
        assert!(self.host_deaths == died || may_live, "the daemon did not come to its point");
        for state in self.host.states() {
            assert!(state.get("Completed").is_some(), "{state}");
        }
        let stored = to_be_shown(&self.host);
        assert_eq!(&stored, shown, "what is stored and what was shown");
        let mut answered = answers(&stored);
        answered.sort_unstable();
        assert_eq!(answered, ["m1", "m2", "m3"], "every message is answered once: {stored:#?}");
        let author = |row: &Value| row["value"]["author"]["Agent"]["wire_id"].to_string();
        let mut authors: Vec<String> = self.host.rows("outbound").iter().map(author).collect();
        authors.sort_unstable();
        let all = authors.len();
        authors.dedup();
        assert_eq!(authors.len(), all, "a file of the agent is stored once: {authors:?}");
        let turns = self.turns();
        let seqs = self.host.rows("messages").into_iter().map(|row| row["value"]["seq"].as_u64().unwrap());
        for seq in seqs {
            let count = turns.iter().filter(|seqs| seqs.contains(&seq)).count();
            let most = 1 + self.host_deaths + usize::from(agent_died);
            assert!((1..=most).contains(&count), "message {seq} was worked on {count} times: {turns:?}");
        }
        if self.host_deaths == 0 && !DIED_WORKING.contains(&self.step) {
            let worked: Vec<u64> = turns.concat();
            assert_eq!(worked.len(), 3, "nothing is done twice without a death in the middle of it: {turns:?}");
        }
    }

    /// Positions of the messages of each turn that the agent worked on.
    fn turns(&self) -> Vec<Vec<u64>> {
        let effects = std::fs::read_to_string(self.host.data().join("groups/main/effects")).unwrap_or_default();
        let seqs = |line: &str| serde_json::from_str::<Value>(line).unwrap()["seqs"].take();
        effects.lines().map(|line| serde_json::from_value(seqs(line)).unwrap()).collect()
    }
}

/// Messages that the texts answer.
fn answers(texts: &BTreeMap<String, String>) -> Vec<&str> {
    texts.values().filter_map(|text| text.strip_prefix("echo: ")).flat_map(str::lines).collect()
}

/// Steps at which the agent's death loses a turn that it worked on.
const DIED_WORKING: [&str; 5] = ["working", "said-now", "answer-file", "answer-written", "ack-temp"];
