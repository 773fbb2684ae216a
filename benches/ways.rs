//! Time from a message to its agent's mailbox, and from the answer to the terminal. The real program with the real
//! runner on a real disk.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use hearth::socket::client::Client;
use hearth::socket::protocol::{Request, Response};

use crate::ground::asked::Asked;
use crate::ground::daemon::Daemon;
use crate::ground::part::{Part, middle, ms};
use crate::ground::{Ground, floor, now, place};

/// Name of this part.
pub(crate) const NAME: &str = "ways";

pub(crate) fn all(asked: &Asked) {
    if !asked.wants(NAME) {
        return;
    }
    let Way { commits, there, back } = conversation(asked.size(400, 200, 3));
    let mut part = Part::of_times(NAME, "a message and its answer");
    let compared = ms(middle(commits.clone()) * 3 + Duration::from_millis(2));
    part.add_times("one durable commit of raw LMDB, between the messages of the next two lines", commits);
    part.add_times("message sent → its file lies in the mailbox", there);
    part.add_times("answer file lies in the mailbox → shown in the terminal", back);
    let for_comparison = "for comparison: 3 of these commits + 2 ms".to_owned();
    part.add(&[for_comparison, compared, String::new(), String::new(), String::new()]);
    part.keep(asked);
}

/// What was measured of one conversation.
struct Way {
    /// One row put and committed by raw LMDB.
    commits: Vec<Duration>,
    /// From the message to its file.
    there: Vec<Duration>,
    /// From the file of the answer to the terminal.
    back: Vec<Duration>,
}

/// Talks to an agent. Before every message a bare commit is measured on the same disk: what a sync costs changes from
/// one second to the next, and only what was measured side by side can be compared.
fn conversation(times: usize) -> Way {
    let dir = tempfile::tempdir_in(place()).unwrap();
    let bare = Ground::new("", |_| {});
    let daemon = Daemon::start(dir.path(), &["--runtime", "process"]);
    let mut client = daemon.attached(None);
    say_and_wait(&mut client, 0);
    let (seen, files) = channel();
    let session = dir.path().join("sessions/se1");
    let watching = [session.join("host/in"), session.join("agent/out")];
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let watcher = std::thread::spawn(move || watch(&watching, &seen, &stopped));
    let mut way = Way { commits: Vec::new(), there: Vec::new(), back: Vec::new() };
    for number in 1..=times {
        way.commits.push(floor::one_commit(&bare, number));
        let sent = now();
        let shown = say_and_wait(&mut client, number);
        std::thread::sleep(Duration::from_millis(20));
        let appeared: BTreeMap<usize, Instant> = files.try_iter().collect();
        way.there.extend(appeared.get(&0).map(|at| at.saturating_duration_since(sent)));
        way.back.extend(appeared.get(&1).map(|at| shown.saturating_duration_since(*at)));
    }
    stop.store(true, Ordering::SeqCst);
    watcher.join().unwrap();
    way
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
fn watch(dirs: &[PathBuf], seen: &Sender<(usize, Instant)>, stop: &AtomicBool) {
    let mut known: Vec<HashSet<OsString>> = vec![HashSet::new(); dirs.len()];
    while !stop.load(Ordering::SeqCst) {
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
