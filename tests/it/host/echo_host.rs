//! A host with TLS outside of Hearth, which shows what reaches it, and the values of secrets for it.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The value of a secret for the host, and of another one.
pub(crate) const VALUE: &str = "ghp_theRealTokenOfTheOwner";
pub(crate) const OTHER: &str = "glpat-anotherRealToken";

/// A host with TLS that answers with the request that it got, in the body and in a header. `/moved` leads elsewhere. It
/// speaks WebSocket to those who ask, and answers each message with itself and with the credential of the request.
const SERVER: &str = r#"
import base64, hashlib, http.server, socketserver, ssl, sys
class Echo(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *words): pass
    def socket(self, credential):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        self.close_connection = True
        while True:
            first, second = self.rfile.read(2)
            mask = self.rfile.read(4)
            payload = bytes(byte ^ mask[at % 4] for at, byte in enumerate(self.rfile.read(second & 127)))
            if first & 15 == 1:
                payload += b" for " + credential.encode()
            self.wfile.write(bytes([first, len(payload)]) + payload)
            self.wfile.flush()
            if first & 15 == 8:
                return
    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        credential = self.headers.get("Authorization") or "none"
        if self.headers.get("Upgrade"):
            return self.socket(credential)
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

/// Such a host, with an authority whose certificate is in `roots.pem`.
pub(crate) struct EchoHost {
    server: Child,
    pub(crate) port: u16,
}

impl EchoHost {
    pub(crate) fn start(files: &Path) -> Self {
        // A second host has the same certificate.
        if !files.join("roots.pem").exists() {
            let made = Command::new("sh").args(["-c", CERTIFICATES, "sh", files.to_str().unwrap()]).output().unwrap();
            assert!(made.status.success(), "{made:?}");
        }
        let mut server = crate::host::python();
        server.args(["-c", SERVER, files.to_str().unwrap(), VALUE]).stdout(Stdio::piped());
        let mut server = server.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { server, port: line.trim().parse().unwrap() }
    }
}

impl Drop for EchoHost {
    fn drop(&mut self) {
        drop(self.server.kill().and_then(|()| self.server.wait()));
    }
}
