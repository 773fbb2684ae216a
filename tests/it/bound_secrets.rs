//! Secrets that are bound to hosts, through the real program: a confined agent uses them and does not have them. Skipped
//! where agents get no network of their own.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::host::confined::{House, possible};
use crate::host::skipped;

const VALUE: &str = "ghp_theRealTokenOfTheOwner";
const OTHER: &str = "glpat-anotherRealToken";

/// A host with TLS that answers with the request that it got, in the body and in a header. `/moved` leads elsewhere.
const SERVER: &str = r#"
import http.server, socketserver, ssl, sys
class Echo(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *words): pass
    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        credential = self.headers.get("Authorization") or "none"
        text = f"{self.command} {self.path} {credential} {body}\n".encode()
        self.send_response(302 if self.path == "/moved" else 200)
        if self.path == "/moved":
            self.send_header("Location", "https://elsewhere.example/" + credential)
        self.send_header("X-Echo", credential)
        self.send_header("X-Good", str(credential == "Bearer " + sys.argv[2]))
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    do_GET = do_POST = do_PUT = answer
class Threads(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    allow_reuse_address = True
server = Threads(("127.0.0.1", 0), Echo)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1] + "/cert.pem", sys.argv[1] + "/key.pem")
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_address[1], flush=True)
server.serve_forever()
"#;

/// An authority, and a certificate for this machine.
const CERTIFICATES: &str = r#"
set -e
cd "$1"
openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out roots.pem -days 2 -subj /CN=test 2> /dev/null
openssl req -newkey rsa:2048 -nodes -keyout key.pem -out request.pem -subj /CN=this-machine.internal 2> /dev/null
echo "subjectAltName=DNS:this-machine.internal" > names
openssl x509 -req -in request.pem -CA roots.pem -CAkey ca.key -CAcreateserial -out cert.pem -days 2 -extfile names 2> /dev/null
"#;

struct Host {
    server: Child,
    port: u16,
}

impl Host {
    fn start(files: &Path) -> Self {
        let made = Command::new("sh").args(["-c", CERTIFICATES, "sh", files.to_str().unwrap()]).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        let mut server = Command::new("python3");
        server.args(["-c", SERVER, files.to_str().unwrap(), VALUE]).stdout(Stdio::piped());
        let mut server = server.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { server, port: line.trim().parse().unwrap() }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.server.kill().and_then(|()| self.server.wait()));
    }
}

/// Runs the commands that it is given, and says what came of each.
const AGENT: &str = r#"
def answer(text):
    told = []
    for command in json.loads(text):
        ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
        told.append(ended.stdout[-600:] + (" | " + ended.stderr[-300:] if ended.returncode else ""))
    return json.dumps(told)
"#;

fn said(house: &House, commands: &[String]) -> Vec<String> {
    let asked = serde_json::to_string(commands).unwrap();
    let output = house.hearth(&["chat", "--agent", "py", &asked]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    serde_json::from_str(text.trim()).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// A data directory with an agent that uses two secrets, one of them for the host.
fn furnished(house: &House, host: &Host) {
    for (name, value) in [("token", VALUE), ("other", OTHER)] {
        std::fs::write(house.path("user").join(name), format!("{value}\n")).unwrap();
    }
    let (token, other) = (house.path("user/token"), house.path("user/other"));
    let settings = format!(
        "network = \"listed\"\nsecrets = {{ TOKEN = \"here\", OTHER = \"elsewhere\" }}\n\
         [secrets.here]\nvalue = \"file:{}\"\nhosts = [\"this-machine.internal:{}\"]\n\
         requests = [\"* /open/**\", \"GET /moved\"]\n\
         [secrets.elsewhere]\nvalue = \"file:{}\"\nhosts = [\"elsewhere.example\"]",
        token.display(),
        host.port,
        other.display()
    );
    house.make(&settings, AGENT);
}

#[test]
fn an_agent_uses_a_secret_and_does_not_have_it() {
    let house = House::new();
    if !possible() {
        return;
    }
    if String::from_utf8_lossy(&house.hearth(&["doctor", "--offline"]).stdout).contains("install bubblewrap") {
        return skipped("there is no bubblewrap that works");
    }
    let host = Host::start(&house.path("user"));
    furnished(&house, &host);
    let at = format!("https://this-machine.internal:{}", host.port);
    let auth = "-H \"Authorization: Bearer $TOKEN\"";
    let value = format!("$(printf %s%s {} {})", &VALUE[..9], &VALUE[9..]);
    let other = format!("$(printf %s%s {} {})", &OTHER[..9], &OTHER[9..]);
    let commands: Vec<(String, &str)> = vec![
        ("echo $TOKEN $OTHER; env | grep -c CA_BUNDLE".to_owned(), "hearth-here-"),
        (format!("curl -sSi {auth} {at}/open/a"), "x-good: True"),
        (
            format!(
                "python3 -c 'import os,urllib.request as r; q=r.Request(\"{at}/open/b\",headers={{\"Authorization\":\"Bearer \"+os.environ[\"TOKEN\"]}}); print(r.urlopen(q).headers[\"X-Good\"])'"
            ),
            "True",
        ),
        (
            format!("git -c http.extraHeader=\"Authorization: Bearer $TOKEN\" ls-remote {at}/open/repo 2>&1; true"),
            "not valid",
        ),
        (
            format!(
                "node -e 'fetch(\"{at}/open/c\",{{headers:{{authorization:\"Bearer \"+process.env.TOKEN}}}}).then(r=>console.log(r.headers.get(\"x-good\")))'"
            ),
            "True",
        ),
        (format!("curl -sSi {auth} {at}/moved"), "302"),
        (format!("curl -sS -H 'Authorization: Bearer foreign' {at}/open/a"), "does not have the placeholder"),
        (format!("curl -sS -H \"Authorization: Bearer $OTHER\" {at}/open/a"), "does not have the placeholder"),
        (format!("curl -sS {auth} -H 'X-Api-Key: foreign' {at}/open/a"), "`x-api-key` carries a credential"),
        (format!("curl -sS {auth} {at}/closed"), "allow only"),
        (format!("curl -sS --path-as-is {auth} {at}/open/../closed"), "mean something else"),
        (format!("curl -sS {auth} -d \"t={value}\" {at}/open/a"), "the body of this request has the value of here"),
        (
            format!("curl -sS {auth} \"{at}/open/a?t={other}\""),
            "the address of this request has the value of elsewhere",
        ),
        (
            format!("curl -sS {auth} -H \"X-Note: $(printf %s {other} | base64)\" {at}/open/a"),
            "has the value of elsewhere",
        ),
        ("cat /etc/ssl/certs/ca-certificates.crt | grep -c BEGIN".to_owned(), ""),
        ("ls $HOME/../../run 2>&1; true".to_owned(), ""),
    ];
    let words: Vec<String> = commands.iter().map(|(command, _)| command.clone()).collect();
    let said = said(&house, &words);
    for ((command, expected), says) in commands.iter().zip(&said) {
        assert!(says.contains(expected), "{command}: {says}");
        let hidden = [VALUE, OTHER, "[secret"].iter().all(|text| !says.contains(text));
        assert!(hidden, "{command}: {says}");
    }
    assert!(said[1].contains("Bearer ****"), "the host repeated it: {}", said[1]);
    assert!(said[5].contains("location: https://elsewhere.example/Bearer ****"), "{}", said[5]);
    let shown = house.hearth(&["net", "--json"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("this-machine.internal") && !shown.contains(VALUE) && !shown.contains(OTHER), "{shown}");
    nothing_is_stored(&house);
}

/// No file of the installation has a value.
fn nothing_is_stored(house: &House) {
    let found =
        Command::new("grep").args(["-rlaE", &format!("{VALUE}|{OTHER}")]).arg(house.path("data")).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "");
    let mode = std::os::unix::fs::MetadataExt::mode(&house.path("data/run/authority/key").metadata().unwrap());
    assert_eq!(mode & 0o777, 0o600);
}
