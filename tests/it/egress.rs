//! The way out of an agent with rules, through the real program: programs that know nothing of it work, and what no rule
//! allows is refused. Skipped where agents get no network of their own.

mod killed;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::host::confined::{Setup, possible};
use crate::host::documents::generated;
use crate::host::{Host, python, skipped, wait_for, with_chat};

/// Whether agents can have a network of their own here.
fn has_networks(setup: &Setup) -> bool {
    let shown = setup.hearth(&["doctor", "--offline"]);
    let has = !String::from_utf8_lossy(&shown.stdout).contains("install bubblewrap");
    if !has {
        skipped("there is no bubblewrap that works");
    }
    has
}

/// A server of files, with TLS if it has a certificate, that says on which port it listens. It also echoes lines on a
/// second port, and speaks WebSocket at `/socket`.
const SERVER: &str = r#"
import base64, hashlib, http.server, os, socketserver, ssl, sys, threading
os.chdir(sys.argv[1])
class Files(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *words): pass
    def do_GET(self):
        if self.path != "/socket":
            return super().do_GET()
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        self.wfile.write(b"\x81\x05hello")
        self.wfile.flush()
        self.close_connection = True
class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(b"welcome " + self.rfile.readline())
class Threads(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    allow_reuse_address = True
plain = Threads(("127.0.0.1", 0), Files)
secure = Threads(("127.0.0.1", 0), Files)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("cert.pem", "key.pem")
secure.socket = context.wrap_socket(secure.socket, server_side=True)
echo = Threads(("127.0.0.1", 0), Echo)
for server in (plain, secure, echo):
    threading.Thread(target=server.serve_forever, daemon=True).start()
print(plain.server_address[1], secure.server_address[1], echo.server_address[1], flush=True)
sys.stdin.read()
"#;

/// A server that speaks HTTP/2 alone, and says on which port it listens.
const SERVER_2: &str = r#"
const fs = require("fs"), dir = process.argv[1];
const of = name => fs.readFileSync(dir + "/" + name);
const server = require("http2").createSecureServer({ cert: of("cert.pem"), key: of("key.pem"), allowHTTP1: false });
server.on("stream", stream => { stream.respond({ ":status": 200 }); stream.end("hello from outside"); });
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
process.stdin.on("end", () => process.exit()).resume();
"#;

/// A package of Python, one of npm, and a Git repository, as files.
const FILES: &str = r#"
set -e
cd "$1"
openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=this-machine.internal \
  -addext subjectAltName=DNS:this-machine.internal 2> /dev/null
echo "hello from outside" > hello
mkdir -p simple/tiny package apt
printf 'Package: tiny\nVersion: 1.0\nArchitecture: all\nFilename: ./tiny.deb\nSize: 1\n' > apt/Packages
python3 - <<'END'
import zipfile
wheel = zipfile.ZipFile("simple/tiny/tiny-1.0-py3-none-any.whl", "w")
wheel.writestr("tiny.py", "x = 1\n")
wheel.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
wheel.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
wheel.writestr("tiny-1.0.dist-info/RECORD", "tiny.py,,\ntiny-1.0.dist-info/METADATA,,\ntiny-1.0.dist-info/WHEEL,,\n")
wheel.close()
END
echo '{"name":"small","version":"1.0.0"}' > package/package.json
tar czf small-1.0.0.tgz package
git init -q -b main work
git -C work -c user.name=x -c user.email=x@example.org commit -q --allow-empty -m first
git clone -q --bare work repo.git
git -C repo.git update-server-info
"#;

struct Outside {
    servers: [Child; 2],
    ports: [u16; 4],
}

impl Outside {
    fn start(files: &Path) -> Self {
        let (mut servers, mut ports) = (Vec::new(), Vec::new());
        for (mut server, words) in [(python(), ["-c", SERVER]), (Command::new("node"), ["-e", SERVER_2])] {
            server.args(words).arg(files).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut server = server.spawn().unwrap();
            let mut line = String::new();
            BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
            ports.extend(line.split_whitespace().map(|port| port.parse::<u16>().unwrap()));
            servers.push(server);
        }
        Self { servers: servers.try_into().unwrap(), ports: ports.try_into().unwrap() }
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        for server in &mut self.servers {
            drop(server.kill().and_then(|()| server.wait()));
        }
    }
}

/// A program, how it is tried, and what it has to say.
struct Tried {
    program: &'static str,
    how: &'static str,
    command: &'static str,
    says: &'static str,
}

const fn tried(program: &'static str, how: &'static str, command: &'static str, says: &'static str) -> Tried {
    Tried { program, how, command, says }
}

/// `PLAIN`, `SECURE`, `ECHO` and `SECOND` are replaced by ports, and `@PEM@` by the certificate. `BARE` removes the variables of the proxy.
const PROGRAMS: [Tried; 22] = [
    tried("curl", "HTTP by name", "BARE curl -sS http://this-machine.internal:PLAIN/hello", "hello from outside"),
    tried("curl", "HTTP by proxy", "curl -sS http://this-machine.internal:PLAIN/hello", "hello from outside"),
    tried(
        "curl",
        "HTTPS by name",
        "BARE curl -sS --cacert @PEM@ https://this-machine.internal:SECURE/hello",
        "hello from outside",
    ),
    tried(
        "curl",
        "HTTPS by proxy",
        "curl -sS --cacert @PEM@ https://this-machine.internal:SECURE/hello",
        "hello from outside",
    ),
    tried(
        "curl",
        "WebSocket by name",
        "BARE curl -sS -N --max-time 5 -H 'Connection: Upgrade' -H 'Upgrade: websocket' -H 'Sec-WebSocket-Version: 13' -H 'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==' http://this-machine.internal:PLAIN/socket --output - | tail -c 5",
        "hello",
    ),
    tried(
        "curl",
        "HTTP/2 by name",
        "BARE curl -sS --http2 --cacert @PEM@ -w ' over %{http_version}' https://this-machine.internal:SECOND/",
        "hello from outside over 2",
    ),
    tried(
        "curl",
        "HTTP/2 by proxy",
        "curl -sS --http2 --cacert @PEM@ -w ' over %{http_version}' https://this-machine.internal:SECOND/",
        "hello from outside over 2",
    ),
    tried(
        "Node http2",
        "HTTP/2 by name",
        "BARE node -e 'const c = require(\"http2\").connect(\"https://this-machine.internal:SECOND\", { ca: require(\"fs\").readFileSync(\"@PEM@\") }); const s = c.request({ \":path\": \"/\" }); s.on(\"data\", d => console.log(d.toString())); s.on(\"end\", () => c.close())'",
        "hello from outside",
    ),
    tried(
        "Python websockets",
        "WebSocket over TLS by name",
        "BARE SSL_CERT_FILE=@PEM@ /usr/bin/python3 -c 'import asyncio, websockets; exec(\"async def talk():\\n async with websockets.connect(\\\"wss://this-machine.internal:SECURE/socket\\\") as s: print(await s.recv())\"); asyncio.run(talk())' 2>&1 | tail -3",
        "hello",
    ),
    tried("wget", "HTTP by name", "BARE wget -qO- http://this-machine.internal:PLAIN/hello", "hello from outside"),
    tried(
        "git",
        "HTTP by name",
        "BARE git ls-remote http://this-machine.internal:PLAIN/repo.git main",
        "refs/heads/main",
    ),
    tried(
        "git",
        "HTTPS by proxy",
        "git -c http.sslCAInfo=@PEM@ ls-remote https://this-machine.internal:SECURE/repo.git main",
        "refs/heads/main",
    ),
    tried(
        "Python urllib",
        "HTTP by name",
        "BARE python3 -c 'import urllib.request as r; print(r.urlopen(\"http://this-machine.internal:PLAIN/hello\").read().decode())'",
        "hello from outside",
    ),
    tried(
        "Python urllib",
        "HTTPS by proxy",
        "SSL_CERT_FILE=@PEM@ python3 -c 'import urllib.request as r; print(r.urlopen(\"https://this-machine.internal:SECURE/hello\").read().decode())'",
        "hello from outside",
    ),
    tried(
        "Python, plain TCP",
        "by name",
        "BARE python3 -c 'import socket; s = socket.create_connection((\"this-machine.internal\", ECHO)); s.sendall(b\"you\\n\"); print(s.recv(99).decode())'",
        "welcome you",
    ),
    tried(
        "pip",
        "HTTP by name",
        "mkdir -p ~/work && cd ~/work && BARE python3 -m pip download -q --disable-pip-version-check --no-deps --no-cache-dir --index-url http://this-machine.internal:PLAIN/simple/ --trusted-host this-machine.internal tiny && ls",
        "tiny-1.0-py3-none-any.whl",
    ),
    tried(
        "apt",
        "HTTP by name",
        "mkdir -p ~/apt/lists/partial ~/apt/cache/archives/partial && touch ~/apt/status && echo 'deb [trusted=yes] http://this-machine.internal:PLAIN/apt ./' > ~/apt/list && BARE apt-get -q -o Dir::Etc::SourceList=$HOME/apt/list -o Dir::Etc::SourceParts=/dev/null -o Dir::State=$HOME/apt -o Dir::State::Lists=$HOME/apt/lists -o Dir::State::status=$HOME/apt/status -o Dir::Cache=$HOME/apt/cache -o APT::Sandbox::User= -o Acquire::Retries=0 update && ls ~/apt/lists",
        "apt_._Packages",
    ),
    tried(
        "npm",
        "HTTP by name",
        "mkdir -p ~/work && cd ~/work && BARE npm pack --silent --cache ~/npm http://this-machine.internal:PLAIN/small-1.0.0.tgz",
        "small-1.0.0.tgz",
    ),
    tried(
        "npm",
        "HTTP by proxy",
        "mkdir -p ~/work && cd ~/work && npm pack --silent --cache ~/npm http://this-machine.internal:PLAIN/small-1.0.0.tgz",
        "small-1.0.0.tgz",
    ),
    tried(
        "Node fetch",
        "HTTP by name",
        "BARE node -e 'fetch(\"http://this-machine.internal:PLAIN/hello\").then(r => r.text()).then(console.log)'",
        "hello from outside",
    ),
    tried(
        "Node fetch",
        "HTTPS by name",
        "BARE NODE_EXTRA_CA_CERTS=@PEM@ node -e 'fetch(\"https://this-machine.internal:SECURE/hello\").then(r => r.text()).then(console.log)'",
        "hello from outside",
    ),
    tried(
        "ssh",
        "by name (its first line)",
        "BARE timeout 5 ssh -v -o BatchMode=yes -o StrictHostKeyChecking=no -p ECHO this-machine.internal 2>&1 | grep -o 'Connection established' || true",
        "Connection established",
    ),
];

const BARE: &str = "env -u HTTP_PROXY -u HTTPS_PROXY -u http_proxy -u https_proxy -u NODE_USE_ENV_PROXY";

/// Runs the commands that it is given, one per line, and says what came of each.
const AGENT: &str = r#"
def answer(text):
    told = []
    for command in json.loads(text):
        ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
        told.append(ended.stdout[-300:] + (" | " + ended.stderr[-300:] if ended.returncode else ""))
    return json.dumps(told)
"#;

/// A data directory with an agent that may reach the server.
fn furnished(setup: &Setup, outside: &Outside, network: &str) {
    let allow: Vec<String> = outside.ports.iter().map(|port| format!("\"this-machine.internal:{port}\"")).collect();
    let settings = format!("trust = \"trusted\"\nnetwork = \"{network}\"\nallow = [{}]", allow.join(", "));
    setup.make(&settings, AGENT);
}

fn said(setup: &Setup, commands: &[String]) -> Vec<String> {
    let asked = serde_json::to_string(commands).unwrap();
    let output = setup.hearth(&["chat", "--agent", "py", &asked]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    serde_json::from_str(text.trim()).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn prepared(setup: &Setup) -> Outside {
    let files = setup.path("user");
    let made = Command::new("sh").args(["-c", FILES, "sh", files.to_str().unwrap()]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    Outside::start(&files)
}

#[test]
fn programs_that_know_nothing_of_it_work() {
    let setup = Setup::new();
    if !possible() || !has_networks(&setup) {
        return;
    }
    let outside = prepared(&setup);
    furnished(&setup, &outside, "listed");
    let certificate = setup.path("data/groups/py/cert.pem");
    std::fs::copy(setup.path("user/cert.pem"), &certificate).unwrap();
    let [plain, secure, echo, second] = outside.ports.map(|port| port.to_string());
    let filled = |command: &str| {
        let command = command.replace("BARE", BARE).replace("PLAIN", &plain).replace("SECURE", &secure);
        command.replace("ECHO", &echo).replace("SECOND", &second).replace("@PEM@", certificate.to_str().unwrap())
    };
    let commands: Vec<String> = PROGRAMS.iter().map(|tried| filled(tried.command)).collect();
    let mut table = "| program | how |\n|---|---|\n".to_owned();
    let mut failed = Vec::new();
    for (tried, said) in PROGRAMS.iter().zip(said(&setup, &commands)) {
        if !said.contains(tried.says) {
            failed.push(format!("{}, {}: {said}", tried.program, tried.how));
        }
        table.push_str(&format!("| {} | {} |\n", tried.program, tried.how));
    }
    assert!(failed.is_empty(), "{failed:#?}");
    generated("docs/network.md", "programs: generated from tests/it/egress.rs", "programs", &format!("\n{table}\n"));
}

#[test]
fn what_no_rule_allows_is_refused_and_recorded() {
    let setup = Setup::new();
    if !possible() || !has_networks(&setup) {
        return;
    }
    let outside = prepared(&setup);
    furnished(&setup, &outside, "listed");
    let [plain, ..] = outside.ports;
    let commands = [
        "curl -sS -o /dev/null -w '%{http_connect}' https://other.example/".to_owned(),
        "curl -s http://other.example:8080/".to_owned(),
        format!("{BARE} curl -sS http://other.example/"),
        format!("{BARE} curl -sS --max-time 5 https://other.example/"),
        format!("{BARE} curl -sS http://127.0.0.1:{plain}/hello"),
        format!("curl -sS http://192.0.2.1:{plain}/hello"),
        format!("{BARE} curl -sS --max-time 5 http://192.0.2.1/"),
        format!("{BARE} python3 -c 'import socket; socket.getaddrinfo(\"d.a.t.a.x.y.example.org\", 80)'"),
        "cat /etc/resolv.conf; ls /run/systemd 2>&1".to_owned(),
    ];
    let said = said(&setup, &commands);
    for (at, (says, expected)) in said
        .iter()
        .zip([
            "403",
            "Hearth did not connect to other.example:8080",
            "Hearth did not connect to other.example:80",
            "alert",
            "curl: (",
            "Hearth did not connect to 192.0.2.1",
            "curl: (7)",
            "Name or service not known",
            "nameserver 127.0.0.1",
        ])
        .enumerate()
    {
        assert!(says.contains(expected) && !says.contains("hello from outside"), "{at}: {says}");
    }
    assert!(!said[8].contains("resolve"), "{}", said[8]);
    let shown = setup.hearth(&["net", "--json"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("other.example"), "{shown}");
}

/// A connection that is open when the daemon is stopped is recorded.
#[test]
fn a_clean_stop_loses_no_connection() {
    let setup = Setup::new();
    if !possible() || !has_networks(&setup) {
        return;
    }
    let outside = prepared(&setup);
    furnished(&setup, &outside, "listed");
    let [plain, ..] = outside.ports;
    // The server has answered, and would answer again.
    let open = format!(
        "nohup python3 -c 'import http.client, time; c = http.client.HTTPConnection(\"this-machine.internal\", {plain}); \
         c.request(\"GET\", \"/hello\"); c.getresponse().read(); open(\"held\", \"w\").close(); time.sleep(600)' \
         > /dev/null 2>&1 & while [ ! -e held ]; do sleep 0.05; done; echo held"
    );
    assert!(said(&setup, &[open])[0].contains("held"));
    // `hearth chat` has stopped the daemon that it started.
    let shown = String::from_utf8_lossy(&setup.hearth(&["net", "--json"]).stdout).into_owned();
    assert!(shown.contains(&plain.to_string()), "{shown}");
}

/// Where the network cannot be closed, the agent does not start, and the message says what to do.
#[test]
fn an_agent_whose_network_cannot_be_closed_does_not_start() {
    if !possible() {
        return;
    }
    let mut host = Host::new();
    let agent = "provider = \"command\"\ncommand = [\"python3\", \"x.py\"]\nnetwork = \"ask\"\nunconfined = true";
    host.apply(&with_chat(agent));
    host.start();
    host.inject("1", "go");
    wait_for("the reason to be shown", || {
        let shown = host.run(&["status"], b"");
        let told = shown.stdout + &shown.stderr;
        (told.contains("cannot be enforced here") && told.contains("remove `unconfined = true`")).then_some(())
    });
}
