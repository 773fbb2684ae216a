//! Hosts with bound secrets behind the gate.

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::*;
use crate::gateway::opened::tests::{
    Got, HOST, OURS, SECRET, VALUE, authority, echo, host_config, open, secret, start_host, uses,
};

struct World {
    gate: Gate,
    got: std::sync::mpsc::Receiver<Got>,
    access: NetworkAccess,
    /// A server without TLS, which takes everything and says nothing.
    _plain: TcpListener,
}

fn world(policy: NetworkPolicy) -> World {
    let mut gate = Gate::new(policy.clone());
    let directory = gate._directory.path().to_owned();
    let (issuer, text) = authority();
    let more = directory.join("roots.pem");
    std::fs::write(&more, text).unwrap();
    let (address, got) = start_host(host_config(&issuer, HOST), echo);
    let opener = Arc::new(open(&directory, Some(&more), Arc::new(|_| Ok(VALUE.into()))).unwrap());
    let secrets = [secret(SECRET, "test:value", "Authorization: Bearer {}")];
    let rows = Arc::clone(&gate.seen);
    let hooks = Hooks {
        ask: Box::new(|_| Box::pin(async { Err(NetRefusal::TooManyQuestions) })),
        seen: Box::new(move |seen| lock(&rows).push(seen)),
    };
    let plain = TcpListener::bind("127.0.0.1:0").unwrap();
    let without_tls = plain.local_addr().unwrap();
    let placed = move |to: &Endpoint| Some(if to.port == 80 { without_tls } else { address });
    let reach = Reach { placed: Arc::new(placed), ..Reach::default() };
    let egress =
        Egress::start(Setup { directory: directory.join("bound"), reach, hooks }).unwrap().with_secrets(opener);
    // Session and incarnation of the placeholder.
    let (session, incarnation) = (SessionId::new(4), 1);
    gate.place = egress.open(session, incarnation, policy, None).unwrap().directory;
    let uses = uses(SECRET);
    let access = egress.bind(&Binding { session, incarnation, uses: &uses, secrets: &secrets }).unwrap();
    gate.egress = egress;
    World { gate, got, access, _plain: plain }
}

impl World {
    /// What a program gets that trusts what agents trust.
    fn asked(&self, head: &str) -> String {
        let stream = self.gate.connect(&format!("{HOST}:443"));
        let mut store = RootCertStore::empty();
        let bundle = &self.access.secrets.as_ref().unwrap().bundle;
        store.add_parsable_certificates(CertificateDer::pem_file_iter(bundle).unwrap().flatten());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = Arc::new(builder.with_root_certificates(store).with_no_client_auth());
        let name = ServerName::try_from(HOST).unwrap();
        let mut stream = StreamOwned::new(ClientConnection::new(config, name).unwrap(), stream);
        stream.write_all(format!("{head}\r\n\r\nTRACE / HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
        stream.flush().unwrap();
        String::from_utf8(all(stream)).unwrap()
    }
}

#[test]
fn a_bound_host_is_opened_and_each_request_is_a_row() {
    let world = world(policy(Unlisted::Refuse, &[]));
    let secrets = world.access.secrets.clone().unwrap();
    assert_eq!(secrets.placeholders, [("TOKEN".to_owned(), OURS.to_owned())]);
    assert_eq!(world.access.ports, [443]);
    let answer = world.asked(&format!("GET /a?b=c HTTP/1.1\r\nAuthorization: Bearer {OURS}"));
    assert!(answer.starts_with("HTTP/1.1 200 OK") && !answer.contains(VALUE), "{answer}");
    assert_eq!(world.got.recv().unwrap().header("authorization"), [format!("Bearer {VALUE}")]);
    let leak = world.asked(&format!("GET /a HTTP/1.1\r\nX-Note: {VALUE}"));
    assert!(leak.starts_with("HTTP/1.1 403"), "{leak}");
    let verdicts = world.gate.verdicts(3);
    let rule = format!("{HOST}:443").parse().unwrap();
    assert_eq!(verdicts[0], NetVerdict::Allowed(RuleOrigin::Secret(rule)));
    let leaked = NetRefusal::Leak { secret: SECRET.to_owned(), place: "the header `x-note`".to_owned() };
    assert!(verdicts.contains(&NetVerdict::Refused(leaked)), "{verdicts:?}");
    let first = lock(&world.gate.seen)[0].request.clone().unwrap();
    assert_eq!((first.method.as_str(), first.path.as_str()), ("GET", "/a"));
    assert!(!format!("{:?}", lock(&world.gate.seen)).contains(VALUE));
}

#[test]
fn what_is_denied_stays_denied_and_other_hosts_are_not_opened() {
    let denied = NetworkPolicy { deny: vec![HOST.parse().unwrap()], ..NetworkPolicy::new(Unlisted::Public) };
    let denied = world(denied);
    let answer = until(&mut denied.gate.ask(&format!("CONNECT {HOST}:443 HTTP/1.1\r\n\r\n")), b"\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    let world = world(policy(Unlisted::Refuse, &[]));
    let answer = until(&mut world.gate.ask("CONNECT other.example:443 HTTP/1.1\r\n\r\n"), b"\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    let plain = format!("GET http://{HOST}:443/ HTTP/1.1\r\nHost: {HOST}:443\r\n\r\n");
    let answer = until(&mut world.gate.ask(&plain), b"\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 403"), "only over TLS: {answer}");
    assert!(world.got.try_recv().is_err() && denied.got.try_recv().is_err());
}

#[test]
fn a_known_secret_does_not_leave_in_a_request_without_tls() {
    let world = world(policy(Unlisted::Refuse, &["other.example:80"]));
    let leak = |place: &str| {
        let refusal = NetRefusal::Leak { secret: SECRET.to_owned(), place: place.to_owned() };
        (NetVerdict::Refused(refusal), place.to_owned())
    };
    let head = "Host: other.example\r\n";
    let length = VALUE.len() + 2;
    let body = format!("POST / HTTP/1.1\r\n{head}Content-Length: {length}\r\n\r\na {VALUE}");
    let requests = [
        (body.clone(), leak("the body")),
        (format!("GET /{VALUE} HTTP/1.1\r\n{head}\r\n"), leak("the address")),
        (format!("GET / HTTP/1.1\r\n{head}X-Note: {VALUE}\r\n\r\n"), leak("the header `x-note`")),
    ];
    let mut expected = Vec::new();
    for (request, (verdict, place)) in requests {
        let mut stream = world.gate.connect("other.example:80");
        stream.write_all(request.as_bytes()).unwrap();
        let answer = all(stream);
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with("HTTP/1.1 403") && answer.contains(&place) && !answer.contains(VALUE), "{answer}");
        expected.push(verdict);
    }
    // Through the proxy, with the address in the request.
    for (request, place) in [
        (format!("GET http://other.example/{VALUE} HTTP/1.1\r\n{head}\r\n"), "the address"),
        (body.replace("POST /", "POST http://other.example/"), "the body"),
    ] {
        let answer = all(world.gate.ask(&request));
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with("HTTP/1.1 403") && answer.contains(place), "{answer}");
        expected.push(leak(place).0);
    }
    let verdicts = world.gate.verdicts(expected.len());
    assert!(expected.iter().all(|one| verdicts.contains(one)), "{verdicts:?}");
    assert!(!format!("{:?}", lock(&world.gate.seen)).contains(VALUE));
}
