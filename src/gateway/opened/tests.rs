//! Opened connections with real programs on one side, and a TLS server as the bound host on the other.

use std::io::{BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use tokio::runtime::Runtime;

use super::*;
use crate::gateway::opened::roots::pem;
use crate::model::bound_secret::{AgentSecret, BoundSecret};
use crate::model::id::SessionId;

mod leaks;
mod programs;
mod sockets;

pub(crate) const HOST: &str = "api.bound.example";
pub(crate) const SECRET: &str = "github";
pub(crate) const VALUE: &str = "ghp_theRealToken42";
const OTHER: &str = "sk-ant-of-the-model-1";
pub(crate) const OURS: &str = "hearth-github-ce15ea47d32aab97d97e7f9a4fc32419";
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) type Script = fn(&Got) -> Vec<u8>;

/// A request as the host got it.
#[derive(Debug, Clone)]
pub(crate) struct Got {
    pub(crate) head: String,
    body: Vec<u8>,
}

impl Got {
    pub(crate) fn header(&self, name: &str) -> Vec<&str> {
        let start = format!("{name}: ");
        let fits = |line: &&str| line.to_ascii_lowercase().starts_with(&start);
        self.head.lines().filter(fits).map(|line| &line[start.len()..]).collect()
    }

    fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap()
    }
}

/// The bound host, the gate in front of it, and what both reported.
struct World {
    runtime: Runtime,
    directory: tempfile::TempDir,
    gate: SocketAddr,
    address: SocketAddr,
    opener: Arc<Opener>,
    got: Receiver<Got>,
    seen: Arc<Mutex<Vec<RequestSeen>>>,
    value: Arc<Mutex<String>>,
}

fn ok(headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

pub(crate) fn authority() -> (Issuer<'static, KeyPair>, String) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let text = pem(params.self_signed(&key).unwrap().der());
    (Issuer::new(params, key), text)
}

pub(crate) fn host_config(issuer: &Issuer<'static, KeyPair>, name: &str) -> Arc<ServerConfig> {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, issuer).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    Arc::new(builder.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key).unwrap())
}

/// Reads a request with its body as it was sent.
fn read_request(stream: &mut impl std::io::Read) -> Option<Got> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        bytes.push(byte[0]);
    }
    let mut got = Got { head: String::from_utf8(bytes).unwrap(), body: Vec::new() };
    if let Some(length) = got.header("content-length").first().map(|text| text.parse().unwrap()) {
        got.body = vec![0; length];
        stream.read_exact(&mut got.body).ok()?;
    } else if !got.header("transfer-encoding").is_empty() {
        while !got.body.ends_with(b"0\r\n\r\n") {
            stream.read_exact(&mut byte).ok()?;
            got.body.push(byte[0]);
        }
    }
    Some(got)
}

pub(crate) fn start_host(config: Arc<ServerConfig>, script: Script) -> (SocketAddr, Receiver<Got>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (told, got) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (told, config) = (told.clone(), Arc::clone(&config));
            std::thread::spawn(move || {
                let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
                while let Some(got) = read_request(&mut stream) {
                    told.send(got.clone()).ok();
                    let answer = script(&got);
                    if stream.write_all(&answer).is_err() || answer.is_empty() || !answer.starts_with(b"HTTP") {
                        break;
                    }
                    stream.flush().ok();
                    if got.path().contains("until-end") {
                        stream.conn.send_close_notify();
                        stream.flush().ok();
                        break;
                    }
                }
            });
        }
    });
    (address, got)
}

/// An opener with a known key.
pub(crate) fn open(directory: &Path, more: Option<&Path>, resolve: Resolve) -> Result<Opener, AuthorityError> {
    let key = directory.join("gateway.key");
    std::fs::write(&key, [0; 32]).unwrap();
    Opener::open(OpenerSetup { directory: &directory.join("authority"), key: &key, more, resolve })
}

pub(crate) fn secret(name: &str, reference: &str, header: &str) -> BoundSecret {
    BoundSecret {
        name: name.to_owned(),
        value: reference.to_owned(),
        hosts: vec![HOST.parse().unwrap()],
        header: header.parse().unwrap(),
        requests: Vec::new(),
    }
}

pub(crate) fn uses(secret: &str) -> Vec<AgentSecret> {
    vec![AgentSecret { variable: "TOKEN".to_owned(), secret: secret.to_owned() }]
}

fn binding<'a>(uses: &'a [AgentSecret], secrets: &'a [BoundSecret]) -> Binding<'a> {
    Binding { session: SessionId::new(4), incarnation: 1, uses, secrets }
}

impl World {
    fn new(script: Script) -> Self {
        Self::with(script, &[("github", "Authorization: Bearer {}", &[])])
    }

    fn with(script: Script, secrets: &[(&str, &str, &[&str])]) -> Self {
        Self::of_host(|config| start_host(config, script), secrets)
    }

    fn of_host(
        start: impl FnOnce(Arc<ServerConfig>) -> (SocketAddr, Receiver<Got>),
        secrets: &[(&str, &str, &[&str])],
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (issuer, text) = authority();
        let more = directory.path().join("roots.pem");
        std::fs::write(&more, text).unwrap();
        let (address, got) = start(host_config(&issuer, HOST));
        let value = Arc::new(Mutex::new(VALUE.to_owned()));
        let resolve: Resolve = {
            let value = Arc::clone(&value);
            Arc::new(move |reference: &str| match reference {
                "test:value" => Ok(value.lock().unwrap().clone().into_bytes()),
                _ => Err("no such value".to_owned()),
            })
        };
        let opener = Arc::new(open(directory.path(), Some(&more), resolve).unwrap());
        opener.known().add("ANTHROPIC_API_KEY", OTHER.as_bytes());
        let secrets: Vec<BoundSecret> = secrets
            .iter()
            .map(|(name, header, requests)| BoundSecret {
                requests: requests.iter().map(|text| text.parse().unwrap()).collect(),
                ..secret(name, "test:value", header)
            })
            .collect();
        let (run, access) = opener.bind(&binding(&uses(SECRET), &secrets)).unwrap();
        assert_eq!(access.variables, [("TOKEN".to_owned(), OURS.to_owned())]);
        assert_eq!(access.values.all(), [(SECRET.to_owned(), VALUE.into())]);
        let host = Arc::clone(run.host(&HOST.parse().unwrap()).unwrap());
        assert!(run.host(&"other.example".parse().unwrap()).is_none());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let runtime = Runtime::new().unwrap();
        let gate = start_gate(&runtime, &opener, host, address, &seen);
        Self { runtime, directory, gate, address, opener, got, seen, value }
    }

    fn client(&self, name: &str) -> StreamOwned<ClientConnection, TcpStream> {
        let mut store = RootCertStore::empty();
        store
            .add_parsable_certificates(CertificateDer::pem_file_iter(self.opener.bundle().unwrap()).unwrap().flatten());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = Arc::new(builder.with_root_certificates(store).with_no_client_auth());
        let stream = TcpStream::connect(self.gate).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        StreamOwned::new(ClientConnection::new(config, name).unwrap(), stream)
    }

    /// Sends bytes and reads all that comes.
    fn raw(&self, request: &str) -> String {
        let mut client = self.client(HOST);
        client.write_all(request.as_bytes()).unwrap();
        client.flush().unwrap();
        let mut answer = Vec::new();
        let mut buffer = BufReader::new(client);
        // A broken connection has said what it had to say.
        drop(buffer.read_to_end(&mut answer));
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// A request that ends its connection, because it is followed by one that is refused.
    fn ask(&self, line: &str, headers: &[&str], body: &str) -> String {
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        let text = self.raw(&format!("{line} HTTP/1.1\r\nHost: {HOST}\r\n{headers}\r\n{body}TRACE / HTTP/1.1\r\n\r\n"));
        text.split("HTTP/1.1 400 Bad Request").next().unwrap_or_default().to_owned()
    }

    fn got(&self) -> Got {
        self.got.recv_timeout(PATIENCE).unwrap()
    }

    fn nothing_arrived(&self) -> bool {
        self.got.try_recv().is_err()
    }

    fn seen(&self) -> MutexGuard<'_, Vec<RequestSeen>> {
        self.seen.lock().unwrap()
    }

    #[expect(clippy::disallowed_methods, reason = "a program that agents use")]
    fn curl(&self, arguments: &[&str]) -> Output {
        let to = format!("{HOST}:443:{}", self.gate);
        let mut command = Command::new("curl");
        command.args(["-sS", "--max-time", "20", "--connect-to", &to, "--cacert"]).arg(self.opener.bundle().unwrap());
        command.args(arguments).output().unwrap()
    }
}

fn start_gate(
    runtime: &Runtime,
    opener: &Arc<Opener>,
    host: Arc<OpenedHost>,
    address: SocketAddr,
    seen: &Arc<Mutex<Vec<RequestSeen>>>,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let gate = listener.local_addr().unwrap();
    let (opener, seen) = (Arc::clone(opener), Arc::clone(seen));
    runtime.spawn(async move {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        while let Ok((stream, _)) = listener.accept().await {
            let (opener, host, seen) = (Arc::clone(&opener), Arc::clone(&host), Arc::clone(&seen));
            let dial: Dial = Arc::new(move || {
                Box::pin(
                    async move { tokio::net::TcpStream::connect(address).await.map_err(|error| error.to_string()) },
                )
            });
            let seen: Seen = Arc::new(move |request| seen.lock().unwrap().push(request));
            tokio::spawn(async move { opener.serve(stream, &host, dial, seen).await });
        }
    });
    gate
}

/// Answers with what it got, in the body and in a header, and as its path says.
pub(crate) fn echo(got: &Got) -> Vec<u8> {
    let credential = got.header("authorization").first().copied().unwrap_or_default().to_owned();
    let text = format!("{}{}", got.head, String::from_utf8_lossy(&got.body));
    match got.path() {
        path if path.starts_with("/redirect") => {
            let to = format!("Location: https://evil.example/?t={credential}\r\nContent-Length: 0\r\n");
            format!("HTTP/1.1 302 Found\r\n{to}\r\n").into_bytes()
        }
        path if path.starts_with("/gzip") => ok("Content-Encoding: gzip\r\n", "x"),
        path if path.starts_with("/until-end") => format!("HTTP/1.1 200 OK\r\n\r\n{text}").into_bytes(),
        path if path.starts_with("/chunks") => {
            let chunks: String = text
                .as_bytes()
                .chunks(7)
                .map(|chunk| format!("{:x}\r\n{}\r\n", chunk.len(), std::str::from_utf8(chunk).unwrap()))
                .collect();
            format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nSet-Cookie: a=b\r\nAlt-Svc: h3\r\n\r\n{chunks}0\r\n\r\n").into_bytes()
        }
        path if path.starts_with("/none") => b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(),
        path if path.starts_with("/upgrade") => {
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n".to_vec()
        }
        path if path.starts_with("/renewed") && credential != "Bearer ghp_theRenewedToken43" => {
            b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n".to_vec()
        }
        _ => ok(&format!("X-Echo: {credential}\r\n"), &text),
    }
}

const AUTH: &str = "Authorization: Bearer hearth-github-ce15ea47d32aab97d97e7f9a4fc32419";

#[test]
fn the_host_gets_the_value_and_the_agent_never_does() {
    let world = World::new(echo);
    for path in ["/repos/a?b=c", "/chunks", "/until-end"] {
        let answer = world.ask(&format!("GET {path}"), &[AUTH, "User-Agent: test", "Range: bytes=0-1"], "");
        let got = world.got();
        assert_eq!(got.head.lines().next().unwrap(), format!("GET {path} HTTP/1.1"));
        assert_eq!(got.header("authorization"), [format!("Bearer {VALUE}")], "{path}");
        assert_eq!((got.header("host"), got.header("accept-encoding")), (vec![HOST], vec!["identity"]));
        assert_eq!((got.header("range"), got.header("user-agent")), (vec![], vec!["test"]));
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(!answer.contains(VALUE) && !answer.to_lowercase().contains("set-cookie"), "{answer}");
        if path != "/chunks" {
            assert!(answer.contains(&format!("Bearer {}", "*".repeat(VALUE.len()))), "{answer}");
        }
    }
    let seen = world.seen();
    assert_eq!((seen[0].method.as_str(), seen[0].path.as_str(), seen[0].status), ("GET", "/repos/a", Some(200)));
    assert_eq!((&seen[0].refused, &seen[0].leak), (&None, &None));
}

#[test]
fn a_connection_serves_many_requests() {
    let world = World::new(echo);
    let one = format!("GET /none HTTP/1.1\r\n{AUTH}\r\n\r\n");
    let post = format!("POST /a HTTP/1.1\r\n{AUTH}\r\nContent-Length: 2\r\n\r\nhi");
    let answers = world.raw(&format!("{one}{post}{one}TRACE / HTTP/1.1\r\n\r\n"));
    assert_eq!(answers.matches("HTTP/1.1 204 No Content").count(), 2, "{answers}");
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 1);
    assert!(answers.contains("x-hearth-gate: refused"));
    assert_eq!(world.got.iter().take(3).count(), 3);
    assert_eq!(world.seen().len(), 4);
}

#[test]
fn what_does_not_pass_is_said_and_does_not_arrive() {
    let world = World::with(echo, &[("github", "Authorization: Bearer {}", &["GET /repos/**", "POST /repos/**"])]);
    for (line, headers, body, status, words) in [
        ("GET /repos", &["Authorization: Bearer foreign"][..], "", 403, "placeholder"),
        ("GET /repos", &["Authorization: Bearer hearth-github-of-another-agent"], "", 403, "placeholder"),
        ("GET /repos", &[AUTH, AUTH], "", 400, "twice"),
        ("GET /repos", &[AUTH, "X-Api-Key: k"], "", 403, "x-api-key"),
        ("GET /repos", &[AUTH, "Cookie: a=b"], "", 403, "cookie"),
        ("GET /user", &[AUTH], "", 403, "GET /repos/**, POST /repos/**"),
        ("GET /user", &[], "", 403, "GET /repos/**, POST /repos/**"),
        ("GET /repos/../user", &[AUTH], "", 400, "path"),
        ("GET /repos/%2e%2e/user", &[AUTH], "", 400, "path"),
        ("POST /repos", &["Content-Length: 2", "Transfer-Encoding: chunked"], "hi", 400, "more than one length"),
        ("GET /repos", &["Upgrade: h2c", "Connection: upgrade"], "", 400, "protocol"),
        ("GET /repos", &["Upgrade: websocket", "Connection: upgrade"], "", 403, "WEBSOCKET /path"),
        ("CONNECT evil.example:443", &[], "", 400, "path"),
    ] {
        let answer = world.ask(line, headers, body);
        let answer = if answer.is_empty() {
            world.raw(&format!("{line} HTTP/1.1\r\n{}\r\n\r\n", headers.join("\r\n")))
        } else {
            answer
        };
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{line} {headers:?}: {answer}");
        assert!(answer.contains("x-hearth-gate: refused") && answer.contains(words), "{line} {headers:?}: {answer}");
        assert!(world.nothing_arrived(), "{line} {headers:?}");
    }
    let bare = world.raw("GET /repos HTTP/1.1\nHost: a\n\n");
    assert!(bare.contains("line feed"), "{bare}");
    assert!(world.nothing_arrived());
    assert!(world.seen().iter().all(|seen| seen.refused.is_some()));
}

#[test]
fn answers_that_cannot_be_searched_do_not_pass() {
    let world = World::new(echo);
    assert!(world.ask("GET /gzip", &[AUTH], "").contains("compresses"));
    assert!(world.ask("GET /upgrade", &[AUTH], "").contains("another protocol"));
    let redirect = world.ask("GET /redirect", &[AUTH], "");
    assert!(
        redirect.starts_with("HTTP/1.1 302") && redirect.contains("location: https://evil.example/?t=Bearer ****"),
        "{redirect}"
    );
    assert_eq!(world.got.try_iter().count(), 3, "no redirect is followed");
}

#[test]
fn a_replaced_value_is_read_again_once() {
    let world = World::new(echo);
    *world.value.lock().unwrap() = "ghp_theRenewedToken43".to_owned();
    let answer = world.ask("POST /renewed", &[AUTH, "Content-Length: 4"], "body");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(!answer.contains("ghp_"), "{answer}");
    let (first, second) = (world.got(), world.got());
    assert_eq!(first.header("authorization"), [format!("Bearer {VALUE}")]);
    assert_eq!(
        (second.header("authorization"), second.body.as_slice()),
        (vec!["Bearer ghp_theRenewedToken43"], &b"body"[..])
    );
    *world.value.lock().unwrap() = "ghp_aTokenThatIsNoGood".to_owned();
    let answer = world.ask("GET /renewed", &[AUTH], "");
    assert!(answer.starts_with("HTTP/1.1 200"), "the known value is still good: {answer}");
    assert_eq!(world.got.try_iter().count(), 1);
}

#[test]
fn a_host_is_verified_and_programs_verify_the_gate() {
    let world = World::new(echo);
    let mut client = world.client("other.example");
    assert!(client.write_all(b"GET / HTTP/1.1\r\n\r\n").and_then(|()| client.flush()).is_err());
    assert!(
        world.opener.trust().unwrap().authority.server("other.example").is_ok(),
        "its certificate is worth nothing"
    );
    // Without the authority of this test the host is a stranger.
    let elsewhere = tempfile::tempdir().unwrap();
    let opener = Arc::new(open(elsewhere.path(), None, Arc::new(|_| Ok(VALUE.into()))).unwrap());
    let secrets = [secret(SECRET, "test:value", "Authorization: Bearer {}")];
    let (run, _) = opener.bind(&binding(&uses(SECRET), &secrets)).unwrap();
    let host = Arc::clone(run.host(&HOST.parse().unwrap()).unwrap());
    let gate = start_gate(&world.runtime, &opener, host, world.address, &world.seen);
    let world = World { gate, opener, ..world };
    let answer = world.ask("GET /", &[AUTH], "");
    assert!(answer.starts_with("HTTP/1.1 502") && answer.contains("certificate"), "{answer}");
    assert!(world.nothing_arrived());
}

#[test]
fn the_key_is_kept_and_the_bundle_follows_the_hosts() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::new(echo);
    let (key, bundle) = (world.directory.path().join("authority/key"), world.opener.bundle().unwrap());
    assert_eq!(key.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(bundle.metadata().unwrap().permissions().mode() & 0o777, 0o644);
    let (before, known) = (std::fs::read(&key).unwrap(), std::fs::read(&bundle).unwrap());
    world.opener.trust().unwrap().authority.permit(Vec::new()).unwrap();
    assert_ne!(std::fs::read(&bundle).unwrap(), known);
    assert!(world.client(HOST).write_all(b"GET / HTTP/1.1\r\n\r\n").is_err(), "not for this host any more");
    // A program that has the earlier bundle goes on.
    std::fs::write(&bundle, known).unwrap();
    assert!(world.ask("GET /", &[AUTH], "").starts_with("HTTP/1.1 200"));
    assert_eq!(std::fs::read(&key).unwrap(), before);
}

#[test]
fn a_value_that_cannot_be_used_binds_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let resolve: Resolve = Arc::new(|reference: &str| match reference {
        "test:short" => Ok(b"12345".to_vec()),
        other => Err(format!("`{other}` is not set")),
    });
    let opener = open(directory.path(), None, resolve).unwrap();
    let why =
        |reference: &str| opener.bind(&binding(&uses("pin"), &[secret("pin", reference, "X-Pin: {}")])).err().unwrap();
    assert_eq!(why("test:none"), "the secret pin: `test:none` is not set");
    assert!(why("test:short").contains("shorter than 12 characters"));
    let unknown = opener.bind(&binding(&uses("pin"), &[])).err().unwrap();
    assert_eq!(unknown, "there is no secret pin for TOKEN; add [secrets.pin]");
}
