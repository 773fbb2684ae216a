//! What the way out of agents costs: bytes through a tunnel beside the same bytes through a plain relay, and the memory of
//! tunnels that are idle.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hearth::egress::{Egress, Hooks, Reach, Setup};
use hearth::model::id::SessionId;
use hearth::model::network::{NETWORK_SOCKET, NetworkPolicy, Unlisted};

use crate::ground::asked::Asked;
use crate::ground::part::middle;

/// Bytes of one transfer, and of one write.
const TRANSFER: usize = 64 << 20;
const WRITE: usize = 64 << 10;
/// Tunnels of one incarnation. The limit is a little higher.
const OF_ONE: usize = 250;

/// Rows for the table of the gateway.
pub(crate) fn rows(asked: &Asked) -> [[String; 5]; 2] {
    let directory = tempfile::tempdir().unwrap();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in server.incoming().flatten() {
            std::thread::spawn(move || sink(stream));
        }
    });
    let hooks = Hooks { ask: Box::new(|_| Box::pin(async { Ok(()) })), seen: Box::new(drop) };
    let reach = Reach { placed: Arc::new(move |_| Some(address)), ..Reach::default() };
    let egress = Egress::start(Setup { directory: directory.path().join("network"), reach, hooks }).unwrap();
    let place = opened(&egress, 1);
    let plain = relay(directory.path(), address);
    let times = asked.size(15, 5, 1);
    let (mut direct, mut through): (Vec<Duration>, Vec<Duration>) = (Vec::new(), Vec::new());
    for _ in 0..times {
        direct.push(transfer(UnixStream::connect(&plain).unwrap()));
        through.push(transfer(tunnel(&place)));
    }
    let share = middle(direct).as_secs_f64() / middle(through).as_secs_f64();
    let before = memory();
    let runs = asked.size(4, 4, 1);
    let tunnels: Vec<UnixStream> = (0..runs)
        .flat_map(|run| {
            let place = opened(&egress, 2 + u32::try_from(run).unwrap());
            (0..OF_ONE).map(move |_| tunnel(&place)).collect::<Vec<_>>()
        })
        .collect();
    std::thread::sleep(Duration::from_millis(500));
    let used = memory().saturating_sub(before);
    let count = tunnels.len();
    let empty = String::new;
    [
        [
            "throughput of a tunnel beside that of a plain relay".to_owned(),
            format!("{share:.2}"),
            empty(),
            empty(),
            times.to_string(),
        ],
        [format!("memory of {count} idle tunnels"), format!("{:.1} MB", used as f64 / 1e6), empty(), empty(), empty()],
    ]
}

fn opened(egress: &Egress, incarnation: u32) -> PathBuf {
    let policy = NetworkPolicy::new(Unlisted::Public);
    egress.open(SessionId::new(1), incarnation, policy, None).unwrap().directory
}

fn tunnel(place: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(place.join(NETWORK_SOCKET)).unwrap();
    stream.write_all(b"CONNECT a.example:5432 HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = [0; 26];
    stream.read_exact(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200 "));
    stream
}

/// Takes everything, then says so.
fn sink(mut stream: TcpStream) {
    let mut buffer = vec![0; WRITE];
    let mut left = TRANSFER;
    while left > 0 {
        match stream.read(&mut buffer) {
            Ok(read @ 1..) => left = left.saturating_sub(read),
            Ok(_) | Err(_) => return,
        }
    }
    drop(stream.write_all(b"!"));
}

fn transfer(mut stream: UnixStream) -> Duration {
    let bytes = vec![7; WRITE];
    let began = Instant::now();
    for _ in 0..TRANSFER / WRITE {
        stream.write_all(&bytes).unwrap();
    }
    stream.read_exact(&mut [0; 1]).unwrap();
    began.elapsed()
}

/// A relay that judges nothing, with two threads for each connection.
fn relay(directory: &Path, server: SocketAddr) -> PathBuf {
    let path = directory.join("plain.sock");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let upstream = TcpStream::connect(server).unwrap();
            upstream.set_nodelay(true).unwrap();
            let (from, to) = (stream.try_clone().unwrap(), upstream.try_clone().unwrap());
            std::thread::spawn(move || copy(from, to));
            std::thread::spawn(move || copy(upstream, stream));
        }
    });
    path
}

fn copy(mut from: impl Read, mut to: impl Write) {
    let mut buffer = vec![0; 32 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..read]).is_err() {
            return;
        }
    }
}

/// Bytes of memory that this process uses.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or_default() * 1024
}
