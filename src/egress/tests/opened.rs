//! Hosts with bound secrets behind the gate.

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::*;
use crate::gateway::opened::tests::{
    Got, HOST, OURS, SECRET, VALUE, authority, echo, host_config, open, secret, start_host, uses,
};
use crate::model::bound_secret::AgentSecret;

struct World {
    gate: Gate,
    got: std::sync::mpsc::Receiver<Got>,
    access: NetworkAccess,
    /// A server without TLS, which takes everything and says nothing.
    _plain: TcpListener,
}

fn world(policy: NetworkPolicy) -> World {
    world_of(policy, &uses(SECRET))
}

fn world_of(policy: NetworkPolicy, uses: &[AgentSecret]) -> World {
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
    let access = egress.bind(&Binding { session, incarnation, uses, secrets: &secrets }).unwrap();
    gate.egress = egress;
    World { gate, got, access, _plain: plain }
}

impl World {
    /// What a program gets that trusts what agents trust.
    fn asked(&self, head: &str) -> String {
        let stream = self.gate.connect(&format!("{HOST}:443"));
        let mut store = RootCertStore::empty();
        let bundle = self.access.secrets.as_ref().unwrap().bundle.as_ref().unwrap();
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
    assert_eq!(secrets.variables, [("TOKEN".to_owned(), OURS.to_owned())]);
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

/// Variables for the placeholder and the base URL.
fn by_base_url() -> Vec<AgentSecret> {
    let one = |variable: &str, secret: String| AgentSecret { variable: variable.to_owned(), secret };
    vec![one("TOKEN", SECRET.to_owned()), one("API_URL", format!("{SECRET}.url"))]
}

#[test]
fn requests_by_base_url_get_the_value_without_tls_of_the_agent() {
    let world = world_of(policy(Unlisted::Refuse, &[]), &by_base_url());
    let secrets = world.access.secrets.clone().unwrap();
    assert_eq!(secrets.variables[1], ("API_URL".to_owned(), format!("http://127.0.0.1:3128/{SECRET}")));
    assert_eq!(secrets.bundle, None, "no other certificate is trusted");
    // One connection, many requests; the last one is refused and ends it.
    let asked = |path: &str, more: &str| format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:3128\r\n{more}\r\n");
    let auth = format!("Authorization: Bearer {OURS}\r\n");
    let both = [asked(&format!("/{SECRET}/a?b=c"), &auth), asked(&format!("/{SECRET}"), ""), asked("/other/a", &auth)];
    let answer = String::from_utf8(all(world.gate.ask(&both.concat()))).unwrap();
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 2, "{answer}");
    assert!(answer.contains("400 Not Understood") && answer.contains("no secret with a base URL"), "{answer}");
    assert!(!answer.contains(VALUE), "{answer}");
    let (first, second) = (world.got.recv().unwrap(), world.got.recv().unwrap());
    assert!(first.head.starts_with("GET /a?b=c HTTP/1.1\r\n"), "{}", first.head);
    assert_eq!((first.header("authorization"), first.header("host")), (vec![&*format!("Bearer {VALUE}")], vec![HOST]));
    assert!(second.head.starts_with("GET / HTTP/1.1\r\n") && second.header("authorization").is_empty());
    let rows = world.gate.verdicts(2);
    let rule = format!("{HOST}:443").parse().unwrap();
    assert_eq!(rows[0], NetVerdict::Allowed(RuleOrigin::Secret(rule)));
}

#[test]
fn what_does_not_pass_on_opened_connections_does_not_pass_by_base_url() {
    let world = world_of(policy(Unlisted::Refuse, &[]), &by_base_url());
    let auth = format!("Authorization: Bearer {OURS}");
    for (line, headers, says) in [
        (format!("GET /{SECRET}/a"), "Authorization: Bearer foreign".to_owned(), "placeholder"),
        (format!("GET /{SECRET}/a"), format!("{auth}\r\nX-Api-Key: x"), "x-api-key"),
        (format!("GET /{SECRET}/../a"), auth.clone(), "path"),
        (format!("GET /{SECRET}//a"), auth.clone(), "path"),
        (format!("GET /{SECRET}/{VALUE}"), auth.clone(), "the address of this request has the value"),
        ("GET /".to_owned(), auth.clone(), "name of a secret"),
        ("GET /%67ithub/a".to_owned(), auth.clone(), "no secret"),
    ] {
        let answer = String::from_utf8(all(world.gate.ask(&format!("{line} HTTP/1.1\r\n{headers}\r\n\r\n")))).unwrap();
        assert!(answer.starts_with("HTTP/1.1 40") && answer.contains("x-hearth-gate: refused"), "{line}: {answer}");
        assert!(answer.contains(says), "{line}: {answer}");
    }
    // There is no second way to the host, on which other credentials could pass.
    let answer = until(&mut world.gate.ask(&format!("CONNECT {HOST}:443 HTTP/1.1\r\n\r\n")), b"\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    assert!(world.got.try_recv().is_err());
    // Without the rule it is as it was.
    let denied = NetworkPolicy { deny: vec![HOST.parse().unwrap()], ..NetworkPolicy::new(Unlisted::Public) };
    let denied = world_of(denied, &by_base_url());
    let answer = all(denied.gate.ask(&format!("GET /{SECRET}/a HTTP/1.1\r\n{auth}\r\n\r\n")));
    assert!(answer.starts_with(b"HTTP/1.1 403"), "{}", String::from_utf8_lossy(&answer));
    assert!(denied.got.try_recv().is_err());
    let plain = world_of(policy(Unlisted::Refuse, &[]), &uses(SECRET));
    let answer = all(plain.gate.ask(&format!("GET /{SECRET}/a HTTP/1.1\r\n{auth}\r\n\r\n")));
    assert!(answer.starts_with(b"HTTP/1.1 400"), "{}", String::from_utf8_lossy(&answer));
}

#[test]
fn a_base_url_has_one_host() {
    let directory = tempfile::tempdir().unwrap();
    let opener = open(directory.path(), None, Arc::new(|_| Ok(VALUE.into()))).unwrap();
    let mut two = secret(SECRET, "test:value", "Authorization: Bearer {}");
    two.hosts.push("other.example".parse().unwrap());
    let (session, incarnation) = (SessionId::new(4), 1);
    let why = opener.bind(&Binding { session, incarnation, uses: &by_base_url(), secrets: &[two] }).err().unwrap();
    assert!(why.contains("API_URL is the base URL of the secret github, which has several hosts"), "{why}");
}
