//! The way to the model gateway for an agent in a network of its own: a loopback port, whose connections are copied to
//! the gateway's Unix socket.
//!
//! The thread is started after confinement and has no more rights than the agent, which could connect to the socket
//! itself: what counts there is the placeholder.

use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::path::PathBuf;

use serde::Deserialize;

use crate::log;
use crate::way::{Entry, Forwarder, Kind, PATIENCE};

/// What the host says about the gateway.
#[derive(Debug, Deserialize)]
struct Gateway {
    /// Path of the socket.
    socket: PathBuf,
    /// Variables, and the paths that they lead to.
    addresses: BTreeMap<String, String>,
}

/// Listens, and starts the thread that copies. Returns the variables with the gateway's addresses.
pub(crate) fn start(asked: &str) -> io::Result<BTreeMap<String, String>> {
    let gateway: Gateway = serde_json::from_str(asked)?;
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    let entries = vec![Entry { listener, kind: Kind::Plain }];
    let forwarder = Forwarder { entries, resolver: None, socket: gateway.socket, patience: PATIENCE };
    std::thread::Builder::new().name("gateway".to_owned()).spawn(move || {
        let error = forwarder.run();
        log::note(format_args!("the model gateway is out of reach: {error}"));
    })?;
    let addresses = gateway.addresses.into_iter();
    Ok(addresses.map(|(name, path)| (name, format!("http://127.0.0.1:{port}{path}"))).collect())
}
