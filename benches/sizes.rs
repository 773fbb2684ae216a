//! What grows with the store and what does not: a start, a recovery, memory, descriptors and disk, at stores of several
//! sizes; and how large the program is.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hearth::engine::commit::Submission;
use hearth::socket::protocol::{Request, Response};

use crate::ground::asked::{Asked, at_most};
use crate::ground::daemon::{Daemon, memory};
use crate::ground::part::{Part, middle, ms};
use crate::ground::{Ground, idle_sessions, moment, now, threaded};

/// Name of this part.
pub(crate) const NAME: &str = "sizes";
/// Name of the numbers that are no matter of sessions.
pub(crate) const ALONE: &str = "sizes, alone";

/// An agent that keeps what is said in many threads and never answers, and one that answers at once.
const KEEPING: &str = "schema = 1\n[[agents]]\nfolder = \"main\"\n[[agents]]\nfolder = \"echo\"\nprovider = \"echo\"\n\
    [[chats]]\nchannel = \"bench\"\nplatform_id = \"c\"\n\
    [[chats.wirings]]\nagent = \"main\"\nignored = \"accumulate\"\nsession = \"per-thread\"\n";

pub(crate) fn all(asked: &Asked) {
    if !asked.wants(NAME) {
        return;
    }
    alone(asked);
    let mut columns = vec!["with so many sessions".to_owned()];
    columns.extend(asked.sizes().iter().map(ToString::to_string));
    let mut rows = [
        "after an orderly end: start until the socket answers",
        "killed with nothing to do: start until the socket answers",
        "killed with an answer that was not seen yet: start until it is shown",
        "RssAnon + RssShmem, nothing to do",
        "descriptors, nothing to do",
        "store per idle session without a message",
        "store per session with one message of 200 bytes",
    ]
    .map(|what| vec![what.to_owned()]);
    let base = used(&Ground::new(KEEPING, |_| {}));
    for sessions in asked.sizes() {
        let per = |ground: &Ground| format!("{} bytes", (used(ground) - base) / sessions as u64);
        let ground = filled(sessions, 1);
        let (memory, descriptors) = footprint(ground.dir.path(), asked);
        let cells = [
            ms(start(ground.dir.path(), asked, Daemon::stop)),
            ms(start(ground.dir.path(), asked, drop)),
            ms(recovery(ground.dir.path(), asked)),
            format!("{memory} kB"),
            descriptors.to_string(),
            per(&Ground::new(KEEPING, |engine| idle_sessions(engine, sessions as u64))),
            per(&filled(sessions, 1)),
        ];
        rows.iter_mut().zip(cells).for_each(|(row, cell)| row.push(cell));
    }
    let mut part = Part::new(NAME, &columns);
    rows.iter().for_each(|row| part.add(row));
    part.keep(asked);
}

fn alone(asked: &Asked) {
    let mut part = Part::new(ALONE, &["what", "measured"].map(str::to_owned));
    let mut add = |what: &str, measured: String| part.add(&[what.to_owned(), measured]);
    let program = std::fs::metadata(env!("CARGO_BIN_EXE_hearth")).unwrap().len();
    add("the program `hearth`", format!("{:.1} MB", program as f64 / 1e6));
    let empty = Ground::new("", |_| {});
    add("start on an empty store, until the socket answers", ms(start(empty.dir.path(), asked, Daemon::stop)));
    let (sessions, messages) = (at_most(asked.size(2_000, 1_000, 50)), 20);
    let (one, many) = (used(&filled(sessions, 1)), used(&filled(sessions, messages)));
    let each = (many - one) / (sessions * (messages - 1)) as u64;
    add("store per message of 200 bytes, 20 in a session", format!("{each} bytes"));
    part.keep(asked);
}

fn used(ground: &Ground) -> u64 {
    ground.engine().store().usage().unwrap().used
}

/// A store with `sessions` sessions of `messages` messages each, all of it context that waits.
fn filled(sessions: usize, messages: usize) -> Ground {
    Ground::new(KEEPING, |engine| {
        let numbers: Vec<usize> = (0..sessions * messages).collect();
        for group in numbers.chunks(500) {
            let said = |number: &usize| threaded(number % sessions, &format!("m{number}"));
            let group: Vec<Submission> = group.iter().map(said).collect();
            engine.commit(&group, moment(0), 7).unwrap();
        }
    })
}

/// The middle of several starts, each after such an end of another daemon.
fn start(data: &Path, asked: &Asked, end: fn(Daemon)) -> Duration {
    let start = || {
        let daemon = Daemon::start(data, &["--runtime", "process"]);
        drop(daemon.connect());
        daemon
    };
    end(start());
    let one = |_| {
        let begin = now();
        let daemon = start();
        let taken = begin.elapsed();
        end(daemon);
        taken
    };
    middle((0..asked.size(11, 5, 1)).map(one).collect())
}

/// The middle of several recoveries: the daemon is killed while an answer waits to be shown, and started again.
fn recovery(data: &Path, asked: &Asked) -> Duration {
    let until_said = || {
        let daemon = Daemon::start(data, &["--runtime", "process"]);
        (daemon.attached(Some("echo")), daemon)
    };
    let (mut client, daemon) = until_said();
    client.send(&Request::Say { id: "b0".to_owned(), text: "a question".to_owned() }).unwrap();
    while !matches!(client.next().unwrap(), Response::Said { .. }) {}
    drop(daemon);
    let one = |_| {
        let begin = now();
        let (mut client, daemon) = until_said();
        while !matches!(client.next().unwrap(), Response::Said { .. }) {}
        let taken = begin.elapsed();
        drop(daemon);
        taken
    };
    middle((0..asked.size(5, 3, 1)).map(one).collect())
}

/// Memory in kB and open descriptors of a daemon that has nothing to do: the middle of three.
fn footprint(data: &Path, asked: &Asked) -> (u64, usize) {
    let (memory, descriptors) = (0..asked.size(3, 3, 1)).map(|_| footprint_once(data)).unzip();
    (middle(memory), middle(descriptors))
}

fn footprint_once(data: &Path) -> (u64, usize) {
    let daemon = Daemon::start(data, &["--runtime", "process"]);
    drop(daemon.connect());
    std::thread::sleep(Duration::from_millis(1_500));
    let process = PathBuf::from(format!("/proc/{}", daemon.child.id()));
    let descriptors = std::fs::read_dir(process.join("fd")).unwrap().count();
    (memory(daemon.child.id()).unwrap(), descriptors)
}
