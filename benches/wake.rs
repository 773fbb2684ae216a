//! Time until an agent's program receives a message, for a running agent and for one that has to be started. The real
//! program with the real runner on a real disk; the agent reports when the first byte of its prompt arrived.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hearth::socket::client::Client;
use hearth::socket::protocol::{Request, Response};

use crate::ground::asked::Asked;
use crate::ground::daemon::Daemon;
use crate::ground::part::Part;
use crate::ground::{Ground, floor, plain};

/// Name of this part.
pub(crate) const NAME: &str = "wake";

/// Says when the first byte of each line came. A shell, since it is on this machine and in every image.
const AGENT: &str = r#"while IFS= read -r -n 1 first; do now=$EPOCHREALTIME; IFS= read -r rest; echo "{\"type\":\"say\",\"text\":\"$now\"}"; echo '{"type":"done"}'; done"#;
/// Agents that are started: no more than have a place at once, else the time that one more needs to get one would
/// count.
const STARTS: usize = 15;
/// Says when it was started.
const FLOOR: &str = "echo $EPOCHREALTIME";

pub(crate) fn all(asked: &Asked) {
    if !asked.wants(NAME) {
        return;
    }
    let mut part = Part::of_times(NAME, "until an agent's program has a message");
    let Warm { commits, stored, sent } = warm(asked.size(400, 200, 3));
    part.add_times("one durable commit of raw LMDB, between the messages of the next two lines", commits);
    part.add_times("message stored → its prompt at the standard input of a program that runs", stored);
    part.add_times("the same since the message was sent", sent);

    let plain = || spoken(&Command::new("bash").args(["-c", FLOOR]).output().unwrap().stdout);
    let (cold, floor) = cold("process", asked.size(STARTS, STARTS, 2), plain);
    part.add_times("a shell started without Hearth, until it says something", floor);
    part.add_times("message stored → the first words of a program that did not run, in a process", cold);

    match (std::env::var_os("HEARTH_TEST_PODMAN"), std::env::var("HEARTH_TEST_IMAGE")) {
        (Some(socket), Ok(image)) => {
            let socket = PathBuf::from(socket);
            let plain = || spoken(&plain::first_output(&socket, &image, FLOOR));
            let (cold, floor) = self::cold("podman", asked.size(STARTS, STARTS, 1), plain);
            let what =
                "a container of the same image made and started by Podman without Hearth, until it says something";
            part.add_times(what, floor);
            part.add_times("message stored → the first words of a program that did not run, in a container", cold);
        }
        _ => println!("SKIPPED: containers; `.ci/podman.sh cargo bench -- {NAME}` measures them"),
    }
    part.keep(asked);
}

/// What was measured at a program that runs.
struct Warm {
    commits: Vec<Duration>,
    stored: Vec<Duration>,
    sent: Vec<Duration>,
}

/// Before every message a bare commit is measured on the same disk: what a sync costs changes from one second to the
/// next.
fn warm(times: usize) -> Warm {
    let ground = ground(1);
    let bare = Ground::new("", |_| {});
    let daemon = Daemon::start(ground.dir.path(), &["--runtime", "process"]);
    let mut client = daemon.attached(Some("a0"));
    say(&mut client, 0);
    let mut warm = Warm { commits: Vec::new(), stored: Vec::new(), sent: Vec::new() };
    for number in 1..=times {
        warm.commits.push(floor::one_commit(&bare, number));
        let said = say(&mut client, number);
        warm.stored.push(said.begun.saturating_sub(said.stored));
        warm.sent.push(said.begun.saturating_sub(said.sent));
        std::thread::sleep(Duration::from_millis(20));
    }
    warm
}

/// A message to each of so many agents that never ran, and between them what starts without Hearth.
fn cold(runtime: &str, times: usize, plain: impl Fn() -> Duration) -> (Vec<Duration>, Vec<Duration>) {
    let ground = ground(times);
    let daemon = Daemon::start(ground.dir.path(), &["--runtime", runtime]);
    let one = |agent| {
        let begin = wall();
        let floor = plain().saturating_sub(begin);
        let said = say(&mut daemon.attached(Some(&format!("a{agent}"))), 0);
        (said.begun.saturating_sub(said.stored), floor)
    };
    let measured = (0..times).map(one).unzip();
    // Containers would outlive a daemon that is killed.
    daemon.stop();
    measured
}

/// A store with so many agents.
fn ground(agents: usize) -> Ground {
    let mut file = "schema = 1\n".to_owned();
    for agent in 0..agents {
        let head = format!("[[agents]]\nfolder = \"a{agent}\"\nprovider = \"command\"\nnetwork = \"open\"\n");
        writeln!(file, "{head}command = [\"/bin/bash\", \"-c\", '''{AGENT}''']").unwrap();
    }
    Ground::new(&file, |_| {})
}

/// When what happened to a message, by the clock of this machine, since its epoch.
struct Said {
    sent: Duration,
    stored: Duration,
    begun: Duration,
}

fn say(client: &mut Client, number: usize) -> Said {
    let sent = wall();
    client.send(&Request::Say { id: format!("b{number}"), text: format!("number {number}") }).unwrap();
    let (mut stored, mut begun) = (None, None);
    loop {
        match client.next().unwrap() {
            Response::Accepted { .. } => stored = Some(wall()),
            Response::Said { id, text, .. } => {
                begun = Some(spoken(text.as_bytes()));
                client.send(&Request::Shown { id }).unwrap();
            }
            Response::Settled { .. } => {
                let [stored, begun] = [stored, begun].map(|at| at.expect("the message was not answered"));
                return Said { sent, stored, begun };
            }
            other => assert!(!matches!(other, Response::Refused { .. }), "{other:?}"),
        }
    }
}

fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// What a shell calls the time, with or without anything around it.
fn spoken(text: &[u8]) -> Duration {
    let text = String::from_utf8_lossy(text);
    let begin = text.find(|c: char| c.is_ascii_digit() && text.contains('.')).unwrap_or_else(|| panic!("{text:?}"));
    let digits = text[begin..].trim_end_matches(|c: char| !c.is_ascii_digit());
    Duration::from_secs_f64(digits.parse().unwrap_or_else(|error| panic!("{text:?}: {error}")))
}
