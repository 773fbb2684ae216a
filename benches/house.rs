//! What a person notices: how long a message takes to its agent and back, how long a start takes, how much memory, how
//! many descriptors and how much disk the daemon needs. The real program with the real runner on a real disk.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::let_underscore_must_use,
    clippy::print_stdout,
    reason = "a benchmark measures time, starts the program, prints, and fails loudly"
)]

#[path = "ground/daemon.rs"]
mod daemon;
#[path = "ground/floor.rs"]
#[expect(dead_code, reason = "only its writes without Hearth are needed")]
mod floor;
mod ground;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use daemon::Daemon;
use ground::{Ground, event, idle_sessions, moment, now};
use hearth::engine::commit::Submission;
use hearth::model::ForeignId;
use hearth::model::input::Input;
use hearth::socket::client::Client;
use hearth::socket::protocol::{Request, Response};

/// One agent that keeps what is said and never answers, a session per thread.
const KEEPING: &str = "schema = 1\n[[agents]]\nfolder = \"main\"\n[[chats]]\nchannel = \"bench\"\nplatform_id = \"c\"\n\
    [[chats.wirings]]\nagent = \"main\"\nignored = \"accumulate\"\nsession = \"per-thread\"\n";

fn main() {
    let real = std::env::args().any(|argument| argument == "--bench");
    let size = |full: usize, tiny: usize| if real { full } else { tiny };
    let mut lines = vec!["| what | measured |".to_owned(), "|---|---|".to_owned()];
    let mut note = |what: &str, measured: String| {
        println!("{what}: {measured}");
        lines.push(format!("| {what} | {measured} |"));
    };
    let Way { commit, there, back } = conversation(size(200, 3));
    note("one durable commit of raw LMDB, between the messages of the next two lines, median", ms(commit));
    note("message sent → its file lies in the mailbox, median", ms(there));
    note("answer file lies in the mailbox → shown in the terminal, median", ms(back));
    note("3 of these commits + 2 ms, for comparison", ms(commit * 3 + Duration::from_millis(2)));

    let empty = Ground::new("", |_| {});
    note("start on an empty store, until the socket answers", ms(start_time(empty.dir.path())));
    let messages = size(100_000, 100);
    let many = filled(1, messages);
    note(&format!("start with {messages} messages"), ms(start_time(many.dir.path())));

    let sessions = size(10_000, 50);
    let (few, full) = (filled(10, 1), filled(sessions, 1));
    let (memory, descriptors) = footprint(full.dir.path());
    note(&format!("RssAnon + RssShmem with {sessions} sessions"), format!("{memory} kB"));
    note(
        &format!("descriptors with 10 and with {sessions} sessions"),
        format!("{} and {descriptors}", footprint(few.dir.path()).1),
    );
    let used = |ground: &Ground| ground.engine().store().usage().unwrap().used;
    let base = used(&Ground::new(KEEPING, |_| {}));
    let per = |make: &dyn Fn() -> Ground| {
        let times = (0..size(3, 1)).map(|_| (used(&make()) - base) / sessions as u64).collect();
        format!("{} bytes", middle(times))
    };
    let idle = || Ground::new(KEEPING, |engine| idle_sessions(engine, sessions as u64));
    note("store per idle session without a message", per(&idle));
    note("store per session with one message of 200 bytes", per(&|| filled(sessions, 1)));
    note("store per session with 20 messages of 200 bytes", per(&|| filled(sessions, 20)));
    if real {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
        std::fs::write(target.join("bench-house.md"), lines.join("\n") + "\n").unwrap();
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

fn middle<T: Ord + Copy>(mut measured: Vec<T>) -> T {
    measured.sort_unstable();
    measured[measured.len() / 2]
}

/// A store with `sessions` sessions of `messages` messages each, all of it context that waits.
fn filled(sessions: usize, messages: usize) -> Ground {
    Ground::new(KEEPING, |engine| {
        let numbers: Vec<usize> = (0..sessions * messages).collect();
        for group in numbers.chunks(500) {
            let group: Vec<Submission> = group.iter().map(|number| said(number % sessions, *number)).collect();
            engine.commit(&group, moment(0), 7).unwrap();
        }
    })
}

fn said(thread: usize, number: usize) -> Submission {
    let mut one = event("bench", "c", &format!("m{number}"), "1");
    if let Input::Inbound(event) = &mut one.input {
        event.source.thread = Some(ForeignId::new("thread", format!("t{thread}")).unwrap());
    }
    one
}

fn start_time(data: &Path) -> Duration {
    middle(
        (0..5)
            .map(|_| {
                let begin = now();
                let daemon = Daemon::start(data, &[]);
                drop(daemon.connect());
                begin.elapsed()
            })
            .collect(),
    )
}

/// Memory in kB and open descriptors of a daemon that has nothing to do: the middle of three.
fn footprint(data: &Path) -> (u64, usize) {
    let (memory, descriptors) = (0..3).map(|_| footprint_once(data)).unzip();
    (middle(memory), middle(descriptors))
}

fn footprint_once(data: &Path) -> (u64, usize) {
    let daemon = Daemon::start(data, &[]);
    drop(daemon.connect());
    std::thread::sleep(Duration::from_millis(1_500));
    let process = PathBuf::from(format!("/proc/{}", daemon.child.id()));
    let status = std::fs::read_to_string(process.join("status")).unwrap();
    let field = |name: &str| -> u64 {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let descriptors = std::fs::read_dir(process.join("fd")).unwrap().count();
    (field("RssAnon:") + field("RssShmem:"), descriptors)
}

/// Medians of one conversation.
struct Way {
    /// One row put and committed by raw LMDB.
    commit: Duration,
    /// From the message to its file.
    there: Duration,
    /// From the file of the answer to the terminal.
    back: Duration,
}

/// Talks to an agent. Before every message a bare commit is measured on the same disk: what a sync costs changes from one
/// second to the next, and only what was measured side by side can be compared.
fn conversation(times: usize) -> Way {
    let dir = tempfile::tempdir_in(ground::place()).unwrap();
    let bare = Ground::new("", |_| {});
    let daemon = Daemon::start(dir.path(), &[]);
    let mut client = daemon.connect();
    assert!(matches!(client.ask(&Request::Attach { agent: None }), Ok(Response::Attached { .. })));
    say_and_wait(&mut client, 0);
    let (seen, files) = channel();
    let session = dir.path().join("sessions/se1");
    let watching = [session.join("host/in"), session.join("agent/out")];
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopped = std::sync::Arc::clone(&stop);
    let watcher = std::thread::spawn(move || watch(&watching, &seen, &stopped));
    let (mut commits, mut there, mut back) = (Vec::new(), Vec::new(), Vec::new());
    for number in 1..=times {
        commits.push(floor::one_commit(&bare, number));
        let sent = now();
        let shown = say_and_wait(&mut client, number);
        std::thread::sleep(Duration::from_millis(20));
        let appeared: BTreeMap<usize, Instant> = files.try_iter().collect();
        there.extend(appeared.get(&0).map(|at| *at - sent));
        back.extend(appeared.get(&1).map(|at| shown.saturating_duration_since(*at)));
    }
    stop.store(true, std::sync::atomic::Ordering::SeqCst);
    watcher.join().unwrap();
    Way { commit: middle(commits), there: middle(there), back: middle(back) }
}

fn say_and_wait(client: &mut Client, number: usize) -> Instant {
    client.send(&Request::Say { id: format!("b{number}"), text: format!("number {number}") }).unwrap();
    let mut shown = None;
    loop {
        match client.next().unwrap() {
            Response::Said { id, .. } => {
                shown = Some(now());
                client.send(&Request::Shown { id }).unwrap();
            }
            Response::Settled { .. } if shown.is_some() => return shown.unwrap(),
            _ => {}
        }
    }
}

/// Notes when the first file of each message appears in each directory.
fn watch(dirs: &[PathBuf], seen: &Sender<(usize, Instant)>, stop: &std::sync::atomic::AtomicBool) {
    let mut known: Vec<std::collections::HashSet<std::ffi::OsString>> = vec![Default::default(); dirs.len()];
    while !stop.load(std::sync::atomic::Ordering::SeqCst) {
        for (number, dir) in dirs.iter().enumerate() {
            for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let json = name.to_string_lossy();
                if json.ends_with(".json") && !json.starts_with('.') && known[number].insert(name.clone()) {
                    seen.send((number, now())).unwrap();
                }
            }
        }
        std::thread::sleep(Duration::from_micros(50));
    }
}
