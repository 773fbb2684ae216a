//! From a judged endpoint to a connection: looks the name up once, keeps the addresses that may be reached, and connects
//! to one of exactly these.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use crate::model::ip_scope::IpScope;
use crate::model::network::{Endpoint, Host, NetRefusal, is_this_machine};

/// How long a name may take to be found.
const LOOKUP: Duration = Duration::from_secs(10);
/// How long one address may take to answer.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a connection waits for the answer of a person. Some programs give up after ten seconds, most wait longer.
const ANSWER_PATIENCE: Duration = Duration::from_secs(15);
/// Addresses that are tried.
const ADDRESSES_MAX: usize = 6;

/// Where an endpoint is, if not where its name leads.
pub type Placed = dyn Fn(&Endpoint) -> Option<SocketAddr> + Send + Sync;

/// Where a name leads, if the system's resolver is not asked.
pub type Named = dyn Fn(&str) -> Option<Vec<IpAddr>> + Send + Sync;
/// Where a checked address is, if not there.
pub type Routed = dyn Fn(SocketAddr) -> SocketAddr + Send + Sync;

/// How the gate reaches the world.
#[derive(Clone)]
pub struct Reach {
    /// Whether the daemon itself listens on a port of this machine.
    pub listens: Arc<dyn Fn(u16) -> bool + Send + Sync>,
    /// How long a connection waits for the answer of a person.
    pub patience: Duration,
    /// For tests: where an endpoint is instead of where its name leads.
    pub placed: Arc<Placed>,
    /// For tests: the addresses of a name. It is asked as often as the system's resolver would be.
    pub named: Arc<Named>,
    /// For tests: where a checked address is.
    pub routed: Arc<Routed>,
}

impl Default for Reach {
    fn default() -> Self {
        Self {
            listens: Arc::new(listens_here),
            patience: ANSWER_PATIENCE,
            placed: Arc::new(|_| None),
            named: Arc::new(|_| None),
            routed: Arc::new(|address| address),
        }
    }
}

impl std::fmt::Debug for Reach {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reach").finish_non_exhaustive()
    }
}

impl Reach {
    /// Connects to an endpoint that is allowed. `private`: whether it may be in the local network.
    pub(super) async fn connect(&self, to: &Endpoint, private: bool) -> Result<TcpStream, NetRefusal> {
        if let Some(address) = (self.placed)(to) {
            return TcpStream::connect(address).await.map_err(|_| NetRefusal::NoAnswer);
        }
        let found = self.addresses(to).await?;
        let this_machine = is_this_machine(&to.host);
        let (mut vetted, mut refused) = (Vec::new(), NetRefusal::NoAddress);
        for address in found.into_iter().take(ADDRESSES_MAX) {
            match self.vet(SocketAddr::new(address, to.port), private, this_machine) {
                Ok(()) => vetted.push(address),
                Err(why) => refused = why,
            }
        }
        if vetted.is_empty() {
            return Err(refused);
        }
        for address in vetted {
            let address = (self.routed)(SocketAddr::new(address, to.port));
            if let Ok(Ok(stream)) = timeout(CONNECT, TcpStream::connect(address)).await {
                return Ok(stream);
            }
        }
        Err(NetRefusal::NoAnswer)
    }

    /// The addresses of a host.
    async fn addresses(&self, to: &Endpoint) -> Result<Vec<IpAddr>, NetRefusal> {
        let name = match &to.host {
            Host::Address(address) => return Ok(vec![*address]),
            Host::Name(_) if is_this_machine(&to.host) => {
                return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
            }
            Host::Name(name) => name.as_str(),
        };
        if let Some(found) = (self.named)(name) {
            return Ok(found);
        }
        match timeout(LOOKUP, lookup_host((name, to.port))).await {
            Ok(Ok(found)) => Ok(found.map(|address| address.ip()).collect()),
            Ok(Err(_)) | Err(_) => Err(NetRefusal::NoAddress),
        }
    }

    fn vet(&self, address: SocketAddr, private: bool, this_machine: bool) -> Result<(), NetRefusal> {
        let is_own = match IpScope::of(address.ip()) {
            IpScope::Never => return Err(NetRefusal::NeverReached),
            IpScope::Loopback if this_machine => true,
            IpScope::Loopback => return Err(NetRefusal::ThisMachine),
            IpScope::Local if !private => return Err(NetRefusal::LocalNetwork),
            // A service of this machine that a firewall hides from others must not be reached from within.
            IpScope::Public | IpScope::Local => match (is_own(address.ip()), private) {
                (true, false) => return Err(NetRefusal::ThisMachine),
                (is_own, _) => is_own,
            },
        };
        if is_own && (self.listens)(address.port()) { Err(NetRefusal::OwnPort) } else { Ok(()) }
    }
}

/// Whether an interface of this machine has the address: only then can it be bound.
fn is_own(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// Whether this process listens on a TCP port.
#[cfg(target_os = "linux")]
fn listens_here(port: u16) -> bool {
    let own: Vec<String> = std::fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let link = std::fs::read_link(entry.path()).ok()?;
            Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
        })
        .collect();
    ["/proc/self/net/tcp", "/proc/self/net/tcp6"].iter().any(|path| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines()
            .any(|line| listener(line).is_some_and(|(at, inode)| at == port && own.iter().any(|own| own == inode)))
    })
}

/// Port and inode of a line of `/proc/net/tcp` about a listening socket.
#[cfg(target_os = "linux")]
fn listener(line: &str) -> Option<(u16, &str)> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let port = words.get(1)?.rsplit_once(':')?.1;
    (*words.get(3)? == "0A").then_some(())?;
    Some((u16::from_str_radix(port, 16).ok()?, words.get(9)?))
}

/// Other systems do not say. The process runtime closes no network there.
#[cfg(not(target_os = "linux"))]
const fn listens_here(_: u16) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn vetted(address: &str, private: bool, this_machine: bool) -> Result<(), NetRefusal> {
        Reach::default().vet(SocketAddr::new(address.parse().unwrap(), 1), private, this_machine)
    }

    #[test]
    fn an_address_is_reached_only_where_the_rule_leads() {
        for (private, this_machine) in [(false, false), (true, false), (true, true)] {
            for address in
                ["169.254.169.254", "::ffff:10.0.0.1", "64:ff9b::a00:1", "fe80::1", "0.0.0.0", "::", "224.0.0.1"]
            {
                assert_eq!(vetted(address, private, this_machine), Err(NetRefusal::NeverReached), "{address}");
            }
            let loopback = if this_machine { Ok(()) } else { Err(NetRefusal::ThisMachine) };
            assert_eq!(vetted("127.0.0.1", private, this_machine), loopback);
            assert_eq!(vetted("::1", private, this_machine), loopback);
            let local = if private { Ok(()) } else { Err(NetRefusal::LocalNetwork) };
            assert_eq!(vetted("10.77.66.55", private, this_machine), local);
            assert_eq!(vetted("1.1.1.1", private, this_machine), Ok(()));
        }
    }

    /// A name server that gives another answer each time changes nothing: a connection goes to an address of the one answer
    /// that was checked, and the next connection is checked anew.
    #[tokio::test]
    async fn a_name_is_looked_up_once_and_only_what_was_checked_is_connected_to() {
        let (outside, inside) = (listening(), listening());
        let (out, inner) = (outside.local_addr().unwrap(), inside.local_addr().unwrap());
        let answers = Mutex::new(vec![
            vec!["1.1.1.1"],
            vec!["127.0.0.1"],
            vec!["10.0.0.1", "169.254.169.254", "::ffff:127.0.0.1"],
            // What may be reached is reached, whatever stands before it.
            vec!["10.0.0.1", "127.0.0.1", "1.1.1.1"],
            vec![],
        ]);
        let named = move |_: &str| {
            let answer = answers.lock().unwrap().remove(0);
            Some(answer.into_iter().map(|address| address.parse().unwrap()).collect())
        };
        let routed = move |address: SocketAddr| if address.ip().to_string() == "1.1.1.1" { out } else { inner };
        let reach = Reach { named: Arc::new(named), routed: Arc::new(routed), ..Reach::default() };
        let to: Endpoint = "rebinding.example:80".parse().unwrap();
        for expected in
            [Ok(()), Err(NetRefusal::ThisMachine), Err(NetRefusal::NeverReached), Ok(()), Err(NetRefusal::NoAddress)]
        {
            let connected = reach.connect(&to, false).await;
            assert_eq!(connected.as_ref().map(drop).map_err(Clone::clone), expected);
            if connected.is_ok() {
                outside.accept().unwrap();
            }
        }
        inside.set_nonblocking(true).unwrap();
        assert!(inside.accept().is_err(), "nothing was connected inside");
    }

    fn listening() -> std::net::TcpListener {
        std::net::TcpListener::bind("127.0.0.1:0").unwrap()
    }

    #[test]
    fn own_ports_are_known() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(listens_here(port));
        let at = SocketAddr::from(([127, 0, 0, 1], port));
        assert_eq!(Reach::default().vet(at, true, true), Err(NetRefusal::OwnPort));
        drop(listener);
        assert!(!listens_here(port));
        assert!(is_own(Ipv4Addr::LOCALHOST.into()) && !is_own(Ipv4Addr::new(1, 1, 1, 1).into()));
    }
}
