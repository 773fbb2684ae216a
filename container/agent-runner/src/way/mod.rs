//! The way out of an agent's own network, which has a loopback interface and nothing else.
//!
//! ```text
//!   getaddrinfo("example.org") ── 127.0.0.1:53 ──> dns.rs: 127.64.0.7
//!   connect(127.64.0.7:443) ─────> forward.rs ── "CONNECT example.org:443" ──> socket of the daemon
//!   a program with a proxy ── 127.0.0.1:3128 ──> forward.rs ── bytes as they are ──> socket of the daemon
//! ```
//!
//! Who may connect where is decided by the daemon.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::PathBuf;

use serde::Deserialize;

use crate::log;
pub(crate) use forward::{Entry, Forwarder, Kind, PATIENCE};

pub(crate) mod connect;
mod copy;
mod dns;
mod forward;
mod names;
mod opening;
#[cfg(test)]
mod tests;

/// Ports on which names are reached in every network of this kind.
const PORTS: [u16; 10] = [22, 80, 443, 465, 587, 993, 1883, 5432, 8080, 8443];
const PROXY_PORT: u16 = 3128;
/// Where programs with a proxy connect.
const PROXY: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, PROXY_PORT);
const RESOLVER_PORT: u16 = 53;

/// What the host says about the way out.
#[derive(Debug, Deserialize)]
struct Asked {
    /// Path of the socket.
    socket: PathBuf,
    /// Further ports that rules name.
    ports: Vec<u16>,
}

/// Opens the ports. Call it while this process may still open low ones.
pub(crate) fn open(asked: &str) -> io::Result<Forwarder> {
    let Asked { socket, ports } = serde_json::from_str(asked)?;
    let within = |what: &str, error: io::Error| io::Error::new(error.kind(), format!("{what}: {error}"));
    let mut ports: Vec<u16> = PORTS.into_iter().chain(ports).filter(|port| ![PROXY_PORT, 0].contains(port)).collect();
    ports.sort_unstable();
    ports.dedup();
    let mut entries = Vec::with_capacity(ports.len().saturating_add(1));
    for port in ports {
        let listener = forward::listen(Ipv4Addr::UNSPECIFIED, port);
        let listener = listener.map_err(|error| within(&format!("port {port}"), error))?;
        entries.push(Entry { listener, kind: Kind::ByName });
    }
    let listener =
        forward::listen(Ipv4Addr::LOCALHOST, PROXY_PORT).map_err(|error| within("the proxy's port", error))?;
    entries.push(Entry { listener, kind: Kind::Proxy });
    let resolver = UdpSocket::bind((Ipv4Addr::LOCALHOST, RESOLVER_PORT)).map_err(|error| within("port 53", error))?;
    resolver.set_nonblocking(true)?;
    Ok(Forwarder { entries, resolver: Some(resolver), socket, patience: PATIENCE })
}

/// Starts the thread that forwards. Call it when this process is confined.
pub(crate) fn start(forwarder: Forwarder) -> io::Result<()> {
    std::thread::Builder::new().name("network".to_owned()).spawn(move || {
        let error = forwarder.run();
        log::note(format_args!("the network is out of reach: {error}"));
    })?;
    Ok(())
}
