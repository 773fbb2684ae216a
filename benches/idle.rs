//! Syncs and bytes that an idle agent costs: a real daemon with two agents that have nothing to do.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use hearth::socket::protocol::{Request, Response};

use crate::ground::asked::Asked;
use crate::ground::daemon::{Daemon, family};
use crate::ground::part::Part;
use crate::ground::{Ground, now, place};

/// Name of this part.
pub(crate) const NAME: &str = "idle";

const AGENTS: [&str; 2] = ["one", "two"];
/// Heartbeats that a resting runner writes in an hour.
const BEATS: u64 = 6;

const CONFIGURATION: &str = "schema = 1\n[[agents]]\nfolder = \"one\"\nprovider = \"echo\"\n[[agents]]\nfolder = \"two\"\nprovider = \"echo\"\n";

pub(crate) fn all(asked: &Asked) {
    if !asked.wants(NAME) {
        return;
    }
    let seconds = asked.size(600, 60, 1) as u64;
    let Cost { syncs, bytes } = idle(asked, seconds);
    let columns = ["two idle agents, per agent and hour", "Hearth", "floor", "measured for"].map(str::to_owned);
    let mut part = Part::new(NAME, &columns);
    let per_hour = |total: u64| total * 3_600 / seconds / AGENTS.len() as u64;
    let syncs = syncs.map_or("not counted: no strace".to_owned(), |syncs| per_hour(syncs).to_string());
    let time = format!("{seconds} s");
    part.add(&["fsync, fdatasync and msync".to_owned(), syncs, "0".to_owned(), time.clone()]);
    let floor = format!("{} bytes", least());
    part.add(&["written to the disk".to_owned(), format!("{} bytes", per_hour(bytes)), floor, time]);
    part.keep(asked);
}

/// What was measured, of all processes together.
struct Cost {
    syncs: Option<u64>,
    bytes: u64,
}

fn idle(asked: &Asked, seconds: u64) -> Cost {
    let ground = Ground::new(CONFIGURATION, |_| {});
    let daemon = Daemon::start(ground.dir.path(), &["--runtime", "process"]);
    for agent in AGENTS {
        let mut client = daemon.attached(Some(agent));
        client.send(&Request::Say { id: agent.to_owned(), text: "a question".to_owned() }).unwrap();
        while !matches!(client.next().unwrap(), Response::Said { .. }) {}
    }
    if asked.is_real() {
        until_they_rest(ground.dir.path());
    }
    let processes = family(daemon.child.id());
    let before: u64 = processes.iter().map(|process| written(*process)).sum();
    let syncs = syncs(&processes, seconds);
    let after: u64 = processes.iter().map(|process| written(*process)).sum();
    daemon.stop();
    Cost { syncs, bytes: after - before }
}

/// Waits until both runners rest, and the work that follows a turn is done.
fn until_they_rest(data: &Path) {
    let begin = now();
    let rests = |session: u64| {
        let beat = std::fs::read_to_string(data.join(format!("sessions/se{session}/agent/heartbeat")));
        beat.is_ok_and(|beat| beat.contains("rest_ms"))
    };
    while !(rests(1) && rests(2)) {
        assert!(begin.elapsed() < Duration::from_secs(60), "the agents do not rest");
        std::thread::sleep(Duration::from_millis(100));
    }
    std::thread::sleep(Duration::from_secs(5));
}

/// Bytes that a process has caused to be written to the disk.
fn written(process: u32) -> u64 {
    let io = std::fs::read_to_string(format!("/proc/{process}/io")).unwrap();
    let line = io.lines().find_map(|line| line.strip_prefix("write_bytes: ")).unwrap();
    line.parse().unwrap()
}

/// Counts the syncs of processes for some seconds with strace. None if strace is missing or may not attach.
fn syncs(processes: &[u32], seconds: u64) -> Option<u64> {
    let file = tempfile::NamedTempFile::new_in(place()).unwrap();
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-e", "trace=fsync,fdatasync,msync,sync_file_range,syncfs,sync", "-o"]).arg(file.path());
    for process in processes {
        strace.arg("-p").arg(process.to_string());
    }
    let counting = strace.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    std::thread::sleep(Duration::from_secs(seconds));
    let mut counting = counting.ok()?;
    // strace ends at once if it may not attach.
    let counted = counting.try_wait().unwrap().is_none();
    Command::new("kill").args(["-INT", &counting.id().to_string()]).status().unwrap();
    counting.wait().unwrap();
    counted.then(|| std::fs::read_to_string(file.path()).unwrap().lines().count() as u64)
}

/// The floor: bytes written by replacing a heartbeat file as often as in an hour of rest.
fn least() -> u64 {
    let dir = tempfile::tempdir_in(place()).unwrap();
    let (new, file): (PathBuf, PathBuf) = (dir.path().join("new"), dir.path().join("heartbeat"));
    let before = written(std::process::id());
    for beat in 0..BEATS {
        std::fs::write(&new, format!(r#"{{"v":1,"incarnation":1,"beat":{beat},"rest_ms":600000}}"#)).unwrap();
        std::fs::rename(&new, &file).unwrap();
    }
    written(std::process::id()) - before
}
