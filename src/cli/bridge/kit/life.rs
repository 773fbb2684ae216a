//! Cases about the life of a bridge.

use std::sync::PoisonError;
use std::time::Duration;

use hearth_bridge::{Empty, FromBridge, PROTOCOL, Place, Sent, ShutDown, ToBridge};

use super::peer::{Peer, Step};
use super::steps::once;
use super::{Case, Kit, Stop, Tried};
use crate::clock::Stopwatch;

/// Memory that a bridge may use after many messages.
const MEMORY_KIB_MAX: u64 = 64 * 1024;
/// Deliveries before its memory is measured, and before it is measured again.
const FEW: usize = 20;
const MANY: usize = 100;
/// How much it may grow in between.
const GROWTH_KIB_MAX: u64 = 16 * 1024;
/// How long a dead connection may look alive.
pub(super) const HALF_OPEN: Duration = Duration::from_secs(90);
/// How long a refused token is watched, and the requests that it may make meanwhile.
const WATCHED: Duration = Duration::from_secs(3);
const REQUESTS_MAX: usize = 3;

pub(super) const CASES: &[Case] = &[
    Case::new(41, "typing", "a typing indicator delays nothing, with support or without", typing),
    Case::new(42, "refused-token", "a token that is refused is told in words, with 3 requests at most", refused_token),
    Case::new(43, "half-open", "a connection that says nothing any more is noticed within 90 s", half_open),
    Case::new(44, "shut-down", "asked to end, it ends within 5 s; what it was sending is sent", shut_down),
    Case::new(45, "daemon-killed", "when the daemon dies, it ends by itself within 5 s", daemon_killed),
    Case::new(46, "second", "a second program with the same account is told, where the network tells", second),
    Case::new(48, "memory", "it needs less than 64 MiB, and after 120 deliveries hardly more than after 20", memory),
    Case::new(50, "unknown", "frames and fields that it does not know are ignored", unknown),
    Case::new(50, "garbage", "a line that is no frame ends it or nothing; it works when it is started again", garbage),
    Case::besides("ready", "it says what it is and can do within 30 s", ready),
    Case::besides("protocol", "a daemon with another protocol is told so, and it ends or waits", protocol),
    Case::besides("ping", "it answers questions about its connection, also while it is busy", ping),
];

/// What all others have to be over for.
pub(super) const AT_LAST: &[Case] =
    &[Case::new(47, "secrets", "its token is in no line of output and in no frame", secrets)];

fn ready(kit: &Kit<'_>) -> Tried {
    let peer = Peer::start(kit)?;
    let program = peer.ready.as_ref().map(|ready| ready.program.trim().is_empty());
    if program == Some(true) { Err("`program` is empty".into()) } else { Ok(()) }
}

fn protocol(kit: &Kit<'_>) -> Tried {
    let mut peer = Peer::greet(kit, PROTOCOL + 98)?;
    loop {
        match peer.step(kit.patience)? {
            Step::Frame(FromBridge::Ready { ready }) => {
                return Err(
                    format!("it is ready for protocol {}, which the daemon does not speak", ready.protocol).into()
                );
            }
            Step::Frame(FromBridge::Failed { .. }) | Step::Gone => return Ok(()),
            Step::Frame(_) => {}
            Step::Silence => return Err("it says nothing about it".into()),
        }
    }
}

fn pong(peer: &mut Peer<'_>, number: u64) -> Result<(), String> {
    peer.send(&ToBridge::Ping { ping: number })?;
    let answer = |frame: &FromBridge| matches!(frame, FromBridge::Pong { pong, .. } if *pong == number).then_some(());
    let patience = peer.kit.patience;
    peer.until(patience, answer)?.ok_or_else(|| format!("no answer to ping {number} within {patience:?}"))
}

fn ping(kit: &Kit<'_>) -> Tried {
    let mut peer = Peer::start(kit)?;
    for number in [1, 7, 1 << 40] {
        pong(&mut peer, number)?;
    }
    if kit.chat().is_ok() {
        for _ in 0..20 {
            let deliver = peer.delivery(&kit.text("busy"))?;
            peer.send(&ToBridge::Deliver { deliver: Box::new(deliver) })?;
        }
        pong(&mut peer, 2)?;
    }
    Ok(())
}

fn unknown(kit: &Kit<'_>) -> Tried {
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
    Ok(())
}

fn typing(kit: &Kit<'_>) -> Tried {
    let mut peer = Peer::start(kit)?;
    let place = Place { platform_id: kit.chat().unwrap_or_else(|_| "nowhere".to_owned()), thread_id: None };
    for _ in 0..10 {
        peer.send(&ToBridge::Typing { typing: place.clone() })?;
    }
    pong(&mut peer, 5)?;
    Ok(())
}

fn shut_down(kit: &Kit<'_>) -> Tried {
    let mut peer = Peer::start(kit)?;
    peer.send(&ToBridge::StopTaking { stop_taking: Empty {} })?;
    pong(&mut peer, 6)?;
    let text = kit.text("at the end");
    let under_way = kit.chat().is_ok();
    if under_way {
        // Deliveries go on while nothing is taken any more.
        let deliver = peer.delivery(&text)?;
        peer.delivered(&deliver)?;
    }
    let late = kit.text("too late");
    if kit.network().is_ok_and(|network| network.can("say").is_ok()) {
        kit.network()?.say(&late)?;
        peer.nothing(&late, "a message came after `stopTaking`")?;
    }
    peer.send(&ToBridge::ShutDown { shut_down: ShutDown { within: 5 } })?;
    ends(&peer)?;
    drop(peer);
    if under_way { once(kit, &text) } else { Ok(()) }
}

fn daemon_killed(kit: &Kit<'_>) -> Tried {
    let peer = Peer::start(kit)?;
    peer.hang_up();
    ends(&peer)
}

fn ends(peer: &Peer<'_>) -> Tried {
    let patience = peer.kit.patience;
    match peer.end(patience) {
        Some(_) => Ok(()),
        None => Err(format!("it still runs after {patience:?}").into()),
    }
}

fn memory(kit: &Kit<'_>) -> Tried {
    kit.chat()?;
    let mut peer = Peer::start(kit)?;
    let mut used = Vec::new();
    for count in [FEW, MANY] {
        for _ in 0..count {
            let deliver = peer.delivery(&kit.text("many"))?;
            drop(peer.deliver(&deliver)?);
        }
        used.push(peer.pid().and_then(memory_of));
    }
    let [Some(before), Some(after)] = used.as_slice() else {
        return Err(Stop::NotTried("this system does not say how much memory a process uses".to_owned()));
    };
    let growth = after.saturating_sub(*before);
    if *after > MEMORY_KIB_MAX || growth > GROWTH_KIB_MAX {
        return Err(format!("it uses {after} KiB, {growth} KiB of them for {MANY} deliveries").into());
    }
    Ok(())
}

/// What is wrong with its connection, as it says itself.
fn trouble(peer: &mut Peer<'_>, number: u64) -> Result<Option<String>, String> {
    peer.send(&ToBridge::Ping { ping: number })?;
    let patience = peer.kit.patience;
    let found = peer.until(patience, |frame| match frame {
        FromBridge::Pong { pong, rest } if *pong == number => Some(rest.down.clone()),
        FromBridge::Failed { failed } => Some(Some(failed.why.clone())),
        _ => None,
    })?;
    Ok(found.flatten())
}

fn refused_token(kit: &Kit<'_>) -> Tried {
    if !kit.has_token {
        return Err(Stop::NotTried("it has no token".to_owned()));
    }
    let requests = || kit.network().and_then(|network| network.act(&["requests"])).ok()?.parse::<usize>().ok();
    let before = requests();
    let mut peer = Peer::greet_with(kit, PROTOCOL, |hello| {
        hello.secrets.values_mut().for_each(|secret| *secret = format!("wrong-{secret}"));
    })?;
    let watch = Stopwatch::start();
    let mut why = None;
    while why.is_none() && watch.elapsed() < kit.patience {
        match peer.step(WATCHED)? {
            Step::Frame(FromBridge::Failed { failed }) => why = Some(failed.why),
            Step::Frame(FromBridge::Ready { .. }) | Step::Silence => {
                // A network without a login finds out when something is sent.
                let deliver = peer.delivery(&kit.text("with a wrong token"))?;
                let outcome = peer.deliver(&deliver)?;
                if outcome.result == Sent::Delivered {
                    return Err("it sent with a token that is wrong".into());
                }
                why = trouble(&mut peer, 11)?.or(outcome.why);
            }
            Step::Frame(frame) => peer.take(&frame)?,
            Step::Gone => return Err("it ended without a word about the token".into()),
        }
    }
    if why.is_none_or(|why| why.trim().is_empty()) {
        return Err("it does not say that the token is refused".into());
    }
    std::thread::sleep(WATCHED);
    match (before, requests()) {
        (Some(before), Some(after)) if after - before > REQUESTS_MAX => {
            Err(format!("it made {} requests", after - before).into())
        }
        _ => Ok(()),
    }
}

fn half_open(kit: &Kit<'_>) -> Tried {
    let network = kit.network()?;
    network.can("half")?;
    let mut peer = Peer::start(kit)?;
    network.act(&["half"])?;
    let text = kit.text("after the silence");
    network.say(&text)?;
    // It connects again, and what was written meanwhile arrives.
    let found =
        peer.until(HALF_OPEN, |frame| super::steps::arrived(frame).filter(|message| message.text.contains(&text)))?;
    let message = found.ok_or_else(|| format!("the message did not arrive within {HALF_OPEN:?}"))?;
    Ok(peer.accept(&message)?)
}

fn second(kit: &Kit<'_>) -> Tried {
    let network = kit.network()?;
    network.can("second")?;
    let mut peer = Peer::start(kit)?;
    network.act(&["second"])?;
    let watch = Stopwatch::start();
    while watch.elapsed() < kit.patience {
        if trouble(&mut peer, 8)?.is_some() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Err("it does not say that another program has its account".into())
}

fn garbage(kit: &Kit<'_>) -> Tried {
    for line in ["this is no JSON\n", "[1, 2]\n", &format!("{}\n", "[".repeat(10_000))] {
        let mut peer = Peer::start(kit)?;
        peer.raw(line.as_bytes())?;
        // It may end at once, or go on.
        let Err(why) = pong(&mut peer, 9) else { continue };
        if !why.starts_with("it ended") && peer.end(kit.patience).is_none() {
            return Err(format!("it hangs after {:?}", line.get(..20).unwrap_or(line)).into());
        }
    }
    let mut peer = Peer::start(kit)?;
    Ok(pong(&mut peer, 10)?)
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

fn secrets(kit: &Kit<'_>) -> Tried {
    drop(Peer::start(kit)?);
    let output = kit.output.lock().unwrap_or_else(PoisonError::into_inner);
    if output.iter().any(|line| kit.secrets().any(|secret| line.contains(secret))) {
        return Err("its output contains the token".into());
    }
    drop(output);
    if *kit.leaked.lock().unwrap_or_else(PoisonError::into_inner) {
        return Err("a frame contains the token".into());
    }
    Ok(())
}
