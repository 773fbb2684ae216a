//! An idle agent writes nothing to the disk; its end, or its hanging, is still found.

use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::host::agents::runners;
use crate::host::{Host, wait_for};

fn beat(host: &Host) -> Option<Value> {
    let file = std::fs::read(host.data().join("sessions/se1/agent/heartbeat")).ok()?;
    serde_json::from_slice(&file).ok()
}

/// The heartbeat that announces the agent's rest.
fn resting(host: &Host) -> Value {
    wait_for("the agent to rest", || beat(host).filter(|beat| beat["rest_ms"] == 600_000))
}

/// When the store was last written.
fn written(host: &Host) -> SystemTime {
    std::fs::metadata(host.data().join("store/data.mdb")).unwrap().modified().unwrap()
}

fn signal(host: &Host, signal: Signal) {
    let runners = runners(host);
    assert!(!runners.is_empty());
    for pid in runners {
        kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
    }
}

/// Time without a heartbeat after which a runner counts as dead here: shorter than usual, and longer than two heartbeat
/// intervals.
const SILENT: Duration = Duration::from_secs(12);

fn idle() -> Host {
    let mut host = Host::with_echo();
    host.env.push(("HEARTH_TEST_HEARTBEAT_MS".to_owned(), SILENT.as_millis().to_string()));
    host.start();
    host.inject("m1", "x");
    host.wait_settled();
    resting(&host);
    host
}

fn phases(host: &Host) -> Vec<Value> {
    host.rows("incarnations").into_iter().map(|mut row| row["value"]["phase"].take()).collect()
}

#[test]
fn an_idle_agent_writes_nothing_to_the_disk() {
    let mut host = idle();
    let rest = resting(&host);
    // The daemon may still be busy with work that follows the turn.
    wait_for("the daemon to be idle", || (written(&host).elapsed().unwrap() > Duration::from_secs(5)).then_some(()));
    let before = written(&host);
    // Longer than a runner that does not rest may be silent, since the last write and therefore the last heartbeat.
    let quiet = before.elapsed().unwrap();
    std::thread::sleep((SILENT + Duration::from_secs(6)).saturating_sub(quiet));
    assert_eq!((written(&host), beat(&host)), (before, Some(rest.clone())), "store and heartbeat are unchanged");
    assert_eq!(phases(&host), ["Running"]);
    host.inject("m2", "y");
    assert_eq!(host.wait_said(2).last().unwrap(), "echo: y");
    // The answer can be shown before it.
    wait_for("the heartbeat of a message", || beat(&host).filter(|beat| beat["beat"].as_u64() > rest["beat"].as_u64()));
    std::thread::sleep(SILENT + Duration::from_secs(6));
    assert_eq!(phases(&host), ["Running"], "the rest after the turn counts, too");
    host.stop();
}

#[test]
fn the_end_of_an_idle_agent_is_noticed_without_waiting_for_a_heartbeat() {
    let mut host = idle();
    let began = Instant::now();
    signal(&host, Signal::KILL);
    wait_for("the end to be known", || phases(&host)[0].get("Closed").map(drop));
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    host.stop();
}

#[test]
fn an_idle_agent_that_hangs_is_stopped_some_time_after_a_message_arrives() {
    let mut host = idle();
    signal(&host, Signal::STOP);
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(phases(&host), ["Running"]);
    let began = Instant::now();
    host.inject("m2", "y");
    wait_for("it to be stopped", || (phases(&host)[0] != "Running").then_some(()));
    let taken = began.elapsed();
    assert!((SILENT - Duration::from_secs(1)..SILENT + Duration::from_secs(15)).contains(&taken), "{taken:?}");
    assert_eq!(host.wait_said(2).last().unwrap(), "echo: y", "the next one answers");
    assert_eq!(host.rows("incarnations")[0]["value"]["stopped_for"], "Silent");
    host.stop();
}
