//! The gateway with real sockets: an agent's program on one side, a server of models on the other.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;
use crate::model::agent::EnvValue;
use crate::model::gateway::{Operation, SOCKET};

mod caps;
mod known;

const KEY: &str = "sk-ant-api03-the-real-one";
const SESSION: SessionId = SessionId::new(4);
/// Long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A request as the server of models got it.
#[derive(Debug, Clone)]
struct Got {
    line: String,
    headers: Vec<String>,
    body: String,
}

impl Got {
    fn header(&self, name: &str) -> Vec<&str> {
        let start = format!("{name}: ");
        self.headers.iter().filter_map(|line| line.strip_prefix(&start)).collect()
    }
}

/// A server of models. It answers each request with the next of its answers, piece by piece as they are sent.
struct Server {
    address: SocketAddr,
    got: Receiver<Got>,
    pieces: Sender<Option<String>>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (told, got) = channel();
        let (pieces, next) = channel();
        let next = Arc::new(Mutex::new(next));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (told, next) = (told.clone(), Arc::clone(&next));
                std::thread::spawn(move || serve_one(stream, &told, &next));
            }
        });
        Self { address, got, pieces }
    }

    /// Sends a piece of the answer.
    fn send(&self, piece: &str) {
        self.pieces.send(Some(piece.to_owned())).unwrap();
    }

    /// Sends a whole answer. Each connection has one request, and the answer says so: a request on a connection that is
    /// about to be closed would be lost.
    fn answer(&self, status: &str, headers: &str, body: &str) {
        let length = body.len();
        self.send(&format!(
            "HTTP/1.1 {status}\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n{body}"
        ));
        self.pieces.send(None).unwrap();
    }

    fn got(&self) -> Got {
        self.got.recv_timeout(PATIENCE).unwrap()
    }

    fn is_unasked(&self) -> bool {
        self.got.try_recv().is_err()
    }
}

fn serve_one(mut stream: TcpStream, told: &Sender<Got>, next: &Mutex<Receiver<Option<String>>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        if line == "\r\n" {
            break;
        }
        lines.push(line.trim_end().to_owned());
    }
    let mut got = Got { line: lines.remove(0), headers: lines, body: String::new() };
    let length = got.header("content-length").first().map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    got.body = String::from_utf8(body).unwrap();
    told.send(got).ok();
    let next = next.lock().unwrap();
    while let Ok(Some(piece)) = next.recv() {
        if stream.write_all(piece.as_bytes()).is_err() {
            return;
        }
    }
}

/// A gateway, with the calls that it reports.
struct World {
    _directory: tempfile::TempDir,
    root: PathBuf,
    gateway: Gateway,
    calls: Receiver<ModelCall>,
    /// The value of the reference `test:key`.
    key: Arc<Mutex<String>>,
}

fn start(root: &Path, key: &Arc<Mutex<String>>) -> (Gateway, Receiver<ModelCall>) {
    let (finished, calls) = channel();
    let finished = Mutex::new(finished);
    let key = Arc::clone(key);
    let setup = Setup {
        directory: root.join("gate"),
        key: root.join("gateway.key"),
        resolve: Arc::new(move |reference| match reference {
            "test:key" => Ok(key.lock().unwrap().clone().into_bytes()),
            other => Err(format!("`{other}` is unknown")),
        }),
        finished: Arc::new(move |call| drop(finished.lock().unwrap().send(call))),
    };
    (Gateway::start(setup).unwrap(), calls)
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().to_owned();
        Self::in_directory(directory, root)
    }

    fn in_directory(directory: tempfile::TempDir, root: PathBuf) -> Self {
        let key = Arc::new(Mutex::new(KEY.to_owned()));
        let (gateway, calls) = start(&root, &key);
        Self { _directory: directory, root, gateway, calls, key }
    }

    fn open(&self, incarnation: u32, settings: &AgentSettings, reach: Reach) -> ModelAccess {
        let opening = OpenedRun { session: SESSION, incarnation, agent: "main", settings, reach };
        self.gateway.open(&opening).unwrap().unwrap()
    }

    fn call(&self) -> ModelCall {
        self.calls.recv_timeout(PATIENCE).unwrap()
    }
}

/// An agent whose key is a reference, and whose server this is.
fn agent(server: &Server) -> AgentSettings {
    let url = format!("http://{}", server.address);
    let mut settings = AgentSettings::named("Main".to_owned());
    settings.env = vec![
        ("ANTHROPIC_API_KEY".to_owned(), EnvValue::Reference("test:key".to_owned())),
        ("ANTHROPIC_BASE_URL".to_owned(), EnvValue::Plain(url.clone())),
        ("OPENAI_API_KEY".to_owned(), EnvValue::Plain("sk-plain-text-key".to_owned())),
        ("OPENAI_BASE_URL".to_owned(), EnvValue::Plain(format!("{url}/prefix/v1/"))),
    ];
    settings
}

const SOCKETS: Reach = Reach::Socket { owner: None };

/// The agent's program. Its connection ends with its answer.
struct Program {
    stream: BufReader<UnixStream>,
}

impl Program {
    fn ask(access: &ModelAccess, request: &str) -> Self {
        let GatewayAddress::Socket(directory) = &access.address else { panic!("{:?}", access.address) };
        let mut stream = UnixStream::connect(directory.join(SOCKET)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line
    }

    /// Everything up to a line with this text.
    fn until(&mut self, text: &str) -> String {
        let mut all = String::new();
        while !all.contains(text) {
            let line = self.line();
            assert!(!line.is_empty(), "it ended: {all}");
            all.push_str(&line);
        }
        all
    }

    fn all(mut self) -> String {
        let mut all = Vec::new();
        // A connection that was cut may end in an error.
        self.stream.read_to_end(&mut all).ok();
        String::from_utf8(all).unwrap()
    }
}

fn post(path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: 127.0.0.1:1\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n{body}"
    )
}

fn with_key(access: &ModelAccess) -> String {
    format!("x-api-key: {}\r\n", access.placeholder("ANTHROPIC_API_KEY").unwrap())
}

const MESSAGES: &str = "/anthropic/v1/messages?beta=true";
const BODY: &str = r#"{"model":"m","max_tokens":1}"#;

#[test]
fn the_server_gets_the_key_and_the_agent_the_answer() {
    let (world, server) = (World::new(), Server::start());
    let access = world.open(1, &agent(&server), SOCKETS);
    let placeholder = access.placeholder("ANTHROPIC_API_KEY").unwrap().to_owned();
    assert!(placeholder.starts_with("sk-ant-api03-hearth-") && !placeholder.contains(KEY), "{placeholder}");
    let extra = "user-agent: test\r\nanthropic-version: 1\r\nexpect: 100-continue\r\nrange: bytes=1-\r\nx-hop: 1\r\naccept-encoding: gzip\r\n";
    let headers = format!("{}{extra}connection: x-hop\r\n", with_key(&access));
    let program = Program::ask(&access, &post(MESSAGES, &headers, BODY));
    server.answer(
        "200 OK",
        "content-type: application/json\r\nset-cookie: a=b\r\nx-kept: yes\r\n",
        r#"{"model":"m-2","usage":{"input_tokens":3,"output_tokens":4}}"#,
    );
    let got = server.got();
    assert_eq!(got.line, "POST /v1/messages?beta=true HTTP/1.1");
    assert_eq!(got.header("x-api-key"), [KEY]);
    assert_eq!(got.header("host"), [server.address.to_string()]);
    assert_eq!((got.header("accept-encoding"), got.header("user-agent")), (vec!["identity"], vec!["test"]));
    for dropped in ["expect", "range", "x-hop", "connection"] {
        assert_eq!(got.header(dropped), [""; 0], "{dropped}");
    }
    assert_eq!(got.body, BODY);
    let answer = program.all();
    assert!(answer.contains("200 OK") && answer.contains("x-kept: yes") && answer.contains("\"m-2\""), "{answer}");
    assert!(!answer.contains("set-cookie") && !answer.contains(KEY), "{answer}");
    let call = world.call();
    assert_eq!(
        (call.session, call.incarnation, call.operation, call.status),
        (SESSION, 1, Operation::Messages, Some(200))
    );
    assert_eq!((call.model.as_deref(), call.complete), (Some("m-2"), true));
    assert_eq!(call.usage.map(|usage| (usage.input, usage.output)), Some((3, 4)));
}

#[test]
fn a_stream_is_passed_on_as_it_comes_and_counted() {
    let (world, server) = (World::new(), Server::start());
    let access = world.open(1, &agent(&server), SOCKETS);
    let mut program = Program::ask(&access, &post(MESSAGES, &with_key(&access), BODY));
    server.send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n");
    server.send("data: {\"type\":\"message_start\",\"message\":{\"model\":\"m\",\"usage\":{\"input_tokens\":9}}}\n\n");
    program.until("message_start");
    server.send("data: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":5}}\n\n");
    program.until("message_delta");
    server.send("data: {\"type\":\"message_stop\"}\n\n");
    server.pieces.send(None).unwrap();
    program.all();
    let call = world.call();
    assert_eq!((call.usage.map(|usage| (usage.input, usage.output)), call.complete), (Some((9, 5)), true));
}

#[test]
fn what_is_counted_for_hearth_alone_is_taken_out_again() {
    let (world, server) = (World::new(), Server::start());
    let access = world.open(1, &agent(&server), SOCKETS);
    let headers = format!("authorization: Bearer {}\r\n", access.placeholder("OPENAI_API_KEY").unwrap());
    let request = post("/openai/v1/chat/completions", &headers, r#"{"model":"m","stream":true}"#);
    let program = Program::ask(&access, &request);
    let (text, count) = ("data: {\"choices\":[{}]}\n\n", "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7}}\n\n");
    server.answer("200 OK", "content-type: text/event-stream\r\n", &format!("{text}{count}data: [DONE]\n\n"));
    let got = server.got();
    assert_eq!(got.line, "POST /prefix/v1/chat/completions HTTP/1.1");
    assert_eq!(got.header("authorization"), ["Bearer sk-plain-text-key"]);
    assert!(got.body.contains("include_usage"), "{}", got.body);
    let answer = program.all();
    assert!(
        answer.contains("choices\":[{}]") && answer.contains("[DONE]") && !answer.contains("prompt_tokens"),
        "{answer}"
    );
    assert_eq!(world.call().usage.map(|usage| usage.input), Some(7));
}

#[test]
fn a_hostile_request_reaches_no_server() {
    let (world, server) = (World::new(), Server::start());
    let access = world.open(1, &agent(&server), SOCKETS);
    let ours = with_key(&access);
    let long = (limits::BODY_MIB << 20) + 1;
    let chunked = "transfer-encoding: chunked\r\n";
    let smuggled = format!(
        "POST {MESSAGES} HTTP/1.1\r\nhost: a\r\n{ours}content-length: 4\r\n{chunked}\r\n0\r\n\r\nPOST /v1/files HTTP/1.1\r\nhost: a\r\n\r\n"
    );
    for (request, status) in [
        (post(MESSAGES, "", BODY), "401"),
        (post(MESSAGES, "x-api-key: sk-ant-api03-of-somebody-else\r\n", BODY), "401"),
        (post(MESSAGES, &format!("{ours}{ours}"), BODY), "400"),
        (post(MESSAGES, &format!("{ours}x-api-key: sk-other\r\n"), BODY), "400"),
        (post(MESSAGES, &format!("{ours}authorization: Bearer sk-other\r\n"), BODY), "403"),
        (post(MESSAGES, &format!("{ours}cookie: a=b\r\n"), BODY), "403"),
        (post("/anthropic/v1/messages?key=sk-other", &ours, BODY), "403"),
        (post("/anthropic/v1/files", &ours, BODY), "403"),
        (post("/anthropic/v1/files/../messages", &ours, BODY), "400"),
        (post("/anthropic/v1/%66iles", &ours, BODY), "400"),
        (post("/gemini/v1beta/models/g:generateContent", &ours, BODY), "404"),
        (post("http://elsewhere.example/anthropic/v1/messages", &ours, BODY), "400"),
        (post(MESSAGES, &ours, "[]"), "400"),
        (post(MESSAGES, &ours, r#"{"model":"a","model":"b"}"#), "400"),
        (post(MESSAGES, &format!("{ours}{chunked}"), BODY), "400"),
        (smuggled, "400"),
        (
            format!("POST {MESSAGES} HTTP/1.1\r\nhost: a\r\n{ours}content-length: 4\r\ncontent-length: 5\r\n\r\n{{}}"),
            "400",
        ),
        (
            format!("POST {MESSAGES} HTTP/1.1\r\nhost: a\r\n{ours}content-length: {long}\r\nconnection: close\r\n\r\n"),
            "413",
        ),
        ("CONNECT api.anthropic.com:443 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n".to_owned(), "400"),
        (format!("TRACE /anthropic/v1/messages HTTP/1.1\r\nhost: a\r\n{ours}connection: close\r\n\r\n"), "403"),
        ("\0\r\n\r\n".to_owned(), "400"),
    ] {
        let answer = Program::ask(&access, &request).line();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{request:?}: {answer}");
        assert!(server.is_unasked(), "{request:?}");
    }
}

/// A placeholder is worth something only at the address of its incarnation, as long as that lives.
#[test]
fn another_incarnation_cannot_use_a_placeholder() {
    let (world, server) = (World::new(), Server::start());
    let settings = agent(&server);
    let (first, second) = (world.open(1, &settings, SOCKETS), world.open(2, &settings, SOCKETS));
    assert_ne!(first.placeholders, second.placeholders);
    let mut stolen = Program::ask(&second, &post(MESSAGES, &with_key(&first), BODY));
    assert!(stolen.line().contains("401"));
    world.gateway.close(SESSION, 1);
    let GatewayAddress::Socket(directory) = &first.address else { panic!() };
    assert!(UnixStream::connect(directory.join(SOCKET)).is_err() && !directory.exists());
    assert!(server.is_unasked());
}

#[test]
fn the_end_of_an_incarnation_cuts_its_streams() {
    let (world, server) = (World::new(), Server::start());
    let access = world.open(1, &agent(&server), SOCKETS);
    let mut program = Program::ask(&access, &post(MESSAGES, &with_key(&access), BODY));
    server.send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":9}}}\n\n");
    program.until("message_start");
    world.gateway.close(SESSION, 1);
    let rest = program.all();
    assert!(!rest.contains("\r\n0\r\n"), "it looks whole: {rest:?}");
    let call = world.call();
    assert_eq!((call.usage.map(|usage| usage.input), call.complete), (Some(9), false));
}

#[test]
fn a_server_that_repeats_the_key_is_cut_off() {
    let (world, server) = (World::new(), Server::start());
    let access = world.open(1, &agent(&server), SOCKETS);
    let asked = || Program::ask(&access, &post(MESSAGES, &with_key(&access), BODY));
    let program = asked();
    let (head, tail) = KEY.split_at(9);
    server.send(&format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\nyour key is {head}"));
    server.got();
    std::thread::sleep(Duration::from_millis(50));
    server.send(&format!("{tail}, and more"));
    server.pieces.send(None).unwrap();
    let answer = program.all();
    assert!(answer.contains("your key is ") && !answer.contains(head) && !answer.contains("more"), "{answer}");
    let program = asked();
    server.answer("200 OK", &format!("x-echo: {KEY}\r\n"), "");
    let answer = program.all();
    assert!(answer.contains("502") && !answer.contains(KEY), "{answer}");
    for headers in ["content-encoding: gzip\r\n", "location: http://elsewhere.example\r\n"] {
        let program = asked();
        let status = if headers.starts_with("location") { "302 Found" } else { "200 OK" };
        server.answer(status, headers, "");
        let answer = program.all();
        assert!(answer.contains("502") && !answer.contains("elsewhere"), "{answer}");
    }
}

#[test]
fn a_key_that_was_replaced_is_read_again_and_a_wrong_one_once() {
    let (world, server) = (World::new(), Server::start());
    let access = world.open(1, &agent(&server), SOCKETS);
    let asked = || Program::ask(&access, &post(MESSAGES, &with_key(&access), BODY));
    let program = asked();
    server.got();
    *world.key.lock().unwrap() = "sk-ant-the-new-one".to_owned();
    server.answer("401 Unauthorized", "", "{}");
    assert_eq!(server.got().header("x-api-key"), ["sk-ant-the-new-one"]);
    server.answer("200 OK", "", "{}");
    assert!(program.all().contains("200 OK"));
    let program = asked();
    server.answer("401 Unauthorized", "", "{\"refused\":1}");
    server.got();
    assert!(program.all().contains("refused"));
    assert!(server.is_unasked(), "the key is the same, so it is not tried again");
}

#[test]
fn a_server_that_is_not_there_is_an_error_that_may_pass() {
    let (world, server) = (World::new(), Server::start());
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut settings = agent(&server);
    settings.env[1].1 = EnvValue::Plain(format!("http://{free}"));
    settings.env[0].1 = EnvValue::Reference("test:unknown".to_owned());
    let access = world.open(1, &settings, SOCKETS);
    let answer = Program::ask(&access, &post(MESSAGES, &with_key(&access), BODY)).all();
    assert!(answer.contains("500") && answer.contains("`test:unknown` is unknown"), "{answer}");
    settings.env[0].1 = EnvValue::Reference("test:key".to_owned());
    let access = world.open(2, &settings, SOCKETS);
    let answer = Program::ask(&access, &post(MESSAGES, &with_key(&access), BODY)).all();
    assert!(answer.contains("502") && answer.contains("\"type\":\"error\""), "{answer}");
    assert!(answer.contains("Hearth cannot reach the model's server: nothing listens there"), "{answer}");
    let [unread, unreached] = [world.call(), world.call()];
    assert_eq!((unread.status, unread.complete, unreached.status, unreached.complete), (None, true, None, true));
}

#[test]
fn only_the_listed_models_are_used() {
    let (world, server) = (World::new(), Server::start());
    let settings = AgentSettings { models: vec!["small".to_owned()], ..agent(&server) };
    let access = world.open(1, &settings, SOCKETS);
    let answer = Program::ask(&access, &post(MESSAGES, &with_key(&access), BODY)).all();
    assert!(answer.contains("404") && answer.contains("may not use the model m; it may use small"), "{answer}");
    assert!(server.is_unasked());
    let program = Program::ask(&access, &post(MESSAGES, &with_key(&access), r#"{"model":"small"}"#));
    server.answer("200 OK", "", "{}");
    assert!(program.all().contains("200 OK"));
}

/// A container that outlives the daemon sees the same directory, and its placeholder goes on being good.
#[test]
fn the_next_daemon_takes_over_entrances_and_removes_others() {
    let (mut world, server) = (World::new(), Server::start());
    let settings = agent(&server);
    let (access, dead) = (world.open(1, &settings, SOCKETS), world.open(2, &settings, SOCKETS));
    let (GatewayAddress::Socket(place), GatewayAddress::Socket(of_dead)) = (&access.address, &dead.address) else {
        panic!()
    };
    let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&path.metadata().unwrap());
    let before = inode(place);
    (world.gateway, world.calls) = start(&world.root, &world.key);
    let again = world.open(1, &settings, SOCKETS);
    assert_eq!((again.placeholders, inode(place)), (access.placeholders.clone(), before));
    world.gateway.remove_left(&[IncarnationId::new(SESSION, 1)]);
    assert!(place.exists() && !of_dead.exists());
    let program = Program::ask(&access, &post(MESSAGES, &with_key(&access), BODY));
    server.answer("200 OK", "", "{}");
    assert!(program.all().contains("200 OK"));
}

#[test]
fn only_the_daemons_user_reaches_a_socket_and_its_path_may_be_long() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("x".repeat(120));
    std::fs::create_dir(&root).unwrap();
    let (world, server) = (World::in_directory(directory, root), Server::start());
    let access = world.open(1, &agent(&server), SOCKETS);
    let GatewayAddress::Socket(place) = &access.address else { panic!() };
    assert!(place.as_os_str().len() > 108 && place.join(SOCKET).exists());
    assert_eq!(place.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(place.parent().unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn an_agent_in_the_machines_network_has_a_port() {
    let (world, server) = (World::new(), Server::start());
    let settings = agent(&server);
    let access = world.open(1, &settings, Reach::Port);
    let GatewayAddress::Port(port) = access.address else { panic!() };
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(post(MESSAGES, &with_key(&access), BODY).as_bytes()).unwrap();
    server.answer("200 OK", "", "{}");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("200 OK"), "{answer}");
    world.gateway.close(SESSION, 1);
    assert!(matches!(world.open(2, &settings, Reach::Nowhere).address, GatewayAddress::None));
    let opening =
        |settings| OpenedRun { session: SESSION, incarnation: 3, agent: "main", settings, reach: Reach::Port };
    let without = AgentSettings { env: Vec::new(), ..settings.clone() };
    assert!(world.gateway.open(&opening(&without)).unwrap().is_none());
    let wrong = AgentSettings {
        env: vec![
            ("OPENAI_API_KEY".to_owned(), EnvValue::Plain("a".to_owned())),
            ("OPENAI_BASE_URL".to_owned(), EnvValue::Plain("nowhere".to_owned())),
        ],
        ..settings
    };
    assert!(matches!(world.gateway.open(&opening(&wrong)), Err(Error::Address { variable: "OPENAI_BASE_URL", .. })));
}
