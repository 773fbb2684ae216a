//! Attacks on a network whose connections the daemon judges. The hostile agent gets a way out as every agent has one,
//! and the server behind it records what arrives.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::scratch::Scratch;
use super::{Error, Found, note};
use crate::egress::{Egress, Hooks, Reach as Outside, Setup};
use crate::model::entity::Network;
use crate::model::gateway::Reach;
use crate::model::network::{Endpoint, NETWORK_SOCKET, NetworkPolicy, Unlisted};
use crate::runtime::Spec;
use crate::runtime::process::isolation_check::{self, Attempt, Outcome, Who};
use crate::runtime::single_run::Place;

/// The host that is allowed, and one that is not.
const ALLOWED: &str = "allowed.example";
const OTHER: &str = "other.example";
/// Names below it lead to an address of the internet first, and then elsewhere.
const REBINDING: &str = "rebinding.example";
/// Where its name leads, the first time and then.
const FIRST: Ipv4Addr = Ipv4Addr::new(1, 1, 1, 1);
const THEN: [[u8; 4]; 4] = [[127, 0, 0, 1], [10, 0, 0, 1], [192, 168, 0, 1], [169, 254, 169, 254]];
/// The proxy of the runner.
const PROXY: &str = "127.0.0.1:3128";
/// What the server answers.
const ARRIVED: &str = "HTTP/1.1 200 OK\r\ncontent-length: 7\r\nconnection: close\r\n\r\narrived";
/// How long the server waits for more.
const MORE: Duration = Duration::from_millis(500);

/// What must come of an attempt.
#[derive(Debug, Clone, Copy)]
enum Wanted {
    /// The server answers.
    Arrives,
    /// The daemon refuses.
    Refused,
    /// There is no route.
    Unreachable,
    Fails,
    Succeeds,
    /// Anything; what arrives at the server decides.
    Anything,
}

/// An attempt, and what must come of it.
struct Trial {
    /// The attack; none for what the agent may do.
    name: Option<&'static str>,
    attempt: Attempt,
    wanted: Wanted,
}

/// Tries everything once.
pub(super) fn try_all(scratch: &Scratch<'_>, place: &Place, spec: &Spec, found: &mut Found) -> Result<(), Error> {
    let mut spec = spec.clone();
    spec.settings.network = Network::Listed;
    let Reach::Socket { owner } = scratch.daemon.runtime.reach(&spec.settings, spec.provider) else { return Ok(()) };
    let server = Server::start()?;
    let own = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let here = server.address;
    let placed = move |to: &Endpoint| [ALLOWED, OTHER].contains(&to.host.to_string().as_str()).then_some(here);
    let inside = Server::start()?;
    let reach = Outside {
        listens: Arc::new(move |port| port == own),
        placed: Arc::new(placed),
        ..rebinding(here, inside.address)
    };
    let hooks = Hooks { ask: Box::new(|_| Box::pin(async { Ok(()) })), seen: Box::new(drop) };
    let directory = scratch.paths().run().join("network-test");
    let failed = |error: crate::egress::Error| Error::Trial(error.to_string());
    let egress = Egress::start(Setup { directory, reach, hooks }).map_err(failed)?;
    let allow = [
        ALLOWED.to_owned(),
        format!("{ALLOWED}:80"),
        format!("*.{REBINDING}:80"),
        "169.254.169.254:80".to_owned(),
        format!("this-machine.internal:{own}"),
    ];
    let allow: Result<Vec<_>, _> = allow.iter().map(|rule| rule.parse()).collect();
    let allow = allow.map_err(|error: crate::model::network::BadHost| Error::Trial(error.to_string()))?;
    let policy = NetworkPolicy { allow, ..NetworkPolicy::new(Unlisted::Refuse) };
    let other = egress.open(scratch.other.0, 1, policy.clone(), owner).map_err(failed)?;
    spec.network_access = Some(egress.open(spec.session, spec.incarnation, policy, owner).map_err(failed)?);
    let mut trials = trials(own);
    trials.push(Trial {
        name: Some("net-other-agent"),
        attempt: Attempt::Greet(other.directory.join(NETWORK_SOCKET), "CONNECT".to_owned()),
        wanted: Wanted::Fails,
    });
    let attempts: Vec<Attempt> = trials.iter().map(|trial| trial.attempt.clone()).collect();
    let outcomes = isolation_check::attempt(place, spec, &attempts, Who::Itself).map_err(Error::Trial)?;
    for (trial, outcome) in trials.iter().zip(&outcomes) {
        let detail = outcome.detail.lines().next().unwrap_or("nothing came back").to_owned();
        match (trial.name, trial.held(outcome)) {
            (Some(name), held) => note(found, name, if held { Ok(detail) } else { Err(detail) }),
            (None, true) => {}
            (None, false) => {
                return Err(Error::Trial(format!("the hostile agent does not reach an allowed host: {detail}")));
            }
        }
    }
    if !inside.arrived().is_empty() {
        note(found, "net-rebind", Err("a connection was made to the local network".to_owned()));
    }
    let arrived = server.arrived();
    if arrived.contains(OTHER) {
        for name in ["net-front", "net-smuggle"] {
            note(found, name, Err("the server received what is meant for another host".to_owned()));
        }
    }
    Ok(())
}

/// Names that lead elsewhere when they are looked up again. The address of the internet is at one server, and all others
/// are at the other.
fn rebinding(outside: SocketAddr, inside: SocketAddr) -> Outside {
    let times = Mutex::new(0);
    let named = move |name: &str| {
        name.ends_with(REBINDING).then(|| {
            let mut times = times.lock().unwrap_or_else(PoisonError::into_inner);
            *times += 1;
            let then = THEN.iter().cycle().nth(*times).copied().map(|address| Ipv4Addr::from(address).into());
            if *times == 1 { vec![FIRST.into()] } else { then.into_iter().collect() }
        })
    };
    let routed = move |address: SocketAddr| if address.ip() == IpAddr::V4(FIRST) { outside } else { inside };
    Outside { named: Arc::new(named), routed: Arc::new(routed), ..Outside::default() }
}

impl Trial {
    fn held(&self, outcome: &Outcome) -> bool {
        match self.wanted {
            Wanted::Arrives => outcome.detail.ends_with("arrived"),
            Wanted::Refused => outcome.detail.starts_with("HTTP/1.1 403 ") || (outcome.forbidden && !outcome.done),
            Wanted::Unreachable => !outcome.done && outcome.detail.contains("unreachable"),
            Wanted::Fails => !outcome.done,
            Wanted::Succeeds => outcome.done,
            Wanted::Anything => true,
        }
    }
}

/// The attempts. `own` is a port of the daemon.
fn trials(own: u16) -> Vec<Trial> {
    let trial = |name, attempt, wanted| Trial { name, attempt, wanted };
    let ask = |name, address: &str, text: String, wanted| trial(name, Attempt::Ask(address.to_owned(), text), wanted);
    let get = |host: &str| format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let connect = |to: &str| format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n");
    let refused = |name, to: &str| ask(Some(name), PROXY, connect(to), Wanted::Refused);
    // Without that shell there is nothing to see.
    let udp = "command -v bash > /dev/null || exit 0; bash -c 'echo x > /dev/udp/127.0.0.1/53' || exit 0; \
               ! bash -c 'echo x > /dev/udp/192.0.2.1/53'";
    vec![
        ask(None, &format!("{ALLOWED}:80"), get(ALLOWED), Wanted::Arrives),
        ask(None, PROXY, format!("{}{}", connect(&format!("{ALLOWED}:80")), get(ALLOWED)), Wanted::Arrives),
        ask(Some("net-host"), &format!("{OTHER}:80"), get(OTHER), Wanted::Refused),
        refused("net-host", &format!("{OTHER}:443")),
        trial(Some("net-bypass"), Attempt::Connect("192.0.2.1:443".to_owned()), Wanted::Unreachable),
        trial(Some("net-bypass"), Attempt::Run(["sh", "-c", udp].map(str::to_owned).to_vec()), Wanted::Succeeds),
        ask(Some("net-dns"), "d.a.t.a.x.y.other.example:80", get(OTHER), Wanted::Fails),
        refused("net-metadata", "169.254.169.254:80"),
        refused("net-lan", "192.168.0.1:80"),
        refused("net-lan", "10.0.0.1:443"),
        refused("net-lan", "127.0.0.1:22"),
        refused("net-lan", "[::1]:22"),
        ask(None, &format!("a.{REBINDING}:80"), get(&format!("a.{REBINDING}")), Wanted::Arrives),
        ask(Some("net-rebind"), &format!("a.{REBINDING}:80"), get(&format!("a.{REBINDING}")), Wanted::Refused),
        refused("net-rebind", &format!("a.{REBINDING}:80")),
        refused("net-rebind", &format!("a.{REBINDING}:80")),
        refused("net-rebind", &format!("a.{REBINDING}:80")),
        refused("net-hearth", &format!("this-machine.internal:{own}")),
        ask(
            Some("net-front"),
            PROXY,
            format!("{}{}", connect(&format!("{ALLOWED}:443")), hello(OTHER)),
            Wanted::Anything,
        ),
        ask(Some("net-front"), &format!("{ALLOWED}:443"), hello(OTHER), Wanted::Anything),
        ask(Some("net-smuggle"), &format!("{ALLOWED}:80"), format!("{}{}", get(ALLOWED), get(OTHER)), Wanted::Anything),
    ]
}

/// The first message of a TLS client, as text: no byte of it is above 127.
fn hello(server: &str) -> String {
    let long = |text: &str| format!("\0{}{text}", char::from(u8::try_from(text.len()).unwrap_or_default()));
    let name = format!("\0\0{}", long(&long(&format!("\0{}", long(server)))));
    let body = format!("\u{3}\u{3}{}\0\0\u{2}\u{13}\u{1}\u{1}\0{}", "r".repeat(32), long(&name));
    format!("\u{16}\u{3}\u{1}{}", long(&format!("\u{1}\0{}", long(&body))))
}

/// A server that records what arrives.
struct Server {
    address: SocketAddr,
    arrived: Arc<Mutex<Vec<u8>>>,
}

impl Server {
    fn start() -> Result<Self, Error> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (address, arrived) = (listener.local_addr()?, Arc::<Mutex<Vec<u8>>>::default());
        let record = Arc::clone(&arrived);
        let serve = move |mut stream: TcpStream| {
            let mut buffer = [0; 4096];
            // It answers what came first, and takes what follows.
            let mut answered = false;
            while let Ok(read @ 1..) = stream.read(&mut buffer) {
                let bytes = buffer.get(..read).unwrap_or_default();
                record.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
                if !answered && stream.write_all(ARRIVED.as_bytes()).is_err() {
                    return;
                }
                answered = true;
                if stream.set_read_timeout(Some(MORE)).is_err() {
                    return;
                }
            }
        };
        let accept = move || listener.incoming().flatten().for_each(&serve);
        std::thread::Builder::new().name("server of the self-test".to_owned()).spawn(accept)?;
        Ok(Self { address, arrived })
    }

    fn arrived(&self) -> String {
        String::from_utf8_lossy(&self.arrived.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}
