//! Cases about the life of a bridge.

use std::sync::PoisonError;

use hearth_bridge::{Empty, FromBridge, PROTOCOL, Place, ShutDown, ToBridge};

use super::peer::{Peer, Step};
use super::{Case, Kit, Verdict};

/// Memory that a bridge may use after many messages.
const MEMORY_KIB_MAX: u64 = 64 * 1024;
/// Deliveries before its memory is measured.
const MANY: usize = 500;

pub(super) const CASES: &[Case] = &[
    Case { name: "ready", checks: "it says what it is and can do within 30 s", run: ready },
    Case { name: "protocol", checks: "a daemon with another protocol is told so, and it ends or waits", run: protocol },
    Case { name: "ping", checks: "it answers questions about its connection, also while it is busy", run: ping },
    Case { name: "unknown", checks: "frames and fields that it does not know are ignored", run: unknown },
    Case { name: "typing", checks: "a typing indicator delays nothing, with support or without", run: typing },
    Case { name: "shut-down", checks: "asked to end, it ends within 5 s", run: shut_down },
    Case { name: "daemon-killed", checks: "when the daemon dies, it ends by itself within 5 s", run: daemon_killed },
    Case { name: "memory", checks: "it needs less than 64 MiB after 500 deliveries", run: memory },
];

/// What all others have to be over for.
pub(super) const AT_LAST: &[Case] =
    &[Case { name: "secrets", checks: "its token is in no line of output and in no frame", run: secrets }];

fn ready(kit: &Kit<'_>) -> Result<Verdict, String> {
    let peer = Peer::start(kit)?;
    let program = peer.ready.as_ref().map(|ready| ready.program.trim().is_empty());
    if program == Some(true) { Err("`program` is empty".to_owned()) } else { Ok(Verdict::Passed) }
}

fn protocol(kit: &Kit<'_>) -> Result<Verdict, String> {
    let mut peer = Peer::greet(kit, PROTOCOL + 98)?;
    loop {
        match peer.step(kit.patience)? {
            Step::Frame(FromBridge::Ready { ready }) => {
                return Err(format!("it is ready for protocol {}, which the daemon does not speak", ready.protocol));
            }
            Step::Frame(FromBridge::Failed { .. }) | Step::Gone => return Ok(Verdict::Passed),
            Step::Frame(_) => {}
            Step::Silence => return Err("it says nothing about it".to_owned()),
        }
    }
}

fn pong(peer: &mut Peer<'_>, number: u64) -> Result<(), String> {
    peer.send(&ToBridge::Ping { ping: number })?;
    let answer = |frame: &FromBridge| matches!(frame, FromBridge::Pong { pong, .. } if *pong == number).then_some(());
    let patience = peer.kit.patience;
    peer.until(patience, answer)?.ok_or_else(|| format!("no answer to ping {number} within {patience:?}"))
}

fn ping(kit: &Kit<'_>) -> Result<Verdict, String> {
    let mut peer = Peer::start(kit)?;
    for number in [1, 7, 1 << 40] {
        pong(&mut peer, number)?;
    }
    if kit.chat().is_some() {
        for _ in 0..20 {
            let deliver = peer.delivery(&kit.text("busy"))?;
            peer.send(&ToBridge::Deliver { deliver: Box::new(deliver) })?;
        }
        pong(&mut peer, 2)?;
    }
    Ok(Verdict::Passed)
}

fn unknown(kit: &Kit<'_>) -> Result<Verdict, String> {
    let mut peer = Peer::start(kit)?;
    for line in [
        "{\"news\":{\"from\":\"a later version\"}}\n",
        "{\"taken\":987654,\"report\":null}\n",
        "{\"later\":987655,\"after\":1,\"why\":\"x\"}\n",
        "{\"ping\":3,\"new\":[1,2,3]}\n",
    ] {
        peer.raw(line.as_bytes())?;
    }
    pong(&mut peer, 4)?;
    Ok(Verdict::Passed)
}

fn typing(kit: &Kit<'_>) -> Result<Verdict, String> {
    let mut peer = Peer::start(kit)?;
    let place = Place { platform_id: kit.chat().unwrap_or_else(|| "nowhere".to_owned()), thread_id: None };
    for _ in 0..10 {
        peer.send(&ToBridge::Typing { typing: place.clone() })?;
    }
    pong(&mut peer, 5)?;
    Ok(Verdict::Passed)
}

fn shut_down(kit: &Kit<'_>) -> Result<Verdict, String> {
    let mut peer = Peer::start(kit)?;
    peer.send(&ToBridge::StopTaking { stop_taking: Empty {} })?;
    pong(&mut peer, 6)?;
    peer.send(&ToBridge::ShutDown { shut_down: ShutDown { within: 5 } })?;
    ends(&peer)
}

fn daemon_killed(kit: &Kit<'_>) -> Result<Verdict, String> {
    let peer = Peer::start(kit)?;
    peer.hang_up();
    ends(&peer)
}

fn ends(peer: &Peer<'_>) -> Result<Verdict, String> {
    let patience = peer.kit.patience;
    match peer.end(patience) {
        Some(_) => Ok(Verdict::Passed),
        None => Err(format!("it still runs after {patience:?}")),
    }
}

fn memory(kit: &Kit<'_>) -> Result<Verdict, String> {
    if kit.chat().is_none() {
        return Ok(Verdict::NotTried("it needs a chat"));
    }
    let mut peer = Peer::start(kit)?;
    for _ in 0..MANY {
        let deliver = peer.delivery(&kit.text("many"))?;
        drop(peer.deliver(&deliver)?);
    }
    let Some(used) = peer.pid().and_then(memory_of) else {
        return Ok(Verdict::NotTried("this system does not say how much memory a process uses"));
    };
    if used > MEMORY_KIB_MAX { Err(format!("it uses {used} KiB")) } else { Ok(Verdict::Passed) }
}

/// Memory in KiB of a process and its descendants.
fn memory_of(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let own = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let own = own.and_then(|line| line.split_whitespace().next()).and_then(|count| count.parse::<u64>().ok());
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let children = children.split_whitespace().filter_map(|child| child.parse().ok());
    Some(own.unwrap_or(0) + children.filter_map(memory_of).sum::<u64>())
}

fn secrets(kit: &Kit<'_>) -> Result<Verdict, String> {
    drop(Peer::start(kit)?);
    let output = kit.output.lock().unwrap_or_else(PoisonError::into_inner);
    if output.iter().any(|line| kit.secrets().any(|secret| line.contains(secret))) {
        return Err("its output contains the token".to_owned());
    }
    drop(output);
    if *kit.leaked.lock().unwrap_or_else(PoisonError::into_inner) {
        return Err("a frame contains the token".to_owned());
    }
    Ok(Verdict::Passed)
}
